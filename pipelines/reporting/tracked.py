"""A comparison in the tracking store: a run of its own with its table and its page."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..base.cards import DIFFERENCE, Score, TableEntry
from ..base.wording import shortened
from ..comparison.comparison import Comparison
from ..evaluation.earlier import earlier
from ..tracking.entry import RunEntry
from ..tracking.push import log_alone
from ..tracking.store import push_words
from ..tracking.values import LONGEST_TITLE, experiment_name, scrubbed
from .report import REPORT, report

COLUMNS = ("program", "score", "low", "high", "difference", "p")


def log_comparison(
    comparison: Comparison, how: Mapping[str, Any], say: Callable[[str], object]
) -> str | None:
    """Leave a comparison in the store, as one run that is named by its verdict; the same runs
    compared again bring it up to date.

    `how` has the arguments of `compare`, and `say` is told what happens. Returns what went wrong,
    in a line, or None.
    """
    say(push_words())
    folders = [Path(run.folder) for run in comparison.runs]
    # The same runs in the same order are the same comparison, whatever they are called.
    key = hashlib.sha256("\n".join(map(str, map(Path.resolve, folders))).encode()).hexdigest()
    tests = [None, *comparison.against]
    figures = [(pair.difference, pair.p_adjusted) if pair else (None, None) for pair in tests]
    rows = [
        [
            *(run.name, run.score.value, run.score.low, run.score.high),
            *test,
            comparison.verdict.prices[run.name],
        ]
        for run, test in zip(comparison.runs, figures, strict=True)
    ]
    lead = comparison.lead
    gap: dict[str, float] = {}
    if lead:
        gap = Score(DIFFERENCE, lead.difference, lead.low, lead.high).figures()
    with tempfile.TemporaryDirectory(prefix="folkmoot-") as scratch:
        page = Path(scratch) / REPORT
        report(folders, names=comparison.names, out=page, tracking=False, **how)
        return log_alone(
            RunEntry(
                key=key,
                name=shortened(comparison.short.rstrip("."), LONGEST_TITLE),
                experiment=experiment_name(earlier(folders[0]).summary.run),
                params={"reference": comparison.names[0], "programs": str(len(folders))},
                tags={"folkmoot.kind": "comparison"},
                metrics={**gap, "questions": comparison.pairs[0].n},
                note="\n\n".join([*comparison.sentences, f"The page: `{REPORT}` under Artifacts."]),
                files={
                    REPORT: page,
                    "comparison.json": scrubbed(comparison.to_dict()),
                    "programs.json": TableEntry([*COLUMNS, comparison.verdict.unit], rows),
                },
            )
        )
