"""Writes docs/*.ipynb from docs/notebooks/*.py, executed on the embedded LM: `make notebooks`."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

DOCS = Path(__file__).parent
SOURCES = sorted(DOCS.glob("notebooks/*.py"))


def target(source: Path) -> Path:
    """Where the notebook of a source stands."""
    return DOCS / f"{source.stem.replace('_', '-')}.ipynb"


def notebook(source: Path) -> nbformat.NotebookNode:
    """The cells of a source, not executed: `# %%` begins code and `# %% [markdown]` text."""
    cells = []
    for number, part in enumerate(re.split(r"^# %%", source.read_text(), flags=re.MULTILINE)[1:]):
        kind, _, body = part.partition("\n")
        text = re.sub(r"^# ?", "", body, flags=re.MULTILINE) if kind else body
        make = nbformat.v4.new_markdown_cell if kind else nbformat.v4.new_code_cell
        cells.append(make(text.strip(), id=f"cell-{number}"))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {
        "kernelspec": kernel,
        "language_info": {"name": "python", "pygments_lexer": "ipython3"},
    }
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def execute(made: nbformat.NotebookNode) -> None:
    """Run it in an empty folder, without warnings, which name paths. Raises what a cell raises."""
    language = made.metadata.language_info
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        # no answers of before
        own = {**os.environ, "PYTHONWARNINGS": "ignore", "FOLKMOOT_CACHE": cache}
        at = {"metadata": {"path": folder}}
        client = NotebookClient(
            made, timeout=900, kernel_name="python3", record_timing=False, resources=at
        )
        client.execute(env=own)
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    made.metadata.language_info = language  # without the version of this machine's Python


def main() -> None:
    for source in SOURCES:
        made = notebook(source)
        execute(made)
        nbformat.write(made, target(source))


if __name__ == "__main__":
    main()
