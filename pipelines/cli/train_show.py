"""What `folkmoot train` shows: progress while a network learns, and its test scores as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..training.train import LAST
from . import show as cli_show

SCORES = {
    "individual": "one agent, its own choice",
    "consensus": "the group's vote",
    "majority": "the same answers, plain vote",
    "best_fixed": "best fixed choice in training",
    "best_per_group": "the same for each group",
    "best_per_group_hindsight": "the same in hindsight",
    "majority_of_all": "plain vote over all answers",
    "oracle": "any answer right",
}


class TrainingProgress:
    """The `progress` callback of a training: keeps the latest figures, for a terminal to show."""

    def __init__(self) -> None:
        self.state: Mapping[str, Any] | None = None
        self._last: list[Mapping[str, Any]] = []

    def __call__(self, step: Mapping[str, Any]) -> None:
        self.state = step
        if "reward" in step:
            self._last = [*self._last[1 - LAST :], step]

    @contextmanager
    def shown(self, *, quiet: bool) -> Iterator[None]:
        """Draws while the block runs; shows nothing when quiet or without a terminal."""
        out = cli_show.console(stderr=True)
        if quiet or not out.is_terminal:
            yield
            return
        with Live(get_renderable=self._render, console=out, refresh_per_second=4, redirect_stdout=False):
            yield

    def parts(self) -> list[str]:
        """How far it is, and the mean figures of the last batches."""
        if self.state is None:
            return ["starting"]
        if self.state.get("stage") == "selection":
            return [f"epoch {self.state['epoch']}: {self.state['held_out']:.1%} right on held-out questions"]

        def mean(name: str) -> float:
            return float(sum(step[name] for step in self._last) / len(self._last))

        return [
            f"epoch {self.state['epoch']}",
            f"{self.state['questions']:,} questions",
            f"reward {mean('reward'):+.2f}",
            f"one agent {mean('individual'):.1%}",
            f"group {mean('consensus'):.1%}",
        ]

    def _render(self) -> Table:
        row = Table.grid(padding=(0, 1))
        state = self.state or {}
        bar = ProgressBar(total=max(state.get("steps", 1), 1), completed=state.get("step", 0), width=24)
        row.add_row(Text("train"), bar, Text("  ".join(self.parts())))
        return row


def training_lines(found: Mapping[str, Any], out: str, *, track: bool) -> dict[str, str]:
    """How a training ended, line by line, and what to do with the network."""
    told = found["training"]
    lines = {"trained": f"network:{out}"}
    if "reward" in told:
        lines["last reward"] = f"{told['reward']:+.2f}"
        lines["last right"] = f"one agent {told['individual']:.1%}, group {told['consensus']:.1%}"
    if told.get("paid") is not None:
        lines["paid in training"] = cli_show.used(told["paid"])
    if not {"scores", "consensus"} & found.keys():
        kind = "--outcomes TEST.jsonl" if told.get("paid") is None else "--data QUESTIONS"
        lines["test it"] = f"folkmoot evaluate network:{out} {kind}"
    else:
        lines["use it"] = f"folkmoot evaluate network:{out} --data QUESTIONS"
    return lines | ({"look at it": "folkmoot ui"} if track else {})


def score_table(out: Console, scores: Mapping[str, Any]) -> None:
    """The test scores of a network, with what each is less than or more than its rivals."""
    table = Table("", "right", "95%", "calls a question", "", box=None, pad_edge=False)
    for name, meaning in SCORES.items():
        score = scores[name]
        interval = f"{score['low']:.1%} to {score['high']:.1%}"
        shown = name.replace("_", " ")
        table.add_row(shown, f"{score['value']:.1%}", interval, f"{score['calls']:.3g}", meaning)
    out.print(table)
    lines = {}
    for team in ("consensus", "individual"):
        for rival, found in scores["differences"][team].items():
            points = "{value:+.1f} [{low:+.1f}, {high:+.1f}] points"
            in_points = {end: round(100 * found[end], 1) + 0.0 for end in ("value", "low", "high")}
            lines[f"{team} over {rival.replace('_', ' ')}"] = points.format(**in_points)
    ties = scores["ties"]
    gains = [
        f"{100 * ties[f'gain_{kind}']:+.1f} points on {kind} questions"
        for kind in ("tied", "untied")
        if ties[f"gain_{kind}"] is not None
    ]
    lines["plain vote tied"] = (
        f"{ties['share']:.1%} of {scores['questions']:,}; weights gain {', '.join(gains)}"
    )
    if "ece" in scores:
        lines["calibration"] = f"the vote's confidence is {scores['ece']:.1%} from its accuracy (ECE)"
    if "strategy" in scores:
        each = [f"{name} {of['share']:.0%}" for name, of in scores["strategy"].items()]
        lines["chosen"] = ", ".join(each)
    cli_show.show_result(out, "differences", lines)
    for sentence in scores["verdict"]:
        out.print(sentence[0].upper() + sentence[1:] + ".", soft_wrap=True)
