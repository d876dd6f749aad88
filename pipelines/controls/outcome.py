"""The result of controls: the parts of a team's gain, the optional arms, and the sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ...modules.statistics.controls import LEVELS, PARTS, gain_part, gain_parts
from ...modules.statistics.statistics import Estimate
from ..base.cards import ShownResult
from ..base.journal import read_object
from ..base.wording import counted, signed_interval
from ..comparison.words import Sentence
from ..plots.figure import BLUE, GREY, ORANGE, Units, new_figure, saved

HOME, CONTROLS, RESULT, WATERFALL = "controls", "controls.json", "result", "waterfall.png"
PATH_NOTE = (
    "The parts are measured in this order and sum to the gain; in another order they could differ."
)
NAMES = {
    "first": "one first answer",
    "sampling": "the vote",
    "re_evaluation": "thinking again alone",
    "presence": "peers being there",
    "content": "what peers say",
    "talk": "talk",
    "decider": "who decides",
}
ACTS = {"first": "one agent", "sampling": "a pick among several", "talk": "the team"}
"""The same for a program whose agents are not known: it is split against one agent at its bill."""


@dataclass
class Controls(ShownResult):
    """The parts of a team's gain over one of its agents, over `questions` questions.

    `parts` has `sampling`, `re_evaluation`, `presence`, `content` and `decider`, each with `value`,
    `low` and `high`; they sum to `total`. Where one of the middle three was not asked, `talk`
    stands for them. `levels` are the scores along the path, `arms` the team's gain over each other
    arm, `scores` theirs; `sentence` is the conclusion.
    """

    folder: Path
    questions: int = 0
    left_out: int = 0
    agents: list[str] = field(default_factory=list)
    levels: dict[str, float] = field(default_factory=dict)
    parts: dict[str, Estimate] = field(default_factory=dict)
    talk: Estimate | None = None
    total: Estimate | None = None
    arms: dict[str, Estimate] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    rate: bool = True
    notes: list[str] = field(default_factory=list)
    calls: int = 0
    cost_usd: float | None = None
    stopped: str | None = None
    spent: str | None = None  # the budget that stopped it

    @property
    def empty(self) -> bool:
        """Whether no question is finished."""
        return not self.questions

    @property
    def steps(self) -> dict[str, Estimate]:
        """The known parts, in order."""
        if "content" in self.parts or self.talk is None:
            return self.parts
        steps = {"sampling": self.parts["sampling"], "talk": self.talk}
        if "decider" in self.parts:
            steps["decider"] = self.parts["decider"]
        return steps

    @property
    def names(self) -> Mapping[str, str]:
        """What the parts are called."""
        # Without last answers, the agents of the program are not known.
        if "last" in self.levels:
            return NAMES
        return NAMES | ACTS

    sentence = Sentence("gain", "The gain, and how much of it is the vote and what peers say.")

    def plot(self, path: str | Path) -> Path:
        """Draw the parts as steps with their 95% intervals, from the score of one first answer to
        the team's, as PNG or SVG.
        """
        units = Units.of(self.rate)
        scale, level = units.scale, units.scale * self.levels["first"]
        figure, [axes] = new_figure(8, 4)
        axes.bar(["one first\nanswer"], [level], color=GREY)
        lowest = level
        for name, part in self.steps.items():
            value, low, high = map(units.drawn, part)
            label = self.names[name].replace(" ", "\n")
            color = BLUE if value >= 0 else ORANGE
            axes.bar([label], [value], bottom=level, color=color, alpha=0.6)
            axes.plot([label, label], [level + low, level + high], color="black")
            lowest, level = min(lowest, level + low), level + value
        axes.bar(["the team"], [level], color=GREY)
        axes.set(ylabel=units.score, ylim=(lowest - 0.05 * scale, None))
        axes.set_title("Where the gain comes from")
        saved(figure, Path(path))
        return Path(path)

    def lines(self) -> list[str]:
        """Return a line for each part with the score that it leads to, then the arms, and the
        sentence.
        """
        if self.empty:
            return [*self.notes, self._capital]
        level = self.levels["first"]
        table = [self._line(self.names["first"], level)]
        for name, part in self.steps.items():
            level += part.value
            table.append(self._line(f"+ {self.names[name]}", level, part))
        for name, part in self.arms.items():
            if name not in LEVELS:
                title = f"against {name.replace('_', ' ')}"
                table.append(self._line(title, self.scores[name], part))
        return [*table, "", *self.notes, PATH_NOTE, self._capital]

    def _line(self, name: str, score: float, part: Estimate | None = None) -> str:
        score_text = f"{score:.1%}" if self.rate else f"{score:.3g}"
        gain = signed_interval(*part, is_rate=self.rate) if part else ""
        return f"{name:<26}{score_text:>7}  {gain}"

    @property
    def _capital(self) -> str:
        return f"On {counted(self.questions, 'question')}, {self.sentence}."

    def to_dict(self) -> dict[str, object]:
        known = asdict(self)
        del known["folder"], known["scores"]
        arms = {}
        for name, part in self.arms.items():
            arms[name] = {"score": self.scores[name], **part._asdict()}
        return {
            "out": str(self.folder),
            **known,
            "parts": {name: _fields(self.parts.get(name)) for name in PARTS},
            "talk": _fields(self.talk),
            "total": _fields(self.total),
            "arms": arms,
            "sentence": self.sentence,
        }

    def __repr__(self) -> str:
        return f"Controls({self.sentence})"


def _fields(part: Estimate | None) -> Mapping[str, float | None]:
    if part is None:
        return dict.fromkeys(Estimate._fields)
    return part._asdict()


_READ = TypeAdapter(Controls)


def controls_in(folder: Path) -> Controls | None:
    """Read the controls in a folder; None where it has no complete result."""
    result = (read_object(folder / CONTROLS) or {}).get(RESULT)
    if not isinstance(result, dict) or not result.get("questions"):
        return None
    try:
        read: dict[str, Any] = {**result, "folder": folder, "parts": {}, "arms": {}, "scores": {}}
        for name, part in result["parts"].items():
            # The file names all parts, also those of arms that were not asked.
            if part["value"] is not None:
                read["parts"][name] = part
        for name, arm in result["arms"].items():
            read["scores"][name] = arm["score"]
            read["arms"][name] = itemgetter(*Estimate._fields)(arm)
        controls = _READ.validate_python(read)
        controls.lines()  # a file of the right types may still lack a level that these need
    except (ValidationError, AttributeError, KeyError, TypeError, ValueError):
        return None
    return controls


def measure_gain(
    controls: Controls, levels: Mapping[str, Mapping[str, float]], unit: float
) -> None:
    """Compute the parts over the questions that have all levels of the path, and the team's gain
    over each other arm. An arm of the path without a finished question counts as not asked.
    """
    # An arm that a budget ended at once has no score at all.
    path = {name: levels[name] for name in LEVELS if levels.get(name)}
    shared = set(path["team"]).intersection(*path.values())
    ids = list(filter(shared.__contains__, path["team"]))
    controls.questions = len(ids)
    if not ids:
        return
    scores = dict[str, list[float]]()
    for level, by_question in path.items():
        scores[level] = list(map(by_question.__getitem__, ids))
        controls.levels[level] = fmean(scores[level])
    controls.parts = gain_parts(scores, unit)
    if "content" not in controls.parts:  # both arms are needed to split the middle part
        controls.parts.pop("re_evaluation", None)
    # Where the agents' last answers are not known, the talk ends with the team's.
    controls.talk = gain_part(scores["vote"], scores.get("last", scores["team"]), unit)
    total = gain_part(scores["first"], scores["team"], unit)
    # The parts are rounded each, and a reader adds them up: the total is their sum.
    controls.total = total._replace(value=sum(part.value for part in controls.steps.values()))
    for name in levels:
        if name in ("first", "vote", "last", "team"):
            continue
        # An arm may have failed on some of the questions: it is held against the others alone.
        own, of_team = list[float](), list[float]()
        for question in ids:
            if question in levels[name]:
                own.append(levels[name][question])
                of_team.append(path["team"][question])
        if own:
            controls.scores[name] = fmean(own)
            controls.arms[name] = gain_part(own, of_team, unit)
