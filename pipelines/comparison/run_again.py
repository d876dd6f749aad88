"""Makes the LMs and the program of a run again."""

from __future__ import annotations

from collections.abc import Mapping

import dspy

from ...modules.agents.profile import Profile
from ...modules.base.errors import UserError
from ...modules.base.keyed import only
from ...modules.protocols.program import Program
from ..evaluation.earlier import Evaluation
from ..lms.named import SETTINGS, lm_identity
from ..lms.prices import Prices
from ..programs.resolve import program_of
from ..programs.seats import (
    EVERY,
    Seating,
    parse_prices,
    parse_sets,
    program_given,
)


def lms_of_run(run: Evaluation, lms: Seating, who: str) -> list[dspy.BaseLM]:
    """Return the LM that `lms` names, or else each different LM of the run, made again with its
    settings; see `lm_of_run`.
    """
    wanted = [lms.seated[EVERY]] if EVERY in lms.seated else run.summary.run.lm_names
    return [lm_of_run(run, lms, who, name=name) for name in wanted]


def lm_of_run(run: Evaluation, lms: Seating, who: str, *, name: str | None = None) -> object:
    """Return the LM of a run, made again with its settings and its price: the one that `lms` names,
    or else the LM of most of its seats.

    Its address comes from the options or the environment, never from the run: a foreign folder
    could name an address that would receive the key. `who` names the program with the one seat for
    this LM. `name` replaces the name in `lms`. Raises UserError when there are several LMs and no
    name, and when the LM made is not the one that the run used.
    """
    if {*lms.seated, *lms.addresses} - {EVERY}:
        raise UserError(f"{who} has one agent: give --lm and --api-base without an agent's name")
    recorded = run.summary.run.lms
    used = {made.name: made for made in recorded.values()}
    if "*" in recorded:  # the LM of most agents, where others have it with settings of their own
        used[recorded["*"].name] = recorded["*"]
    named = name or lms.seated.get(EVERY)
    if named is None and "*" not in recorded and len(used) > 1:
        raise UserError(f"{run.folder} used several LMs: choose {' or '.join(used)} with --lm")
    wanted = named or recorded.get("*", next(iter(recorded.values()))).name
    if wanted not in used:
        raise UserError(f"{wanted} is not an LM of {run.folder}: choose {' or '.join(used)}")
    # The folder may be somebody else's: only the known settings of sampling are taken from it.
    settings = only(used[wanted].settings, SETTINGS)
    for name in ("temperature", "max_tokens"):
        if (changed := getattr(lms.options, name, None)) is not None:
            settings[name] = changed
    if EVERY in lms.addresses:
        settings["api_base"] = lms.addresses[EVERY]
    if wanted not in lms.priced and (price := noted_prices(run).get(wanted)):
        settings["price"] = price
    profile = Profile(**used[wanted].profile) if used[wanted].profile else None
    made = lms.make(wanted, profile=profile, **settings)
    # The same name at another address may be another LM, whose answers would not be comparable. A
    # run of DSPy's own LM knows no address: its endpoint is the name.
    identity = lm_identity(made)
    endpoint = identity and identity.endpoint
    if used[wanted].endpoint not in (endpoint, wanted):
        raise UserError(
            f"{run.folder} used {used[wanted].endpoint}, not {endpoint}: give its address with "
            "--api-base"
        )
    return made


def noted_prices(run: Evaluation) -> dict[str, Prices]:
    """Return USD per token by LM, as passed to the command that made the run."""
    return parse_prices(run.summary.run.settings.prices or ())


def program_of_run(
    run: Evaluation, seating: Seating, lms: Mapping[str, object] | None = None
) -> Program:
    """Return the program of a run, with these LMs by seat: the same one, the one that its folder
    holds, or the one that was named for it. Raises LookupError where there is none.
    """
    settings = run.summary.run.settings
    try:
        program = run.program_with(lms)
    except UserError:
        if not (spec := settings.program_spec):
            raise LookupError(
                "its program is not in a file: in Python, pass the run itself"
            ) from None
        program = program_of(spec, parse_sets(settings["sets"]), make_lm=seating.make)
    return program_given(program)
