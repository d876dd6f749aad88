"""Published tables: presets are the papers' figures; rows run, resume and are compared."""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from children import Child, command, wait_for_requests
from cli_helpers import KEY, folkmoot, isolate, lm, rows_of
from completions import completion
from dialogue_rows import row as dialogue
from refusals import refused
from stores import new_store

import folkmoot as fm
from folkmoot.modules.statistics.paired import tango
from folkmoot.pipelines.base.cards import Score
from folkmoot.pipelines.base.run_files import Counts
from folkmoot.pipelines.evaluation.plan import EvaluationPlan
from folkmoot.pipelines.lms.ledger import Entry
from folkmoot.pipelines.programs.resolve import program_of
from folkmoot.pipelines.reproduction.card import KIND, Line
from folkmoot.pipelines.reproduction.measures import differences, measured, unanimous
from folkmoot.pipelines.reproduction.plan import plan_reproduction
from folkmoot.pipelines.reproduction.presets import models, select, tables
from folkmoot.pipelines.reproduction.request import ReproduceRequest
from folkmoot.pipelines.testing.server import ScriptedServer, first_option

ALL_ROWS = [row for table in tables().values() for row in table.rows]


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


@cache
def published() -> dict[str, Any]:
    """`published-results.yaml` of the project's specification."""
    data = os.environ.get("FOLKMOOT_DATA")
    places = [os.environ.get("FOLKMOOT_PUBLISHED")]
    for folder in (data, Path(fm.__file__).parent):
        places.append(folder and Path(folder) / "../spec/published-results.yaml")
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
    for table in tables().values():
        paper, _, name = table.name.partition("/")
        tree = published()[paper]
        figures = [
            (plain(f"{row.id} {row.program} {row.models} {row.data}"), value)
            for row in table.rows
            for figure, value in row.published.items()
            # an improvement is computed from the two figures beside it
            if value is not None and figure != "improvement"
        ]
        wanted = list(scores_in(tree.get(name, {}) if name != "figure-3" else {}))
        beside = [((), value) for value in BESIDE.get((paper, name), ())]
        known = sorted(value for _, value in [*wanted, *beside])
        assert sorted(value for _, value in figures) == pytest.approx(known), table.name
        for labels, value in wanted:
            texts = [text for text, own in figures if own == pytest.approx(value)]
            named = [all(plain(label) in text for label in labels) for text in texts]
            assert any(named), (table.name, labels, value)
    assert sum(value is not None for row in ALL_ROWS for value in row.published.values()) == 308


EX2 = {"roles": ["intuitive", "reasoner"], "tie_break": "judge", "max_rounds": 3}
BOLD = {"workers": ["bold", "cautious"], "max_steps": 8, "max_retries": 3}
PLAIN = {"reasoners": 2, "evaluators": 1, "without": ["concepts"]}
CSQA, C2S = ("commonsenseqa", "validation", None), ("com2sense", "validation", None)
GSM, HOTPOT = ("gsm1k", "test", 300), ("hotpotqa", "validation", 200)
GROK = {"*": "grok-3", "supervisor": "deepseek-chat"}
ZERO = {"strategy": "zero_shot"}


@pytest.mark.parametrize(
    ("spec", "program", "data", "models"),
    [
        ("agents-of-commonsense/table-2/EX2_gpt", EX2, CSQA, {"*": "gpt-4o-mini"}),
        ("marl-gat/table-1/gsm1k.gpt-4.1-mini.zero-shot", ZERO, GSM, {"*": "gpt-4.1-mini"}),
        ("reasoning-as-a-team/table-3/team.deepseek-chat", BOLD, HOTPOT, GROK),
        ("causalgpt-caco-cot/table-3/claude.no-concept-explanation", PLAIN, C2S, {"*": "claude"}),
    ],
)
def test_presets_run_what_was_published(spec, program, data, models):
    (row,) = select(spec).rows
    described = program_of(dict(row.program)).describe()
    assert {name: described.get(name) for name in program} == program
    assert (row.data["questions"], row.data["split"], row.data.get("limit")) == data
    assert row.models == models


def test_rows_are_chosen_by_name_by_their_first_parts_and_by_pattern() -> None:
    table = "causalgpt-caco-cot/table-1"
    assert len(select(table).rows) == 60
    name = "one-shot.claude.cot.boolq"
    assert [row.id for row in select(f"{table}/{name}").rows] == [name]
    assert len(select(f"{table}/one-shot.claude").rows) == 15
    assert len(select(f"{table}/*.boolq").rows) == 20


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("agents-of-comonsense/table-1", "did you mean 'agents-of-commonsense/table-1'?"),
        ("marl-gat", "there is no table 'marl-gat' (did you mean 'marl-gat/table-4'?): choose"),
        ("agents-of-commonsense/table-2/EX1_gtp", "did you mean 'EX1_gpt'?"),
        ("reasoning-as-a-team/table-1/*.neutral", "no row of reasoning-as-a-team/table-1"),
    ],
)
def test_an_unknown_paper_table_or_row_is_named(spec: str, said: str) -> None:
    refused(re.escape(said), select, spec)


def seats(spec: str, *names: str) -> Any:
    request = ReproduceRequest(spec, lm=names, api_base="http://localhost:1/v1", limit=2)
    request.environment = "corpus:documents.jsonl"
    (run,) = plan_reproduction(request, keyless=True).plans.values()
    assert isinstance(run, EvaluationPlan)
    return {seat: lm["name"] for seat, lm in run.seated.items()}


def test_one_lm_for_all_and_one_for_a_seat(home: Path) -> None:
    spec = "reasoning-as-a-team/table-3/team.deepseek-chat"
    assert set(seats(spec, "openai/x").values()) == {"openai/x"}
    apart = seats(spec, "openai/x", "supervisor=openai/y")
    assert (apart["*"], apart["supervisor"]) == ("openai/x", "openai/y")
    papers_own = seats(spec, "supervisor=openai/y")
    assert papers_own["*"] == models()["grok-3"]["name"]
    refused(
        "'PaLM-540B, no longer served' is not an LM name",
        seats,
        "reasoning-as-a-team/table-1/palm-540b.react",
    )


class Fixed:
    """Stands for an evaluation with these rows."""

    def __init__(self, *rows: Any) -> None:
        self.rows = rows


def test_figures_that_are_means_over_rows() -> None:
    choices = {"A": "bank", "B": "mall", "C": "den"}
    run: Any = Fixed(
        dialogue([["A", "A"]], id="q1", choices=choices),
        dialogue([["B", "C"], ["B", "A"]], judge="A", id="q2", choices=choices),
        dialogue([["B", "C"], ["B", "C"]], judge="B", id="q3", choices=choices),
    )
    judged = measured("judge_accuracy", run)
    assert (judged["value"], judged["n"]) == (0.5, 2)  # of the two where it was asked
    agreed = measured("consensus_in_round_1", run)
    assert (round(agreed["value"], 3), agreed["n"]) == (0.333, 3)
    first: Any = Fixed(run.rows[0])
    assert measured("judge_accuracy", first) is None


SAND, MALL = {"A": "ice", "B": "sand"}, {"A": "bank", "B": "mall"}
FITS = {"answer": "because it fits", "choices": None}
SUBJECTS = [{"subject": "natural science", "grade": 3}, {"subject": "language science", "grade": 9}]
QUESTIONS: dict[str, Callable[[int], dict[str, Any]]] = {
    "commonsenseqa-validation": lambda i: {"choices": MALL, "answer": "AB"[i % 2]},
    "arc-challenge-train": lambda i: {"choices": SAND, "answer": "A"},
    "arc-challenge-test": lambda i: {"choices": SAND, "answer": "AB"[i % 2]},
    "hotpotqa-validation": lambda i: FITS | {"meta": {"type": ("bridge", "comparison")[i % 2]}},
    "com2sense-validation": lambda i: {"choices": None, "answer": ("True", "False")[i % 2]},
    "scienceqa-test": lambda i: {"choices": SAND, "answer": "A", "meta": SUBJECTS[i % 2]},
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with made-up questions under the data sets' names, and one document."""
    isolate(tmp_path, monkeypatch)
    data = tmp_path / "data"
    data.mkdir()
    for name, fields in QUESTIONS.items():
        ids = {f"{name}-{i}": f"Is {name} {i} so?" for i in range(12)}
        rows = [{"id": id, "question": ids[id], **fields(i)} for i, id in enumerate(ids)]
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


def reproduce(server: ScriptedServer, spec: str, *words: Any, code: int | None = None) -> Any:
    return folkmoot("reproduce", spec, *lm(server), "--no-track", *words, code=code)


SINGLE = "agents-of-commonsense/table-1"
TWO_ROWS = f"{SINGLE}/mistral-7b"
SMALLEST = ["agents-of-commonsense/table-2/EX2_gpt"]
SMALLEST += ["marl-gat/table-1/arc-challenge.gpt-4.1-nano.zero-shot"]
SMALLEST += ["reasoning-as-a-team/table-4/bold-cautious"]
SMALLEST += ["causalgpt-caco-cot/table-3/gpt-3.5-turbo.full"]


@pytest.mark.parametrize("spec", SMALLEST)
def test_the_smallest_row_of_each_paper_runs(spec, home, scripted):
    scripted.reply = acting
    words = ["--environment", "corpus:documents.jsonl"] if "bold-cautious" in spec else []
    done = reproduce(scripted, spec, "--limit", 2, "--out", "out", "--json", *words, code=0)
    found = json.loads(done.stdout)
    row = select(spec).rows[0]
    assert [line["figure"] for line in found["rows"]] == list(row.published)
    line = found["rows"][0]
    assert line["published"] == next(iter(row.published.values()))
    assert line["n"] == 2
    assert line["low"] <= line["measured"] <= line["high"]
    assert line["difference"] == pytest.approx(line["measured"] - line["published"])
    assert line["inside"] == (line["low"] - 0.005 <= line["published"] <= line["high"] + 0.005)
    assert line["lm"] == "openai/scripted"
    assert len(rows_of(Path(line["run"]))) == 2


def failing(body: dict[str, Any]) -> Any:
    """Who answers at once is refused; of those who reason, one is, one is silent, one cut off."""
    number = int(re.findall(r"validation (\d+) so", body["messages"][-1]["content"])[-1])
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    if "reasoning" not in fields or number == 3:
        return 400, {}, {"error": {"message": "too hot"}}
    text = "" if number == 4 else first_option(body)
    return 200, {}, completion(text, "length" if number == 5 else "stop")


def test_failures_are_counted_and_no_measurements(home: Path, scripted: ScriptedServer) -> None:
    scripted.reply = failing
    words = ["--out", "out"]
    done = reproduce(scripted, TWO_ROWS, *words, "--json", code=1)
    last = done.stderr.splitlines()[-1]
    assert "table-1/mistral-7b.simple: every question failed, because" in last
    assert "too hot" in last
    assert done.stderr.count("every question failed") == 1
    table = json.loads(Path("out/agents-of-commonsense/table-1/table.json").read_text())
    for rows in (json.loads(done.stdout)["rows"], table["rows"]):
        by_name = {row["row"]: row for row in rows}
        simple, cot = by_name["mistral-7b.simple"], by_name["mistral-7b.cot"]
        lost = ("rows", "errors", "unreadable", "truncated")
        assert [simple["counts"][name] for name in lost] == [12, 12, 0, 0]
        missing = ("measured", "low", "n", "difference", "inside")
        assert [simple[name] for name in missing] == [None] * 5
        assert simple["why"] == "every question failed"
        assert [cot["counts"][name] for name in lost] == [12, 1, 1, 1]
        assert (cot["n"], cot["difference"], cot["inside"]) == (12, None, None)
        assert cot["low"] < cot["measured"] < cot["high"]
    shown = reproduce(scripted, TWO_ROWS, *words)
    assert "1 errors, 1 unreadable, 1 truncated" in shown.stdout
    assert "mistral-7b.cot: more than 2% of the questions failed" in shown.stdout
    scripted.reply = first_option
    again = reproduce(scripted, TWO_ROWS, *words, "--retry-errors", "--json", code=0)
    found = json.loads(again.stdout)
    assert [(row["counts"]["errors"], row["why"]) for row in found["rows"]] == [(0, None)] * 2


def test_up_to_two_percent_of_failures_leave_a_difference() -> None:
    for errors, difference in ((2, -1.0), (3, None)):
        line = Line("row", "accuracy", 71.0, counts=Counts(questions=100, rows=100, errors=errors))
        line.measure(Score("accuracy", 0.7, 0.6, 0.8, 100))
        assert line.difference == (difference and pytest.approx(difference))
        assert line.inside == (None if difference is None else True)


def told(out: Path, *right: bool) -> fm.Evaluation:
    """The run of a program that is right or wrong in this order."""
    said = {f"Is {at} so?": str(each) for at, each in enumerate(right)}
    asked = [{"id": str(at), "question": text, "answer": "True"} for at, text in enumerate(said)]

    def answer(question: str) -> str:
        return said[question]

    return fm.evaluate(answer, asked, out=out, kind="boolean", tracking=False)


def test_differences_are_paired_and_beside_published_ones(tmp_path: Path) -> None:
    table = tables()["reasoning-as-a-team/table-1"]
    team = told(tmp_path / "team", True, True, True, False, True)
    bold = told(tmp_path / "bold", True, False, False, False)
    rows = (f"{table.name}/gpt-4o-mini.{name}" for name in ("team", "bold", "cautious"))
    runs = dict(zip(rows, (team, bold, team), strict=True))
    # Cautious is the team's own run: nothing to compare. F1 was not measured.
    (found,) = differences(table, runs)
    known = ("gpt-4o-mini.team", "gpt-4o-mini.bold", "em")
    assert (found.row, found.against, found.figure) == known
    assert (found.published, found.measured, found.n) == (2.0, 50.0, 4)
    assert -100 <= found.low < 0 < found.high <= 100
    assert found.cells()[:3] == ["gpt-4o-mini.team less gpt-4o-mini.bold", "em", "2.00"]
    assert unanimous([team, bold]) == {"all_solve": ["0"], "all_fail": ["3"]}
    assert unanimous([team]) == {"all_solve": [], "all_fail": []}


PAIRS = {
    "agents-of-commonsense": {"1": 3, "2": 12},  # in table 1, two prompts of three models
    "causalgpt-caco-cot": {"1": 48, "2": 8, "3": 7},
    "marl-gat": {"1": 6, "2": 1, "3": 6, "4": 2},
    "reasoning-as-a-team": {"1": 6, "2": 6, "3": 2, "4": 2},
}


@pytest.mark.parametrize(
    ("table", "pairs"),
    [(f"{p}/table-{n}", pairs) for p, tables in PAIRS.items() for n, pairs in tables.items()],
)
def test_the_pairs_are_those_of_the_paper(table: str, pairs: int) -> None:
    assert len(tables()[table].pairs()) == pairs


def test_a_networks_consensus_stands_against_one_lms_accuracy(tmp_path: Path) -> None:
    table = tables()["marl-gat/table-1"]
    named = f"{table.name}/gsm1k.gpt-4.1-nano."
    runs = {f"{named}network": told(tmp_path / "network", True, True, True, False)}
    runs[f"{named}zero-shot"] = told(tmp_path / "alone", True, False, True, False)
    (found,) = differences(table, runs)
    assert found.figure == "consensus"
    assert (round(found.published, 2), found.measured) == (2.67, 25.0)
    assert (found.low, found.high) == tuple(100 * end for end in tango(1, 0, 4)[1:])


def test_a_table_says_what_its_rows_differ_by(home: Path, scripted: ScriptedServer) -> None:
    spec = "agents-of-commonsense/table-2/*_gpt"
    done = reproduce(scripted, spec, "--limit", 4, "--out", "out", code=0)
    shown = " ".join(done.stdout.split())
    assert "EX2_gpt less EX1_gpt accuracy 1.72 0.0 [" in shown
    assert "Asked: openai/scripted" in shown
    assert "EX2_gemini" not in shown
    table = json.loads(Path("out/agents-of-commonsense/table-2/table.json").read_text())
    pairs = {f"{each['row']} {each['against']}" for each in table["differences"]}
    assert pairs == {f"EX{a}_gpt EX{b}_gpt" for a, b in ((1, 3), (2, 4), (2, 1), (4, 3))}
    solved, failed = table["all_solve"], table["all_fail"]
    assert len(solved) + len(failed) == 4


def test_rows_that_differ_in_nothing_share_a_run(home: Path, scripted: ScriptedServer) -> None:
    done = reproduce(scripted, SINGLE, "--limit", 3, "--out", "out", "--json")
    found = json.loads(done.stdout)
    assert len(found["rows"]) == 9
    assert len({line["run"] for line in found["rows"]}) == 2  # simple and cot
    assert len(scripted.bodies) == 6
    assert next(line for line in found["rows"])["lm"] == "openai/scripted"


@pytest.mark.nightly
def test_a_network_is_trained_and_tested(home, scripted, monkeypatch):
    import numpy as np

    from folkmoot.pipelines.data import embeddings

    def vectors(self: Any, texts: list[str]) -> Any:
        rows = [[len(text), sum(map(ord, text)) % 97, 1.0, 2.0] for text in texts]
        made = np.array(rows, dtype=np.float32)
        return made / np.linalg.norm(made, axis=1, keepdims=True)

    monkeypatch.setattr(embeddings.Embedder, "__call__", vectors)
    monkeypatch.setattr(embeddings.Embedder, "width", 4)
    words = ["--limit", 2, "--out", "out", "--embedding", "all-MiniLM-L6-v2", "--json"]
    spec = "marl-gat/table-1/arc-challenge.gpt-4.1-nano.network"
    told = json.loads(reproduce(scripted, spec, *words, "--dry-run").stdout)
    # 2 questions to train on, at most once in seven ways, 2 to test; 10 agents of 1 to 10 samples.
    assert told["steps"][0]["training"]["most_calls"] == 2 * 7 * 10 * 10
    assert told["steps"][0]["test"]["calls"] == [2 * 10, 2 * 10 * 10]
    done = reproduce(scripted, spec, *words, code=0)
    first = json.loads(done.stdout)
    figures = ["individual", "consensus", "improvement"]
    assert {line["figure"]: line["n"] for line in first["rows"]} == dict.fromkeys(figures, 2)
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
    assert social["why"] == "these questions do not measure it"


def test_the_dry_run_tells_the_price_and_asks_nobody(home: Path, scripted: ScriptedServer) -> None:
    words = ["--limit", 3, "--out", "out", "--dry-run", "--price", "openai/scripted=1,2"]
    done = reproduce(scripted, "agents-of-commonsense/table-2", *words, "--json", code=0)
    told = json.loads(done.stdout)
    calls = [run["plan"]["calls"] for run in told["steps"]]
    assert calls == [[6, 18], [6, 18], [6, 21], [6, 21]]
    assert [run["step"].count(", ") for run in told["steps"]] == [1] * 4  # two models, one LM
    most = [run["plan"]["cost_usd"][1] for run in told["steps"]]
    assert told["cost_usd"][1] == pytest.approx(sum(most))
    assert not scripted.bodies
    assert not Path("out").exists()
    shown = reproduce(scripted, "agents-of-commonsense/table-2", *words).stderr
    assert "agents-of-commonsense/table-2/EX1_gpt, agents-of-commonsense/table-2/EX1_gem" in shown


def test_the_dry_run_needs_no_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["reproduce", "agents-of-commonsense/table-2/EX2_gpt", "--limit", 3, "--no-track"]
    words += ["--lm", "openai/gpt-4o-mini"]
    refused = folkmoot(*words, code=2)
    assert "openai/gpt-4o-mini needs a key" in refused.stderr
    without = folkmoot(*words, "--dry-run", "--json", code=0)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    told = json.loads(folkmoot(*words, "--dry-run", "--json").stdout)
    assert json.loads(without.stdout) == told
    assert told["cost_usd"][1] > 0


def test_a_budget_holds_for_all_rows_together(home: Path, scripted: ScriptedServer) -> None:
    words = ["--limit", 4, "--out", "out", "--concurrency", 1, "--json"]
    done = reproduce(scripted, TWO_ROWS, *words, "--budget", "6 calls", code=1)
    assert len(scripted.bodies) == 6
    found = json.loads(done.stdout)
    assert "6" in found["stopped"]
    assert [line["n"] for line in found["rows"]] == [4, 2]
    done = reproduce(scripted, TWO_ROWS, *words, "--budget", "6 calls")
    assert len(scripted.bodies) == 6
    done = reproduce(scripted, TWO_ROWS, *words)
    assert len(scripted.bodies) == 8
    assert [line["n"] for line in json.loads(done.stdout)["rows"]] == [4, 4]


def test_ctrl_c_keeps_and_shows_what_is_finished(home, scripted, monkeypatch):
    from folkmoot.pipelines.reproduction import reproduce as module

    words = ["--limit", 2, "--out", "out", "--json"]
    true, begun = module.carry_out, []

    def interrupted(plan: Any) -> Any:
        begun.append(plan.out)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return true(plan)

    monkeypatch.setattr(module, "carry_out", interrupted)
    done = reproduce(scripted, TWO_ROWS, *words, code=130)
    assert "the same command resumes it" in done.stderr
    lines = [(line["n"], line["why"]) for line in json.loads(done.stdout)["rows"]]
    assert lines == [(2, None), (None, "not run")]


BOOLQ = "causalgpt-caco-cot/table-1/one-shot.claude.cot.boolq"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([SINGLE, "--limit", "0"], "limit"),
        ([SINGLE, "--lm", "judge=openai/x"], "there is no agent 'judge'"),
        ([BOOLQ], "boolq (validation) is not here"),
        ([], "name a table, such as agents-of-commonsense/people"),
    ],
)
def test_odd_input_is_refused_in_a_sentence(words, said, home, scripted, monkeypatch):
    from folkmoot.pipelines.data import hub

    monkeypatch.setattr(hub, "CONVERTERS", {})
    done = folkmoot("reproduce", *words, *lm(scripted), "--no-track", "--out", "out", code=2)
    assert said in done.stderr
    assert not Path("out").exists()
    assert not scripted.bodies


def test_the_list_says_what_there_is() -> None:
    shown = folkmoot("reproduce", "--list", "--json")
    listed = {table["name"]: table for table in json.loads(shown.stdout)["tables"]}
    assert listed.keys() == tables().keys()
    assert sum(len(table["rows"]) for table in listed.values()) == len(ALL_ROWS)
    shown_lines = folkmoot("reproduce", "--list").stdout.splitlines()
    assert len(shown_lines) == 1 + len(listed) <= 24  # fits on a screen
    of_paper = json.loads(folkmoot("reproduce", "marl-gat", "--list", "--json").stdout)["tables"]
    assert [table["name"].partition("/")[0] for table in of_paper] == ["marl-gat"] * 5
    for spec, rows in (("marl-gat/table-4", 3), ("marl-gat/table-4/gamma-0.7", 1)):
        (table,) = json.loads(folkmoot("reproduce", spec, "--list", "--json").stdout)["tables"]
        assert len(table["rows"]) == rows
        assert table["rows"][-1]["data"]["preset"] == "gamma_0.7"
    shown = folkmoot("reproduce", "--list", "agents-of-commonsense/across-configurations")
    assert "published" in shown.stdout


@pytest.mark.nightly
def test_the_commands_of_the_page_run(home, scripted, monkeypatch):
    page = (Path(fm.__file__).parent / "docs" / "reproduce.md").read_text()
    commands = "".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL)).splitlines()
    assert len(commands) == 5
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    scripted.reply = acting
    for line in commands:
        # the last --limit counts
        done = folkmoot(*shlex.split(line)[1:], "--no-track", "--limit", 2)
        assert done.exit_code == 0, f"{line}\n{done.stderr}"


def test_each_run_of_a_table_is_an_mlflow_run(home, scripted, monkeypatch):
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(home))
    for _ in range(2):  # the second time goes on with the same runs
        fm.reproduce(TWO_ROWS, lm="openai/scripted", api_base=scripted.url, out="out")
    client = MlflowClient(f"sqlite:///{home}/mlflow.db")
    experiment = client.get_experiment_by_name("commonsenseqa")
    runs = client.search_runs([experiment.experiment_id])
    names = sorted(run.info.run_name for run in runs)
    assert names == [f"50% · mistral-7b.{way} · scripted" for way in ("cot", "simple")]
    assert {run.info.status for run in runs} == {"FINISHED"}


def test_reproduce_in_python_and_the_table_on_disk(home: Path, scripted: ScriptedServer) -> None:
    given: dict[str, Any] = {"api_base": scripted.url, "limit": 12, "out": "out", "tracking": False}
    spec = "agents-of-commonsense/table-1/mistral-7b.cot"
    found = fm.reproduce(spec, lm="openai/scripted", **given)
    lines = [(line.row, line.measured, line.inside) for line in found.lines]
    assert lines == [("mistral-7b.cot", 50.0, True)]
    table = json.loads(Path("out/agents-of-commonsense/table-1/table.json").read_text())
    assert table == found.to_dict()
    request = ReproduceRequest(spec, lm="openai/scripted", **{**given, "out": Path("out")})
    planned = plan_reproduction(request)
    (run,) = planned.plans.values()
    assert isinstance(run, EvaluationPlan)
    assert run.estimate.calls == (0, 0)


@pytest.mark.nightly
def test_a_killed_reproduction_goes_on_where_it_was(home: Path) -> None:
    spec = "agents-of-commonsense/table-1/gemma-2-9b"
    with ScriptedServer(delay=0.15) as server:
        words = [spec, *lm(server), "--no-track", "--limit", 8, "--out", "out", "--concurrency", 1]
        process = Child(command, "reproduce", *words)
        wait_for_requests(server, 10)  # the second row has begun
        process.kill()
        process.wait(30)
        killed = len(server.bodies)
        server.delay = 0.0
        done = folkmoot("reproduce", *words, "--json", code=0)
        assert 10 <= killed < 16
        assert 16 <= len(server.bodies) <= 17  # one call was in flight
    assert [line["n"] for line in json.loads(done.stdout)["rows"]] == [8, 8]
    for folder in Path("out").glob("*/results.jsonl"):
        ids = [row["id"] for row in rows_of(folder.parent)]
        assert len(ids) == len(set(ids)) == 8


def test_the_card_counts_figures_that_can_be_compared(tmp_path: Path) -> None:
    """The paper has no figure for the last one, or too many of its questions failed."""
    run = str(tmp_path / "run")
    row = {"run": run, "lm": "openai/m", "measured": 50.0}
    rows = [{**row, "inside": inside} for inside in (True, False, None)]
    # A training that a budget ended has paid, and has no row yet.
    books = tmp_path / "run" / "training" / ".folkmoot"
    books.mkdir(parents=True)
    call = dict.fromkeys(Entry.__required_keys__)
    (books / "ledger.jsonl").write_text(json.dumps(call) + "\n")
    table = {"reproduce": "paper/table", "rows": rows, "stopped": None}
    (tmp_path / "table.json").write_text(json.dumps(table), encoding="utf-8")
    card = KIND.card(tmp_path)
    assert card.calls == 1
    agree = "1 of 2 measured figures agree with the published ones."
    assert card.sentences == [agree, "Asked: openai/m."]
