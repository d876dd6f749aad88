"""Runs controls: asks each arm, and splits the gain of a recorded team into parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...modules.base.calls import ROLLOUTS, Rollouts, bound
from ...modules.base.errors import UserError, system_errors
from ...modules.base.sync import run_sync
from ...modules.reading.row import ResultRow
from ..base.account import Account
from ..base.budget import BudgetSpent, only_shows
from ..base.journal import write_json
from ..base.request import entry, warned
from ..base.wording import counted
from ..comparison.match_budget import run_match
from ..evaluation.earlier import Evaluation
from ..evaluation.evaluate import carry_out
from ..evaluation.repeats import ROLLOUTS_EACH
from ..runs.manifest import RunFolder
from ..runs.rows import RESULTS
from ..tasks.picked import checked_scores
from ..tracking.context import to_show
from ..tracking.run import is_sent, running
from .arms import ARMS
from .dialogues import FIRST, SELF_CONSISTENT, answers_said, levels_of, unpaid_turns
from .outcome import CONTROLS, RESULT, WATERFALL, Controls, controls_in, measure_gain
from .plan import ASKED, ControlsPlan, plan_controls
from .request import ControlsRequest

OWN_ROLLOUTS = 100
"""Arms use their own sample ids, beyond the rollout ids of this many repeats."""

FOLDER = RunFolder(
    "set of controls",
    CONTROLS,
    {"recorded": "its recorded answers differ", "seed": "its seed differs"},
    {RESULTS: "an evaluation"},
)


@entry(ControlsRequest)
def controls(request: ControlsRequest) -> Controls:
    """Find out where a recorded team's gain over one of its agents comes from.

    Raises UserError for no run of two or more agents, other questions, another LM than the team's,
    an unknown arm, and a budget that cannot be enforced. At a KeyboardInterrupt finished work is
    kept.
    """
    return carry_out_controls(warned(plan_controls(request)))


def carry_out_controls(
    plan: ControlsPlan, show: Callable[[Controls], None] | None = None
) -> Controls:
    """Carry out the plan. `show` gets the result before it is sent to the tracking store."""
    about, how = plan.about(), plan.request.named("cache", "budget")
    if (stored := _finished(plan, about)) is not None:
        return stored
    with (
        running(FOLDER, about, plan.out, engines=plan.engines, **how) as run,
        system_errors(run.folder),
    ):
        write_json(run.folder / CONTROLS, {**about, RESULT: None})
        if plan.request.tracking:
            run.track(CONTROLS)
        controls = Controls(run.folder, left_out=plan.dialogues.left_out)
        controls.rate = plan.metric.scale.rate is not False
        controls.agents = [*plan.dialogues.members]
        controls.notes = [f"{remark}." for remark in plan.remarks]
        arms = _asked(plan, controls, run.books.account)
        said, rows = list(plan.dialogues.rows), dict[str, dict[str, ResultRow]]()
        for name, arm in arms.items():
            said += arm.rows
            rows[name] = {row.id: row for row in arm.rows}
            if failed := sum(row.error is not None for row in rows[name].values()):
                controls.notes.append(f"{name}: {counted(failed, 'failed question')} left out.")
        checked = run_sync(checked_scores, plan.metric, answers_said(said, plan.questions))
        levels = levels_of(plan.dialogues, rows, plan.metric, checked)
        # No interval is wider than the metric's whole range.
        measure_gain(controls, levels, plan.metric.scale.width)
        paid = run.books.paid
        controls.calls, controls.cost_usd = paid.calls, paid.cost_usd
        write_json(run.folder / CONTROLS, {**about, RESULT: controls.to_dict()})
        if not controls.empty:
            controls.plot(run.folder / WATERFALL)
        run.end(to_show(show, controls, well=not controls.stopped))
    return controls


def _finished(plan: ControlsPlan, about: Mapping[str, object]) -> Controls | None:
    """Return the controls in the plan's folder, if the plan asks for nothing more: they are shown
    as they are stored. Raises UserError where the folder holds something else.
    """
    written = FOLDER.earlier(plan.out, about)
    stored, request = controls_in(plan.out), plan.request
    same = written.get(ASKED) == about[ASKED]
    if stored is None or not same or not only_shows(vars(stored), request.budget):
        return None
    if request.tracking and not is_sent(plan.out, written.get("mlflow_run_id")):
        return None
    return stored


def _asked(
    plan: ControlsPlan, controls: Controls, account: Account | None
) -> dict[str, Evaluation]:
    """Evaluate each arm until the account is spent, and note in `controls` why it stopped."""
    arms: dict[str, Evaluation] = {}
    for place, name in enumerate(ARMS):
        # With the recorded run's sample ids, a prompt that an arm shares with it would be answered
        # from the cache: nobody would have thought again.
        with bound(ROLLOUTS, Rollouts((OWN_ROLLOUTS + place) * ROLLOUTS_EACH)):
            if name in plan.arms:
                arms[name] = carry_out(plan.arms[name])
                controls.stopped = arms[name].summary.stopped
            elif name == SELF_CONSISTENT and plan.match is not None:
                try:
                    arms[name] = run_match(plan.match)
                    ended = arms[name].summary.stopped
                except (BudgetSpent, UserError) as problem:
                    ended = str(problem)
                    controls.notes.append(f"{name}: {problem}.")
                # The other arms stand without this one, which is also stopped by a ceiling of its
                # own, at the team's bill: only the user's budget ends the controls.
                if account is not None and account.ended:
                    controls.stopped = ended
        if name == FIRST and name in arms:  # the other arms go on from these first answers
            plan.dialogues.first = {
                row.id: unpaid_turns(row) for row in arms[name].rows if row.error is None
            }
        if controls.stopped:
            break
    if account is not None and account.ended:
        controls.spent = str(account.budget)
    return arms
