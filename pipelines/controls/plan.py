"""Plans controls: reads a team's run, and says which arms are asked, their price and what they can
show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import dspy

from ...modules.base.errors import UserError, did_you_mean
from ...modules.protocols.program import Program
from ...modules.protocols.single import SingleAgent
from ...modules.reading.metrics import Metric, metric_of_run
from ...modules.reading.question import Question
from ...modules.reading.row import taken
from ...optimizers.statistics.controls import DISCORDANT, half_width
from ..base.journal import to_json
from ..base.request import split_items
from ..base.wording import counted, rounded_money, smallest_difference
from ..comparison.match_budget import MatchPlan, plan_match
from ..comparison.matched import same_lm
from ..comparison.request import MatchRequest
from ..comparison.run_again import lm_of_run, questions_of
from ..data import load as data
from ..evaluation.check import check_concurrency, checked
from ..evaluation.earlier import Evaluation, earlier
from ..evaluation.estimate import account_of
from ..evaluation.plan import EvaluationPlan, plan_evaluation
from ..evaluation.request import EvaluateRequest
from ..lms.foreign import billed_as
from ..lms.hosted import LiteLLMEndpoint
from ..lms.named import engine_of, lm_identity
from ..programs.seats import EVERY, Seating
from ..runs.manifest import made_with, name_of_run
from ..tracking.context import ABOVE
from .arms import ARMS, BESIDE, AnsweringAgain, PlayingAll
from .dialogues import FIRST, Dialogues
from .outcome import HOME
from .request import ControlsRequest

FEWEST_THOUGHTS = 1024
"""Tokens: providers take no smaller budget for thinking."""

NONE = "none"


@dataclass
class ControlsPlan:
    """Controls of a run that are checked; no LM has been called.

    `arms` has the evaluation of each arm that is asked, `match` the budget-matched agent, and
    `missing` says why an arm is not asked.
    """

    request: ControlsRequest
    run: Evaluation
    dialogues: Dialogues
    metric: Metric
    arms: dict[str, EvaluationPlan]
    match: MatchPlan | None
    missing: dict[str, str]
    home: Path
    warnings: Sequence[str] = ()

    @property
    def title(self) -> str:
        return f"controls of {name_of_run(self.run.summary.run)}"

    @property
    def out(self) -> Path:
        return self.home

    @property
    def engines(self) -> list[Any]:
        matched = [billed_as(arm.lm) for arm in self.match.arms] if self.match else []
        return [engine for plan in self.arms.values() for engine in plan.engines] + matched

    @property
    def cost(self) -> tuple[float, float] | None:
        """USD, from and to; None where a price is not known."""
        costs = [plan.cost for plan in self.arms.values()]
        costs += [self.match.cost] if self.match else []
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return None
        return sum(low for low, _ in known), sum(high for _, high in known)

    def calls(self) -> dict[str, tuple[int, int] | None]:
        """For each arm, how many calls are likely at least and at most; None where nobody knows."""
        calls = {name: plan.estimate.calls for name, plan in self.arms.items()}
        if self.match is not None:
            most = sum(arm.calls for arm in self.match.arms)
            calls["self_consistency"] = (most, most)
        return calls

    @property
    def not_asked(self) -> list[str]:
        """For each reason why arms are not asked, a line."""
        return [
            f"{', '.join(name for name in self.missing if self.missing[name] == why)}: not asked, "
            f"since {why}"
            for why in dict.fromkeys(self.missing.values())
        ]

    def lines(self) -> list[str]:
        """Say which calls are made for what, what they cost, and what the questions can show."""
        n = len({row["id"] for row in self.dialogues.rows})
        agents = counted(len(self.dialogues.members), "agent")
        left = f"; {counted(self.dialogues.left_out, 'row')} without a whole dialogue left out"
        lines = [f"{counted(n, 'question')} of {agents}{left * (self.dialogues.left_out > 0)}"]
        for name, calls in self.calls().items():
            likely = "calls unknown" if calls is None else _span(calls)
            lines.append(f"{name}: {ARMS[name]}; {likely}")
        lines += self.not_asked
        cost = "price unknown" if self.cost is None else rounded_money(self.cost[1])
        cost = "no call" if not self.calls() else f"at most about {cost}"
        budget = f"; the budget is {self.request.budget}" if self.request.budget else ""
        shown = 100 * smallest_difference(n, DISCORDANT)
        return [
            *lines,
            f"cost: {cost}{budget}",
            f"{counted(n, 'question')} show a part from about {shown:.0f} points up: intervals "
            f"reach about {100 * half_width(n):.0f} points to both sides",
        ]

    def about(self) -> dict[str, Any]:
        """What `controls.json` says of them: only the same ones go on in a folder."""
        run = self.run.summary.run
        settings = {
            **{name: run["settings"].get(name) for name in ("data", "split", "limit")},
            "command": "controls",
            "label": self.title,
            "budget": self.request.budget and str(self.request.budget),
            "run": str(self.run.folder),
            "seed": self.request.seed,
        }
        return {
            "run": str(self.run.folder),
            "recorded": recorded_in(self.dialogues),
            "seed": self.request.seed,
            "manifest": {**run, "settings": settings},
            **made_with(),
        }

    def to_dict(self) -> dict[str, Any]:
        questions = {row["id"] for row in self.dialogues.rows}
        return {
            "run": str(self.run.folder),
            "out": str(self.out),
            "questions": len(questions),
            "left_out": self.dialogues.left_out,
            "agents": self.dialogues.members,
            "calls": self.calls(),
            "not_asked": self.missing,
            "cost_usd": self.cost,
            "budget": self.request.budget and str(self.request.budget),
            "smallest_effect": smallest_difference(len(questions), DISCORDANT),
            "half_width": half_width(len(questions)),
        }


def _span(calls: tuple[int, int]) -> str:
    least, most = calls
    return f"{least:,} to {counted(most, 'call')}" if least < most else counted(most, "call")


def recorded_in(dialogues: Dialogues) -> str:
    """A hash of who answered what: arms branch from these answers alone."""
    digest = hashlib.sha256()
    for row in dialogues.rows:
        said = [[turn["agent"], turn["answer"], turn["text"]] for turn in row["transcript"]]
        digest.update(to_json([row["id"], row.get("repeat", 0), row["answer"], said]))
    return digest.hexdigest()[:16]


def plan_controls(request: ControlsRequest, *, keyless: bool = False) -> ControlsPlan:
    """Read and check all input. Raises UserError before any LM is called.

    `keyless` is for a plan alone, without the keys of LMs.
    """
    check_concurrency(request.concurrency)
    run = earlier(request.run)
    metric = metric_of_run(run.summary.run, request.metric)
    wanted = _wanted(request)
    seating = Seating(request, keyless=keyless)
    team, lms, why = _team(run, request, seating)
    exchange = team.exchange() if team is not None else None
    if team is not None and exchange is None:
        why = "its protocol does not say how its agents answer again (see exchange() in the docs)"
    members = None if exchange is None else exchange.members
    rows = (row for row in run.rows if members is None or not row.get("repeat"))
    dialogues = Dialogues.of(rows, members)
    home = run.folder / HOME if request.out is None else Path(request.out).expanduser()
    plan = ControlsPlan(request, run, dialogues, metric, {}, None, {}, home)
    if team is None or exchange is None:
        plan.missing = dict.fromkeys((name for name in wanted if name != FIRST), why)
        return plan
    dialogues.apart = exchange.again is None
    questions = _questions(run, request)
    about = {"recorded": recorded_in(dialogues), "seed": request.seed}
    programs: dict[str, Program] = {}
    for name in wanted:
        if name in (FIRST, "isolated", "placebo", "stance"):
            if exchange.again is None and name != FIRST:
                plan.missing[name] = "no agent of this team reads what another says"
            elif name == "stance" and not exchange.stances:
                plan.missing[name] = "its agents never see the answers of their peers"
            elif exchange.again and (name != FIRST or exchange.first):
                programs[name] = AnsweringAgain(name, team, exchange, dialogues, about)
        elif name == "one_context":
            programs[name] = PlayingAll(name, team, exchange.members, about)
    for name, program in programs.items():
        plan.arms[name] = _evaluation(plan, name, program, questions, lms)
    if "self_consistency" in wanted:
        _plan_match(plan, questions, lms)
    if "thinking" in wanted:
        _plan_thinking(plan, questions, seating)
    plan.warnings = list(dict.fromkeys(w for one in plan.arms.values() for w in one.warnings))
    account_of(request.budget, plan.engines, home)  # refused now rather than after a question
    return plan


def _wanted(request: ControlsRequest) -> list[str]:
    """The arms in the order in which they are asked. Raises UserError for what is no arm beside the
    path.
    """
    chosen, without = split_items(request.arms), split_items(request.without)
    for name in [*chosen, *without]:
        if name not in (*BESIDE, NONE):
            raise UserError(
                f"there is no arm {name!r} beside the path{did_you_mean(name, BESIDE)}: choose "
                f"among {', '.join(BESIDE)}, or {NONE}"
            )
    beside = [name for name in BESIDE if name in (chosen or BESIDE) and name not in without]
    return [name for name in ARMS if name not in BESIDE or name in beside]


def _team(
    run: Evaluation, request: ControlsRequest, seating: Seating
) -> tuple[Program | None, Any, str]:
    """The team's program and its LMs, by seat; or None, and why there is none."""
    if "imported" in run.summary.run:
        return None, None, "an imported dialogue cannot be gone on with"
    lms = _lms(run, request, seating)
    seated = {seat: lm for seat, lm in lms.items() if seat != EVERY}
    try:
        team = run.program_with(seated)
    except UserError as problem:
        return None, None, f"its program cannot be loaded ({problem})"
    if not isinstance(team, Program):
        return None, None, "its program is code of your own, not a protocol"
    return team, lms, ""


def _lms(run: Evaluation, request: ControlsRequest, seating: Seating) -> dict[str, Any]:
    """The LMs of the run by seat: those that are given as objects, or made again as they were."""
    given = request.lm or dspy.settings.lm
    seats = run.summary.run["lms"]
    if isinstance(given, dspy.BaseLM | Mapping):
        lms = given if isinstance(given, Mapping) else dict.fromkeys([*seats, EVERY], given)
        for lm in lms.values():
            used = lm_identity(lm)
            if used and not any(same_lm(used, other) for other in seats.values()):
                raise UserError(f"{used['endpoint']} is not an LM of {run.folder}: give its own")
        return dict(lms)
    who = "a control"
    return {seat: lm_of_run(run, seating, who, name=lm["name"]) for seat, lm in seats.items()}


def _questions(run: Evaluation, request: ControlsRequest) -> list[Question]:
    """The questions of the run: those given, those that its settings name, or those in its rows."""
    wanted = run.summary.run["data_fingerprint"]
    if request.questions is not None and not isinstance(request.questions, str | Path):
        questions = checked(data.listed(request.questions))
    elif request.questions is None and not run.summary.run["settings"].get("data"):
        names = ("id", "question", "choices", "kind", "meta")
        questions = [
            Question(answer=row["gold"], **{name: row[name] for name in names})  # type: ignore[literal-required]
            for row in run.rows
            if not row.get("repeat")
        ]
    else:
        source = None if request.questions is None else str(request.questions)
        return questions_of(run, source)
    if data.fingerprint(questions) != wanted:
        raise UserError(
            f"these are not the questions that {run.folder} ran on: give the same ones, in the "
            "same order, with --data (questions=…)"
        )
    return questions


def _evaluation(
    plan: ControlsPlan, name: str, program: Program, questions: list[Question], lms: Any
) -> EvaluationPlan:
    """An arm as an ordinary evaluation in a folder of its own."""
    request = plan.request
    return plan_evaluation(
        EvaluateRequest(
            program,
            questions,
            lm=_for_seats(program, lms),
            metric=plan.metric,
            out=plan.home / "arms" / name,
            parent=ABOVE,
            settings={"command": "controls", "label": f"{name}: {ARMS[name]}"},
            **request.named("retry_errors", "concurrency", "cache", "tracking", "progress"),
        )
    )


def _for_seats(program: Program, lms: Mapping[str, Any]) -> dict[str, Any]:
    """The LMs of those seats that a program has, and that of all others."""
    seats = program.seats()
    return {seat: lm for seat, lm in lms.items() if seat == EVERY or seat in seats}


def _plan_match(plan: ControlsPlan, questions: list[Question], lms: Mapping[str, Any]) -> None:
    """Plan one agent that is asked for the team's bill; of several LMs, each alone."""
    name = "self_consistency"
    different = list({getattr(lm, "model", str(lm)): lm for lm in lms.values()}.values())
    match = MatchRequest(
        plan.run,
        questions,
        lm=different[0] if len(different) == 1 else different,
        metric=plan.metric,
        out=plan.home / "arms" / name,
        tracking=False,
        settings={"command": "controls"},
        **plan.request.named("concurrency", "progress"),
    )
    try:
        plan.match = plan_match(match)
    except UserError as problem:
        plan.missing[name] = str(problem)


def _plan_thinking(plan: ControlsPlan, questions: list[Question], seating: Seating) -> None:
    """Plan one agent that may think for as many tokens as all agents of the team together."""
    tokens = [taken(row).reasoning_tokens or 0 for row in plan.dialogues.rows]
    budget = round(fmean(tokens))
    why = "the run notes no tokens of thinking"
    if budget:
        why = "its LM takes no token budget for thinking, or was not given by name"
        thinking = {"type": "enabled", "budget_tokens": max(FEWEST_THOUGHTS, budget)}
        with suppress(UserError):
            known = lm_of_run(plan.run, seating, "a control")
            if _takes_thinking(known):
                lm = seating.make(known.model, thinking=thinking)
                program = SingleAgent("cot")
                plan.arms["thinking"] = _evaluation(
                    plan, "thinking", program, questions, {EVERY: lm}
                )
                return
    plan.missing["thinking"] = why


def _takes_thinking(lm: Any) -> bool:
    """Whether a provider's LM takes a budget of tokens for thinking."""
    engine = engine_of(lm)
    if engine is None:
        return False
    if isinstance(engine.endpoint, LiteLLMEndpoint):
        engine.endpoint.check_settings(["thinking"])
        return True
    return "thinking" in engine.settings
