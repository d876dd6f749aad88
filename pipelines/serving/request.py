"""The request of `folkmoot serve`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from ..base.request import LMs, Option, ProgramSpec, Spending, folder

TOKEN = "FOLKMOOT_SERVE_TOKEN"


@dataclass
class ServeRequest(LMs, Spending):
    """Answer questions over HTTP: POST /answer takes a question's fields and returns its answer.

    The body is such as {"question": "…", "choices": ["bank", "mall"]}: give the choices if the
    program was measured with choices. The reply has `answer` (of a choice, its label, such as A),
    `decided_by` and `cost_usd`, or status 202 and no answer where a calibrated router hands the
    question to a person. GET /health says that the server runs. Every call is in the folder's
    ledger. Ctrl-C ends the server.
    """

    example: ClassVar[str] = "serve runs/ens --lm openai/gpt-4o-mini --port 8080"

    program: ProgramSpec
    _: KW_ONLY
    host: Annotated[
        str,
        Option(
            metavar="HOST",
            help="Address to listen on; other machines can only connect with --token.",
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 lets the system choose.")] = 8080
    token: Annotated[
        str | None,
        Option(
            metavar="WORD",
            envvar=TOKEN,
            help="Answer only requests with the header `Authorization: Bearer WORD`.",
        ),
    ] = None
    within: Annotated[
        float, Option(min=0.1, metavar="SECONDS", help="Give up a question after this time.")
    ] = 60.0
    question_budget: Annotated[
        str | None,
        Option(metavar="LIMITS", help='Hard ceiling of each question, such as "0.01 USD".'),
    ] = None
    out: Annotated[str | Path, Path, folder("Folder of the ledger.")] = Path("runs/serve")
