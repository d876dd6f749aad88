"""Results in notebooks: every text escaped, no script, no colours that only one theme can show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
from mortal import CHOICES

import folkmoot as fm
from folkmoot.modules.agents.transcript import Task, Turn
from folkmoot.modules.protocols.program import Program, prediction_of
from folkmoot.pipelines.base.html import html_table, html_text
from folkmoot.pipelines.comparison.compare import compare

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202e&\"'"
TAGS = {"div", "p", "pre", "strong", "table", "thead", "tbody", "tr", "th", "td"}


class Sometimes(Program):
    """Answers B to the first so many questions, and A, which is right, to the others."""

    def __init__(self, wrong: int) -> None:
        super().__init__()
        self.wrong = wrong

    def describe(self) -> dict[str, Any]:
        return {"program": "sometimes", "wrong": self.wrong}

    async def solve(self, task: Task) -> Any:
        said = "AB"[int(task.question.split()[-1]) < self.wrong]
        return prediction_of(task, said, "fiat", [Turn("oracle", 1, said, EVIL)])


def evaluated(folder: Path, wrong: int = 0) -> fm.Evaluation:
    asked = [
        fm.Question(id=f"q{i}", question=f"{EVIL} {i}", choices=CHOICES, answer="A")
        for i in range(9)
    ]
    lm = fm.lm("openai/none", api_base="http://127.0.0.1:9/v1")
    return fm.evaluate(Sometimes(wrong), asked, lm=lm, out=folder, tracking=False)


def harmless(shown: Any) -> str:
    html = str(shown._repr_html_())
    assert set(re.findall(r"</?(\w+)", html)) <= TAGS
    assert not re.search(r"onerror=(?!alert\(1\)&gt;)|color|\u202e|background", html)
    return html


def test_what_functions_return_is_escaped(tmp_path: Path) -> None:
    one, two = evaluated(tmp_path / EVIL.replace("/", "|")), evaluated(tmp_path / "two", wrong=6)
    compared = compare(one, two, names=[EVIL, "two"])
    html = harmless(one)
    assert "&lt;script&gt;" in html
    assert "9 right of 9" in html
    assert "100.0% [70.1%, 100.0%]" in harmless(one.summary)
    harmless(one.rows)
    for shown in (compared, compared[0]):
        html = harmless(shown)
        assert "−67" in html or "−66.7" in html
        assert "&lt;script&gt;" in html


def test_compilations_and_studies_are_escaped(tmp_path: Path) -> None:
    paid: Any = {
        "calls": 3,
        "cached_calls": 0,
        "prompt_tokens": None,
        "completion_tokens": 1,
        "cost_usd": None,
    }
    score = {"value": 0.5, "low": 0.2, "high": 0.8, "n": 4}
    compilation = fm.Compilation(
        *(tmp_path, "mipro", "light", "given", f"no gain {EVIL}", False),
        *(
            {"given": score, "winner": None, "candidate": EVIL},
            None,
            None,
            None,
            3,
            3,
            0,
            paid,
            {},
            1.5,
        ),
    )
    html = harmless(compilation)
    assert "50.0% [20.0%, 80.0%]" in html
    assert "tokens unknown" in html
    assert repr(compilation).startswith("Compilation(mipro light: no gain")
    trial = {
        "trial": 0,
        "state": "complete",
        "place": 0,
        "setting": {"roles": [EVIL]},
        "scores": {"accuracy": score},
    }
    failed = {"trial": 1, "state": "failed", "place": None, "setting": None}
    report = {
        "objectives": ["accuracy"],
        "best": trial,
        "front": [trial],
        "validation": None,
        "verdict": EVIL,
        "trials": {"complete": 1, "told": 0},
        "calls": {"made": 3, "saved": 0},
        "paid": paid,
        "table": [trial, failed],
    }
    study = fm.Study(tmp_path, EVIL, report, None)
    assert "roles=&lt;script&gt;" in harmless(study)
    table = study.to_pandas()
    assert table["scores.accuracy.value"][0] == 0.5
    assert list(table["trial"]) == [0, 1]
    harmless(fm.Study(tmp_path, "none", {**report, "best": None, "table": [failed]}, None))


def test_a_comparison_is_a_table_of_pairs(tmp_path: Path) -> None:
    compared = compare(evaluated(tmp_path / "one"), evaluated(tmp_path / "two", wrong=6))
    table = compared.to_pandas()
    assert isinstance(table, pd.DataFrame)
    assert table["difference"][0] == compared[0].difference
    assert table["outcome"][0] == compared[0].outcome
    assert "price_a" in table.columns
    assert repr(compared[0]) == f"Pair({compared[0].verdict})"


def test_a_cell_is_short_and_says_what_is_not_known() -> None:
    assert html_text(None) == "–"
    assert html_text(0.123456) == "0.1235"
    assert len(html_text("x" * 10_000)) == 300
    assert html_table(["a"], []).count("<tr>") == 1
