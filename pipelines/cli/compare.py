"""`folkmoot compare`: which run is better, how sure that is, and at what price."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from ..base.wording import counted, shortened
from ..comparison.compare import ComparisonPlan, carry_out_comparison, plan_comparison
from ..comparison.comparison import Comparison, Discordant
from ..comparison.pairs import Pair
from ..comparison.request import CompareRequest
from ..comparison.verdict import check_fail_if
from ..tracking.store import push_words
from .guard import VERDICT_FAILED, say
from .options import CompareView
from .show import answered, console, leave, present

LONGEST_QUESTION = 200  # characters of a question that are shown


def compare(request: CompareRequest, view: CompareView) -> None:
    check_fail_if(view.fail_if)
    plan = plan_comparison(request, keyless=view.dry_run)

    def show(comparison: Comparison) -> None:
        if view.quiet:
            console().print(comparison.headline, soft_wrap=True)
        else:
            show_comparison(console(), comparison, view)

    def code(comparison: Comparison) -> int:
        return VERDICT_FAILED if comparison.fails(view.fail_if) else 0

    def carried_out(plan: ComparisonPlan, present_it: Callable[[Comparison], None]) -> Comparison:
        comparison = carry_out_comparison(plan, present_it)
        if view.track:
            _log(comparison, request)
        return comparison

    if plan.match is None:
        comparison = carried_out(plan, lambda one: present(view, one.to_dict(), lambda: show(one)))
        leave(None, code(comparison))
    else:
        from .life import live  # imports DSPy, which a comparison does not need

        live(request, view, plan, carried_out, show=show, code_of=code)


def _log(comparison: Comparison, request: CompareRequest) -> None:
    """Leave a comparison in MLflow."""
    from ..reporting.tracked import log_comparison  # brings DSPy and MLflow

    say(push_words())
    if problem := log_comparison(comparison, request.tested()):
        say(f"MLflow did not take the comparison ({problem}): give the same command again")


def show_comparison(out: Console, comparison: Comparison, view: CompareView) -> None:
    """Show the table and the sentences; with `--pairs` also every pair with its test, and with
    `--show` questions on which runs differ.
    """
    for line in comparison.table():
        out.print(Text(line), soft_wrap=True)
    out.print()
    tests = comparison.tests if view.pairs else []
    notes = [f"Note: {note}" for note in comparison.notes]
    for line in dict.fromkeys([*comparison.said, *tests, *notes]):
        out.print(Text(line), soft_wrap=not out.is_terminal)
    for line in comparison.legend:
        out.print(Text(line, style="dim"), soft_wrap=not out.is_terminal)
    for pair in comparison.against:
        _show_discordant(out, comparison, pair, view.show)


def _show_discordant(out: Console, comparison: Comparison, pair: Pair, most: int) -> None:
    questions = comparison.discordant(pair, most)
    if not questions:
        return
    differing = counted(len(pair.only_a) + len(pair.only_b), "question")
    out.print()
    out.print(Text(f"{pair.a} and {pair.b} differ on {differing}; {len(questions)} of them:"))
    for question in questions:
        asked = shortened(str(question["question"]), LONGEST_QUESTION)
        out.print(Text(f"- {question['id']}: {asked}"), soft_wrap=True)
        answers = [
            f"{run}: {_answer(question, run)}{' ✓' if run == question['right'] else ''}"
            for run in (pair.a, pair.b)
        ]
        gold = answered(question["gold"], question["choices"])
        out.print(Text(f"  {'; '.join(answers)}; right is {gold}"), soft_wrap=True)


def _answer(question: Discordant, run: str) -> str:
    if run in question["errors"]:
        return f"failed ({shortened(str(question['errors'][run]))})"
    return answered(question["answers"][run], question["choices"])
