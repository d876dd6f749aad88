"""What tests' child processes run until they end or are killed; imported by name."""

import contextlib
import io
import itertools
import logging
import os
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
from children import Forked as Forked
from children import in_child as in_child

import folkmoot as fm
from folkmoot.modules.agents.transcript import Task, Turn
from folkmoot.modules.base.calls import CallError
from folkmoot.modules.protocols.program import Program, prediction_of
from folkmoot.pipelines.lms.endpoint import Reply
from folkmoot.pipelines.lms.ledger import LEDGER, Entry, Ledger, totals
from folkmoot.pipelines.lms.store import CallStore

CHOICES = {"A": "bank", "B": "library", "C": "mall"}


def questions(n: int, **meta: Callable[[int], Any]) -> list[fm.Question]:
    """Questions q0, q1, … with the gold answers A, B, C in turn; `meta` gives values by number."""
    asked = []
    for i in range(n):
        known: Any = {"id": f"q{i}", "question": f"Question {i}?", "answer": "ABC"[i % 3]}
        about = {name: value(i) for name, value in meta.items()}
        asked.append(fm.Question(choices=CHOICES, meta=about, **known))
    return asked


def open_questions(n: int = 12) -> list[fm.Question]:
    """Questions of the kind `open`, each with a rubric in its meta."""
    asked = []
    for i in range(1, n + 1):
        fell = {"answer": f"since {i} apples fell from the tree", "meta": {"rubric": f"apples {i}"}}
        asked.append(fm.Question(id=str(i), question=f"Why {i}?", kind="open", **fell))
    return asked


class Constant(Program):
    """Answers A without an LM; `act` runs first."""

    def __init__(self, act: Callable[[Task], Any] | None = None) -> None:
        super().__init__()
        self.act = act

    def describe(self) -> dict[str, Any]:
        return {"program": "constant"}

    async def solve(self, task: Task) -> Any:
        if self.act is not None:
            self.act(task)
        return prediction_of(task, "A", "fiat", [Turn("oracle", 1, "A", "so it is")])


def deliberate(url: str, out: Path, n: int, **options: Any) -> Any:
    """Evaluate a small deliberation with 8 questions in flight."""
    lm = fm.lm("openai/scripted", api_base=url)
    program = fm.Deliberation(["intuitive", "reasoner"], max_rounds=2)
    given = {"tracking": False, "concurrency": 8, **options}
    return fm.evaluate(program, questions(n), lm=lm, out=out, **given)


MEGABYTES = 3000
"""Memory, above what a child has, at which reading a file ends."""


def refused(path: Path) -> tuple[str, int]:
    """How a file of questions, or a log, is refused, and the megabytes that this took."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEGABYTES * 2**20,) * 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = ""
    try:
        (fm.load if path.suffix in (".xlsx", ".csv", ".saved") else fm.import_log)(path)
    except fm.UserError as problem:
        said = str(problem)
    return said, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024


def append_calls(folder: Path, first: int, last: int, step: int) -> None:
    store = CallStore(folder)
    for i in range(first, last, step):
        store.put(f"{i:064x}", "m", Reply(f"{i} " * 3000, "stop", 1, 1))
    store.close()


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """A limit on the size of files: the last write fits in part, as on a disk that fills up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def store_on_a_full_disk(folder: Path) -> tuple[list[int], list[str]]:
    """Put calls 0 to 4 where not all fit, then call 77 with room again; what was kept and said."""
    kept, said = [], []
    reply = Reply("x" * 100, "stop", 1, 1)
    store = CallStore(folder)
    with largest_file(600):
        for i in range(5):
            try:
                store.put(f"{i:064x}", "m", reply)
                kept.append(i)
            except fm.UserError as problem:
                said.append(str(problem))
    store.put(f"{77:064x}", "m", reply)
    return kept, said


def ledger_on_a_full_disk(folder: Path) -> tuple[int, str, int, int]:
    """Enter calls where not all fit, then one with room again: those that fitted, what was said,
    the total, and what the file holds in the end.
    """
    ledger, fitted, said = Ledger(folder), 0, ""
    billed: Any = {"prompt_tokens": 1, "completion_tokens": 1, "cost_usd": 0.0}
    about: Any = {"seat": None, "question": None, "attempts": 1, "kept": True}
    entry = Entry(endpoint="e", model="m", key="k", **billed, **about)
    with largest_file(1000):
        try:
            while True:
                ledger.add(entry)
                fitted += 1
        except fm.UserError as problem:
            said = str(problem)
    ledger.add(entry)
    return fitted, said, ledger.total.calls, totals(folder).calls


def deliberate_on_a_full_disk(url: str, folder: Path) -> str:
    """Deliberate where the ledger, by far the largest file, takes few more calls; what was said."""
    folder.mkdir(exist_ok=True)
    with (folder / LEDGER).open("ab") as ledger:
        ledger.write(b" " * 100_000 + b"\n")
        ledger.flush()
        with largest_file(ledger.tell() + 6000):
            try:
                deliberate(url, folder, 80, budget="100 calls")
            except fm.UserError as problem:
                return str(problem)
    return ""


class _Canned:
    """An LM inside the process, with a long reply that is never twice the same."""

    def __init__(self) -> None:
        self._number = itertools.count()

    def complete(self, request: Any) -> Any:
        text = f'{{"reasoning": "{next(self._number):09} {"x" * 10_000}", "answer": "A"}}'
        message = dspy.lm15.Message.assistant([dspy.lm15.TextPart(text)])
        usage = dspy.lm15.Usage()
        said: Any = {"message": message, "finish_reason": "stop", "usage": usage}
        return dspy.lm15.Response(id=None, model=request.model, **said)


class _AsyncCanned(_Canned):
    async def complete(self, request: Any) -> Any:
        return super().complete(request)


def memory_of_an_evaluation(folder: Path, n: int, talks: bool) -> float:
    """Megabytes by which memory grows from evaluating a tenth of n questions to all."""

    def resident() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20

    lm = dspy.LM("custom/canned", engine=_Canned(), async_engine=_AsyncCanned(), cache=False)
    program = fm.SingleAgent("cot") if talks else Constant()
    asked = questions(n)
    fm.evaluate(program, asked[: n // 10], lm=lm, out=folder / f"small-{talks}", tracking=False)
    before = resident()
    result = fm.evaluate(program, asked, lm=lm, out=folder / f"large-{talks}", tracking=False)
    assert result.summary.counts.rows == n
    return resident() - before


def ten_calls_at_once(url: str, out: Path) -> None:
    """A run that has ten calls in flight."""
    lm = fm.lm("openai/x", api_base=url, price=(1e-6, 1e-6))
    given: Any = {"concurrency": 10, "budget": "200 calls", "tracking": False}
    fm.evaluate(fm.SingleAgent(), questions(80), lm=lm, out=out, **given)


def answers_with_few_files(url: str, out: Path) -> tuple[int, list[str], int]:
    """Rows without error, what was said, and the limit on open files after it."""
    said: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logging.getLogger("folkmoot").addHandler(Kept())
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 256))
    program = fm.SingleAgent(lm=fm.lm("openai/x", api_base=url, concurrency=300))
    result = fm.evaluate(program, questions(300), concurrency=300, out=out, tracking=False)
    answered = [row for row in result.rows if not row["error"]]
    return len(answered), said, resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def asks_anthropic(folder: Path) -> tuple[list[str], str]:
    """Which hosts are looked up when an LM of Anthropic's is asked, and what is printed."""
    reached: set[str] = set()
    look_up = socket.getaddrinfo

    def noted(host: Any, *given: Any, **options: Any) -> Any:
        reached.add(str(host))
        if host != "localhost":
            raise OSError("no network here")
        return look_up(host, *given, **options)

    socket.getaddrinfo = noted
    said = io.StringIO()
    os.environ["ANTHROPIC_API_KEY"] = "sk-canary-0c8f2d71ab"
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        lm = fm.lm("anthropic/claude-sonnet-4-5", api_base="http://localhost:9/v1")
        lm.engine.engine.max_retries = 0
        with contextlib.suppress(CallError):
            fm.SingleAgent(lm=lm)(question="Why?", choices={"A": "a", "B": "b"})
    return sorted(reached), said.getvalue()
