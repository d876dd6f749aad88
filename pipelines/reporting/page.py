"""The page of a report: fills the HTML template with the runs and their comparison."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.metadata import version
from importlib.resources import files
from itertools import chain
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from ...modules.base.errors import UserError, is_number
from ...modules.base.fence import clean
from ...modules.reading.grading import ACCURACY
from ...modules.statistics.statistics import mcnemar_exact
from ..base.html import shown_text
from ..base.wording import asked, counted, duration, money, percent, shortened, signed, used
from ..comparison.compare import compared_alone
from ..comparison.comparison import Comparison
from ..comparison.confounds import unread_cause
from ..evaluation.earlier import DAMAGED_REPORT, Evaluation
from ..plots.dialogues import most_informative
from ..runs.caveats import run_failed
from ..runs.lines import judge_words
from ..runs.summary import SUMMARY, score_words
from ..tracking.values import experiment_name, scrubbed, settings_of_run
from .contested import ContestResult
from .dialogues import FEW, MOST, ShownDialogue, shown
from .plots import Picture, contest_plots, controls_plots, price_picture, protocol_plots
from .questions import json_in_page, table_of

LONGEST_SETTING = 300
MOST_PAIRS = 20
TEMPLATES = files(__package__) / "templates"


@dataclass(frozen=True)
class RunGroup:
    """Runs over the same data, the first of them the baseline; one alone has nothing to be compared
    with. Those of a contest are not compared again: they were asked different numbers of questions.
    """

    names: list[str]
    runs: list[Evaluation]
    comparison: Comparison | None = None
    contest: ContestResult | None = None

    @property
    def headline(self) -> str:
        """The conclusion of the contest or the comparison; empty for a run alone."""
        if self.contest is not None:
            return self.contest.sentences[0]
        if self.comparison:
            return str(self.comparison.headline)
        return ""

    @cached_property
    def failure(self) -> str:
        """What to do about the only run, if most of its questions failed or its answers could not
        be read; without a full stop.
        """
        if self.comparison is not None or self.contest is not None:
            return ""
        summary = self.runs[0].summary
        counts = summary.counts
        failed = run_failed(self.names[0], counts.errors, counts.rows, summary.finished)
        if failed or not counts.unreadable + counts.truncated:
            return failed
        alone = compared_alone(self.names[0], self.runs[0])
        if not alone.mostly_unread:
            return ""
        return unread_cause(alone, self.runs[0])

    @cached_property
    def plots(self) -> dict[str, list[Picture]]:
        """The course of the contest, or score against price, by the name of what it shows."""
        if self.contest is not None:
            return {"course": contest_plots(self.contest, rate=self.is_rate)}
        if self.comparison:
            return {"prices": price_picture(self.comparison)}
        return {}

    @property
    def is_rate(self) -> bool:
        """Whether scores are shares of right answers."""
        return bool(self.runs[0].summary.main.get("rate", True))


@dataclass(frozen=True)
class ShownRun:
    """A run on the page: the anchor of its section, its plots, and the dialogues worth reading."""

    name: str
    anchor: str
    evaluation: Evaluation
    plots: list[Picture]
    dialogues: list[ShownDialogue]

    @property
    def forensics(self) -> Mapping[str, Any]:
        return self.evaluation.summary.forensics

    @property
    def decided_by(self) -> list[tuple[str, object, object]]:
        """How often each way of deciding settled a question, and the share it got right."""
        ways = self.evaluation.summary.report.get("decided_by")
        if not isinstance(ways, Mapping):
            return []
        counted_ways = []
        for way, scores in ways.items():
            if isinstance(scores, Mapping):
                # Teams report exact match in its place.
                right = scores.get("accuracy", scores.get("em"))
                counted_ways.append((str(way), scores.get("count"), right))
        return sorted(counted_ways, key=lambda way: -(way[1] or 0))

    @property
    def sways(self) -> list[tuple[str, str, Mapping[str, int]]]:
        """Speaker, listener and how often, the most frequent first."""
        pairs = []
        for speaker, listeners in self.forensics.get("sway", {}).items():
            pairs += [(speaker, listener, counts) for listener, counts in listeners.items()]
        return sorted(pairs, key=lambda pair: -sum(pair[2].values()))[:MOST_PAIRS]


def _gains(counts: Mapping[str, int]) -> dict[str, float]:
    gained = counts["wrong_to_right"] + counts["unreadable_to_right"]
    lost = counts["right_to_wrong"] + counts["right_to_unreadable"]
    return {"gained": gained, "lost": lost, "p": mcnemar_exact(gained, lost)}


def runs_of(groups: Sequence[RunGroup]) -> list[list[ShownRun]]:
    """Return the runs of each group as the page shows them.

    The answers of one agent are shown where there is no dialogue to read.
    """
    evaluations = list(chain.from_iterable(group.runs for group in groups))
    talked = any(run.summary.forensics for run in evaluations)
    # With many runs, the page would be too large for a browser.
    most = FEW if len(evaluations) > 2 else MOST
    shown_runs = []
    for place, group in enumerate(groups):
        own = []
        for number, (name, run) in enumerate(zip(group.names, group.runs, strict=True)):
            dialogues = []
            if run.summary.forensics or not talked:
                dialogues = list(map(shown, most_informative(run.rows, most)))
            own.append(ShownRun(name, f"run-{place}-{number}", run, _plots(run), dialogues))
        shown_runs.append(own)
    return shown_runs


def _facts(group: RunGroup, questions: int) -> str:
    """Return a line with the number of questions, the data and the LMs."""
    first, facts = group.runs[0].summary.run, [counted(questions, "question")]
    if first.settings.data:
        facts[0] += f" of {experiment_name(first)}"
    for run in group.runs:
        facts += run.summary.run.lm_names
    return str(scrubbed(" · ".join(dict.fromkeys(facts))))


def page_of(
    groups: Sequence[RunGroup],
    runs: Sequence[Sequence[ShownRun]],
    notes: Sequence[str],
    headline: str,
    cited: Sequence[str],
) -> str:
    """Return the whole page: one script of its own, no request to anywhere, every text from outside
    cleaned and escaped. `cited` has papers as BibTeX.
    """
    everything = list(chain.from_iterable(runs))
    return _template().render(
        headline=headline,
        groups=list(zip(groups, runs, strict=True)),
        # Our own file, and the one text of the page that is not escaped.
        script=Markup((TEMPLATES / "report.js").read_text(encoding="utf-8")),
        table_of=table_of,
        cited=cited,
        runs=everything,
        asked=asked,
        counted=counted,
        used=used,
        facts=_facts,
        scored=lambda metric: "is right on" if metric == ACCURACY else f"has {metric}",
        titles={"accuracy": "right", "em": "exact match", "f1": "F1"},
        judge_words=judge_words,
        settings=_settings(everything),
        notes=scrubbed(notes),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=version("folkmoot"),
    )


def _plots(run: Evaluation) -> list[Picture]:
    try:
        return protocol_plots(run.summary.run, run.summary.report) + controls_plots(run.folder)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        # It may be somebody else's.
        raise UserError(f"{run.folder / SUMMARY}: {DAMAGED_REPORT}") from problem


def _settings(
    runs: Sequence[ShownRun],
) -> list[tuple[str, dict[str, list[tuple[str, list[str]]]]]]:
    """Return every setting with its value in each run, by agent or other group: first those that
    differ, then the others.
    """
    settings = [settings_of_run(scrubbed(run.evaluation.summary.run)) for run in runs]
    differing: dict[str, list[tuple[str, list[str]]]] = {}
    shared: dict[str, list[tuple[str, list[str]]]] = {}
    for name in dict.fromkeys(chain.from_iterable(settings)):
        values = [shortened(params.get(name, ""), LONGEST_SETTING) for params in settings]
        seat, _, last = name.rpartition(".")
        rows = differing if len(set(values)) > 1 else shared
        rows.setdefault(seat.replace("lm.", "LM of ") or name, []).append((last, values))
    same = "What all runs share" if len(runs) > 1 else "All settings of this run"
    return [("What differs between the runs", differing), (same, shared)]


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=shown_text,
    )
    environment.filters |= {
        "percent": lambda share: f"{100 * share:.1f}%",
        "value": lambda score: percent(score).partition(" ")[0],
        "interval": lambda score: score_words("", score)[1],
        "signed": signed,
        "number": _number,
        "money": money,
        "clean": clean,
        "json": json_in_page,
        "hash": _hash,
        "gains": _gains,
        "times": lambda ratio: "" if ratio is None else f"{ratio:.2f}×",
        "seconds": lambda value: "unknown" if value is None else duration(value),
    }
    return environment.from_string((TEMPLATES / "report.html.j2").read_text(encoding="utf-8"))


def _hash(text: str) -> Markup:
    """Return the hash by which a content-security policy allows a script or style."""
    return Markup(f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}")


def _number(value: object) -> str:
    if not is_number(value):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.4g}"
