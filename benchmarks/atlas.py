"""Writes the atlas: does a team help, by answers that others have recorded? No LM is called.

`python benchmarks/atlas.py FOLDER` reads the recorded answers in the folder and prints the atlas's
tables; `--write` writes `docs/atlas.md` and its figure. `--only NAME` keeps the data sets whose
name has that text. Logs of your own (Inspect, lm-eval, Every Eval Ever, and what else
`folkmoot import` reads), or folders of an import, are named after the folder; they alone are shown
then: `python benchmarks/atlas.py FOLDER my-logs/`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import eq
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from forecast import coded  # type: ignore[import-not-found]
from recorded_answers import read  # type: ignore[import-not-found]

from folkmoot.modules.reading.row import ResultRow
from folkmoot.modules.statistics.controls import expected_vote, gain_part
from folkmoot.modules.statistics.panels import PanelEstimate, best_panel
from folkmoot.modules.statistics.vote_forecast import ABSTAINED, RIGHT, Codes, fit_vote_model
from folkmoot.pipelines.forecasting.forecast import vote_codes
from folkmoot.pipelines.logs.import_log import OUTCOMES, Imported, import_log
from folkmoot.pipelines.plots.figure import BLUE, GREY, new_figure
from folkmoot.pipelines.runs.outcomes import outcomes_in

DOCS = Path(__file__).resolve().parent.parent / "docs"
PICTURE = "atlas"
MOST, FEWEST_AGENTS = 5, 5
SEEDS = range(5)
"""Of the halves. Halves differ, so that the estimate in the middle of five is shown."""

SOURCES = {
    "zeroeval.wide": ("ZeroEval", "Apache-2.0", "WildEval/ZeroEval"),
    "mmlu_pro.wide": ("MMLU-Pro", "Apache-2.0", "TIGER-AI-Lab/MMLU-Pro"),
    "faithful_cot.wide": ("Faithful-CoT", "MIT", "veronica320/Faithful-COT"),
    "llmrouter_scores.wide": ("LLMRouter", "MIT", "ulab-uiuc/LLMRouter"),
    "bbh.wide": ("BIG-Bench Hard", "MIT", "suzgunmirac/BIG-Bench-Hard"),
    "dylan_mmlu.threads": ("DyLAN", "MIT", "SALT-NLP/DyLAN"),
    "hotpotqa_traces": ("Reflexion", "MIT", "noahshinn/reflexion"),
}
"""The files: what each is called, its licence, and the public repository that it is from."""


@dataclass
class DataSet:
    """Coded answers (questions, agents) to one data set; without `votes`, right or wrong alone."""

    name: str
    source: str
    answers: Codes
    votes: bool = True
    options: int | None = None
    panel: PanelEstimate | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.votes and self.answers.shape[1] >= FEWEST_AGENTS:
            by_agent = [[None if x == ABSTAINED else int(x) for x in one] for one in self.answers.T]
            right = (self.answers.T == RIGHT).tolist()
            found = [best_panel(by_agent, right, MOST, seed=seed) for seed in SEEDS]
            self.panel = sorted(found, key=lambda one: one.difference)[len(SEEDS) // 2]

    @property
    def effective(self) -> float:
        """How many independent agents these are worth."""
        agents = self.answers.shape[1]
        return agents / (1 + (agents - 1) * fit_vote_model(self.answers, self.options).correlation)

    def cells(self) -> list[str]:
        """A line of the table."""
        right = self.answers == RIGHT
        single, panel, gain, times = f"{right.mean(axis=0).max():.1%}", "–", "–", "–"
        if (found := self.panel) is not None:
            single, panel = f"{found.single_score:.1%}", f"{found.score:.1%}"
            ends = f"{100 * found.low:+.1f} to {100 * found.high:+.1f}"
            gain, times = f"{100 * found.difference:+.1f} ({ends})", f"× {len(found.members)}"
        questions, agents = right.shape
        return [
            *(self.name, self.source, f"{agents}", f"{questions:,}", single, panel, gain, times),
            *(f"{self.effective:.1f}", f"{right.any(axis=1).mean():.1%}"),
        ]


HEAD = [
    *("data set", "source", "agents", "questions", "best single", "best panel"),
    *("gain in points (95% interval)", "price", "worth in voters", "any agent right"),
]
TALK_HEAD = ["team", "questions", "one first answer", "vote", "talk over the vote"]


def data_sets(folder: Path, only: str) -> Iterator[DataSet]:
    """Every data set of the folder whose name has the text `only`."""
    for file in ("zeroeval.wide", "mmlu_pro.wide", "faithful_cot.wide"):
        source = SOURCES[file][0]
        for dataset, recorded in read(folder / f"{file}.jsonl").items():
            if only in f"{source} {dataset}":
                options = 9 if file == "mmlu_pro.wide" else None
                yield DataSet(dataset, source, coded(recorded), options=options)
    scores = defaultdict(list)
    with open(folder / "llmrouter_scores.wide.jsonl", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if "scores" in row:
                scores[row["dataset"]].append(row["scores"])
    for dataset, rows in scores.items():
        table = np.array(rows)
        # Right is a score of 1; what lies between, as of overlapping words, is neither.
        if np.isin(table, (0, 1)).all() and only in f"LLMRouter {dataset}":
            yield DataSet(dataset, "LLMRouter", np.where(table == 1, RIGHT, 1), votes=False)
    if only in "BIG-Bench Hard":
        tasks = [coded(one) for one in read(folder / "bbh.wide.jsonl").values()]
        yield DataSet("27 tasks", "BIG-Bench Hard", np.concatenate(tasks), votes=False)


def own_data_sets(logs: Sequence[str]) -> Iterator[tuple[DataSet, dict[str, Any]]]:
    """Each log of the user's, and what its dialogues gained."""
    for log in logs:
        with tempfile.TemporaryDirectory() as scratch:
            imported = Path(log) / OUTCOMES
            gains: dict[str, Any] = {}
            if not imported.is_file():
                made = import_log(log, out=Path(scratch) / "import")
                imported, gains = made.outcomes, gains_of(made)
            outcomes = outcomes_in(imported)
        answers, *_ = vote_codes(outcomes)
        wrong = None if outcomes.options is None else outcomes.options - 1
        yield DataSet(Path(log).name, "yours", answers, options=wrong), gains


def gains_in(rows: Iterable[ResultRow]) -> dict[str, object]:
    """The gains of a team's dialogues: `first_answer` (a share), `vote_gain` and `talk_gain`
    (differences with 95% intervals), each over `n` questions; empty without a dialogue.

    First answers are those of the first round. Each question counts once, by the mean over its
    repeats.
    """
    levels: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for row in rows:
        turns, gold = row["transcript"], row["gold"]
        if len(turns) < 2 or gold is None or row["error"]:
            continue
        begin = min(turn["round"] for turn in turns)
        answers = [turn["answer"] for turn in turns if turn["round"] == begin]
        first = fmean(answer == gold for answer in answers)
        vote = expected_vote(answers, partial(eq, gold))
        levels[row["id"]].append((first, vote, float(bool(row["correct"]))))
    if not levels:
        return {}
    means = ([fmean(level) for level in zip(*repeats, strict=True)] for repeats in levels.values())
    firsts, votes, teams = zip(*means, strict=True)
    n = {"n": len(firsts)}
    return {
        "first_answer": {"value": fmean(firsts), **n},
        "vote_gain": gain_part(firsts, votes)._asdict() | n,
        "talk_gain": gain_part(votes, teams)._asdict() | n,
    }


def gains_of(imported: Imported) -> dict[str, Any]:
    """What the dialogues of each agent that is a team gained."""
    gains = {name: gains_in(run.rows) for name, run in imported.runs.items()}
    return {name: found for name, found in gains.items() if found}


def talk_rows(gains: dict[str, Any]) -> list[list[str]]:
    """A line for each team that talked: first answers, their vote, and what talk adds to it."""
    rows = []
    for team, of in sorted(gains.items()):

        def gain(name: str, of: Any = of) -> str:
            value, low, high = (100 * of[name][end] for end in ("value", "low", "high"))
            return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"

        first = of["first_answer"]
        rows.append(
            [
                *(team, f"{first['n']:,}", f"{first['value']:.1%}"),
                *(gain("vote_gain"), gain("talk_gain")),
            ]
        )
    return rows


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines)


def summary(sets: Sequence[DataSet], talk: list[list[str]]) -> str:
    """The first lines of the page."""
    panels = [one.panel for one in sets if one.panel is not None]
    better = [one for one in panels if one.low > 0]
    worse = [one for one in panels if one.high < 0]
    gains = sorted(100 * one.difference for one in panels)
    members = [len(one.members) for one in panels]
    words = (
        "**Does a team help? Often, by a few points, for several times the price.** On "
        f"{len(better)} of {len(panels)} data sets, the majority vote of a few chosen programs is "
        f"more often right than the best single program; on {len(worse)} it is less often right; "
        f"on {len(panels) - len(better) - len(worse)} no difference is shown. The differences go "
        f"from {gains[0]:+.1f} to {gains[-1]:+.1f} points, with {np.median(gains):+.1f} in the "
        f"middle, for {min(members)} to {max(members)} times the calls."
    )
    if not talk:
        return words
    votes, talks = (", ".join(row[place].split()[0] for row in talk) for place in (3, 4))
    return (
        f"{words} Where copies of one LM vote, the vote is worth more than their talk: in DyLAN's "
        f"teams the vote of the first answers adds {votes} points to one answer, and the talk adds "
        f"{talks} to that vote."
    )


def page(sets: Sequence[DataSet], talk: list[list[str]]) -> str:
    """The page of the docs."""
    sources = "\n".join(
        f"- **{name}**: [{place}](https://github.com/{place}), {licence}"
        for name, licence, place in SOURCES.values()
    )
    return f"""# The atlas: does a team help?

{summary(sets, talk)}

![Best panel less best single program on each data set](images/{PICTURE}.svg)

These are answers that others have recorded and published, {len(sets)} data sets in all.
For your own logs: `python benchmarks/atlas.py FOLDER LOG`, or [`folkmoot import`](import.md).

## Two contests at one bill

![An agent with a critic against the agent alone: +14 points, +6 to +23](images/team-wins.svg)

Reflexion's logs on 100 questions of HotpotQA: after a wrong try, by the reference answer, a second
agent says what went wrong, and the first one tries again. It is right on 48% after 3 tries, alone
on 34% after 5, at the larger bill. The LM is text-davinci-003 at temperature 0: against an agent
that samples, the gain may be smaller. This contest was chosen after all of Reflexion's had been
seen; the interval is not corrected for that.

![Four who talk against a vote of five: no difference, -1.0 to +0.9](images/team-does-not.svg)

DyLAN's four, who read each other, against the vote of five first answers of its teams of 4 and 3.

## One program, or a panel

{table(HEAD, [one.cells() for one in sets])}

- **best single**, **best panel** (2 to {MOST} programs and a majority vote): share right. Both are
  chosen on one half of the questions and judged on the other; of five such estimates the middle
  one is shown.
- **price**: how many times the calls of one program the panel makes.
- **worth in voters**: how many independent programs these are worth, by how alike their right and
  wrong answers are.
- **any agent right**: no choice among answers exceeds it.
- **–**: the source has scores without answers (LLMRouter), or two agents (BIG-Bench Hard). There,
  best single is chosen and judged on the same questions.

## Talk over vote

DyLAN recorded what 3, 4 and 7 copies of gpt-3.5-turbo answered to questions of MMLU, first alone
and then after reading each other.

{table(TALK_HEAD, talk)}

*vote*: points of the vote of the first answers over one first answer, with 95% intervals.

## What to bear in mind

- The programs of Faithful-CoT are 5 prompts of up to 4 older LMs; ZeroEval and MMLU-Pro have one
  prompt of many LMs. Data sets of one source share LMs and are not independent.
- MMLU-Pro is a sample of 1,400 of 12,032 questions, 100 from each subject.
- Of DyLAN's 2,809 questions, the 2,504 that could be recognised in MMLU are slightly easier.
- An answer that could not be read counts as wrong.

## Sources and licences

{sources}

`python benchmarks/atlas.py FOLDER --write` makes this page from the recorded answers in FOLDER.
"""


def forest(sets: Sequence[DataSet], path: Path) -> None:
    """The gains with their intervals, the largest first."""
    import matplotlib

    # The same figures give the same file.
    matplotlib.rcParams.update({"svg.hashsalt": PICTURE, "svg.fonttype": "none"})
    shown = sorted(
        ((one.panel, f"{one.name} ({one.source})") for one in sets if one.panel is not None),
        key=lambda one: one[0].difference,
    )
    figure, (axes,) = new_figure(8, 0.8 + 0.32 * len(shown))
    axes.axvline(0, color=GREY, linewidth=1)
    for place, (found, _) in enumerate(shown):
        axes.plot([100 * found.low, 100 * found.high], [place, place], color=BLUE, linewidth=2)
        axes.plot(100 * found.difference, place, "o", color=BLUE)
    axes.set_yticks(range(len(shown)), [name for _, name in shown])
    axes.set_xlabel("best panel less best single program, points right, 95% interval")
    figure.savefig(path, metadata={"Date": None})


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("logs", nargs="*", help="logs of your own, shown in place of the folder's")
    parser.add_argument("--only", default="", help="data sets whose source and name have this text")
    parser.add_argument("--write", action="store_true", help="write the page and its figure")
    options = parser.parse_args(arguments)
    if options.logs:
        own = list(own_data_sets(options.logs))
        print(table(HEAD, [one.cells() for one, _ in own]))
        for _, gains in own:
            if gains:
                print("\n" + table(TALK_HEAD, talk_rows(gains)))
        return
    sets = list(data_sets(options.folder, options.only))
    print(table(HEAD, [one.cells() for one in sets]))
    talk: list[list[str]] = []
    if options.only in "DyLAN":
        with tempfile.TemporaryDirectory() as scratch:
            log = options.folder / "dylan_mmlu.threads.jsonl"
            talk = talk_rows(gains_of(import_log(log, out=Path(scratch) / "import")))
        print("\n" + table(TALK_HEAD, talk))
    if options.write:
        (DOCS / "atlas.md").write_text(page(sets, talk), encoding="utf-8")
        forest(sets, DOCS / "images" / f"{PICTURE}.svg")


if __name__ == "__main__":
    main()
