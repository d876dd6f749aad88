"""The kinds of runs, each with the entry of its folder in the tracking store. The manifest file of
a folder tells its kind; one folder may hold runs of two kinds, such as a training and the
evaluation of the trained network. To track another kind, add a function and its line in KINDS.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import cast

from ...modules.base.errors import UserError
from ...modules.base.space import Setting
from ..base.journal import read_object, records
from ..base.run_files import StudyReport, TrialEntry
from ..base.wording import signed
from ..plots.tuning import front_plot, history_plot
from ..runs.folder import MANIFEST
from ..runs.summary import SUMMARY, score_words
from .entry import (
    STOPPED_TAG,
    Drawn,
    Json,
    RunEntry,
    TableEntry,
    described,
    existing,
    figures,
    model_in,
)
from .evaluation import evaluation_entry
from .values import as_param, bill, score_head, scrubbed, title

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
"""The figures of a batch of a training, with their names in the store."""
NETWORK = (
    *("network.json", "tensors.safetensors", "program.json", "training.json"),
    *("training_log.json", "scores.json"),
)


def _read(path: Path) -> Json:
    """The content of a file, without the run's id, which a push writes into it."""
    document = read_object(path) or {}
    document.pop("mlflow_run_id", None)
    return document


def _runs_in(folder: Path, *patterns: str) -> list[Path]:
    """The folders of runs below a folder, in order of their names."""
    return sorted({path.parent for pattern in patterns for path in folder.glob(pattern)})


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
    rows = records(folder / "candidates.jsonl", ("key",))
    files = ("prompts.md", "prompts.json", "candidates.jsonl", "program")
    return begun(
        name=title(run, _compiled_score(result)),
        status="KILLED" if result["stopped"] and not result["selection"]["winner"] else "FINISHED",
        metrics=figures(_compiled_figures(result)),
        tags={"folkmoot.winner": result["winner"], STOPPED_TAG: result["stopped"] or "no"},
        note=_compiled_note(result),
        files={
            "compile.json": scrubbed(about),
            **existing(folder, files),
        },
        model=model_in(folder / "program"),
        children=[_candidate(row, run, key) for row in rows],
        parts=_runs_in(folder, f"before/{SUMMARY}", f"after/*/{SUMMARY}"),
    )


def _compiled_score(result: Json) -> str | None:
    """The score on questions that the optimizer did not see, else the score that the choice is
    based on.
    """
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
            if phase == "after":  # under the same name as in evaluations, to be sorted with them
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
    scores = []
    for phase in ("before", "after"):
        if result[phase] is not None:
            metric, score = next(iter(result[phase]["scores"].items()))
            scores.append("{} {} ({})".format(phase.capitalize(), *score_words(metric, score)))
    held_out = "; ".join(scores)
    return (
        f"**{result['verdict']}**\n\n{held_out}{' on held-out questions. ' if scores else ''}"
        f"{result['candidates']:,} candidates; {result['calls_made']:,} calls were made, "
        f"{result['calls_saved']:,} saved. The prompts: `prompts.md` under Artifacts."
    )


def _candidate(row: Json, run: Json, key: str) -> RunEntry:
    name = str(row["candidate"])
    own = {**run, "settings": {}}
    return RunEntry(
        key=f"{key}/{row['key']}",
        name=title(own, f"{row['score']:.0%}", f"candidate {name}"),
        status="FINISHED" if row["complete"] else "KILLED",
        metrics={name: row[name] for name in ("score", "low", "high", "questions")},
        tags={"folkmoot.candidate": name, "folkmoot.kind": "candidate"},
        note="One of the prompts that were tried: `prompts.json` under Artifacts.",
        files={"prompts.json": row["prompts"]},
    )


# A study -----------------------------------------------------------------------------------------


def study_entry(folder: Path, key: str) -> RunEntry:
    """A study: held-out scores, trials as a table and as runs, plots, the winner."""
    run, report = _read(folder / "study_run.json"), cast(StudyReport, _read(folder / "study.json"))
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
        metrics=figures(_study_figures(report)),
        tags={"folkmoot.study": report["study"], STOPPED_TAG: stopped or "no", **winner},
        note=_study_note(report),
        files={
            "study.json": report,
            "trials.json": _trials_table(report),
            "history.png": Drawn(source, partial(history_plot, report)),
            "front.png": Drawn(source, partial(front_plot, report)),
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


def _study_score(report: StudyReport) -> str | None:
    """The winner's score on validation questions, else that in training."""
    goal = report["objectives"][0]
    if report["validation"]:
        return score_head(goal, report["validation"]["winner"])
    return score_head(goal, report["best"]["scores"][goal]) if report["best"] else None


def _study_figures(report: StudyReport) -> Json:
    goals, held = report["objectives"], cast(Json, report["validation"] or {})
    names = {"winner": goals[0], "default": f"{goals[0]}_default", "difference": "difference"}
    scores = report["best"]["scores"] if report["best"] else {}
    return {
        **{name: held.get(field) for field, name in {**names, "p": "p"}.items()},
        "train": {goal: scores[goal] for goal in goals if goal in scores},
        "trials": {
            name: report["trials"][name] for name in ("complete", "pruned", "told", "failed")
        },
        **{f"calls_{name}": report["calls"][name] for name in ("made", "saved")},
        **bill(report["paid"]),
    }


def _trials_table(report: StudyReport) -> TableEntry:
    front = {entry["trial"]: number for number, entry in enumerate(report["front"], 1)}
    columns, rows = [*TRIAL_COLUMNS, "setting", *report["objectives"]], []
    for entry in report["table"]:
        cells = {
            **entry,
            "front": front.get(entry["trial"]),
            "replayed_from": entry.get("told_by"),
            "setting": json.dumps(entry["setting"]),
            **{goal: score["value"] for goal, score in entry.get("scores", {}).items()},
        }
        rows.append([cells.get(name) for name in columns])
    return TableEntry(columns, rows)


def _study_note(report: StudyReport) -> str:
    """The study in Markdown: the verdict and the winner."""
    parts = [f"**{report['verdict']}**"]
    if best := report["best"]:
        scores = [f"{name} {score['value']:,.4g}" for name, score in best["scores"].items()]
        parts.append(f"Winner: {setting_words(best['setting'])} ({', '.join(scores)} in training).")
    return "\n\n".join([*parts, "Every trial: `trials.json` under Artifacts."])


def _trial(entry: TrialEntry, report: StudyReport, run: Json, key: str) -> RunEntry:
    goal, scores = report["objectives"][0], entry.get("scores", {})
    setting = {name: value for name, value in (entry["setting"] or {}).items() if value is not None}
    state = "" if entry["state"] == "complete" else f" ({entry['state']})"
    program = f"trial {entry['place']}{state} · {setting_words(setting)}"
    tree: Json = {name: entry.get(name) for name in ("questions", "errors")}
    for name, score in scores.items():
        tree[f"{name}_per_question" if name in PER_QUESTION else name] = score
    if "calls" in scores:
        tree["calls"] = scores["calls"]["value"] * entry["questions"]
    return RunEntry(
        key=f"{key}/{entry['trial']}",
        name=title({"program": {}}, score_head(goal, scores[goal]) if scores else None, program),
        status=ENDED[entry["state"]],
        params={name: as_param(value) for name, value in scrubbed(setting).items()},
        metrics=figures(tree),
        tags={
            "folkmoot.trial": str(entry["trial"]),
            "folkmoot.kind": "trial",
            "folkmoot.trial_state": entry["state"],
            **({"folkmoot.network": entry["training"]} if entry.get("training") else {}),
        },
    )


def setting_words(setting: Setting | None) -> str:
    """A setting in one line: texts stand alone, other values follow their name."""
    return " · ".join(
        as_param(value) if isinstance(value, str | list) else f"{name.rpartition('.')[2]} {value}"
        for name, value in scrubbed(setting or {}).items()
        if value is not None
    )


# A training --------------------------------------------------------------------------------------


def training_entry(folder: Path, key: str) -> RunEntry:
    """A training: figures during training, test scores, plots, the network."""
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
    own = {name: step.get(key) for key, name in LEARNED.items()}
    return figures({**own, **_under("strategy", step.get("strategies", {}))})


def _under(name: str, tree: Mapping[str, object]) -> Json:
    """The fields of a tree by `name/FIELD`."""
    return {f"{name}/{field}": value for field, value in tree.items()}


def _training_figures(scores: Json) -> dict[str, float]:
    """The test scores: `test_consensus` with its ends and calls, differences and ties."""
    tree: Json = {"test_ece": scores.get("ece"), **_under("ties", scores.get("ties", {}))}
    for name, score in scores.items():
        if isinstance(score, Mapping) and "value" in score:
            tree |= {f"test_{name}": score, f"test_{name}_calls": score["calls"]}
    for team, rivals in scores.get("differences", {}).items():
        for rival, difference in rivals.items():
            tree[f"difference/{team}_over_{rival}"] = difference["value"]
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
    names = {"right": "accuracy", "n": "rows", "difference": "difference"}
    tree = {name: first.get(field) for field, name in names.items()} | bill(result["paid"])
    score = f"{first['right']:.0%}" if first else None
    return begun(
        name=title(run, score, f"{result['outcome']}: {winner}"),
        status="FINISHED" if result["stopped"] is None else "KILLED",
        metrics=figures(tree),
        tags={
            "folkmoot.outcome": result["outcome"],
            "folkmoot.winner": winner,
            STOPPED_TAG: result["stopped"] or "no",
        },
        note=f"{_taken(result)}**{result['outcome'].capitalize()}**: {result['reason']}.",
        files={
            "contest.json": scrubbed(about),
            "standings.json": TableEntry(
                list(rows[0]) if rows else [], [list(row.values()) for row in rows]
            ),
            **existing(folder, ["report.html"]),
        },
        model=model_in(folder / "winner", "winner"),
        parts=_runs_in(folder, f"runs/*/{SUMMARY}", f"confirm/*/{SUMMARY}"),
    )


def _taken(result: Json) -> str:
    """Which program to take and why; empty for a contest that is not finished."""
    why = result["confirmation"] or result.get("advice")
    return f"Take {result['winner']}: {why}. " if why and result["finished"] else ""


# Controls -----------------------------------------------------------------------------------------


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
        name=title(run, signed(result["total"]["value"])),
        status="FINISHED" if result["stopped"] is None else "KILLED",
        metrics=figures({**tree, "rows": result["questions"]}),
        tags={STOPPED_TAG: result["stopped"] or "no"},
        note=result["sentence"],
        files={"controls.json": scrubbed(about), **existing(folder, ["waterfall.png"], "plots/")},
        parts=_runs_in(folder, f"arms/**/{SUMMARY}"),
    )


# All kinds ----------------------------------------------------------------------------------------

KINDS: Mapping[str, Callable[[Path, str], RunEntry]] = {
    "compile.json": compilation_entry,
    "contest.json": contest_entry,
    "controls.json": controls_entry,
    "study_run.json": study_entry,
    "training.json": training_entry,
    MANIFEST: evaluation_entry,
}
"""The kinds by their manifest file."""


def entries_in(folder: Path, key: str, kind: str | None = None) -> list[RunEntry]:
    """The entries of the runs in a folder, or of one kind; their keys begin with `key`. Raises
    UserError for a folder without runs, and for damaged files.
    """
    entries: list[RunEntry] = []
    for file, describe in KINDS.items():
        if kind in (None, file) and (folder / file).is_file():
            try:
                entries.append(describe(folder, f"{key}/{file}"))
            except (KeyError, TypeError, ValueError, AttributeError) as problem:
                raise UserError(
                    f"{folder / file} is damaged ({type(problem).__name__}: {problem}): run its "
                    f"command again"
                ) from None
    if not entries:
        raise UserError(f"{folder} holds no run: name the folder of a finished run")
    return entries
