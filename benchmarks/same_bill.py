"""Two recorded contests at one bill, for the README: a team that wins, and one that does not.

`python benchmarks/same_bill.py FOLDER` reads the recorded answers in the folder and prints both;
`--write` draws them as `docs/images/team-wins.svg` and `docs/images/team-does-not.svg`. No LM is
called.

The winner is Reflexion on HotpotQA (ReAct, 100 questions): after a wrong attempt a second agent
says what went wrong, and the first one tries again. Its rival is the same agent without the
second, which may try more often. A try is at least two calls, a critique is one, and nobody tries
again after a right answer, so the rival has the larger bill.

The other one is DyLAN on MMLU: four copies of gpt-3.5-turbo that read each other's answers,
against the vote of five answers that such copies gave alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import folkmoot as fm

ROOT = Path(__file__).resolve().parent.parent
ACTOR, WITH_CRITIC = "reflexion:ReAct|base", "reflexion:ReAct|reflexion"
ALONE_TRIES, TEAM_TRIES = 5, 3
VOTERS = 5


class Contest(NamedTuple):
    """Right or wrong by program and question; the rival comes first."""

    picture: str
    title: str
    bill: str
    right: dict[str, dict[str, bool]]


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as rows:
        yield from map(json.loads, rows)


def critics(folder: Path) -> Contest:
    """An actor with a critic, against the actor alone, which tries more often."""
    trials = attempts(folder)
    after = {
        f"one agent, {ALONE_TRIES} tries": trials[ACTOR][ALONE_TRIES],
        f"with critic, {TEAM_TRIES} tries": trials[WITH_CRITIC][TEAM_TRIES],
    }
    alone, team = tried(trials[ACTOR], ALONE_TRIES), tried(trials[WITH_CRITIC], TEAM_TRIES)
    critiques = team - len(trials[WITH_CRITIC][1])
    bill = (
        f"Bill: {alone} tries of 2 to 12 calls, against {team} and {critiques} critiques of 1 call."
    )
    return Contest("team-wins", "HotpotQA, 100 questions, a search tool (Reflexion)", bill, after)


def attempts(folder: Path) -> dict[str, dict[int, dict[str, bool]]]:
    """By agent and number of attempts: which questions are right by then."""
    right: dict[str, dict[int, dict[str, bool]]] = {ACTOR: {}, WITH_CRITIC: {}}
    for row in lines(folder / "hotpotqa_traces.jsonl"):
        if row["agent"] in right:
            by_then = right[row["agent"]].setdefault(row["round"], {})
            by_then[row["question_id"]] = bool(row["correct"])
    return right


def tried(right: dict[int, dict[str, bool]], most: int) -> int:
    """How many attempts were made at all questions together."""
    again = sum(not won for number in range(1, most) for won in right[number].values())
    return len(right[1]) + again


def talkers(folder: Path) -> Contest:
    """Four who read each other, against the vote of five who do not."""
    teams: dict[str, dict[str, dict[str, Any]]] = {"3agents": {}, "4agents": {}}
    for row in lines(folder / "dylan_mmlu.threads.jsonl"):
        if row.get("run") in teams:
            teams[row["run"]][row["question_id"]] = row
    vote, talk = {}, {}
    for name, four in teams["4agents"].items():
        if three := teams["3agents"].get(name):
            alone = [*first_answers(four), *first_answers(three)][:VOTERS]
            vote[name] = most_frequent(alone) == four["gold"]
            talk[name] = four["final"] == four["gold"]
    calls = fmean(len(teams["4agents"][name]["turns"]) for name in talk)
    bill = f"Bill: {VOTERS:.1f} calls a question, against {calls:.1f}."
    right = {f"vote of {VOTERS} answers": vote, "four who talk": talk}
    return Contest("team-does-not", f"MMLU, {len(talk):,} questions (DyLAN)", bill, right)


def first_answers(dialogue: dict[str, Any]) -> list[str | None]:
    return [answer for number, _, answer, *_ in dialogue["turns"] if number == 0]


def most_frequent(answers: Sequence[str | None]) -> str | None:
    """The answer that most gave, of several the earliest."""
    given = [answer for answer in answers if answer is not None]
    return Counter(given).most_common(1)[0][0] if given else None


def compared(contest: Contest) -> fm.Comparison:
    """What `folkmoot import` and `folkmoot compare` make of the answers."""
    with tempfile.TemporaryDirectory() as name:
        table = Path(name, "answers.csv")
        with table.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["question_id", "agent", "answer", "correct"])
            for agent, right in contest.right.items():
                for question, won in right.items():
                    writer.writerow([question, agent, "right" if won else "wrong", int(won)])
        runs = fm.import_log(table, out=Path(name, "imported")).runs
        return fm.compare(*(runs[agent] for agent in contest.right), names=list(contest.right))


def screen(contest: Contest) -> list[str]:
    """What a terminal shows, with the bill in place of prices, which are not recorded."""
    comparison = compared(contest)
    head, *rows = comparison.table()
    until = head.index("price")
    table = [line[:until].rstrip() for line in (head, *rows)]
    pair = comparison.against[0]
    shown = comparison.short if pair.outcome == "undecided" else f"{pair.headline.capitalize()}."
    return [contest.title, "", *table, "", shown, contest.bill]


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="draw the pictures")
    given = parser.parse_args(None if arguments is None else list(arguments))
    for contest in (critics(given.folder), talkers(given.folder)):
        shown = screen(contest)
        print(*shown, "", sep="\n")
        if given.write:
            sys.path.insert(0, str(ROOT / "docs"))
            from make_pictures import animated  # type: ignore[import-not-found]

            picture = ROOT / "docs" / "images" / f"{contest.picture}.svg"
            picture.write_text(animated([shown], contest.title), encoding="utf-8")


if __name__ == "__main__":
    main()
