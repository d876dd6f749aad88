"""Writes the agents' atlas: what public records of agents that act show. No LM is called.

`python benchmarks/agents_atlas.py FOLDER` reads the recorded outcomes in the folder and prints the
atlas's tables; `--write` writes `docs/agents-atlas.md`, its figures, and `docs/agents-atlas.csv`
with the row of each entrant.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from atlas import table  # type: ignore[import-not-found]

from folkmoot.modules.statistics.anytime import PairWatch
from folkmoot.modules.statistics.clusters import Clustered, clustered_mean
from folkmoot.modules.statistics.paired import holm
from folkmoot.modules.statistics.statistics import mcnemar_midp
from folkmoot.pipelines.logs.formats import format_of
from folkmoot.pipelines.plots.figure import BLUE, GREY, new_figure

DOCS = Path(__file__).resolve().parent.parent / "docs"
PICTURE = "agents-atlas"
ALPHA = 0.05
TOP, PAIRS, SEED = 80, 200, 0
"""Pairs of the best entrants, drawn by this seed, on which verdicts are timed."""

_DATE = re.compile(r"-20\d{6}$")


@dataclass
class Entrant:
    """An agent on a board: by task the outcomes of its trials, and what the trials took."""

    trials: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    tokens: list[int] = field(default_factory=list)
    dollars: dict[str, float] = field(default_factory=dict)

    @property
    def rates(self) -> dict[str, float]:
        return {task: fmean(outcomes) for task, outcomes in self.trials.items()}

    @property
    def score(self) -> float:
        return fmean(self.rates.values())


class Board(NamedTuple):
    """The entrants of a board by name, and the cluster of each task that has one."""

    name: str
    entrants: dict[str, Entrant]
    clusters: dict[str, str]

    def ranked(self) -> list[str]:
        return sorted(self.entrants, key=lambda name: -self.entrants[name].score)

    def difference(self, one: str, other: str, *, clustered: bool = False) -> Clustered:
        """The first entrant's score less the other's, paired over the tasks that both tried."""
        first, second = self.entrants[one].rates, self.entrants[other].rates
        tasks = [task for task in first if task in second]
        values = [first[task] - second[task] for task in tasks]
        return clustered_mean(
            values, [self.clusters.get(task, task) if clustered else task for task in tasks]
        )


def read_board(name: str, path: Path) -> Board:
    entrants: dict[str, Entrant] = defaultdict(Entrant)
    clusters: dict[str, str] = {}
    for answered in format_of(path).read(path):
        entrant = entrants[answered.agent]
        task = answered.question_id
        entrant.trials[task].append(float(bool(answered.correct)))
        if answered.prompt_tokens:
            entrant.tokens.append(answered.prompt_tokens + (answered.completion_tokens or 0))
        if answered.cost is not None:
            entrant.dollars[task] = answered.cost
        if answered.cluster is not None:
            clusters[task] = answered.cluster
    return Board(name, dict(entrants), clusters)


def points(found: Clustered) -> str:
    return f"{100 * found.mean:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


# 1. A team against one agent ------------------------------------------------------------------

TEAMS = {
    "Sonnet 4": ("20250902_orchestrator_claude-4-sonnet", "claude-4-sonnet"),
    "Opus 4.1": ("20250906_orchestrator_claude-4.1-opus", "claude-4-1-opus"),
}
"""Teams by their LM, each with the ending of the names of single agents with the same LM."""

TEAM_HEAD = [
    *("LM", "team", "one agent", "team less one agent (95% interval)"),
    *("tokens a trial: team", "one agent"),
]


class Line(NamedTuple):
    """A row of a table, and its place on the plot."""

    cells: list[str]
    name: str
    mean: float
    low: float
    high: float


def teams(board: Board) -> list[Line]:
    lines = []
    for lm, (team, ending) in TEAMS.items():
        crew = board.entrants[team]
        singles = [name for name in board.entrants if name.endswith(ending) and name != team]
        for name in sorted(singles, key=lambda single: -board.entrants[single].score):
            single = board.entrants[name]
            found = board.difference(team, name)
            crew_tokens, tokens = mean_tokens(crew), mean_tokens(single)
            harness = name.split("_")[1]
            cells = [
                *(lm, f"{crew.score:.1%}", f"{harness} {single.score:.1%}", points(found)),
                *(thousands(crew_tokens), thousands(tokens)),
            ]
            shown = found.mean, found.low, found.high
            lines.append(Line(cells, f"{lm}: team less {harness}", *shown))
    return lines


def mean_tokens(entrant: Entrant) -> float | None:
    return fmean(entrant.tokens) if entrant.tokens else None


def thousands(tokens: float | None) -> str:
    return "–" if tokens is None else f"{tokens / 1000:,.0f} k"


# 2. A harness against the plain one -----------------------------------------------------------

PLAIN = "terminus-2"
HARNESS_HEAD = ["harness", "LM", "harness", "plain", "difference (95% interval)", "Holm's p"]


def harness_and_lm(name: str) -> tuple[str, str]:
    """The harness and the LM in a name such as `goose_claude-opus-4-5_at_anthropic`."""
    harness, _, lm = name.partition("_")
    lm = lm.partition("_at_")[0].rpartition("/")[2]
    return harness, _DATE.sub("", lm)


def harnesses(board: Board) -> list[Line]:
    names = {harness_and_lm(name): name for name in board.entrants if "," not in name}
    pairs = [key for key in names if key[0] != PLAIN and (PLAIN, key[1]) in names]
    found = [board.difference(names[key], names[PLAIN, key[1]]) for key in pairs]
    adjusted = holm([each.p for each in found])
    lines = []
    for (harness, lm), difference, p in zip(pairs, found, adjusted, strict=True):
        scores = [board.entrants[names[name, lm]].score for name in (harness, PLAIN)]
        cells = [
            *(harness, lm, *(f"{score:.1%}" for score in scores)),
            *(points(difference), f"{p:.3f}"),
        ]
        shown = difference.mean, difference.low, difference.high
        lines.append(Line(cells, f"{harness}, {lm}", *shown))
    return sorted(lines, key=lambda line: -line.mean)


def decided(line: Line) -> bool:
    """Whether a harness is shown to differ from the plain one."""
    return float(line.cells[-1]) <= ALPHA


# 3. Ranks that are shown ----------------------------------------------------------------------

RANK_HEAD = [
    *("board", "entrants", "tasks", "neighbours shown to differ", "the first is shown ahead from"),
    *("the same, tasks clustered", "flaky cells"),
]


def ranks(board: Board) -> list[str]:
    ordered = board.ranked()
    neighbours = [board.difference(a, b).p for a, b in pairwise(ordered)]
    differing = sum(p <= ALPHA for p in holm(neighbours))
    cells = [
        outcomes
        for entrant in board.entrants.values()
        for outcomes in entrant.trials.values()
        if len(outcomes) == 5
    ]
    flaky = sum(0 < sum(outcomes) < 5 for outcomes in cells)
    return [
        *(board.name, f"{len(ordered)}", f"{len(board.entrants[ordered[0]].trials)}"),
        f"{differing} of {len(ordered) - 1}",
        first_behind(board, ordered, clustered=False),
        first_behind(board, ordered, clustered=True) if board.clusters else "–",
        f"{flaky / len(cells):.0%}" if cells else "–",
    ]


def first_behind(board: Board, ordered: Sequence[str], *, clustered: bool) -> str:
    """The best rank from which on all entrants are shown to be behind the first, by Holm."""
    shown = behind_first(board, ordered, clustered=clustered)
    rank = len(ordered)
    while rank > 1 and shown[rank - 2]:
        rank -= 1
    return f"rank {rank + 1}" if rank < len(ordered) else "none"


def behind_first(board: Board, ordered: Sequence[str], *, clustered: bool) -> list[bool]:
    first = ordered[0]
    found = [board.difference(first, name, clustered=clustered) for name in ordered[1:]]
    return [p <= ALPHA for p in holm([each.p for each in found])]


# 4. Tasks that a verdict needs ----------------------------------------------------------------

WATCH_HEAD = [
    *("tasks", "pairs that differ on all tasks", "found", "wrong sign"),
    *("tasks asked on average, of pairs that differ", "of all pairs"),
]


class Watched(NamedTuple):
    """A pair that was watched: its difference on all tasks, whether that is shown there, the sign
    of the verdict, and the tasks asked until then.
    """

    difference: float
    shown: bool
    sign: int
    asked: int


def watched(board: Board, one: str, other: str, order: Sequence[str], clustered: bool) -> Watched:
    first, second = board.entrants[one].rates, board.entrants[other].rates
    values = {task: first[task] - second[task] for task in order}
    wins, losses = (sum(value == end for value in values.values()) for end in (1.0, -1.0))
    watch = PairWatch(planned=None if clustered else len(order))
    for task in order:
        if watch.update(values[task], board.clusters[task] if clustered else None) != "open":
            break
    if watch.state == "open":
        watch.last_look()
    sign = {"a": 1, "b": -1}.get(watch.state, 0)
    shown = mcnemar_midp(wins, losses) <= ALPHA
    return Watched(fmean(values.values()), shown, sign, len(watch.differences))


def watch_pairs(board: Board, clustered: bool) -> list[Watched]:
    dice = random.Random(SEED)
    pairs = dice.sample(list(combinations(board.ranked()[:TOP], 2)), PAIRS)
    order = sorted(next(iter(board.entrants.values())).trials)
    dice.shuffle(order)
    return [watched(board, one, other, order, clustered) for one, other in pairs]


def watch_row(name: str, pairs: Sequence[Watched]) -> list[str]:
    differing = [pair for pair in pairs if pair.shown]
    found = [pair for pair in differing if pair.sign * pair.difference > 0]
    wrong = [pair for pair in pairs if pair.sign * pair.difference < 0]
    return [
        *(name, f"{len(differing)} of {len(pairs)}", f"{len(found)}", f"{len(wrong)}"),
        f"{fmean(pair.asked for pair in differing):.0f}",
        f"{fmean(pair.asked for pair in pairs):.0f}",
    ]


def by_gap(pairs: Sequence[Watched]) -> list[Line]:
    """Tasks asked by the size of the difference: the median, and the middle half."""
    lines = []
    for low, high in ((0, 2), (2, 5), (5, 10), (10, 20), (20, 100)):
        asked = sorted(pair.asked for pair in pairs if low <= 100 * abs(pair.difference) < high)
        if asked:
            quarter = len(asked) // 4
            ends = float(asked[quarter]), float(asked[-1 - quarter])
            lines.append(Line([], f"{low} to {high} points apart", median(asked), *ends))
    return lines


def dollars(board: Board) -> str:
    """What the verdicts between the LMs cost until they fall, and on all tasks."""
    order = sorted(next(iter(board.entrants.values())).trials)
    random.Random(SEED).shuffle(order)
    asked, paid, whole = [], 0.0, 0.0
    pairs = list(combinations(board.ranked(), 2))
    for one, other in pairs:
        pair = watched(board, one, other, order, clustered=False)
        if pair.sign:
            asked.append(pair.asked)
        for price in (board.entrants[name].dollars for name in (one, other)):
            paid += sum(price.get(task, 0.0) for task in order[: pair.asked])
            whole += sum(price.get(task, 0.0) for task in order)
    return (
        f"{len(asked)} of the {len(pairs)} pairs are decided, after {min(asked)} to {max(asked)} "
        f"tasks; all pairs cost {paid:,.0f} USD instead of {whole:,.0f} USD."
    )


# 5. The price of a point ----------------------------------------------------------------------

PRICE_HEAD = ["LM", "solved (95% interval)", "the same, clustered", "USD a task", "USD a solution"]


def level(board: Board, name: str, clustered: bool) -> Clustered:
    rates = board.entrants[name].rates
    clusters = [board.clusters.get(task, task) if clustered else task for task in rates]
    return clustered_mean(list(rates.values()), clusters)


def prices(board: Board) -> tuple[list[list[str]], list[tuple[str, Clustered, Clustered]]]:
    rows, places = [], []
    for name in board.ranked():
        entrant = board.entrants[name]
        plain, clustered = (level(board, name, each) for each in (False, True))
        paid = list(entrant.dollars.values())
        price = clustered_mean(paid, range(len(paid)))
        solved = sum(entrant.rates.values())
        rows.append(
            [
                *(name, share(plain), share(clustered)),
                f"{price.mean:.3f} [{price.low:.3f}, {price.high:.3f}]",
                f"{sum(paid) / solved:.2f}",
            ]
        )
        places.append((name, plain, price))
    return rows, places


def share(found: Clustered) -> str:
    return f"{found.mean:.1%} [{found.low:.1%}, {found.high:.1%}]"


# 6. What a decider gets -----------------------------------------------------------------------

PICK_HEAD = [
    *("benchmark", "tasks", "one run", "the LM's pick", "any of four"),
    "share of the headroom (95% interval)",
]


def picks(path: Path) -> list[Line]:
    groups: dict[str, list[tuple[str, float, float, float]]] = defaultdict(list)
    sets: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    with open(path, encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            sets[row["lm"], row["benchmark"], row["judge"]].append(row)
    for (_, benchmark, _), rows in sets.items():
        scored = [(str(row["task"]), row["scores"], row["picked_score"]) for row in rows]
        if not any(max(scores) > 0 for _, scores, _ in scored):
            continue  # all runs failed all tasks: the set looks incomplete
        for task, scores, picked in scored:
            if picked is not None:
                cells = (task, fmean(scores), float(picked), float(max(scores)))
                groups[benchmark].append(cells)
                groups["all"].append(cells)
    return [decider(name, groups[name]) for name in sorted(groups, key=lambda name: name == "all")]


def decider(name: str, tasks: Sequence[tuple[str, float, float, float]]) -> Line:
    """The ratio of gain to headroom with the interval of its linearisation, clustered by task."""
    names, ones, picked, best = zip(*tasks, strict=True)
    one, pick, any_of = fmean(ones), fmean(picked), fmean(best)
    headroom = any_of - one
    ratio = (pick - one) / headroom if headroom else 0.0
    residuals = [p - o - ratio * (b - o) for o, p, b in zip(ones, picked, best, strict=True)]
    spread = clustered_mean(residuals, names)
    low, high = (ratio + end / headroom for end in (spread.low, spread.high))
    shown = f"{ratio:.0%} [{low:.0%}, {high:.0%}]"
    cells = [name, f"{len(tasks):,}", f"{one:.1%}", f"{pick:.1%}", f"{any_of:.1%}", shown]
    return Line(cells, name, ratio, low, high)


# The page -------------------------------------------------------------------------------------


def forest(lines: Sequence[Line], label: str, path: Path, unit: float = 100.0) -> None:
    """Estimates with their intervals, the first on top."""
    import matplotlib

    # The same figures give the same file.
    matplotlib.rcParams.update({"svg.hashsalt": PICTURE, "svg.fonttype": "none"})
    figure, (axes,) = new_figure(8, 0.8 + 0.28 * len(lines))
    axes.axvline(0, color=GREY, linewidth=1)
    for place, line in enumerate(reversed(lines)):
        axes.plot([unit * line.low, unit * line.high], [place, place], color=BLUE, linewidth=2)
        axes.plot(unit * line.mean, place, "o", color=BLUE)
    axes.set_yticks(range(len(lines)), [line.name for line in reversed(lines)])
    axes.set_xlabel(label)
    figure.savefig(path, metadata={"Date": None})


def draw_prices(places: Iterable[tuple[str, Clustered, Clustered]], path: Path) -> None:
    import matplotlib

    matplotlib.rcParams.update({"svg.hashsalt": PICTURE, "svg.fonttype": "none"})
    figure, (axes,) = new_figure(8, 4)
    for name, solved, price in places:
        across = [[price.mean - price.low], [price.high - price.mean]]
        up = [[100 * (solved.mean - solved.low)], [100 * (solved.high - solved.mean)]]
        axes.errorbar(price.mean, 100 * solved.mean, yerr=up, xerr=across, fmt="o", color=BLUE)
        axes.annotate(f"  {name}", (price.mean, 100 * solved.mean), va="bottom")
    axes.set_xlabel("USD a task, 95% interval")
    axes.set_ylabel("tasks solved, %, 95% interval")
    figure.savefig(path, metadata={"Date": None})


class Findings:
    """Everything that the page says."""

    def __init__(self, folder: Path) -> None:
        core = read_board("Terminal-Bench core", folder / "terminal_bench_core.trials.jsonl")
        second = read_board("Terminal-Bench 2", folder / "terminal_bench_2.agents.jsonl")
        verified = read_board("SWE-bench Verified", folder / "swebench_verified.agents.jsonl")
        mini = read_board("mini-SWE-agent", folder / "mini_swe_agent.costs.jsonl")
        self.boards = [core, second, verified, mini]
        self.teams = teams(core)
        self.harnesses = harnesses(second)
        self.ranks = [ranks(board) for board in (verified, second, core)]
        ordered = verified.ranked()[:20]
        self.firsts = [
            Line([], name, *verified.difference(ordered[0], name, clustered=True)[:3])
            for name in ordered[1:]
        ]
        self.alone = watch_pairs(verified, clustered=False)
        self.clustered = watch_pairs(verified, clustered=True)
        self.dollars = dollars(mini)
        self.prices, self.places = prices(mini)
        self.picks = picks(folder / "general_agentbench.picks.jsonl")

    def tables(self) -> dict[str, str]:
        watch = [
            watch_row("each by itself", self.alone),
            watch_row("clustered by repository", self.clustered),
        ]
        return {
            "teams": table(TEAM_HEAD, [line.cells for line in self.teams]),
            "harnesses": table(
                HARNESS_HEAD, [line.cells for line in self.harnesses if decided(line)]
            ),
            "ranks": table(RANK_HEAD, self.ranks),
            "watch": table(WATCH_HEAD, watch),
            "dollars": self.dollars,
            "prices": table(PRICE_HEAD, self.prices),
            "picks": table(PICK_HEAD, [line.cells for line in self.picks]),
        }

    def draw(self, folder: Path) -> None:
        def path(name: str) -> Path:
            return folder / f"{PICTURE}-{name}.svg"

        forest(self.teams, "team less one agent, points, 95% interval", path("teams"))
        forest(self.harnesses, "harness less plain, points, 95% interval", path("harnesses"))
        label = "first less this entrant, points, 95% interval, clustered"
        forest(self.firsts, label, path("ranks"))
        label = "tasks until the verdict, median and middle half"
        forest(by_gap(self.alone), label, path("watch"), unit=1.0)
        draw_prices(self.places, path("prices"))
        forest(self.picks, "share of the headroom that the pick gets, %", path("picks"))

    def write_entrants(self, path: Path) -> None:
        with open(path, "w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            head = ["board", "rank", "entrant", "solved", "low", "high", "shown_behind_first"]
            rows.writerow([*head, "tokens_a_trial", "usd_a_task"])
            for board in self.boards:
                ordered = board.ranked()
                behind = [False, *behind_first(board, ordered, clustered=bool(board.clusters))]
                for rank, name in enumerate(ordered, 1):
                    entrant = board.entrants[name]
                    found = level(board, name, clustered=bool(board.clusters))
                    figures = [f"{value:.4f}" for value in found[:3]]
                    tokens, paid = mean_tokens(entrant), list(entrant.dollars.values())
                    rows.writerow(
                        [
                            *(
                                board.name,
                                rank,
                                name,
                                *figures,
                                "yes" if behind[rank - 1] else "no",
                            ),
                            "" if tokens is None else f"{tokens:.0f}",
                            f"{fmean(paid):.4f}" if paid else "",
                        ]
                    )

    def page(self) -> str:
        tables = self.tables()
        better = [line for line in self.harnesses if decided(line)]
        up = sum(line.mean > 0 for line in better)
        pairs = len(self.harnesses)
        ahead = sum(line.low > 0 for line in self.teams)
        behind = sum(line.high < 0 for line in self.teams)
        neighbours = ", ".join(f"{row[3]} on {row[0]}" for row in self.ranks)
        everything = self.picks[-1]
        return PAGE.format(
            **tables,
            ahead=ahead,
            behind=behind,
            singles=len(self.teams),
            pairs=pairs,
            up=up,
            down=len(better) - up,
            undecided=pairs - len(better),
            neighbours=neighbours,
            headroom=everything.cells[-1],
            picture=PICTURE,
        )


PAGE = """# The atlas of agents that act

- **A team against one agent with the same LM**: of {singles} single agents on Terminal-Bench
  core, the team of agents is shown better than {ahead} and worse than {behind}.
- **A harness against the plain one with the same LM**: of {pairs} pairs on Terminal-Bench 2,
  {up} are shown better, {down} worse, and {undecided} are undecided.
- **Ranks**: neighbours on a leaderboard that are shown to differ: {neighbours}.
- **A decider**: an LM that picks one of four runs gets {headroom} of what a perfect pick would
  add to one run.

These are public records of what agents did. [`folkmoot import`](import.md#agents-that-act-on-tasks)
reads yours.

## 1. A team against one agent, same LM

![Team less one agent](images/{picture}-teams.svg)

{teams}

An Orchestrator sends subtasks to agents with the same LM. 80 tasks, 5 trials each; intervals
are Student's, over tasks. Half to two thirds of the team's trials recorded tokens, so their means
say little about a bill; the team's would not have bought one trial of chaterm. Trials that failed
in the harness count as failed.

## 2. A harness against the plain one, same LM

![Harness less Terminus 2](images/{picture}-harnesses.svg)

{harnesses}

The table has the pairs that are shown to differ. The plain harness, Terminus 2, gives the LM a
terminal and little else. p is adjusted for all pairs.

## 3. How many ranks are shown

![The first of SWE-bench Verified less each of the next](images/{picture}-ranks.svg)

{ranks}

Pairs are tested over the same tasks, adjusted by Holm. *Clustered*: by repository. *Flaky*: of
cells with 5 trials, those that neither always nor never succeed. A row for each entrant:
[agents-atlas.csv](agents-atlas.csv).

## 4. How many tasks a verdict needs

![Tasks until the verdict, by difference](images/{picture}-watch.svg)

{watch}

200 pairs of the 80 best entrants of SWE-bench Verified, asked in one random order until [the
rule of a contest](contest.md) decides. *Differ*: by McNemar's mid-p on all 500 tasks.

The same for mini-SWE-agent's four LMs, whose prices are known: {dollars}

## 5. The price of a point

![Solved against dollars](images/{picture}-prices.svg)

{prices}

## 6. What a decider gets

![Share of the headroom](images/{picture}-picks.svg)

{picks}

General-AgentBench ran each agent four times and let the LM pick. 0% is one run at random, 100%
the best of the four. Sets in which every run failed are left out.

## What to bear in mind

- Entrants chose their own prompts, limits and tools. A difference between harnesses is not the
  difference that a team makes.
- Most entrants recorded no tokens, and few a price, so equal bills can rarely be compared.
- Leaderboards select: who did badly may not have entered, or shows the best of several tries.
- Of 500 tasks of SWE-bench Verified, 231 are Django's. Intervals without clusters are too narrow.

## Sources and licences

- **SWE-bench Verified, Terminal-Bench 2**:
  [dariakryvosheieva/agent-psychometrics](https://github.com/dariakryvosheieva/agent-psychometrics),
  MIT
- **Terminal-Bench core 0.1.1**:
  [laude-institute/terminal-bench-leaderboard](https://github.com/laude-institute/terminal-bench-leaderboard),
  no licence stated
- **mini-SWE-agent**:
  [SWE-bench/swe-bench.github.io](https://github.com/SWE-bench/swe-bench.github.io), CC BY-NC
  4.0
- **General-AgentBench**:
  [cxcscmu/General-AgentBench](https://github.com/cxcscmu/General-AgentBench), MIT

`python benchmarks/agents_atlas.py FOLDER --write` makes this page from the records in FOLDER.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="write the page, figures and table")
    options = parser.parse_args(arguments)
    findings = Findings(options.folder)
    show: Callable[[str], None] = print
    for text in findings.tables().values():
        show(text + "\n")
    if options.write:
        (DOCS / f"{PICTURE}.md").write_text(findings.page(), encoding="utf-8")
        findings.draw(DOCS / "images")
        findings.write_entrants(DOCS / f"{PICTURE}.csv")


if __name__ == "__main__":
    main()
