"""Results in notebooks: every text escaped, no script, no colours that only one theme can show."""

import re
from pathlib import Path
from typing import Any

from mortal import CHOICES

import folkmoot as fm
from folkmoot.pipelines.comparison.compare import compare

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202e&\"'"
TAGS = {"div", "p", "pre", "strong", "table", "thead", "tbody", "tr", "th", "td"}


def evaluated(folder: Path, wrong: int = 0) -> fm.Evaluation:
    known: Any = {"choices": CHOICES, "answer": "A"}
    asked = [fm.Question(id=f"q{i}", question=f"{EVIL} {i}", **known) for i in range(9)]

    def sometimes(question: fm.Question) -> str:
        return "AB"[int(question.question.split()[-1]) < wrong]  # A is right

    return fm.evaluate(sometimes, asked, out=folder, tracking=False)


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
    assert "right on 9 questions" in html
    harmless(one.rows)
    html = harmless(compared)
    assert "−67" in html or "−66.7" in html
    assert "&lt;script&gt;" in html
