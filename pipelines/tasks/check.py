"""The check of tasks: a command or a function of the user's decides whether an answer is right."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import dspy

from ...modules.base.connections import of_loop
from ...modules.base.errors import UserError
from ...modules.base.files import check_inside
from ...modules.base.keyed import without_none
from ...modules.base.sync import in_thread, on_own_loop
from ...modules.reading.grading import Graded, MetricError, MetricFields
from ...modules.reading.metrics import Metric, code_of
from ...modules.reading.question import Question
from ...modules.reading.row import CHECK, CheckFields
from ..base.settings import settings
from ..base.wording import counted, shortened
from .folder import Workplace, lay, own_options, place_around, put, put_back
from .process import run, words_of
from .sandbox import BWRAP, HIDES, NONE, Sandbox

CHECK_SECONDS = 120.0
CHECK_SUCH = "python -m pytest -q"
MOST_LINES = 40
"""The last lines of a check that a row keeps."""

MOST_LINE = 500  # characters
NOT_FOUND = (126, 127)
"""Exit codes of a command that could not be run."""

_RUNNERS = re.compile(r"(?:(?:^|[\s/]|\s-m)(?:pytest|py\.test)|\s-m ?unittest)(?=\s|$)")
"""Commands that say how many tests they ran; not a folder of such a name."""
_RAN = re.compile(r"(?:\b|m)\d+ (?:passed|skipped|xfailed|xpassed)\b|\[100%\]|(?:^|m)OK\b")
"""What they say once tests have passed; an `m` ends the code of a colour."""
_RAN_NONE = re.compile(r"Ran 0 tests in |[#ℹ] tests 0$")
"""What unittest (before Python 3.12) and Node say, with exit code 0, where they found no test."""
_PYTHON = re.compile(
    "(?:env\0(?:[^\0]+=[^\0]*\0)*)?(?:[^\0]*/)?python(?:3[0-9.]*)?\0"
    "(?:(?:-[bBdEIOPqRsSuv]+|-[WX]\0?[^\0]+)\0)*(?=[^-]|-[mc]\0)"
)
"""What starts Python, up to what it runs; a 0 ends each word."""

TRIES = 5
"""A run ends when its check has not run on its first so many tasks."""


_AT_ONCE: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
"""Lets checks run. With more of them at once than there are cores, right answers would take longer
than they may.
"""


def _one_a_core() -> asyncio.Semaphore:
    return asyncio.Semaphore(os.cpu_count() or 1)


class _Ran(NamedTuple):
    """What a check said: its score, feedback, and how it ended."""

    score: Any
    feedback: str | None
    fields: CheckFields


class Check(Metric):
    """A metric for tasks: what a program left is right where the check says so.

    It runs in a folder with the task's files, the answer and the tests. Exit code 0 is right; a
    last line that is a JSON object with `score` (0 to 1) and maybe `feedback` counts instead.

    Args:
        check: a command, not run by a shell, or a function (task, folder) that returns True or
            False, a score, or (score, feedback).
        answer_file: where the text of an answer goes: its last fenced block in the file's language,
            else its last one, else all of it. Without it a text must be a unified diff.
        sandbox: what runs programs and checks: `bwrap` (the default), `docker:IMAGE`,
            `podman:IMAGE` or `none`.
        seconds: that one check may take; after that the answer is wrong.

    Raises UserError for a command that is not there, and a sandbox that cannot be used.
    """

    such = "(task, folder)"

    def __init__(
        self,
        check: str | Callable[..., object],
        *,
        answer_file: str | None = None,
        sandbox: str | None = None,
        seconds: float = CHECK_SECONDS,
    ) -> None:
        self.command: str | None = None
        self.words: list[str] = []
        if isinstance(check, str):
            self.command, self.words = check, words_of(check, "check", CHECK_SUCH)
        self.sandbox = Sandbox.of(sandbox)
        # A container has commands of its own, which cannot be looked for from here.
        if self.words and self.sandbox.name in (BWRAP, NONE) and _is_missing(self.words[0]):
            raise UserError(f"--check: there is no command {self.words[0]!r}: install it")
        if answer_file is not None:
            check_inside(answer_file, "--answer-file")
        self.answer_file, self.seconds = answer_file, seconds
        self._runs, self._failures, self._least, self._last = False, 0, 1, ""
        asked = check if callable(check) else self._checked
        super().__init__(asked, CHECK, low=0.0, high=1.0)
        self._waits, self._async = self._async, True  # `grade` waits for a command, too

    def __reduce__(self) -> tuple[object, ...]:
        return self.like, (self.command or self.function,)

    @property
    def like(self) -> partial[Check]:
        """Make another check in the same sandbox."""
        return partial(
            Check, answer_file=self.answer_file, sandbox=self.sandbox.name, seconds=self.seconds
        )

    def identity(self) -> MetricFields:
        asked = self.command or code_of(self.function)
        code = hashlib.sha256(repr([asked, self.answer_file]).encode()).hexdigest()[:16]
        return MetricFields(name=CHECK, spec=None, code=code, low=0.0, high=1.0, rate=None)

    async def grade(self, question: Question, prediction: dspy.Prediction) -> Graded:
        """Return the score of an answer. Raises MetricError where the check cannot be run;
        UserError where it runs on no task.
        """
        if prediction.get("answer") is None:
            return self.lost
        place = place_around(self.sandbox)
        if place.host is not None and self.command is not None:  # workers have a limit of their own
            ran = await self._checked(place, question, prediction)
        else:
            async with of_loop(_AT_ONCE, _one_a_core):
                ran = await self._checked(place, question, prediction)
        scored = {"score": ran.score, "feedback": ran.feedback}
        return self.graded(lambda: scored)._replace(check=ran.fields)

    async def _checked(
        self, place: Workplace, question: Question, prediction: dspy.Prediction
    ) -> _Ran:
        answer = str(prediction.get("whole") or prediction["answer"])
        task = (question.files, question.tests, answer, self.answer_file)
        if self.command is None:  # a function of this process
            return await checked_in(place, partial(self._asked, question), *task)
        own = {**question.files, **question.tests}
        check = partial(_run, place, self.words, own, [*question.tests], self.seconds)
        ran = await place.run(checked_in, place, check, *task)
        self._note(ran.fields["exit_code"], ran.fields["lines"])
        return ran

    async def _asked(self, question: Question, folder: Path) -> _Ran:
        """Return what the user's function says."""
        began = time.monotonic()
        try:
            call = on_own_loop if self._waits else in_thread
            said = await call(self.function, question, folder)
        except UserError:
            raise
        except Exception as problem:
            raise MetricError(f"the check raised {type(problem).__name__} ({problem})") from problem
        score, feedback = said, None
        if isinstance(said, tuple) and len(said) == 2:
            score, feedback = said
        fields = CheckFields(exit_code=None, lines=[], seconds=_since(began))
        return _Ran(score, feedback, fields)

    def ended(self, rows: int) -> None:
        if self._runs or self._failures < max(rows, self._least):
            return
        raise UserError(
            f"the check {self.command!r} has not run on any of the first "
            f"{counted(self._failures, 'task')}, the last time because {self._last}: run it in a "
            f"task's folder yourself{HIDES.get(self.sandbox.name, '')}"
        )

    def _note(self, code: int | None, lines: list[str]) -> None:
        """Raise UserError for a check that runs on no task, MetricError where it could not run."""
        runs = code is not None and code not in NOT_FOUND
        self._runs = self._runs or runs
        if runs:
            return
        self._failures += 1
        self._last = f"it ended with code {code}"
        if lines:
            self._last = lines[-1]
        # Of a single task that took too long, the answer may be an endless loop.
        self._least = 2 if code is None else 1
        # A misspelt command would pay for all questions before anybody sees it.
        if self._failures >= TRIES:
            self.ended(TRIES)
        if code is not None:
            raise MetricError(f"the check {self.command!r} cannot be run ({self._last})")


async def checked_in(
    place: Workplace,
    check: Callable[[Path], Awaitable[_Ran]],
    files: Mapping[str, str],
    tests: Mapping[str, str],
    answer: str,
    answer_file: str | None,
) -> _Ran:
    """Return what a check says of an answer in a task's folder."""
    with place.folder(files) as folder:
        await in_thread(put, answer, folder, answer_file)
        changed = await in_thread(put_back, files, folder, answer_file)
        # After the answer, which must not replace the tests that judge it.
        lay(tests, folder)
        ran = await check(folder)
        for name in sorted(set(changed).difference(tests)):
            ran.fields["lines"].append(f"the answer's {name} was not used, since tests obey it")
        return ran


async def _run(
    place: Workplace,
    words: Sequence[str],
    own: Mapping[str, str],
    tests: Sequence[str],
    seconds: float,
    folder: Path,
) -> _Ran:
    """Return what a check's command says. `own` are the task's files and tests, `tests` names of
    these.
    """
    began = time.monotonic()
    kept = [word for word in words if word in own and _has(folder, word, own[word])]
    started, secret, given = _add_witness(words, [*tests, *kept])
    options = own_options(own, folder)
    how = place.sandbox.started(started, folder, options, task=own, hidden=place.hidden)
    code, printed, complaint = await run(how, folder, seconds, given)
    done = code is not None
    if secret and done:
        printed, code, done = _until_end(printed, secret, code)
    spoken = [*printed, *complaint]
    lines = [line[:MOST_LINE] for line in spoken[-MOST_LINES:]]
    if code is None:
        lines.append(f"the check took longer than {seconds:g} s")
    silent = _RUNNERS.search(" ".join(words)) and not any(map(_RAN.search, spoken))
    empty = any(map(_RAN_NONE.match, spoken))
    right = code == 0 and done and not silent and not empty
    if empty:
        lines.append("the check found no test to run")
    elif code == 0 and not right:
        lines.append("the check did not come to its end, as where an answer ends its process")
    fields = CheckFields(exit_code=code, lines=lines, seconds=_since(began))
    said = None
    # what a check that was stopped has printed last is no verdict
    if printed and done:
        said = _read_score(printed[-1])
    if said is None and right:
        said = {"score": True}
    elif said is None:
        said = {"score": False, "feedback": "\n".join(lines)}
    return _Ran(said["score"], said.get("feedback"), fields)


def _has(folder: Path, name: str, text: str) -> bool:
    """Return whether a file is as it was laid."""
    file = folder / name
    return file.is_file() and file.read_bytes() == text.encode(errors="replace")


def _add_witness(words: Sequence[str], tests: Sequence[str]) -> tuple[Sequence[str], str, bytes]:
    """Return a check's command, the secret word that it prints at its end, and its input: of one
    that starts Python, by which an answer could end it. Other commands stay as they are.
    """
    start = _PYTHON.match("\0".join([*words, ""]))
    if start is None:
        return words, "", b""
    number, secret = start.group().count("\0"), token_hex(16)
    witness = Path(__file__).with_name("witness.py").read_text()
    given = os.fsencode("\0".join([secret, *tests]))
    return [*words[:number], "-c", witness, *words[number:]], secret, given


def _until_end(
    printed: list[str], secret: str, code: int | None
) -> tuple[list[str], int | None, bool]:
    """Return what a check has printed before its end, its exit code, and whether it came to its
    end.
    """
    for place in reversed(range(len(printed))):
        word, _, ended = printed[place].partition(" ")
        if word == secret:
            before = printed[:place]
            while before and not before[-1].strip():
                before.pop()
            # What ends the process later, such as a crash, counts, too.
            late = any('"score"' in line for line in printed[place + 1 :])
            return before, int(ended) or code, not late
    return printed, code, False


def _is_missing(word: str) -> bool:
    path = settings().environment_of({"PATH"}, ()).get("PATH")
    return "/" not in word and shutil.which(word, path=path) is None and not Path(word).is_file()


def _read_score(line: str) -> Mapping[str, Any] | None:
    """Return the object with a score in a check's last line. Raises MetricError for another
    score.
    """
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or "score" not in said:
        return None
    if not isinstance(said["score"], int | float):
        shown = shortened(repr(said["score"]), 60)
        raise MetricError(f"the check printed the score {shown}: print a number from 0 to 1")
    return said


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)


def metric_asked(request: Any) -> Any:
    """Return the check of a request, or else its metric. Raises UserError for both, and for options
    of a check without one.
    """
    options: dict[str, Any] = request.named("answer_file", "sandbox")
    options["seconds"] = request.check_timeout
    given = without_none(options)
    check, metric = request.check, request.metric
    if check is None:
        if given:
            raise UserError(f"a task's options need its check: give --check {CHECK_SUCH!r}")
        return metric
    if metric is not None:
        raise UserError("--check and --metric both say which answers are right: give one")
    if isinstance(check, Check):
        return check
    return Check(check, **given)


def sandbox_of(metric: object) -> Sandbox:
    """Return what runs the code of tasks that this metric scores."""
    return metric.sandbox if isinstance(metric, Check) else Sandbox.of(None)
