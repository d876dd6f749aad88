"""The base of all protocols: how a program is called, which LM sits where, and what a prediction
holds.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import dspy

from ..agents.exchange import Exchange
from ..agents.own_prompts import LAYOUTS, ROLE_FIRST, ROLE_LAST, meant_for, prompts_given
from ..agents.profile import Wording
from ..agents.retrieval import with_queries
from ..agents.seat import Seat
from ..agents.transcript import Task, Turn, check_passage
from ..base.calls import ASKER, asking, metered
from ..base.errors import UserError, checked_among
from ..base.fence import cut
from ..base.keyed import only
from ..base.saved_file import Described
from ..base.space import Parameter, choice
from ..base.sync import run_sync
from ..reading.asked import Kind
from ..reading.row import ResultRow, TurnFields
from ..reading.voting import Ties
from .declaration import Protocol, distinct

if TYPE_CHECKING:
    from ..reading.question import Question
    from .roles import Role

SeatTurns = tuple[Seat, float, float]
"""An agent with the fewest and the most turns that it takes over one question."""

T = TypeVar("T")

_SEATS = ("retriever.query", "query")
"""Names of seats beside roles, one or another of which most protocols have."""
MOST_NAMES = 80  # characters of a program's agents where it stands for itself


@cache
def _adapter(role_first: bool, verbatim: bool) -> dspy.Adapter:
    from ..agents.adapter import ProfileAdapter  # what writes requests is loaded by the first one

    return ProfileAdapter(Wording(role_first, verbatim))


class Program(dspy.Module):  # type: ignore[misc]
    """A question-answering program. A protocol subclasses it and writes `solve`.

    Call it with `question` and, as needed, `choices` (label → text, or texts), `context` and `kind`
    (choice, boolean, number, span). The prediction has

    - `answer`: the label, `yes`/`no`, decimal number or phrase; None when none could be read,
    - `decided_by`: who or what decided, or `none`,
    - `rounds` used, and `consensus_round`, the first with full consensus or None,
    - `transcript`: a dict per turn with agent, round, answer, text, evidence and usage,
    - `usage` of this question.

    Raises CallError when an LM call fails for good, UserError when the input cannot be used.
    """

    # DSPy's own warns of a direct call of `forward`, which takes longer than the look-up itself.
    __getattribute__ = object.__getattribute__

    protocol: ClassVar[Protocol]
    prompt_layout: str = ROLE_LAST
    prompts: Mapping[str, str] = MappingProxyType({})
    verbatim: bool = False  # whether instructions keep their line breaks
    own_roles: Mapping[str, Role] = MappingProxyType({})
    idle_role = ""  # a role of the user's own that has no seat, although it is called like one
    own_lm: Callable[[], dspy.BaseLM] | None = None
    """Makes the LM that it was saved with, for seats without one; None where it has none."""

    kinds: Sequence[str] = ()
    """The kinds of the questions that it was measured on, where it was saved with them."""

    foreign: ClassVar[bool] = False
    """Whether it is a user's own module or callable behind this interface."""
    metered: ClassVar[bool] = False
    """Whether its LM is asked through the meter, by names that it sends itself."""
    started: ClassVar[bool] = False
    """Whether it is a command, which is started for each question."""

    def __repr__(self) -> str:
        # DSPy's own lists every predictor with its whole signature.
        return f"{type(self).__name__}({cut(', '.join(self.seats()), MOST_NAMES)})"

    @property
    def as_given(self) -> Any:
        """What the user had given for it."""
        return self

    @property
    def lacks_weights(self) -> bool:
        """Whether it needs weights that are to be fitted on training questions."""
        return False

    def forward(
        self,
        question: str,
        choices: Mapping[str, str] | Sequence[str] | None = None,
        context: str | Sequence[str] | None = None,
        kind: Kind | None = None,
    ) -> dspy.Prediction:
        if dspy.settings.send_stream is None:
            return run_sync(self.aforward, question, choices, context, kind)
        from anyio import from_thread

        # `dspy.streamify` reads the stream on the loop that this thread works for, and nobody can
        # send to it from another loop.
        return from_thread.run(self.aforward, question, choices, context, kind)

    async def aforward(
        self,
        question: str,
        choices: Mapping[str, str] | Sequence[str] | None = None,
        context: str | Sequence[str] | None = None,
        kind: Kind | None = None,
    ) -> dspy.Prediction:
        task = Task.of(question, choices, context, kind)
        self._miss_options(task.choices)
        check_passage(task.context or "", "the question")
        # A run knows the question's id; a call without a run goes by the question's words.
        asked = ASKER.get().question or task.key
        adapter = _adapter(self.prompt_layout == ROLE_FIRST, self.verbatim)
        lm = self.lm_of_its_own()
        # None would hide the LM that DSPy is set to.
        own = {} if lm is None else {"lm": lm}
        with (
            dspy.context(adapter=adapter, warn_on_type_mismatch=False, **own),
            asking(question=asked),
            metered() as usage,
        ):
            prediction = await self.solve(task)
        # as an attribute, DSPy would look at every name of the class
        prediction["usage"] = usage.to_dict()
        prediction["transcript"] = list(map(TurnFields.of, prediction["transcript"]))
        # The answer stands last, where `dspy.majority` looks for it.
        answer = prediction["answer"]
        del prediction["answer"]
        prediction["answer"] = answer
        return prediction

    def _miss_options(self, choices: object) -> None:
        """Warn of a question without options, where all that it was measured on had them."""
        if list(self.kinds) == ["choice"] and not choices:
            warnings.warn(
                "this program was measured on questions with options, and this one has none: give "
                "choices=[…], on the command line --choice TEXT for each",
                stacklevel=2,
            )

    def lm_of_its_own(self) -> dspy.BaseLM | None:
        """The LM that it was saved with; None without one, and where that cannot be made and DSPy
        is set to another. Raises UserError where there is no other.
        """
        if self.own_lm is None:
            return None
        try:
            return self.own_lm()
        except UserError:
            if dspy.settings.lm is None:
                raise
            return None

    async def answer(self, question: Question) -> dspy.Prediction:
        """The prediction on a question."""
        files, given = question.get("files"), question.given()
        if files is None:
            return await self.acall(**given)
        with asking(files=files):
            return await self.acall(**given)

    async def solve(self, task: Task) -> dspy.Prediction:
        raise NotImplementedError

    def describe(self) -> Described:
        """All that makes this program as JSON: settings, prompts and demos."""
        name = type(self).__name__
        raise NotImplementedError(
            f"{name} has no describe(): return named() and the constructor's settings"
        )

    def named(self) -> dict[str, object]:
        """The beginning of `describe()`: `program`, the name of the protocol, of a class that
        inherits its protocol also its own `class`, as `module:Class`, what `word` was told, and
        the user's own roles.
        """
        kind = type(self)
        described: dict[str, object] = {"program": self.protocol.name}
        if "protocol" not in vars(kind):
            described["class"] = f"{kind.__module__}:{kind.__qualname__}"
        described |= self.wording()
        if self.own_roles:
            roles = {name: role.describe() for name, role in self.own_roles.items()}
            described["own_roles"] = roles
        return described

    def wording(self) -> dict[str, object]:
        """The arguments of `word`, as constructor parameters."""
        wording: dict[str, object] = {}
        if self.prompt_layout != ROLE_LAST:
            wording["prompt_layout"] = self.prompt_layout
        if self.prompts:
            wording["prompts"] = dict(self.prompts)
        return wording

    def report(self, rows: Iterable[ResultRow]) -> dict[str, object]:
        """The protocol's figures about its evaluated rows."""
        return {}

    def turns(self) -> list[SeatTurns]:
        """The fewest and most turns of each agent, for plans.

        A protocol that does not say counts with at least one turn in all, and with one turn of each
        agent and of each predictor outside of agents.
        """
        seats = list(self.seats().values())
        seated = {id(seat.predict) for seat in seats}
        for name, predictor in self.parts(dspy.Predict):
            if id(predictor) not in seated:
                seats.append(Seat(name, predictor.signature))
                seats[-1].predict = predictor
        return [(seat, 1 / len(seats), 1) for seat in seats]

    def exchange(self) -> Exchange | None:
        """How its agents answer again, for `fm.controls`, or None."""
        return None

    def most_turns(self) -> int:
        """The largest number of turns that one question can take."""
        return int(sum(most for _, _, most in self.turns()))

    def seats(self) -> dict[str, Seat]:
        """Every agent by name, then the models that metered parts ask for."""
        found = [part for _, part in self.parts((Seat, Program))]
        named = by_name([part for part in found if isinstance(part, Seat)])
        for part in found:
            if isinstance(part, Program) and part.metered:
                named |= part.models
        return named

    @property
    def metered_parts(self) -> list[Program]:
        """The metered programs that it consists of, perhaps itself."""
        return [part for _, part in self.parts(Program) if part.metered]

    def parts(self, kind: type[T] | tuple[type[T], ...]) -> list[tuple[str, T]]:
        """Its own modules of that kind by name: not those of the candidates that an optimizer hangs
        on it.
        """
        return [
            (name, part)
            for name, part in self.named_sub_modules(kind)
            if "candidate_programs" not in name
        ]

    def save(
        self, path: str | Path, save_program: bool = False, modules_to_serialize: object = None
    ) -> None:
        """Write the program into a folder for `fm.load_program`.

        Settings, prompts, demonstrations and the LMs of agents, by name and sampling, are kept, as
        JSON and safetensors; addresses and keys are not. A path that ends in `.json` gets DSPy's
        own state file, for `load`: prompts, demonstrations and what is learned.

        Raises UserError for pickle, for what JSON cannot hold, a part that DSPy's state would leave
        out, and a folder that cannot be written.
        """
        from .saved import check_kept, check_no_pickle, write

        place = Path(path)
        check_no_pickle(place, save_program, modules_to_serialize)
        if place.suffix != ".json":
            write(self, place)
            return
        check_kept(self)
        # DSPy writes in place, where a reader could see half a file.
        scratch = place.with_name(f".{place.stem}.{os.getpid()}.json")
        try:
            super().save(scratch)
            scratch.replace(place)
        except OSError as problem:
            raise UserError(
                f"{place} cannot be written ({problem.strerror}): check its folder"
            ) from None
        finally:
            scratch.unlink(missing_ok=True)

    def other_seats(self) -> Iterable[str]:
        """Names of seats that programs like this one have, beside those that are common."""
        return ()

    def word(
        self,
        prompts: Mapping[str, str] | str | Path | None = None,
        prompt_layout: str | None = None,
    ) -> None:
        """Give agents instructions of the user's own, and say where instructions stand, here and in
        every program inside.

        Args:
            prompts: agent → instructions, or the path of a YAML file with them. An agent is called
                by its name, its name without numbers, or the last parts of that. One that only
                other programs have is passed over.
            prompt_layout: `role_last`, behind all that agents share, or `role_first`, in the system
                message; None leaves it as it is.

        Raises UserError for an agent that no program has, no instructions, and another layout.
        """
        if prompt_layout is not None:
            checked_among("prompt layout", prompt_layout, LAYOUTS)
        instructions, parts = prompts_given(prompts), [part for _, part in self.parts(Program)]
        worded_before = set[int]()
        for part in parts:
            if part.verbatim:
                worded_before.update(map(id, part.seats().values()))
        used = set()
        for key, seat in self.seats().items():
            signature, name = seat.predict.signature, meant_for(key, instructions)
            if name is not None:
                used.add(name)
                seat.predict.signature = signature.with_instructions(instructions[name])
            elif instructions and id(seat) not in worded_before:
                # All are verbatim from now on, but folkmoot's own lines only wrap a paragraph.
                text = " ".join(signature.instructions.split())
                seat.predict.signature = signature.with_instructions(text)
        unused = instructions.keys() - used
        if unused:
            self._check_agents_elsewhere(unused)
        for part in parts:
            part.prompt_layout = prompt_layout or part.prompt_layout
            part.verbatim = part.verbatim or bool(instructions)
        if prompts is not None:
            self.prompts = instructions

    def _check_agents_elsewhere(self, names: Set[str]) -> None:
        """Raise UserError for a name that no agent of any program has."""
        from .roles import ROLES, SEATS  # which most programs have no need of

        # Other programs' agents are found among all packages, which takes a while.
        for name in names - {*_SEATS, *SEATS, *ROLES.names(), *self.other_seats()}:
            raise UserError(
                f"prompts: there is no agent {name!r} in this program: the agents are "
                f"{', '.join(self.seats())}"
            )

    def reseed(self, seed: int) -> None:
        """Draw with another seed, where this program draws anything."""
        # Ties that are computed, as an ensemble's are, follow the seed themselves.
        own = self.__dict__
        ties = own.get("ties")
        if "seed" in own:
            own["seed"] = seed
        if isinstance(ties, Ties) and ties.rule == "random":
            own["ties"] = replace(ties, seed=seed)

    def with_seats(self, names: Iterable[str]) -> Program:
        """The program with seats of these names, as far as it can have them: itself, or a copy."""
        models = [name for name in names if name != "*" and not self._meant(name)]
        if not models or not self.metered_parts:
            return self
        # A copy, so that the program that was given stays as it is.
        copied: Program = self.deepcopy()
        copied.assign(dict.fromkeys(models))
        return copied

    def has_seat(self, name: str) -> bool:
        """Whether an agent has this name; `NAME` also means `NAME.0`, `NAME.1`, `NAME.split`, …."""
        return any(seat == name or seat.startswith(f"{name}.") for seat in self.seats())

    def take(self, cast: Mapping[str, Role], own: Mapping[str, Role]) -> None:
        """Keep the user's own roles that have a seat here, and give seats the LMs of roles."""
        self.own_roles = only(cast, own)
        self.assign({name: role.lm for name, role in cast.items() if role.lm is not None})

    def refuse_idle_role(self) -> None:
        """Raise UserError for a role of the user's own that nobody would be asked as."""
        if self.idle_role:
            raise UserError(
                f"the role {self.idle_role!r} is no agent of this program: set "
                f"tie_break={self.idle_role}, or leave the role out"
            )

    def assign(self, lms: Mapping[str, dspy.BaseLM | None] | None) -> None:
        """Give agents LMs of their own; `NAME` also means `NAME.0`, `NAME.1`, `NAME.split`, ….

        A metered part does not declare which models it asks for: any other name is one of them.
        Raises UserError naming the agents when a name is not one of them.
        """
        # Names that mean several agents first, so that the name of a single one decides.
        for name, lm in sorted((lms or {}).items(), key=lambda item: item[0].count(".")):
            meant, metered_parts = self._meant(name), self.metered_parts
            if metered_parts and not meant:
                model = SimpleNamespace(name=name, predict=SimpleNamespace())
                meant = [model]
                for part in metered_parts:
                    part.models[name] = model
            if not meant:
                raise UserError(
                    f"there is no agent {name!r} in this program: the agents are "
                    f"{', '.join(self.seats())}"
                )
            for seat in meant:
                seat.predict.lm = lm

    def _meant(self, name: str) -> list[Any]:
        """The agents that a name means."""
        models = set(chain.from_iterable(part.models for part in self.metered_parts))
        meant = []
        for key, seat in self.seats().items():
            # A model gpt-4 is not one of the agents gpt-4.0 and gpt-4.1.
            if key == name or (key.startswith(f"{name}.") and key not in models):
                meant.append(seat)
        return meant


def by_name(seats: Sequence[Any]) -> dict[str, Any]:
    """Seats by their names, of which equal ones are numbered."""
    return dict(zip(distinct([seat.name for seat in seats]), seats, strict=True))


LAYOUT = Parameter(choice(*LAYOUTS), default=ROLE_LAST)
"""The place of instructions, as a part of a space."""


def turns_of(seats: Iterable[Seat], fewest: float, most: float) -> list[SeatTurns]:
    """So many turns of each of these agents, and of those that write its queries."""
    return [(seat, fewest, most) for seat in with_queries(seats)]


async def solved_by(program: Program, task: Task) -> dspy.Prediction:
    """The prediction of a program that is part of another."""
    return await program.acall(
        question=task.question, choices=task.choices, context=task.context, kind=task.kind
    )


def lms_by_seat(program: Program) -> dict[str, dspy.BaseLM | None]:
    """The LM of each agent; None for an agent without one of its own."""
    return {name: seat.predict.lm for name, seat in program.seats().items()}


def prediction_of(
    task: Task,
    answer: str | None,
    decided_by: str,
    transcript: Sequence[Turn],
    *,
    rounds: int = 1,
    consensus_round: int | None = None,
    **extra: object,
) -> dspy.Prediction:
    """The prediction that every protocol returns; `answers` holds each agent's answer per round.
    Without an answer, `decided_by` is `none`.
    """
    if answer is None:
        decided_by = "none"
    return dspy.Prediction(
        answer=answer,
        decided_by=decided_by,
        rounds=rounds,
        consensus_round=consensus_round,
        kind=task.kind,
        answers=answers_by_agent(transcript),
        transcript=[turn.to_dict() for turn in transcript],
        **extra,
    )


def answers_by_agent(transcript: Iterable[Turn]) -> dict[str, list[str | None]]:
    answers: dict[str, list[str | None]] = {}
    for turn in transcript:
        if turn.step is None:
            answers.setdefault(turn.agent, []).append(turn.answer)
    return answers
