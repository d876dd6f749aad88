"""Reports: what the figures allow is said, nothing is loaded, no text acts, odd runs pass."""

import base64
import fcntl
import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import dspy
import mlflow
import pandas as pd
import pytest
from cli_helpers import folkmoot as command
from stores import new_store

import folkmoot as fm
from folkmoot.modules.agents.transcript import Task, Turn
from folkmoot.modules.base.fence import clean
from folkmoot.modules.protocols.program import Program, prediction_of
from folkmoot.pipelines.plots.protocols import drawings
from folkmoot.pipelines.programs.papers import bibtex
from folkmoot.pipelines.reporting.export import _harmless
from folkmoot.pipelines.reproduction.presets import PAPERS

CHOICES = {"A": "yes it is", "B": "no it is not"}
HOSTILE = (
    "<script>alert(1)</script></style><img src=x onerror=alert(1)>"
    '"\'><a href="https://evil.example/x">go</a> data:text/html,<b>x</b> {{ 7 * 7 }} '
    "\u202egnp.exe\x07\x1b[31m"
)
VOID = {"meta", "img", "source", "br", "link", "input", "hr", "col"}


class Page(HTMLParser):
    """What a page has: its elements with attributes, its text, whether every one is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.heads: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if re.fullmatch("h[1-6]", self._open[-1] if self._open else ""):
            self.heads.append(data)
        if "script" in self._open:
            self.scripts.append(data)
        elif "style" in self._open:
            self.styles.append(data)
        else:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def said(self) -> str:
        return " ".join(self.text.split())


class Talks(Program):
    """Says what it is told: a list of (agent, round, answer) for each question, without a call."""

    def __init__(
        self, turns: Callable[[int], Sequence[tuple[str, int, str | None]]], text: str = "because"
    ) -> None:
        super().__init__()
        self.told, self.text = turns, text

    def describe(self) -> dict[str, Any]:
        return {"program": "talks", "text": self.text[:20]}

    async def solve(self, task: Task) -> dspy.Prediction:
        turns = [Turn(*turn, text=self.text) for turn in self.told(int(task.question.split()[-1]))]
        return prediction_of(task, turns[-1].answer, "consensus", turns, rounds=turns[-1].round)


def ask(n: int, start: int = 0, **fields: Any) -> list[fm.Question]:
    known = {"choices": CHOICES, "answer": "A", **fields}
    given = ({"question": f"Is this number {i}", **known} for i in range(start, start + n))
    return [fm.Question(id=str(i), **each) for i, each in enumerate(given, start)]


def run(
    right: int, n: int, folder: Path | None = None, name: str = "", asked: Any = (), fails: Any = ()
) -> fm.Evaluation:
    """One agent, right on the first so many of n questions; those with these numbers fail."""

    def turns(i: int) -> list[tuple[str, int, str | None]]:
        if i in fails:
            raise dspy.utils.exceptions.LMError("the endpoint is away")
        return [("one", 1, "A" if i < right else "B")]

    settings = {"run_name": name} if name else {}
    return evaluated(Talks(turns), asked or ask(n), out=folder, settings=settings)


def evaluated(program: Talks, asked: Sequence[fm.Question], **given: Any) -> fm.Evaluation:
    return fm.evaluate(program, asked, lm=dspy.LM("openai/none"), tracking=False, **given)


def talk(n: int, folder: Path | None = None, text: str = "because") -> fm.Evaluation:
    """Two agents: on even questions i gives its right answer up, on odd ones its wrong one."""

    def turns(i: int) -> list[tuple[str, int, str | None]]:
        mine, other = ("A", "B") if i % 2 == 0 else ("B", "A")
        return [("i", 1, mine), ("r", 1, other), ("i", 2, other), ("r", 2, other)]

    return evaluated(Talks(turns, text), ask(n), out=folder, settings={"run_name": "talk"})


def page(found: Any) -> Page:
    return Page(found.path.read_text())


def test_who_agreed_with_whom_is_a_heat_map(tmp_path: Path) -> None:
    """Of the members of a panel and of those who talked; of nobody else."""
    shares = {"all": 0.5, "a-b": 0.9, "a-c-d": 0.6, "b-c-d": 0.7}
    members = {"a": 0.5, "b": 0.5, "c-d": 0.5}
    for program, field in (("ensemble", "member_accuracy"), ("deliberation", "role")):
        figures = {field: members, "agreement": shares}
        plot = drawings(program, figures)["agreement"]
        assert plot.draw(figures, tmp_path / f"{program}.svg")
        assert (tmp_path / f"{program}.svg").exists()
        assert not plot.draw({**figures, field: {"a": 0.5}}, tmp_path / "none.svg")
    assert drawings("single", {}) == {}


@pytest.mark.plots
def test_the_verdict_stands_first_and_every_part_has_its_place(tmp_path: Path) -> None:
    one, two = run(60, 100, name="one agent"), talk(100)
    found = fm.report([one, two], out=tmp_path / "r.html")
    ahead = "one agent is ahead so far, undecided, as it may be chance. "
    figures = "Against talk: 60% against 50% on 100 questions: +10 points"
    assert found.headline.startswith(f"{ahead}{figures}")
    shown_page = page(found)
    first = ["folkmoot report", "Where they differ", "Tests and prices", "Accuracy against price"]
    parts = ["Inside the protocols", "talk", "Dialogues worth reading", "talk"]
    heads = [head for head in shown_page.heads if not head.startswith("Is this")]
    assert heads == [*first, *parts, "Settings and versions", "Warnings"]
    parts = ("No difference is shown between talk and one agent.", "one agent is ahead so far")
    parts += ("100 questions show differences from about", "Take one agent: ", "take this")
    card, _, second = shown_page.said.partition("Over the 100 questions that all runs answered")
    places = [card.index(part, card.index(parts[0])) for part in parts]
    assert places == sorted(places)
    assert "McNemar" not in card
    assert "McNemar" in second
    left = "Turning point: leaves A. yes it is (right) for B. no it is not (wrong), as r said"
    assert left in shown_page.said
    assert "the final answers are right on 50.0%" in shown_page.said


def test_a_run_alone_says_that_it_cannot_say_more(tmp_path: Path) -> None:
    found = fm.report(run(7, 10), out=tmp_path / "r.html")
    assert "right on 70.0%" in found.headline
    assert "One run alone cannot say" in page(found).said
    assert found.figures["groups"][0]["comparison"] is None


def test_a_pipe_or_a_link_is_written_into(tmp_path: Path) -> None:
    """`--out /dev/null` replaced the device of the whole machine, where root ran it."""
    alone = run(7, 10)
    pipe, link, page = tmp_path / "pipe", tmp_path / "link", tmp_path / "page.html"
    os.mkfifo(pipe)
    link.symlink_to(page)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 1 << 20)
    for out in (pipe, link):
        fm.report(alone, out=out, tracking=False)
    with open(reader, "rb") as whole:
        assert whole.read() == page.read_bytes()
    assert (pipe.is_fifo(), link.is_symlink()) == (True, True)


@pytest.mark.plots
def test_nothing_on_the_page_loads_and_only_its_own_script_runs(tmp_path: Path) -> None:
    found = fm.report([run(5, 10), talk(10)], out=tmp_path / "r.html")
    shown_page = page(found)
    names = {name for name, _ in shown_page.elements}
    assert not names & {"link", "iframe", "object", "embed", "form", "base", "video", "audio"}
    for name, attributes in shown_page.elements:
        assert not [key for key in attributes if key == "style" or key.startswith("on")], name
        for key in ("src", "srcset", "href", "action", "poster", "background"):
            value = attributes.get(key)
            harmless = value is None or value.startswith(("#", "data:image/svg+xml;base64,"))
            assert harmless, (name, key, value)
    text = found.path.read_text()
    assert not re.search(r"url\(|@import|https?://(?!127)", re.sub(r"openai/\S+", "", text))
    own = [place for place, one in enumerate(shown_page.all("script")) if one.get("type") is None]
    (script,), (style,) = [shown_page.scripts[place] for place in own], shown_page.styles
    acts = r"innerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(|fetch\("
    assert not re.search(acts, script)
    metas = shown_page.all("meta")
    (policy,) = [m for m in metas if m.get("http-equiv") == "Content-Security-Policy"]
    directives = dict(part.strip().split(" ", 1) for part in str(policy["content"]).split(";"))
    assert directives["default-src"] == directives["form-action"] == "'none'"
    assert directives["img-src"] == "data:"
    for kind, allowed in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(allowed.encode()).digest()).decode()
        assert directives[kind] == f"'sha256-{digest}'"
    # Everyone can read it.
    assert shown_page.all("html") == [{"lang": "en"}]
    assert any(meta.get("name") == "viewport" for meta in metas)
    assert all(image.get("alt") for image in shown_page.all("img"))
    assert all(head.get("scope") in ("row", "col", "rowgroup") for head in shown_page.all("th"))
    levels = [int(name[1]) for name, _ in shown_page.elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    anchors = {attributes["id"] for _, attributes in shown_page.elements if attributes.get("id")}
    assert {str(link["href"])[1:] for link in shown_page.all("a")} <= anchors
    assert not re.search(r"<!--|\{\{|\{%", shown_page.text)


@pytest.mark.plots
def test_no_text_from_outside_becomes_part_of_the_page(tmp_path: Path) -> None:
    asked = ask(4, question=f"{HOSTILE} number 1", choices={"A": HOSTILE, "B": "no"})
    turns = [(HOSTILE, 1, "A"), ("r", 1, "B"), (HOSTILE, 2, "B"), ("r", 2, "B")]
    hostile = Talks(lambda i: turns, HOSTILE)
    settings = {"run_name": HOSTILE, "data": HOSTILE, HOSTILE: HOSTILE, "api_key": "sk-canary"}
    nasty = evaluated(hostile, asked, settings=settings)
    other = ask(4, question="x number 1", choices={"A": HOSTILE, "B": "no"})
    one = run(2, 4, asked=other, name="a$b${x")
    for runs in ([nasty], [nasty, one]):
        found = fm.report(runs, out=tmp_path / "r.html")
        text = found.path.read_text()
        shown_page = Page(text)
        names = {name for name, _ in shown_page.elements}
        assert not names & {"b", "iframe"}
        kinds = [one.get("type") for one in shown_page.all("script")]
        # the page's own
        assert kinds == ["application/json"] * 3 * len(found.figures["groups"]) + [None]
        assert not [one for one in shown_page.scripts[:-1] if "<" in one]
        images = [str(image["src"]) for image in shown_page.all("img")]
        assert all(source.startswith("data:image/svg") for source in images)
        assert all(str(link["href"]).startswith("#") for link in shown_page.all("a"))
        assert shown_page.text.count("<script>alert(1)</script>") > 5  # to be read, not run
        assert json.loads(shown_page.scripts[1])[0][2][0][1].startswith("<script>alert(1)</script>")
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f]", text)
        assert "49" not in re.findall(r"x</b> (\S+)", shown_page.text)
        assert "sk-canary" not in text
        assert "sk-canary" not in json.dumps(found.figures)


def unpacked(shown_page: Page) -> list[Any]:
    """The dialogues of the table of all questions."""
    packs = json.loads(shown_page.scripts[2])
    lines: list[bytes] = []
    for _, pack in packs:
        lines += zlib.decompress(base64.b64decode(pack)).split(b"\n")
    assert sum(number for number, _ in packs) == len(lines)
    return [json.loads(line) for line in lines]


def test_every_question_is_in_the_table_with_what_each_run_answered(tmp_path: Path) -> None:
    one, two = run(1, 3, name="one", fails=[2]), talk(5)
    shown_page = page(fm.report([one, two], out=tmp_path / "r.html"))
    about, questions = map(json.loads, shown_page.scripts[:2])
    assert about == ["one", "talk"]
    options = [["A", "yes it is"], ["B", "no it is not"]]
    assert questions == [
        ["0", "Is this number 0", options, "A", "", [1, "A", 1.0], [0, "B", 0.0]],
        ["1", "Is this number 1", options, "A", "", [0, "B", 0.0], [1, "A", 1.0]],
        ["2", "Is this number 2", options, "A", "", [3, "", None], [0, "B", 0.0]],
        ["3", "Is this number 3", options, "A", "", None, [1, "A", 1.0]],
        ["4", "Is this number 4", options, "A", "", None, [0, "B", 0.0]],
    ]
    dialogues = unpacked(shown_page)
    missing = [[side is None for side in sides] for sides in dialogues[2:]]
    assert missing == [[False] * 2, *[[True, False]] * 2]
    assert "the endpoint is away" in dialogues[2][0][2]
    decided, bill, error, turns, more = dialogues[0][1]
    assert (decided, bill[:7], error, more) == ("consensus", "0 calls", "", 0)
    note = "leaves A. yes it is (right) for B. no it is not (wrong), as r said"
    assert turns[2] == ["i", 2, "B. no it is not", "wrong", "because", "to wrong", note, [], 0]


def test_runs_on_different_data_are_shown_apart(tmp_path: Path) -> None:
    one, two = run(5, 10, name="one"), run(6, 10, name="two", asked=ask(10, start=100))
    found = fm.report([one, two, run(9, 10, name="three")], out=tmp_path / "r.html")
    names = [[run["name"] for run in group["runs"]] for group in found.figures["groups"]]
    assert names == [["one", "three"], ["two"]]
    assert any("two is shown apart from one" in note for note in found.figures["warnings"])
    assert "two is shown apart from one" in page(found).said


def test_folders_that_are_no_runs_are_refused_in_a_sentence(tmp_path: Path) -> None:
    good = run(5, 10)
    run(5, 10, tmp_path / "run")
    (tmp_path / "run" / "results.jsonl").write_text("")
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (tmp_path, {}, "holds no run"),
        (tmp_path / "none", {}, "there is no folder"),
        ([], {}, "needs a run"),
        (None, {}, "a run is None: pass an evaluation"),
        ([None], {}, "a run is None: pass an evaluation"),
        (tmp_path / "run", {}, "no finished row yet"),
        (good, {"names": ["a", "b"]}, "do not fit 1 runs"),
        (good, {"out": tmp_path}, "is a folder"),
        (good, {"out": "/proc/nowhere/r.html"}, "cannot be written"),
    ]
    for runs, options, said in refused:
        with pytest.raises(fm.UserError, match=said):
            fm.report(runs, **options)


def test_the_folder_of_a_compilation_stands_for_the_runs_in_it(tmp_path: Path) -> None:
    run(50, 100, tmp_path / "before", "before")
    run(90, 100, tmp_path / "after" / "c1", "after")
    about = {"program": {"program": "single"}, "lms": {}, "settings": {"api_key": "sk-canary"}}
    (tmp_path / "compile.json").write_text(json.dumps(about))
    report = fm.report(tmp_path)
    assert report.path == tmp_path / "report.html"
    assert report.headline.startswith("after beats before: 90%")
    assert "sk-canary" not in report.path.read_text()


def test_there_is_no_verdict_on_a_run_that_failed(tmp_path: Path) -> None:
    base, bad = run(60, 100, name="base"), run(0, 100, name="bad", fails=range(50, 100))
    found = fm.report([base, bad], out=tmp_path / "r.html")
    assert found.headline.startswith("No verdict on bad and base: bad failed on 50 of 100 ")
    assert len(found.figures["warnings"]) == 1
    said = page(found).said
    assert "Left out, as most of their questions failed: bad." in said
    for word in ("worth it", "recommended", "beats", "does worse"):
        assert word not in said.casefold()
    alone = fm.report(bad, out=tmp_path / "r.html")
    assert alone.headline.startswith("No verdict: bad failed on 50 of 100 questions")
    assert "right on" not in page(alone).said
    both = fm.report([bad, run(0, 100, name="worse", fails=range(100))], out=tmp_path / "r.html")
    assert "there is nothing to price" in page(both).said


def test_the_page_is_an_artifact_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(tmp_path))
    program = Talks(lambda i: [("i", 1, "A"), ("r", 1, "B"), ("i", 2, "B"), ("r", 2, "B")])
    fm.evaluate(program, ask(4), lm=dspy.LM("openai/none"), out="talk", settings={"data": "d"})
    run_id = json.loads(Path("talk/run.json").read_text())["mlflow_run_id"]
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    summary = json.loads(Path(client.download_artifacts(run_id, "summary.json")).read_text())
    assert summary["forensics"]["agent"]["i"]["flips"]["right_to_wrong"] == 4
    fm.report("talk", tracking=False)
    assert "report.html" not in [artifact.path for artifact in client.list_artifacts(run_id)]
    fm.report("talk")
    assert "report.html" in [artifact.path for artifact in client.list_artifacts(run_id)]


def test_an_absent_store_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/none/mlflow.db")
    run(5, 10, tmp_path / "run")
    told = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps({**told, "mlflow_run_id": "0" * 32}))
    with pytest.warns(RuntimeWarning, match="MLflow did not take the report"):
        found = fm.report(tmp_path / "run")
    assert found.path.exists()
    assert not (tmp_path / "none").exists()  # a store that is not there is not made for a report
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(tmp_path))
    with pytest.warns(RuntimeWarning, match="does not have the run, which `folkmoot push"):
        fm.report(tmp_path / "run")


def test_the_command(tmp_path: Path) -> None:
    run(50, 100, tmp_path / "one")
    run(90, 100, tmp_path / "two")
    folders = [str(tmp_path / "one"), str(tmp_path / "two")]
    done = command("report", *folders, "--names", "one,two", code=0)
    verdict = "two beats one: 90% against 50% on 100 questions: +40 points, 95% interval"
    assert done.stdout.startswith(verdict)
    assert (tmp_path / "one" / "report.html").exists()
    out = str(tmp_path / "page.html")
    figures = json.loads(command("report", *folders, "--out", out, "--json").stdout)
    assert figures["out"] == out
    assert figures["groups"][0]["comparison"]["verdict"]["outcome"] == "beats"
    assert figures["groups"][0]["comparison"]["questions"] == 100
    assert command("report", *folders, "--quiet", "--out", out).stdout.strip() == out
    refused = command("report", str(tmp_path / "nothing"), code=2)
    assert "there is no folder" in refused.stderr


@pytest.mark.plots
def test_plots_and_tables_can_be_had_as_files(tmp_path: Path) -> None:
    runs = [run(5, 10, name="one"), talk(10), run(2, 10, asked=ask(10, start=50), name="apart")]
    found = fm.report(runs, out=tmp_path / "r.html", export=tmp_path / "files")
    names = {path.name for path in (tmp_path / "files").iterdir()}
    assert {str(tmp_path / "files" / name) for name in names} == set(found.figures["exported"])
    assert names >= {"1-runs.csv", "1-pairs.csv", "1-intervals.svg", "2-scores.csv"}
    assert all("<svg" in path.read_text() for path in (tmp_path / "files").glob("*.svg"))
    answers = pd.read_csv(tmp_path / "files" / "1-answers.csv")
    assert len(answers) == 20
    assert answers["correct"][:10].sum() == 5
    table = pd.read_csv(tmp_path / "files" / "1-pairs.csv")
    (pair,) = found.figures["groups"][0]["comparison"]["pairs"]
    assert list(table["difference"]) == pytest.approx([pair["difference"]])
    with pytest.raises(fm.UserError, match="another --export"):
        fm.report(runs, out=tmp_path / "r.html", export=tmp_path / "r.html")


@pytest.mark.parametrize("text", ["=1+1", "@SUM(A1)", "-2+3+cmd|'x'!A0", "+A1", "\t=1", "-"])
def test_no_cell_is_a_formula(text: str) -> None:
    assert _harmless(text) == f"'{clean(text)}"
    plain = ["-2.5", "+1,250", "-5%", "A", 3, None]
    assert [_harmless(cell) for cell in plain] == plain


def test_papers_are_cited_by_the_protocols_that_ran(tmp_path: Path) -> None:
    assert fm.report(run(5, 10), out=tmp_path / "r.html").figures["bibtex"] == []
    one = run(5, 10, tmp_path / "one")
    about = json.loads((tmp_path / "one" / "run.json").read_text())
    about["program"] = {"program": "ensemble", "members": [{"program": "causal"}]}
    (tmp_path / "one" / "run.json").write_text(json.dumps(about))
    found = fm.report(one.folder, out=tmp_path / "r.html")
    (entry,) = found.figures["bibtex"]
    assert entry.startswith("@misc{causalgpt-caco-cot,\n  title = {Towards CausalGPT: ")
    assert entry in page(found).text
    assert len(bibtex(["deliberation", "causal", "network", "team"])) == len(bibtex(PAPERS)) == 4


def test_a_comparison_is_left_in_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(tmp_path))
    folders = [str(run(right, 100, tmp_path / f"r{right}").folder) for right in (50, 90)]
    for _ in range(2):  # once more brings the same run up to date
        done = command("compare", *folders, "--names", "one,two", "--track", code=0)
    client = mlflow.MlflowClient()
    experiments = [one.experiment_id for one in client.search_experiments()]
    (left,) = client.search_runs(experiments)
    assert left.info.run_name == "two beats one by 40 points"
    assert left.data.metrics["difference"] == pytest.approx(0.4)
    names = {artifact.path for artifact in client.list_artifacts(left.info.run_id)}
    assert names == {"report.html", "programs.json", "comparison.json"}
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/r50/run.json/none.db")
    done = command("compare", *folders, "--track", code=0)
    assert "MLflow did not take the comparison" in done.stderr
