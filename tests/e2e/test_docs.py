"""Every Python snippet and folkmoot command of the README and docs runs, and what they name exists.

By day they run inside the test's process, with a stand-in for the embedded LM; at night each runs
as a reader runs it, in a process of its own.
"""

import csv
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from children import code as run_code
from children import run as run_child
from cli_helpers import folkmoot as command
from cli_helpers import isolate, write
from embedded_weights import skip_without_weights
from recorded import unpack
from stores import new_store

import folkmoot
from folkmoot.pipelines.lms.client import Reply
from folkmoot.pipelines.lms.embedded import LocalEndpoint
from folkmoot.pipelines.testing.server import first_option, wanted_fields

ROOT = Path(folkmoot.__file__).parent
PAGES = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").rglob("*.md"))]
READ_FIRST = {"README.md", "cli.md", "index.md", "ship-it.md", "your-data.md"}
"""Pages whose commands run by day, too; those of all others are parsed."""
NO_LOCAL = "the extra `local` (embedded LM) is not installed"
needs_local = pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason=NO_LOCAL)


def blocks(language: str) -> list[tuple[str, str]]:
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.DOTALL | re.MULTILINE)
    return [(page.name, text) for page in PAGES for text in fence.findall(page.read_text())]


def files() -> dict[str, dict[str, str]]:
    """The snippets of each page that begin with the name of the file they are, by that name."""
    found: dict[str, dict[str, str]] = {}
    for page, code in [*blocks("python"), *blocks("yaml")]:
        named = re.match(r"# (\w+\.(?:py|yaml))\n", code)
        if named:
            found.setdefault(page, {})[named[1]] = code
    return found


def option_or_letter(body: dict[str, Any]) -> str:
    """A reply that fits the schema of the request; a letter where it has none, as to a crew."""
    return first_option(body) if wanted_fields(body) else "A"


def write_files(page: str, folder: Path) -> None:
    """Write the files of a page where its commands run; the stand-in server has no known price."""
    for name, code in files().get(page, {}).items():
        of_money = name.endswith(".yaml") and "USD" in code
        priced = 'price: ["openai/gpt-4o-mini=0.15,0.6"]\n' if of_money else ""
        (folder / name).write_text(code + priced)


def scripts() -> list[tuple[str, str]]:
    found = blocks("python")
    return [(page, code) for page, code in found if code not in files().get(page, {}).values()]


def commands() -> list[tuple[str, list[str]]]:
    """The folkmoot lines of each block, run in turn in one folder; those of equal blocks once."""
    found = []
    for name, block in blocks("console"):
        lines = [line.removeprefix("$ ").partition("  #")[0].strip() for line in block.splitlines()]
        ours = [line for line in lines if line.startswith("folkmoot ") and line != "folkmoot ui"]
        known = [lines for _, lines in found]
        found += [(name, ours)] if ours and ours not in known else []
    return found


async def stand_in(_: LocalEndpoint, payload: Mapping[str, Any]) -> Reply:
    """A reply in the embedded LM's form: the first option of a choice, some words elsewhere."""
    simple = {"boolean": "yes", "number": "1", "action": "Finish[bank]"}
    fields = payload.get("fields") or [{"name": "text", "type": "text"}]
    fits = ["because it fits"]
    said = [simple.get(each["type"]) or each.get("options", fits)[0] for each in fields]
    labels = ["", *(f"\n{field['name'].capitalize()}:" for field in fields[1:])]
    text = "".join(f"{label} {value}" for label, value in zip(labels, said, strict=True))
    words = sum(len(message["content"].split()) for message in payload["messages"])
    return Reply(text + "\n", "stop", words, len(text.split()))


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder, a store and a cache of one's own, and the embedded LM replaced by a stand-in."""
    isolate(tmp_path, monkeypatch)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(tmp_path))
    monkeypatch.setattr(LocalEndpoint, "send", stand_in)
    known = dict(folkmoot.STRATEGIES)
    yield
    folkmoot.STRATEGIES.clear()
    folkmoot.STRATEGIES.update(known)


def rows_of(name: str, count: int) -> list[dict[str, Any]]:
    fixed = {"choices": {"A": "bank", "B": "mall"}, "answer": "A"}
    asked = {f"{name}{i}": f"Where is {name} {i} kept?" for i in range(count)}
    return [{"id": id, "question": text, **fixed} for id, text in asked.items()]


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What the commands of the docs find in the folder that they run in."""
    for name, count in (("questions", 6), ("held-out", 6), ("train", 20), ("test", 12)):
        write(tmp_path / f"{name}.jsonl", *rows_of(name, count))
    with (tmp_path / "questions.csv").open("w", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(["id", "question", "choices", "answer"])
        for row in rows_of("questions", 6):
            choices = json.dumps(row["choices"])
            writer.writerow([row["id"], row["question"], choices, row["answer"]])
    for number in range(4):
        task = tmp_path / "tasks" / str(number)
        for name, text in (("files/add.py", "x"), ("tests/test_add.py", "def test(): ...\n")):
            (task / name).parent.mkdir(parents=True)
            (task / name).write_text(text)
        (task / "question.md").write_text(f"Repair add.py, number {number}.")
    document = '{"id": "1", "title": "Bank", "text": "A bank keeps things."}\n'
    (tmp_path / "documents.jsonl").write_text(document)
    unpack(tmp_path, " ".join(request.node.callspec.params["lines"]))
    return tmp_path


def words_of(line: str) -> list[str]:
    """The arguments of a command; the server that stands in for the provider has no known price."""
    _, *words = shlex.split(line)
    return [*words, "--price", "openai/gpt-4o-mini=0.15,0.6"] if "USD" in line else words


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(("page", "code"), scripts())
def test_python_snippets_run(page: str, code: str, tmp_path: Path) -> None:
    unpack(tmp_path, code)
    exec(compile(code, page, "exec"), {"__name__": "__main__"})


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(("page", "lines"), [each for each in commands() if each[0] in READ_FIRST])
def test_commands_run(page, lines, folder, scripted, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    write_files(page, folder)
    scripted.reply = option_or_letter
    for line in lines:
        done = command(*words_of(line))
        assert done.exit_code == 0, f"{page}: {line}\n{done.output}\n{done.exception}"


@pytest.mark.parametrize(("page", "lines"), commands())
def test_commands_are_ones_that_there_are(page: str, lines: list[str]) -> None:
    for line in lines:
        done = command(*shlex.split(line)[1:], "--help")
        assert done.exit_code == 0, f"{page}: {line}\n{done.output}"


@pytest.mark.nightly
@needs_local
@pytest.mark.local_lm
@pytest.mark.parametrize(("page", "lines"), commands())
def test_commands_run_as_children(page: str, lines: list[str], folder: Path, scripted: Any) -> None:
    skip_without_weights(" ".join(lines))
    env = {**os.environ, "OPENAI_BASE_URL": scripted.url, "OPENAI_API_KEY": "none"}
    env.pop("MLFLOW_TRACKING_URI", None)
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    write_files(page, folder)
    scripted.reply = option_or_letter
    for line in lines:
        words = [str(Path(sys.executable).with_name("folkmoot")), *words_of(line)]
        given: Any = {"text": True, "timeout": 1200 if "qwen" in line else 300}
        done = subprocess.run(words, cwd=folder, env=env, capture_output=True, **given)
        assert done.returncode == 0, f"{page}: {line}\n{done.stderr}"


@pytest.mark.nightly
def test_the_page_ends_its_contest_rightly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    pictures = importlib.import_module("make_pictures")
    unpack(tmp_path)
    *looks, ending = pictures.contest_frames()
    assert len(looks) == 5
    assert "60 of 100 questions" in looks[-1]
    page = (ROOT / "docs" / "contest.md").read_text()
    assert next(line for line in ending if line.startswith("Better: ")) in page
    picture = (ROOT / "docs" / "images" / "contest.svg").read_text()
    assert pictures.animated([*looks, ending], "A contest") == picture


def test_the_intervals_of_the_readme_are_those_of_the_atlases() -> None:
    table = (ROOT / "README.md").read_text().partition("## Try it")[0].replace("−", "-")
    intervals = re.findall(r"(\S+) \[(\S+), (\S+)\]", table)
    assert len(intervals) == 3
    answers = (ROOT / "docs" / "atlas.md").read_text().replace("+0.0 (", "0.0 (")
    acts = (ROOT / "docs" / "agents-atlas.md").read_text()
    for value, low, high in intervals:
        in_acts = f"{value} [{low}, {high}]" in acts
        assert in_acts or f"{value} ({low} to {high})" in answers


TESTED = [page for page, of in files().items() if any("def test_" in code for code in of.values())]


@pytest.mark.nightly
@pytest.mark.parametrize("page", TESTED)
def test_files_of_a_page_pass_their_tests(page: str, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    inner = "import os, pytest, sys; os.chdir(sys.argv[1]); sys.exit(pytest.main(sys.argv[2:]))"
    words = ["-q", "-p", "no:cacheprovider"]
    if "folkmoot" not in importlib.metadata.entry_points(group="pytest11").names:
        words += ["-p", "folkmoot.pipelines.testing.plugin"]  # installed before it had the plugin
    done = run_child(run_code, inner, tmp_path, *words, tmp_path)
    assert done.returncode == 0, f"{page}: {done.stdout}"


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize(("folder", "most"), [("docs", 35_000), ("", 800)])
def test_pages_have_at_most_so_many_words(folder: str, most: int) -> None:
    """The docs together, with the API reference; the README."""
    pages = (ROOT / folder).rglob("*.md") if folder else [ROOT / "README.md"]
    assert sum(len(page.read_text().split()) for page in pages) <= most


def test_json_examples_are_rows_that_load(tmp_path: Path) -> None:
    for page, text in blocks("json"):
        path = tmp_path / "row.jsonl"
        path.write_text(text)
        assert len(folkmoot.load(path)) == 1, page


def test_every_dependency_is_explained() -> None:
    explained = (ROOT / "docs" / "dependencies.md").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    declared = re.findall(r'^    "([A-Za-z0-9_-]+)', project, re.MULTILINE)
    packages = [name for name in declared if name not in ("folkmoot",) and name.islower()]
    assert packages
    for name in {re.sub(r"-part\d+$", "-part", name) for name in packages}:
        assert name in explained, f"{name} is not in docs/dependencies.md"


@pytest.mark.parametrize(("script", "page"), [("make_api", "api.md"), ("make_llms", "llms.txt")])
def test_built_pages_are_current(script: str, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    made = importlib.import_module(script).page()
    assert made == (ROOT / "docs" / page).read_text(), f"run make {script.removeprefix('make_')}"


def test_what_agents_read_is_short_and_names_what_exists() -> None:
    """Its folders and files, and the targets of the Makefile."""
    text = (ROOT / "AGENTS.md").read_text()
    assert len(text.splitlines()) <= 60
    for name in re.findall(r"`((?:docs|modules|pipelines|signatures|tests)/[\w./-]*)`", text):
        assert (ROOT / name).exists(), name
    makefile = (ROOT / "Makefile").read_text()
    for targets in re.findall(r"`?make ((?:[a-z-]+ ?)+?)(?:`|  )", text):
        for target in targets.split():
            assert re.search(rf"^{target}:", makefile, re.M), target


def test_every_supported_python_is_tested_and_told() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    supported = re.findall(r"Python :: (3\.\d+)", project)
    assert f'requires-python = ">={supported[0]}"' in project
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert json.loads(re.search(r"python: (\[.*\])", workflow)[1]) == supported  # type: ignore[index]
    for page in ("AGENTS.md", "CONTRIBUTING.md"):
        assert all(version in (ROOT / page).read_text() for version in supported), page
