"""folkmoot in a real Jupyter kernel: progress, `await`, and results as escaped tables."""

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import folkmoot

ROOT = Path(folkmoot.__file__).parent

CELLS = (
    """
import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer

EVIL, CHOICES = "<script>alert('question')</script>", {"A": "<b>bold</b>", "B": "mall"}
questions = [
    fm.Question(id=f"q{i}", question=f"{EVIL} {i}", choices=CHOICES, answer="AB"[i % 2])
    for i in range(12)
]
server = ScriptedServer(delay=0.05).__enter__()
lm = fm.lm("openai/scripted", api_base=server.url)
""",
    'one = fm.evaluate(fm.SingleAgent("simple"), questions, lm=lm, tracking=False, '
    "concurrency=2)\none",
    """
two = await fm.aevaluate(fm.SingleAgent("cot"), questions, lm=lm, tracking=False, progress=False)
two.rows
""",
    "fm.compare(one, two, names=['<i>one</i>', 'two'])",
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
def test_it_shows_progress_and_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=place).execute()
    setup, one, two, pairs, broken, table = (cell.outputs for cell in notebook.cells)
    assert not setup

    def html(outputs: list[Any]) -> list[str]:
        shown = [output.get("data", {}) for output in outputs]
        return [data["text/html"] for data in shown if "text/html" in data]

    line, result = html(one)  # a line that was updated in place, and the result
    assert "12/12" in line
    assert "50.0% ±" in line
    assert "12 calls" in line
    assert "Evaluation of 1 agent" in result
    assert "50.0%" in result
    assert len(html(two)) == 1  # no progress
    for shown in (html(outputs)[-1] for outputs in (one, two, pairs)):
        assert "<script" not in shown
        assert "<b>" not in shown
        assert "<i>" not in shown
        assert "color" not in shown
    assert "&lt;script&gt;" in result
    assert "&lt;i&gt;one" in html(pairs)[0]
    assert "12" in str(broken[-1].data["text/plain"])
    assert "correct" in html(table)[0]
    for outputs in (one, two, pairs, broken, table):
        printed = [output for output in outputs if output.output_type in ("stream", "error")]
        said = [output.get("text", "") for output in printed]
        assert not said, outputs


@pytest.fixture
def notebooks(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("nbclient")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("make_notebooks")


def test_the_notebooks_of_the_docs_are_their_sources_executed(notebooks: Any) -> None:
    import nbformat

    assert len(notebooks.SOURCES) == 2
    for source in notebooks.SOURCES:
        text = notebooks.target(source).read_text()
        stored, made = nbformat.reads(text, as_version=4), notebooks.notebook(source)
        kept, new = ([(cell.id, cell.source) for cell in one.cells] for one in (stored, made))
        assert kept == new, "run make notebooks"
        code = [cell for cell in stored.cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
        assert sum(bool(cell.outputs) for cell in code) >= len(code) - 1
        assert not re.findall(r"/(?:tmp|home|root|Users|work|usr|opt|var)/", text)


@pytest.mark.nightly
@pytest.mark.local_lm
@pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None, reason="the extra `local` is missing"
)
@pytest.mark.parametrize("name", ["first_contest", "compile_and_tune"])
def test_a_notebook_of_the_docs_runs(name, notebooks, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    made = notebooks.notebook(ROOT / f"docs/notebooks/{name}.py")
    notebooks.execute(made)
    outputs = [one for cell in made.cells for one in cell.get("outputs", [])]
    assert not [one for one in outputs if one.output_type == "error"]
