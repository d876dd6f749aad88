"""Reproducing published tables: presets are the papers' figures, and rows run, resume and are
compared.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from children import Child, command
from cli_helpers import KEY, folkmoot, isolate, lm, rows_of
from completions import completion
from dialogue_rows import row
from stores import new_store

import folkmoot as fm
from folkmoot.pipelines.programs.resolve import program_of
from folkmoot.pipelines.reproduction.lines import Line
from folkmoot.pipelines.reproduction.lms import PaperLMs, by_model
from folkmoot.pipelines.reproduction.measures import derived, measured, ratio
from folkmoot.pipelines.reproduction.plan import plan_reproduction
from folkmoot.pipelines.reproduction.presets import PublishedRow, models, papers, select
from folkmoot.pipelines.reproduction.reproduce import lines
from folkmoot.pipelines.reproduction.request import ReproduceRequest
from folkmoot.pipelines.testing.server import ScriptedServer, first_option
from folkmoot.pipelines.tracking.kinds import line_figures

ALL_ROWS = [row for paper in papers().values() for row in paper.rows()]


# The published figures
# ----------------------------------------------------------------------------------------------

# What the papers print in their text or twice, and the file of the specification does not have.
BESIDE = {
    ("agents-of-commonsense", "across-configurations"): [98, 83.72],
    ("agents-of-commonsense", "people"): [89],
    ("marl-gat", "discussion"): [92.9, 92.3, 69.0, 96.4, 96.9, 83.4],
    ("reasoning-as-a-team", "discussion"): [72.7, 85.0],
    ("reasoning-as-a-team", "table-2"): [29.4, 27.4],
}
LABELS = ("model", "prompt", "vote", "role", "id", "dataset", "learning", "method")
NO_SCORES = ("of", "shots", "gamma", "step_limits", "d_max")
COUNTS = ("all_six_correct", "all_six_wrong", "questions_failed_by_every_configuration")


def published() -> dict[str, Any]:
    """`published-results.yaml` of the project's specification."""
    data = os.environ.get("FOLKMOOT_DATA")
    places = [
        os.environ.get("FOLKMOOT_PUBLISHED"),
        data and Path(data) / "../spec/published-results.yaml",
        Path(fm.__file__).parent / "../spec/published-results.yaml",
    ]
    for place in places:
        if place and Path(place).is_file():
            tree: dict[str, Any] = yaml.safe_load(Path(place).read_text())
            return tree
    pytest.skip("published-results.yaml is not here: FOLKMOOT_PUBLISHED names it")


def scores_in(node: Any, labels: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every published score below a node, with the model, prompt or role that it belongs to."""
    if isinstance(node, dict):
        labels += tuple(str(node[key]) for key in LABELS if isinstance(node.get(key), str))
        for key, value in node.items():
            scored = isinstance(value, int | float) or key in ("scores", "role_accuracy")
            if key in COUNTS:
                yield labels, 100 * value / 1221
            elif key not in NO_SCORES:
                yield from scores_in(value, labels if scored else (*labels, key))
    elif isinstance(node, list):
        for value in node:
            yield from scores_in(value, labels)
    elif isinstance(node, int | float):
        yield labels, float(node)


def plain(text: str) -> str:
    return re.sub("[^a-z0-9]", "", text.lower())


def test_every_published_score_is_a_figure_of_its_row_and_nothing_else_is() -> None:
    for paper in papers().values():
        tree = published()[paper.id]
        for table in paper.tables.values():
            figures = [
                (plain(f"{row.id} {row.preset}"), figure.value)
                for row in table.rows.values()
                for figure in row.figures
                # an improvement is computed from the two figures beside it
                if figure.value is not None and figure.name != "improvement"
            ]
            wanted = list(scores_in(tree.get(table.id, {}) if table.id != "figure-3" else {}))
            beside = [((), value) for value in BESIDE.get((paper.id, table.id), ())]
            assert sorted(value for _, value in figures) == pytest.approx(
                sorted(value for _, value in [*wanted, *beside])
            ), table.name
            for labels, value in wanted:
                texts = [text for text, own in figures if own == pytest.approx(value)]
                assert any(all(plain(label) in text for label in labels) for text in texts), (
                    table.name,
                    labels,
                    value,
                )


@pytest.mark.parametrize(
    ("spec", "program", "data", "models"),
    [
        (
            "agents-of-commonsense/table-2/EX2_gpt",
            {"roles": ["intuitive", "reasoner"], "tie_break": "judge", "max_rounds": 3},
            ("commonsenseqa", "validation", None),
            {"*": "gpt-4o-mini"},
        ),
        (
            "marl-gat/table-1/gsm1k.gpt-4.1-mini.zero-shot",
            {"strategy": "zero_shot"},
            ("gsm1k", "test", 300),
            {"*": "gpt-4.1-mini"},
        ),
        (
            "reasoning-as-a-team/table-3/team.deepseek-chat",
            {"workers": ["bold", "cautious"], "max_steps": 8, "max_retries": 3},
            ("hotpotqa", "validation", 200),
            {"*": "grok-3", "supervisor": "deepseek-chat"},
        ),
        (
            "causalgpt-caco-cot/table-3/claude.no-concept-explanation",
            {"reasoners": 2, "evaluators": 1, "without": ["concepts"]},
            ("com2sense", "validation", None),
            {"*": "claude"},
        ),
    ],
)
def test_presets_run_what_was_published(
    spec: str, program: dict[str, Any], data: tuple[Any, ...], models: dict[str, str]
) -> None:
    (row,) = select(spec).rows
    assert row.preset is not None
    described = program_of(dict(row.preset.program)).describe()
    assert {name: described.get(name) for name in program} == program
    assert (row.preset.data.name, row.preset.data.split, row.preset.data.limit) == data
    assert row.preset.models == models


# Choosing rows and LMs
# -----------------------------------------------------------------------------------


def test_rows_are_chosen_by_name_by_their_first_parts_and_by_pattern() -> None:
    table = "causalgpt-caco-cot/table-1"
    assert len(select(table).rows) == 60
    assert [row.id for row in select(f"{table}/one-shot.claude.cot.boolq").rows] == [
        "one-shot.claude.cot.boolq"
    ]
    assert len(select(f"{table}/one-shot.claude").rows) == 15
    assert len(select(f"{table}/*.boolq").rows) == 20


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("agents-of-comonsense/table-1", "did you mean 'agents-of-commonsense'?"),
        ("marl-gat", "name one of its tables too, there are table-1"),
        ("agents-of-commonsense/table-2/EX1_gtp", "did you mean 'EX1_gpt'?"),
        ("reasoning-as-a-team/table-1/*.neutral", "--list reasoning-as-a-team/table-1"),
    ],
)
def test_an_unknown_paper_table_or_row_is_named(spec: str, said: str) -> None:
    with pytest.raises(fm.UserError, match=said.replace("?", r"\?").replace("*", r"\*")):
        select(spec)


def seats(spec: str, *names: str) -> dict[str, str]:
    preset = select(spec).rows[0].preset
    assert preset is not None
    return PaperLMs(ReproduceRequest(spec, lm=names)).seats(preset)


def test_one_lm_for_all_and_one_for_a_model() -> None:
    spec = "reasoning-as-a-team/table-3/team.deepseek-chat"
    assert seats(spec, "openai/x") == {"*": "openai/x", "supervisor": "openai/x"}
    assert seats(spec, "openai/x", "DeepSeek-Chat=openai/y") == {
        "*": "openai/x",
        "supervisor": "openai/y",
    }
    assert seats(spec)["supervisor"] == models()["deepseek-chat"].name


def test_lm_options_are_read_and_refused() -> None:
    assert by_model(["http://h/v1?a=b"], "--api-base") == {"*": "http://h/v1?a=b"}
    with pytest.raises(fm.UserError, match="did you mean 'gpt-4o-mini'"):
        by_model(["gpt-4o-mni=openai/x"], "--lm")
    with pytest.raises(fm.UserError, match="given twice for all models"):
        by_model(["openai/x", "openai/y"], "--lm")
    with pytest.raises(fm.UserError, match="PaLM-540B is offered by nobody"):
        seats("reasoning-as-a-team/table-1/palm-540b.cot")


# Measuring
# -----------------------------------------------------------------------------------------------


def test_a_ratio_over_questions_is_bootstrapped_by_question() -> None:
    # Of 40 questions half have four hits in four chances, half none: one question, one piece of
    # evidence.
    found = ratio([4, 0] * 20, [4, 4] * 20)
    assert found is not None
    assert found.value == 0.5
    assert found.n == 40
    assert 0.25 < found.high - found.low < 0.35  # of 160 independent chances it would be 0.15
    sure = ratio([3.0], [3.0])
    assert sure is not None
    assert sure.low < 0.3 < sure.high == 1
    assert ratio([], []) is None


class Fixed:
    """Stands for an evaluation: rows, and the program that gave them."""

    def __init__(self, program: dict[str, Any], *rows: dict[str, Any]) -> None:
        self.rows = rows
        self.summary = type("S", (), {"run": {"program": program}, "scores": {}, "groups": {}})()


def test_figures_over_several_runs() -> None:
    choices = {"A": "bank", "B": "mall", "C": "den"}
    talk = partial(row, choices=choices)  # by intuitive and reasoner; A is right
    program = {"roles": ["intuitive", "reasoner"], "tie_break": "judge"}
    first = Fixed(
        program, talk([["A", "A"]], id="q1"), talk([["B", "C"], ["B", "A"]], judge="A", id="q2")
    )
    second = Fixed(
        program, talk([["B", "A"], ["A", "A"]], id="q1"), talk([["B", "A"], ["B", "B"]], id="q2")
    )
    runs: Any = [first, second]

    def of(rule: str, figure: str = "accuracy") -> Any:
        found = derived(rule, figure, runs)
        return found and (round(found.value, 4), found.n)

    assert of("role:intuitive") == (0.5, 2)
    assert of("role:reasoner") == (0.75, 2)
    assert of("role:critic") is None
    assert of("judge") == (1.0, 1)
    assert of("consensus") == (0.75, 2)
    assert of("resolved:1") == (0.25, 2)
    assert of("revisions:reasoner") == (0.5, 1)  # C to A in one run, A to B in the other
    assert of("agreement", "all_correct") == (0.5, 2)
    assert of("agreement", "all_wrong") == (0.0, 2)
    runs.append(Fixed(program, talk([["A", "A"]], id="q1")))
    assert of("agreement", "all_correct") == (1.0, 1)  # q2 is not in every run
    judged = measured("judge_accuracy", runs[0])
    assert judged is not None
    assert judged.value == 1.0
    strongest: Any = Fixed({"roles": [], "tie_break": "majority"}, talk([["B", "A"]], answer="B"))
    assert measured("judge_accuracy", strongest) is None


# Running
# -------------------------------------------------------------------------------------------------

QUESTIONS: dict[str, Callable[[int], dict[str, Any]]] = {
    "commonsenseqa-validation": lambda i: {
        "choices": {"A": "bank", "B": "mall"},
        "answer": "AB"[i % 2],
    },
    "arc-challenge-train": lambda i: {"choices": {"A": "ice", "B": "sand"}, "answer": "A"},
    "arc-challenge-test": lambda i: {"choices": {"A": "ice", "B": "sand"}, "answer": "AB"[i % 2]},
    "hotpotqa-validation": lambda i: {
        "answer": "because it fits",
        "choices": None,
        "meta": {"type": ("bridge", "comparison")[i % 2]},
    },
    "com2sense-validation": lambda i: {"choices": None, "answer": ("True", "False")[i % 2]},
    "scienceqa-test": lambda i: {
        "choices": {"A": "ice", "B": "sand"},
        "answer": "A",
        "meta": {
            "subject": ("natural science", "language science")[i % 2],
            "grade": 3 + 6 * (i % 2),
        },
    },
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with made-up questions under the data sets' names, and one document."""
    isolate(tmp_path, monkeypatch)
    data = tmp_path / "data"
    data.mkdir()
    for name, fields in QUESTIONS.items():
        rows = [
            {"id": f"{name}-{i}", "question": f"Is {name} {i} so?", **fields(i)} for i in range(12)
        ]
        (data / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = {"id": "1", "title": "Bank", "text": "A bank keeps things."}
    (tmp_path / "documents.jsonl").write_text(json.dumps(document) + "\n")
    monkeypatch.setenv("FOLKMOOT_DATA", str(data))
    return tmp_path


def acting(body: dict[str, Any]) -> str:
    """A worker that looks once and ends, and everyone else the first option."""
    told = json.loads(first_option(body))
    if "action" in told:
        told["action"] = "Finish[because it fits]"
    return json.dumps(told)


def reproduce(server: ScriptedServer, spec: str, *words: Any) -> Any:
    return folkmoot("reproduce", spec, *lm(server), "--no-track", *words)


SINGLE = "agents-of-commonsense/table-1"
SMALLEST = [
    ("agents-of-commonsense/table-2/EX2_gpt", []),
    ("marl-gat/table-1/arc-challenge.gpt-4.1-nano.zero-shot", []),
    ("reasoning-as-a-team/table-4/bold-cautious", ["--environment", "corpus:documents.jsonl"]),
    ("causalgpt-caco-cot/table-3/gpt-3.5-turbo.full", []),
]


@pytest.mark.plots
@pytest.mark.parametrize(("spec", "words"), SMALLEST)
def test_the_smallest_row_of_each_paper_runs(
    spec: str, words: list[str], home: Path, scripted: ScriptedServer
) -> None:
    scripted.reply = acting
    done = reproduce(scripted, spec, "--limit", 2, "--out", "out", "--json", *words)
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    row = select(spec).rows[0]
    assert [line["figure"] for line in found["rows"]] == [figure.name for figure in row.figures]
    line = found["rows"][0]
    assert line["published"] == row.figures[0].value
    assert line["n"] == 2
    assert line["low"] <= line["measured"] <= line["high"]
    assert line["difference"] == pytest.approx(line["measured"] - line["published"])
    assert line["inside"] == (line["low"] - 0.005 <= line["published"] <= line["high"] + 0.005)
    assert line["lm"] == "openai/scripted"
    assert len(rows_of(Path(line["run"]))) == 2
    assert all(Path(picture).stat().st_size > 1000 for picture in found["plots"])


def failing(body: dict[str, Any]) -> Any:
    """Who answers at once is always refused; of those who reason one is, one says nothing, one is
    cut off.
    """
    number = int(re.findall(r"validation (\d+) so", body["messages"][-1]["content"])[-1])
    if (
        "reasoning" not in body["response_format"]["json_schema"]["schema"]["properties"]
        or number == 3
    ):
        return 400, {}, {"error": {"message": "too hot"}}
    text = "" if number == 4 else first_option(body)
    return 200, {}, completion(text, "length" if number == 5 else "stop")


def test_failures_are_counted_in_every_line_and_never_shown_as_measurements(
    home: Path, scripted: ScriptedServer
) -> None:
    scripted.reply = failing
    spec, words = "agents-of-commonsense/table-1/mistral-7b", ["--out", "out"]
    done = reproduce(scripted, spec, *words, "--json")
    assert done.exit_code == 1
    assert (
        "table-1/mistral-7b.simple: every question failed, because" in done.stderr.splitlines()[-1]
    )
    assert "too hot" in done.stderr.splitlines()[-1]
    assert done.stderr.count("every question failed") == 1
    table = json.loads(Path("out/agents-of-commonsense/table-1/table.json").read_text())
    for rows in (json.loads(done.stdout)["rows"], table["rows"]):
        simple, cot = (
            next(row for row in rows if row["row"] == f"mistral-7b.{way}")
            for way in ("simple", "cot")
        )
        lost = ("rows", "errors", "unreadable", "truncated")
        assert [simple[name] for name in lost] == [12, 12, 0, 0]
        assert [simple[name] for name in ("measured", "low", "n", "difference", "inside")] == [
            None
        ] * 5
        assert simple["why"] == "every question failed"
        assert [cot[name] for name in lost] == [12, 1, 1, 1]
        assert (cot["n"], cot["difference"], cot["inside"]) == (12, None, None)
        assert cot["low"] < cot["measured"] < cot["high"]
    assert table["plots"] == []
    shown = reproduce(scripted, spec, *words)
    assert "1 failed, 1 unreadable, 1 cut off" in shown.stdout
    assert (
        "mistral-7b.cot: no difference, since more than 2% of the questions failed" in shown.stdout
    )
    scripted.reply = first_option
    again = reproduce(scripted, spec, *words, "--retry-errors", "--json")
    assert again.exit_code == 0
    found = json.loads(again.stdout)
    assert [(row["errors"], row["difference"] is None) for row in found["rows"]] == [(0, False)] * 2
    assert [Path(path).name for path in found["plots"]] == ["published_and_measured.png"]


def test_up_to_two_percent_of_failures_leave_a_difference() -> None:
    lines = [
        Line("row", "accuracy", 71.4, 70, 60, 80, 100, rows=100, errors=errors) for errors in (2, 3)
    ]
    assert [line.failed for line in lines] == [False, True]
    bound = Line("row", "rate", 98, above=True).measured_as(0.95, 0.9, 0.99, 100)
    assert (bound.inside, bound.cells[0]) == (True, "above 98.00")
    line = Line("row", "accuracy", 71.4, rows=5, errors=5, unreadable=0, truncated=0)
    metrics = line_figures([line.to_dict()])
    assert metrics == {
        f"{name}/row/accuracy": n
        for name, n in (("errors", 5), ("unreadable", 0), ("truncated", 0))
    }


def test_rows_that_differ_in_nothing_share_a_run(home: Path, scripted: ScriptedServer) -> None:
    done = reproduce(
        scripted, "agents-of-commonsense/table-1", "--limit", 3, "--out", "out", "--json"
    )
    found = json.loads(done.stdout)
    assert len(found["rows"]) == 9
    assert len({line["run"] for line in found["rows"]}) == 2  # simple and cot
    assert len(scripted.bodies) == 6
    apart = ["--lm", "Mistral-7B=openai/other", "--api-base", f"Mistral-7B={scripted.url}"]
    done = reproduce(
        scripted, "agents-of-commonsense/table-1", "--limit", 3, *apart, "--out", "two", "--json"
    )
    assert len({line["run"] for line in json.loads(done.stdout)["rows"]}) == 4


@pytest.mark.nightly
def test_a_network_is_trained_and_tested(
    home: Path, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    from folkmoot.pipelines.data import embeddings

    def vectors(self: Any, texts: list[str]) -> Any:
        made = np.array(
            [[len(text), sum(map(ord, text)) % 97, 1.0, 2.0] for text in texts], dtype=np.float32
        )
        return made / np.linalg.norm(made, axis=1, keepdims=True)

    monkeypatch.setattr(embeddings.Embedder, "__call__", vectors)
    monkeypatch.setattr(embeddings.Embedder, "width", 4)
    words = ["--limit", 2, "--out", "out", "--embedding", "all-MiniLM-L6-v2", "--json"]
    spec = "marl-gat/table-1/arc-challenge.gpt-4.1-nano.network"
    told = json.loads(reproduce(scripted, spec, *words, "--dry-run").stdout)
    # 2 questions to train on, at most once in seven ways, 2 to test; 10 agents of 1 to 10 samples.
    assert told["runs"][0]["calls"] == [(2 + 2) * 10, (2 * 7 + 2) * 10 * 10]
    done = reproduce(scripted, spec, *words)
    assert done.exit_code == 0, done.stderr
    first = json.loads(done.stdout)
    figures = ["individual", "consensus", "improvement"]
    assert [(line["figure"], line["n"]) for line in first["rows"]] == [
        (name, 2) for name in figures
    ]
    alone, together, gain = (line["measured"] for line in first["rows"])
    assert gain == pytest.approx(together - alone)
    folder = Path(first["rows"][0]["run"])
    assert json.loads((folder / "training.json").read_text())["preset"] == "paper"
    asked = len(scripted.bodies)
    assert json.loads(reproduce(scripted, spec, *words).stdout) == first
    assert len(scripted.bodies) == asked
    ablation = "marl-gat/table-3/arc-challenge.gpt-4.1-nano"
    found = json.loads(reproduce(scripted, ablation, *words).stdout)
    runs = [Path(line["run"]) for line in found["rows"]]
    assert runs[0] == folder  # the base reward is table 1's run
    assert json.loads((runs[1] / "training.json").read_text())["preset"] == "consensus_aware"


def test_groups_are_measured_apart(home: Path, scripted: ScriptedServer) -> None:
    spec = "causalgpt-caco-cot/table-2/zero-shot.cot"
    found = json.loads(reproduce(scripted, spec, "--limit", 8, "--out", "out", "--json").stdout)
    counts = {line["figure"]: line["n"] for line in found["rows"]}
    assert counts["natural"] + counts["language"] == counts["average"] == 8
    assert counts["grades_1_6"] + counts["grades_7_12"] == 8
    social = next(line for line in found["rows"] if line["figure"] == "social")
    assert social["measured"] is None
    assert "nothing to measure" in social["why"]


@pytest.mark.plots
def test_figures_are_drawn(home: Path, scripted: ScriptedServer) -> None:
    scripted.reply = acting
    words = ["--limit", 2, "--out", "out", "--json"]
    steps = reproduce(
        scripted,
        "reasoning-as-a-team/figure-3/bold",
        "--environment",
        "corpus:documents.jsonl",
        *words,
    )
    assert [Path(path).name for path in json.loads(steps.stdout)["plots"]] == ["step_limits.png"]
    rounds = json.loads(reproduce(scripted, "causalgpt-caco-cot/figure-3", *words).stdout)
    assert [Path(path).name for path in rounds["plots"]] == ["rounds.png"]
    assert all(line["measured"] is not None for line in rounds["rows"])


def test_the_dry_run_tells_the_price_and_asks_nobody(home: Path, scripted: ScriptedServer) -> None:
    words = ["--limit", 3, "--out", "out", "--dry-run", "--price", "openai/scripted=1,2"]
    done = reproduce(scripted, "agents-of-commonsense/table-2", *words, "--json")
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert [run["calls"] for run in told["runs"]] == [[6, 18], [6, 18], [6, 21], [6, 21]]
    assert told["total"]["calls"] == [24, 78]
    assert told["total"]["cost_usd"][1] == pytest.approx(
        sum(run["cost_usd"][1] for run in told["runs"])
    )
    assert told["runs"][0]["smallest_difference"] == [1.0, 1.0]
    assert not scripted.bodies
    assert not Path("out").exists()
    shown = reproduce(scripted, "agents-of-commonsense/table-2", *words).stderr
    assert "24 to 78" in shown
    assert "nothing" in shown


def test_the_dry_run_needs_no_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["reproduce", "agents-of-commonsense/table-2/EX2_gpt", "--limit", 3, "--no-track"]
    words += ["--lm", "openai/gpt-4o-mini"]
    refused = folkmoot(*words)
    assert refused.exit_code == 2
    assert "openai/gpt-4o-mini needs a key" in refused.stderr
    without = folkmoot(*words, "--dry-run", "--json")
    assert without.exit_code == 0, without.stderr
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    told = json.loads(folkmoot(*words, "--dry-run", "--json").stdout)
    assert json.loads(without.stdout) == told
    assert told["total"]["cost_usd"] is not None


def test_a_budget_holds_for_all_rows_together(home: Path, scripted: ScriptedServer) -> None:
    words = ["--limit", 4, "--out", "out", "--concurrency", 1, "--json"]
    done = reproduce(
        scripted, "agents-of-commonsense/table-1/mistral-7b", *words, "--budget", "6 calls"
    )
    assert done.exit_code == 0
    assert len(scripted.bodies) == 6
    found = json.loads(done.stdout)
    assert "6" in found["stopped"]
    assert [line["n"] for line in found["rows"]] == [4, 2]
    done = reproduce(
        scripted, "agents-of-commonsense/table-1/mistral-7b", *words, "--budget", "6 calls"
    )
    assert len(scripted.bodies) == 6
    done = reproduce(scripted, "agents-of-commonsense/table-1/mistral-7b", *words)
    assert len(scripted.bodies) == 8
    assert [line["n"] for line in json.loads(done.stdout)["rows"]] == [4, 4]


def test_ctrl_c_keeps_and_shows_what_is_finished(
    home: Path, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from folkmoot.pipelines.reproduction import reproduce as module

    spec, words = (
        "agents-of-commonsense/table-1/mistral-7b",
        ["--limit", 2, "--out", "out", "--json"],
    )
    true, begun = module.evaluate, []

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        begun.append(kwargs["out"])
        if len(begun) == 2:
            raise KeyboardInterrupt
        return true(*args, **kwargs)

    monkeypatch.setattr(module, "evaluate", interrupted)
    done = reproduce(scripted, spec, *words)
    assert done.exit_code == 130
    assert "the same command resumes it" in done.stderr
    assert [(line["n"], line["why"]) for line in json.loads(done.stdout)["rows"]] == [
        (2, None),
        (None, "not run"),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([SINGLE, "--limit", "0"], "--limit is 0"),
        (
            ["agents-of-commonsense/table-1", "--environment", "corpus:documents.jsonl"],
            "--environment is for",
        ),
        (
            ["agents-of-commonsense/table-1", "--lm", "claude=openai/x"],
            "names claude, which no row asked for has",
        ),
        (
            ["causalgpt-caco-cot/table-1/one-shot.claude.cot.boolq"],
            "boolq (validation) is not here",
        ),
        ([], "name what to reproduce"),
    ],
)
def test_odd_input_is_refused_in_a_sentence(
    words: list[str],
    said: str,
    home: Path,
    scripted: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from folkmoot.pipelines.data import hub

    monkeypatch.setattr(hub, "CONVERTERS", {})
    done = folkmoot("reproduce", *words, *lm(scripted), "--no-track", "--out", "out")
    assert done.exit_code == 2
    assert said in done.stderr
    assert not Path("out").exists()
    assert not scripted.bodies


# The list
# ------------------------------------------------------------------------------------------------


def test_the_list_says_what_there_is_and_whether_its_data_is_here(home: Path) -> None:
    shown = folkmoot("reproduce", "--list", "--json")
    tables = {table["table"]: table for table in json.loads(shown.stdout)["tables"]}
    assert len(tables) == sum(len(paper.tables) for paper in papers().values())
    assert sum(len(table["rows"]) for table in tables.values()) == len(ALL_ROWS)
    rows = {row["row"]: row for row in tables["agents-of-commonsense/table-2"]["rows"]}
    told = rows["agents-of-commonsense/table-2/EX2_gpt"]
    assert (told["questions"], told["missing"]) == (12, [])
    assert told["models"] == {"*": ["gpt-4o-mini", "openai/gpt-4o-mini"]}
    network = tables["marl-gat/table-2"]["rows"][0]
    assert network["missing"] == ["gsm1k (test)", "gsm8k (train)"]
    shown_lines = folkmoot("reproduce", "--list").stdout.splitlines()
    assert len(shown_lines) == 1 + len(tables) <= 24  # fits on a screen
    boolq = next(line for line in shown_lines if "causalgpt-caco-cot/table-1" in line)
    assert "missing" in boolq


def test_the_commands_of_the_page_run(
    home: Path, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(fm.__file__).parent / "docs" / "reproduce.md").read_text()
    commands = [
        line
        for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(commands) == 5
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    scripted.reply = acting
    for line in commands:
        # the last --limit counts
        done = folkmoot(*shlex.split(line)[1:], "--no-track", "--limit", 2)
        assert done.exit_code == 0, f"{line}\n{done.stderr}"


# Tracking and Python
# -------------------------------------------------------------------------------------


def test_a_table_is_an_mlflow_run_with_its_rows_under_it(
    home: Path, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(home))
    spec = "agents-of-commonsense/table-1/mistral-7b"
    for _ in range(2):  # the second time goes on with the same runs
        fm.reproduce(spec, lm="openai/scripted", api_base=scripted.url, out="out")
    client = MlflowClient(f"sqlite:///{home}/mlflow.db")
    experiment = client.get_experiment_by_name("commonsenseqa")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    assert [run.info.run_name for run in parents] == ["reproduce agents-of-commonse… · scripted"]
    parent = parents[0]
    assert parent.info.status == "FINISHED"
    children = [
        run for run in runs if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id
    ]
    assert len(children) == 2
    assert parent.data.metrics["published/mistral-7b.simple/accuracy"] == 71.42
    assert parent.data.metrics["measured/mistral-7b.simple/accuracy"] == 50
    assert parent.data.metrics["errors/mistral-7b.simple/accuracy"] == 0
    assert parent.data.metrics["difference/mistral-7b.simple/accuracy"] == pytest.approx(-21.42)
    assert "| mistral-7b.cot | accuracy | 70.27 |" in parent.data.tags["mlflow.note.content"]
    names = {item.path for item in client.list_artifacts(parent.info.run_id)}
    assert {"side_by_side.json", "table.json", "plots"} <= names


def test_reproduce_in_python_and_the_table_on_disk(home: Path, scripted: ScriptedServer) -> None:
    given: dict[str, Any] = {"api_base": scripted.url, "limit": 12, "out": "out", "tracking": False}
    spec = "agents-of-commonsense/table-1/mistral-7b.cot"
    found = fm.reproduce(spec, lm={"Mistral-7B": "openai/scripted"}, **given)
    assert [(line.row, line.measured, line.inside) for line in found.lines] == [
        ("mistral-7b.cot", 50.0, True)
    ]
    table = json.loads(Path("out/agents-of-commonsense/table-1/table.json").read_text())
    kept = {row["row"]: row for row in table["rows"]}
    assert len(kept) == 9
    assert kept["mistral-7b.cot"]["measured"] == 50
    assert kept["qwen2.5-14b.simple"]["why"] == "not run"
    planned = plan_reproduction(
        ReproduceRequest(
            spec,
            lm=["Mistral-7B=openai/scripted"],
            api_base=[scripted.url],
            limit=12,
            out=Path("out"),
        )
    )
    assert planned.runs[0].estimate["left"] == 0
    rows: list[PublishedRow] = list(planned.selection.rows)
    assert [line.measured for line in lines(planned, rows)] == [50.0]


def test_a_plan_without_the_data_counts_on_its_known_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FOLKMOOT_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    request = ReproduceRequest(
        "agents-of-commonsense/table-1/mistral-7b.cot", lm="openai/gpt-4o-mini"
    )
    (run,) = plan_reproduction(request, keyless=True).runs
    assert len(run.questions) == 1221
    with pytest.raises(fm.UserError, match="commonsenseqa"):
        plan_reproduction(request)


@pytest.mark.nightly
def test_a_killed_reproduction_goes_on_where_it_was(home: Path) -> None:
    spec = "agents-of-commonsense/table-1/gemma-2-9b"
    with ScriptedServer(delay=0.15) as server:
        words = [spec, *lm(server), "--no-track", "--limit", 8, "--out", "out", "--concurrency", 1]
        process = Child(command, "reproduce", *words)
        results = Path("out/agents-of-commonsense/table-1")
        began = time.monotonic()
        while len(server.bodies) < 10:
            assert time.monotonic() - began < 60, "the second row never began"
            time.sleep(0.02)
        process.kill()
        process.wait(30)
        killed = len(server.bodies)
        server.delay = 0.0
        done = folkmoot("reproduce", *words, "--json")
        assert done.exit_code == 0, done.stderr
        assert 10 <= killed < 16
        assert 16 <= len(server.bodies) <= 17  # one call was in flight
    assert [line["n"] for line in json.loads(done.stdout)["rows"]] == [8, 8]
    for folder in results.glob("*/results.jsonl"):
        ids = [row["id"] for row in rows_of(folder.parent)]
        assert len(ids) == len(set(ids)) == 8
