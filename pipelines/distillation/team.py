"""The team of a recorded run, built again with the prompts and LMs that it had."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...modules.agents.profile import Profile
from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.protocols.router import Router
from ...modules.protocols.saved import hashes
from ..base.journal import as_json
from ..evaluation.earlier import Evaluation
from ..lms.named import SETTINGS
from ..programs.resolve import program_of
from ..programs.saved import saved_program
from ..programs.seats import Seating


def team_of(run: Evaluation, named: Any, seating: Seating) -> Program:
    """The team that the user names, or else the program in the run's folder. Raises UserError for
    another program than the run's, and where the folder has none.
    """
    if named is None:
        team: Program = saved_program(run.folder, make_lm=seating.make)
    elif isinstance(named, str | Path):
        team = program_of(named, make_lm=seating.make)
    else:
        team = named.deepcopy()
    described = run.summary.run
    same = hashes(team)["program_hash"] == described["program_hash"]
    if not same or as_json(team.describe()) != described["program"]:
        raise UserError(
            f"the program in {run.folder} is not the one that its run.json describes: give the "
            "team with --team"
            if named is None
            else f"the team passed is not the program of {run.folder}: pass the one evaluated there"
        )
    return team


def seat_team(
    team: Program, run: Evaluation, lm: Any, identity: Mapping[str, object], seating: Seating
) -> None:
    """Give the team's seats the LMs that they had, unless the candidates' LM sat in all of them."""
    lms, same = run.summary.run["lms"], as_json(identity)
    if all(used == same for used in lms.values()):
        return
    for name, seat in team.seats().items():
        used = lms.get(name) or lms.get("*")
        if seat.predict.lm is not None or used is None:
            continue
        settings = {key: value for key, value in used["settings"].items() if key in SETTINGS}
        profile = Profile(**used["profile"]) if used["profile"] else None
        seat.predict.lm = (
            lm if used == same else seating.make(used["name"], profile=profile, **settings)
        )


def seat_cheap(router: Router, lm: Any) -> None:
    """Where the team has LMs of its own, the router's cheap part needs one, too."""
    if any(seat.predict.lm is not None for seat in router.team.seats().values()):
        for seat in router.cheap.seats().values():
            seat.predict.lm = seat.predict.lm or lm
