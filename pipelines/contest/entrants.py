"""The field of a contest: which programs take part, what they are called, and on which LMs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import dspy

from ...modules.base.errors import UserError, did_you_mean
from ...modules.protocols.declaration import distinct
from ...modules.protocols.deliberation.deliberation import Deliberation
from ...modules.protocols.ensemble import Ensemble
from ...modules.protocols.foreign import COMMAND
from ...modules.protocols.program import Program
from ...modules.protocols.short_names import short_name
from ...modules.protocols.single import SingleAgent
from ...modules.reading.question import Question
from ...optimizers.prompts.demos import labelled_demos
from ..lms.named import billed_as
from ..programs.build import MakeLM
from ..programs.resolve import program_of
from ..programs.seats import program_given
from ..tasks.check import Check
from ..tasks.picked import PICKED, asked_often

ONE, STEPS, EXAMPLES = "one prompt", "step by step", "one prompt, 4 examples"
PANEL, TALK, MIXED = "panel of three", "two who talk", "mixed panel"
FAIR, PAPERS = "fair", "papers"
DEMOS = 4
FEWEST_FOR_DEMOS = 60
"""With at least this many questions, some are set aside as examples."""

MOST = 8
FIRST_SAMPLES = 3
"""How often the fair opponent is assumed to be asked, before prices are known."""

_PAPERS: dict[str, tuple[str, dict[str, str]]] = {
    "causal": ("causal:R2E1", {}),
    "supervised team": ("team:bold,cautious", {"environment": "wikipedia"}),
}


@dataclass(frozen=True)
class Entrant:
    """A program of the field.

    `lm` is the LM of agents without one of their own. All others are compared with the `reference`.
    The `fair` opponent is one prompt, named `prompt`, that is asked several times. A `team` makes
    several calls per question, so it has to beat the fair opponent.
    """

    name: str
    program: Program
    lm: dspy.BaseLM
    reference: bool = False
    fair: bool = False
    team: bool = False
    prompt: str = ""
    added: bool = False
    """Whether the user added it to the field, so that a selection never leaves it out."""

    spec: str | None = None
    """How the user named it on the command line; None for others."""

    @property
    def single(self) -> bool:
        """Whether it is one prompt with one call, which can be asked several times."""
        program = self.program
        alone = isinstance(program, SingleAgent) and program.samples is None
        return alone and not self.team and not self.fair and program.role is None

    @property
    def folder(self) -> str:
        """The name of its run's folder, different for different names."""
        # The name may be a user's, so it must not lead out of the contest's folder.
        plain = re.sub(r"[^\w.=]+", "-", self.name.replace(", ", "_")).strip("-.").lower()[:80]
        if self.name == plain.replace("-", " ").replace("_", ", "):
            return plain
        digest = hashlib.sha256(self.name.encode(errors="surrogatepass")).hexdigest()
        return f"{plain or 'program'}-{digest[:8]}"

    @property
    def kept(self) -> bool:
        """Whether the verdict needs this program, so that it is asked until the end."""
        return self.reference or self.fair


def entrants_by_name(entrants: Iterable[Entrant]) -> dict[str, Entrant]:
    """Return the entrants by name; of one name the last."""
    return {entrant.name: entrant for entrant in entrants}


def fair_opponent(
    asked: Entrant, samples: int, kind: str = "choice", visible: Check | None = None
) -> Entrant:
    """Return the prompt of an entrant, asked `samples` times: the answer is the most frequent one,
    or one that is picked if answers cannot be voted on.
    """
    times = "once"
    if samples > 1:
        times = f"{samples} times"
        if kind in PICKED and visible is not None:
            times += ", the first that passes the visible check"
        elif kind in PICKED:
            times += ", picked"
    several = asked_often(asked.program, samples, kind, visible)
    return Entrant(f"{asked.name}, {times}", several, asked.lm, fair=True, prompt=asked.name)


def lm_alone(lm: object, name: str = ONE) -> Entrant:
    """Return one prompt without a method: an LM alone."""
    return Entrant(name, SingleAgent("simple"), lm)


def default_field(
    lms: Sequence[object], demos: Sequence[Question], seed: int, judge: object = None
) -> list[Entrant]:
    """Return the default programs: six of one LM; for several LMs, each one alone, a mixed panel,
    and two that talk. `judge` is the LM that decides between these two; None takes the LM, or the
    dearest.
    """
    if len(lms) > 1:
        return _mixed_field(lms, judge)
    (lm,) = lms
    field = [lm_alone(lm), Entrant(STEPS, SingleAgent("cot"), lm)]
    if demos:
        shown = labelled_demos(SingleAgent("simple"), demos, DEMOS, seed=seed)
        field.append(Entrant(EXAMPLES, shown, lm))
    # Two members are also programs of the field: their calls are shared, and paid once.
    panel = Ensemble(["simple", "cot", "self_ask"])
    lms_of_talk = {"judge": judge} if judge is not None else None
    talk = Deliberation(["intuitive", "reasoner"], max_rounds=2, opening="blind", lms=lms_of_talk)
    return [
        *field,
        fair_opponent(lm_alone(lm), FIRST_SAMPLES),
        Entrant(PANEL, panel, lm, team=True),
        Entrant(TALK, talk, lm, team=True),
    ]


def _mixed_field(lms: Sequence[object], judge: object) -> list[Entrant]:
    """Return the default programs of several LMs. Raises UserError for too many."""
    if len(lms) > MOST - 3:
        raise UserError(f"{len(lms)} LMs are too many for one contest: give at most {MOST - 3}")
    names = distinct(list(map(lm_title, lms)))
    alone = [lm_alone(lm, f"{ONE}, {name}") for name, lm in zip(names, lms, strict=True)]
    members: list[str | Program] = [SingleAgent("cot", lm=lm) for lm in lms]
    if len(lms) == 2:
        # A third member for the panel: the first LM with another strategy, since with the same one
        # it would only vote twice.
        members.append(SingleAgent("simple", lm=lms[0]))
    seats = {"intuitive": lms[0], "reasoner": lms[1], "judge": judge or max(lms, key=_price)}
    talk = Deliberation(["intuitive", "reasoner"], max_rounds=2, opening="blind", lms=seats)
    return [
        *alone,
        fair_opponent(alone[0], FIRST_SAMPLES),
        Entrant(MIXED, Ensemble(members), lms[0], team=True),
        Entrant(TALK, talk, lms[0], team=True),
    ]


def _price(lm: object) -> float:
    """Return the price of one prompt token and one completion token together; 0 if it is
    unknown.
    """
    prices = billed_as(lm).prices
    return prices.prompt + prices.completion if prices else 0.0


def lm_name(lm: object) -> str:
    """Return the name of an LM, which may be given as an LM or as its name."""
    return str(getattr(lm, "model", lm))


def lm_title(lm: object) -> str:
    """Return the name of an LM without its provider."""
    return lm_name(lm).rpartition("/")[2]


def own_programs(
    programs: object,
    lm: object,
    make_lm: MakeLM,
    pass_env: Sequence[str] = (),
    roles: object = None,
    named: Mapping[str, object] | None = None,
) -> list[Entrant]:
    """Return the entrants for a user's programs or specs, which are given as a list or by name, or
    as a list of such.

    `pass_env` names the environment variables with keys that `cmd:` programs may read; `roles` are
    the user's own roles, for programs by name; `named` are LMs by the names of agents, or by the
    models that metered programs ask for.
    """
    given = {"pass_env": list(pass_env), "own_roles": roles, "named": named or {}}
    if isinstance(programs, Mapping):
        return [_own(program, lm, make_lm, given, str(name)) for name, program in programs.items()]
    if isinstance(programs, str | Path) or not isinstance(programs, Sequence):
        return [_own(programs, lm, make_lm, given)]
    parts = (own_programs(part, lm, make_lm, pass_env, roles, named) for part in programs)
    return list(chain.from_iterable(parts))


def _own(
    source: Any, lm: dspy.BaseLM, make_lm: MakeLM, given: Mapping[str, Any], name: str | None = None
) -> Entrant:
    """Return the entrant for one of a user's programs; `given` has what `own_programs` was
    given.
    """
    if isinstance(source, str | Path):
        spec = str(source)
        # A command reads keys from the environment but has no roles; others have roles only.
        sets = {"own_roles": given["own_roles"]}
        if spec.startswith(COMMAND):
            sets = {"pass_env": given["pass_env"]}
        elif ":" in spec:
            name = name or spec
        else:
            name = name or Path(source).name
        # A saved program has its own roles.
        if Path(source).expanduser().is_dir() or not any(sets.values()):
            sets = {}
        program = program_of(source, sets or None, make_lm=make_lm)
    else:
        spec, program = None, program_given(source)
    program = program.with_seats(given["named"])
    seated = {seat: lm for seat, lm in given["named"].items() if program.has_seat(seat)}
    if seated:
        program = program.deepcopy()
        program.assign(seated)
    name = name or short_name(program.describe())
    return Entrant(name, program, lm, team=program.most_turns() != 1, spec=spec)


def field_of(
    entrants: Sequence[Entrant],
    *,
    baseline: str | Entrant | None,
    only: Iterable[str] = (),
    without: Iterable[str] = (),
) -> list[Entrant]:
    """Return the field of a contest, the reference first: of the entrants, those that the user does
    not leave out, and always the reference and the fair opponent.

    Raises UserError for a name that no program has, and for more than eight programs.
    """
    if isinstance(baseline, Entrant):
        entrants = [baseline, *entrants]
        baseline = None
    names = distinct([entrant.name for entrant in entrants])
    entrants = [replace(entrant, name=name) for entrant, name in zip(entrants, names, strict=True)]
    reference = entrant_named(baseline, entrants) if baseline is not None else entrants[0]
    chosen = [entrant_named(name, entrants) for name in only] or list(entrants)
    left_out = [entrant_named(name, entrants) for name in without]
    for each in left_out:
        if each is reference or each.fair:
            raise UserError(
                f"{each.name} stays: without it nothing could be called better; leave out another"
            )
    field = []
    for each in entrants:
        wanted = each in chosen or each.fair or each.added
        if wanted and each is not reference and each not in left_out:
            field.append(each)
    if all(entrant.fair for entrant in field):
        raise UserError(f"only {reference.name} is left: a contest needs a program to beat it")
    if len(field) >= MOST:
        raise UserError(
            f"{len(field) + 1} programs are too many for one contest: leave some out "
            f"(--without NAME); {MOST} are the most"
        )
    return [replace(reference, reference=True), *field]


def paper_programs(lm: object, make_lm: MakeLM) -> list[Entrant]:
    """Return a causal team, and a supervised one whose workers look things up in Wikipedia."""
    entrants = []
    for name, (spec, sets) in _PAPERS.items():
        entrants.append(Entrant(name, program_of(spec, sets, make_lm=make_lm), lm, team=True))
    return entrants


def entrant_named(name: str, entrants: Sequence[Entrant]) -> Entrant:
    """Return the entrant with this name, else the first whose name begins with it, else the only
    one whose name contains it. Raises UserError if there is none.
    """
    wanted = " ".join(re.split(r"[\s_-]+", name.casefold()))
    exact = [entrant for entrant in entrants if entrant.name.casefold() == name.casefold()]
    alike = [entrant for entrant in entrants if wanted in entrant.name.casefold().replace("-", " ")]
    first = [entrant for entrant in alike if entrant.name.casefold().startswith(wanted)]
    for matches in (exact, first, alike):
        if len(matches) == 1 or (matches and matches is not alike):
            return matches[0]
    names = [entrant.name for entrant in entrants]
    raise UserError(
        f"there is no program {name!r} in the contest{did_you_mean(name, names)}: there are "
        f"{'; '.join(names)}"
    )
