"""Runs rows of published tables again and puts what was measured beside what was published."""

from __future__ import annotations

from pathlib import Path

from ..base.journal import read_object, write_json
from ..base.request import entry
from ..comparison.tested import answered_in
from ..evaluation.earlier import Evaluation, left_in
from ..evaluation.evaluate import carry_out
from ..evaluation.plan import EvaluationPlan
from ..runs.books import open_books
from ..training.fit import train_as_planned
from ..training.replay import SCORES
from .between import Answered, differences, unanimous
from .lines import Line, Reproduction
from .measures import measured, on_records
from .plan import ReproductionPlan, plan_reproduction
from .request import ReproduceRequest


@entry(ReproduceRequest)
def reproduce(request: ReproduceRequest) -> Reproduction:
    """Run rows of a published table, and put what was measured beside what was published.

    The folder gets a sub-folder for each run. A budget holds for all rows together. `stopped` also
    says that every question of a run failed.

    Raises UserError for anything that is not right, before any LM is called where it can be known
    then. At a KeyboardInterrupt finished questions are kept.
    """
    return reproduce_as_planned(plan_reproduction(request))


def reproduce_as_planned(plan: ReproductionPlan) -> Reproduction:
    """Carry out the plan, run by run."""
    stopped = None
    with open_books(account=plan.account()):
        for folder, run in plan.runs.items():
            if isinstance(run, EvaluationPlan):
                result: Evaluation | None = carry_out(run)
            else:
                result = train_as_planned(run).evaluation
            if result is not None and result.stopped:  # None: tested on recorded answers
                stopped = f"{plan.rows_of(folder)[0]}: {result.stopped}"
                # Failed questions do not keep the next run from being asked; a spent budget does.
                if result.summary.stopped:
                    break
    return reproduced_so_far(plan, stopped)


def reproduced_so_far(plan: ReproductionPlan, stopped: str | None = None) -> Reproduction:
    """The rows as far as the runs in their folders measure them; the table is written, too."""
    lines, answers = list[Line](), dict[Path, Answered]()
    for row in plan.rows:
        folder = plan.folders.get(row.name)
        run = left_in(folder)
        # Rows may share a run, whose answers are read once.
        if folder is not None and run is not None and folder not in answers:
            answers[folder] = answered_in(run)
        scores = None if folder is None else read_object(folder / SCORES)
        for figure, published in row.published.items():
            line = Line(row.id, figure, published, row.note)
            if run is not None:
                _measure(line, run)
            elif scores is not None:
                line.measure(on_records(figure, scores))
            else:
                line.why = row.reason or "not run"
            lines.append(line)
    answered = {name: answers[at] for name, at in plan.folders.items() if at in answers}
    found = (differences(plan.table, answered), unanimous(answered))
    done = Reproduction(plan.title, plan.out, lines, plan.notes, stopped, *found)
    done.file.parent.mkdir(parents=True, exist_ok=True)
    write_json(done.file, done.to_dict())
    return done


def _measure(line: Line, run: Evaluation) -> None:
    line.counts, line.run = run.summary.counts, str(run.folder)
    line.lm = ", ".join(dict.fromkeys(lm.name for lm in run.summary.run.lms.values()))
    score = None if run.empty else measured(line.figure, run)
    if score is not None:
        line.measure(score)
    else:
        line.why = "every question failed" if run.empty else "these questions do not measure it"
