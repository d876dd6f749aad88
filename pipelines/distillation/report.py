"""What a distillation decides and says: the candidate chosen, the rule learned, the last test, in
words.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypedDict

import numpy as np

from ...modules.agents.transcript import Task
from ...modules.base.calls import UsageFields
from ...modules.base.saved_file import Described
from ...modules.base.usage import price_unit
from ...modules.protocols.router import ALWAYS, NEVER, Rule, asks_team, signs_of
from ...modules.protocols.single import SELF_CONSISTENCY
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ...optimizers.policy.routing import Answered, Learnt, learn_rule
from ...optimizers.statistics.noninferiority import (
    CONFIDENCE,
    INFERIOR,
    NON_INFERIOR,
    NonInferiority,
    non_inferiority,
)
from ..base.run_files import LMFields, ScoreFields
from ..base.sentences import sentence
from ..evaluation.earlier import Evaluation
from ..runs.manifest import versions
from ..runs.summary import rate
from ..tracking.values import run_name
from .candidates import Candidate, Parts
from .price import Price, amount_in, in_unit, price_of

Rows = Mapping[str, ResultRow]
_UNITS = {"cost_usd": "money", "tokens": "tokens", "calls": "calls"}


class ProgramFigures(Price):
    """One program: how often it was right, what a question took, and its test against the team."""

    name: str
    accuracy: ScoreFields
    against_team: NonInferiority | None


class CandidateFigures(ProgramFigures):
    """A candidate on the questions that the choice is made on; `cheaper` than the team or not."""

    program: Described
    demos: int
    errors: int
    cheaper: bool


class ProgramsTested(TypedDict):
    """The programs of the last test; None where there is no such program."""

    team: ProgramFigures
    single: ProgramFigures | None
    router: ProgramFigures | None
    cheap: ProgramFigures | None


class RouterFigures(TypedDict):
    """The rule that was learned, what cross-validation says of it, and what the last test says by
    branch.
    """

    cheap: str
    rule: Rule
    selection: dict[str, float]
    share_routed: ScoreFields | None
    branches: dict[str, ScoreFields | None] | None


class DistilReport(TypedDict):
    """`distil.json`; what is None is not known yet, or was not reached.

    `data` says where the team's questions came from. `parts` has the ids of those shown as
    demonstrations, and how many there are for the choice and for the last test.
    """

    run: str
    name: str
    data: dict[str, str | None]
    team: Described
    program_hash: str
    data_fingerprint: str
    questions: int
    lm: LMFields
    margin: float
    confidence: float
    seed: int
    parts: dict[str, list[str] | int]
    notes: list[str]
    unit: str | None
    candidates: list[CandidateFigures]
    errors: int | None
    skipped: list[str]
    chosen: str | None
    router: RouterFigures | None
    programs: ProgramsTested | None
    keep: str | None
    sentences: list[str]
    stopped: str | None
    paid: UsageFields | None
    versions: dict[str, str]
    mlflow_run_id: str | None


@dataclass(frozen=True)
class Tried:
    """A candidate after it has answered: its rows by question, its price, and the test against the
    team.
    """

    candidate: Candidate
    rows: Rows
    price: Price
    test: NonInferiority


@dataclass
class Search:
    """The candidates that have answered the questions to choose by, beside what the team made of
    them.
    """

    team: Rows
    price: Price
    questions: Sequence[Question]
    margin: float
    tried: list[Tried] = field(default_factory=list)

    def add(self, candidate: Candidate, evaluation: Evaluation) -> None:
        rows = {row["id"]: row for row in evaluation.rows}
        test = non_inferiority(
            _right(rows, self.questions), _right(self.team, self.questions), self.margin
        )
        self.tried.append(Tried(candidate, rows, price_of(rows.values(), len(rows)), test))

    @property
    def unit(self) -> str:
        return price_unit([self.price, *(one.price for one in self.tried)], amount_in)

    def cost(self, one: Tried) -> float:
        return in_unit(one.price, self.unit)

    @property
    def cheaper(self) -> list[Tried]:
        """Those that cost less than the team."""
        return [one for one in self.tried if self.cost(one) < in_unit(self.price, self.unit)]

    @property
    def passed(self) -> list[Tried]:
        """Those that cost less than the team and are not inferior to it."""
        return [one for one in self.cheaper if one.test["verdict"] == NON_INFERIOR]

    def needless(self, candidate: Candidate) -> bool:
        """Whether a candidate that has passed is cheaper than this one can be, with its several
        samples, or with longer prompts than the same agent without demonstrations; or whether its
        samples will cost as much as the team.
        """
        passed, turns = self.passed, candidate.program.most_turns()
        if turns > 1:
            once = candidate.name.replace(f"{SELF_CONSISTENCY}-{turns}", "cot")
            samples = [turns * self.cost(one) for one in self.tried if one.candidate.name == once]
            return bool(passed) or any(cost >= in_unit(self.price, self.unit) for cost in samples)
        plain = [
            one for one in self.tried if candidate.demos and one.candidate.name == candidate.plain
        ]
        return any(self.cost(one) <= self.cost(same) for one in passed for same in plain)

    def chosen(self) -> Tried | None:
        """The cheapest non-inferior candidate; without one, the closest that is not shown to be
        inferior.

        Candidates that cost as much as the team do not count. The last test is of one program
        alone, whichever it is, so it holds for the closest one as well.
        """
        if self.passed:
            return min(self.passed, key=self.cost)
        open_yet = [one for one in self.cheaper if one.test["verdict"] != INFERIOR]
        return max(open_yet, key=lambda one: (one.test["low"], -self.cost(one)), default=None)

    def routed(self, seed: int) -> tuple[Tried, Learnt]:
        """The candidate that is to be the router's cheap part, and the cheapest rule over all
        candidates; `always` with the most accurate of them where none holds.
        """
        unit = self.unit
        rules = []
        for one in self.cheaper:
            answered = answered_by(one.rows, self.team, self.questions, unit)
            rules.append((one, learn_rule(answered, self.margin, seed=seed)))
        holding = [(one, learnt) for one, learnt in rules if learnt.rule != ALWAYS]
        if holding:
            return min(holding, key=lambda rule: rule[1].cost)
        right = _right(self.team, self.questions)
        learnt = Learnt(ALWAYS, sum(right) / len(right), in_unit(self.price, unit), 1.0)
        return max(self.tried, key=lambda one: sum(_right(one.rows, self.questions))), learnt


def opening(
    run: Evaluation,
    parts: Parts,
    margin: float,
    seed: int,
    lm: LMFields,
    notes: Sequence[str],
) -> DistilReport:
    """The report before anything is known."""
    described, settings = run.summary.run, run.summary.run["settings"]
    return DistilReport(
        run=str(run.folder),
        name=run_name(described),
        data={"data": settings.get("data"), "split": settings.get("split")},
        team=described["program"],
        program_hash=described["program_hash"],
        data_fingerprint=described["data_fingerprint"],
        questions=described["questions"],
        lm=lm,
        margin=margin,
        confidence=CONFIDENCE,
        seed=seed,
        parts={
            "shown": [question.id for question in parts.shown],
            "selection": len(parts.selection),
            "held_out": len(parts.held_out),
        },
        notes=list(notes),
        unit=None,
        candidates=[],
        errors=None,
        skipped=[],
        chosen=None,
        router=None,
        programs=None,
        keep=None,
        sentences=[],
        stopped=None,
        paid=None,
        versions=dict(versions()),
        mlflow_run_id=None,
    )


def selection_report(
    report: DistilReport,
    search: Search,
    chosen: Tried | None,
    routed: tuple[Tried, Learnt] | None,
) -> None:
    """Enter what the first part of the questions says."""
    report["unit"] = _UNITS[search.unit]
    for one in search.tried:
        candidate, correct = one.candidate, _right(one.rows, search.questions)
        report["candidates"].append(
            {
                **_figures(candidate.name, correct, one.price, one.test),
                "program": candidate.program.describe(),
                "demos": candidate.demos,
                "errors": _errors(one.rows),
                "cheaper": one in search.cheaper,
            }
        )
    report["errors"] = sum(_errors(one.rows) for one in search.tried)
    report["chosen"] = chosen.candidate.name if chosen else None
    if routed is not None:
        cheap, learnt = routed
        report["router"] = {
            "cheap": cheap.candidate.name,
            "rule": learnt.rule,
            "selection": {
                "accuracy": learnt.accuracy,
                "cost": learnt.cost,
                "share_routed": learnt.share,
            },
            "share_routed": None,
            "branches": None,
        }


def last_test(
    report: DistilReport,
    router: RouterFigures,
    search: Search,
    answered: Mapping[str, Evaluation],
    questions: Sequence[Question],
) -> None:
    """Enter what the held-out questions say of each program, and which of them to keep.

    Where the single agent and the router are two programs, both tests have half the error, so that
    the chance of calling either non-inferior wrongly stays below 1 - CONFIDENCE (Bonferroni).
    """
    n, team, rule, chosen = len(questions), search.team, router["rule"], report["chosen"]
    rows = {name: {row["id"]: row for row in one.rows} for name, one in answered.items()}
    price = {name: price_of(own.values(), len(own)) for name, own in rows.items()}
    right = _right(team, questions)
    recorded = [team[question.id] for question in questions]
    one_program = rule == ALWAYS or (rule == NEVER and router["cheap"] == chosen)
    tests = 1 if chosen is None or one_program else 2

    def figures(name: str, correct: Sequence[bool], took: Price) -> ProgramFigures:
        confidence = 1 - (1 - CONFIDENCE) / tests
        test = non_inferiority(correct, right, report["margin"], confidence)
        return _figures(name, correct, took, test)

    programs: ProgramsTested = {
        "team": _figures(report["name"], right, price_of(recorded, n)),
        "single": None,
        "router": None,
        "cheap": None,
    }
    if chosen is not None:
        programs["single"] = figures(chosen, _right(rows[chosen], questions), price[chosen])
    if rule == ALWAYS:
        asks, correct = np.ones(n, dtype=bool), np.array(right)
        programs["router"] = {**programs["team"], "name": "always the team"}
    else:
        name = router["cheap"]
        both = answered_by(rows[name], team, questions, "calls")
        asks = np.array([asks_team(rule, signs) for signs in both.signs])
        correct = both.right(asks)
        called = name if rule == NEVER else f"{name}, then the team"
        paid = [*rows[name].values(), *itertools.compress(recorded, asks)]
        programs["router"] = figures(called, correct.tolist(), price_of(paid, n))
        programs["cheap"] = figures(name, both.cheap.tolist(), price[name])
    router["branches"] = {
        branch: rate(int(those.sum()), len(those)) if len(those) else None
        for branch, those in (("cheap", correct[~asks]), ("team", correct[asks]))
    }
    router["share_routed"] = rate(int(asks.sum()), n)
    report["errors"] = (report["errors"] or 0) + sum(map(_errors, rows.values()))
    report["programs"] = programs
    report["keep"] = _kept(programs)


def sentences_of(report: DistilReport) -> list[str]:
    """The outcome, a sentence each, the advice first."""
    programs = report["programs"]
    if programs is None:
        return [f"Stopped before the last test: {report['stopped']}."]
    kept = {"single": programs["single"], "router": programs["router"]}.get(str(report["keep"]))
    ratio = None if kept is None else _ratio(kept, programs["team"])
    say = partial(sentence, __package__, "distil.j2")
    others = [say(name, report) for name in ("single", "router", "failed")]
    return [say("advice", report, ratio), *filter(None, others)]


def _kept(programs: ProgramsTested) -> str:
    """The cheapest program that the last test shows to be non-inferior, and cheaper than
    the team.
    """
    good = {"team": 1.0}
    for name, one in (("single", programs["single"]), ("router", programs["router"])):
        test = one["against_team"] if one is not None else None
        if one is not None and test is not None and test["verdict"] == NON_INFERIOR:
            good[name] = _ratio(one, programs["team"]) or 0.0
    return min(good, key=lambda name: good[name])


def _ratio(program: ProgramFigures, team: ProgramFigures) -> float | None:
    unit = price_unit((program, team), amount_in)
    return in_unit(program, unit) / in_unit(team, unit) if in_unit(team, unit) else None


def _figures(
    name: str, correct: Sequence[bool], took: Price, test: NonInferiority | None = None
) -> ProgramFigures:
    accuracy = rate(sum(map(bool, correct)), len(correct))
    return {"name": name, "accuracy": accuracy, **took, "against_team": test}


def answered_by(rows: Rows, team: Rows, questions: Sequence[Question], unit: str) -> Answered:
    """What both made of the questions; one that failed is wrong whether or not the team is
    asked.
    """
    signs, together = [], []
    own = [rows[question.id] for question in questions]
    recorded = [team[question.id] for question in questions]
    for question, row, other in zip(questions, own, recorded, strict=True):
        task = Task.of(**question.inputs())
        signs.append(signs_of(task, row["answer"], row["transcript"]))
        stands = other if other["answer"] is not None else row
        together.append(bool(stands["correct"]) and row["error"] is None)
    return Answered(
        signs,
        np.array(_right(rows, questions)),
        np.array(_right(team, questions)),
        np.array(together),
        np.array([in_unit(price_of([row], 1), unit) for row in own]),
        np.array([in_unit(price_of([row], 1), unit) for row in recorded]),
    )


def _right(rows: Rows, questions: Sequence[Question]) -> list[bool]:
    return [bool(rows[question.id]["correct"]) for question in questions]


def _errors(rows: Rows) -> int:
    return sum(row["error"] is not None for row in rows.values())
