"""The report of a strategy network against a table worked out by hand, and its plots."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from dialogue_rows import error_row, result_row

from folkmoot.modules.network.report import network_report

Said = tuple[str | None, str, float]


def row(said: Sequence[Said], answer: str | None, **fields: Any) -> dict[str, Any]:
    """A row of agents with (answer, strategy, weight)."""
    turns = []
    for i, (said_, strategy, weight) in enumerate(said):
        turn = {"agent": f"agent.{i}", "round": 1, "answer": said_, "text": "", "usage": {}}
        turns.append({**turn, "strategy": strategy, "weight": weight})
    return result_row(turns, answer, **fields)


MONEY, LAND = {"topic": "money"}, {"topic": "land"}
TABLE = [
    # Two of three right, the group too; 0.8 against 0.4 is a confidence of 0.60.
    row([("A", "cot", 0.4), ("A", "cot", 0.4), ("B", "self_ask", 0.4)], "A", meta=MONEY),
    # A tie that the weights settle for the right answer, and one that they settle for a wrong one.
    row([("A", "cot", 0.5), ("B", "self_ask", 0.4), (None, "cot", 0.4)], "A", meta=MONEY),
    row([("A", "self_ask", 0.3), ("B", "cot", 0.6), (None, "cot", 0.4)], "B", meta=LAND),
    # Nobody could be read.
    row([(None, "cot", 0.5), (None, "cot", 0.4), (None, "cot", 0.4)], None, meta=LAND),
    error_row(),
]


def test_the_report_by_hand() -> None:
    found = network_report(TABLE)
    assert (found["questions"], found["errors"]) == (4, 1)
    assert found["consensus"] == 0.5
    assert found["agent"] == {
        "agent.0": {"accuracy": 0.75, "unreadable": 0.25},
        "agent.1": {"accuracy": 0.25, "unreadable": 0.25},
        "agent.2": {"accuracy": 0.0, "unreadable": 0.75},
    }
    assert found["individual"] == pytest.approx(1 / 3)
    assert found["gain"] == pytest.approx(0.5 - 1 / 3)
    assert found["majority"] == pytest.approx((1 + 0.5 + 0.5 + 0) / 4)
    assert found["gain_over_majority"] == 0.0
    assert found["tied"] == 0.5
    assert (found["gain_tied"], found["gain_untied"]) == (0.0, 0.0)
    assert found["strategy"] == {
        "cot": {"share": 0.75, "accuracy": pytest.approx(3 / 9)},
        "self_ask": {"share": 0.25, "accuracy": pytest.approx(1 / 3)},
    }
    assert found["use"]["agent.0"] == {"cot": 0.75, "self_ask": 0.25}
    land, money = {"cot": 5 / 6, "self_ask": 1 / 6}, {"cot": 4 / 6, "self_ask": 2 / 6}
    topics = {"land": pytest.approx(land), "money": pytest.approx(money)}
    assert found["use_by_topic"] == {"topic": topics}


def test_calibration_by_hand() -> None:
    found = network_report(TABLE)
    sure = [1 / (1 + math.exp(-0.4)), 1 / (1 + math.exp(-0.1)), 1 / (1 + math.exp(-0.3))]
    assert found["confidence"] == pytest.approx(sum(sure) / 3)
    # 0.599, 0.525 and 0.574 are in one bin, with two of three right.
    shares = {"count": 3, "confidence": sum(sure) / 3, "accuracy": 2 / 3}
    assert found["reliability"] == {"0.5-0.6": pytest.approx(shares)}
    assert found["ece"] == pytest.approx(2 / 3 - sum(sure) / 3)


def test_clusters_of_questions_stand_in_for_topics() -> None:
    words = {"sum": [1.0, 0.0], "river": [0.0, 1.0], "word": [1.0, 1.0], "map": [-1.0, 0.0]}
    rows = []
    for place in range(24):
        name = list(words)[place % 4]
        way = "cot" if name == "sum" else "simple"
        rows.append(row([("A", way, 0.5)], "A", id=str(place), question=f"{name} {place}"))

    def embed(texts: Sequence[str]) -> Any:
        return np.array([words[text.split()[0]] for text in texts])

    by_cluster = network_report(rows, embed)["use_by_topic"]["cluster"]
    assert len(by_cluster) == 4
    sums = {name: use["cot"] for name, use in by_cluster.items() if "sum" in name}
    assert list(sums.values()) == [1.0]
    assert network_report(rows)["use_by_topic"] == {}
