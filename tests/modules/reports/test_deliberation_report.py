"""The report of a deliberation, against tables worked out by hand."""

from typing import Any

import pytest
from dialogue_rows import error_row, row

from folkmoot.modules.reports.deliberation import deliberation_report
from folkmoot.modules.reports.ensemble import ensemble_report
from folkmoot.modules.reports.forensics import forensics

# Gold is A everywhere. Speaking order: intuitive, reasoner.
TABLE = [
    row([["A", "A"]]),  # right at once
    row([["B", "B"]]),  # wrong together
    row([["B", "A"], ["A", "A"]]),  # the first speaker comes round
    row([["A", "B"], ["B", "B"]]),  # the first speaker is talked out of it
    row([["B", "C"], ["C", "B"], ["D", "B"]], judge="B"),  # never agree, the judge is wrong
    row([["B", "A"], ["B", "A"], [None, "A"]], judge="A"),  # the judge is right
    error_row(),
]


def test_a_table_worked_out_by_hand() -> None:
    report = deliberation_report(TABLE)
    assert (report["questions"], report["errors"]) == (6, 1)
    assert report["accuracy"] == pytest.approx(3 / 7)
    assert report["accuracy_excluding_errors"] == pytest.approx(3 / 6)
    assert report["consensus_rate"] == pytest.approx(4 / 6)
    shares = {"all": 4 / 6, "intuitive-reasoner": 4 / 6}
    assert report["agreement"] == pytest.approx(shares)
    assert report["resolved_by_round"] == pytest.approx({"1": 2 / 6, "2": 4 / 6, "3": 4 / 6})
    assert report["first_consensus_round"] == {"1": 2, "2": 2, "3": 0, "never": 2}
    assert report["tie_break"] == {"count": 2, "rate": pytest.approx(2 / 6), "accuracy": 0.5}
    assert report["decided_by"] == {
        "consensus": {"count": 4, "rate": pytest.approx(4 / 6), "accuracy": 0.5},
        "judge": {"count": 2, "rate": pytest.approx(2 / 6), "accuracy": 0.5},
    }


@pytest.mark.parametrize("report", [deliberation_report, ensemble_report])
def test_an_answer_that_cannot_be_read_agrees_with_none(report: Any) -> None:
    unreadable = row([["maybe", "maybe"]], kind="boolean", choices=None, gold="yes")
    assert report([unreadable])["agreement"] == {"all": 0, "intuitive-reasoner": 0}


def test_blind_openings_are_counted() -> None:
    opened = row([["A", "B"]])
    for turn in opened["transcript"]:
        turn["blind"] = True
    for report in (deliberation_report, forensics):
        assert report([opened, TABLE[0]])["blind"] == 1
        assert "blind" not in report(TABLE)


def test_each_role_at_its_first_and_last_answer() -> None:
    role = deliberation_report(TABLE)["role"]
    assert list(role) == ["intuitive", "reasoner"]  # the judge is no speaker
    assert role["intuitive"]["accuracy_first"] == pytest.approx(2 / 6)  # rows 1 and 4
    assert role["intuitive"]["accuracy_last"] == pytest.approx(2 / 6)  # rows 1 and 3
    assert role["reasoner"]["accuracy_first"] == pytest.approx(3 / 6)  # rows 1, 3 and 6
    assert role["reasoner"]["accuracy_last"] == pytest.approx(3 / 6)
    assert role["intuitive"]["abstention_rate"] == pytest.approx(1 / 12)
    assert role["reasoner"]["abstention_rate"] == 0.0


def test_revisions_by_role_and_by_round() -> None:
    report = deliberation_report(TABLE)

    # Into round 2: B→A, A→B, B→C (intuitive), C→B (reasoner); into round 3: C→D. Six rows give 2 +
    # 2·2 + 2·2
    # steps of each role's: rows 3 and 4 one each, rows 5 and 6 two each. B→None is no revision.
    def revised(*counts: int, rate: float, share: float) -> Any:
        names = ("wrong_to_right", "right_to_wrong", "wrong_to_wrong")
        shares = {"rate": rate, "share_to_right": share}
        return {**dict(zip(names, counts, strict=True)), **shares}

    found = report["revisions"]
    assert found.pop("round") == {
        "2": revised(1, 1, 2, rate=0.5, share=0.25),
        "3": revised(0, 0, 1, rate=0.25, share=0.0),
    }
    assert found == pytest.approx(revised(1, 1, 3, rate=5 / 12, share=1 / 5))
    none = {"wrong_to_right": 0, "right_to_wrong": 0, "wrong_to_wrong": 1, "share_to_right": 0.0}
    assert report["role"]["reasoner"]["revisions"] == pytest.approx({**none, "rate": 1 / 6})


def test_an_unreadable_answer_is_a_wrong_one() -> None:
    for before, after, change in ((None, "A", "wrong_to_right"), ("A", None, "right_to_wrong")):
        report = deliberation_report([row([[before], [after]], roles=["reasoner"])])
        assert report["revisions"][change] == 1
    report = deliberation_report([row([[None], ["B"]], roles=["reasoner"])])
    assert report["revisions"]["rate"] == 0
