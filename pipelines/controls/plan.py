"""Plans controls: reads a team's run, and chooses the arms, with their cost and precision."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import dspy

from ...modules.base.errors import UserError, checked_among
from ...modules.base.keyed import only, without
from ...modules.protocols.program import Program
from ...modules.protocols.saved import hashes
from ...modules.protocols.single import SingleAgent
from ...modules.reading.metrics import Metric
from ...modules.reading.question import Question
from ...modules.reading.row import taken
from ...modules.statistics.controls import DISCORDANT, half_width
from ..base.journal import to_json
from ..base.life import PlanOfSteps
from ..base.request import LIMITS, folder_at
from ..base.wording import counted, rounded_money, total_cost
from ..comparison.match_budget import MatchPlan, metric_of_run, plan_match
from ..comparison.matched import same_lm
from ..comparison.request import MatchRequest, split_items
from ..comparison.run_again import lm_of_run, lms_of_run, program_of_run
from ..data import questions as data
from ..evaluation.check import in_plain_text
from ..evaluation.earlier import Evaluation, earlier
from ..evaluation.kept import questions_of
from ..evaluation.plan import EvaluationPlan, plan_evaluation
from ..evaluation.request import EvaluateRequest
from ..lms.named import Billed, billed_as, lm_identity
from ..programs.seats import EVERY, Seating
from ..runs.books import account_of
from ..runs.caveats import smallest_difference
from ..runs.manifest import made_with, name_of_run
from ..tasks.check import metric_asked
from ..tasks.picked import PICKED
from ..tracking.context import ABOVE
from .arms import (
    ARMS,
    BESIDE,
    ONE,
    THINKING,
    AnsweringAgain,
    exchange_of,
    one_context,
)
from .dialogues import AGAIN, FIRST, SELF_CONSISTENT, Dialogues, dialogues_in
from .outcome import HOME
from .request import ControlsRequest

NONE = "none"
ASKED = "asked"
"""The key in `controls.json` with the arms that were asked for."""
CHANGED = (
    "the program's prompts or settings have changed since the run: the content part includes the "
    "effect of that"
)
LEAST_THOUGHTS = 1024
"""Tokens: providers take no smaller budget."""


@dataclass
class ControlsPlan(PlanOfSteps):
    """Controls of a run that are checked; no LM has been called.

    `arms` has the evaluation of each arm that is asked, `match` the plan of the budget-matched
    agent, and `missing` why other arms are not asked.
    """

    request: ControlsRequest
    run: Evaluation
    dialogues: Dialogues
    metric: Metric
    out: Path
    arms: dict[str, EvaluationPlan] = field(default_factory=dict)
    match: MatchPlan | None = None
    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"controls of {name_of_run(self.run.summary.run)}"

    @property
    def asked(self) -> int:
        """The number of questions."""
        return len({row.id for row in self.dialogues.rows})

    @property
    def plans(self) -> dict[str, EvaluationPlan]:  # type: ignore[override]
        return self.arms

    @property
    def engines(self) -> list[Billed]:
        engines = list[Billed]()
        for plan in self.arms.values():
            engines += plan.engines
        if self.match:
            engines += [billed_as(arm.lm) for arm in self.match.arms]
        return engines

    @property
    def cost(self) -> tuple[float, float] | None:
        costs = [plan.cost for plan in self.arms.values()]
        if self.match:
            costs.append(self.match.cost)
        return total_cost(costs)

    @property
    def calls(self) -> dict[str, int | None]:
        """The highest number of calls of each arm; None where not known."""
        most = {}
        for name, plan in self.arms.items():
            calls = plan.estimate.calls
            most[name] = calls and calls[1]
        if self.match is not None:
            most[SELF_CONSISTENT] = None
            if not self.request.baseline:
                most[SELF_CONSISTENT] = sum(arm.calls for arm in self.match.arms)
        return most

    @property
    def remarks(self) -> list[str]:
        """The notes, and a line for each reason why arms are not asked."""
        names: dict[str, list[str]] = {}
        for name, why in self.missing.items():
            names.setdefault(why, []).append(name)
        remarks = list(self.notes)
        for why, arms in names.items():
            remarks.append(f"{', '.join(arms)}: not asked, since {why}")
        return remarks

    def lines(self) -> list[str]:
        """Describe the calls of each arm, their cost, and what the questions can show."""
        questions, members = counted(self.asked, "question"), len(self.dialogues.members)
        agents = f"{questions} of a program whose agents are not known"
        if members:
            agents = f"{questions} of {counted(members, 'agent')}"
        if left := self.dialogues.left_out:
            agents += f"; {counted(left, 'row')} without a whole dialogue left out"
        asked = list[str]()
        for name, most in self.calls.items():
            calls = counted(most, "call") if most is not None else "unknown"
            asked.append(f"{name}: {ARMS[name]}; at most {calls}")
        cost = "no call"
        if asked:
            cost = "unknown"
            if self.cost:
                cost = f"at most about {rounded_money(self.cost[1])}"
            if self.request.budget:
                cost += f"; the budget is {self.request.budget}"
        return [
            agents,
            *asked,
            *self.remarks,
            f"cost: {cost}",
            f"{questions} show a part from about "
            f"{100 * smallest_difference(self.asked, DISCORDANT):.0f} points up: intervals reach "
            f"about {100 * half_width(self.asked):.0f} points to both sides",
        ]

    def about(self) -> dict[str, object]:
        """Return the description in `controls.json`; a folder can only be resumed by controls with
        the same one.
        """
        own = {**self.asked_of(), "label": self.title, "run": str(self.run.folder)}
        return {
            **_branch(self.dialogues, self.request.seed),
            ASKED: [name for name in ARMS if name in self.calls],
            "manifest": {**self.run.summary.run, "settings": own},
            **made_with(),
        }

    def asked_of(self) -> dict[str, object]:
        """Return the settings that name the questions, which are those of the run."""
        settings = self.run.summary.run.settings
        named = {name: settings.get(name) for name in ("data", "split", "limit", "loaded_from")}
        return {**named, "command": "controls"}

    def to_dict(self) -> dict[str, object]:
        n = self.asked
        return {
            "run": str(self.run.folder),
            "out": str(self.out),
            "questions": n,
            "left_out": self.dialogues.left_out,
            "agents": self.dialogues.members,
            "calls": self.calls,
            "not_asked": self.missing,
            "cost_usd": self.cost,
            "budget": self.request.budget and str(self.request.budget),
            "smallest_effect": smallest_difference(n, DISCORDANT),
            "half_width": half_width(n),
        }


def _branch(dialogues: Dialogues, seed: int) -> dict[str, object]:
    """Return a digest of the input of the arms: the dialogues, and the seed of the placebo."""
    text = to_json([[row.id, row.answer, row.transcript] for row in dialogues.rows])
    return {"recorded": hashlib.sha256(text).hexdigest()[:16], "seed": seed}


def plan_controls(request: ControlsRequest, *, keyless: bool = False) -> ControlsPlan:
    """Read and check all input. Raises UserError before any LM is called.

    With `keyless` (a plan alone), no keys are needed.
    """
    run, seating = earlier(request.run), Seating(request, keyless=keyless)
    metric = metric_of_run(run.summary.run, metric_asked(request))
    wanted = _wanted(request)
    out = folder_at(request.out) or run.folder / HOME
    try:
        lms, team = _team(run, request, seating)
        exchange = exchange_of(team)
    except LookupError as problem:
        acts = next(iter(run.rows))["kind"] in PICKED and SELF_CONSISTENT in wanted
        plan = ControlsPlan(request, run, dialogues_in(run.rows, acts=acts), metric, out)
        # `first` is only what the other arms go on from.
        plan.missing = without(dict.fromkeys(wanted, str(problem)), [FIRST])
        if acts:  # its fair opponent needs no agent of it
            plan.questions = questions_of(run, request.questions)
            plan.match = _match(plan, lms_of_run(run, seating, "a control"))
            del plan.missing[SELF_CONSISTENT]
        return _affordable(plan)
    # Arms are asked once a question: a further repeat would have nothing to stand against.
    rows = (row for row in run.rows if not row.repeat)
    dialogues = dialogues_in(rows, exchange.members, apart=exchange.again is None)
    plan = ControlsPlan(request, run, dialogues, metric, out)
    if hashes(team)["program_hash"] != run.summary.run.program_hash:
        plan.notes.append(CHANGED)
    # Read last, since a team that cannot answer again is split without any question.
    plan.questions = _questions(run, request)
    # Where the team has not answered, an arm would have nothing to stand against.
    recorded = {row.id for row in dialogues.rows}
    questions = [question for question in plan.questions if question.id in recorded]
    for name in wanted:
        hears_nobody = exchange.again is None or (name == "stance" and not exchange.stances)
        if name in AGAIN and hears_nobody:
            plan.missing[name] = "no agent of this team reads the answers of its peers"
        # Agents that cannot give new first answers go on from their recorded ones.
        elif name in AGAIN or (name == FIRST and exchange.first is not None):
            arm = AnsweringAgain(name, team, dialogues, **_branch(dialogues, request.seed))
            plan.arms[name] = _evaluation(plan, name, arm, questions, lms)
        elif name == ONE:
            arm = one_context(team, exchange.members)
            if in_plain_text(arm, lms.get(EVERY)):
                plan.missing[name] = "an untuned LM is not shown instructions to play all agents"
                continue
            plan.arms[name] = _evaluation(plan, name, arm, questions, lms)
        elif name in (SELF_CONSISTENT, THINKING):
            try:
                if name == SELF_CONSISTENT:
                    # One object may be the LM of several agents, and need not be hashable.
                    alone = {id(lm): lm for lm in lms.values()}
                    plan.match = _match(plan, list(alone.values()))
                else:
                    lm = {EVERY: _thinking(run, seating)}
                    plan.arms[name] = _evaluation(plan, name, SingleAgent("cot"), questions, lm)
            except UserError as problem:
                plan.missing[name] = str(problem)
    return _affordable(plan)


def _affordable(plan: ControlsPlan) -> ControlsPlan:
    """Raise UserError for a budget that cannot be enforced, before any question is paid for."""
    account_of(plan.request.budget, plan.engines, plan.out)
    return plan


def _match(plan: ControlsPlan, lms: list[dspy.BaseLM]) -> MatchPlan:
    """Return the plan of one agent at the team's bill; of several LMs, each one alone."""
    request = plan.request
    return plan_match(
        MatchRequest(
            plan.run,
            plan.questions,
            single=request.baseline,
            lm=lms,
            metric=plan.metric,
            out=plan.out / "arms" / SELF_CONSISTENT,
            tracking=False,
            settings={"command": "controls"},
            **request.named("concurrency", "progress", *LIMITS),
        )
    )


def _wanted(request: ControlsRequest) -> list[str]:
    """Return the arms in the order of asking. Raises UserError for an unknown optional arm."""
    chosen, without = split_items(request.arms), split_items(request.without)
    for name in [*chosen, *without]:
        checked_among("optional arm", name, (*BESIDE, NONE))
    left_out = set(without)
    if chosen:  # `none` is chosen like an arm, and is none: then all optional ones are left out
        left_out.update(set(BESIDE) - set(chosen))
    return [name for name in ARMS if name not in left_out]


def _team(
    run: Evaluation, request: ControlsRequest, seating: Seating
) -> tuple[dict[str, object], Program]:
    """Return the LMs of the run by seat, and its program. Raises LookupError where the dialogue
    cannot be continued, and UserError for another LM than the run's.
    """
    noted = run.summary.run
    if "imported" in noted:
        raise LookupError("an imported dialogue cannot be continued")
    lms, seats = request.lm or dspy.settings.lm, noted.lms
    if isinstance(lms, dspy.BaseLM):
        lms = dict.fromkeys([*seats, EVERY], lms)
    if not isinstance(lms, Mapping):
        if lms is not None:  # raises UserError for another LM than the run's
            lm_of_run(run, seating, "a control")
        lms = {}
        for seat, lm in seats.items():
            lms[seat] = lm_of_run(run, seating, "a control", name=lm.name)
    for used in map(lm_identity, lms.values()):
        if used and not any(same_lm(used, other) for other in seats.values()):
            raise UserError(f"{used.endpoint} is not an LM of {run.folder}: give the LM of the run")
    team = program_of_run(run, seating, without(lms, [EVERY]))
    if team.foreign:
        raise LookupError("its program is your own code, not a protocol")
    return dict(lms), team


def _questions(run: Evaluation, request: ControlsRequest) -> list[Question]:
    """Return the questions of the run: the user's list, or those in the run's rows if they are
    complete (rows lack passages), or else those read again from their source.
    """
    if request.questions is None or isinstance(request.questions, str | Path):
        fields = ("id", "question", "choices", "kind", "meta")
        recorded = []
        for row in run.rows:
            if not row.repeat:
                known = {key: row[key] for key in fields}
                recorded.append(Question(answer=row.gold, **known))
        if data.fingerprint(recorded) == run.summary.run.data_fingerprint:
            return recorded
    return questions_of(run, request.questions)


def _evaluation(
    plan: ControlsPlan,
    name: str,
    program: Program,
    questions: Sequence[Question],
    lms: Mapping[str, object],
) -> EvaluationPlan:
    """Return the plan of an arm as an ordinary evaluation in its own folder."""
    # An LM for an agent that the arm does not have would be refused as a mistake.
    seats = {EVERY, *program.seats()}
    return plan_evaluation(
        EvaluateRequest(
            program,
            questions,
            lm=only(lms, seats),
            metric=plan.metric,
            out=plan.out / "arms" / name,
            parent=ABOVE,
            settings={**plan.asked_of(), "label": f"{name}: {ARMS[name]}"},
            **plan.request.named(
                "retry_errors", "concurrency", "cache", "tracking", "progress", *LIMITS
            ),
        )
    )


def _thinking(run: Evaluation, seating: Seating) -> object:
    """Return the LM with a thinking budget of the team's tokens per question. Raises UserError
    where the LM has no such setting, or the tokens are not known.
    """
    tokens = fmean(taken(row).reasoning_tokens or 0 for row in run.rows)
    lm = next(iter(run.summary.run.lms.values()))
    budget = lm.settings.get("thinking")
    if not tokens or not isinstance(budget, dict) or "budget_tokens" not in budget:
        raise UserError("the team's LM was not asked with a token budget for thinking")
    thinking = {**budget, "budget_tokens": max(LEAST_THOUGHTS, round(tokens))}
    return seating.make(lm.name, thinking=thinking)
