"""The part of the contract about whole runs: failures, budgets, interruptions, and always the same
rows.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import dspy

from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..runs.lines import Progress
from ..runs.rows import RESULTS, read_rows
from .base import Contract, check_outcome, check_rows, check_same, model, nothing_left_running
from .replies import agreeing, mixed, text_of
from .server import ScriptedServer

Refusal = tuple[int, dict[str, str], object]

DOWN: Refusal = (500, {"Retry-After": "0.01"}, {"error": {"message": "down"}})
SLOW = 0.5  # seconds of a reply that is still to come when what waits for it should have ended


class Runs(Contract):
    def test_a_failing_lm_makes_an_error_row_and_the_run_goes_on(self) -> None:
        """Calls that fail for good, from the first on or later, fail their question and no
        other.
        """
        questions = self.asked()
        first, second = questions[:2]
        right, asked = agreeing(questions), itertools.count()
        failed: set[str] = set()

        def reply(body: dict[str, object]) -> str | Refusal:
            text = text_of(body)
            if first.question in text or (second.question in text and next(asked)):
                # The second question fails from its second call on, after an answer that was paid
                # for.
                failed.add(first.id if first.question in text else second.id)
                return DOWN
            return right(body)

        with ScriptedServer(reply) as server:
            result = self.run(server, concurrency=4)
        rows = list(result.rows)
        assert [row.id for row in rows] == [question.id for question in questions], (
            "rows are missing"
        )
        for row in rows:
            name = f"question {row.id!r}"
            if row.id in failed:
                assert row.error, (
                    f"{name}: a call failed for good, but the row has no error: let it through"
                )
                assert row.answer is None, f"{name}: a call failed for good, but there is an answer"
        check_rows(
            [row for row in rows if row.id not in failed],
            [q for q in questions if q.id not in failed],
        )
        assert result.summary.counts.errors == len(failed), (
            "the summary does not count the error rows"
        )

    def test_a_budget_holds_and_what_is_finished_is_kept(self) -> None:
        """A budget of half a run's calls finishes some questions; resuming without a limit
        finishes all, and pays for each call once.
        """
        questions = self.asked()
        with (
            ScriptedServer(mixed(questions), delay=0.002) as server,
            TemporaryDirectory() as folder,
        ):
            undisturbed = list(self.run(server).rows)
            # Half of what the program takes, whatever program it is.
            needed, budget = len(server.bodies), len(server.bodies) // 2
            server.requests.clear()
            server.most_at_once = 0
            result = self.run(server, out=folder, concurrency=2, budget=f"{budget} calls")
            made, at_once = len(server.bodies), server.most_at_once
            # Calls in flight when the budget is spent are paid for and kept.
            assert made <= budget + at_once, (
                f"{made} calls were made of {budget}, with {at_once} at once"
            )
            assert result.summary.stopped, (
                "the budget was too small for all, but the run does not say it stopped"
            )
            _check_kept(list(result.rows), questions)
            again = list(self.run(server, out=folder).rows)
            check_same(again, undisturbed, "after a stop by budget and without one", paid=False)
            total = len(server.bodies)
            assert total <= needed + at_once, (
                f"with a stop by budget {total} calls were paid, without {needed}"
            )

    def test_a_cancelled_question_ends_at_once(self) -> None:
        """Cancelling the program's task ends it as cancelled, without leaving a task or thread."""
        question = self.asked()[0]
        with (
            ScriptedServer(agreeing([question]), delay=SLOW) as server,
            dspy.context(lm=model(server)),
        ):

            async def cancel() -> tuple[asyncio.Task[object], set[asyncio.Task[object]]]:
                task = asyncio.create_task(self.program().acall(**question.inputs()))
                end = time.monotonic() + 10
                # Cancelled before its first call, it would have nothing to end.
                while not server.in_flight and not task.done() and time.monotonic() < end:
                    await asyncio.sleep(0.002)
                task.cancel()
                await asyncio.wait([task], timeout=5)
                await asyncio.sleep(0)
                return task, asyncio.all_tasks() - {asyncio.current_task(), task}

            with nothing_left_running("after a question was cancelled"):
                task, left = asyncio.run(cancel())
        assert task.cancelled(), (
            "a cancelled question goes on as if nothing were: let CancelledError through"
        )
        assert not left, (
            f"a cancelled question leaves tasks: {left}; cancel and await what you start"
        )

    def test_an_interrupted_run_goes_on_where_it_was(self) -> None:
        """An interrupted run keeps its finished rows and leaves nothing running; resumed, it
        completes.
        """
        questions = self.asked()
        enough = max(1, len(questions) // 4)

        class Interrupted(Exception):  # noqa: N818
            pass

        def interrupt(state: Progress) -> None:
            # From here on replies are slow, so that calls are in flight when it ends.
            if state.done >= enough:
                server.delay = SLOW
                raise Interrupted

        with ScriptedServer(mixed(questions)) as server, TemporaryDirectory() as folder:
            undisturbed = list(self.run(server).rows)
            server.delay = 0.1
            with nothing_left_running("after the run was interrupted"), suppress(Interrupted):
                self.run(server, out=folder, concurrency=4, progress=interrupt)
            kept = list(read_rows(Path(folder, RESULTS)))
            assert len(kept) >= enough, f"{enough} rows were finished, but {len(kept)} are kept"
            _check_kept(kept, questions)
            server.delay = 0.0
            rows = list(self.run(server, out=folder).rows)
            check_rows(rows, questions)
            check_same(rows, undisturbed, "after an interruption and without one", paid=False)

    def test_the_same_seed_gives_the_same_rows_in_any_order(self) -> None:
        """Rows do not depend on how many questions are in flight, nor on the order in which replies
        come.
        """
        questions = self.asked()
        with ScriptedServer(mixed(questions)) as server:
            in_turn = list(self.run(server, concurrency=1, seed=7).rows)
            server.delay = lambda: random.random() * 0.01
            at_once = list(self.run(server, concurrency=16, seed=7).rows)
        check_rows(in_turn, questions)
        check_same(in_turn, at_once, "between 1 and 16 questions in flight")


def _check_kept(rows: list[ResultRow], questions: list[Question]) -> None:
    """Fail unless these are whole rows of different questions, fewer than there are."""
    by_id = {question.id: question for question in questions}
    ids = [row.id for row in rows]
    assert len(set(ids)) == len(ids), f"rows are doubled: {sorted(ids)}"
    assert len(ids) < len(questions), (
        "the run was stopped half-way, but has a row for every question"
    )
    for row in rows:
        assert row.error is None, (
            f"question {row.id!r} was stopped, which must not make an error row: {row.error}"
        )
        check_outcome(row, by_id[row.id])
