"""What a distillation decides and says: the candidate chosen, the rule learned, the last test, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...modules.agents.transcript import Task
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
from ..evaluation.earlier import Evaluation
from ..runs.manifest import versions
from ..runs.summary import rate
from ..tracking.values import run_name
from .candidates import Candidate, Parts
from .price import PerToken, Price, each_of, in_unit, price_of_run, total_of, unit_of

Rows = Mapping[str, ResultRow]
_UNITS = {"cost_usd": "money", "tokens": "tokens", "calls": "calls"}


@dataclass(frozen=True)
class Tried:
    """A candidate after it has answered: its rows by question, its price, and the test against the team."""

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


def opening(
    run: Evaluation, parts: Parts, margin: float, seed: int, lm: Mapping[str, Any], notes: Sequence[str]
) -> dict[str, Any]:
    """The report before anything is known."""
    described = run.summary.run
    return {
        "run": str(run.folder),
        "name": run_name(described),
        "team": described["program"],
        "program_hash": described["program_hash"],
        "data_fingerprint": described["data_fingerprint"],
        "questions": described["questions"],
        "lm": dict(lm),
        "margin": margin,
        "confidence": CONFIDENCE,
        "seed": seed,
        "parts": {
            "shown": [question.id for question in parts.shown],
            "selection": len(parts.selection),
            "held_out": len(parts.held_out),
        },
        "notes": list(notes),
        "unit": None,
        "candidates": [],
        "errors": None,
        "skipped": [],
        "chosen": None,
        "router": None,
        "programs": None,
        "keep": None,
        "sentences": [],
        "stopped": None,
        "paid": None,
        "versions": dict(versions()),
        "mlflow_run_id": None,
    }


def tried_of(
    candidate: Candidate,
    evaluation: Evaluation,
    team: Rows,
    questions: Sequence[Question],
    margin: float,
    prices: PerToken,
) -> Tried:
    rows = {row["id"]: row for row in evaluation.rows}
    test = non_inferiority(_right(rows, questions), _right(team, questions), margin)
    return Tried(candidate, rows, price_of_run(evaluation, prices), test)


def needless(candidate: Candidate, tried: Sequence[Tried], team: Price) -> bool:
    """Whether one that has passed is cheaper than a candidate can be: with several samples, or longer prompts
    than the same agent without demonstrations. Or whether its samples will cost as much as the team."""
    passed = [one for one in cheaper(tried, team) if one.passed]
    turns = candidate.program.most_turns()
    if turns > 1 and passed:
        return True
    unit = _unit(tried, team)
    samples = [turns * in_unit(one.price, unit) for one in tried if one.candidate.name == candidate.once]
    if any(cost >= in_unit(team, unit) for cost in samples):
        return True
    plain = [one for one in tried if candidate.demos and candidate.plain == one.candidate.name]
    return any(in_unit(one.price, unit) <= in_unit(same.price, unit) for one in passed for same in plain)


def chosen_of(tried: Sequence[Tried], team: Price) -> Tried | None:
    """The cheapest non-inferior candidate; without one, that which is closest to it and not shown inferior.

    Candidates that cost as much as the team do not count. The last test is of one program alone, whichever it
    is, so it holds for the closest one as well.
    """
    known = cheaper(tried, team)
    unit = _unit(tried, team)
    passed = [one for one in known if one.passed]
    if passed:
        return min(passed, key=lambda one: in_unit(one.price, unit))
    open_yet = [one for one in known if one.test.verdict != INFERIOR]
    return max(open_yet, key=lambda one: (one.test.low, -in_unit(one.price, unit)), default=None)


def learnt_of(
    tried: Sequence[Tried], team: Rows, questions: Sequence[Question], margin: float, seed: int, price: Price
) -> Routed:
    """The cheapest rule over all candidates; `always` with the most accurate of them where none holds."""
    unit = _unit(tried, price)
    found = [
        Routed(
            one, learn_rule(_answered(one.rows, one.price, team, questions, price, unit), margin, seed=seed)
        )
        for one in cheaper(tried, price)
    ]
    holding = [one for one in found if one.rule != ALWAYS]
    if holding:
        return min(holding, key=lambda one: one.learnt.cost)
    best = max(tried, key=lambda one: one.accuracy)
    return Routed(best, Learnt(ALWAYS, _mean(_right(team, questions)), in_unit(price, unit), 1.0))


def cheaper(tried: Sequence[Tried], team: Price) -> list[Tried]:
    unit = _unit(tried, team)
    return [one for one in tried if in_unit(one.price, unit) < in_unit(team, unit)]


def selection_report(
    report: dict[str, Any], tried: Sequence[Tried], chosen: Tried | None, routed: Routed | None, team: Price
) -> None:
    """Enter what the first part of the questions says."""
    report["unit"] = _UNITS[_unit(tried, team)]
    for one in tried:
        right = sum(bool(row["correct"]) for row in one.rows.values())
        report["candidates"].append(
            {
                "name": one.candidate.name,
                "program": one.candidate.program.describe(),
                "demos": one.candidate.demos,
                "accuracy": rate(right, len(one.rows)),
                "errors": sum(row["error"] is not None for row in one.rows.values()),
                **one.price.to_dict(),
                "cheaper": one in cheaper(tried, team),
                "against_team": one.test.to_dict(),
            }
        )
    report["errors"] = sum(one["errors"] for one in report["candidates"])
    report["chosen"] = chosen.candidate.name if chosen else None
    if routed is not None:
        learnt = routed.learnt
        report["router"] = {
            "cheap": routed.tried.candidate.name,
            "rule": routed.rule,
            "selection": {"accuracy": learnt.accuracy, "cost": learnt.cost, "share_routed": learnt.share},
            "share_routed": None,
            "branches": None,
        }


def last_test(
    report: dict[str, Any],
    answered: Mapping[str, Evaluation],
    chosen: Tried | None,
    routed: Routed,
    team: Rows,
    questions: Sequence[Question],
    prices: PerToken,
    team_price: Price,
) -> None:
    """Enter what the held-out questions say of each program, and which of them to keep.

    Where the single agent and the router are two programs, both tests have half the error, so that the chance
    of calling either non-inferior wrongly stays below 1 - CONFIDENCE (Bonferroni).
    """
    margin, n = report["margin"], len(questions)
    rows = {name: {row["id"]: row for row in one.rows} for name, one in answered.items()}
    price = {name: price_of_run(one, prices) for name, one in answered.items()}
    right = _right(team, questions)
    spent = each_of((team[question.id] for question in questions), team_price)
    one_program = routed.rule == ALWAYS or (routed.rule == NEVER and routed.tried is chosen)
    tests = 1 if chosen is None or one_program else 2
    confidence = 1 - (1 - CONFIDENCE) / tests

    def figures(name: str, correct: Sequence[bool], took: Price) -> dict[str, Any]:
        test = non_inferiority(correct, right, margin, confidence)
        return {**_figures(name, correct, took), "against_team": test.to_dict()}

    whole = total_of(spent, n)
    programs: dict[str, Any] = {"team": {**_figures(report["name"], right, whole), "against_team": None}}
    programs |= {"single": None, "router": None, "cheap": None}
    if chosen is not None:
        name = chosen.candidate.name
        programs["single"] = figures(name, _right(rows[name], questions), price[name])
    asks = np.ones(n, dtype=bool)
    if routed.rule == ALWAYS:
        programs["router"] = {**programs["team"], "name": "always the team"}
        report["router"]["branches"] = _branches(asks, np.array(right))
    else:
        name = routed.tried.candidate.name
        known = _answered(rows[name], price[name], team, questions, team_price, "calls")
        asks = np.array([asks_team(routed.rule, signs) for signs in known.signs])
        both = [price[name]] * n + [one for one, asked in zip(spent, asks, strict=True) if asked]
        correct = known.right(asks)
        called = name if routed.rule == NEVER else f"{name}, then the team"
        programs["router"] = figures(called, correct.tolist(), total_of(both, n))
        programs["cheap"] = figures(name, known.cheap.tolist(), price[name])
        report["router"]["branches"] = _branches(asks, correct)
    report["errors"] += sum(row["error"] is not None for one in rows.values() for row in one.values())
    report["router"]["share_routed"] = rate(int(asks.sum()), n)
    report["programs"] = programs
    report["keep"] = _kept(programs)


def sentences_of(report: Mapping[str, Any]) -> list[str]:
    """The outcome, a sentence each, the advice first."""
    if report["stopped"]:
        return [f"Stopped before the last test: {report['stopped']}."]
    programs, router = report["programs"], report["router"]
    single, team = programs["single"], programs["team"]
    said = []
    if report["keep"] == "team":
        said.append("Keep the team: nothing cheaper is shown to be as good.")
    else:
        kept = programs[report["keep"]]
        what = "the single agent" if report["keep"] == "single" else "the router"
        ratio = _ratio(kept, team)
        said.append(
            f"Use {what} ({kept['name']})"
            + (f": {ratio:.0%} of the team's {report['unit']} a question." if ratio is not None else ".")
        )
    if single is None:
        said.append(
            f"No single agent: all {len(report['candidates'])} candidates are inferior to the team, or cost "
            "as much."
        )
    else:
        said.append(f"{single['name']} {_tested(single['against_team'])}.")
    share = router["share_routed"]["value"]
    if router["rule"] == ALWAYS:
        said.append(
            "Routing does not pay: no rule that spares the team is shown to be as good (rule: always)."
        )
    elif router["rule"] == NEVER:
        said.append(f"The router never asks the team (rule: never): {router['cheap']} alone is as good.")
    else:
        said.append(
            f"The router sends {share:.0%} of the questions to the team and "
            f"{_tested(programs['router']['against_team'])}."
        )
    if report["errors"]:
        said.append(
            f"{report['errors']:,} answers of single agents failed and count as wrong; the same command asks "
            "for them again."
        )
    return said


def _tested(test: Mapping[str, Any]) -> str:
    """The verdict; where nothing is shown, also what the number of questions that it names assumes."""
    if test["verdict"] != NOT_SHOWN:
        return str(test["sentence"])
    apart = test["gained"] + test["lost"]
    share = f"{max(apart, 1) / test['n']:.1%} of the questions" + (", as here" if apart else "")
    fewest = fewest_questions(test["margin"], test["confidence"])
    return (
        f"{test['sentence']} in the last test, so {2 * test['needed']:,} in the run, to show it four times "
        f"in five if the two are equally good and one alone is right on {share} (on none, at this "
        f"confidence: {fewest:,}, so {2 * fewest:,})"
    )


def _kept(programs: Mapping[str, Any]) -> str:
    """The cheapest program that the last test shows to be non-inferior, and cheaper than the team."""
    team = programs["team"]
    good = [
        name
        for name in ("single", "router")
        if programs[name] is not None
        and (programs[name]["against_team"] or {}).get("verdict") == NON_INFERIOR
        and (_ratio(programs[name], team) or 0.0) < 1
    ]
    return min(good, key=lambda name: _ratio(programs[name], team) or 0.0, default="team")


def _ratio(program: Mapping[str, Any], team: Mapping[str, Any]) -> float | None:
    prices = [Price(one["calls"], one["tokens"], one["cost_usd"]) for one in (program, team)]
    unit = unit_of(prices)
    return in_unit(prices[0], unit) / in_unit(prices[1], unit) if in_unit(prices[1], unit) else None


def _figures(name: str, correct: Sequence[bool], took: Price) -> dict[str, Any]:
    return {"name": name, "accuracy": rate(sum(map(bool, correct)), len(correct)), **took.to_dict()}


def _branches(asks: Any, correct: Any) -> dict[str, Any]:
    branches = {"cheap": correct[~asks], "team": correct[asks]}
    return {
        name: rate(int(right.sum()), len(right)) if len(right) else None for name, right in branches.items()
    }


def _answered(
    rows: Rows, price: Price, team: Rows, questions: Sequence[Question], team_price: Price, unit: str
) -> Answered:
    """What both made of the questions; one that failed is wrong whether or not the team is asked."""
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


def _unit(tried: Sequence[Tried], team: Price) -> str:
    return unit_of([team, *(one.price for one in tried)])


def _mean(right: Sequence[bool]) -> float:
    return sum(right) / len(right)
