"""Runs rows of published tables again and compares the measured figures with the published ones."""

from __future__ import annotations

from pathlib import Path

from ..base.budget import BudgetSpent
from ..base.journal import read_object, write_json
from ..base.request import entry
from ..comparison.sources import left_in
from ..evaluation.earlier import Evaluation
from ..evaluation.evaluate import carry_out
from ..evaluation.plan import EvaluationPlan
from ..runs.books import open_books
from ..training.fit import train_as_planned
from ..training.teach import SCORES
from .lines import Line, Reproduction
from .measures import differences, on_records, unanimous
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
        for folder, run in plan.runs.items():
            row = plan.rows_of(folder).partition(", ")[0]
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
    runs = dict[Path, Evaluation]()
    for folder in plan.runs:
        run = left_in(folder)
        if run is not None:
            runs[folder] = run
    lines = list[Line]()
    for row in plan.rows:
        folder = plan.folders.get(row.name, plan.out)
        # A network that was tested on recorded answers leaves its scores, and no run.
        scores = read_object(folder / SCORES)
        for figure, published in row.published.items():
            line = Line(row.id, figure, published, row.note)
            if row.name in plan.folders and folder.is_dir():
                line.run = str(folder)
            if folder in runs:
                line.take(runs[folder])
            elif scores is not None:
                line.measure(on_records(figure, scores))
            else:
                line.why = row.reason or "not run"
            lines.append(line)
    measured = {name: runs[folder] for name, folder in plan.folders.items() if folder in runs}
    found = differences(plan.table, measured), unanimous(runs.values())
    done = Reproduction(plan.title, plan.out, lines, plan.notes, stopped, *found)
    done.file.parent.mkdir(parents=True, exist_ok=True)
    write_json(done.file, done.to_dict())
    return done
