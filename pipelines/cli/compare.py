"""`folkmoot compare`: which of several runs is better, how sure that is, and at what price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...modules.base.errors import UserError
from ...modules.base.usage import tokens_of
from ..base.budget import BudgetSpent
from ..base.request import split_items
from ..base.wording import counted, duration, money, percent, points, shortened
from ..comparison.compare import compare as compare_runs
from ..comparison.compare import names_for
from ..comparison.compared import Compared
from ..comparison.match_budget import MATCHED, plan_match, run_match, run_or_match, with_matches
from ..comparison.match_plan import Match, MatchPlan, costliest
from ..comparison.pairs import Comparison, Pair
from ..comparison.request import CompareRequest
from ..comparison.run_again import lms_of_run, questions_of
from ..evaluation.earlier import Evaluation, imported_runs
from ..programs.seats import Seating
from .guard import STOPPED, resumable
from .options import Confirmed
from .show import answered, confirm, console, evaluating, finish, leave, plain_table

LONGEST_QUESTION = 200  # characters of a question that are shown


def compare(options: CompareRequest, view: Confirmed) -> None:
    try:
        with resumable():
            found = compared(options, view)
    except BudgetSpent as problem:  # an error, as it leaves no result
        leave(str(problem), STOPPED)
        return

    def show() -> None:
        if view.quiet:
            console().print(found.headline, soft_wrap=True)
        else:
            report(console(), found, options.show, options.pairs)

    finish(view, found.to_dict(), show)


def compared(options: CompareRequest, view: Confirmed) -> Comparison:
    """Compare the runs; where a budget-matched baseline is wanted, run that first."""
    runs = [run_or_match(run) for run in _check(options)]
    names = names_for(split_items(options.names), runs)
    if MATCHED in names:
        raise UserError(
            f"{MATCHED!r} is what --match-budget runs: give the others names of their own"
        )
    if options.match_budget:
        titles, first = [*names, MATCHED], len(names)
    else:
        (titles, runs), first = with_matches(names, runs), 0
    if options.baseline:
        first = _place(options.baseline, titles, imported_runs(options.runs))
    notes: list[str] = []
    if options.match_budget:
        if len(runs) > 1:
            compare_runs(*runs)  # what cannot be compared is refused before anything is spent
        run, notes = _matched(options, view, runs, names)
        runs.append(run)
    order = [first, *(index for index in range(len(runs)) if index != first)]
    found = compare_runs(
        *(runs[index] for index in order),
        names=[titles[index] for index in order],
        **options.tested(),
    )
    found.notes += notes
    return found


def _check(options: CompareRequest) -> list[Any]:
    """The runs, with those of an import in place of its folder."""
    for name in ("data", "lm", "api_base", "price", "metric", "out", "budget"):
        if options.asked(name) and not options.match_budget:
            option = "--" + name.replace("_", "-")
            raise UserError(
                f"{option} says how to run a baseline, but none is asked for: add --match-budget"
            )
    runs = imported_runs(options.runs)
    if len(runs) < 2 and not options.match_budget:
        raise UserError(
            "a comparison needs at least two runs: name another one, or add --match-budget"
        )
    return runs


def _matched(
    options: CompareRequest, view: Confirmed, runs: Sequence[Evaluation], names: Sequence[str]
) -> tuple[Evaluation, list[str]]:
    """Self-consistency for what the costliest of the runs spent, by the best of its LMs, and notes
    on how its samples were found.
    """
    place = costliest(runs)
    run, name = runs[place], names[place]
    lms = Seating(options, keyless=view.dry_run)
    plan = plan_match(
        run,
        questions_of(run, options.data),
        lm=lms_of_run(run, lms, "self-consistency"),
        **options.named("metric", "out", "budget", "concurrency"),
    )
    confirm(options, view, plan_lines(plan, name), plan.to_dict, plan.cost_usd)
    sentences: list[str] = []

    def matched(match: Match) -> None:
        sentences.append(f"{name}: {match.sentence}.")
        calls = match.samples * len(plan.questions)
        if not view.quiet:
            asked = f", {counted(calls, 'call')} (more if answers have to be asked for twice)"
            line = sentences[-1][:-1] + asked * match.fits
            console(stderr=True).print(line, soft_wrap=True)

    with evaluating(view, "same budget") as progress:
        found = run_match(plan, progress=progress, told=matched)
    if len(plan.arms) > 1:
        best = found.summary.run["lms"]["*"]["name"]
        sentences.append(
            f"The baseline is the most often right of these, {best} ({found.score:.3g})."
        )
    stopped = found.summary.stopped
    return found, [
        " ".join(sentences),
        *([f"The baseline is not finished: {stopped}."] if stopped else []),
    ]


def plan_lines(plan: MatchPlan, name: str) -> list[str]:
    """The plan in words: how often each LM is asked, what that takes, and the ceiling."""
    lines = [
        f"{counted(len(plan.questions), 'question')} again, by one agent for the bill of {name}"
    ]
    for arm in plan.arms:
        samples = _range((arm.fewest.samples, arm.most.samples), "sample")
        pilot = f" (estimated: a pilot of {counted(len(plan.pilot), 'question')} decides)"
        line = f"{arm.identity['endpoint']}: {samples} per question, {_range(arm.calls, 'call')}"
        lines.append(line + pilot * (not arm.most.pilot))
    cost = money(plan.cost_usd and plan.cost_usd[1])
    by_default = ", as much as it took and a fifth more; --budget sets another one" * (
        plan.budget is None
    )
    return [*lines, f"cost: {cost}; budget: {plan.ceiling}{by_default}"]


def _range(ends: tuple[int, int], thing: str) -> str:
    low, high = ends
    return f"{low:,} to {counted(high, thing)}" if low < high else counted(high, thing)


def _place(wanted: str, names: Sequence[str], folders: Sequence[str]) -> int:
    """The place of the run with this name, folder or number (from 1 up)."""
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
        f"there is no run {wanted!r} to be the baseline: give its folder, a place from 1 to "
        f"{len(names)}, or "
        f"one of {', '.join(names)}"
    )


def _same_folder(one: str, other: str) -> bool:
    return Path(one).expanduser().resolve() == Path(other).expanduser().resolve()


def report(out: Console, found: Comparison, most: int, pairs: bool) -> None:
    """Tables of scores and of prices, the verdict, and some questions on which runs part; with
    `pairs` the verdict on each pair, too.
    """
    out.print(_scores(found))
    out.print()
    out.print(_prices(found))
    out.print()
    for sentence in dict.fromkeys(
        [*found.said, *((pair.verdict for pair in found) if pairs else ())]
    ):
        out.print(sentence, soft_wrap=True)
    for note in found.notes:
        out.print(f"Note: {note}", soft_wrap=True)
    for pair in found.against:
        _show_discordant(out, found, pair, most)


def _scores(found: Comparison) -> Table:
    """The table of scores; a single pair has no column for Holm's p, which would repeat p."""
    many = len(found) > 1
    spans = found.runs[0].f1 is not None
    table = plain_table(
        *("run", found.runs[0].metric if len({run.metric for run in found.runs}) == 1 else "score"),
        *(["F1"] if spans else []),
        "difference",
        *(["F1 difference"] if spans else []),
        *(
            "p" if found[0].clustered or not found[0].right_or_wrong else "p (McNemar)",
            *(["p (Holm)"] if many else []),
        ),
        "won : lost",
        no_wrap=True,
    )
    for run, pair in _lines(found):
        table.add_row(
            run.name,
            percent(run.score),
            *([percent(run.f1) if run.f1 else ""] if spans else []),
            *_against(pair, spans, many),
        )
    return table


def _against(pair: Pair | None, spans: bool, many: bool) -> list[str]:
    """The cells of a run beside the baseline; a failed run gets none, as its figures would
    mislead.
    """
    if pair is None or pair.cause:
        label = "baseline" if pair is None else "no verdict"
        return [label, *([""] if spans else []), "", *([""] if many else []), ""]
    parted = pair.only_a or pair.only_b
    return [
        # With nothing to resample from, the interval would have no width, as if all were known.
        pair.amounts(*pair.interval) if parted else "none seen",
        *([points(*pair.f1) if pair.f1 else ""] if spans else []),
        f"{pair.p:.2g}",
        *([f"{pair.p_adjusted:.2g}"] if many else []),
        f"{len(pair.only_a)} : {len(pair.only_b)}",
    ]


def _prices(found: Comparison) -> Table:
    columns = ("calls", "×", "tokens", "×", "cost", "×", "a question", "×")
    table = plain_table("run", *columns, no_wrap=True)
    for run, pair in _lines(found):
        calls, tokens, cost, seconds = (
            ("", "", "", "")
            if pair is None or pair.failure is not None
            else map(
                _times, (pair.call_ratio, pair.token_ratio, pair.cost_ratio, pair.seconds_ratio)
            )
        )
        table.add_row(
            *(run.name, "unknown" if (made := run.usage["calls"]) is None else f"{made:,}", calls),
            *("unknown" if (spent := tokens_of(run.usage)) is None else f"{spent:,}", tokens),
            *(money(run.usage["cost_usd"]), cost),
            *("unknown" if run.seconds is None else duration(run.seconds), seconds),
        )
    return table


def _lines(found: Comparison) -> list[tuple[Compared, Pair | None]]:
    return list(zip(found.runs, [None, *found.against], strict=True))


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _show_discordant(out: Console, found: Comparison, pair: Pair, most: int) -> None:
    parted = len(pair.only_a) + len(pair.only_b)
    shown = found.discordant(pair, most)
    if not shown:
        return
    out.print()
    well = f"{'is ' if pair.right_or_wrong else ''}{pair.did_well}"
    head = (
        f"{pair.a} or {pair.b} alone {well} on {counted(parted, 'question')}; {len(shown)} of them:"
    )
    out.print(Text(head), soft_wrap=True)
    for row in shown:
        asked = shortened(str(row["question"]), LONGEST_QUESTION)
        out.print(Text(f"- {row['id']}: {asked}"), soft_wrap=True)
        said = [
            f"{run}: {_said(row, run)}{' ✓' if run == row['right'] else ''}"
            for run in (pair.a, pair.b)
        ]
        gold = answered(row["gold"], row["choices"])
        out.print(Text(f"  {'; '.join(said)}; right is {gold}"), soft_wrap=True)


def _said(row: Mapping[str, Any], run: str) -> str:
    if run in row["errors"]:
        return f"failed ({shortened(str(row['errors'][run]))})"
    return answered(row["answers"][run], row["choices"])
