"""The team of a recorded run, built again with the prompts and LMs that it had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...modules.agents.profile import Profile
from ...modules.base.errors import UserError
from ...modules.base.registry import names_from
from ...modules.protocols.program import Program
from ...modules.protocols.router import Router
from ...modules.protocols.saved import hashes
from ..base.journal import as_json
from ..evaluation.earlier import Evaluation
from ..lms.named import SETTINGS, lm_identity
from ..programs.resolve import MakeLM, parse_sets, program_of


def team_of(run: Evaluation, given: Program | None) -> Program:
    """The team's program with the prompts that it had. Raises UserError when it cannot be built
    again.
    """
    described = run.summary.run
    if given is not None:
        if hashes(given)["program_hash"] != described["program_hash"]:
            raise UserError(
                f"the team given is not the program of {run.folder}: give the one evaluated there"
            )
        copy: Program = given.deepcopy()
        return copy
    settings = described["settings"]
    tries: list[tuple[Any, Mapping[str, Any]]] = [(described["program"], {})]
    if isinstance(settings.get("program_spec"), str):
        tries.insert(0, (settings["program_spec"], parse_sets(settings.get("sets") or ())))
    for spec, sets in tries:
        try:
            with names_from(run.folder, "with --team", hosts=True):
                built = program_of(spec, sets)
        except (UserError, TypeError, ValueError, AttributeError):  # a file may describe anything
            continue
        if hashes(built)["program_hash"] == described["program_hash"]:
            return built
    raise UserError(
        f"the team of {run.folder} cannot be built again from what the run notes (it is your own "
        f"code, its "
        "prompts were changed, or its files have moved): give it with --team"
    )


def seat_team(
    team: Program, run: Evaluation, lm: Any, identity: Mapping[str, Any], make_lm: MakeLM
) -> None:
    """Give the team's seats the LMs that they had, unless the candidates' LM sat in all of them."""
    known, same = run.summary.run["lms"], as_json(identity)
    if all(used == same for used in known.values()):
        return
    for name, seat in team.seats().items():
        used = known.get(name) or known.get("*")
        if seat.predict.lm is None and used == same:
            seat.predict.lm = lm
        elif seat.predict.lm is None and used is not None:
            settings = {key: value for key, value in used["settings"].items() if key in SETTINGS}
            profile = Profile(**used["profile"]) if used["profile"] else None
            seat.predict.lm = make_lm(used["name"], profile=profile, **settings)


def lms_alone(team: Program, lm: Any) -> list[Any]:
    """The LMs of the team's seats, each once, but for that of the candidates."""
    found = {endpoint_of(used): used for seat in team.seats().values() if (used := seat.predict.lm)}
    return [used for endpoint, used in found.items() if endpoint != endpoint_of(lm)]


def endpoint_of(lm: Any) -> tuple[str, str]:
    """What tells LMs apart: name and address, as far as they are known."""
    return str(lm.model), str(known["endpoint"] if (known := lm_identity(lm)) else lm.model)


def seat_cheap(router: Router, lm: Any) -> None:
    """Where the team has LMs of its own, the router's cheap part needs one, too."""
    if any(seat.predict.lm is not None for seat in router.team.seats().values()):
        for seat in router.cheap.seats().values():
            seat.predict.lm = seat.predict.lm or lm
