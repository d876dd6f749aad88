"""What a distillation decides and says: the candidate chosen, the rule learned, the last test, in
words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NotRequired, TypedDict

import numpy as np

from ...modules.agents.transcript import Task
from ...modules.base.calls import UsageFields
from ...modules.protocols.router import ALWAYS, NEVER, Rule, asks_team, signs_of
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ...optimizers.policy.routing import Answered, Learnt, learn_rule
from ...optimizers.statistics.noninferiority import (
    CONFIDENCE,
    INFERIOR,
    NON_INFERIOR,
    NOT_SHOWN,
    NonInferiority,
    fewest_questions,
    non_inferiority,
)
from ..base.run_files import ScoreFields
from ..evaluation.earlier import Evaluation
from ..runs.manifest import versions
from ..runs.summary import rate
from ..tracking.values import run_name
from .candidates import Candidate, Parts
from .price import PerToken, Price, Unit, each_of, in_unit, price_of_run, total_of, unit_of

Rows = Mapping[str, ResultRow]
_UNITS = {"cost_usd": "money", "tokens": "tokens", "calls": "calls"}


class ProgramFigures(Price):
    """One program: how often it was right, what a question took, and its test against the team.

    `lm` is the name of its LM, where a candidate has one of its own.
    """

    name: str
    accuracy: ScoreFields
    against_team: dict[str, Any] | None
    lm: NotRequired[str]


class CandidateFigures(ProgramFigures):
    """A candidate on the questions that the choice is made on; `cheaper` than the team or not."""

    program: dict[str, Any]
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


class DistilParts(TypedDict):
    """Ids of the questions shown as demonstrations, and how many to choose by and for the last
    test.
    """

    shown: list[str]
    selection: int
    held_out: int


@dataclass
class DistilReport:
    """`distil.json`; what is None is not known yet, or was not reached."""

    run: str
    name: str
    data: dict[str, Any]
    team: dict[str, Any]
    program_hash: str
    data_fingerprint: str
    questions: int
    lm: dict[str, Any]
    margin: float
    confidence: float
    seed: int
    parts: DistilParts
    notes: list[str]
    unit: str | None = None
    candidates: list[CandidateFigures] = field(default_factory=list)
    errors: int | None = None
    skipped: list[str] = field(default_factory=list)
    chosen: str | None = None
    router: RouterFigures | None = None
    programs: ProgramsTested | None = None
    keep: str | None = None
    sentences: list[str] = field(default_factory=list)
    stopped: str | None = None
    paid: UsageFields | None = None
    versions: dict[str, str] = field(default_factory=lambda: dict(versions()))
    mlflow_run_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Tried:
    """A candidate after it has answered: its rows by question, its price, and the test against the
    team.
    """

    candidate: Candidate
    rows: Rows
    price: Price
    test: NonInferiority

    @property
    def passed(self) -> bool:
        return self.test.verdict == NON_INFERIOR

    @property
    def accuracy(self) -> float:
        return sum(bool(row["correct"]) for row in self.rows.values()) / len(self.rows)


@dataclass(frozen=True)
class Routed:
    """A rule for the router, and the candidate that is to be its cheap part."""

    tried: Tried
    learnt: Learnt

    @property
    def rule(self) -> Rule:
        return self.learnt.rule


@dataclass
class Search:
    """The candidates that have answered the questions to choose by, beside what the team made of
    them.
    """

    team: Rows
    price: Price
    questions: Sequence[Question]
    margin: float
    prices: PerToken
    tried: list[Tried] = field(default_factory=list)

    def add(self, candidate: Candidate, evaluation: Evaluation) -> None:
        rows = {row["id"]: row for row in evaluation.rows}
        test = non_inferiority(
            _right(rows, self.questions), _right(self.team, self.questions), self.margin
        )
        self.tried.append(Tried(candidate, rows, price_of_run(evaluation, self.prices), test))

    @property
    def unit(self) -> Unit:
        return unit_of([self.price, *(one.price for one in self.tried)])

    def cost(self, one: Tried) -> float:
        return in_unit(one.price, self.unit)

    @property
    def cheaper(self) -> list[Tried]:
        """Those that cost less than the team."""
        return [one for one in self.tried if self.cost(one) < in_unit(self.price, self.unit)]

    def passed(self, lm: Any = None) -> list[Tried]:
        """Those that pass at a price that can be compared with that of a candidate on this LM, None
        for the LM of all. Without prices an LM of the team's may cost more than its tokens say.
        """
        alike = {None, getattr(lm, "model", None)}
        return [
            one
            for one in self.cheaper
            if one.passed
            and (self.unit == "cost_usd" or getattr(one.candidate.lm, "model", None) in alike)
        ]

    def needless(self, candidate: Candidate) -> bool:
        """Whether one that has passed is cheaper than a candidate can be: with several samples, or
        longer prompts than the same agent without demonstrations. Or whether its samples will cost
        as much as the team.
        """
        passed = self.passed(candidate.lm)
        turns = candidate.program.most_turns()
        if turns > 1 and passed:
            return True
        samples = [
            turns * self.cost(one) for one in self.tried if one.candidate.name == candidate.once
        ]
        if any(cost >= in_unit(self.price, self.unit) for cost in samples):
            return True
        plain = [
            one for one in self.tried if candidate.demos and candidate.plain == one.candidate.name
        ]
        return any(self.cost(one) <= self.cost(same) for one in passed for same in plain)

    def chosen(self) -> Tried | None:
        """The cheapest non-inferior candidate, where prices are unknown first of those on the LM
        that was named; without one, that which is closest to it and not shown inferior.

        Candidates that cost as much as the team do not count. The last test is of one program
        alone, whichever it is, so it holds for the closest one as well.
        """
        passed = self.passed() or [one for one in self.cheaper if one.passed]
        if passed:
            return min(passed, key=self.cost)
        open_yet = [one for one in self.cheaper if one.test.verdict != INFERIOR]
        return max(open_yet, key=lambda one: (one.test.low, -self.cost(one)), default=None)

    def routed(self, seed: int) -> Routed:
        """The cheapest rule over all candidates; `always` with the most accurate of them where none
        holds.
        """
        holding = [
            found
            for one in self.cheaper
            if (found := Routed(one, learn_rule(self.answered(one), self.margin, seed=seed))).rule
            != ALWAYS
        ]
        if holding:
            return min(holding, key=lambda one: one.learnt.cost)
        right = _right(self.team, self.questions)
        learnt = Learnt(ALWAYS, sum(right) / len(right), in_unit(self.price, self.unit), 1.0)
        return Routed(max(self.tried, key=lambda one: one.accuracy), learnt)

    def answered(self, one: Tried) -> Answered:
        return answered_by(one.rows, one.price, self.team, self.questions, self.price, self.unit)


def opening(
    run: Evaluation,
    parts: Parts,
    margin: float,
    seed: int,
    lm: Mapping[str, Any],
    notes: Sequence[str],
) -> DistilReport:
    """The report before anything is known."""
    described = run.summary.run
    return DistilReport(
        run=str(run.folder),
        name=run_name(described),
        data={name: described["settings"].get(name) for name in ("data", "split")},
        team=described["program"],
        program_hash=described["program_hash"],
        data_fingerprint=described["data_fingerprint"],
        questions=described["questions"],
        lm=dict(lm),
        margin=margin,
        confidence=CONFIDENCE,
        seed=seed,
        parts={
            "shown": [question.id for question in parts.shown],
            "selection": len(parts.selection),
            "held_out": len(parts.held_out),
        },
        notes=list(notes),
    )


def selection_report(
    report: DistilReport, search: Search, chosen: Tried | None, routed: Routed | None
) -> None:
    """Enter what the first part of the questions says."""
    report.unit = _UNITS[search.unit]
    for one in search.tried:
        right = [bool(row["correct"]) for row in one.rows.values()]
        figures: CandidateFigures = {
            **_figures(one.candidate.name, right, one.price),
            "against_team": one.test.to_dict(),
            "program": one.candidate.program.describe(),
            "demos": one.candidate.demos,
            "errors": _errors(one.rows),
            "cheaper": one in search.cheaper,
        }
        if one.candidate.lm is not None:
            figures["lm"] = str(one.candidate.lm.model)
        report.candidates.append(figures)
    report.errors = sum(_errors(one.rows) for one in search.tried)
    report.chosen = chosen.candidate.name if chosen else None
    if routed is not None:
        learnt = routed.learnt
        report.router = {
            "cheap": routed.tried.candidate.name,
            "rule": routed.rule,
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
    chosen: Tried | None,
    routed: Routed,
    questions: Sequence[Question],
) -> None:
    """Enter what the held-out questions say of each program, and which of them to keep.

    Where the single agent and the router are two programs, both tests have half the error, so that
    the chance of calling either non-inferior wrongly stays below 1 - CONFIDENCE (Bonferroni).
    """
    n, team = len(questions), search.team
    rows = {name: {row["id"]: row for row in one.rows} for name, one in answered.items()}
    price = {name: price_of_run(one, search.prices) for name, one in answered.items()}
    right = _right(team, questions)
    spent = each_of((team[question.id] for question in questions), search.price)
    one_program = routed.rule == ALWAYS or (routed.rule == NEVER and routed.tried is chosen)
    tests = 1 if chosen is None or one_program else 2
    confidence = 1 - (1 - CONFIDENCE) / tests

    def figures(name: str, correct: Sequence[bool], took: Price) -> ProgramFigures:
        test = non_inferiority(correct, right, report.margin, confidence)
        return {**_figures(name, correct, took), "against_team": test.to_dict()}

    programs: ProgramsTested = {
        "team": _figures(report.name, right, total_of(spent, n)),
        "single": None,
        "router": None,
        "cheap": None,
    }
    if chosen is not None:
        name = chosen.candidate.name
        programs["single"] = figures(name, _right(rows[name], questions), price[name])
    if routed.rule == ALWAYS:
        asks, correct = np.ones(n, dtype=bool), np.array(right)
        programs["router"] = {**programs["team"], "name": "always the team"}
    else:
        name = routed.tried.candidate.name
        known = answered_by(rows[name], price[name], team, questions, search.price, "calls")
        asks = np.array([asks_team(routed.rule, signs) for signs in known.signs])
        both = [price[name]] * n + [one for one, asked in zip(spent, asks, strict=True) if asked]
        correct = known.right(asks)
        called = name if routed.rule == NEVER else f"{name}, then the team"
        programs["router"] = figures(called, correct.tolist(), total_of(both, n))
        programs["cheap"] = figures(name, known.cheap.tolist(), price[name])
    router["branches"] = {
        branch: rate(int(those.sum()), len(those)) if len(those) else None
        for branch, those in (("cheap", correct[~asks]), ("team", correct[asks]))
    }
    router["share_routed"] = rate(int(asks.sum()), n)
    report.errors = (report.errors or 0) + sum(map(_errors, rows.values()))
    report.programs = programs
    report.keep = _kept(programs)


def sentences_of(report: DistilReport) -> list[str]:
    """The outcome, a sentence each, the advice first."""
    programs, router, keep = report.programs, report.router, report.keep
    if programs is None or router is None:
        return [f"Stopped before the last test: {report.stopped}."]
    single = programs["single"]
    kept = {"single": single, "router": programs["router"]}.get(str(keep))
    said = []
    if kept is None:
        said.append("Keep the team: nothing cheaper is shown to be as good.")
    else:
        what = "the single agent" if keep == "single" else "the router"
        ratio = _ratio(kept, programs["team"])
        said.append(
            f"Use {what} ({kept['name']})"
            + (
                f": {ratio:.0%} of the team's {report.unit} a question."
                if ratio is not None
                else "."
            )
        )
    if single is None:
        said.append(
            f"No single agent: all {len(report.candidates)} candidates are inferior to the team, "
            f"or cost "
            "as much."
        )
    else:
        said.append(f"{single['name']} {_tested(single)}.")
    if router["rule"] == ALWAYS:
        said.append(
            "Routing does not pay: no rule that spares the team is shown to be as good (rule: "
            "always)."
        )
    elif router["rule"] == NEVER:
        said.append(
            f"The router never asks the team (rule: never): {router['cheap']} alone is as good."
        )
    elif programs["router"] is not None and router["share_routed"] is not None:
        share = router["share_routed"]["value"]
        said.append(
            f"The router sends {share:.0%} of the questions to the team and "
            f"{_tested(programs['router'])}."
        )
    if report.errors:
        said.append(
            f"{report.errors:,} answers of single agents failed and count as wrong; the same "
            f"command asks "
            "for them again."
        )
    return said


def _tested(program: ProgramFigures) -> str:
    """The verdict; where nothing is shown, also what the number of questions that it names
    assumes.
    """
    test = program["against_team"] or {}
    if test["verdict"] != NOT_SHOWN:
        return str(test["sentence"])
    apart = test["gained"] + test["lost"]
    share = f"{max(apart, 1) / test['n']:.1%} of the questions" + (", as here" if apart else "")
    fewest = fewest_questions(test["margin"], test["confidence"])
    return (
        f"{test['sentence']} in the last test, so {2 * test['needed']:,} in the run, to show it "
        f"four times "
        f"in five if the two are equally good and one alone is right on {share} (on none, at this "
        f"confidence: {fewest:,}, so {2 * fewest:,})"
    )


def _kept(programs: ProgramsTested) -> str:
    """The cheapest program that the last test shows to be non-inferior, and cheaper than
    the team.
    """
    good = {}
    for name, one in (("single", programs["single"]), ("router", programs["router"])):
        ratio = _ratio(one, programs["team"]) or 0.0 if one is not None else 1.0
        if (
            ratio < 1
            and one is not None
            and (one["against_team"] or {}).get("verdict") == NON_INFERIOR
        ):
            good[name] = ratio
    return min(good, key=lambda name: good[name], default="team")


def _ratio(program: ProgramFigures, team: ProgramFigures) -> float | None:
    unit = unit_of((program, team))
    return in_unit(program, unit) / in_unit(team, unit) if in_unit(team, unit) else None


def _figures(name: str, correct: Sequence[bool], took: Price) -> ProgramFigures:
    accuracy = rate(sum(map(bool, correct)), len(correct))
    return {
        "name": name,
        "accuracy": accuracy,
        "calls": took["calls"],
        "tokens": took["tokens"],
        "cost_usd": took["cost_usd"],
        "against_team": None,
    }


def answered_by(
    rows: Rows,
    price: Price,
    team: Rows,
    questions: Sequence[Question],
    team_price: Price,
    unit: Unit,
) -> Answered:
    """What both made of the questions; one that failed is wrong whether or not the team is
    asked.
    """
    signs, together = [], []
    for question in questions:
        row, other = rows[question.id], team[question.id]
        task = Task.of(question.question, question.choices, question.context, question.kind)
        signs.append(signs_of(task, row["answer"], row["transcript"]))
        stands = other if other["answer"] is not None else row
        together.append(bool(stands["correct"]) and row["error"] is None)
    spent = each_of((team[question.id] for question in questions), team_price)
    return Answered(
        signs,
        np.array(_right(rows, questions)),
        np.array(_right(team, questions)),
        np.array(together),
        np.full(len(questions), in_unit(price, unit)),
        np.array([in_unit(one, unit) for one in spent]),
    )


def _right(rows: Rows, questions: Sequence[Question]) -> list[bool]:
    return [bool(rows[question.id]["correct"]) for question in questions]


def _errors(rows: Rows) -> int:
    return sum(row["error"] is not None for row in rows.values())
