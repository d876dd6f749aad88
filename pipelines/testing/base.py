"""The base of the contract's checks: running the program under test, and checks of an outcome."""

from __future__ import annotations

import json
import threading
import time
from asyncio import Task, all_tasks, current_task
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import dspy

from ...modules.base.calls import Usage, total
from ...modules.base.errors import UserError
from ...modules.base.sync import run_sync
from ...modules.base.usage import UsageFields
from ...modules.protocols.program import Program
from ...modules.reading.answers import read_answer
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow, TurnFields
from ..evaluation.earlier import Evaluation
from ..evaluation.evaluate import evaluate
from ..lms.named import lm
from .replies import sample_questions
from .server import ScriptedServer

PRICE = (1e-6, 3e-6)
GRACE_SECONDS = 0.5  # in which what was cancelled may end; slow replies take longer than that
IDLE_THREADS = ("asyncio_", "AnyIO worker", "tqdm_monitor")  # libraries keep these, for all calls
MOST = 12  # questions that a check asks
FIELDS = ("answer", "decided_by", "rounds", "consensus_round", "transcript", "usage")
TURN_FIELDS = ("agent", "round", "answer", "text", "usage")


class Contract:
    """A program under test: `program` makes it, `questions` are what it is asked.

    `seldom_asked` names predictors that speak only after special words of an LM, which the scripted
    one does not say: the protocol's own tests have to reach them.
    """

    seldom_asked: Collection[str] = ()

    def program(self) -> Program:
        """Return the program under test, a new one at every call, without LMs of its own."""
        raise UserError(
            f"{type(self).__name__} has no program to test: write 'def program(self): return "
            "MyProtocol()'"
        )

    def questions(self) -> list[Question]:
        """At least four labelled questions, of the kinds that the protocol takes: here four of
        every kind.
        """
        return sample_questions()

    def load_with(self) -> dict[str, Any]:
        """Return the arguments of `fm.load_program` in addition to the folder and environments,
        such as `embedding`.
        """
        return {}

    def asked(self) -> list[Question]:
        """Return the questions that a check asks: the first of them, as many as it needs."""
        return self.questions()[:MOST]

    def run(
        self,
        server: ScriptedServer,
        *,
        program: Program | None = None,
        questions: list[Question] | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> Evaluation:
        """Return the program evaluated on the scripted LM, without tracking and without answers of
        other runs.
        """
        return evaluate(
            self.program() if program is None else program,
            self.asked() if questions is None else questions,
            lm=model(server, seed=seed),
            tracking=False,
            cache=False,
            **options,
        )


def model(server: ScriptedServer, name: str = "test", **sampling: Any) -> dspy.BaseLM:
    """Return an LM that the server answers for; requests name it in `model`."""
    return lm(f"openai/{name}", api_base=server.url, price=PRICE, **sampling)


def check_outcome(outcome: Mapping[str, Any], question: Question) -> None:
    """Fail unless this is a whole outcome of the question: a prediction, or the row of one."""
    name = f"question {question.id!r}"
    for field in FIELDS:
        assert field in outcome, f"{name}: the prediction has no {field!r}; return prediction_of(…)"
    answer, decided_by, rounds = outcome["answer"], outcome["decided_by"], outcome["rounds"]
    check_answer(answer, question, f"{name}: the answer")
    assert isinstance(decided_by, str), f"{name}: decided_by is {decided_by!r}, not text"
    assert decided_by, f"{name}: decided_by is empty; say what settled the answer, or 'none'"
    assert (decided_by == "none") == (answer is None), (
        f"{name}: the answer is {answer!r} but decided_by is {decided_by!r}; 'none' goes with "
        "no answer"
    )
    assert isinstance(rounds, int), f"{name}: rounds is {rounds!r}, not a whole number"
    assert rounds >= 1, f"{name}: rounds is {rounds}, though somebody was asked"
    reached = outcome["consensus_round"]
    assert reached is None or (isinstance(reached, int) and 1 <= reached <= rounds), (
        f"{name}: consensus_round is {reached!r}; it is None or one of the {rounds} rounds"
    )
    assert reached is None or answer is not None, (
        f"{name}: there is a consensus_round but no answer"
    )
    transcript = outcome["transcript"]
    assert transcript, f"{name}: the transcript is empty, though somebody was asked"
    for said in transcript:
        for field in TURN_FIELDS:
            assert field in said, (
                f"{name}: a turn has no {field!r}; make turns with Seat.ask or Turn(…)"
            )
        turn = TurnFields.of(said)
        who = f"{name}: a turn of {turn.agent!r}"
        assert isinstance(turn.agent, str), f"{who} does not say in words whose it is"
        assert turn.round in range(1, rounds + 1), f"{who} is of round {turn.round!r} of {rounds}"
        assert isinstance(turn.text, str), f"{who} has the text {turn.text!r}, which is not a str"
        check_answer(turn.answer, question, who)
    try:
        json.dumps([outcome["transcript"], outcome["usage"]])
    except (TypeError, ValueError) as problem:
        raise AssertionError(
            f"{name}: transcript or usage cannot be written as JSON: {problem}"
        ) from None
    check_usage(
        outcome["usage"], (turn["usage"] for turn in transcript), f"{name}: usage", "its turns"
    )


def check_answer(answer: object, question: Question, what: str) -> None:
    """Fail unless it is None or an answer of the question's kind in canonical form."""
    if answer is None:
        return
    assert isinstance(answer, str), f"{what} is {answer!r}, which is not a str"
    read = read_answer(answer, question.kind, question.choices)
    assert read == answer, (
        f"{what} is {answer[:80]!r}, not its canonical form {read!r}: take the answer of a turn"
    )


def check_usage(usage: UsageFields, parts: Iterable[UsageFields], what: str, of: str) -> None:
    for field, expected in total(map(Usage.of, parts)).to_dict().items():
        value = usage[field]
        # Prices are added up in another order, and sums of floats depend on it.
        same = value == expected or (None not in (value, expected) and abs(value - expected) < 1e-9)
        assert same, (
            f"{what} has {field} = {value!r}, but {of} come to {expected!r}; every call is in "
            "one turn"
        )


def check_rows(rows: list[ResultRow], questions: list[Question]) -> None:
    """Fail unless there is a row for each question, once and in order, all of them whole
    outcomes.
    """
    ids, wanted = [row.id for row in rows], [question.id for question in questions]
    lost = [name for name in wanted if name not in ids]
    doubled = {name for name in ids if ids.count(name) > 1}
    assert ids == wanted, (
        f"the rows are not those of the questions: lost {lost}, doubled {sorted(doubled)}"
    )
    for row, question in zip(rows, questions, strict=True):
        assert row.error is None, f"question {question.id!r} failed: {row.error}"
        check_outcome(row, question)


def check_same(
    rows: Sequence[ResultRow],
    others: Sequence[ResultRow],
    when: str,
    *,
    paid: bool = True,
) -> None:
    """Fail unless two runs have the same rows, apart from the time they took.

    Of two equal requests in flight one pays for both, so a turn's tokens are a matter of chance;
    with `paid=False` so are those of a question.
    """
    # Field by field, so that a failure names the one that differs.
    for row, other in zip(rows, others, strict=True):
        for field in row.keys() | other.keys():
            value = _lasting(row.get(field), field, paid)
            another = _lasting(other.get(field), field, paid)
            assert value == another, (
                f"question {row.id!r}: {field} differs {when}: {value!r} and {another!r}"
            )


def _lasting(value: Any, field: str, paid: bool) -> object:
    if field == "seconds":
        return None
    if field == "usage" and not paid:
        return value["calls"]
    if field == "transcript":
        return [{**turn, "usage": turn["usage"]["calls"]} for turn in value]
    return value


@contextmanager
def nothing_left_running(when: str) -> Iterator[None]:
    """Fail if the block leaves a task on the event loop or a thread that was not there before."""
    before = _running()
    yield
    end = time.monotonic() + GRACE_SECONDS
    # Cancelled tasks need a moment to end: what still runs after it is left behind.
    while (left := _running() - before) and time.monotonic() < end:
        time.sleep(0.005)
    names = sorted(
        running.name if isinstance(running, threading.Thread) else repr(running.get_coro())
        for running in left
    )
    assert not left, (
        f"{when} something goes on running: {', '.join(names)}; cancel and await what you start"
    )


def _running() -> set[Task[Any] | threading.Thread]:
    async def tasks() -> set[Any]:
        return {*all_tasks()} - {current_task()}

    running = run_sync(tasks)  # first: it starts the loop's thread, which then stays
    for thread in threading.enumerate():
        if not thread.name.startswith(IDLE_THREADS):
            running.add(thread)
    return running
