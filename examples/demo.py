"""The main job in small: does a panel, or a deliberation of two, beat one agent? No key needed.

Run it with `make demo`. Everything runs in this process: first on the embedded LM (Gemma 3 270M),
then a recorded contest of a more capable one (Qwen2.5-Coder 1.5B), which is replayed without a
call.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import folkmoot as fm
from folkmoot.pipelines.base.display import Screen
from folkmoot.pipelines.cli.show import show_dialogue
from folkmoot.pipelines.comparison.pairs import Pair
from folkmoot.pipelines.plots.dialogues import most_informative
from folkmoot.pipelines.runs.progress import Progress as State

RUNS = Path("runs/demo")
QUESTIONS = 60
LM = "local/gemma-3-270m"
RECORDED = Path(__file__).parent / "recorded"
EMBEDDED = "The LM is Gemma 3 270M, embedded: small and untuned, but real. No key, no network."


def programs(train: list[fm.Question]) -> dict[str, fm.Program]:
    """What is compared: one agent without and with examples, a panel of three, and two that
    talk.
    """
    simple = fm.SingleAgent("simple")
    panel = fm.Ensemble([fm.labelled_demos(simple, train, 2, seed=seed) for seed in (1, 2, 3)])
    talk = fm.Deliberation(["intuitive", "reasoner"], tie_break="judge", max_rounds=2)
    return {
        "one agent": simple,
        "one agent, 4 examples": fm.labelled_demos(simple, train, 4),
        "panel of three": panel,
        "two agents, judge": talk,
    }


def contests() -> dict[str, tuple[str, fm.Program]]:
    """The recorded contests that are replayed, and the program of each."""
    simple, talk = (
        fm.SingleAgent("simple"),
        fm.Deliberation(["intuitive", "reasoner"], opening="blind"),
    )
    return {
        "one agent": ("csqa-simple", simple),
        "two agents, judge": ("csqa-blind", talk),
        "one agent, 0.5B": ("csqa-small-simple", simple),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=QUESTIONS, help="questions, at most 120")
    parser.add_argument("--lm", default=LM, help="such as openai/gpt-4o-mini")
    parser.add_argument("--api-base", help="address of an OpenAI-compatible endpoint, up to /v1")
    options = parser.parse_args()
    console = Console()
    train = fm.load("sample-choice", split="train")
    questions = fm.load("sample-choice", split="test", limit=options.limit)
    lm = fm.lm(options.lm, api_base=options.api_base)
    console.print(
        f"\n[bold]folkmoot[/] asks {len(questions)} everyday questions with five options each "
        f"(chance: 20%)."
        f"\n{EMBEDDED if options.lm == LM else f'The LM is {options.lm}.'}\n"
    )
    folder = RUNS / ("" if options.lm == LM else options.lm) / f"{len(questions)}-questions"
    results: dict[str, fm.Evaluation] = {}
    with bars() as shown:
        for name, program in programs(train).items():
            results[name] = fm.evaluate(
                program,
                questions,
                lm=lm,
                out=folder / name.replace(" ", "-").replace(",", ""),
                settings={"data": "sample-choice", "split": "test", "name": name},
                progress=watch(shown, shown.add_task(name, total=len(questions), state="")),
            )
    verdict(console, results)
    console.print("\n[bold]One dialogue[/]")
    (row,) = most_informative(results["two agents, judge"].rows, most=1)
    dialogue(console, row)
    replayed(console)
    console.print(
        "\n[bold]Where to look next[/]\n"
        f"- every answer and dialogue: {folder}/*/results.jsonl\n"
        "- the four runs side by side in MLflow: .venv/bin/folkmoot ui\n"
        "- your own questions: .venv/bin/folkmoot evaluate single:cot --data FILE.jsonl\n"
        "- a stronger LM: add --lm openai/gpt-4o-mini (needs OPENAI_API_KEY) or an --api-base"
    )


def replayed(console: Console) -> None:
    """A contest of a capable LM, from its records: no call, no weights."""
    console.print(
        "\n[bold]The same with a capable LM, recorded[/]"
        "\nQwen2.5-Coder 1.5B on 100 questions of CommonsenseQA: it took hours; the replay makes "
        "no call.\n"
    )
    results: dict[str, fm.Evaluation] = {}
    with bars() as shown:
        for name, (contest, program) in contests().items():
            with tarfile.open(RECORDED / f"{contest}.tar.xz") as archive:
                archive.extractall(RUNS / "recorded", filter="data")
            questions = fm.load(RUNS / "recorded" / "csqa-simple" / "questions.jsonl")
            results[name] = fm.evaluate(
                program,
                questions,
                lm=f"replay/{RUNS / 'recorded' / contest}",
                out=RUNS / "recorded" / "replayed" / contest,
                tracking=False,
                progress=watch(shown, shown.add_task(name, total=len(questions), state="")),
            )
    verdict(console, results)
    console.print("\n[bold]Somebody changes their mind[/]")
    dialogue(console, max(results["two agents, judge"].rows, key=persuaded))
    console.print("What these runs show, and what they do not: docs/findings.md")


def persuaded(row: Mapping[str, Any]) -> tuple[bool, int]:
    """Whether talk turned a wrong answer into the right one; of such rows the shortest
    comes first.
    """
    turns = row["transcript"]
    learned = any(
        first["agent"] == then["agent"] and first["answer"] != row["gold"] == then["answer"]
        for place, first in enumerate(turns)
        for then in turns[place:]
    )
    return learned and row["correct"], -sum(len(turn["text"]) for turn in turns)


def bars() -> Progress:
    return Progress(
        TextColumn("{task.description:26}"),
        BarColumn(),
        TextColumn("{task.fields[state]:24}"),
        TimeRemainingColumn(),
    )


def watch(bars: Progress, task: object) -> Callable[[State], None]:
    def show(state: State) -> None:
        said = (
            f"{state.correct / state.done:.0%} right, {state.usage.calls} calls"
            if state.done
            else ""
        )
        bars.update(task, completed=state.done, state=said)  # type: ignore[arg-type]

    return show


def verdict(console: Console, results: dict[str, fm.Evaluation]) -> None:
    base, *others = results
    found = fm.compare(results[base], *(results[name] for name in others), names=list(results))
    console.print(table(results, dict(zip(others, found.against, strict=True))))
    console.print("[bold]Verdict[/]")
    for said in found.said:
        console.print(f"- {said}")


def dialogue(console: Console, row: Mapping[str, Any]) -> None:
    console.print(
        row["question"], "·", ", ".join(f"{label} {text}" for label, text in row["choices"].items())
    )
    show_dialogue(Screen(sys.stdout), row, row["choices"])
    console.print(f"The right answer is {row['gold']} ({row['choices'][row['gold']]}).")


def table(results: dict[str, fm.Evaluation], pairs: dict[str, Pair]) -> Table:
    shown = Table(title="Accuracy and paired differences in points, 95% intervals", box=SIMPLE)
    shown.add_column("program", no_wrap=True)
    for title in ("accuracy", "to one agent", "calls"):
        shown.add_column(title, justify="right", no_wrap=True)
    for name, result in results.items():
        score, pair = result.summary.scores["accuracy"], pairs.get(name)
        shown.add_row(
            name,
            f"{score['value']:.0%} [{100 * score['low']:.0f}, {100 * score['high']:.0f}]",
            f"{100 * pair.difference:+.0f} [{100 * pair.low:+.0f}, {100 * pair.high:+.0f}]"
            if pair
            else "",
            str(result.summary.usage["calls"]),
        )
    return shown


if __name__ == "__main__":
    try:
        main()
    except fm.UserError as problem:
        sys.exit(f"folkmoot: {problem}")
    except KeyboardInterrupt:
        sys.exit("stopped; what is finished is kept: run it again to go on")
