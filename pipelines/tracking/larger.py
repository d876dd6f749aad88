"""What the folders of commands that make several runs show in the tracking store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..base.journal import read_object, records
from ..plots.tuning import front_plot, history_plot, importance_plot
from ..runs.folder import MANIFEST
from ..runs.summary import SUMMARY, score_words
from .described import STOPPED_TAG, described, figures, model_in
from .entry import Drawn, Json, RunEntry, TableEntry, existing
from .values import as_param, bill, experiment_name, rounded, run_name, score_head, scrubbed, title

MOST_FRONT = 10
ENDED = {"complete": "FINISHED", "pruned": "FINISHED", "failed": "FAILED"}
TRIAL_COLUMNS = (
    *("trial", "place", "front", "state", "replayed_from", "questions", "errors", "failed"),
)
PER_QUESTION = ("calls", "tokens", "cost")
LEARNED = {
    "reward": "reward",
    "individual": "accuracy",
    "consensus": "consensus",
    "entropy": "entropy",
    "trust": "trust",
    "edges_changed": "edges_changed",
    "loss": "loss",
}
"""What a batch of a training notes, and what it is called in the store."""
NETWORK = (
    *("network.json", "tensors.safetensors", "program.json", "training.json"),
    *("training_log.json", "scores.json"),
)
LINE_COLUMNS = (
    *("row", "figure", "published", "measured", "low", "high", "n", "difference", "inside"),
    *("lm", "why", "rows", "errors", "unreadable", "truncated"),
)


def _read(path: Path) -> Json:
    """What a file says, but for the run's id, which a push notes in it."""
    document = read_object(path) or {}
    document.pop("mlflow_run_id", None)
    return document


def _runs_in(folder: Path, *patterns: str) -> list[Path]:
    """The folders of runs below a folder, in order of their names."""
    found = {path.parent for pattern in patterns for path in folder.glob(pattern)}
    return sorted(found)


# A compilation -----------------------------------------------------------------------------------


def compilation_entry(folder: Path, key: str) -> RunEntry:
    """A compilation: held-out scores, prompts, the best program; its candidates and evaluations."""
    about = _read(folder / "compile.json")
    result, questions = about.get("result"), about["questions"]
    run = {
        **about,
        "data_fingerprint": about["validation_fingerprint"] or about["train_fingerprint"],
        "questions": questions["validation"] or questions["select"],
        "settings": {
            "command": "compile",
            "label": f"compile {about['optimizer']} {about['preset']}",
            **about["settings"],
            **{name: about[name] for name in ("optimizer", "preset", "seed", "train_fingerprint")},
            "prompt_lm": (about["prompt_lm"] or {}).get("name"),
            **{f"questions_{name}": count for name, count in questions.items()},
        },
    }
    begun = partial(described, run, key, document=folder / "compile.json")
    if result is None:
        return begun(name=title(run), status="RUNNING")
    rows = list(records(folder / "candidates.jsonl", ("key",)))
    given = rows[0]["prompts"] if rows else {}
    prompts = _read(folder / "prompts.json")
    place = f"{experiment_name(run)}.{run_name({**run, 'settings': {}})}"
    files = ("prompts.md", "prompts.json", "candidates.jsonl", "program")
    return begun(
        name=title(run, _compiled_score(result)),
        status="FINISHED" if result["stopped"] is None or _has_winner(result) else "KILLED",
        metrics=rounded(figures(_compiled_figures(result))),
        tags={"folkmoot.winner": result["winner"], STOPPED_TAG: result["stopped"] or "no"},
        note=_compiled_note(result),
        files={
            "compile.json": scrubbed(about),
            **existing(folder, files),
        },
        prompts={
            f"{place}.{name}": _prompt_text(prompt)
            for name, prompt in prompts.items()
            if prompt != given.get(name)
        },
        model=model_in(folder / "program"),
        children=[_candidate(row, run, key) for row in rows],
        parts=_runs_in(folder, f"before/{SUMMARY}", f"after/*/{SUMMARY}"),
    )


def _has_winner(result: Json) -> bool:
    return result["selection"]["winner"] is not None


def _compiled_score(result: Json) -> str | None:
    """The score on questions that the optimizer did not see, else the one it was chosen by."""
    if result["after"] is not None:
        metric, score = next(iter(result["after"]["scores"].items()))
        return score_head(metric, score)
    chosen = result["selection"]["winner"]
    return None if chosen is None else score_head("selection", chosen)


def _compiled_figures(result: Json) -> Json:
    tree: Json = {}
    for phase in ("before", "after"):
        for metric, score in ((result[phase] or {}).get("scores") or {}).items():
            tree[f"{metric}_{phase}"] = score
            if phase == "after":  # under the name that evaluations have, to be sorted with them
                tree[metric] = score
    if (pair := result["comparison"]) is not None:
        tree |= {"difference": {**pair, "value": pair["difference"]}, "p": pair["p"]}
        if (spans := pair["f1"]) is not None:
            tree["difference_f1"] = {**spans, "value": spans["difference"]}
    for program in ("given", "winner"):
        if (chosen := result["selection"][program]) is not None:
            tree[f"selection_{program}"] = chosen["value"]
    counts = {name: result[name] for name in ("candidates", "calls_made", "calls_saved")}
    return tree | counts | bill(result["paid"])


def _compiled_note(result: Json) -> str:
    """The compilation in Markdown: the verdict, the scores, the bill."""
    parts = [f"**{result['verdict']}**"]
    scores = []
    for phase in ("before", "after"):
        if result[phase] is not None:
            metric, score = next(iter(result[phase]["scores"].items()))
            value, interval = score_words(metric, score)
            scores.append(f"{phase} {value} ({interval})")
    if scores:
        text = ", ".join(scores)
        text = f"{text[0].upper()}{text[1:]}"
        parts.append(f"{text} on questions that the optimizer did not see.")
    parts.append(
        f"{result['candidates']:,} candidates; {result['calls_made']:,} calls were made, "
        f"{result['calls_saved']:,} saved. The prompts: `prompts.md` under Artifacts."
    )
    return "\n\n".join(parts)


def _prompt_text(prompt: Json) -> str:
    """Instructions, and demonstrations as JSON."""
    demos = [json.dumps(demo, ensure_ascii=False, indent=2) for demo in prompt["demos"]]
    return "\n\n".join([prompt["instructions"], *demos])


def _candidate(row: Json, run: Json, key: str) -> RunEntry:
    name = str(row["candidate"])
    own = {**run, "settings": {}}
    return RunEntry(
        key=f"{key}/{row['key']}",
        name=title(own, f"{row['score']:.0%}", f"candidate {name}"),
        status="FINISHED" if row["complete"] else "KILLED",
        metrics=rounded({name: row[name] for name in ("score", "low", "high", "questions")}),
        tags={"folkmoot.candidate": name, "folkmoot.kind": "candidate"},
        note="One of the prompts that were tried: `prompts.md` under Artifacts.",
        files={
            "prompts.md": "\n\n".join(
                f"## {seat}\n\n{_prompt_text(prompt)}" for seat, prompt in row["prompts"].items()
            ),
            "prompts.json": row["prompts"],
        },
    )


# A study -----------------------------------------------------------------------------------------


def study_entry(folder: Path, key: str) -> RunEntry:
    """A study: held-out scores, trials as a table and as runs, plots, the winner."""
    run, report = _read(folder / "study_run.json"), _read(folder / "study.json")
    begun = partial(described, run, key, document=folder / "study_run.json")
    if "best" not in report:
        return begun(name=title(run), status="RUNNING")
    best, stopped = report["best"], report["stopped"]
    source = [folder / "study.json"]
    home = run["settings"].get("home")
    winner = {} if best is None else {"folkmoot.winner": json.dumps(best["setting"])}
    return begun(
        name=title(run, _study_score(report)),
        status="FINISHED" if stopped is None or (best and stopped != "interrupted") else "KILLED",
        metrics=rounded(figures(_study_figures(report))),
        tags={"folkmoot.study": report["study"], STOPPED_TAG: stopped or "no", **winner},
        note=_study_note(report),
        files={
            "study.json": report,
            "trials.json": _trials_table(report),
            "history.png": Drawn(source, partial(history_plot, report)),
            "front.png": Drawn(source, partial(front_plot, report)),
            "importances.png": Drawn(source, partial(importance_plot, report)),
            **existing(folder, ["winner"]),
        },
        model=model_in(folder / "winner", "winner"),
        children=[
            _trial(entry, report, run, key)
            for entry in report["table"]
            if entry["state"] in ENDED and entry.get("home") == home
        ],
        parts=_runs_in(folder, f"validation/*/{SUMMARY}", "networks/*/network.json"),
    )


def _study_score(report: Json) -> str | None:
    """The winner's score on validation questions, else that in training."""
    goal = report["objectives"][0]
    if report["validation"]:
        return score_head(goal, report["validation"]["winner"])
    return score_head(goal, report["best"]["scores"][goal]) if report["best"] else None


def _study_figures(report: Json) -> Json:
    goals, held = report["objectives"], report["validation"]
    tree: Json = {}
    if held is not None:
        tree = {goals[0]: held["winner"], f"{goals[0]}_default": held["default"]}
        if "difference" in held:
            tree |= {"difference": held["difference"], "p": held["p"]}
    scores = report["best"]["scores"] if report["best"] else {}
    return {
        **tree,
        "train": {goal: scores[goal] for goal in goals if goal in scores},
        "trials": {
            name: report["trials"][name] for name in ("complete", "pruned", "told", "failed")
        },
        **{f"calls_{name}": report["calls"][name] for name in ("made", "saved")},
        **bill(report["paid"]),
    }


def _trials_table(report: Json) -> TableEntry:
    goals, rows = report["objectives"], []
    front = {entry["trial"]: number for number, entry in enumerate(report["front"], 1)}
    for entry in report["table"]:
        scores = entry.get("scores", {})
        cells = {
            **entry,
            "front": front.get(entry["trial"]),
            "replayed_from": entry.get("told_by"),
        }
        values = [scores[goal]["value"] if goal in scores else None for goal in goals]
        setting = json.dumps(entry["setting"])
        rows.append([*(cells.get(name) for name in TRIAL_COLUMNS), setting, *values])
    return TableEntry([*TRIAL_COLUMNS, "setting", *goals], rows)


def _study_note(report: Json) -> str:
    """The study in Markdown: the verdict, the winner or the front, the bill."""
    trials, calls, goals = report["trials"], report["calls"], report["objectives"]
    parts = [f"**{report['verdict']}**"]
    if len(goals) > 1 and report["front"]:
        lines = [["the front in training, the winner first", *goals], ["---"] * (1 + len(goals))]
        for entry in report["front"][:MOST_FRONT]:
            scores = [_with_interval(entry["scores"][goal]) for goal in goals]
            lines.append([setting_words(entry["setting"]).replace("|", "\\|"), *scores])
        parts.append("\n".join(f"| {' | '.join(cells)} |" for cells in lines))
    elif report["best"]:
        scores_text = ", ".join(
            f"{name} {score['value']:,.4g}" for name, score in report["best"]["scores"].items()
        )
        setting = setting_words(report["best"]["setting"])
        parts.append(f"Winner: {setting} (in training: {scores_text}).")
    parts.append(
        f"{trials['complete']:,} trials finished, {trials['pruned']:,} stopped early, "
        f"{trials['told']:,} settings scored from the answers of others. {calls['made']:,} calls "
        f"were made for trials, {calls['saved']:,} saved."
    )
    return "\n\n".join(parts)


def _trial(entry: Json, report: Json, run: Json, key: str) -> RunEntry:
    goal, scores = report["objectives"][0], entry.get("scores", {})
    setting = {name: value for name, value in (entry["setting"] or {}).items() if value is not None}
    state = "" if entry["state"] == "complete" else f" ({entry['state']})"
    program = f"trial {entry['place']}{state} · {setting_words(setting)}"
    tree: Json = {
        f"{name}_per_question" if name in PER_QUESTION else name: score
        for name, score in scores.items()
    }
    if "questions" in entry:
        tree |= {"questions": entry["questions"], "errors": entry["errors"]}
        if "calls" in scores:
            tree["calls"] = scores["calls"]["value"] * entry["questions"]
    return RunEntry(
        key=f"{key}/{entry['trial']}",
        name=title({"program": {}}, score_head(goal, scores[goal]) if scores else None, program),
        status=ENDED[entry["state"]],
        params={name: as_param(value) for name, value in scrubbed(setting).items()},
        metrics=rounded(figures(tree)),
        tags={
            "folkmoot.trial": str(entry["trial"]),
            "folkmoot.kind": "trial",
            "folkmoot.trial_state": entry["state"],
            **({"folkmoot.network": entry["training"]} if entry.get("training") else {}),
        },
    )


def setting_words(setting: Mapping[str, Any]) -> str:
    """A setting in a line: texts speak for themselves, other values follow their name."""
    words = []
    for name, value in scrubbed(setting).items():
        if isinstance(value, str | list):
            words.append(as_param(value))
        elif value is not None:
            words.append(f"{name.rpartition('.')[2]} {value}")
    return " · ".join(words)


def _with_interval(score: Mapping[str, float]) -> str:
    ends = f" [{score['low']:.4g}, {score['high']:.4g}]" if "low" in score else ""
    return f"{score['value']:.4g}{ends}"


# A training --------------------------------------------------------------------------------------


def training_entry(folder: Path, key: str) -> RunEntry:
    """A training: figures while it learned, test scores, plots, the network."""
    about, log = _read(folder / "training.json"), _read(folder / "training_log.json")
    scores, steps = _read(folder / "scores.json"), log.get("steps") or []
    same = ("lms", "data_fingerprint", "questions", "versions", "git_commit")
    run = {
        **{name: about[name] for name in same},
        "program": {"program": "network training", **about["network"]},
        "program_hash": "",
        "prompt_hash": "",
        "settings": {
            "command": "train",
            "label": "network training",
            **{name: about[name] for name in ("kind", "data", "preset")},
            **about["training"],
        },
    }
    begun = partial(described, run, key, document=folder / "training.json")
    if not (folder / "program.json").exists():
        return begun(name=title(run), status="RUNNING")
    test = scores.get("consensus")
    plots = [path.name for path in sorted((folder / "plots").glob("*.png"))]
    return begun(
        name=title(run, score_head("consensus", test) if test else None),
        curve=[(int(step["questions"]), _learned(step)) for step in steps],
        step=int(steps[-1]["questions"]) if steps else 0,
        metrics=_training_figures(scores),
        files={
            **existing(folder, NETWORK, "network/"),
            **existing(folder / "plots", plots, "plots/"),
        },
        model=model_in(folder, "network"),
    )


def _learned(step: Json) -> dict[str, float]:
    """The figures of one batch."""
    own = {name: float(step[key]) for key, name in LEARNED.items() if step.get(key) is not None}
    return own | {f"strategy/{name}": share for name, share in step.get("strategies", {}).items()}


def _training_figures(scores: Json) -> dict[str, float]:
    """The test scores: `test_consensus` with its ends and calls, differences and ties."""
    tests = {
        name: score
        for name, score in scores.items()
        if isinstance(score, Mapping) and "value" in score
    }
    return figures(
        {
            **{f"test_{name}": score for name, score in tests.items()},
            **{f"test_{name}_calls": score["calls"] for name, score in tests.items()},
            **{
                f"difference/{team}_over_{rival}": difference["value"]
                for team, rivals in scores.get("differences", {}).items()
                for rival, difference in rivals.items()
            },
            **({"test_ece": scores["ece"]} if "ece" in scores else {}),
            **{f"ties/{name}": value for name, value in scores.get("ties", {}).items()},
        }
    )


# A distillation ----------------------------------------------------------------------------------


def distillation_entry(folder: Path, key: str) -> RunEntry:
    """A distillation: its verdict, the programs of the last test, and every evaluation."""
    report = _read(folder / "distil.json")
    run = {
        "program": {"program": "distil", "team": report["team"]},
        "program_hash": report["program_hash"],
        "prompt_hash": "",
        "lms": {"*": report["lm"]},
        "data_fingerprint": report["data_fingerprint"],
        "questions": report["questions"],
        "settings": {
            **report["data"],
            "command": "distil",
            "label": f"distil {report['name']}",
            **{name: report[name] for name in ("run", "margin", "seed", "parts")},
        },
        "versions": report["versions"],
    }
    begun = partial(described, run, key, document=folder / "distil.json")
    if not report["sentences"]:
        return begun(name=title(run), status="RUNNING")
    kept = (report["programs"] or {}).get(report["keep"])
    return begun(
        name=title(run, score_head("accuracy", kept["accuracy"]) if kept else None),
        metrics=_distilled_figures(report),
        tags={STOPPED_TAG: report["stopped"] or "no"},
        note="\n\n".join(report["sentences"]),
        files={
            "distil.json": report,
            **existing(folder, ("single", "router")),
        },
        parts=_runs_in(folder, f"selection/*/{SUMMARY}", f"held-out/*/{SUMMARY}"),
    )


def _distilled_figures(report: Json) -> dict[str, float]:
    """The figures of the last test by program, such as `single/accuracy`, and `share_routed`."""
    tree: Json = {}
    for program, tested in (report["programs"] or {}).items():
        if tested is None:
            continue
        own = {"accuracy": tested["accuracy"]}
        if (test := tested["against_team"]) is not None:
            own["difference"] = {**test, "value": test["difference"]}
            own["non_inferior"] = test["verdict"] == "non-inferior"
        own |= {name: value for name, value in tested.items() if isinstance(value, int | float)}
        tree |= {f"{program}/{name}": value for name, value in own.items()}
    if report["router"] is not None and report["router"]["share_routed"] is not None:
        tree["share_routed"] = report["router"]["share_routed"]["value"]
    return figures(tree)


# A contest ---------------------------------------------------------------------------------------


def contest_entry(folder: Path, key: str) -> RunEntry:
    """A contest: its outcome, the standings, the winner, and the run of each program."""
    about = _read(folder / "contest.json")
    result, run = about.get("result"), about["manifest"]
    begun = partial(described, run, key, document=folder / "contest.json")
    if result is None:
        return begun(name=title(run), status="RUNNING")
    rows, winner = result["standings"], result["winner"]
    first: Json = next((row for row in rows if row["name"] == winner), {})
    tree = {"accuracy": first.get("right"), "rows": first.get("n")}
    tree |= {"difference": first.get("difference"), **bill(result["paid"])}
    score = f"{first['right']:.0%}" if first else None
    return begun(
        name=title(run, score, f"{result['outcome']}: {winner}"),
        status="FINISHED" if result["stopped"] is None else "KILLED",
        metrics=rounded(figures(tree)),
        tags={
            "folkmoot.outcome": result["outcome"],
            "folkmoot.winner": winner,
            STOPPED_TAG: result["stopped"] or "no",
        },
        note=f"**{result['outcome'].capitalize()}**: {result['reason']}. "
        f"{result['confirmation']}".strip(),
        files={
            "contest.json": scrubbed(about),
            "standings.json": TableEntry(
                list(rows[0]) if rows else [], [list(row.values()) for row in rows]
            ),
            **existing(folder, ["report.html"]),
        },
        model=model_in(folder / "winner", "winner"),
        parts=[
            *_runs_in(folder, f"runs/*/{SUMMARY}"),
            *_runs_in(folder, f"confirm/*/{SUMMARY}"),
        ],
    )


# Controls ----------------------------------------------------------------------------------------


def controls_entry(folder: Path, key: str) -> RunEntry:
    """Controls: the parts of a team's gain with their intervals, the picture, and a run per arm."""
    about = _read(folder / "controls.json")
    result, run = about.get("result"), about["manifest"]
    begun = partial(described, run, key, document=folder / "controls.json")
    if result is None or not result["questions"]:
        return begun(name=title(run), status="RUNNING" if result is None else "KILLED")
    parts = {name: one for name, one in result["parts"].items() if one["value"] is not None}
    tree = {**parts, **{name: result[name] for name in ("talk", "total", "calls", "cost_usd")}}
    return begun(
        name=title(run, f"{100 * result['total']['value']:+.1f}"),
        status="FINISHED" if result["stopped"] is None else "KILLED",
        metrics=rounded(figures({**tree, "rows": result["questions"]})),
        tags={STOPPED_TAG: result["stopped"] or "no"},
        note=result["sentence"],
        files={"controls.json": scrubbed(about), **existing(folder, ["waterfall.png"], "plots/")},
        parts=_runs_in(folder, f"arms/**/{SUMMARY}"),
    )


# A reproduced table ------------------------------------------------------------------------------


def table_entries(folder: Path, key: str) -> list[RunEntry]:
    """A reproduced table: published beside measured; a run for each data set, as MLflow shows runs
    only below one of the same experiment.
    """
    document, found = _read(folder / "table_run.json"), _read(folder / "table.json")
    lines = [line for line in found.get("rows", ()) if line["row"] in document["rows"]]
    pictures = [path.name for path in sorted(folder.glob("*.png"))]
    entries = []
    for number, (source, run) in enumerate(document["tables"].items()):
        begun = partial(described, run, f"{key}/{number}", document=folder / "table_run.json")
        if not found:
            entries.append(begun(name=title(run), status="RUNNING"))
            continue
        entries.append(
            begun(
                name=title(run),
                status="KILLED" if found["stopped"] else "FINISHED",
                metrics=rounded(figures(line_figures(lines))),
                note=found.get("page"),
                files={
                    "table.json": found,
                    "side_by_side.json": TableEntry(
                        LINE_COLUMNS, [[line.get(name) for name in LINE_COLUMNS] for line in lines]
                    ),
                    **existing(folder, pictures, "plots/"),
                },
                parts=_rows_of(folder, source),
            )
        )
    return entries


def _rows_of(folder: Path, source: str) -> list[Path]:
    """The folders of a table's rows that ran on a data set."""
    rows = _runs_in(folder, f"*/{SUMMARY}")
    return [row for row in rows if _read(row / MANIFEST).get("settings", {}).get("data") == source]


def line_figures(lines: list[Json]) -> Json:
    """Measured figures with their ends, published ones, differences and what was lost, by line."""
    tree: Json = {}
    for line in lines:
        place = f"{line['row']}/{line['figure']}"
        lost = {name: line[name] for name in ("errors", "unreadable", "truncated")}
        tree |= {f"{name}/{place}": value for name, value in lost.items()}
        if line["measured"] is not None:
            own = {"measured": line["measured"], "measured_low": line["low"]}
            own |= {"measured_high": line["high"]}
            own |= {name: line[name] for name in ("published", "difference")}
            tree |= {f"{name}/{place}": value for name, value in own.items()}
    return tree
