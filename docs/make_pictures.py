"""Writes docs/images/*.svg from the recorded runs: `make pictures`. No LM is called.

The recording of a contest for the README, and a picture for each claim of docs/findings.md.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import folkmoot as fm
from folkmoot.pipelines.contest.standing import places, table

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
RECORDED = ROOT / "examples" / "recorded"
LARGER, SMALLER = "csqa-simple", "csqa-small-simple"
SMALLER_TOO = ("csqa-small-samples", "csqa-small-cot", "csqa-small-blind")
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
    larger = fm.SingleAgent("simple")
    larger.set_lm(fm.lm(f"replay/{LARGER}"))
    words = RECORDED / "words" / "intuitive.yaml"
    talk = fm.Deliberation(
        ["intuitive", "reasoner"], tie_break="judge", opening="blind", prompts=words
    )
    frames: dict[int, list[str]] = {}

    def look(race: Any) -> None:
        answered = min((len(lane.answers) for lane in race.asked), default=0)
        if answered % LOOK == 0 and answered and race.watch is not None:
            state = f"{answered} of {len(race.questions)} questions"
            frames[answered] = [*table(places(race)), "", state]

    contest = fm.contest(
        fm.load(f"{LARGER}/questions.jsonl"),
        field={"step by step": fm.SingleAgent("cot"), "two who talk": talk, "larger LM": larger},
        lm=fm.lm(f"replay/{SMALLER}"),
        out="contest",
        seed=1,
        tracking=False,
        on_question=look,
    )
    return [*frames.values(), [*contest.table(), "", *contest.sentences()]]


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


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["FOLKMOOT_CACHE"] = f"{folder}/cache"
        unpack(Path(folder))
        IMAGES.joinpath("contest.svg").write_text(animated(contest_frames(), "A contest"))
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
