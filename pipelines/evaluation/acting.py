"""What an evaluation of tasks needs beside that of questions: a sandbox, and maybe workers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from ...modules.protocols.program import Program
from ...modules.reading.question import Question
from ..meter.programs import runs_on_workers
from ..tasks.check import sandbox_of
from ..tasks.cluster import check_cluster, where_code_runs
from ..tasks.folder import workplace
from .request import EvaluateRequest


def check_workers(
    request: EvaluateRequest, program: Program, questions: Sequence[Question]
) -> None:
    """Raise UserError for an engine that cannot do these tasks."""
    check_cluster(request, request.recheck or runs_on_workers(program), questions)


def place_of_code(request: EvaluateRequest, metric: object) -> str:
    """Where programs and checks run, in the words of a plan."""
    return where_code_runs(sandbox_of(metric), request)


def workplace_of(
    request: EvaluateRequest, metric: object, questions: Sequence[Question], run: Path
) -> AbstractContextManager[None]:
    """Let the tasks be done below a run's folder."""
    origins = {question._origin for question in questions}
    return workplace(sandbox_of(metric), run, origins, request.workers_host)
