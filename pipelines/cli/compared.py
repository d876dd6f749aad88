"""What `folkmoot compare` does and prints: finds the runs, matches a budget, and shows the comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...modules.base.errors import UserError
from ...modules.base.fence import clean
from ..base.wording import counted, shortened
from ..comparison.compare import compare, names_of
from ..comparison.match_budget import Match, lm_of, match_budget, questions_of, tokens_per_question
from ..comparison.pairs import Compared, Comparison, Pair
from ..evaluation.earlier import earlier
from ..evaluation.evaluate import Evaluation, Progress
from ..programs.seats import EVERY, by_seat
from .show import answered, duration, money, percent

Show = Callable[[str], AbstractContextManager[Callable[[Progress], None]]]
MATCHED = "self-consistency, same budget"
LONGEST_QUESTION = 200  # characters of a question that are shown


@dataclass
class Request:
    """A comparison as the command line asks for it."""

    runs: Sequence[str]
    names: str | None = None
    baseline: str | None = None
    match_budget: bool = False
    data: str | None = None
    lms: Sequence[str] = ()
    bases: Sequence[str] = ()
    out: Path | None = None
    seed: int = 0
    concurrency: int = 64


def compared(request: Request, show: Show, told: Callable[[str], None]) -> Comparison:
    """The comparison asked for, after the budget-matched baseline has run if it was wanted, too."""
    _check(request)
    runs = [earlier(run) for run in request.runs]
    names = [name.strip() for name in request.names.split(",")] if request.names else names_of(runs)
    if len(names) != len(runs) or len({*names, MATCHED}) != len(runs) + 1 or not all(names):
        raise UserError(
            f"--names {request.names!r} does not fit {len(runs)} runs: give each a name of its own"
        )
    titles = [*names, MATCHED] if request.match_budget else names
    first = len(titles) - 1 if request.match_budget else 0
    if request.baseline:
        first = _place(request.baseline, titles, request.runs)
    notes = []
    if request.match_budget:
        if len(runs) > 1:
            compare(*runs)  # what cannot be compared is refused before anything is spent
        run, match = _matched(request, runs, names, show, told)
        runs.append(run)
        notes.append(match)
    order = [first, *(index for index in range(len(runs)) if index != first)]
    found = compare(
        *(runs[index] for index in order), names=[titles[index] for index in order], seed=request.seed
    )
    found.notes += notes
    return found


def _check(request: Request) -> None:
    only = {
        "--data": request.data,
        "--lm": request.lms,
        "--api-base": request.bases,
        "--out": request.out,
    }
    for option, value in only.items():
        if value and not request.match_budget:
            raise UserError(f"{option} says how to run a baseline, but none is asked for: add --match-budget")
    if len(request.runs) < 2 and not request.match_budget:
        raise UserError("a comparison needs at least two runs: name another one, or add --match-budget")


def _matched(
    request: Request,
    runs: Sequence[Evaluation],
    names: Sequence[str],
    show: Show,
    told: Callable[[str], None],
) -> tuple[Evaluation, str]:
    """Self-consistency for what the costliest of the runs spent, and how its samples were found."""
    spent = [tokens_per_question(run.rows)[0] or 0.0 for run in runs]
    run, name = runs[spent.index(max(spent))], names[spent.index(max(spent))]
    lms, bases = by_seat(request.lms, "--lm"), by_seat(request.bases, "--api-base")
    if {*lms, *bases} - {EVERY}:
        raise UserError("self-consistency has one seat: give --lm and --api-base without a seat's name")
    questions = questions_of(run, request.data)
    sentence = ""

    def matched(match: Match) -> None:
        nonlocal sentence
        sentence = f"{name}: {match.sentence}."
        calls = match.samples * len(questions)
        told(f"{sentence[:-1]}, {counted(calls, 'call')} (more if answers have to be asked for twice)")

    with show("same budget") as progress:
        found = match_budget(
            run,
            questions,
            lm=lm_of(run, lms.get(EVERY), bases.get(EVERY), request.concurrency),
            out=request.out,
            concurrency=request.concurrency,
            progress=progress,
            told=matched,
        )
    return found, sentence


def _place(wanted: str, names: Sequence[str], folders: Sequence[str]) -> int:
    """The run that is meant by its name, its folder, or its place from 1 up."""
    if wanted in names:
        return names.index(wanted)
    meant = [place for place, folder in enumerate(folders) if _same_folder(folder, wanted)][:1]
    if wanted.isdecimal() and 1 <= int(wanted) <= len(names):
        meant.append(int(wanted) - 1)
    if len(set(meant)) > 1:
        raise UserError(
            f"--baseline {wanted} is a folder and another run's place: give ./{wanted}, or a name"
        )
    if meant:
        return meant[0]
    raise UserError(
        f"there is no run {wanted!r} to be the baseline: give its folder, a place from 1 to {len(names)}, or "
        f"one of {', '.join(names)}"
    )


def _same_folder(one: str, other: str) -> bool:
    return Path(one).expanduser().resolve() == Path(other).expanduser().resolve()


def report(out: Console, found: Comparison, most: int) -> None:
    """Tables of scores and of prices, a verdict for each pair, and some questions on which they part."""
    out.print(_scores(found))
    out.print()
    out.print(_prices(found))
    out.print()
    for pair in found:
        out.print(clean(pair.verdict), soft_wrap=True)
    for note in found.notes:
        out.print(clean(f"Note: {note}"), soft_wrap=True)
    for pair in found:
        _show_discordant(out, found, pair, most)


def _scores(found: Comparison) -> Table:
    """Without Holm's column for one pair, where it would repeat p."""
    many = len(found) > 1
    spans = found.runs[0].f1 is not None
    table = _table(
        *("run", "accuracy"),
        *(["F1"] if spans else []),
        "difference",
        *(["F1 difference"] if spans else []),
        *("p (McNemar)", *(["p (Holm)"] if many else []), "won : lost", "odds ratio"),
    )
    for run, pair in _lines(found):
        table.add_row(
            clean(run.name),
            percent(run.accuracy),
            *([percent(run.f1) if run.f1 else ""] if spans else []),
            *_against(pair, spans, many),
        )
    return table


def _against(pair: Pair | None, spans: bool, many: bool) -> list[str]:
    """The cells of a run beside the baseline: no figure of a failed run passes for one of its program."""
    if pair is None or pair.failure is not None:
        told = "baseline" if pair is None else "no verdict"
        return [told, *([""] if spans else []), "", *([""] if many else []), "", ""]
    parted = pair.only_a or pair.only_b
    return [
        # With nothing to resample from, the interval would have no width, as if all were known.
        _points(pair.difference, pair.low, pair.high) if parted else "none seen",
        *([_points(*pair.f1) if pair.f1 else ""] if spans else []),
        f"{pair.p:.2g}",
        *([f"{pair.p_adjusted:.2g}"] if many else []),
        f"{len(pair.only_a)} : {len(pair.only_b)}",
        "{:.2f} [{:.2f}, {:.2f}]".format(*pair.odds) if parted else "",
    ]


def _prices(found: Comparison) -> Table:
    table = _table("run", "calls", "×", "tokens", "×", "cost", "×", "a question", "×")
    for run, pair in _lines(found):
        calls, tokens, cost, seconds = (
            ("", "", "", "")
            if pair is None or pair.failure is not None
            else map(_times, (pair.call_ratio, pair.token_ratio, pair.cost_ratio, pair.seconds_ratio))
        )
        table.add_row(
            *(clean(run.name), f"{run.usage['calls']:,}", calls),
            *(f"{run.usage['prompt_tokens'] + run.usage['completion_tokens']:,}", tokens),
            *(money(run.usage["cost_usd"]), cost),
            *(duration(run.seconds), seconds),
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=bool(place))
    return table


def _lines(found: Comparison) -> list[tuple[Compared, Pair | None]]:
    return list(zip(found.runs, [None, *found.pairs], strict=True))


def _points(difference: float, low: float, high: float) -> str:
    return f"{100 * difference:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _show_discordant(out: Console, found: Comparison, pair: Pair, most: int) -> None:
    parted = len(pair.only_a) + len(pair.only_b)
    shown = found.discordant(pair, most)
    if not shown:
        return
    out.print()
    head = f"{pair.a} or {pair.b} alone is right on {counted(parted, 'question')}; {len(shown)} of them:"
    out.print(Text(clean(head)), soft_wrap=True)
    for row in shown:
        question = " ".join(clean(str(row["question"])).split())
        cut = question if len(question) <= LONGEST_QUESTION else question[: LONGEST_QUESTION - 1] + "…"
        out.print(Text(f"- {clean(str(row['id']))}: {cut}"), soft_wrap=True)
        said = [f"{run}: {_said(row, run)}{' ✓' if run == row['right'] else ''}" for run in (pair.a, pair.b)]
        gold = answered(row["gold"], row["choices"])
        out.print(Text(clean(f"  {'; '.join(said)}; right is {gold}")), soft_wrap=True)


def _said(row: Mapping[str, Any], run: str) -> str:
    if run in row["errors"]:
        return f"failed ({shortened(' '.join(str(row['errors'][run]).split()))})"
    return answered(row["answers"][run], row["choices"])
