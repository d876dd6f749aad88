"""folkmoot in a real Jupyter kernel: progress, `await`, and results as escaped tables."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

CELLS = (
    """
import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer

EVIL, CHOICES = "<script>alert('question')</script>", {"A": "<b>bold</b>", "B": "mall"}
questions = [
    fm.Question(id=f"q{i}", question=f"{EVIL} {i}", choices=CHOICES, answer="AB"[i % 2]) for i in range(12)
]
server = ScriptedServer(delay=0.05).__enter__()
lm = fm.lm("openai/scripted", api_base=server.url)
""",
    'one = fm.evaluate(fm.SingleAgent("simple"), questions, lm=lm, tracking=False, concurrency=2)\none',
    """
two = await fm.aevaluate(fm.SingleAgent("cot"), questions, lm=lm, tracking=False, progress=False)
two.rows
""",
    "fm.compare(one, two, names=['<i>one</i>', 'two'])",
    "fm.compare(one, two)[0]",
    "one.summary",
    """
from folkmoot.pipelines.base import display
def broken(*_): raise ValueError("no display")
display.ProgressBar = broken
len(fm.evaluate(fm.SingleAgent("simple"), questions, lm=lm, tracking=False).rows)
""",
    "one.to_pandas()[['id', 'correct']]",
)


@pytest.mark.nightly
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("ipykernel", "nbclient"))),
    reason="the Jupyter kernel of the extra `test` is not installed",
)
def test_a_notebook_shows_progress_and_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    setup, one, two, pairs, pair, summary, broken, table = (cell.outputs for cell in notebook.cells)
    assert not setup

    def html(outputs: list[Any]) -> list[str]:
        return [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]

    line, result = html(one)  # a line that was updated in place, and the result
    assert "12/12" in line
    assert "accuracy" in line
    assert "12 calls" in line
    assert "Evaluation of single simple" in result
    assert "50.0%" in result
    assert len(html(two)) == 1  # no progress
    for shown in (html(outputs)[-1] for outputs in (one, two, pairs, pair, summary)):
        assert "<script" not in shown
        assert "<b>" not in shown
        assert "<i>" not in shown
        assert "color" not in shown
    assert "&lt;script&gt;" in result
    assert "&lt;i&gt;one" in html(pairs)[0]
    assert "No difference between" in html(pair)[0]
    assert "12" in str(broken[-1].data["text/plain"])
    assert "correct" in html(table)[0]
    for outputs in (one, two, pairs, pair, summary, broken, table):
        said = [output.get("text", "") for output in outputs if output.output_type in ("stream", "error")]
        assert not [text for text in said if "ipywidgets" not in text], outputs  # which tqdm would like
