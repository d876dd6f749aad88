"""What the folder of a study shows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from ...modules.base.keyed import without_none
from ...modules.statistics.effects import Effect
from ..base.cards import (
    Card,
    Content,
    Drawn,
    Gap,
    Kind,
    Score,
    State,
    TableEntry,
    ask_command,
    kept_files,
)
from ..base.journal import read_object
from ..base.run_files import Manifest, SummaryFields
from ..comparison.verdict import AGAINST
from ..comparison.words import say
from ..evaluation.card import costs_of, names_of_lms
from ..lms.ledger import totals
from ..plots.trials import PLOTS, draw_trials
from ..plots.tuning import front_plot, history_plot
from ..runs.study_file import StudyReport, WinnerJudged
from ..runs.summary import SUMMARY
from .report import MOST_FRONT, effect_lines, effect_words, effects_in, setting_words

STUDY, BEGUN, WINNER = "study.json", "study_run.json", "winner"
FOUND = "found"
"""The folder of the best setting's program where the default, which is better, is handed over."""
ENDED = {"complete": State.FINISHED, "pruned": State.FINISHED, "failed": State.FAILED}
COLUMNS = (
    *("trial", "place", "front", "state", "replayed_from"),
    *("questions", "errors", "failed", "setting"),
)
COSTS = {
    "calls": ("calls_per_question", 1),
    "tokens": ("tokens_per_question", 1),
    "cost": ("cost_per_1000", 1000),
}
"""What the store calls an objective that is a cost, and for how many questions it is given."""


def _describe(folder: Path, run: Mapping[str, Any]) -> Card:
    document = read_object(folder / STUDY) or {}
    settings = document.get("settings") or {}
    space = settings.get("space")
    data = settings.get("validation") or settings.get("data")  # what the scores are about
    # A space that was given in Python has no name.
    title = f"study of {space or 'programs'}"
    card = Card(title, program=space, lm=names_of_lms(Manifest.of(run)), data=data)
    card.run, card.begun = partial(_judged_on, run), "best" not in document
    card.ended(document.get("stopped") if document else "not finished")
    card.paid(document.get("paid") or totals(folder).to_dict(), document.get("lost"))
    held_out = document.get("validation") or {}
    outcome = held_out.get("outcome") or ""
    handed_over = WinnerJudged.of(held_out).handed_over
    card.outcome = AGAINST.get(outcome, outcome)
    if held_out.get(handed_over):
        card.scores = [Score.of(document["objectives"][0], held_out[handed_over])]
    if held_out.get("difference"):
        card.scores.append(Gap.of("difference", held_out["difference"]))
    card.children = [run for run in sorted(folder.glob("validation/*")) if run.is_dir()]
    if summary := read_object(folder / "validation" / handed_over / SUMMARY):
        card.costs = costs_of(SummaryFields.of(summary))
    if not card.begun:
        report = StudyReport.of(document)
        if report.best is None and card.problem is None:
            card.state, card.problem = State.FAILED, report.verdict
        card.sentences = list(_sentences(report))
        card.tags = {"folkmoot.study": report.study}
        if report.best is not None:
            card.tags["folkmoot.winner"] = json.dumps(report.best.setting)
        card.artifacts = partial(_artifacts, folder, report)
        card.below = list(_trials(report, run["settings"].get("home")))
    if (folder / WINNER).is_dir():
        card.next = ask_command(folder, folder / WINNER, run["lms"])
    return card


def _judged_on(run: Mapping[str, Any]) -> dict[str, object]:
    """Return the study as a run's manifest describes one: its data are those that the winner is
    judged on.
    """
    settings = run["settings"]
    if not settings.get("validation_questions"):
        return dict(run)
    judged = dict(settings)
    if settings.get("validation"):  # else they were given in Python, perhaps with a name
        judged |= {"data": settings["validation"], "split": settings.get("validation_split")}
    return {
        **run,
        "data_fingerprint": settings["validation_fingerprint"],
        "questions": settings["validation_questions"],
        "settings": judged,
    }


def _sentences(report: StudyReport) -> Iterator[str]:
    yield report.verdict
    if best := report.best:
        yield say("study_winner", best, setting_words(best.setting))
    if judged := report.validation:
        yield say("study_judged", judged)
    if len(report.objectives) > 1:
        for number, entry in enumerate(report.front[:MOST_FRONT], 1):
            words = setting_words(entry.setting)
            yield say("study_front", number, entry, report.objectives, words)
        if len(report.front) > MOST_FRONT:
            yield f"{len(report.front) - MOST_FRONT:,} more under `front` in study.json"
    yield say("study_trials", report.trials, report.calls)
    yield from effect_lines(report)


def _artifacts(folder: Path, report: StudyReport) -> dict[str, Content]:
    source = [folder / STUDY]
    plots = dict[str, Content]()
    for name in PLOTS:
        for kind in ("png", "html"):
            plots[f"{name}.{kind}"] = Drawn(source, partial(draw_trials, report, name))
    return {
        "trials.json": _table(report),
        STUDY: report,
        "history.png": Drawn(source, partial(history_plot, report)),
        "effects.json": _effects(report),
        "front.png": Drawn(source, partial(front_plot, report)),
        **plots,
        **kept_files(folder, [WINNER]),
    }


def _table(report: StudyReport) -> TableEntry:
    front = {entry.trial: number for number, entry in enumerate(report.front, 1)}
    rows = []
    for entry in report.table:
        about = (entry.trial, entry.place, front.get(entry.trial), entry.state, entry.told_by)
        tried = (entry.questions, entry.errors, entry.failed, json.dumps(entry.setting))
        values = {name: entry.value(name) for name in entry.scores}
        rows.append([*about, *tried, *map(values.get, report.objectives)])
    return TableEntry([*COLUMNS, *report.objectives], rows)


def _effects(report: StudyReport) -> TableEntry:
    names = list(Effect.__dataclass_fields__)
    values = attrgetter(*names)
    rows = [[*values(effect), effect_words(effect, report)] for effect in effects_in(report)]
    return TableEntry([*names, "in words"], rows)


def _trials(report: StudyReport, home: str | None) -> Iterator[Card]:
    """Yield the trials that ended here, a card each, numbered as Optuna numbers them."""
    goals = report.objectives
    for entry in report.table:
        if entry.state not in ENDED or entry.home != home:
            continue
        setting = without_none(entry.setting or {})
        state = "" if entry.state == "complete" else f" ({entry.state})"
        name = f"trial {entry.trial}{state} · {setting_words(setting)}"
        card = Card(name, name=name, kind="trial", state=ENDED[entry.state])
        for goal, score in entry.scores.items():
            if goal in COSTS:
                shown, questions = COSTS[goal]
                card.costs[shown] = questions * score.value
            elif goal in goals[:2]:
                card.scores.append(Score.of(goal, {**score, "n": entry.questions}))
        card.run = partial(dict, {"program": {}, "parameters": setting})
        card.folder = Path(str(entry.trial))
        card.tags = {
            "folkmoot.trial": str(entry.trial),
            "folkmoot.trial_state": entry.state,
        }
        if entry.failed:
            card.sentences = [str(entry.failed)]
        card.times = entry.began, entry.ended
        if entry.training:
            card.tags["folkmoot.network"] = entry.training
        yield card


KIND = Kind(BEGUN, "tune", "a study", _describe, program=WINNER)
