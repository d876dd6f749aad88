"""What a contest's folder says of its end: the outcome in words, the standings and the course."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ..base.journal import read_object
from ..base.wording import counted, money
from ..comparison.table import Range, Standing
from ..runs.manifest import CONTEST


@dataclass(frozen=True)
class ContestResult:
    """How a contest ended.

    `sentences` say the outcome and which program to take, the `winner`; `standings` are of the
    programs that were asked, the `reference` first. `course` has how far each was from it at each
    look, as dicts with `questions`, `name`, `difference`, `low` and `high`; `runs` are the folders
    of the programs' runs by name, and `questions` how many the race used.
    """

    sentences: list[str]
    winner: str
    standings: list[Standing]
    course: list[dict[str, object]]
    runs: dict[str, Path]
    outcome: str
    questions: int
    paid: float | None

    @property
    def reference(self) -> str:
        return self.standings[0].name

    @property
    def take(self) -> Standing | None:
        """The standing of the winner; None where it was compiled after the race."""
        return next((one for one in self.standings if one.name == self.winner), None)


def contest_result(folder: Path) -> ContestResult | None:
    """The result of the contest in a folder; None where there is none. Raises UserError for a
    damaged one.
    """
    result = (read_object(folder / CONTEST) or {}).get("result")
    if not isinstance(result, dict):
        return None
    try:
        return ContestResult(
            contest_sentences(result),
            str(result["winner"]),
            [_standing(place) for place in result["standings"] if not place["free"]],
            [
                {"name": str(step["name"]), "questions": int(step["questions"])}
                | {end: float(step[end]) for end in ("difference", "low", "high")}
                for step in result.get("course", ())
            ],
            {
                str(name): folder / "runs" / Path(place).name
                for name, place in result["runs"].items()
                if (folder / "runs" / Path(place).name).is_dir()
            },
            str(result["outcome"]),
            int(result["questions"]),
            result["paid"]["cost_usd"],
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{folder / CONTEST} is damaged: run the contest again") from None


def _standing(place: Mapping[str, Any]) -> Standing:
    ends = [place[f"difference{end}"] for end in ("", "_low", "_high")]
    note = "reference" if place["reference"] else place["reason"] and f"out: {place['reason']}"
    return Standing(
        str(place["name"]),
        Range(*(float(place[name]) for name in ("right", "low", "high"))),
        None if None in ends else Range(*map(float, ends)),
        None if place["multiple"] is None else float(place["multiple"]),
        str(note),
        None if place["usd"] is None else float(place["usd"]),
    )


def contest_sentences(result: Mapping[str, Any]) -> list[str]:
    """The outcome of a contest in three sentences at most."""
    sentences = [f"{_capital(result['outcome'])}: {result['reason']}."]
    if result["outcome"] == "undecided":
        sentences.append(_prediction(result))
    elif result["bound"]:
        sentences.append(f"{_capital(result['bound'])}.")
    sentences.append(_take(result))
    return [one for one in sentences if one]


def _prediction(result: Mapping[str, Any]) -> str:
    needed, usd = result["needed"], result["needed_usd"]
    parts = []
    if needed is not None:
        more = f" ({money(usd)} more)" if usd else ""
        parts.append(f"about {counted(needed, 'question')}{more} would decide it")
    if result["bound"]:
        parts.append(result["bound"])
    return f"{_capital('; '.join(parts))}." if parts else ""


def _take(result: Mapping[str, object]) -> str:
    name, confirmed = result["winner"], result["confirmation"]
    if confirmed:
        return f"Take {name}: {confirmed}."
    if result["chosen_on_same"]:
        return f"Take {name}: chosen and measured on the same questions: expect 1–3 points less."
    return f"Take {name}: it is the cheapest that nothing is shown to beat."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
