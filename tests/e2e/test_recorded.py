"""The recorded contests of embedded LMs, and the page on them; `…` stands for left-out lines."""

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from acting import no_bwrap
from by_day import some_by_day, these_by_day
from cli_helpers import folkmoot, isolate
from recorded import ARCHIVES, unpack

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "examples" / "recorded" / "README.md"
EVERY = [archive.name.removesuffix(".tar.xz") for archive in ARCHIVES]
TRIES = [name for name in EVERY if name.startswith("try-")]
# Runs with the arms of their controls; the page's commands replay them.
NAMES = [name for name in EVERY if name not in TRIES and not name.endswith("-controls")]
UNSHIPPED = ("scienceqa-", "humaneval-", "quixbugs-")
SHIPPED = [name for name in NAMES if not name.startswith(UNSHIPPED)]
OTHERS = [name for name in NAMES if name.startswith(UNSHIPPED)]
BY_DAY = {"csqa-small-mipro", "csqa-talk", "gsm8k-causal", "hotpot-team"}
BY_DAY |= {"scienceqa-cot", "humaneval-reviewed"}
"""One of each kind of program; the others, and networks, are replayed at night."""
SAME = ("id", "answer", "correct", "decided_by")
LACKING = {"csqa-cot": 1, "gsm8k-cot": 1, "gsm8k-samples": 4}
"""The rows with a reply that was cut off, or with one that gave several numbers, in records that
lack what follows from one.
"""
BLOCK = r"^```console\n((?:\$ folkmoot [^\n]*\n)+)```\n\n```text\n(.*?)^```"
SHOWN = re.findall(BLOCK, PAGE.read_text(), re.M | re.S)


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the contests that the test's parameters name, or all."""
    isolate(tmp_path, monkeypatch)
    case = getattr(request.node, "callspec", None)
    unpack(tmp_path, case and " ".join(case.params.values()))
    return tmp_path


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_none_says_where_it_was_made(folder: Path) -> None:
    files = [*folder.rglob("*.json"), *folder.rglob("*.md")]
    assert len(files) > len(ARCHIVES)
    absolute = r"(?<![\w./-])/\w+/[\w/-]*"
    said = {one.relative_to(folder): re.findall(absolute, one.read_text()) for one in files}
    assert not {place: paths for place, paths in said.items() if paths}


def asked(folder: Path) -> tuple[list[str], Path]:
    """The program that answered a contest's held-out questions, with its options, and its run."""
    # Of a compilation, of one that found nothing better, of a study.
    places = {"after": "program", "before": "program", "validation/winner": "winner"}
    for run, program in places.items():
        if (folder / run).exists():
            return [str(folder / program)], folder / run
    if (folder / "network.json").exists():
        return [f"network:{folder}", "--set", "prompts=words/cot.yaml"], folder
    settings = json.loads((folder / "run.json").read_text())["settings"]
    spec = settings["program_spec"]
    if "reviewer" in spec:  # a role of the run's own
        return [str(folder / "program")], folder
    words = {"intuitive": "intuitive", "bold,cautious": "supervisor"}
    words |= dict.fromkeys(("cot", "self_consistency"), "cot")
    earlier = [f"prompts=words/{file}.yaml" for word, file in words.items() if word in spec]
    if folder.name.endswith("-worked"):  # asked in the words of today
        earlier = []
    sets = [*settings["sets"], *earlier]
    return [spec, *(word for one in sets for word in ("--set", one))], folder


def replayed(name: str, folder: Path, *data: Any) -> list[dict[str, Any]]:
    """The rows of a contest, after it was asked once more and they were found to be the same."""
    program, run = asked(folder / name)
    words = ("--lm", f"replay/{run}", "--no-track", "--yes", "--out", "again")
    folkmoot("evaluate", *program, *data, *words, code=0)
    known, again = rows(run), rows(folder / "again")
    whole = list(range(len(known)))
    # Some records lack what a reply that is cut off leads to today: it is kept, and if its answer
    # is cut, the agent is asked once more; as it is where a reply gives several numbers.
    if name in LACKING:
        pairs = enumerate(zip(known, again, strict=True))
        whole = [place for place, (row, new) in pairs if not (row["truncated"] or new["error"])]
        assert len(known) - len(whole) == LACKING[name]
    for place in whole:
        assert [known[place][field] for field in SAME] == [again[place][field] for field in SAME]
        assert again[place]["usage"]["cached_calls"] == again[place]["usage"]["calls"]
    assert not json.loads((folder / "again" / "summary.json").read_text())["paid"]["calls"]
    return known


@pytest.mark.parametrize("name", these_by_day(SHIPPED, BY_DAY))
def test_a_recorded_contest_is_replayed_without_a_call(name: str, folder: Path) -> None:
    replayed(name, folder, "--data", folder / name / "questions.jsonl", "--seed", 1)


@pytest.mark.parametrize("name", some_by_day(TRIES))
def test_a_recorded_try_is_compared_without_a_call(name: str, folder: Path) -> None:
    """A contest held today would ask its fair opponent in another way than those recorded."""
    done = folkmoot("compare", folder / name, "--json", code=0)
    runs = {run["name"]: run for run in json.loads(done.stdout)["runs"]}
    recorded = json.loads((folder / name / "contest.json").read_text())["result"]
    asked = [standing for standing in recorded["standings"] if standing["state"] != "free"]
    assert [standing["name"] for standing in asked] == list(runs)
    for standing in asked:
        assert runs[standing["name"]]["score"]["n"] <= standing["n"]
    assert folkmoot("report", folder / name, "--out", "page.html", "--no-track").exit_code == 0


@pytest.mark.parametrize("name", these_by_day(OTHERS, BY_DAY))
def test_one_whose_questions_may_not_be_passed_on_is_replayed_with_them(
    name, data_dir, folder, monkeypatch
):
    monkeypatch.setenv("FOLKMOOT_DATA", str(data_dir))  # the fixture `folder` has unset it
    drawn = json.loads((folder / name / "run.json").read_text())["settings"]
    data: list[Any] = []
    for option in ("data", "split", "limit", "seed"):
        data += [f"--{option}", drawn[option]] if drawn[option] is not None else []
    if "task" in drawn["kinds"]:
        if reason := no_bwrap():
            pytest.skip(reason)
        monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
        coding = importlib.import_module("coding_tasks")
        coding.write_tasks(folder / "tasks")
        data += ["--check", coding.CHECK, "--answer-file", "solution.py", "--check-timeout", 30]
    for row in replayed(name, folder, *data):
        assert not row["question"]
        assert not row["choices"]
        assert not row["meta"]


def test_the_page_shows_scripts_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scripts = re.findall(
        r"^```python\n(.*?)```\n\n```text\n(.*?)^```", PAGE.read_text(), re.M | re.S
    )
    assert scripts
    for script, shown in scripts:
        exec(compile(script, "README.md", "exec"), {})
        assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    ("commands", "shown"), SHOWN, ids=[one.partition("\n")[0] for one, _ in SHOWN]
)
def test_the_page_shows_what_its_commands_print(commands: str, shown: str, folder: Path) -> None:
    said = ""
    for line in commands.splitlines():
        done = folkmoot(*line.removeprefix("$ folkmoot ").split(), code=0)
        said += done.stdout
    printed = iter([line.rstrip() for line in said.splitlines()])
    missing = [line for line in shown.splitlines() if line != "…" and line not in printed]
    assert not missing, said
