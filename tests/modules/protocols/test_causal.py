"""Causal consistency, clause by clause, against what really went over the wire and a slow second
reading.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import dspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import folkmoot as fm
from folkmoot.modules.agents.seat import Seat
from folkmoot.modules.agents.transcript import Turn
from folkmoot.modules.protocols.causal import EVALUATOR_PARTS, REASONER_PARTS
from folkmoot.pipelines.testing.replies import agreeing, mixed, sample_questions
from folkmoot.signatures.causal import COUNTERFACTUAL, SOLUTION
from folkmoot.signatures.examples import WORKED

CHOICES = {"A": "bank", "B": "library", "C": "mall", "D": "tree"}
CHOICE = {"question": "Where do people keep their savings?", "choices": CHOICES}
BOOLEAN = {"question": "Is a whale a fish?", "kind": "boolean"}
NUMBER = {"question": "How many legs have two spiders?", "kind": "number"}
SPAN = {"question": "What is the capital of France?", "kind": "span"}
MUTE = "???"

Round = tuple[Sequence[str], Mapping[str, str]]
"""What each reasoner says, and what an evaluator says by the answer that it examines."""


def fields_of(body: Mapping[str, Any]) -> list[str]:
    return list(body["response_format"]["json_schema"]["schema"]["properties"])


def text_of(body: Mapping[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def is_evaluator(body: Mapping[str, Any]) -> bool:
    return not set(fields_of(body)).isdisjoint(EVALUATOR_PARTS.values())


def is_second_try(body: Mapping[str, Any]) -> bool:
    return "last reply could not be used" in text_of(body)


def quoted(body: Mapping[str, Any], title: str) -> str | None:
    """What stands in the fence of that title."""
    found = re.search(
        rf"^<<<{re.escape(title)}\n(.*?)^>>>$", text_of(body), re.MULTILINE | re.DOTALL
    )
    return found and found[1].strip()


def last_answer(quote: str | None) -> str | None:
    return None if quote is None else quote.rpartition("Answer: ")[2]


class Script:
    """Replies of seats told apart by their models, `r0`, `r1`, … and `e0`, …, round after round.

    `asked` holds the requests without second tries, by round: (seat, request).
    """

    def __init__(self, rounds: Sequence[Round]) -> None:
        self.rounds = rounds
        self.asked: list[tuple[int, str, dict[str, Any]]] = []

    def __call__(self, body: dict[str, Any]) -> str:
        seat, fields = body["model"], fields_of(body)
        assert is_evaluator(body) == seat.startswith("e")
        if not is_second_try(body):
            turn = sum(seat == known == "r0" or known == "r0" != seat for _, known, _ in self.asked)
            depth = (
                turn
                if seat.startswith("e")
                else sum(seat == known for _, known, _ in self.asked) + 1
            )
            self.asked.append((depth, seat, body))
        depth = max(at for at, known, _ in self.asked if known == seat)
        reasoners, verdicts = self.rounds[depth - 1]
        if seat.startswith("e"):
            answer = verdicts[str(last_answer(quoted(body, SOLUTION)))]
        else:
            answer = reasoners[int(seat[1:])]
        said = {name: f"{name} of {seat} in round {depth}" for name in fields}
        return json.dumps({**said, "answer": answer})

    def evaluations(self) -> list[tuple[int, str, str | None, str | None]]:
        """Round, seat, the answer examined, and the other one, in a fixed order."""
        return sorted(
            (
                at,
                seat,
                last_answer(quoted(body, SOLUTION)),
                last_answer(quoted(body, COUNTERFACTUAL)),
            )
            for at, seat, body in self.asked
            if seat.startswith("e")
        )


def play(
    scripted: Any,
    rounds: Sequence[Round],
    task: Mapping[str, Any] = CHOICE,
    evaluators: int = 1,
    **more: Any,
) -> tuple[Any, Script]:
    """One question through a program whose seats say what is scripted."""
    script = scripted.reply = Script(rounds)
    program = fm.CausalConsistency(len(rounds[0][0]), evaluators, **more)
    program.assign(
        {
            name: fm.lm(
                f"openai/{name[0]}{name.rpartition('.')[2] if '.' in name else 0}",
                api_base=scripted.url,
            )
            for name in program.seats()
        }
    )
    scripted.requests.clear()
    return program(**task), script


def outcome(prediction: Any) -> tuple[Any, ...]:
    return prediction.answer, prediction.decided_by, prediction.rounds, prediction.consensus_round


# One majority
# -----------------------------------------------------------------------------------------------


def test_an_answer_that_an_evaluator_upholds_is_accepted(scripted: Any) -> None:
    prediction, script = play(scripted, [(["A", "A"], {"A": "A"})])
    assert outcome(prediction) == ("A", "accepted", 1, 1)
    assert [seat for _, seat, _ in script.asked][-1] == "e0"
    assert len(scripted.bodies) == prediction.usage["calls"] == 3
    (_, _, examined, other) = script.evaluations()[0]
    assert examined == "A"
    assert other in {"B", "C", "D"}
    turn = prediction.transcript[-1]
    assert turn["examined"] == {
        "agent": turn["examined"]["agent"],
        "answer": "A",
        "counterfactual": other,
    }
    assert turn["examined"]["agent"] in {"reasoner.0", "reasoner.1"}
    assert prediction.answers == {"reasoner.0": ["A"], "reasoner.1": ["A"], "evaluator": ["A"]}


# No majority
# ------------------------------------------------------------------------------------------------


def test_without_a_majority_the_top_answers_are_examined_at_the_same_time(scripted: Any) -> None:
    scripted.delay = 0.1
    prediction, script = play(
        scripted, [(["A", "B", "C"], dict.fromkeys("ABC", "C"))], evaluators=2, n=3
    )
    assert outcome(prediction) == ("C", "evaluators", 1, 1)
    assert sorted(examined for _, _, examined, _ in script.evaluations()) == ["A", "B", "C"]
    assert Counter(seat for _, seat, *_ in script.evaluations()) == {"e0": 2, "e1": 1}
    assert scripted.most_at_once == 3  # three reasoners, then three evaluations: no more, no fewer


# Thresholds
# -------------------------------------------------------------------------------------------------


# Without evaluators
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "winner"),
    [(["A", "B", "B"], "B"), (["C"], "C"), ([MUTE, "D", MUTE], "D"), ([MUTE], None)],
)
def test_without_evaluators_it_is_a_vote(
    scripted: Any, answers: list[str], winner: str | None
) -> None:
    prediction, _ = play(scripted, [(answers, {})], evaluators=0)
    assert outcome(prediction) == (winner, "none" if winner is None else "vote", 1, None)
    assert not any(map(is_evaluator, scripted.bodies))


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


# Counterfactuals
# --------------------------------------------------------------------------------------------


def test_the_other_answer_is_another_reasoners_before_any_option(scripted: Any) -> None:
    for seed in range(4):
        _, script = play(scripted, [(["A", "A", "D"], {"A": "A"})], seed=seed)
        assert script.evaluations()[0][2:] == ("A", "D")


@pytest.mark.parametrize(("answer", "other"), [("yes", "no"), ("no", "yes"), ("True", "no")])
def test_a_truth_value_flips(scripted: Any, answer: str, other: str) -> None:
    said = "no" if other == "yes" else "yes"
    prediction, script = play(scripted, [([answer], {said: said})], BOOLEAN)
    assert script.evaluations()[0][2:] == (said, other)
    assert prediction.answer == said


@pytest.mark.parametrize(
    ("task", "answer", "another"),
    [(NUMBER, "16", "8"), (SPAN, "Paris", "Lyon")],
    ids=["number", "span"],
)
def test_free_answers_are_challenged_by_a_reasoner_or_by_the_evaluator(
    scripted: Any, task: dict[str, Any], answer: str, another: str
) -> None:
    _, script = play(scripted, [([answer, answer, another], {answer: answer})], task)
    assert script.evaluations()[0][2:] == (answer, another)
    prediction, script = play(scripted, [([answer, answer], {answer: answer})], task)
    assert script.evaluations()[0][2:] == (answer, None)
    body = script.asked[-1][2]
    assert COUNTERFACTUAL not in text_of(body)
    assert "contradiction" in fields_of(body)  # it has to think of another answer itself
    assert prediction.transcript[-1]["examined"]["counterfactual"] is None


def test_options_with_one_text_are_one_answer(scripted: Any) -> None:
    twins = {"question": "Which?", "choices": {"A": "bank", "B": "bank", "C": "mall"}}
    for seed in range(4):
        verdicts = {"A": "B", "B": "A"}
        prediction, script = play(scripted, [(["A", "B"], verdicts)], twins, seed=seed)
        assert (prediction.answer, prediction.decided_by) == ("A", "accepted")
        assert script.evaluations()[0][3] == "C"
    all_alike = {"question": "Which?", "choices": {"A": "bank", "B": "bank"}}
    _, script = play(scripted, [(["A"], {"A": "A"})], all_alike)
    assert script.evaluations()[0][3] is None


# Against a second reading of Algorithm 1
# --------------------------------------------------------------------


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
    """All outcomes that ONE_ROUND(…, d) can have: answer, how it was decided, rounds, evaluations
    in all.
    """
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
    rounds = st.tuples(
        st.lists(spelled, min_size=reasoners, max_size=reasoners),
        st.fixed_dictionaries(dict.fromkeys(KEYS, spelled)),
    )
    return {
        "rounds": draw(st.lists(rounds, min_size=d_max, max_size=d_max)),
        "evaluators": draw(st.integers(0, 3)),
        "th0": draw(shares),
        "th1": draw(shares),
        "n": draw(st.integers(1, 5)),
        "d_max": d_max,
    }


@settings(max_examples=150, deadline=None)
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


# Calls
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reasoners", [1, 2, 3])
@pytest.mark.parametrize("evaluators", [0, 1, 3])
def test_the_calls_of_a_question_are_those_of_the_formula(
    scripted: Any, reasoners: int, evaluators: int
) -> None:
    for n, d_max in itertools.product((1, 2, 4), (1, 3)):
        draw = random.Random(f"{reasoners}/{evaluators}/{n}/{d_max}")
        said = ["A", "A", "A", "B", "C", MUTE]
        rounds: list[Round] = [
            (draw.choices(said, k=reasoners), {answer: draw.choice(said) for answer in "ABC"})
            for _ in range(d_max)
        ]
        prediction, _ = play(
            scripted, rounds, evaluators=evaluators, n=n, d_max=d_max, seed=draw.randrange(9)
        )
        expected = 0
        for answers, _ in rounds[: prediction.rounds]:
            counts = Counter(answer for answer in answers if answer != MUTE)
            majority = max(counts.values(), default=0) * 2 > reasoners
            asked = 1 if majority else min(n, len(counts))
            expected += reasoners + (asked if evaluators else 0)
        expected += sum(turn["answer"] is None for turn in prediction.transcript)
        assert prediction.usage["calls"] == len(scripted.bodies) == expected
        assert sum(turn["usage"]["calls"] for turn in prediction.transcript) == expected


def test_reasoners_are_asked_at_the_same_time(scripted: Any) -> None:
    scripted.delay = 0.1
    play(scripted, [(["A"] * 4, {"A": "A"})])
    assert scripted.most_at_once == 4


# Sampling
# --------------------------------------------------------------------------------------------------


def ready(scripted: Any, lm: Mapping[str, Any] | None = None, *counts: int, **settings: Any) -> Any:
    program = fm.CausalConsistency(*counts, **settings)
    program.set_lm(fm.lm("openai/scripted", api_base=scripted.url, **(lm or {})))
    return program


def overturning(body: dict[str, Any]) -> str:
    """Reasoners say A and evaluators something else."""
    return json.dumps(
        {**dict.fromkeys(fields_of(body), "so"), "answer": "B" if is_evaluator(body) else "A"}
    )


def test_temperature_and_top_p_are_the_papers_unless_given(scripted: Any) -> None:
    ready(scripted)(**CHOICE)
    ready(scripted, None, 1, 1, sampling={"temperature": 0.9, "max_tokens": 77})(
        question="Which?", choices=CHOICES
    )
    ready(scripted, None, 1, 0, sampling={"temperature": None, "top_p": None})(
        question="What?", choices=CHOICES
    )
    *own, last = scripted.bodies
    assert {(body["temperature"], body["top_p"]) for body in own[:3]} == {(0.5, 0.4)}
    assert [(body["temperature"], body["top_p"], body["max_tokens"]) for body in own[3:]] == [
        (0.9, 0.4, 77)
    ] * 2
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


# Seeds
# --------------------------------------------------------------------------------------------------


def evaluated(
    scripted: Any, questions: list[fm.Question], seed: int = 0, **options: Any
) -> list[dict[str, Any]]:
    """Rows without their times, in the order of the questions."""
    scripted.reply = mixed(sample_questions())
    lm = fm.lm("openai/scripted", api_base=scripted.url, seed=7)
    program = fm.CausalConsistency(3, 2, th0=0.7, seed=seed)
    result = fm.evaluate(program, questions, lm=lm, tracking=False, cache=False, **options)
    return [
        {name: value for name, value in row.items() if name != "seconds"} for row in result.rows
    ]


def examinations(rows: list[dict[str, Any]]) -> list[Any]:
    return [turn.get("examined") for row in rows for turn in row["transcript"]]


def test_a_seed_gives_the_same_rows_whatever_the_concurrency_and_the_delays(scripted: Any) -> None:
    questions = sample_questions()
    rows = evaluated(scripted, questions, concurrency=1)
    assert {row["decided_by"] for row in rows} >= {"accepted", "evaluators", "depth limit"}
    late = random.Random(3)
    scripted.delay = lambda: late.random() * 0.03
    assert evaluated(scripted, questions, concurrency=16) == rows
    assert examinations(evaluated(scripted, questions, seed=1, concurrency=16)) != examinations(
        rows
    )


# What agents are told
# ---------------------------------------------------------------------------------------


def requests_of(scripted: Any, **settings: Any) -> dict[bool, dict[str, Any]]:
    """The request of a reasoner (False) and of an evaluator (True), told apart by the quoted
    solution.
    """
    scripted.requests.clear()
    ready(scripted, None, 1, 1, **settings)(**CHOICE)
    reasoner, evaluator = scripted.bodies
    assert quoted(reasoner, SOLUTION) is None
    return {False: reasoner, True: evaluator}


def test_components_come_in_the_papers_order(scripted: Any) -> None:
    requests = requests_of(scripted)
    assert fields_of(requests[False]) == ["concepts", "subquestions", "rationale", "answer"]
    assert fields_of(requests[True]) == ["check", "contradiction", "reconsideration", "answer"]
    assert 'Fields: "concepts" (' in text_of(requests[False])


@pytest.mark.parametrize("part", [*REASONER_PARTS, *EVALUATOR_PARTS])
def test_a_component_left_out_takes_its_field_and_nothing_else(scripted: Any, part: str) -> None:
    whole, less = requests_of(scripted), requests_of(scripted, without=[part])
    field = {**REASONER_PARTS, **EVALUATOR_PARTS}[part]
    for role, parts in ((False, REASONER_PARTS), (True, EVALUATOR_PARTS)):
        dropped = [field] if part in parts else []
        assert fields_of(less[role]) == [
            name for name in fields_of(whole[role]) if name not in dropped
        ]
        assert (f'"{field}"' in text_of(less[role])) == (
            f'"{field}"' in text_of(whole[role]) and not dropped
        )
        if not dropped and role is False:
            assert less[role] == whole[role]
    assert (quoted(less[True], COUNTERFACTUAL) is None) == (part == "counterfactual")
    assert ("other answer" in text_of(less[True])) == (part != "counterfactual")


@pytest.mark.parametrize("name", list(WORKED))
def test_a_demonstration_shows_one_demo_for_both_roles(scripted: Any, name: str) -> None:
    requests, worked = requests_of(scripted, demonstration=name), WORKED[name]
    for role, parts in ((False, REASONER_PARTS), (True, EVALUATOR_PARTS)):
        _, shown, reply, _ = requests[role]["messages"]
        assert worked.question.split("\n")[0] in shown["content"]
        assert json.loads(reply["content"]) == {
            **{field: worked.fields[field] for field in parts.values()},
            "answer": worked.answer,
        }
    solution = quoted({"messages": requests[True]["messages"][:2]}, SOLUTION)
    assert solution is not None
    assert all(worked.fields[field] in solution for field in REASONER_PARTS.values())
    assert last_answer(solution) == worked.answer
    assert (
        last_answer(quoted({"messages": requests[True]["messages"][:2]}, COUNTERFACTUAL))
        == worked.other
    )


def test_an_optimizer_replaces_the_demonstration(scripted: Any) -> None:
    questions = [question for question in sample_questions() if question.kind == "choice"]
    scripted.reply = agreeing(questions)
    program = ready(scripted, None, 2, 1, demonstration="scienceqa")
    optimizer = dspy.BootstrapFewShot(
        metric=lambda gold, said, trace=None: said.answer == gold.answer,
        max_bootstrapped_demos=2,
        max_labeled_demos=0,
    )
    compiled = optimizer.compile(program, trainset=questions)
    for seat in compiled.seats().values():
        assert seat.predict.demos
        assert all(demo["question"] != WORKED["scienceqa"].question for demo in seat.predict.demos)
    taught = compiled.seats()["evaluator"].predict.demos[0]
    assert [note["title"] for note in taught["notes"]] == [SOLUTION, COUNTERFACTUAL]
    assert all(len(seat.predict.demos) == 1 for seat in program.seats().values())
    scripted.requests.clear()
    compiled(**CHOICE)
    assert all(len(body["messages"]) > 2 for body in scripted.bodies)


# Settings
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"reasoners": 0}, "reasoners is 0"),
        ({"reasoners": -1}, "at least 1"),
        ({"reasoners": True}, "reasoners is True"),
        ({"reasoners": "2"}, "reasoners is '2'"),
        ({"reasoners": 2.0}, "reasoners is 2.0"),
        ({"evaluators": -1}, "evaluators is -1"),
        ({"evaluators": None}, "evaluators is None"),
        ({"th0": 1.1}, "th0 is 1.1"),
        ({"th1": -0.1}, "th1 is -0.1"),
        ({"th1": float("nan")}, "th1 is nan"),
        ({"th0": "half"}, "th0 is 'half'"),
        ({"th0": True}, "th0 is True"),
        ({"n": 0}, "n is 0"),
        ({"d_max": 0}, "d_max is 0"),
        ({"d_max": 1.5}, "d_max is 1.5"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"seed": None}, "seed is None"),
        ({"without": ["answer"]}, "no component 'answer'.*non_causal"),
        ({"without": "check"}, "no component 'check'"),
        ({"without": [["concepts"]]}, "no component"),
        ({"without": 3}, "without is 3"),
        ({"demonstration": "csqa"}, "no worked demonstration 'csqa'.*scienceqa"),
        ({"sampling": {"heat": 1}}, "no sampling setting 'heat'"),
        ({"lms": {"judge": None}}, "no seat 'judge'.*reasoner.0, reasoner.1, evaluator"),
    ],
)
def test_bad_settings_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(fm.UserError, match=words) as caught:
        fm.CausalConsistency(**arguments)
    assert "\n" not in str(caught.value)
