"""Ties: every protocol that votes has a rule for them, which users choose and studies search."""

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import folkmoot as fm
from folkmoot.modules.protocols.causal import ranked
from folkmoot.modules.reading.voting import Ties, vote_among
from folkmoot.pipelines.testing.replies import filled, text_of
from folkmoot.pipelines.testing.server import ScriptedServer

CHOICES = {"A": "bank", "B": "library", "C": "mall"}


def questions(n: int) -> list[fm.Question]:
    known: Any = {"choices": CHOICES, "answer": "B"}
    return [fm.Question(id=f"q{i}", question=f"Question {i}?", **known) for i in range(n)]


def winner(answers: Sequence[str], ties: Ties, **known: Any) -> str | None:
    names = [f"m{i}" for i in range(len(answers))]
    decide = ties.decider("q", names, known.get("weights"))
    return vote_among(answers, "choice", decide_tie=decide).answer


def test_each_rule_takes_its_own_of_the_tied_answers() -> None:
    tied = ["A", "B", "B", "A"]
    assert winner(tied, Ties()) == "A"
    assert winner(tied, Ties("weight"), weights=[1, 1, 3, 2]) == "B"
    # equally heavy: the one given first
    assert winner(tied, Ties("weight"), weights=[3, 1, 3, 2]) == "A"
    assert winner(tied, Ties("strongest", "m2")) == "B"
    assert winner(["A", "B", "C", "B", "A"], Ties("strongest", "m2")) == "A"  # not among the tied
    drawn = {winner(tied, Ties("random", seed=seed)) for seed in range(20)}
    assert drawn == {"A", "B"}
    for ties in (Ties("weight"), Ties("strongest", "m0"), Ties("random")):
        assert winner(["A", "B", "B"], ties, weights=[9, 1, 1]) == "B"  # no tie


def test_answers_are_ranked_by_their_share_and_ties_by_their_rule() -> None:
    answers, names = ["A", None, "B", "C", "C"], ["v", "w", "x", "y", "z"]

    def order(ties: Ties, seed: int = 0) -> str:
        found = ranked(answers, names, ties, random.Random(seed))
        assert dict(found) == {"A": 0.2, "B": 0.2, "C": 0.4}  # of all votes, the abstention too
        return "".join(answer for answer, _ in found)

    assert order(Ties()) == "CAB"
    assert order(Ties("strongest", "x")) == "CBA"
    assert {order(Ties("random"), seed) for seed in range(20)} == {"CAB", "CBA"}


def by_model(scripted: ScriptedServer, answers: str) -> list[Any]:
    """LMs that always give these answers, one each."""
    scripted.reply = lambda body: filled(body, answers[int(body["model"].removeprefix("m"))])
    return [fm.lm(f"openai/m{i}", api_base=scripted.url) for i in range(len(answers))]


def ensemble(scripted: Any, answers: str, **settings: Any) -> fm.Ensemble:
    """Members that always give these answers, each by an LM of its own."""
    return fm.Ensemble([fm.SingleAgent(lm=lm) for lm in by_model(scripted, answers)], **settings)


@pytest.mark.parametrize(
    ("settings", "right"),
    [
        ({}, 0),
        ({"tie_break": "weight", "weights": [1, 2, 3, 1]}, 4),
        ({"vote": "weighted", "weights": [3, 1, 3, 1], "tie_break": "strongest:simple.1"}, 4),
    ],
)
def test_an_ensembles_ties_go_as_its_rule_says_and_its_report_says_what_the_vote_is_worth(
    scripted, settings, right
):
    program = ensemble(scripted, "ABBA", **settings)
    run = fm.evaluate(program, questions(4), lm=None, tracking=False, cache=False, progress=False)
    report = run.summary.report
    assert run.summary.counts.correct == right
    assert report["member_accuracy"] == {"simple.0": 0, "simple.1": 1, "simple.2": 1, "simple.3": 0}
    assert report["agreement"]["all"] == 0
    assert report["agreement"]["simple.1-simple.2"] == 1
    assert report["agreement"]["simple.0-simple.1"] == 0
    assert (report["best_member"], report["gain"]) == ("simple.1", right / 4 - 1)
    assert (report["ceiling"], report["lost"]) == (1, 1 - right / 4)


def test_a_drawn_tie_is_the_seeds_and_the_questions_own(scripted: ScriptedServer) -> None:
    def answers(seed: int, concurrency: int) -> list[str]:
        program = ensemble(scripted, "AB", tie_break="random", seed=seed)
        given: Any = {"tracking": False, "cache": False, "progress": False}
        run = fm.evaluate(program, questions(12), concurrency=concurrency, **given)
        return [row["answer"] for row in run.rows]

    drawn = answers(0, 8)
    assert answers(0, 1) == drawn != answers(1, 8)
    assert set(drawn) == {"A", "B"}


def test_a_teams_fallback_and_a_talks_majority_have_a_rule(scripted: ScriptedServer) -> None:
    scripted.reply = lambda body: filled(body, "B" if "strict order" in text_of(body) else "A")
    found = set()
    for rule in ("majority", "majority:strongest=reasoner"):
        talk = fm.Deliberation(["intuitive", "reasoner"], tie_break=rule, max_rounds=1)
        talk.set_lm(fm.lm("openai/scripted", api_base=scripted.url))
        said = talk(question="Where?", choices=CHOICES)
        found.add((said.decided_by, said.answer))
    assert found == {("majority", "A"), ("majority:strongest=reasoner", "B")}
    assert fm.Deliberation(["critic"], "majority:first").describe()["tie_break"] == "majority"

    def acted(body: dict[str, Any]) -> str:
        fields = body["response_format"]["json_schema"]["schema"]["properties"]
        said = "bold" if "explore boldly" in str(body["messages"][-1]["content"]) else "calm"
        known = {"action": f"Finish[{said}]", "decision": "unsure", "worker": "nobody"}
        return json.dumps({name: known.get(name, "so") for name in fields})

    pages = fm.CorpusEnvironment([{"title": "Soup", "text": "Soup is hot."}])
    scripted.reply = acted
    team = fm.SupervisedTeam(["bold", "cautious"], pages, tie_break="strongest:cautious")
    team.set_lm(fm.lm("openai/scripted", api_base=scripted.url))
    said = team(question="What is hot?")
    assert (said.answer, said.decided_by) == ("calm", "fallback:strongest")


def reasoners(rule: str, seed: int) -> fm.Program:
    return fm.CausalConsistency(2, 0, tie_break=rule, seed=seed)


def agents(rule: str, seed: int) -> fm.Program:
    def embed(texts: Sequence[str]) -> Any:
        return np.ones((len(texts), 4), dtype=np.float32)

    config = fm.NetworkConfig(agents=2, strategies=("simple",), k=1)
    return fm.StrategyNetwork.untrained(config, embed, tie_break=rule, seed=seed)


@pytest.mark.parametrize(("seat", "make"), [("reasoner", reasoners), ("agent", agents)])
@pytest.mark.parametrize(
    ("rule", "answers"), [("first", "B"), ("strongest:SEAT.1", "A"), ("random", "AB")]
)
def test_causal_consistency_and_networks_have_a_rule_too(scripted, seat, make, rule, answers):
    lms = by_model(scripted, "BA")
    drawn = set()
    for seed in range(8):
        program = make(rule.replace("SEAT", seat), seed)
        program.assign({f"{seat}.{i}": lm for i, lm in enumerate(lms)})
        drawn.add(program(question="Where?", choices=CHOICES).answer)
    assert drawn == set(answers)
