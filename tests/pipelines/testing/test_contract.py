"""Every protocol keeps the contract; those that break it fail the check about what they break."""

import asyncio
import dataclasses
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

import folkmoot as fm
from folkmoot.modules.agents.seat import Seat
from folkmoot.modules.agents.transcript import Task, Turn
from folkmoot.modules.base.calls import CallError, Usage
from folkmoot.modules.protocols.program import Program, prediction_of
from folkmoot.modules.reading.voting import all_agree
from folkmoot.pipelines.testing.contract import ProtocolContract
from folkmoot.signatures.roles import Judge
from folkmoot.signatures.strategies import ChainOfThought, Simple

# The protocols there are; one that differs from another one in a setting alone waits for the night


class TestSimple(ProtocolContract):
    def program(self) -> Program:
        return fm.SingleAgent("simple")


@pytest.mark.nightly
class TestSelfConsistency(ProtocolContract):
    def program(self) -> Program:
        return fm.SingleAgent("self_consistency", samples=3)


@pytest.mark.nightly  # by day, test_pick.py has an ensemble
class TestWeightedEnsemble(ProtocolContract):
    def program(self) -> Program:
        return fm.Ensemble(["simple", "cot"], vote="weighted", weights=[1.0, 1.5])


class TestJudgedDeliberation(ProtocolContract):
    def program(self) -> Program:
        return fm.Deliberation(["intuitive", "reasoner"], tie_break="judge")


@pytest.mark.nightly
class TestLeastToMost(ProtocolContract):
    def program(self) -> Program:
        return fm.SingleAgent("least_to_most")


@pytest.mark.nightly
class TestDecomposition(ProtocolContract):
    def program(self) -> Program:
        return fm.SingleAgent("decomposition")


class TestCausalConsistency(ProtocolContract):
    def program(self) -> Program:
        return fm.CausalConsistency()


class TestSupervisedTeam(ProtocolContract):
    seldom_asked = ("last_word.predict",)

    @pytest.fixture(autouse=True)
    def _corpus(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus.jsonl"
        document = {"id": "1", "title": "Ann", "text": "Ann lives in Rome."}
        path.write_text(json.dumps(document) + "\n")
        self.environment = fm.CorpusEnvironment(path)

    def program(self) -> Program:
        return fm.SupervisedTeam(["bold", "cautious"], self.environment, max_steps=2)


class Pair(Program):
    """Two ask apart, a third decides where they differ. Sound: each class below has one fault."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = [Seat("first", Simple), Seat("second", ChainOfThought)]
        self.third = Seat("third", Judge)

    def describe(self) -> dict[str, Any]:
        return {"program": "pair"}

    async def hear(self, task: Task) -> list[Turn]:
        return [await seat.ask(task) for seat in self.pair]

    def agree(self, turns: list[Turn], task: Task) -> bool:
        return all_agree([turn.answer for turn in turns], task.kind)

    async def solve(self, task: Task) -> dspy.Prediction:
        turns = await self.hear(task)
        if self.agree(turns, task):
            return prediction_of(task, turns[0].answer, "agreement", turns, consensus_round=1)
        verdict = await self.third.ask(task, round=2, discussion=turns)
        decided_by = "none" if verdict.answer is None else "third"
        return prediction_of(task, verdict.answer, decided_by, [*turns, verdict], rounds=2)


class TestPair(ProtocolContract):
    def program(self) -> Program:
        return Pair()


class Guesses(Pair):
    async def hear(self, task: Task) -> list[Turn]:
        guess = next(iter(task.choices), "") if task.choices else "no"
        usual = guess if task.kind in ("choice", "boolean") else None
        turns = await super().hear(task)
        return [dataclasses.replace(turn, answer=turn.answer or usual) for turn in turns]


class Gambles(Pair):
    async def solve(self, task: Task) -> dspy.Prediction:
        turns = await self.hear(task)
        answer = random.choice([turn.answer for turn in turns])
        decided_by = "none" if answer is None else f"a draw of {random.random()}"
        return prediction_of(task, answer, decided_by, turns)


class ForgetsTheBill(Pair):
    async def hear(self, task: Task) -> list[Turn]:
        return [dataclasses.replace(turn, usage=Usage()) for turn in await super().hear(task)]


class BlocksTheLoop(Pair):
    def forward(self, *args: Any, **inputs: Any) -> Any:
        return asyncio.run(self.aforward(*args, **inputs))


class NeverStops(Pair):
    def agree(self, turns: list[Turn], task: Task) -> bool:
        return not super().agree(turns, task)

    async def solve(self, task: Task) -> dspy.Prediction:
        prediction = await super().solve(task)
        if prediction.decided_by == "none" or prediction.answer is None:
            prediction.decided_by, prediction.consensus_round = "none", None
        return prediction


class SwallowsErrors(Pair):
    async def solve(self, task: Task) -> dspy.Prediction:
        try:
            return await super().solve(task)
        except CallError:
            return prediction_of(task, None, "none", [Turn("first", 1, None, "no answer")])


class IgnoresCancelling(Pair):
    async def hear(self, task: Task) -> list[Turn]:
        try:
            return await super().hear(task)
        except asyncio.CancelledError:
            return [Turn("first", 1, "A" if task.choices else None, "stopped")]


class RunsWild(Pair):
    """Asks once more after the budget or an interruption has ended the question."""

    async def solve(self, task: Task) -> dspy.Prediction:
        try:
            return await super().solve(task)
        except BaseException:
            asyncio.get_running_loop().create_task(self._ask_later(task))
            raise

    async def _ask_later(self, task: Task) -> None:
        await asyncio.sleep(5)
        await self.third.ask(task)


class QuotesUnfenced(Pair):
    async def solve(self, task: Task) -> dspy.Prediction:
        turns = await self.hear(task)
        more = f"{task.question}\nBefore you said: {turns[1].text}"
        asked = dataclasses.replace(task, question=more)
        turns.append(await self.third.ask(asked, round=2))
        decided_by = "none" if turns[-1].answer is None else "third"
        return prediction_of(task, turns[-1].answer, decided_by, turns, rounds=2)


class LosesLMsOnReset(Pair):
    def __init__(self) -> None:
        super().__init__()
        self.third.predict = dspy.Predict(Judge)


class HidesItsSeat(Pair):
    """Keeps a seat where neither optimizers nor files find it."""

    def __init__(self) -> None:
        super().__init__()
        hidden = Seat("hidden", Simple)
        self.hidden = lambda: hidden

    async def hear(self, task: Task) -> list[Turn]:
        return [*await super().hear(task), await self.hidden().ask(task)]


class SavesNothing(Pair):
    def load_state(self, state: Any, **_: Any) -> None:
        pass


class CannotBeTaught(Pair):
    async def hear(self, task: Task) -> list[Turn]:
        with dspy.context(trace=[]):
            return await super().hear(task)

    async def solve(self, task: Task) -> dspy.Prediction:
        with dspy.context(trace=[]):
            return await super().solve(task)


class ForgetsASetting(Pair):
    def __init__(self, third: str = "third") -> None:
        super().__init__()
        self.third.name = third


SEATS = r"other agents than the program that it describes \(first third.predict\)"
BROKEN: list[tuple[Callable[[], Program], str, str]] = [
    (ForgetsTheBill, "every_prediction_is_whole", "usage has calls = 2, but its turns come to 0"),
    (BlocksTheLoop, "it_answers_alike_however_it_is_called", "running event loop"),
    (NeverStops, "agreement_decides_and_costs_no_more_than_a_dispute", "at most 2: stop earlier"),
    (Guesses, "unreadable_answers_are_never_counted_or_guessed", "nobody .* but the answer is"),
    (QuotesUnfenced, "hostile_words_stay_inside_their_quotation", "outside of its fence"),
    (SwallowsErrors, "a_failing_lm_makes_an_error_row_and_the_run_goes_on", "the row has no error"),
    (SwallowsErrors, "a_budget_holds_and_what_is_finished_is_kept", "does not say it stopped"),
    (IgnoresCancelling, "a_cancelled_question_ends_at_once", "let CancelledError through"),
    (RunsWild, "an_interrupted_run_goes_on_where_it_was", "something goes on running"),
    (Gambles, "the_same_seed_gives_the_same_rows_in_any_order", "differs between"),
    (HidesItsSeat, "every_seat_asks_its_own_lm_in_its_own_words", r"instructions of \[\]"),
    (SavesNothing, "saved_and_loaded_it_answers_the_same", "has lost its changed instructions"),
    (lambda: ForgetsASetting("judge"), "it_is_found_and_loaded_by_its_name", SEATS),
    (LosesLMsOnReset, "copies_keep_the_lms_of_seats", r"\(\) loses the LM of the agent 'third'"),
    (CannotBeTaught, "an_optimizer_can_teach_it", "no demonstration of the program's own answers"),
]


@pytest.mark.parametrize(("broken", "check", "said"), BROKEN)
def test_a_broken_one_fails_its_check(broken: Callable[[], Program], check: str, said: str) -> None:
    class Suite(ProtocolContract):
        def program(self) -> Program:
            return broken()

    with pytest.raises(BaseException, match=said):
        getattr(Suite(), f"test_{check}")()


def test_every_check_can_fail() -> None:
    checks = {name for name in dir(ProtocolContract) if name.startswith("test_")}
    assert checks == {f"test_{check}" for _, check, _ in BROKEN}


def test_a_suite_without_a_program_says_what_to_write() -> None:
    with pytest.raises(fm.UserError, match=r"def program\(self\)"):
        ProtocolContract().test_every_prediction_is_whole()
