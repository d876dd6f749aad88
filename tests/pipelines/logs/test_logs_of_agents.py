"""Logs of agents that act on tasks: each format gives the counts of its own harness."""

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import folkmoot as fm
from folkmoot.pipelines.runs.outcomes import read_outcomes

REPORT = {"total_instances": 5, "submitted_ids": ["a__b-1", "a__b-2", "a__b-3", "c__d-1"]}
REPORT |= {"completed_ids": ["a__b-1", "a__b-2"], "resolved_ids": ["a__b-1"]}
REPORT |= {"unresolved_ids": ["a__b-2"], "empty_patch_ids": ["a__b-3"], "error_ids": ["c__d-1"]}
REPORT |= {"unstopped_containers": ["a container, not a task"], "schema_version": 2}


def trial(task: str, resolved: bool | None, failure: str = "unset", **more: Any) -> dict[str, Any]:
    failed = {"task_id": task, "trial_name": f"{task}.1-of-1", "instruction": f"Do {task}."}
    failed |= {"is_resolved": resolved, "failure_mode": failure}
    tokens = {"total_input_tokens": 100, "total_output_tokens": 10}
    began, ended = (f"2026-01-01T00:00:{second}+00:00" for second in ("00", "30"))
    return {**failed, **tokens, "agent_started_at": began, "agent_ended_at": ended, **more}


RESULTS = {
    "results": [
        trial("one", True, "agent_timeout"),
        trial("two", False, "agent_timeout"),
        trial("three", None, "test_timeout"),
        trial("four", None, "unknown_agent_error", total_input_tokens=0),
        trial("five", False, "unknown_agent_error"),
        trial("six", None, agent_started_at=None),
        trial("seven", False, "agent_installation_failed"),
    ],
    "resolved_ids": ["one"],
    "n_resolved": 1,
}
UNFINISHED = {"id": "1", "results": [trial("one", True, agent_started_at=None)]}


def write_json(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def solved(found: fm.Imported) -> dict[str, dict[str, bool]]:
    """By agent and task, whether it was solved, of logs without repeats."""
    runs = found.runs.items()
    return {name: {row["id"]: bool(row["correct"]) for row in run.rows} for name, run in runs}


def outcomes(found: fm.Imported) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.outcomes.read_text().splitlines()]


def test_a_run_of_terminal_bench(tmp_path: Path) -> None:
    path = write_json(tmp_path / "crew" / "2026-01-01__00-00-00" / "results.json", RESULTS)
    found = fm.import_log(path)
    expected = {"one": True, "two": False, "three": False, "five": False}
    assert solved(found) == {"crew": expected}
    assert found.left_out == {"samples that ended before their agent began": 3}
    (run,) = found.runs.values()
    assert run.summary.counts.unreadable == 0
    row = next(iter(run.rows))
    assert (row["seconds"], row["usage"]["prompt_tokens"], row["decided_by"]) == (30, 100, "check")
    about = {"question_id": "one", "question": "Do one.", "group": None, "agent": "crew"}
    assert outcomes(found)[0] == {**about, "correct": True, "trial": 0, "tokens": 110}


def test_a_trial_that_is_resolved_counts_whatever_else_is_known(tmp_path: Path) -> None:
    found = fm.import_log(write_json(tmp_path / "crew" / "results.json", UNFINISHED))
    assert solved(found) == {"crew": {"one": True}}


def test_runs_of_an_entry_are_trials_which_are_not_read_twice(tmp_path: Path) -> None:
    for number in (1, 2):
        run = tmp_path / "crew" / f"2026-01-0{number}__00-00-00"
        write_json(run / "results.json", RESULTS)
        write_json(run / "one" / "one.1-of-1" / "results.json", RESULTS["results"][0])
        write_json(run / "tb.lock.json", {"seed": 1})
        (run / "agent.jsonl").write_text('{"a session": 1}\n')
    found = fm.import_log(tmp_path)
    (run,) = found.runs.values()
    assert (found.answers, found.questions, run.score) == (8, 4, 0.25)
    table = read_outcomes(found.outcomes)
    assert (len(table), table.repeats) == (4, 4)


def test_a_run_says_who_its_agent_is(tmp_path: Path) -> None:
    write_json(tmp_path / "run_metadata.json", {"agent_name": "terminus", "model_name": "x/y"})
    found = fm.import_log(write_json(tmp_path / "results.json", RESULTS))
    assert list(found.runs) == ["terminus x/y"]


def harbor(task: str, rewards: dict[str, float] | None, began: bool = True) -> dict[str, Any]:
    work = {"started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:01:00Z"}
    return {
        "task_name": task,
        "trial_name": f"{task}__x1",
        "agent_info": {"name": "terminus-2", "model_info": {"name": "m", "provider": "p"}},
        "agent_result": {"n_input_tokens": 7, "n_output_tokens": 3, "cost_usd": 0.25},
        "agent_execution": work if began else None,
        "verifier_result": None if rewards is None else {"rewards": rewards},
        "exception_info": {"exception_type": "AgentTimeoutError"} if rewards is None else None,
    }


def test_a_job_of_harbor(tmp_path: Path) -> None:
    job = tmp_path / "job"
    write_json(job / "result.json", {"id": "1", "n_total_trials": 4, "stats": {}})
    write_json(job / "config.json", {"job_name": "job"})
    write_json(job / "a__x1" / "result.json", harbor("a", {"reward": 1.0}))
    write_json(job / "b__x1" / "result.json", harbor("b", {"reward": 0.0}))
    write_json(job / "c__x1" / "result.json", harbor("c", None))
    write_json(job / "d__x1" / "result.json", harbor("d", None, began=False))
    unjudged = {**harbor("e", None), "exception_info": {"exception_type": "VerifierTimeoutError"}}
    write_json(job / "e__x1" / "result.json", unjudged)
    write_json(job / "f__x1" / "result.json", harbor("f", {"tests": 1.0, "style": 0.0}))
    (job / "a__x1" / "session.jsonl").write_text('{"a session": 1}\n')
    found = fm.import_log(job)
    assert solved(found) == {"terminus-2 m": {"a": True, "b": False, "c": False}}
    ended = {"samples that ended before their agent began": 1}
    several = {"samples with several rewards, none of which is called 'reward'": 1}
    assert found.left_out == {**ended, "samples that their harness could not judge": 1, **several}
    (run,) = found.runs.values()
    assert run.summary.is_rate
    assert run.summary.usage["cost_usd"] == 0.75
    named = fm.import_log(job / "result.json", tmp_path / "named")
    assert solved(named) == solved(found)
    alone = write_json(tmp_path / "elsewhere" / "result.json", {"n_total_trials": 4, "stats": {}})
    refused("no trial beside it", fm.import_log, alone)


def test_rewards_between_are_scores_and_a_second_job_has_trials_of_the_same_tasks(tmp_path) -> None:
    write_json(tmp_path / "one" / "a" / "result.json", harbor("a", {"reward": 1.0}))
    write_json(tmp_path / "again" / "a__x1" / "result.json", harbor("a", {"reward": 1.0}))
    assert fm.import_log(tmp_path).answers == 2
    write_json(tmp_path / "one" / "b" / "result.json", harbor("b", {"reward": 0.5}))
    found = fm.import_log(tmp_path / "one")
    (run,) = found.runs.values()
    assert run.score == 0.75
    assert [row.get("score") for row in outcomes(found)] == [1.0, 0.5]


def test_reports_of_swe_bench_and_results_which_say_nothing_of_tasks_in_no_list(tmp_path) -> None:
    found = fm.import_log(write_json(tmp_path / "gpt-4o.first.json", REPORT))
    expected = {"a__b-1": True, "a__b-2": False, "a__b-3": False, "c__d-1": False}
    assert solved(found) == {"gpt-4o.first": expected}
    late = {"submitted_ids": [*expected, "c__d-2"], "pending_ids": ["c__d-2"]}
    part = write_json(tmp_path / "part.json", REPORT | late | {"incomplete_ids": ["c__d-3"]})
    some = fm.import_log(part)
    assert solved(some) == {"part": {**expected, "c__d-3": False}}
    assert some.read_as == [f"{part}: nothing was submitted for 1 task, counted as failed"]
    assert {row["question_id"]: row["cluster"] for row in outcomes(found)}["c__d-1"] == "c/d"
    document = {"resolved": ["a__b-1"], "no_generation": ["a__b-2"], "no_logs": []}
    found = fm.import_log(write_json(tmp_path / "entry" / "results" / "results.json", document))
    assert solved(found) == {"entry": {"a__b-1": True, "a__b-2": False}}
    ids = {"resolved_ids": ["a__b-1"], "unresolved_ids": ["a__b-1"]}
    with pytest.raises(fm.UserError, match="a__b-1 is resolved and unresolved"):
        fm.import_log(write_json(tmp_path / "m.json", REPORT | ids), tmp_path / "out")


def test_details_and_leaderboards_have_costs_and_calls(tmp_path: Path) -> None:
    details = {
        "a__b-1": {"resolved": True, "cost": 0.5, "api_calls": 12},
        "a__b-2": {"resolved": False, "cost": 0.25, "api_calls": 3},
    }
    found = fm.import_log(write_json(tmp_path / "mini" / "per_instance_details.json", details))
    assert solved(found) == {"mini": {"a__b-1": True, "a__b-2": False}}
    (run,) = found.runs.values()
    assert (run.summary.usage["cost_usd"], run.summary.usage["calls"]) == (0.75, 15)
    entry = {"name": "mini + m", "per_instance_details": details}
    other = {"name": "of its total alone", "resolved": 50.0}
    boards = [{"name": "bash-only", "results": [entry, other]}, {"name": "x", "results": [entry]}]
    found = fm.import_log(write_json(tmp_path / "leaderboards.json", {"leaderboards": boards}))
    assert solved(found) == {"mini + m": {"a__b-1": True, "a__b-2": False}}


def test_outcomes_alone_and_a_report_for_each_task(tmp_path: Path) -> None:
    outcomes_alone = {"cli/cli:pr-1": True, "cli/cli:pr-2": False}
    found = fm.import_log(write_json(tmp_path / "pro" / "eval_results.json", outcomes_alone))
    assert solved(found) == {"pro": outcomes_alone}
    assert {row["cluster"] for row in outcomes(found)} == {"cli/cli"}
    for task in ("a__b-1", "a__b-2"):
        report = {task: {"patch_exists": True, "resolved": task == "a__b-1"}}
        write_json(tmp_path / "run" / "gpt-4o" / task / "report.json", report)
    found = fm.import_log(tmp_path / "run")
    assert solved(found) == {"gpt-4o": {"a__b-1": True, "a__b-2": False}}


def predictions(folder: Path) -> Path:
    patches = {"a__b-1": "diff", "a__b-2": "diff", "a__b-3": ""}
    for number, task in enumerate(patches, start=1):
        stats = {"instance_cost": number / 4, "api_calls": number}
        info = {"exit_status": "Submitted", "model_stats": stats}
        write_json(folder / task / f"{task}.traj.json", {"info": info, "messages": []})
    rows = {task: {"model_name_or_path": "m", "instance_id": task} for task in patches}
    document = {task: {**row, "model_patch": patches[task]} for task, row in rows.items()}
    return write_json(folder / "preds.json", document)


@pytest.mark.parametrize("report", ["results/m.report.json", "results.json"])
def test_predictions_of_swe_agent(report: str, tmp_path: Path) -> None:
    found = fm.import_log(predictions(tmp_path))
    assert solved(found) == {"m": {"a__b-3": False}}
    assert found.left_out == {"samples whose patch no report of the harness beside it judges": 2}
    write_json(tmp_path / report, REPORT)
    trajectory = tmp_path / "a__b-1" / "a__b-1.traj.json"
    trajectory.rename(trajectory.with_suffix(""))  # as SWE-agent names it
    found = fm.import_log(tmp_path)
    assert solved(found) == {"m": {"a__b-1": True, "a__b-2": False, "a__b-3": False}}
    (run,) = found.runs.values()
    assert (run.summary.usage["cost_usd"], run.summary.usage["calls"]) == (1.5, 6)


TABLES = {
    "t.csv": ("agent,a__b-1,a__b-2\nx,1,0\ny,0,-\n", [1, 0, 0], "0 is failed and 1 is solved"),
    "trials.csv": ("model,t1,t2\nx,3,5\n", [3 / 5, 1], "successes of 5 trials"),
    "shares.csv": ("agent,t1,t2\nx,1/2,0/2\n", [0.5, 0], "3/5 is three successes of five"),
    "blank.csv": (",t1,t2,t3\nx,NaN,1,0\n", [1, 0], "0 is failed"),
    "named.csv": ("Model_Name,t1,t2\nx,n/a,1\ny,0,1\n", [1, 0, 1], "0 is failed"),
    "nan.jsonl": ('{"agent": "x", "t1": 1, "t2": NaN}\n', [1], "0 is failed"),
    "scores.csv": ("agent,t1,t2\nx,0.25,1\n", [0.25, 1], "scores between 0 and 1"),
    "t.jsonl": ('{"agent": "x", "t1": 1, "t2": true}\n', [1, 1], "0 is failed"),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_with_a_row_an_agent(name: str, tmp_path: Path) -> None:
    text, means, said = TABLES[name]
    (tmp_path / name).write_text(text)
    found = fm.import_log(tmp_path / name)
    scores: dict[tuple[str, str], list[float]] = {}
    for agent, run in found.runs.items():
        for row in run.rows:
            score = row.get("score")
            scores.setdefault((agent, row["id"]), []).append(score if score is not None else -1)
    assert [sum(values) / len(values) for values in scores.values()] == pytest.approx(means)
    assert said in found.read_as[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("agent,t1,t2\nx,87.5,40\n", r"the value 87\.5: write 0 or 1"),
        ("agent,t1,t2\nx,1,0\ny,-0.5,1\n", "line 3: 't1' is '-0.5'; give a figure"),
        ("agent,t1,t2,Total\nx,1,1,2\n", "the column 'Total' seems to be about all tasks"),
    ],
)
def test_a_table_that_could_mean_anything_is_refused(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    refused(says, fm.import_log, tmp_path / "t.csv")


def test_tables_with_a_line_an_agent_or_a_trial(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("agent,t1,t2\na,1,\nb,0,-\n")
    found = fm.import_log(tmp_path / "t.csv", tmp_path / "out")
    assert (found.answers, found.left_out) == (2, {"samples that were not tried": 2})
    lines: list[dict[str, Any]] = [
        {"tasks": ["a__b-1", "a__b-2"]},
        {"agent": "x", "solved": "1-"},
        {"agent": "y", "successes": [2, None], "trials": [5, None]},
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = fm.import_log(tmp_path / "t.jsonl")
    assert {name: run.score for name, run in found.runs.items()} == {"x": 1.0, "y": 0.4}
    assert found.answers == 6
    rows = [
        {"agent": "x", "task": f"a__b-{task}", "trial": trial, "resolved": task == trial}
        for task in (1, 2)
        for trial in (1, 2)
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = fm.import_log(tmp_path / "t.jsonl")
    (run,) = found.runs.values()
    assert (run.score, found.answers, found.questions) == (0.5, 4, 2)


def test_a_table_that_names_nobody_is_of_one_agent(tmp_path: Path) -> None:
    """As results of tau-bench are."""
    rows = [{"task_id": n, "trial": n % 2, "reward": n % 2, "traj": []} for n in (0, 1)]
    found = fm.import_log(write_json(tmp_path / "gpt-4o_airline.json", rows))
    assert {name: run.score for name, run in found.runs.items()} == {"gpt-4o_airline": 0.5}
    assert "no column says who answered, so all rows are of 'gpt-4o_airline'" in found.read_as[0]


@pytest.mark.nightly
def test_tasks_of_a_repository_are_a_cluster_and_nothing_is_asked(tmp_path: Path) -> None:
    agents, numbers = ("one", "other"), itertools.product(range(6), range(5))
    rows = []
    for agent, (repository, task) in itertools.product(agents, numbers):
        resolved = (task + repository + len(agent)) % 3 > 0
        about = {"agent": agent, "task": f"owner{repository}__name-{task}"}
        rows.append({**about, "resolved": resolved, "cost_usd": 0.5})
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = fm.import_log(tmp_path / "t.jsonl", tmp_path / "out")
    pair = fm.compare(*found.runs.values()).pairs[0]
    assert pair.cluster == "cluster"
    assert pair.clustered is not None
    forecast = fm.forecast(found.outcomes)
    assert 0 < forecast.accuracy < 1
    assert "all who failed are taken to agree" in forecast.lines()[-1]
    assert pair.call_ratio is None  # how often an agent asked its LM is not in the table
    fm.report(list(found.runs.values()), out=tmp_path / "r.html")
    assert (tmp_path / "r.html").is_file()


@pytest.fixture
def native() -> Path:
    folder = Path(os.environ.get("FOLKMOOT_DATA", "nowhere")).parent / "recorded/agents/native"
    if not folder.is_dir():
        pytest.skip("there are no recorded agents beside FOLKMOOT_DATA")
    return folder


def test_native_logs_give_the_counts_of_their_harness(native: Path) -> None:
    for path in native.glob("*.json"):
        (run,) = fm.import_log(path).runs.values()
        document = json.loads(path.read_text())
        resolved = document.get("n_resolved", document.get("resolved_instances"))
        total = document.get("total_instances", len(document.get("results", [])))
        counts = run.summary.counts
        assert (counts.correct, counts.rows) == (resolved, total), path.name
