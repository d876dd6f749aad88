"""Writes docs/images/*.svg from the recorded runs: `make pictures`. No LM is called.

The recording of a contest for the README, and a picture for each claim of docs/findings.md.
"""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

import folkmoot as fm
from folkmoot.pipelines.comparison.table import table_lines
from folkmoot.pipelines.contest.standing import places
from folkmoot.pipelines.plots.figure import BLUE, GREY, ORANGE, new_figure

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
RECORDED = ROOT / "examples" / "recorded"
LARGER, SMALLER = "csqa-simple", "csqa-small-simple"
SMALLER_TOO = ("csqa-small-samples-worked", "csqa-small-worked", "csqa-small-blind")
"""Further runs of the smaller LM, whose answers the contest needs."""

LOOK = 10
"""A frame of the recording is taken whenever so many more questions are answered."""

SECONDS, HOLD = 1.2, 6.0
LINE, LETTER, MARGIN = 18, 7.83, 14


def unpack(folder: Path) -> None:
    for archive in sorted(RECORDED.glob("*.tar.xz")):
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")


# The recording


def contest_frames() -> list[list[str]]:
    """A contest on recorded answers: what its screen shows while it runs, and its ending.

    Four programs of Qwen2.5-Coder 0.5B and one prompt of the 1.5B, in the working folder.
    """
    calls = [Path(name, "calls.jsonl").read_text() for name in (SMALLER, *SMALLER_TOO)]
    Path(SMALLER, "calls.jsonl").write_text("".join(calls))
    alone = fm.SingleAgent("simple")
    alone.set_lm(fm.lm(f"replay/{LARGER}"))
    # A panel of one: a fair opponent would ask samples of a prompt, which are not recorded.
    larger = fm.Ensemble([alone])
    words = RECORDED / "words" / "intuitive.yaml"
    talk = fm.Deliberation(
        ["intuitive", "reasoner"], tie_break="judge", opening="blind", prompts=words
    )
    frames: dict[int, list[str]] = {}

    def look(race: Any) -> None:
        answered = min((len(lane.answers) for lane in race.asked), default=0)
        if answered % LOOK == 0 and answered and race.watch is not None:
            state = f"{answered} of {len(race.questions)} questions"
            standings = [one.shown for one in places(race)]
            frames[answered] = [*table_lines(standings, standings[0].name), "", state]

    contest = fm.contest(
        fm.load(f"{LARGER}/questions.jsonl"),
        field={"step by step": fm.SingleAgent("cot"), "two who talk": talk, "larger LM": larger},
        lm=fm.lm(f"replay/{SMALLER}"),
        out="contest",
        seed=13,
        tracking=False,
        on_question=look,
    )
    ending = [*table_lines(contest.asked, contest.asked[0].name), "", *contest.sentences]
    return [*frames.values(), ending]


def animated(frames: Sequence[Sequence[str]], title: str) -> str:
    """The frames as one SVG, one after the other; without animation the last one is shown."""
    wrapped = [[part for line in frame for part in _wrapped(line)] for frame in frames]
    width = round(80 * LETTER + 2 * MARGIN)
    height = LINE * (max(map(len, wrapped)) + 1) + MARGIN
    total = SECONDS * (len(frames) - 1) + HOLD
    style = [
        "text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#dde;white-space:pre}",
        f".f{{visibility:hidden;animation:{total:g}s step-end infinite}}",
        ".last{visibility:visible}",
    ]
    body = []
    for place, lines in enumerate(wrapped):
        start = 100 * SECONDS * place / total
        end = 100 * SECONDS * (place + 1) / total if place + 1 < len(wrapped) else 100
        keys = f"0%{{visibility:{'visible' if not place else 'hidden'}}}"
        keys += f"{start:.2f}%{{visibility:visible}}"
        keys += f"{end:.2f}%{{visibility:{'hidden' if end < 100 else 'visible'}}}"
        style.append(f"@keyframes k{place}{{{keys}}}.k{place}{{animation-name:k{place}}}")
        last = " last" if place + 1 == len(wrapped) else ""
        texts = "".join(_text(number, line) for number, line in enumerate(lines))
        body.append(f'<g class="f k{place}{last}">{texts}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img"><title>{escape(title)}</title><style>{"".join(style)}</style>'
        f'<rect width="{width}" height="{height}" rx="8" fill="#1d2130"/>{"".join(body)}</svg>\n'
    )


def _text(number: int, line: str) -> str:
    grey = ' opacity=".5"' if " out: " in line else ""
    place = f'x="{MARGIN}" y="{LINE * (number + 1) + MARGIN // 2}"'
    return f'<text {place} xml:space="preserve"{grey}>{escape(line)}</text>'


def _wrapped(line: str, width: int = 80) -> list[str]:
    lines = [""]
    for word in line.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) + 1 > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] or line.startswith(" ") else word
    return [line] if len(line) <= width else lines


# The findings


class Bar(NamedTuple):
    """A line of a picture: what it shows, in points or per cent, with the ends of its interval."""

    label: str
    value: float
    low: float
    high: float
    note: str = ""


SMALL = "0.5B"
DIFFERENCES: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "larger-lm": (
        "A larger LM (1.5B) less a smaller one (0.5B)",
        {"CommonsenseQA": (SMALLER, LARGER)},
    ),
    "thinking": (
        "Reasons before the answer, less the answer alone",
        {
            "CommonsenseQA": (LARGER, "csqa-cot"),
            "ARC-Challenge": ("arc-simple", "arc-cot"),
            f"CommonsenseQA, {SMALL}": (SMALLER, "csqa-small-cot"),
        },
    ),
    "talk": (
        "Two who talk, less one prompt",
        {
            "CommonsenseQA": (LARGER, "csqa-blind"),
            "ARC-Challenge": ("arc-simple", "arc-blind"),
            f"CommonsenseQA, {SMALL}": (SMALLER, "csqa-small-blind"),
            "CommonsenseQA, in turn": (LARGER, "csqa-talk"),
            f"the same, {SMALL}": (SMALLER, "csqa-small-talk"),
        },
    ),
    "fair-opponent": (
        "Two who talk, less one prompt asked three times",
        {
            "CommonsenseQA": ("csqa-samples", "csqa-blind"),
            f"CommonsenseQA, {SMALL}": ("csqa-small-samples", "csqa-small-blind"),
        },
    ),
    "unlike": (
        "Teams of unlike LMs, less one prompt to the best of them",
        {
            "vote of three LMs": (LARGER, "csqa-unlike"),
            "two LMs who talk": (LARGER, "csqa-blind-mixed"),
            "network of three LMs": (LARGER, "csqa-network"),
        },
    ),
    "checking": (
        "Teams that check or search, less one agent",
        {
            "evaluators, GSM8K": ("gsm8k-cot", "gsm8k-causal"),
            "evaluators, ScienceQA": ("scienceqa-cot", "scienceqa-causal"),
            "supervisor, HotpotQA": ("hotpot-bold", "hotpot-team"),
        },
    ),
    "compiling": (
        "After compiling or tuning, less before",
        {
            "4 examples (bootstrap)": (
                "csqa-small-bootstrap/before",
                "csqa-small-bootstrap/after",
            ),
            "instructions (MIPRO)": ("csqa-small-mipro/before", "csqa-small-mipro/after"),
            "rounds and tie-break": (
                "csqa-tuned/validation/default",
                "csqa-tuned/validation/winner",
            ),
        },
    ),
}
"""Pictures of differences by name: the title, and by label the two runs."""

ASKED = {
    "step by step, earlier words": "gsm8k-cot",
    "many small steps": "gsm8k-complexity",
    "the first, three times": "gsm8k-samples",
    "two who talk": "gsm8k-talk",
    "step by step, words of today": "gsm8k-worked",
}


def difference(label: str, before: str, after: str) -> Bar:
    """What `folkmoot compare` says of two runs."""
    comparison = fm.compare(before, after)
    pair = comparison.against[0]
    low, high = pair.interval
    prices = comparison.verdict.prices
    reference, other = (prices[each] or 0.0 for each in comparison.names)
    return Bar(
        label, 100 * pair.difference, 100 * low, 100 * high, f"{other / reference:.1f}× the price"
    )


def draw(name: str, title: str, bars: Sequence[Bar], unit: str, zero: bool = True) -> None:
    """A line for each bar, the first on top, with a line at zero."""
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}
    with matplotlib.rc_context(style):
        figure, (axes,) = new_figure(7.2, 0.95 + 0.36 * len(bars), dpi=72)
        for place, bar in enumerate(reversed(bars)):
            shown = zero and bar.low <= 0 <= bar.high
            colour = GREY if shown else BLUE if bar.value > 0 or not zero else ORANGE
            axes.plot([bar.low, bar.high], [place, place], color=colour, linewidth=3)
            axes.plot(bar.value, place, "o", color=colour, markersize=8)
            axes.annotate(bar.note, (1.02, place), xycoords=("axes fraction", "data"), va="center")
        if zero:
            axes.axvline(0, color="black", linewidth=0.8)
        axes.set_yticks(range(len(bars)), [bar.label for bar in reversed(bars)])
        axes.set_ylim(-0.6, len(bars) - 0.4)
        axes.set_xlabel(unit)
        axes.set_title(title, loc="left", fontsize=11)
        figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})


def findings() -> None:
    for name, (title, pairs) in DIFFERENCES.items():
        bars = [difference(label, *runs) for label, runs in pairs.items()]
        draw(name, title, bars, "points, with the 95% interval")
    asked = []
    for label, run in ASKED.items():
        summary = json.loads(Path(run, "summary.json").read_text())
        score, usage = summary["scores"]["accuracy"], summary["usage"]
        tokens = (usage["prompt_tokens"] + usage["completion_tokens"]) / 50
        value, low, high = (100 * score[end] for end in ("value", "low", "high"))
        asked.append(Bar(label, value, low, high, f"{tokens:,.0f} tokens"))
    draw("asked", "Right on GSM8K, by how the LM is asked", asked, "% right", zero=False)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["FOLKMOOT_CACHE"] = f"{folder}/cache"
        unpack(Path(folder))
        findings()
        IMAGES.joinpath("contest.svg").write_text(animated(contest_frames(), "A contest"))
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
