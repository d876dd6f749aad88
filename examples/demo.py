"""The main job in small: does a panel or a two-agent deliberation beat one agent? On sample questions, with no key.

Run it with `make demo`. Everything runs in this process on the embedded LM (Gemma 3 270M).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import folkmoot as fm
from folkmoot.pipelines.compare import Pair, compare
from folkmoot.pipelines.dialogue import most_informative, render
from folkmoot.pipelines.evaluate import Progress as State

RUNS = Path("runs/demo")


def programs(train: list[fm.Question]) -> dict[str, fm.Program]:
    """What is compared: one agent without and with examples, a panel of three, and two that talk."""
    simple = fm.SingleAgent("simple")
    panel = fm.Ensemble([fm.labelled_demos(simple, train, 4, seed=seed) for seed in (1, 2, 3)])
    talk = fm.Deliberation(["intuitive", "reasoner"], tie_break="judge", max_rounds=2)
    return {
        "one agent": simple,
        "one agent, 4 examples": fm.labelled_demos(simple, train, 4),
        "panel of three": panel,
        "two agents and a judge": talk,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=100, help="how many sample questions (at most 120)")
    options = parser.parse_args()
    console = Console()
    train = fm.load("sample-choice", split="train")
    questions = fm.load("sample-choice", split="test", limit=options.questions)
    lm = fm.lm("local/gemma-3-270m")
    console.print(
        f"\n[bold]folkmoot[/] asks {len(questions)} everyday questions with five options each (chance: 20%)."
        "\nThe LM is Gemma 3 270M, embedded: small and untuned, but real. No key, no network.\n"
    )
    results: dict[str, fm.Evaluation] = {}
    seconds: dict[str, float] = {}
    with Progress(
        TextColumn("{task.description:26}"), BarColumn(), TextColumn("{task.fields[state]:24}"), TimeRemainingColumn()
    ) as bars:
        for name, program in programs(train).items():
            began = time.monotonic()
            task = bars.add_task(name, total=len(questions), state="")
            results[name] = fm.evaluate(
                program,
                questions,
                lm=lm,
                out=RUNS / name.replace(" ", "-").replace(",", ""),
                settings={"data": "sample-choice", "split": "test", "name": name},
                progress=watch(bars, task),
            )
            seconds[name] = time.monotonic() - began
    base, *others = results
    pairs = dict(zip(others, compare(results[base], *(results[name] for name in others), names=list(results)), strict=True))
    console.print(table(results, pairs, seconds))
    console.print("[bold]Verdict[/]")
    for pair in pairs.values():
        console.print(f"- {pair.verdict}")
    console.print("\n[bold]One dialogue[/]")
    console.print(render(most_informative(results["two agents and a judge"].rows)))
    console.print(
        "\n[bold]Where to look next[/]\n"
        f"- every answer and dialogue: {RUNS}/*/results.jsonl\n"
        "- the four runs side by side in MLflow: .venv/bin/folkmoot ui\n"
        "- your own questions: .venv/bin/folkmoot evaluate deliberation:intuitive,reasoner:judge --data FILE.jsonl\n"
        "- a stronger LM: … --lm openai/gpt-4o-mini (needs OPENAI_API_KEY), or --api-base for a server of yours"
    )


def watch(bars: Progress, task: object) -> Callable[[State], None]:
    def show(state: State) -> None:
        said = f"{state.correct / state.done:.0%} right, {state.usage.calls} calls" if state.done else ""
        bars.update(task, completed=state.done, state=said)  # type: ignore[arg-type]

    return show


def table(results: dict[str, fm.Evaluation], pairs: dict[str, Pair], seconds: dict[str, float]) -> Table:
    shown = Table(title="Accuracy with 95% intervals; differences are paired, against one agent", title_justify="left")
    for title in ("program", "accuracy", "difference", "calls", "calls a question", "seconds"):
        shown.add_column(title, justify="left" if title == "program" else "right")
    for name, result in results.items():
        score, usage = result.summary.scores["accuracy"], result.summary.usage
        pair = pairs.get(name)
        gap = f"{100 * pair.difference:+.0f} ({100 * pair.low:+.0f} to {100 * pair.high:+.0f})" if pair else "–"
        shown.add_row(
            name,
            f"{score['value']:.0%} ({score['low']:.0%} to {score['high']:.0%})",
            gap,
            str(usage["calls"]),
            f"{usage['calls'] / result.summary.counts['rows']:.1f}",
            f"{seconds[name]:.0f}",
        )
    return shown


if __name__ == "__main__":
    main()
