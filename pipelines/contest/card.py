"""What the folder of a contest shows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from ...modules.base.keyed import only
from ...modules.reading.grading import metric_name
from ...modules.reading.row import CHECK
from ..base.cards import (
    Card,
    Content,
    Drawn,
    Gap,
    Kind,
    Score,
    TableEntry,
    ask_command,
    program_options,
)
from ..base.journal import read_object
from ..base.run_files import SummaryFields
from ..evaluation.card import costs_of
from ..lms.ledger import totals
from ..plots.contest import course_plot
from ..reporting.contested import ContestResult, contest_in
from ..reporting.report import report
from ..runs.manifest import CONTEST, MANIFEST
from ..runs.rows import RESULTS, read_rows
from ..runs.summary import SUMMARY

WINNER = "winner"


def _describe(folder: Path, document: Mapping[str, Any]) -> Card:
    settings = document["manifest"]["settings"]
    card = Card(settings["label"], program=settings["label"], data=settings.get("data"))
    card.run = partial(dict, document["manifest"])
    contest = contest_in(folder, ContestResult)
    if contest is None:
        card.begun = True
        card.ended("not finished")
        card.paid(totals(folder).to_dict())
        card.children = sorted((folder / "runs").glob("*"))
        return card
    rate = contest.is_rate
    card.ended(contest.result["stopped"])
    card.paid(contest.paid, contest.result.get("lost"))
    card.children = list(contest.folders.values())
    card.sentences = contest.sentences
    card.course = partial(_course, contest)
    card.artifacts = partial(_artifacts, folder, dict(document))
    name = metric_name(document)
    if (taken := contest.folders.get(contest.winner_name)) is not None:
        run = read_object(taken / MANIFEST) or {}
        # The manifest of a contest is the reference's; what came out is the winner.
        own = only(run, ("program", "lms", "program_hash"))
        card.run = partial(dict, {**document["manifest"], **own})
        if summary := read_object(taken / SUMMARY):
            card.costs = costs_of(SummaryFields.of(summary))
    if contest.result["finished"]:
        card.outcome, card.name = contest.outcome, f"{contest.outcome}: {contest.winner_name}"
        card.tags = {"folkmoot.winner": contest.winner_name}
        card.program, card.lm = contest.winner_name, contest.result.get("lm")
        if contest.winning is not None and contest.winning.low is not None:
            won = {**vars(contest.winning), "value": contest.winning.right, "rate": rate}
            card.scores = [Score.of(name, won)]
            if (gap := contest.winning.shown.difference) is not None:
                card.scores.append(Gap("difference", *gap, contest.winning.n, rate))
        card.next = winner_commands(contest).get("ask")
    return card


def winner_commands(contest: ContestResult) -> dict[str, str]:
    """Return what can be done with the winner, as commands to be pasted; nothing with code that
    only Python can call.
    """
    manifest = contest.folder / CONTEST
    # The contest's own manifest is the reference's: the winner's is in its run.
    if (taken := contest.folders.get(contest.winner_name)) is not None:
        manifest = taken / MANIFEST
    run = read_object(manifest) or {}
    lms = run.get("manifest", run)["lms"]
    folder = contest.folder / WINNER
    options = program_options(folder, lms)
    if contest.result.get("saved"):
        place = shlex.quote(str(folder))
        return {
            "ask": ask_command(folder, folder, lms),
            "improve": f"folkmoot compile {place} --train FILE --validation FILE{options}",
        }
    # A command acts on the folder that it is started in: outside of tasks that is the user's own.
    acts = metric_name(run) == CHECK
    if acts or (spec := contest.result.get("spec")) is None:
        return {}
    words = ["folkmoot", "ask", spec, "YOUR QUESTION", "--lm", contest.result["lm"]]
    for seat, lm in lms.items():
        if seat != "*":
            words += ["--lm", f"{seat}={lm['name']}"]
    return {"ask": shlex.join(words) + options}


def _artifacts(folder: Path, document: dict[str, Any]) -> dict[str, Content]:
    standings = document["result"]["standings"]
    columns, files = list(next(iter(standings), ())), dict[str, Content]()
    if any(row["n"] for row in standings):  # else there is nothing to show yet
        files["race.png"] = Drawn([folder / CONTEST], partial(_draw_race, folder))
        files["report.html"] = Drawn([folder / CONTEST], partial(_write_page, folder))
    files["standings.json"] = TableEntry(columns, [list(row.values()) for row in standings])
    return {**files, CONTEST: document}


def _draw_race(folder: Path, path: Path) -> None:
    if (contest := contest_in(folder, ContestResult)) is not None:
        course_plot(contest.course, path, reference=contest.asked[0].name, rate=contest.is_rate)


def _write_page(folder: Path, path: Path) -> None:
    report(folder, out=path, tracking=False)


def _course(contest: ContestResult) -> list[tuple[int, dict[str, float]]]:
    """Return how often each program was right after so many questions, each time the race was
    judged.
    """
    course: dict[int, dict[str, float]] = {}
    # A step has one program: several have the same number of questions.
    for asked in sorted({step["questions"] for step in contest.course}):
        course[asked] = {}
    for name, folder in contest.folders.items():
        scores = [row.score or 0.0 for row in read_rows(folder / RESULTS) if not row.error]
        for asked, shares in course.items():
            if scores:
                shares[f"race/{name}"] = fmean(scores[:asked])
    return list(course.items())


KIND = Kind(CONTEST, "try", "a contest", _describe, program=WINNER)
