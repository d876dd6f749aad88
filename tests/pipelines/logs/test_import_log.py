"""Logs of others become runs and an outcome table: each format, and what is refused."""

import json
import os
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import folkmoot, write
from outcome_tables import embed_words
from refusals import refused

import folkmoot as fm
from folkmoot.pipelines.runs.outcomes import read_outcomes

SAVED = Path(__file__).parents[2] / "saved" / "logs"
TABLE = """question_id,agent,answer,correct,question,tokens,cost
q1,alpha,4,true,2+2?,10,0.001
q2,alpha,5,false,2+4?,10,
q1,beta,4,1,2+2?,,
q2,beta,6,1,2+4?,,
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    return path


def accuracies(found: fm.Imported) -> dict[str, float]:
    return {name: run.accuracy for name, run in found.runs.items()}


def test_a_plain_table_becomes_a_run_an_agent(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = fm.import_log(table, out)
    assert accuracies(found) == {"alpha": 0.5, "beta": 1.0}
    assert {path.parent for path in out.rglob("results.jsonl")} == {out / "alpha", out / "beta"}
    row = found.runs["beta"].rows[0]
    assert (row["gold"], row["seconds"]) == (None, None)
    assert (row["usage"]["prompt_tokens"], row["usage"]["cost_usd"]) == (None, None)
    assert found.runs["alpha"].rows[0]["usage"]["cost_usd"] == 0.001
    run = json.loads((out / "alpha" / "run.json").read_text())
    assert run["imported"]["sources"][0]["name"] == "t.csv"
    assert json.loads((out / "alpha" / "summary.json").read_text())["imported"]["agent"] == "alpha"
    first = json.loads(found.outcomes.read_text().splitlines()[0])
    about = {"question_id": "q1", "question": "2+2?", "group": None, "agent": "alpha"}
    assert first == {**about, "strategy": None, "answer": "4", "correct": True}


def test_the_same_import_again_changes_nothing(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def state() -> dict[Path, tuple[int, bytes]]:
        files = (path for path in out.rglob("*") if path.is_file())
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    fm.import_log(table, out)
    before = state()
    fm.import_log(table, out)
    assert state() == before
    table.write_text(TABLE.replace("q2,beta,6,1", "q2,beta,6,0"))
    refused("holds another import", fm.import_log, table, out)
    assert state() == before


def test_a_killed_import_is_finished(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fm.import_log(table, out)
    (out / ".importing").mkdir()
    os.replace(out / "beta", out / ".importing" / "beta")
    assert accuracies(fm.import_log(table, out)) == {"alpha": 0.5, "beta": 1.0}
    assert not (out / ".importing").exists()


def test_agents_with_hostile_names_stay_in_the_folder(tmp_path: Path) -> None:
    names = ["../../up", "org/model", "org_model", "ORG_MODEL", "import.json", "."]
    usual = {"question_id": "q", "answer": "x", "correct": True}
    path = write(tmp_path / "t.jsonl", *({**usual, "agent": name} for name in names))
    found = fm.import_log(path, tmp_path / "in" / "out")
    assert list(found.runs) == names
    assert len(list((tmp_path / "in" / "out").glob("*/results.jsonl"))) == len(names)
    assert len({name.casefold() for name in found.agents.values()}) == len(names)
    assert not (tmp_path / "up").exists()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"correct": 0.5}, "line 2: 'correct' is 0.5, neither right nor wrong"),
        ({"correct": "so so"}, "line 2: 'correct' is 'so so', neither right nor wrong"),
        ({"agent": ""}, "line 2: 'agent' is ''"),
        ({"agent": "a\x1b[2Jb"}, "control characters"),
        ({"question": "other"}, "another text"),
        ({"question_id": "q1", "question": "one"}, "has answered 'q1' before"),
        ({"cost": -1}, "'cost' is -1"),
    ],
)
def test_faults_name_file_and_line(row: dict[str, Any], said: str, tmp_path: Path) -> None:
    good = {"question_id": "q1", "agent": "a", "answer": "x", "correct": True, "question": "one"}
    other = {"question_id": "q1" if row.get("question") else "q2"}
    path = write(tmp_path / "t.jsonl", good, good | other | row)
    with pytest.raises(fm.UserError, match=r"t\.jsonl") as problem:
        fm.import_log(path, tmp_path / "out")
    assert said in str(problem.value)
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.usefixtures("quick_rivals", "no_figures")
def test_imported_runs_need_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []
    for n in range(40):
        asked = {"question_id": f"q{n}", "question": f"{'red' if n % 2 else 'blue'} {n}"}
        for agent, right in (("odd", bool(n % 2)), ("even", not n % 2), ("most", n % 5 > 0)):
            said = {"answer": "yes" if right else "no", "correct": right}
            rows.append({"agent": agent, **asked, **said})
    found = fm.import_log(write(tmp_path / "t.jsonl", *rows), tmp_path / "out")
    comparison = fm.compare(found.runs["most"], found.runs["odd"])
    assert comparison.runs[0].usage["prompt_tokens"] is None
    assert comparison.runs[0].seconds is None
    result = folkmoot("compare", tmp_path / "out/most", tmp_path / "out/odd", code=0)
    assert "the cheapest in calls" in result.output
    report = fm.report([found.folder / name for name in ("most", "odd", "even")], tracking=False)
    assert "unknown" in report.path.read_text()
    by_folders = read_outcomes([found.folder / name for name in ("odd", "even", "most")])
    by_table = read_outcomes(found.outcomes)
    assert (by_folders.correct == by_table.correct).all()
    embed_words(monkeypatch)
    small = {"hidden": 8, "heads": 2, "epochs": 2}
    fm.train(found.outcomes, out=tmp_path / "network", settings=small, tracking=False)


def test_the_command_says_what_it_made_and_is_light(table: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from folkmoot.pipelines.cli.app import app\n"
        "try: app(sys.argv[1:])\n"
        "finally: print('loaded', *sorted(HEAVY & {*sys.modules}), file=sys.stderr)"
    ).replace("HEAVY", "{'dspy', 'mlflow', 'torch', 'litellm', 'optuna', 'scipy.stats'}")
    words = ["import", table, "--out", tmp_path / "out", "--json"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "loaded"), done.stderr
    runs = {name: str(tmp_path / "out" / name) for name in ("alpha", "beta")}
    assert json.loads(done.stdout)["runs"] == runs


def test_hostile_zips_are_refused(tmp_path: Path) -> None:
    torn, other = (tmp_path / f"{name}.eval" for name in ("torn", "other"))
    torn.write_bytes((SAVED / "alpha.eval").read_bytes()[:2000])
    with zipfile.ZipFile(other, "w") as packed:
        packed.writestr("../../evil", "x")
    for path, said in ((torn, "not readable"), (other, "not a log of Inspect")):
        refused(said, fm.import_log, path)


@pytest.mark.parametrize(
    ("name", "right", "last"),
    [
        ("alpha.eval", [True, True, False, True], {"id": "q3", "gold": "6", "answer": "6"}),
        ("alpha-zstd.eval", [True, True, False, True], {"id": "q3"}),
        ("choices.eval", [True, False], {"choices": {"A": "pink", "B": "green"}, "answer": "A"}),
        ("chunked.eval", [True, False], {"id": "q2"}),  # made by Inspect; the other id is `a/b`
        ("sums.json", [True, False], {"id": "q2"}),
    ],
)
def test_logs_of_inspect_in_all_layouts(name: str, right: list[bool], last: Any) -> None:
    if "zstd" in name:
        pytest.importorskip("zipfile_zstd")
    (run,) = fm.import_log(SAVED / name).runs.values()
    rows = list(run.rows)
    assert [row["correct"] for row in rows] == right
    assert {field: rows[-1][field] for field in last} == last  # type: ignore[literal-required]
    assert rows[0]["usage"]["prompt_tokens"] == 9
    if name in ("chunked.eval", "sums.json"):  # a long text stands apart where logs are chunked
        assert rows[0]["question"].endswith("gives one away. How many are left?")
        assert rows[0]["answer"] == "The answer is 3"


def test_a_log_of_inspect_with_scores_between_makes_a_run_of_scores(tmp_path: Path) -> None:
    values: list[Any] = ["C", "P", 0.2, 0]
    scores = enumerate({"close": {"value": value}} for value in values)
    samples = [{"id": id, "output": {"completion": "x"}, "scores": each} for id, each in scores]
    failed = {"id": 9, "error": {"message": "down"}}
    log = {"status": "success", "eval": {"model": "m", "task": "t"}, "samples": [*samples, failed]}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    found = fm.import_log(path)
    run = found.runs["m"]
    assert run.score == pytest.approx((1 + 0.5 + 0.2) / 5)
    assert run.summary.scores["close"]["rate"] is False
    assert [row["correct"] for row in run.rows] == [True, None, None, False, False]
    assert len(found.outcomes.read_text().splitlines()) == 2
    compared = fm.compare(run, run)
    assert compared.pairs[0].difference == 0
    assert any("one run, given twice" in note for note in compared.notes)


def test_samples_that_lm_eval_wrote_give_the_scores_that_it_printed() -> None:
    """Made by lm-eval 0.4.13 on a scripted model: a task of options, one of two filters."""
    found = fm.import_log(SAVED / "lm-eval")
    alone = {"org/scripted flexible": 0.75, "org/scripted strict": 0.5}
    assert accuracies(found) == {"org/scripted": pytest.approx(0.6667, abs=1e-4), **alone}
    sky = found.runs["org/scripted"].rows[0]
    assert (sky["question"], sky["gold"]) == ("The sky is", "B")
    assert sky["choices"] == {"A": "pink", "B": "blue"}
    numbers = [row["answer"] for row in found.runs["org/scripted flexible"].rows]
    assert numbers == ["0", "2", "5", "6"]
    assert found.runs["org/scripted strict"].summary.counts.unreadable == 1


def test_rows_of_every_eval_ever(tmp_path: Path) -> None:
    read = {"source": "output.raw", "extracted_value": "4", "extraction_method": "regex"}
    kind = {"schema_version": "instance_level_eval_0.2.1", "interaction_type": "single_turn"}
    about = {"evaluation_id": "e", "evaluation_name": "gsm8k", "model_id": "org/model"}
    row: dict[str, Any] = {**kind, **about, "sample_id": "7", "output": {"raw": ["It is 4"]}}
    row |= {"input": {"raw": "2+2?", "reference": ["4"]}, "performance": {"latency_ms": 250.0}}
    row["answer_attribution"] = [{"turn_idx": 0, **read, "is_terminal": True}]
    row["evaluation"] = {"score": 1.0, "is_correct": True}
    row["token_usage"] = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}
    path = write(tmp_path / "model_samples.jsonl", row)
    found = fm.import_log(path).runs["org/model"].rows[0]
    assert (found["id"], found["answer"], found["gold"], found["correct"]) == ("7", "4", "4", True)
    assert (found["usage"]["prompt_tokens"], found["seconds"]) == (5, 0.25)
    # A row for each metric, of which the first counts; the same metric twice is a fault.
    first, second = ({**row, "evaluation_result_id": name} for name in ("accuracy", "brevity"))
    second["evaluation"] = {"score": 0.0, "is_correct": False}
    metrics = write(tmp_path / "metrics_samples.jsonl", first, second, first | {"sample_id": "8"})
    assert [one["correct"] for one in fm.import_log(metrics).runs["org/model"].rows] == [True, True]
    with pytest.raises(fm.UserError, match="has answered '7' before"):
        fm.import_log(write(tmp_path / "twice_samples.jsonl", first, first))


def test_results_that_promptfoo_wrote_give_the_scores_that_it_printed(tmp_path: Path) -> None:
    """Made by promptfoo 0.121.20: of two providers 3 and 4 passed, 1 and 1 failed, 1 error."""
    found = fm.import_log(SAVED / "promptfoo")
    # beta is column 1 of one prompt
    assert accuracies(found) == {"scripted:alpha": 0.6, "scripted:beta": 0.8}
    alpha, beta = (run.summary for run in found.runs.values())
    assert (alpha.counts.errors, alpha.usage["prompt_tokens"]) == (1, None)
    assert (beta.counts.errors, beta.usage["cost_usd"]) == (0, 0.005)
    assert beta.usage["prompt_tokens"] == 50
    results = json.loads((SAVED / "promptfoo" / "sums.json").read_text())["results"]["results"]
    twice = []
    for prompt in (1, 0):
        about = {"promptId": str(prompt)}
        twice += [one | about | {"promptIdx": 2 * prompt + one["promptIdx"]} for one in results]
    several = fm.import_log(write(tmp_path / "two.jsonl", *twice))
    names = ["scripted:alpha", "scripted:beta"]
    assert set(several.runs) == {*names, *(f"{name} prompt 2" for name in names)}


def test_a_table_that_mlflow_wrote_gives_the_score_that_it_printed() -> None:
    """Made by `mlflow.genai.evaluate` 3.17 of a scripted function, less its traces and spans."""
    found = fm.import_log(SAVED / "mlflow")
    assert accuracies(found) == {"gamma": 0.6}
    run = found.runs["gamma"]
    last = [(row["answer"], row["gold"], row["error"]) for row in run.rows][2:]
    assert last == [("5", "4", None), ("6", "6", None), (None, "8", "the call failed")]
    assert (run.rows[0]["question"], run.rows[0]["usage"]["prompt_tokens"]) == ("What is 0+0?", 10)


REPEATED = {"q0": [True, False, True], "q1": [True, True, True], "q2": [False, False, True]}
"""Whether each of three answers to each of three questions is right."""


def plain_epochs(home: Path) -> None:
    cells = ["question_id,agent,answer,correct,epoch"]
    for epoch in (3, 1, 2):
        for name, right in REPEATED.items():
            cells.append(f"{name},m,{right[epoch - 1]},{right[epoch - 1]},{epoch}")
    (home / "t.csv").write_text("\n".join(cells))


def inspect_epochs(home: Path) -> None:
    with zipfile.ZipFile(home / "log.eval", "w") as packed:
        about = {"model": "m", "task": "t", "scorers": [{"name": "match"}], "config": {"epochs": 3}}
        packed.writestr("header.json", json.dumps({"eval": about}))
        for name, right in REPEATED.items():
            for epoch, correct in enumerate(right, 1):
                score = {"value": "C" if correct else "I", "answer": str(correct)}
                sample = {"id": name, "epoch": epoch, "input": "?", "scores": {"match": score}}
                packed.writestr(f"samples/{name}_epoch_{epoch}.json", json.dumps(sample))


def every_eval_ever_epochs(home: Path) -> None:
    known = {"model_id": "m", "evaluation_name": "t", "evaluation_result_id": "accuracy"}
    known |= {"input": {"raw": "?", "reference": ["x"]}}
    rows = []
    for name, right in REPEATED.items():
        for epoch, correct in enumerate(right, 1):
            row = {**known, "sample_id": name, "output": {"raw": [str(correct)]}}
            row["evaluation"] = {"score": float(correct), "is_correct": correct}
            rows.append({**row, "metadata": {"epoch": str(epoch)}})
    write(home / "m_samples.jsonl", *rows)


def promptfoo_repeats(home: Path) -> None:
    """Its `--repeat` runs a test again under the next number."""
    rows = []
    for place, (name, right) in enumerate(REPEATED.items()):
        case = {"vars": {"question": name}, "assert": [{"type": "equals", "value": "x"}]}
        known = {"promptIdx": 0, "provider": {"id": "m"}, "testCase": case}
        for number, correct in enumerate(right):
            said = {"response": {"output": str(correct)}, "success": correct}
            rows.append({**known, "testIdx": 3 * place + number, **said})
    write(home / "out.jsonl", *rows[::-1])


def lm_eval_repeats(home: Path) -> None:
    """The same question again."""
    rows = []
    known = {"target": "x", "filter": "none", "metrics": ["exact_match"]}
    for place, (name, right) in enumerate(REPEATED.items()):
        for one in right:
            said = {"resps": [[str(one)]], "filtered_resps": [str(one)], "exact_match": float(one)}
            rows.append({**known, "doc_id": place, "doc": {"question": name}, **said})
    (home / "m").mkdir()
    write(home / "m" / "samples_t_2026-01-02T03-04-05.678.jsonl", *rows)


FORMATS = [plain_epochs, inspect_epochs, every_eval_ever_epochs, promptfoo_repeats]


@pytest.mark.parametrize("written", [*FORMATS, lm_eval_repeats])
def test_repeats_belong_to_their_question(written: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    written(tmp_path / "logs")
    found = fm.import_log(tmp_path / "logs", tmp_path / "out")
    (run,) = found.runs.values()
    assert (found.questions, found.answers) == (3, 9)
    score = run.summary.main
    assert (score["value"], score["n"]) == (pytest.approx(2 / 3), 3)
    # Student's, of three questions; of nine it would be 0.5
    assert score["high"] - score["low"] > 0.8
    assert (run.summary.counts.rows, run.summary.counts.questions) == (9, 3)
    rows = list(run.rows)
    every = {(row["id"], n) for row in rows for n in range(3)}
    assert {(row["id"], row["repeat"]) for row in rows} == every
    times = Counter(row["id"] for row in rows if row["correct"])
    assert sorted(times.values()) == [1, 2, 3]
    once = read_outcomes(found.outcomes)
    assert (len(once), once.repeats, once.missing) == (3, 6, 0)
    assert json.loads((run.folder / "run.json").read_text())["questions"] == 3


def test_a_file_of_no_known_kind(tmp_path: Path) -> None:
    (tmp_path / "x.pkl").write_bytes(b"")
    refused("of no known type", fm.import_log, tmp_path / "x.pkl")
    refused("holds no log", fm.import_log, tmp_path)


WIDE = {"header": 1, "source": "x", "agents": {"sums": ["a", "b", "c"], "words": ["a", "c"]}}


def test_wide_tables_have_a_line_a_question(tmp_path: Path) -> None:
    first = {"question": "1 + 1?", "gold": "2", "answers": ["2", "3", None]}
    second = {"gold": "4", "answers": ["x", "4.0", None], "correct": "01-"}
    numbered = enumerate((first, second), 1)
    rows = [{"dataset": "sums", "question_id": n, **row} for n, row in numbered]
    rows.append({"dataset": "words", "question_id": 1, "gold": "no", "answers": ["no", "no"]})
    found = fm.import_log(write(tmp_path / "w.jsonl", WIDE, *rows), tmp_path / "out")
    assert accuracies(found) == {"a": 2 / 3, "b": 0.5, "c": 0.5}
    assert [row["id"] for row in found.runs["c"].rows] == ["1", "words/1"]
    assert [row["answer"] for row in found.runs["c"].rows] == [None, "no"]


def test_an_imports_folder_stands_for_its_runs_and_a_vote_of_them_is_judged(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    rows = []
    # Each is wrong on a third of its own, so that two of three are always right.
    for n in range(30):
        answers = ["3" if n % 3 == place else "2" for place in range(3)]
        rows.append({"question_id": n, "gold": "2", "answers": answers})
    path = write(tmp_path / "w.jsonl", {"header": 1, "agents": names}, *rows)
    folder = fm.import_log(path, tmp_path / "out").folder
    found = fm.compare(folder)
    assert found.names == names
    assert (found.panel.members, found.panel.score) == (("a", "b", "c"), 1)
    assert found.panel.better
    assert found.panel.sentence in repr(found)
    assert found.to_dict()["panel"]["single_score"] == pytest.approx(2 / 3, abs=0.15)
    assert fm.compare(folder, panel=0).panel is None
    page = fm.report(folder, out=tmp_path / "page.html").path.read_text()
    assert "A majority vote of up to 5 runs beats the best run alone" in page
    shown = folkmoot("compare", folder, "--panel", 3, code=0)
    assert "A majority vote of up to 3 runs" in shown.output


def inspect(path: Path, *samples: dict[str, Any], **about: Any) -> Path:
    header = {"task": "t", "task_id": "1", "model": "openai/m", "created": "2026-01-01", **about}
    known = {"epoch": 1, "input": "Q?", "target": "A"}
    rows = [{"id": f"q{number}", **known, **sample} for number, sample in enumerate(samples)]
    path.write_text(json.dumps({"status": "success", "eval": header, "samples": rows}))
    return path


RIGHT = {"scores": {"match": {"value": "C", "answer": None}}, "output": {"completion": ""}}


def test_right_without_a_text_is_right_and_does_not_vote(tmp_path: Path) -> None:
    found = fm.import_log(inspect(tmp_path / "a.json", RIGHT, RIGHT))
    (run,) = found.runs.values()
    counts = run.summary.counts
    assert (run.score, counts.rows, counts.unreadable) == (1.0, 2, 0)
    assert found.outcomes.read_text() == ""


def test_samples_without_a_score_or_cancelled_are_left_out_and_counted(tmp_path: Path) -> None:
    failed = {"scores": {}, "error": {"message": "CancelledError()"}}
    samples = ({"scores": {}}, {"scores": {"match": {"value": float("nan")}}}, failed)
    found = fm.import_log(inspect(tmp_path / "a.json", RIGHT, *samples))
    assert found.answers == 1
    assert found.left_out == {"samples without a score": 2, "samples cancelled": 1}
    shown = folkmoot("show", found.folder, code=0).output
    assert "Left out: 2 samples without a score." in shown
    assert "next: folkmoot report" in shown  # a single run is not compared


NAN = float("nan")
OF_EVERY = {"model_id": "a", "evaluation_name": "e"}
UNSCORED = {
    "samples_gsm8k.jsonl": [
        {"doc_id": n, "doc": {}, "resps": [["4"]], "filtered_resps": ["4"], "exact_match": right}
        for n, right in enumerate([1.0, NAN, None])
    ],
    "table.jsonl": [
        {"question_id": n, "agent": "a", "answer": "x", "correct": right}
        for n, right in enumerate([1, NAN, None])
    ],
    "tasks.jsonl": [
        {"task": n, "agent": "a", "resolved": right} for n, right in enumerate([1, "", None])
    ],
    "of every eval ever.jsonl": [
        {**OF_EVERY, "sample_id": n, "evaluation": {"is_correct": right}}
        for n, right in enumerate([True, None, NAN])
    ],
    "dialogues.jsonl": [
        {"question_id": n, "run": "a", "turns": [[0, "b", "x"]], "final_correct": right}
        for n, right in enumerate([True, None, NAN])
    ],
    "results.jsonl": [
        {"promptIdx": 0, "testIdx": n, "provider": "a", "vars": {"question": f"{n}?"},
         "response": {"output": "x"}, "success": right}
        for n, right in enumerate([True, None, NAN])
    ],
}  # fmt: skip
NUMBERS = (
    ("question_id,agent,answer,correct", "1,a,4,1", "2,a,17,0", "1,b,3,0"),
    ("task,agent,resolved,trial", "1,a,1,1", "1,a,0,2", "2,a,0,1"),
    ("instance_id,model,agent,score", "7,0,a,1", "7,0,b,0", "8,0,a,1"),
    ("task_id,model_name,passed", "1,a,1", "2,a,0", "1,b,0"),
    ("question_id,model,answer,is_correct", "1,a,4,1", "2,a,17,0", "1,b,3,0"),
)


@pytest.mark.parametrize("lines", NUMBERS)
def test_a_table_of_numbers_has_a_row_an_answer(lines: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\n".join(lines))
    found = fm.import_log(tmp_path / "t.csv")
    assert (found.answers, found.questions, found.read_as) == (3, 2, [])


@pytest.mark.parametrize("name", UNSCORED)
def test_what_is_not_scored_is_left_out_of_every_log(name: str, tmp_path: Path) -> None:
    found = fm.import_log(write(tmp_path / name, *UNSCORED[name]), tmp_path / "out")
    assert found.answers == 1
    assert found.left_out == {"samples without a score": 2}


def test_the_bill_of_a_grader_is_not_the_agents(tmp_path: Path) -> None:
    used = {"openai/m": {"input_tokens": 30, "output_tokens": 5}, "grader": {"input_tokens": 900}}
    roles = {"grader": {"input_tokens": 10, "output_tokens": 1}}
    row = {**RIGHT, "model_usage": used, "role_usage": roles}
    (run,) = fm.import_log(inspect(tmp_path / "a.json", row)).runs.values()
    usage = run.summary.usage
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (20, 4)


CACHED = {"input_tokens": 20, "input_tokens_cache_read": 900, "input_tokens_cache_write": 30}


@pytest.mark.parametrize(
    ("total", "asked"),
    [(955, 950), (960, 950), (25, 20), (None, 20)],
    ids=["counted apart", "with reasoning apart", "among the others", "unknown"],
)
def test_tokens_in_a_cache_are_the_prompts(total: int | None, asked: int, tmp_path: Path) -> None:
    used = {"openai/m": {**CACHED, "output_tokens": 5, "total_tokens": total}}
    path = inspect(tmp_path / "a.json", {**RIGHT, "model_usage": used})
    (run,) = fm.import_log(path).runs.values()
    assert run.summary.usage["prompt_tokens"] == asked


def test_a_score_is_named_and_the_newest_log_of_a_task_counts(tmp_path: Path) -> None:
    scores = {"exact": {"value": "I", "answer": "B"}, "loose": {"value": "C", "answer": "B"}}
    inspect(tmp_path / "old.json", {"scores": scores}, {"scores": scores})
    # In UTC it is the later one.
    inspect(tmp_path / "new.json", {"scores": scores}, created="2026-02-01T01:00:00-09:00")
    inspect(tmp_path / "other.json", {"scores": {}}, created="2026-02-01T09:00:00+00:00")
    found = fm.import_log(tmp_path, score="loose")
    assert [run.score for run in found.runs.values()] == [1.0]
    assert found.left_out == {"logs that a newer one of the task replaces": 2}
    refused("its scores are exact, loose", fm.import_log, tmp_path, score="length")


def test_rows_of_equal_replies_are_filters_where_none_is_named(tmp_path: Path) -> None:
    row = {"doc_id": 0, "doc": {"question": "Q?"}, "target": "5", "resps": [["It is 5"]]}
    first = {**row, "filtered_resps": ["5"], "exact_match": 1.0}
    rows = [first, {**row, "filtered_resps": ["[invalid]"], "exact_match": 0.0}]
    (tmp_path / "model").mkdir()
    found = fm.import_log(write(tmp_path / "model" / "samples_gsm8k.jsonl", *rows))
    scores = {name: run.score for name, run in found.runs.items()}
    assert scores == {"model": 1.0, "model filter 2": 0.0}


def judged_by_promptfoo(number: int) -> dict[str, Any]:
    """A result of the assertion `not-contains`, of which promptfoo keeps no text."""
    right = number != 2
    asked = {"provider": {"id": "openai:x"}, "vars": {"question": f"Q {number}?"}}
    said = {"success": right, "score": float(right), "response": {"output": ""}}
    return {"testIdx": number, **asked, **said}


RATED = [[{"question": f"Q {n}?"}, int(n != 2), 10 + n] for n in range(3)]
RATINGS = {"columns": ["inputs", "correctness/value"], "data": [row[:2] for row in RATED]}
NAMED = {"columns": ["inputs", "exact/value", "length/value"], "data": RATED}
WITHOUT_TEXT: dict[str, tuple[Any, str | None]] = {
    "promptfoo": ({"results": {"results": [judged_by_promptfoo(n) for n in range(3)]}}, None),
    "mlflow": (RATINGS, None),
    "mlflow, a named score": (NAMED, "exact"),
}


@pytest.mark.parametrize("name", WITHOUT_TEXT)
def test_other_logs_say_right_without_a_text_too(name: str, tmp_path: Path) -> None:
    document, score = WITHOUT_TEXT[name]
    (tmp_path / "log.json").write_text(json.dumps(document))
    imported = fm.import_log(tmp_path / "log.json", out=tmp_path / "out", score=score)
    (folder,) = imported.agents.values()
    run = fm.load_run(imported.folder / folder)
    assert [row["correct"] for row in run.rows] == [True, True, False]
    assert {row["answer"] for row in run.rows} == {None}
    assert run.summary.counts.unreadable == 1  # of the wrong one nothing is known


def test_a_table_with_several_scores_asks_which(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(json.dumps(WITHOUT_TEXT["mlflow, a named score"][0]))
    with pytest.raises(fm.UserError, match="Give it as --score; there is length, exact"):
        fm.import_log(tmp_path / "log.json", out=tmp_path / "out")
    with pytest.raises(fm.UserError, match="no column 'nope' with a score"):
        fm.import_log(tmp_path / "log.json", out=tmp_path / "out", score="nope")
