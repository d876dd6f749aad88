"""The commands that ask LMs: for each, the plan, the function that carries it out, and the reader
of an interrupted attempt. Their modules are imported when a command runs.
"""

from __future__ import annotations

import shlex
from collections.abc import Container
from functools import partial
from pathlib import Path

from ...modules.base.errors import UserError
from ...modules.statistics.statistics import FEWEST
from ..base.wording import counted
from ..comparison.sources import left_in
from ..compilation.request import CompileRequest
from ..contest.request import ContestRequest
from ..evaluation.earlier import Evaluation
from ..evaluation.request import EvaluateRequest
from ..reporting.contested import contest_in
from ..tuning.request import TuneRequest
from .command import command_options
from .guard import VERDICT_FAILED, say
from .life import live
from .options import Confirmed, EvaluateView, TryView
from .show import console, finish, show_lines, show_result

NOT_AGAIN = ("questions", "lm", "budget", "out", "register", "progress")
"""The options of an evaluation that are not passed on to the suggested contest."""


def _given_again(request: object, other: type[object], without: Container[str]) -> str:
    """Return the given options of a request as text for the command line of another command.

    Left out are those of `without`, those that the other command does not have, and a limit with
    which no contest decides.
    """
    words: list[str] = []
    known = command_options(other)
    for name, option in command_options(type(request)).items():
        value = getattr(request, name)
        if name in without or name not in known or value == option.field.default:
            continue
        if isinstance(value, bool):
            on, _, off = option.long_name.partition("/")
            words.append(on if value else off)
            continue
        if name == "limit" and value < FEWEST:
            continue
        if isinstance(value, str | int | float | Path):
            value = [value]
        for part in value:
            words += [option.long_name, str(part)]
    return shlex.join(words)


def evaluate(request: EvaluateRequest, view: EvaluateView) -> None:
    """Evaluate a program, or a trained network on recorded answers without LM calls."""
    from ..evaluation.evaluate import carry_out
    from ..evaluation.plan import plan_evaluation

    def show(result: Evaluation) -> None:
        """Two lines and the next command; one line if quiet, all figures if verbose."""
        asked = _given_again(request, ContestRequest, NOT_AGAIN)
        added = f"--with {shlex.quote(str(request.program))}"
        if ":" in str(request.program) and plan.program.foreign:
            asked = f"{added} {asked}".strip()
        elif not plan.program.foreign and Path(str(request.program)).exists():
            asked = f"{asked} {added}".strip()  # a contest adds no saved program by itself
        lines = result.lines()
        if not view.quiet:
            show_lines([*lines, f"next: {result.next_command(asked)}"])
        else:
            show_lines(lines[:1])
        if view.verbose:
            show_result(console(), "figures", result.in_words())

    if view.outcomes or (request.questions is None and not request.recheck):
        _evaluate_outcomes(request, view)
    else:
        plan = plan_evaluation(request, stored=True)
        live(request, view, plan, carry_out, left_in, show)


def _evaluate_outcomes(request: EvaluateRequest, view: EvaluateView) -> None:
    """Carry out `folkmoot evaluate network:DIR --outcomes FILE`: test a trained program on recorded
    answers, without LM calls.
    """
    from ...modules.protocols.registry import PROTOCOLS
    from ..programs.seats import parse_sets
    from ..runs.outcomes import read_outcomes

    if not view.outcomes:
        raise UserError("--data is missing: name the questions to evaluate on")
    if request.questions is not None:
        raise UserError("--data and --outcomes are both given: keep one of them")
    name, _, place = str(request.program).partition(":")
    protocol, folder = PROTOCOLS.find(name), Path(place).expanduser()
    if protocol is None or protocol.learning is None or not folder.is_dir():
        raise UserError(
            f"--outcomes is for the folders of trained programs, and {request.program} is not one: "
            "write network:DIR"
        )
    test = read_outcomes(view.outcomes)
    scored = protocol.learning.rescored(folder, test, parse_sets(request.sets))
    if test.errors:
        say(f"warning: {counted(test.errors, 'row')} of failed questions left out")
    words = scored.in_words(quiet=view.quiet)
    finish(view, {"out": place, **scored.to_dict()}, lambda: show_result(console(), name, words))


def compile(request: CompileRequest, view: Confirmed) -> None:
    from ..compilation.compile import compile_as_planned
    from ..compilation.outcome import compilation_in
    from ..compilation.plan import plan_compilation

    live(
        request,
        view,
        plan_compilation(request, stored=True),
        lambda plan, show: compile_as_planned(plan, show).compilation,
        compilation_in,
    )


def tune(request: TuneRequest, view: Confirmed) -> None:
    from ..tuning.plan import plan_study
    from ..tuning.tune import study_in, tune_as_planned

    plan = plan_study(request, stored=True)
    live(request, view, plan, tune_as_planned, study_in)


def try_(request: ContestRequest, view: TryView) -> None:
    from ..comparison.verdict import check_fail_if
    from ..contest.contest import carry_out_contest
    from ..contest.outcome import Contest
    from ..contest.plan import plan_contest

    def show(contest: Contest) -> None:
        lines = contest.lines()
        if view.quiet:
            lines = contest.sentences[:1]
        elif contest.empty:  # the first line is why it ended early, which is shown already
            lines = lines[1:]
        show_lines(lines)

    def code(contest: Contest) -> int:
        return VERDICT_FAILED if view.fail_if and contest.fails(view.fail_if) else 0

    check_fail_if(view.fail_if)
    plan = plan_contest(request, stored=True)
    live(
        request,
        view,
        plan,
        carry_out_contest,
        partial(contest_in, kind=Contest),
        show,
        code,
    )
