"""Short names of programs and their legends, from what `run.json` says."""

from typing import Any

import pytest

import folkmoot as fm
from folkmoot.modules.protocols.short_names import legend, short_name
from folkmoot.pipelines.runs.manifest import name_of_run

JUDGED = fm.Deliberation(["intuitive", "reasoner"], tie_break="judge", max_rounds=2)
MAJORITY = fm.Deliberation(["intuitive", "reasoner"], tie_break="majority")
THREE = fm.Ensemble(["simple", "cot", "self_ask"])
TEAM = {"program": "team", "workers": ["bold", "cautious"], "max_steps": 8}


@pytest.mark.parametrize(
    ("described", "name", "rest"),
    [
        (fm.SingleAgent("cot"), "1 agent", "cot"),
        (fm.SingleAgent("self_consistency", samples=5), "1 agent × 5", "self_consistency"),
        (THREE, "vote of 3", "simple, cot, self_ask; majority"),
        (fm.Ensemble(["simple"], vote="pick", samples=3), "1 agent × 3 + pick", "simple; pick"),
        (JUDGED, "2 agents + judge", "intuitive, reasoner; at most 2 rounds"),
        (MAJORITY, "2 agents", "intuitive, reasoner; ties: majority; at most 3 rounds"),
        (fm.CausalConsistency(2, 1), "2 reasoners + evaluator", "at most 3 rounds"),
        (
            fm.Ensemble([fm.SingleAgent("cot"), JUDGED]),
            "vote of 2",
            "cot, 2 agents + judge; majority",
        ),
        (TEAM, "2 workers + supervisor", "bold, cautious; 8 steps"),
        ({"program": "foreign", "class": "triage:Triage"}, "Triage", ""),
        ({"program": "debate_of_mine"}, "debate_of_mine", ""),
        ({"program": "ensemble", "vote": 1}, "ensemble", ""),  # of a damaged file
    ],
)
def test_a_program_has_a_short_name_and_a_legend(described: Any, name: str, rest: str) -> None:
    described = described if isinstance(described, dict) else described.describe()
    assert short_name(described) == name
    assert legend(described) == rest


def test_examples_and_the_users_own_name_of_a_run() -> None:
    described = fm.SingleAgent("simple").describe()
    assert short_name(described, 4) == "1 agent, 4 examples"
    run: Any = {"program": described, "settings": {"demos": 1, "run_name": None}}
    assert name_of_run(run) == "1 agent, 1 example"
    assert name_of_run({**run, "settings": {"run_name": "mine"}}) == "mine"
