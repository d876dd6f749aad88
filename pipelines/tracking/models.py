"""The model that `mlflow.pyfunc.load_model` makes of a logged program. Programs are logged without
this module, since importing `mlflow.pyfunc` takes time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dspy
from mlflow import pyfunc

from ...modules.base.calls import CallError, FatalCallError
from ...modules.base.errors import UserError
from ...modules.base.sync import run_sync
from ...modules.protocols.program import Program
from ...modules.protocols.saved import SavedLM
from ...modules.reading.question import Question, from_row
from ..lms.named import EVERY, check_address
from ..lms.named import lm as make_lm
from ..programs.saved import lm_of, saved_program
from .log_model import OUTPUTS, PROGRAM

AT_ONCE = 16

if TYPE_CHECKING:
    _PythonModel = Any
else:

    class _PythonModel(pyfunc.PythonModel):
        def __init_subclass__(cls, **options: object) -> None:
            """MLflow warns about `predict` without type hints, and with hints does not accept a
            data frame.
            """


class ProgramModel(_PythonModel):  # type: ignore[misc]
    """The model that `mlflow.pyfunc.load_model` returns; `unwrap_python_model().program` is the
    program.

    `model_config` of `load_model` may have `lm` (a name, for agents without their own LM),
    `api_base` (one address, or addresses by agent, `*` for all others) and `environment` (such as
    `corpus:PATH`).
    """

    program: Program
    lm: dspy.BaseLM | None

    def load_context(self, context: Any) -> None:
        config = dict(context.model_config or {})
        address, lm = config.get("api_base") or {}, config.get("lm")
        bases = {EVERY: address} if isinstance(address, str) else dict(address)

        def make(name: str, *, seat: str, addressed: bool, **settings: Any) -> dspy.BaseLM:
            base = bases.get(seat) or bases.get(EVERY)
            if addressed and base is None:
                how = f"model_config={{'api_base': {{{seat!r}: 'http://…/v1'}}}}"
                check_address(name, seat, how)
            return make_lm(name, api_base=base, **settings)

        self.program = saved_program(
            context.artifacts[PROGRAM], environment=config.get("environment"), make_lm=make
        )
        if isinstance(lm, str):
            lm = make_lm(lm, api_base=bases.get(EVERY))
        elif lm is not None:
            lm = lm_of(SavedLM.model_validate(lm), EVERY, "the model", make)
        self.lm = lm

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # MLflow reads hints
        """One row per question: answer, decided_by, rounds, and the error of a question that
        failed.
        """
        import pandas

        rows = model_input
        if isinstance(rows, pandas.DataFrame):
            rows = rows.to_dict("records")
        if isinstance(rows, Mapping):
            rows = [rows]
        questions = [_question(row, f"row {place}") for place, row in enumerate(rows, 1)]
        with dspy.context(lm=self.lm, disable_history=True):
            answers = run_sync(self._answer, questions)
        return pandas.DataFrame(answers, columns=list(OUTPUTS), dtype=object)

    async def _answer(self, questions: Sequence[Question]) -> list[dict[str, object]]:
        at_once = asyncio.Semaphore(AT_ONCE)

        async def answered(question: Question) -> dict[str, object]:
            async with at_once:
                try:
                    prediction = await self.program.acall(**question.inputs())
                # A wrong key or a spent budget fails for every question, and must not look like
                # bad answers.
                except FatalCallError:
                    raise
                except CallError as problem:
                    return {**dict.fromkeys(OUTPUTS), "error": str(problem)}
            return {name: prediction.get(name) for name in OUTPUTS}

        return list(await asyncio.gather(*map(answered, questions)))


def _question(row: object, where: str) -> Question:
    """Return a row as a question; an empty cell of a data frame is None."""
    if not isinstance(row, Mapping):
        raise UserError(
            f"{where} is not a question: give rows with question, choices, context and kind"
        )
    cells = {key: cell.tolist() if hasattr(cell, "tolist") else cell for key, cell in row.items()}
    # NaN, which stands for an empty cell, is not equal to itself
    fields = {key: value for key, value in cells.items() if value == value}
    return from_row({"id": where, **fields}, where)
