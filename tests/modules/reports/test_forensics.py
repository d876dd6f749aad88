"""What dialogues did to answers: each figure by hand on an example, and what always holds."""

from typing import Any

import pytest
from dialogue_rows import result_row

import folkmoot as fm
from folkmoot.modules.reports.forensics import CHANGES, forensics, moves
from folkmoot.pipelines.testing.server import ScriptedServer

CHOICES = {"A": "bank", "B": "mall", "C": "park"}


def turn(agent: str, round: int, answer: str | None, **more: Any) -> dict[str, Any]:
    said = {"answer": answer, "text": f"{agent} says {answer}"}
    return {"agent": agent, "round": round, **said, **more}


def row(*turns: dict[str, Any], answer: str | None = None) -> dict[str, Any]:
    """A row; the final answer is the last turn's unless it is given. The gold answer is A."""
    return result_row(turns, answer or turns[-1]["answer"], rounds=2)


# Round 1: i is right, r is wrong. Round 2: i gives way to r.
LOST = row(turn("i", 1, "A"), turn("r", 1, "B"), turn("i", 2, "B"), turn("r", 2, "B"))
# Round 1: i is wrong, r is right. Round 2: i gives way to r, and so gets right.
WON = row(turn("i", 1, "B"), turn("r", 1, "A"), turn("i", 2, "A"), turn("r", 2, "A"))
# Both keep their own; the judge follows i.
LATER = (turn("i", 2, "C"), turn("r", 2, "A"), turn("judge", 2, "C"))
SPLIT = row(turn("i", 1, "C"), turn("r", 1, "A"), *LATER)
AGREED = row(turn("i", 1, "A"), turn("r", 1, "A"))


def test_what_a_judge_decided_is_not_put_down_to_talk() -> None:
    """Nobody revised anything: two agents part, and a judge is right where a vote is not."""
    settled = row(turn("i", 1, "B"), turn("r", 1, "A"), turn("judge", 1, "A"), answer="A")
    found = forensics([settled, settled])
    talk = found["talk"]
    assert (talk["accuracy"], talk["accuracy_last"], talk["wrong_to_right"]) == (0, 0, 2)
    others = {change: n for change, n in talk["revisions"].items() if change != "wrong_to_wrong"}
    assert not any(others.values())
    assert talk["decider"]["wrong_to_right"] == 2
    turns = (turn("i", 1, "B"), turn("r", 1, "A"), turn("i", 2, "A"), turn("r", 2, "A"))
    turned = row(*turns, answer="A")
    talk = forensics([turned])["talk"]
    assert (talk["revisions"]["wrong_to_right"], talk["decider"]["wrong_to_right"]) == (1, 0)


def test_the_figures_of_four_dialogues_by_hand() -> None:
    found = forensics([LOST, WON, SPLIT, AGREED])
    assert found["questions"] == 4
    # right at the end: WON and AGREED; somebody right at some point: all four
    assert found["oracle"] == {"accuracy": 0.5, "any_agent": 1.0, "gap": 0.5, "lost": 2}
    assert found["sway"] == {"r": {"i": {"to_right": 1, "to_wrong": 1, "wrong_to_wrong": 0}}}
    flips = found["agent"]["i"]["flips"]
    wanted = dict.fromkeys(("right_to_wrong", "wrong_to_right", "wrong_to_wrong"), 1)
    assert {change: count for change, count in flips.items() if count} == wanted
    assert set(flips) == set(CHANGES)
    # first answers, ties to the earlier speaker i: A, B, C, A against gold A; final: B, A, C, A
    assert found["talk"]["accuracy"] == 0.5
    talk = {name: count for name, count in found["talk"].items() if count and "_to_" in name}
    assert talk == {**wanted, "right_to_right": 1}


def test_reasoners_are_asked_afresh_and_evaluators_start_from_what_they_are_handed() -> None:
    handed = {"agent": "reasoner.0", "answer": "A", "counterfactual": "B"}
    turns = [turn("reasoner.0", 1, "A"), turn("reasoner.1", 1, "B")]
    turns += [turn("evaluator", 1, "B", examined=handed)]
    turns += [turn("reasoner.0", 2, "B"), turn("reasoner.1", 2, "B")]
    causal = row(*turns, turn("evaluator", 2, "B", examined={**handed, "answer": "B"}))
    (move,) = moves(causal)
    assert (move.agent, move.before, move.after) == ("evaluator", "A", "B")
    assert move.towards == ("reasoner.1",)
    found = forensics([causal])
    assert found["agent"]["evaluator"]["flips"]["right_to_wrong"] == 1
    assert found["agent"]["evaluator"]["flips"]["wrong_to_wrong"] == 1


def test_a_worker_that_was_sent_back_was_swayed_by_the_supervisor() -> None:
    sent = {"step": "retry", "worker": "bold", "suggestion": "look again"}
    turns = [turn("bold", 1, "B", trace=[]), turn("cautious", 1, "A", trace=[])]
    turns += [turn("supervisor", 1, None, **sent), turn("bold", 2, "A", trace=[])]
    team = row(*turns, turn("supervisor", 2, "A", worker="bold", suggestion=""))
    bold = {"to_right": 1, "to_wrong": 0, "wrong_to_wrong": 0}
    assert forensics([team])["sway"] == {"supervisor": {"bold": bold}}


def test_unreadable_answers_are_no_answer_to_give_way_to_and_of_two_both_count() -> None:
    dialogue = row(turn("i", 1, "B"), turn("r", 1, "A"), turn("c", 1, "A"), turn("i", 2, "A"))
    assert moves(dialogue)[0].towards == ("r", "c")
    assert forensics([dialogue])["sway"].keys() == {"r", "c"}
    turns = (turn("i", 1, "A"), turn("r", 1, None), turn("i", 2, None), turn("r", 2, "A"))
    found = forensics([row(*turns)])
    assert found["agent"]["i"]["flips"]["right_to_unreadable"] == 1
    assert found["agent"]["r"]["flips"]["unreadable_to_right"] == 1
    assert "sway" not in found


SEVERAL = [fm.Ensemble(["simple", "cot"]), fm.CausalConsistency(2, 1)]
SEVERAL += [fm.Deliberation(["intuitive", "reasoner"], tie_break="majority", max_rounds=2)]


@pytest.mark.parametrize("program", SEVERAL)
def test_every_protocol_of_several_agents_has_them(program: Any, scripted: ScriptedServer) -> None:
    known: Any = {"choices": CHOICES, "answer": "A"}
    questions = [fm.Question(id=str(i), question=f"Where is thing {i}?", **known) for i in range(2)]
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    summary = fm.evaluate(program, questions, lm=lm, tracking=False).summary
    assert summary.forensics["oracle"]["accuracy"] == 1.0
    assert summary.report["questions"] == 2
