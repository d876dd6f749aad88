"""Runs rows of published tables again and compares the measured figures with the published ones."""

from __future__ import annotations

from ..base.budget import BudgetSpent
from ..base.journal import write_json
from ..base.request import entry
from ..comparison.sources import left_in
from ..evaluation.earlier import Evaluation
from ..evaluation.evaluate import carry_out
from ..evaluation.plan import EvaluationPlan
from ..runs.books import open_books
from ..training.fit import train_as_planned
from .card import TABLE, Line, Reproduction
from .measures import differences, line_of, unanimous
from .plan import ReproductionPlan, plan_reproduction
from .request import ReproduceRequest


@entry(ReproduceRequest)
def reproduce(request: ReproduceRequest) -> Reproduction:
    """Run rows of a published table, and put what was measured beside it.

    A budget holds for all rows together. `stopped` also says that every question of a run failed.

    Raises UserError for anything that is not right, before any LM is called where it can be known
    then. At a KeyboardInterrupt finished questions are kept.
    """
    return reproduce_as_planned(plan_reproduction(request))


def reproduce_as_planned(plan: ReproductionPlan) -> Reproduction:
    """Carry out the plan, run by run."""
    stopped = None
    with open_books(account=plan.account()):
        for run in plan.plans.values():
            row = next(name for name, folder in plan.folders.items() if folder == run.out)
            try:
                if isinstance(run, EvaluationPlan):
                    result: Evaluation | None = carry_out(run)
                else:
                    result = train_as_planned(run).evaluation
            except BudgetSpent as problem:  # a training that is not finished has no result
                stopped = f"{row}: {problem}"
                break
            if result is not None and result.stopped:  # None: tested on recorded answers
                stopped = f"{row}: {result.stopped}"
                # Failed questions do not keep the next run from being asked; a spent budget does.
                if result.summary.stopped:
                    break
    return reproduced_so_far(plan, stopped)


def reproduced_so_far(plan: ReproductionPlan, stopped: str | None = None) -> Reproduction:
    """Return the rows with the figures that the runs in their folders have measured, and write the
    table.
    """
    # Rows may share a run, which is read once.
    runs = {folder: left_in(folder) for folder in dict.fromkeys(plan.folders.values())}
    lines, measured = list[Line](), dict[str, Evaluation]()
    for row in plan.table.rows:
        folder = plan.folders.get(row.name, plan.out / row.name)
        run = runs.get(folder)
        if run is not None:
            measured[row.name] = run
        lines += [line_of(row, figure, folder, run) for figure in row.published]
    found = differences(plan.table, measured), unanimous(filter(None, runs.values()))
    done = Reproduction(plan.title, plan.out, lines, *found, plan.notes, stopped)
    done.folder.mkdir(parents=True, exist_ok=True)
    write_json(done.folder / TABLE, done.to_dict())
    return done
