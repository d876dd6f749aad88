"""What controls have found: the parts of a team's gain, the arms beside them, and the sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NotRequired, TypedDict

from ...modules.base.calls import UsageFields
from ...optimizers.statistics.controls import LEVELS, PARTS, GainPart, gain_part, gain_parts
from ..base.html import html_result
from ..base.journal import read_object
from ..base.typed import Signed, as_read, misfit
from ..base.wording import counted, used
from ..plots.controls import waterfall_plot
from .dialogues import ANSWERED_AGAIN, Scores

CONTROLS, RESULT = "controls.json", "result"
HOME = "controls"
"""The folder of controls in that of their run."""

PATH_NOTE = (
    "This is one path among others: asked in another order, the parts could differ; together they "
    "are the gain."
)
NAMES = {
    "sampling": "the vote",
    "re_evaluation": "thinking again alone",
    "presence": "peers being there",
    "content": "what peers say",
    "decider": "who decides",
}


class PartFields(TypedDict):
    """A part as JSON; None in each where an arm that it needs was not asked."""

    value: float | None
    low: float | None
    high: float | None


class ArmFields(TypedDict):
    """An arm beside the path: its score, and what the team gains over it on the same questions."""

    score: float
    value: float
    low: float
    high: float
    questions: int
    usage: NotRequired[UsageFields]


class ControlsResult(TypedDict):
    """`result` of `controls.json`.

    `talk` is what lies between the vote of first and of last answers, which needs no call; `total`
    is the sum of the parts.
    """

    questions: int
    left_out: int
    agents: list[str]
    levels: dict[str, float]
    parts: dict[str, PartFields]
    talk: PartFields
    total: PartFields
    arms: dict[str, ArmFields]
    unit: str
    sentence: str
    notes: list[str]
    paid: UsageFields
    stopped: str | None


def result_of(
    levels: Mapping[str, Scores], usages: Mapping[str, UsageFields], *, unit: float, rate: bool
) -> dict[str, Any]:
    """The parts over the questions that have all levels of the path, and each arm against the team.

    An arm of the path that nobody has finished a question of counts as not asked.
    """
    path = {name: levels[name] for name in LEVELS if levels.get(name)}
    if not {"isolated", "placebo"} <= path.keys():
        path = {name: path[name] for name in path if name not in ANSWERED_AGAIN}
    ids = [name for name in path["team"] if all(name in scores for scores in path.values())]
    scores = {level: [found[name] for name in ids] for level, found in path.items()}
    if not ids:
        return {"questions": 0}
    parts = gain_parts(scores, unit)
    talk = _between(scores["vote"], scores["last"], unit)
    apart = [part.value for part in parts.values() if part is not None]
    if parts["content"] is None:
        apart.insert(1, talk.value)
    total = _between(scores["first"], scores["team"], unit)._replace(value=sum(apart))
    arms = {}
    for name, found in levels.items():
        shared = [question for question in ids if question in found]
        if (name in path and name not in ANSWERED_AGAIN) or not shared:
            continue
        own = [found[question] for question in shared]
        gain = _between(own, [path["team"][question] for question in shared], unit)
        arms[name] = {"score": fmean(own), **gain._asdict(), "questions": len(shared)}
        if name in usages:
            arms[name]["usage"] = usages[name]
    return {
        "questions": len(ids),
        "levels": {level: fmean(found) for level, found in scores.items()},
        "parts": {name: _fields(part) for name, part in parts.items()},
        "talk": _fields(talk),
        "total": _fields(total),
        "arms": arms,
        "unit": "points" if rate else "score",
        "sentence": sentence_of(parts, talk, total, rate=rate),
    }


def _between(before: Sequence[float], after: Sequence[float], unit: float) -> GainPart:
    return gain_part([high - low for low, high in zip(before, after, strict=True)], unit)


def _fields(part: GainPart | None) -> dict[str, float | None]:
    return dict.fromkeys(GainPart._fields) if part is None else part._asdict()


def sentence_of(
    parts: Mapping[str, GainPart | None], talk: GainPart, total: GainPart, *, rate: bool = True
) -> str:
    """Say in one sentence what of the gain is the vote, and what peers' words add."""
    sampling, content = parts["sampling"], parts["content"]
    assert sampling is not None
    what, part = ("talk", talk) if content is None else (NAMES["content"], content)
    low, high = signed(part.low, rate), signed(part.high, rate)
    return (
        f"of {signed(total.value, rate)} {'points' if rate else 'in score'}, "
        f"{signed(sampling.value, rate)} are the vote; {what} adds {signed(part.value, rate)} "
        f"[{low}, {high}]"
    )


def signed(value: float, rate: bool = True) -> str:
    """A difference with its sign, in points for shares of right answers."""
    text = f"{100 * value:+.1f}" if rate else f"{value:+.3g}"
    return text.replace("-0.0", "+0.0").replace("-", "−")


class Controls:
    """Where a team's gain over one of its agents comes from.

    `parts` has `sampling`, `re_evaluation`, `presence`, `content` and `decider`, each with `value`,
    `low` and `high`; they sum to `total`. A part that needs an arm nobody asked is None. `talk` is
    what lies between the vote of first and of last answers. `arms` are the other arms, and
    `sentence` says what comes of it.
    """

    def __init__(self, folder: Path, result: ControlsResult, keep: Any = None) -> None:
        self.folder, self.result, self._keep = folder, result, keep

    @property
    def parts(self) -> dict[str, GainPart | None]:
        return {name: _part(fields) for name, fields in self.result["parts"].items()}

    @property
    def total(self) -> GainPart | None:
        return _part(self.result["total"])

    @property
    def talk(self) -> GainPart | None:
        return _part(self.result["talk"])

    @property
    def arms(self) -> dict[str, ArmFields]:
        return self.result["arms"]

    @property
    def sentence(self) -> str:
        return self.result["sentence"]

    @property
    def stopped(self) -> str | None:
        return self.result["stopped"]

    @property
    def empty(self) -> bool:
        return not self.result["questions"]

    def plot(self, path: str | Path) -> Path:
        """Draw the parts as a waterfall with intervals, as PNG or SVG."""
        waterfall_plot(self.result, Path(path))
        return Path(path)

    def lines(self) -> list[str]:
        """A line for each level with the part that leads to it, then the arms, and the sentence."""
        if self.empty:
            return ["no question is finished"]
        rate = self.result["unit"] == "points"
        ends = {name: high for name, (_, high) in PARTS.items()}
        levels = self.result["levels"]
        lines = [f"{'one first answer':<24}{_score(levels['first'], rate):>7}"]
        for name, part in self.parts.items():
            if part is not None:
                score = _score(levels[ends[name]], rate)
                lines.append(f"{'+ ' + NAMES[name]:<24}{score:>7}  {_gain(part, rate)}")
            elif name == "re_evaluation" and self.talk is not None:
                score = _score(levels["last"], rate)
                lines.append(f"{'+ talk':<24}{score:>7}  {_gain(self.talk, rate)}")
        beside = {name: arm for name, arm in self.arms.items() if name not in levels}
        lines += ["", "the team against"] if beside else []
        for name, arm in beside.items():
            gain = _gain(GainPart(arm["value"], arm["low"], arm["high"]), rate)
            called = f"  {name.replace('_', ' ')}"
            lines.append(f"{called:<24}{_score(arm['score'], rate):>7}  {gain}")
        return [*lines, "", *self.result["notes"], PATH_NOTE, f"{self._capital()}."]

    def _capital(self) -> str:
        questions = counted(self.result["questions"], "question")
        return f"On {questions}, {self.sentence}"

    def in_words(self, *, quiet: bool = False) -> dict[str, str]:
        said = {"result": f"{self._capital()}." if not self.empty else "no question is finished"}
        more = {"asked": used(self.result["paid"]), "folder": str(self.folder)}
        return said if quiet else said | more

    def to_dict(self) -> dict[str, Any]:
        return {"out": str(self.folder), **self.result}

    def __repr__(self) -> str:
        return f"Controls({self.sentence})"

    def _repr_html_(self) -> str:
        return html_result("Where the gain comes from", self.in_words())


def _part(fields: PartFields) -> GainPart | None:
    value, low, high = fields["value"], fields["low"], fields["high"]
    return None if value is None or low is None or high is None else GainPart(value, low, high)


def _score(score: float, rate: bool) -> str:
    return f"{100 * score:.1f}%" if rate else f"{score:.3g}"


def _gain(part: GainPart, rate: bool) -> str:
    low, high = signed(part.low, rate), signed(part.high, rate)
    return f"{signed(part.value, rate):>6} [{low}, {high}]"


_END = Signed | None
_PART = as_read(PartFields, GainPart._fields, value=_END, low=_END, high=_END)
_ARM = as_read(
    ArmFields,
    ("score", *GainPart._fields),
    score=Signed,
    value=Signed,
    low=Signed,
    high=Signed,
    usage=dict[str, Any],
)
_RESULT = as_read(
    ControlsResult,
    ControlsResult.__annotations__,
    levels=dict[str, Signed],
    parts=dict[str, _PART],  # type: ignore[valid-type]
    arms=dict[str, _ARM],  # type: ignore[valid-type]
    talk=_PART,
    total=_PART,
    paid=dict[str, Any],
)


def controls_in(folder: Path | None) -> Controls | None:
    """The controls that a folder holds; None where it has no result that is whole."""
    about = None if folder is None else read_object(folder / CONTROLS)
    result = (about or {}).get(RESULT)
    if folder is None or result is None or misfit(result, _RESULT):
        return None
    found = Controls(folder, result)
    known = {name for name, part in found.parts.items() if part is not None}
    levels = {level for name in known & PARTS.keys() for level in PARTS[name]}
    whole = found.result["parts"].keys() == PARTS.keys() and {"sampling", "decider"} <= known
    return found if whole and levels <= found.result["levels"].keys() else None
