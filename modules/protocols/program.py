"""`Program`, the base of all protocols: how a program is called, which LM each agent has, and what
a prediction contains.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from ..base.errors import UserError, checked_among, system_errors
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
"""An agent with the fewest and the most turns that it takes on one question."""

T = TypeVar("T")

_SEATS = ("retriever.query", "query")
"""Names of agents, besides roles, that many protocols have."""
MOST_NAMES = 80  # characters of the agents' names in a program's repr


@cache
def _adapter(role_first: bool, verbatim: bool) -> dspy.Adapter:
    from ..agents.adapter import ProfileAdapter  # not needed before the first request

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

    # DSPy's own warns of direct calls of `forward`, which makes each look-up several times slower.
    __getattribute__ = object.__getattribute__

    protocol: ClassVar[Protocol]
    prompt_layout: str = ROLE_LAST
    prompts: Mapping[str, str] = MappingProxyType({})
    verbatim: bool = False  # whether instructions keep their line breaks
    own_roles: Mapping[str, Role] = MappingProxyType({})
    idle_role = ""  # a user's own role that no agent here has, although it is named like an agent
    own_lm: Callable[[], dspy.BaseLM] | None = None
    """Makes the LM that it was saved with, for agents without one; None if it has none."""

    kinds: Sequence[str] = ()
    """The kinds of the questions that it was measured on, if it was saved with them."""

    foreign: ClassVar[bool] = False
    """Whether it wraps a user's own module or callable."""
    metered: ClassVar[bool] = False
    """Whether it asks LMs through the meter, naming the models itself."""
    started: ClassVar[bool] = False
    """Whether it is a command, which is started for each question."""

    def __repr__(self) -> str:
        # DSPy's own lists every predictor with its whole signature.
        return f"{type(self).__name__}({cut(', '.join(self.seats()), MOST_NAMES)})"

    @property
    def as_given(self) -> Any:
        """The object that the user gave: itself, or what it wraps."""
        return self

    @property
    def lacks_weights(self) -> bool:
        """Whether its weights have to be fitted on training questions before it can answer."""
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

        # `dspy.streamify` reads the stream on the loop that this thread works for, and only from
        # that loop can anything be sent to it.
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
        # Within a run that is the question's id; without one, a hash of its text.
        asked = ASKER.get().question or task.key
        adapter = _adapter(self.prompt_layout == ROLE_FIRST, self.verbatim)
        lm = self.lm_of_its_own()
        # Not `lm=None`, which would hide the LM that DSPy is set to.
        own = {} if lm is None else {"lm": lm}
        with (
            dspy.context(adapter=adapter, warn_on_type_mismatch=False, **own),
            asking(question=asked),
            metered() as usage,
        ):
            prediction = await self.solve(task)
        # By key: for an attribute, DSPy would look through every name of the class.
        prediction["usage"] = usage.to_dict()
        prediction["transcript"] = list(map(TurnFields.of, prediction["transcript"]))
        # Moved to the end, where `dspy.majority` looks for it.
        answer = prediction["answer"]
        del prediction["answer"]
        prediction["answer"] = answer
        return prediction

    def _miss_options(self, choices: object) -> None:
        """Warn of a question without options if all that it was measured on had them."""
        if list(self.kinds) == ["choice"] and not choices:
            warnings.warn(
                "this program was measured on questions with options, and this one has none: give "
                "choices=[…], on the command line --choice TEXT for each",
                stacklevel=2,
            )

    def lm_of_its_own(self) -> dspy.BaseLM | None:
        """Return the LM that it was saved with; None if it has none, or if that cannot be made and
        DSPy is set to another. Raises UserError if there is no other.
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
        """Return the prediction on a question."""
        files, given = question.get("files"), question.given()
        if files is None:
            return await self.acall(**given)
        with asking(files=files):
            return await self.acall(**given)

    async def solve(self, task: Task) -> dspy.Prediction:
        # Each protocol answers a question here, and returns `prediction_of(…)`.
        raise NotImplementedError

    def describe(self) -> Described:
        """Return the JSON from which this program can be made again: its name and its settings."""
        name = type(self).__name__
        raise NotImplementedError(
            f"{name} has no describe(): return named() and the constructor's settings"
        )

    def named(self) -> dict[str, object]:
        """Return the beginning of `describe()`: `program`, the protocol's name; `class`, as
        `module:Class`, for a user's subclass of a protocol; the arguments of `word`; and the user's
        own roles.
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
        """Return the arguments of `word`, as constructor parameters."""
        wording: dict[str, object] = {}
        if self.prompt_layout != ROLE_LAST:
            wording["prompt_layout"] = self.prompt_layout
        if self.prompts:
            wording["prompts"] = dict(self.prompts)
        return wording

    def report(self, rows: Iterable[ResultRow]) -> dict[str, object]:
        """Return the protocol's figures about its evaluated rows."""
        return {}

    def turns(self) -> list[SeatTurns]:
        """Return the fewest and most turns of each agent, for plans.

        Without an own version, a protocol counts with at least one turn in all, and at most one of
        each agent and of each predictor outside of agents.
        """
        seats = list(self.seats().values())
        seated = {id(seat.predict) for seat in seats}
        for name, predictor in self.parts(dspy.Predict):
            if id(predictor) not in seated:
                seats.append(Seat(name, predictor.signature))
                seats[-1].predict = predictor
        return [(seat, 1 / len(seats), 1) for seat in seats]

    def exchange(self) -> Exchange | None:
        """Return how its agents answer again, for `fm.controls`; None if they cannot."""
        return None

    def most_turns(self) -> int:
        """Return the largest number of turns that one question can take."""
        return int(sum(most for _, _, most in self.turns()))

    def seats(self) -> dict[str, Seat]:
        """Return every agent by name, then the models that metered parts ask for."""
        found = [part for _, part in self.parts((Seat, Program))]
        named = by_name([part for part in found if isinstance(part, Seat)])
        for part in found:
            if isinstance(part, Program) and part.metered:
                named |= part.models
        return named

    @property
    def metered_parts(self) -> list[Program]:
        """The metered programs among its parts, itself included."""
        return [part for _, part in self.parts(Program) if part.metered]

    def parts(self, kind: type[T] | tuple[type[T], ...]) -> list[tuple[str, T]]:
        """Return its modules of that kind, itself included, with their names; without those of the
        candidates that an optimizer attaches to it.
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
        with system_errors(str(place), "check its folder"):
            try:
                super().save(scratch)
                scratch.replace(place)
            finally:
                scratch.unlink(missing_ok=True)

    def other_seats(self) -> Iterable[str]:
        """Return further names of agents that programs of this protocol may have."""
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
                # From now on instructions keep their line breaks, but those of folkmoot's own
                # instructions mean nothing.
                text = " ".join(signature.instructions.split())
                seat.predict.signature = signature.with_instructions(text)
        if unused := instructions.keys() - used:
            from .roles import ROLES, SEATS  # most programs do not need these

            for name in unused - {*_SEATS, *SEATS, *ROLES.names(), *self.other_seats()}:
                raise UserError(
                    f"prompts: there is no agent {name!r} in this program: the agents are "
                    f"{', '.join(self.seats())}"
                )
        for part in parts:
            part.prompt_layout = prompt_layout or part.prompt_layout
            part.verbatim = part.verbatim or bool(instructions)
        if prompts is not None:
            self.prompts = instructions

    def reseed(self, seed: int) -> None:
        """Set another seed, if this program draws anything."""
        # Only ties that are stored; an ensemble computes them from the seed.
        own = self.__dict__
        ties = own.get("ties")
        if "seed" in own:
            own["seed"] = seed
        if isinstance(ties, Ties) and ties.rule == "random":
            own["ties"] = replace(ties, seed=seed)

    def with_seats(self, names: Iterable[str]) -> Program:
        """This program, or a copy in which metered parts have agents of these names."""
        models = [name for name in names if name != "*" and not self._find_agents(name)]
        if not models or not self.metered_parts:
            return self
        copied: Program = self.deepcopy()
        copied.assign(dict.fromkeys(models))
        return copied

    def has_seat(self, name: str) -> bool:
        """Return whether an agent has this name; `NAME` also means `NAME.0`, `NAME.1`,
        `NAME.split`, ….
        """
        return any(seat == name or seat.startswith(f"{name}.") for seat in self.seats())

    def take(self, cast: Mapping[str, Role], own: Mapping[str, Role]) -> None:
        """Keep those of the user's own roles that agents here have, and give agents their roles'
        LMs.
        """
        self.own_roles = only(cast, own)
        self.assign({name: role.lm for name, role in cast.items() if role.lm is not None})

    def refuse_idle_role(self) -> None:
        """Raise UserError for a user's own role that no agent would have."""
        if self.idle_role:
            raise UserError(
                f"the role {self.idle_role!r} is not an agent of this program: set "
                f"tie_break={self.idle_role}, or leave the role out"
            )

    def assign(self, lms: Mapping[str, dspy.BaseLM | None] | None) -> None:
        """Give agents LMs of their own; `NAME` also means `NAME.0`, `NAME.1`, `NAME.split`, ….

        A metered part does not declare which models it asks for: any other name is one of them.
        Raises UserError naming the agents when a name is not one of them.
        """
        # Names that mean several agents first, so that the name of a single one decides.
        for name, lm in sorted((lms or {}).items(), key=lambda item: item[0].count(".")):
            meant, metered_parts = self._find_agents(name), self.metered_parts
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

    def _find_agents(self, name: str) -> list[Any]:
        """Return the agents that a name means."""
        models = set(chain.from_iterable(part.models for part in self.metered_parts))
        meant = []
        for key, seat in self.seats().items():
            # For models, `gpt-4` does not mean `gpt-4.0` and `gpt-4.1`.
            if key == name or (key.startswith(f"{name}.") and key not in models):
                meant.append(seat)
        return meant


def by_name(seats: Sequence[Any]) -> dict[str, Any]:
    """Return seats by name; equal names are numbered."""
    return dict(zip(distinct([seat.name for seat in seats]), seats, strict=True))


LAYOUT = Parameter(choice(*LAYOUTS), default=ROLE_LAST)
"""`prompt_layout` as a parameter of search spaces."""


def turns_of(seats: Iterable[Seat], fewest: float, most: float) -> list[SeatTurns]:
    """Return the same numbers of turns for each of these agents and those that write their
    queries.
    """
    return [(seat, fewest, most) for seat in with_queries(seats)]


async def solved_by(program: Program, task: Task) -> dspy.Prediction:
    """Return the prediction of a program that is part of another."""
    return await program.acall(
        question=task.question, choices=task.choices, context=task.context, kind=task.kind
    )


def lms_by_seat(program: Program) -> dict[str, dspy.BaseLM | None]:
    """Return the LM of each agent; None for an agent without one of its own."""
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
    """Return the prediction that every protocol returns; its `answers` are those of each agent,
    round by round. Without an answer, `decided_by` is `none`.
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
    """Return agent → its answers in order."""
    answers: dict[str, list[str | None]] = {}
    for turn in transcript:
        if turn.step is None:
            answers.setdefault(turn.agent, []).append(turn.answer)
    return answers
