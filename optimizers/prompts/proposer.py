"""The LM that optimizers ask for new instructions, and an adapter that reads its replies in any
form.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import dspy
import json_repair
from dspy.lm15 import Message, Request, Response, TextPart, Usage
from dspy.utils.exceptions import AdapterParseError, LMError

from ...modules.agents.adapter import Written
from ...modules.agents.dspy_lm import arguments_of, can_be_awaited, reply_text, texts_of
from ...modules.agents.profile import SAMPLING
from ...modules.base.calls import asking
from ...modules.base.sync import in_thread, run_sync
from ...modules.base.together import together
from ...modules.protocols.foreign import Foreign
from ...modules.protocols.program import Program
from .student import CallControl

SEAT = "optimizer"
"""The name of proposals in the ledger."""

NOTHING = "[[ ## completed ## ]]"
"""An empty reply in DSPy's form, since DSPy refuses an empty text."""

SOURCE = "program_code"
"""Input field of DSPy's signatures that describes the whole program."""

THOUGHTS = ("reasoning", "discussion")
"""Output fields of DSPy's signatures that precede a proposal."""

Texts: TypeAlias = Sequence[tuple[str, str]]
"""The role and text of each message of a request."""


class Kept(Protocol):
    """Proposals by the hash of their request, which a resumed run reuses."""

    def get(self, key: str) -> str | None: ...

    def put(self, key: str, text: str) -> None: ...


class Proposer:
    """The engine of the LM that DSPy's optimizers ask for proposals. They get independent samples
    by asking the same again: how often a request came is part of its key.

    Args: lm: the LM behind it, made by `fm.lm` or not. control: the control of the run, which ends
    the calls when the run is stopped. kept: proposals of an earlier attempt. Unlike a record of
    calls, it includes replies that were cut off, since another text would make the resumed run take
    a different course. A call that fails for good counts as an empty proposal; several in a row end
    the run.
    """

    supports_response_schema = False
    supported_params = frozenset(SAMPLING)
    hands_on = True
    """Says that calls of the LM with this engine are not booked, since the LM behind it does so."""

    def __init__(self, lm: dspy.BaseLM, control: CallControl, kept: Kept) -> None:
        self.lm, self.control, self.kept = lm, control, kept
        self.takes: Sequence[str] = getattr(lm, "takes", SAMPLING)
        # How many samples of a new request are asked at once, for an optimizer that will ask for at
        # least as many, one after the other.
        self.at_once = 1
        # By request, in the order of the samples: what was asked ahead waits here.
        self._replies: dict[str, list[str | None]] = {}
        self._given: Counter[str] = Counter()

    def __deepcopy__(self, memo: dict[int, object]) -> Proposer:
        return self

    def as_lm(self, at_once: int = 1) -> dspy.LM:
        """Return the LM to hand to an optimizer."""
        self.at_once = at_once
        sampling = {name: self.lm.kwargs.get(name) for name in self.takes}
        return dspy.LM(self.lm.model, engine=self, cache=False, num_retries=0, **sampling)

    def complete(self, request: Request) -> Response:
        settings = {name: getattr(request.config, name) for name in self.takes}
        asked = texts_of(request)
        sampling = {name: value for name, value in settings.items() if value not in (None, ())}
        request_key = _key(asked, sampling)
        # Asking the same again asks for another sample, so requests are counted.
        replies = self._replies.setdefault(request_key, [])
        place = self._given[request_key]
        self._given[request_key] += 1
        if place == len(replies):
            replies += self._next(asked, sampling, place)
        return Response(
            id=None,
            model=self.lm.model,
            message=Message.assistant([TextPart(replies[place] or NOTHING)]),
            finish_reason="stop",
            usage=Usage(),
        )

    def _next(self, asked: Texts, sampling: Mapping[str, object], place: int) -> list[str | None]:
        """Return the next replies to a request, of which some may be known from an earlier
        attempt.
        """
        # The first request stands for all that the optimizer is going to ask for.
        wanted = 1 if place else self.at_once
        places = range(place, place + wanted)
        keys = [_key(asked, sampling, number) for number in places]
        texts = list(map(self.kept.get, keys))
        missing = [number for number, text in enumerate(texts) if text is None]
        if not missing:
            return texts
        replies = self._ask(asked, sampling, [places[number] for number in missing])
        for number, text in zip(missing, replies, strict=True):
            texts[number] = text
            if text is not None:
                self.kept.put(keys[number], text)
        return texts

    def _ask(
        self, asked: Texts, sampling: Mapping[str, object], places: Sequence[int]
    ) -> Sequence[str | None]:
        async def answer() -> list[str]:
            with asking(seat=SEAT):
                return await together(self._sample(asked, sampling, place) for place in places)

        with self.control.working():
            try:
                replies = run_sync(self.control.attended, answer)
            except LMError as problem:
                self.control.failed(problem)
                return [None] * len(places)
        self.control.succeeded()
        return list(replies)

    async def _sample(self, asked: Texts, sampling: Mapping[str, object], place: int) -> str:
        engine = getattr(self.lm, "direct", None)
        if engine is None:
            request, settings = arguments_of(self.lm, asked, sampling)
            if can_be_awaited(self.lm):
                return reply_text(await self.lm.acall(*request, **settings))
            return reply_text(await in_thread(self.lm, *request, **settings))
        # Our own LMs are asked through their engine, which takes a sample's number.
        system = "\n\n".join(text for role, text in asked if role == "system") or None
        rest = [(role, text) for role, text in asked if role != "system"]
        extra = {"rollout": place} if place else {}
        return str(await engine.ask(Written(system, rest, sampling, extra)))


class ProposalAdapter(dspy.ChatAdapter):  # type: ignore[misc]
    """DSPy's chat adapter, which also reads replies in another form. Fields may come as JSON; a
    reply without any form is taken as the first field that is not reasoning, and its score
    decides its worth. Raises AdapterParseError only where a field must be more than text. Args:
    program: the program to improve. The prompt LM reads its `program_page`, where DSPy would
    show the source code of its classes: for a deliberation, thousands of tokens per proposal.
    """

    def __init__(self, program: Program | None = None) -> None:
        super().__init__(use_json_adapter_fallback=False)
        self._page = None if program is None else program_page(program)

    def format(
        self, signature: object, demos: list[dict[str, object]], inputs: dict[str, object]
    ) -> object:
        if self._page is not None and SOURCE in inputs:
            inputs = inputs | {SOURCE: self._page}
        return super().format(signature, demos, inputs)

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, object]:
        try:
            return dict(super().parse(signature, completion))
        except AdapterParseError:
            fields = signature.output_fields
            empty: dict[str, object] = dict.fromkeys(fields, "")
            # A plan or a list cannot be guessed from prose, as a text can.
            typed = [name for name, field in fields.items() if field.annotation is not str]
            if typed:
                document = json_repair.loads(completion)
                held = document if isinstance(document, dict) else {}
                if not all(isinstance(held.get(name), dict) for name in typed):
                    raise
                return {name: held.get(name) or "" for name in fields}
            # A field that the reply has left out is empty, which its score then punishes.
            if named := _named(completion, fields):
                return empty | named
            meant = next((name for name in fields if name not in THOUGHTS), list(fields)[-1])
            lines = completion.splitlines()
            # Not the chat adapter's headings: the text becomes an instruction as it is.
            text = [line for line in lines if not line.strip().startswith("[[ ##")]
            return empty | {meant: "\n".join(text).strip()}


def program_page(program: Program) -> str:
    """Return a description of a program: its purpose, its settings, and each agent's inputs,
    instructions and outputs.
    """
    if isinstance(program, Foreign):
        parts = [program.about()]
    else:
        about = inspect.getdoc(type(program)) or type(program).__name__
        settings = json.dumps(program.describe(), ensure_ascii=False, default=str)
        parts = [about.partition("\nArgs:")[0].strip(), f"Settings: {settings}"]
    for name, seat in program.seats().items():
        asked = seat.predict.signature
        parts.append(
            f"Agent {name}: {', '.join(asked.input_fields)} -> {', '.join(asked.output_fields)}\n"
            f"{asked.instructions}"
        )
    return "\n\n".join(parts)


def _named(completion: str, fields: Mapping[str, object]) -> dict[str, str]:
    """Return the fields of a reply that is a JSON object."""
    if not completion.lstrip().startswith(("{", "```")):
        return {}
    document = json_repair.loads(completion)
    if not isinstance(document, dict):
        return {}
    return {name: str(document[name]) for name in fields if document.get(name)}


def _key(asked: Texts, sampling: Mapping[str, object], place: int | None = None) -> str:
    text = json.dumps([asked, sampling, place], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
