"""`folkmoot serve`: a program that answers over HTTP."""

from __future__ import annotations

import os

from ...modules.base.errors import UserError
from ..cli.command import Command
from ..cli.guard import results, say
from ..cli.options import View
from .request import TOKEN, ServeRequest


def run(request: ServeRequest, view: View) -> None:
    from ..cli.show import print_json
    from .serve import serve_program

    def ready(address: str, lms: str) -> None:
        if view.as_json:
            print_json({"url": address, "lm": lms})
        else:
            say(f"{lms} answers at {address}/answer; Ctrl-C ends it")
        results().flush()

    if request.token is None and os.environ.get(TOKEN) is not None:
        raise UserError(f"{TOKEN} is empty, so anybody could ask: set it to a word, or unset it")
    serve_program(request, ready)


COMMAND = Command(ServeRequest, View, run)
