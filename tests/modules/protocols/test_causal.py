"""Causal consistency, clause by clause, against what was sent and a slow second reading."""

import asyncio
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import folkmoot as fm
from folkmoot.modules.agents.seat import Seat
from folkmoot.modules.agents.transcript import Turn
from folkmoot.modules.protocols.causal import EVALUATOR_PARTS, REASONER_PARTS
from folkmoot.pipelines.testing.replies import agreeing, sample_questions, text_of
from folkmoot.signatures.causal import COUNTERFACTUAL, SOLUTION
from folkmoot.signatures.examples import worked_examples

CHOICES = {"A": "bank", "B": "library", "C": "mall", "D": "tree"}
CHOICE = {"question": "Where do people keep their savings?", "choices": CHOICES}
BOOLEAN = {"question": "Is a whale a fish?", "kind": "boolean"}
NUMBER = {"question": "How many legs have two spiders?", "kind": "number"}
SPAN = {"question": "What is the capital of France?", "kind": "span"}


def fields_of(body: Mapping[str, Any]) -> list[str]:
    return list(body["response_format"]["json_schema"]["schema"]["properties"])


def is_evaluator(body: Mapping[str, Any]) -> bool:
    return not set(fields_of(body)).isdisjoint(EVALUATOR_PARTS.values())


def quoted(body: dict[str, Any], title: str) -> str | None:
    """What stands in the fence of that title."""
    inside = rf"^<<<{re.escape(title)}\n(.*?)^>>>$"
    quote = re.search(inside, text_of(body), re.MULTILINE | re.DOTALL)
    return quote and quote[1].strip()


def last_answer(quote: str | None) -> str | None:
    return None if quote is None else quote.rpartition("Answer: ")[2]


class Script:
    """Replies of one round by seats told apart by their models, `r0`, `r1`, … and `e0`, …: what
    each reasoner says, and what an evaluator says of the answer that it examines.
    """

    def __init__(self, answers: Sequence[str], verdicts: Mapping[str, str]) -> None:
        self.answers, self.verdicts = answers, verdicts
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, body: dict[str, Any]) -> str:
        seat, fields = body["model"], fields_of(body)
        assert is_evaluator(body) == seat.startswith("e")
        self.asked.append((seat, body))
        if seat.startswith("e"):
            answer = self.verdicts[str(last_answer(quoted(body, SOLUTION)))]
        else:
            answer = self.answers[int(seat[1:])]
        return json.dumps({**{name: f"{name} of {seat}" for name in fields}, "answer": answer})

    def evaluations(self) -> list[tuple[str, str | None, str | None]]:
        """Seat, the answer examined, and the other one, in a fixed order."""
        return sorted(
            (seat, last_answer(quoted(body, SOLUTION)), last_answer(quoted(body, COUNTERFACTUAL)))
            for seat, body in self.asked
            if seat.startswith("e")
        )


def play(
    scripted: Any, answers: Any, verdicts: Any, task: Any = CHOICE, evaluators: int = 1, **more: Any
) -> tuple[Any, Script]:
    """One question through a program whose seats say what is scripted."""
    script = scripted.reply = Script(answers, verdicts)
    program = fm.CausalConsistency(len(answers), evaluators, **more)
    lms = {}
    for name in program.seats():
        number = name.rpartition(".")[2] if "." in name else 0
        lms[name] = fm.lm(f"openai/{name[0]}{number}", api_base=scripted.url)
    program.assign(lms)
    scripted.requests.clear()
    return program(**task), script


def outcome(prediction: Any) -> tuple[Any, ...]:
    return prediction.answer, prediction.decided_by, prediction.rounds, prediction.consensus_round


def test_without_a_majority_the_top_answers_are_examined_at_the_same_time(scripted: Any) -> None:
    scripted.delay = 0.5
    verdicts = dict.fromkeys("ABC", "C")
    prediction, script = play(scripted, ["A", "B", "C"], verdicts, evaluators=2, n=3)
    assert outcome(prediction) == ("C", "evaluators", 1, 1)
    assert sorted(str(examined) for _, examined, _ in script.evaluations()) == ["A", "B", "C"]
    assert Counter(seat for seat, *_ in script.evaluations()) == {"e0": 2, "e1": 1}
    assert scripted.most_at_once == 3  # three reasoners, then three evaluations: no more, no fewer
    scripted.most_at_once = 0
    play(scripted, ["A"] * 4, {"A": "A"})
    assert scripted.most_at_once == 4


def ask_all(answers: Mapping[str, Any]) -> Any:
    """Seats answer from a table, without any LM: round → (reasoners' answers, verdicts by key)."""

    async def ask(self: Seat, task: Any, *, round: int = 1, notes: Any = None, **_: Any) -> Turn:
        reasoners, verdicts = answers["rounds"][round - 1]
        role, _, place = self.name.partition(".")
        if role == "reasoner":
            answer = reasoners[int(place or 0)]
        else:
            answer = verdicts[str(notes[0]["answer"]).lower().removeprefix("the ")]
        return Turn(self.name, round, answer, f"what {self.name} says")

    return patch.object(Seat, "ask", ask)


def test_ties_are_drawn_and_every_side_can_win() -> None:
    found = Counter[str]()
    with ask_all({"rounds": [(["A", "B", "C"], {})]}):
        for seed in range(60):
            found[fm.CausalConsistency(3, 0, seed=seed)(**CHOICE).answer] += 1
    assert set(found) == {"A", "B", "C"}
    assert min(found.values()) > 8


def test_solution_and_counterfactual_are_drawn() -> None:
    found = Counter[tuple[str, str]]()
    with ask_all({"rounds": [(["A", "A", "A", "B", "C"], {"a": "A"})]}):
        for seed in range(120):
            turn = fm.CausalConsistency(5, 1, seed=seed)(**CHOICE).transcript[-1]
            found[turn["examined"]["agent"], turn["examined"]["counterfactual"]] += 1
    assert set(found) == {(f"reasoner.{place}", other) for place in range(3) for other in "BC"}


@pytest.mark.parametrize(
    ("task", "answers", "counterfactual"),
    [
        (CHOICE, ["A", "A", "D"], "D"),  # another reasoner's before any option
        (BOOLEAN, ["yes"], "no"),
        (NUMBER, ["16", "16", "8"], "8"),
        (SPAN, ["Paris", "Paris", "Lyon"], "Lyon"),
        (SPAN, ["Paris", "Paris"], None),
    ],
)
def test_an_answer_is_challenged_by_another(scripted, task, answers, counterfactual):
    for seed in range(3):
        prediction, script = play(scripted, answers, {answers[0]: answers[0]}, task, seed=seed)
        assert script.evaluations()[0][1:] == (answers[0], counterfactual)
        assert prediction.transcript[-1]["examined"]["counterfactual"] == counterfactual
        assert "contradiction" in fields_of(script.asked[-1][1])  # it may think of one itself


def test_options_with_one_text_are_one_answer(scripted: Any) -> None:
    twins = {"question": "Which?", "choices": {"A": "bank", "B": "bank", "C": "mall"}}
    for seed in range(4):
        verdicts = {"A": "B", "B": "A"}
        prediction, script = play(scripted, ["A", "B"], verdicts, twins, seed=seed)
        assert (prediction.answer, prediction.decided_by) == ("A", "accepted")
        assert script.evaluations()[0][2] == "C"
    all_alike = {"question": "Which?", "choices": {"A": "bank", "B": "bank"}}
    _, script = play(scripted, ["A"], {"A": "A"}, all_alike)
    assert script.evaluations()[0][2] is None


def keyed(answer: str | None) -> str | None:
    return None if answer is None else answer.lower().removeprefix("the ")


def rankings(answers: Sequence[str | None]) -> Iterator[list[str]]:
    """Every order of the answers by falling frequency."""
    counts = Counter(keyed(answer) for answer in answers if answer is not None)
    for order in itertools.permutations(sorted(str(key) for key in counts)):
        if all(counts[one] >= counts[other] for one, other in itertools.pairwise(order)):
            yield list(order)


def share(answers: Sequence[str | None], key: str) -> Fraction:
    return Fraction(sum(keyed(answer) == key for answer in answers), len(answers))


def one_round(
    rounds: Sequence[Any], d: int, evaluators: int, th0: Fraction, th1: Fraction, n: int, d_max: int
) -> set[tuple[str | None, str, int, int]]:
    """All outcomes of ONE_ROUND(…, d): answer, how it was decided, rounds, evaluations in all."""
    answers, verdicts = rounds[d - 1]
    found: set[tuple[str | None, str, int, int]] = set()

    def again(asked: int) -> None:
        rest = one_round(rounds, d + 1, evaluators, th0, th1, n, d_max)
        found.update((answer, how, last, asked + more) for answer, how, last, more in rest)

    for ranked in rankings(answers) or [[]]:
        if evaluators == 0:
            found.add((ranked[0], "vote", d, 0) if ranked else (None, "none", d, 0))
        elif ranked and share(answers, ranked[0]) > th0:
            revised = keyed(verdicts[ranked[0]])
            if revised == ranked[0]:
                found.add((revised, "accepted", d, 1))
            elif d == d_max:
                found.add((revised, "none" if revised is None else "depth limit", d, 1))
            else:
                again(1)
        else:
            given_back = [verdicts[key] for key in ranked[:n]]
            if all(answer is None for answer in given_back):
                if d == d_max:
                    found.add((None, "none", d, len(given_back)))
                else:
                    again(len(given_back))
                continue
            for revised in {order[0] for order in rankings(given_back)}:
                if share(given_back, revised) > th1:
                    found.add((revised, "evaluators", d, len(given_back)))
                elif d == d_max:
                    found.add((revised, "depth limit", d, len(given_back)))
                else:
                    again(len(given_back))
    return found


KEYS = ("paris", "lyon", "nice", "brest")
spelled = st.sampled_from([None, *KEYS, *map(str.title, KEYS), *(f"the {key}" for key in KEYS)])
shares = st.sampled_from([Fraction(part, 12) for part in range(13)])


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    reasoners, d_max = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    solutions = st.lists(spelled, min_size=reasoners, max_size=reasoners)
    rounds = st.tuples(solutions, st.fixed_dictionaries(dict.fromkeys(KEYS, spelled)))
    rows = draw(st.lists(rounds, min_size=d_max, max_size=d_max))
    evaluators, n = draw(st.integers(0, 3)), draw(st.integers(1, 5))
    shown = {"th0": draw(shares), "th1": draw(shares), "n": n, "d_max": d_max}
    return {"rounds": rows, "evaluators": evaluators, **shown}


@given(tables(), st.integers(0, 2**32))
def test_every_outcome_is_one_of_algorithm_1(table: dict[str, Any], seed: int) -> None:
    rounds, reasoners = table["rounds"], len(table["rounds"][0][0])
    limits = {name: table[name] for name in ("th0", "th1", "n", "d_max")}
    floats = {**limits, "th0": float(limits["th0"]), "th1": float(limits["th1"])}
    program = fm.CausalConsistency(reasoners, table["evaluators"], seed=seed, **floats)
    with ask_all(table):
        prediction = asyncio.run(program.acall(**SPAN))
    evaluations = [turn for turn in prediction.transcript if "examined" in turn]
    seen = (keyed(prediction.answer), prediction.decided_by, prediction.rounds, len(evaluations))
    assert seen in one_round(rounds, 1, table["evaluators"], **limits)
    agreed = prediction.decided_by in ("accepted", "evaluators")
    assert prediction.consensus_round == (prediction.rounds if agreed else None)
    assert len(prediction.transcript) == reasoners * prediction.rounds + len(evaluations)
    assert len(prediction.transcript) <= program.most_turns()
    for turn in evaluations:
        said, examined = rounds[turn["round"] - 1][0], turn["examined"]
        place = int(examined["agent"].partition(".")[2] or 0)
        assert said[place] == examined["answer"]
        others = {keyed(answer) for answer in said} - {None, keyed(examined["answer"])}
        assert keyed(examined["counterfactual"]) in (others or {None})
    with ask_all(table):
        again = asyncio.run(program.acall(**SPAN))
    assert outcome(again) == outcome(prediction)


def ready(scripted: Any, lm: Mapping[str, Any] | None = None, *counts: int, **settings: Any) -> Any:
    program = fm.CausalConsistency(*counts, **settings)
    program.set_lm(fm.lm("openai/scripted", api_base=scripted.url, **(lm or {})))
    return program


def overturning(body: dict[str, Any]) -> str:
    """Reasoners say A and evaluators something else."""
    answer = "B" if is_evaluator(body) else "A"
    return json.dumps({**dict.fromkeys(fields_of(body), "so"), "answer": answer})


def test_temperature_and_top_p_are_the_papers_unless_given(scripted: Any) -> None:
    ready(scripted)(**CHOICE)
    warm = ready(scripted, None, 1, 1, sampling={"temperature": 0.9, "max_tokens": 77})
    warm(question="Which?", choices=CHOICES)
    unset = ready(scripted, None, 1, 0, sampling={"temperature": None, "top_p": None})
    unset(question="What?", choices=CHOICES)
    *own, last = scripted.bodies
    assert {(body["temperature"], body["top_p"]) for body in own[:3]} == {(0.5, 0.4)}
    given = [(body["temperature"], body["top_p"], body["max_tokens"]) for body in own[3:]]
    assert given == [(0.9, 0.4, 77)] * 2
    assert "temperature" not in last
    assert "top_p" not in last


def test_every_turn_is_a_sample_of_its_own(scripted: Any) -> None:
    scripted.reply = overturning
    ready(scripted, {"seed": 100}, 3)(**CHOICE)
    for role in (False, True):
        seeds = [body["seed"] for body in scripted.bodies if is_evaluator(body) == role]
        assert len(seeds) == (3 if role else 9)
        assert len(set(seeds)) == len(seeds)
        assert min(seeds) > 100


def requests_of(scripted: Any, **settings: Any) -> dict[bool, dict[str, Any]]:
    """The request of a reasoner (False) and of an evaluator (True), told by the quoted solution."""
    scripted.requests.clear()
    ready(scripted, None, 1, 1, **settings)(**CHOICE)
    reasoner, evaluator = scripted.bodies
    assert quoted(reasoner, SOLUTION) is None
    return {False: reasoner, True: evaluator}


@pytest.mark.parametrize("part", [*REASONER_PARTS, *EVALUATOR_PARTS])
def test_a_component_left_out_takes_its_field_and_nothing_else(scripted: Any, part: str) -> None:
    whole, less = requests_of(scripted), requests_of(scripted, without=[part])
    assert fields_of(whole[False]) == ["concepts", "subquestions", "rationale", "answer"]
    assert fields_of(whole[True]) == ["check", "contradiction", "reconsideration", "answer"]
    field = {**REASONER_PARTS, **EVALUATOR_PARTS}[part]
    for role, parts in ((False, REASONER_PARTS), (True, EVALUATOR_PARTS)):
        dropped = [field] if part in parts else []
        kept = [name for name in fields_of(whole[role]) if name not in dropped]
        assert fields_of(less[role]) == kept
        named = f'"{field}"' in text_of(whole[role]) and not dropped
        assert (f'"{field}"' in text_of(less[role])) == named
        if not dropped and role is False:
            assert less[role] == whole[role]
    assert (quoted(less[True], COUNTERFACTUAL) is None) == (part == "counterfactual")
    assert ("other answer" in text_of(less[True])) == (part != "counterfactual")


@pytest.mark.parametrize("name", list(worked_examples()))
def test_a_demonstration_shows_one_demo_for_both_roles(scripted: Any, name: str) -> None:
    requests, worked = requests_of(scripted, demonstration=name), worked_examples()[name]
    for role, parts in ((False, REASONER_PARTS), (True, EVALUATOR_PARTS)):
        _, shown, reply, _ = requests[role]["messages"]
        assert worked.question.split("\n")[0] in shown["content"]
        fields = {field: worked.fields[field] for field in parts.values()}
        assert json.loads(reply["content"]) == {**fields, "answer": worked.answer}
    solution = quoted({"messages": requests[True]["messages"][:2]}, SOLUTION)
    assert all(worked.fields[field] in solution for field in REASONER_PARTS.values())
    assert last_answer(solution) == worked.answer
    seen = quoted({"messages": requests[True]["messages"][:2]}, COUNTERFACTUAL)
    assert last_answer(seen) == worked.other


def test_an_optimizer_replaces_the_demonstration(scripted: Any) -> None:
    questions = [question for question in sample_questions() if question.kind == "choice"]
    scripted.reply = agreeing(questions)
    program = ready(scripted, None, 2, 1, demonstration="scienceqa")

    def right(gold: Any, said: Any, trace: Any = None) -> bool:
        return bool(said.answer == gold.answer)

    optimizer = dspy.BootstrapFewShot(right, max_bootstrapped_demos=2, max_labeled_demos=0)
    compiled = optimizer.compile(program, trainset=questions)
    for seat in compiled.seats().values():
        assert seat.predict.demos
        ours = worked_examples()["scienceqa"].question
        assert all(demo["question"] != ours for demo in seat.predict.demos)
    taught = compiled.seats()["evaluator"].predict.demos[0]
    assert [note["title"] for note in taught["notes"]] == [SOLUTION, COUNTERFACTUAL]
    assert all(len(seat.predict.demos) == 1 for seat in program.seats().values())
    scripted.requests.clear()
    compiled(**CHOICE)
    assert all(len(body["messages"]) > 2 for body in scripted.bodies)
