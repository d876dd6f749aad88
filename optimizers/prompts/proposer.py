"""The LM that optimizers ask for new instructions, and an adapter that reads its replies in any
form.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import dspy
import json_repair
from dspy.utils.exceptions import AdapterParseError, LMError

from ...modules.agents.adapter import SAMPLING, request_of
from ...modules.base.calls import asking
from ...modules.base.sync import run_sync
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


class Kept(Protocol):
    """Proposals by the hash of their request, which a resumed run reuses."""

    def get(self, key: str) -> str | None: ...

    def put(self, key: str, text: str) -> None: ...


class Proposer(dspy.BaseLM):  # type: ignore[misc]
    """A prompt LM as DSPy's optimizers call it: several samples of one request (`n`), and rollouts.

    Args: lm: the LM behind it, made by `fm.lm` or not. control: the control of the run, which ends
    the calls when the run is stopped. kept: proposals of an earlier attempt. Unlike a record of
    calls, it includes replies that were cut off, since another text would make the resumed run take
    a different course. A call that fails for good counts as an empty proposal; several in a row end
    the run.
    """

    def __init__(self, lm: Any, control: CallControl, kept: Kept) -> None:
        super().__init__(lm.model, cache=False)
        self.kwargs = dict(lm.kwargs)
        self.lm, self.control, self.kept = lm, control, kept

    def __deepcopy__(self, memo: dict[int, Any]) -> Proposer:
        return self

    def __call__(self, prompt: Any = None, messages: Any = None, **kwargs: Any) -> list[str]:
        settings = {**self.kwargs, **kwargs}
        rollout = settings.get("rollout_id")
        asked = _texts(messages) if messages else [("user", str(prompt))]
        takes = getattr(self.lm, "takes", SAMPLING)
        sampling = {key: settings[key] for key in takes if settings.get(key) is not None}
        keys = [_key(asked, sampling, rollout, place) for place in range(settings.get("n") or 1)]
        texts = [self.kept.get(key) for key in keys]
        missing = [place for place, text in enumerate(texts) if text is None]
        if missing:
            replies = self._ask(asked, sampling, [(rollout, place) for place in missing])
            for place, text in zip(missing, replies, strict=True):
                texts[place] = text
                if text is not None:
                    self.kept.put(keys[place], text)
        return [text or NOTHING for text in texts]

    async def acall(self, prompt: Any = None, messages: Any = None, **kwargs: Any) -> list[str]:
        raise NotImplementedError("optimizers ask for proposals one after the other")

    def inspect_history(self, n: int = 1, file: Any = None) -> None:
        return None

    def _ask(
        self,
        asked: list[tuple[str, str]],
        sampling: Mapping[str, object],
        samples: Sequence[tuple[Any, int]],
    ) -> Sequence[str | None]:
        async def answer() -> list[str]:
            with asking(seat=SEAT):
                return await together(self._sample(asked, sampling, *sample) for sample in samples)

        with self.control.working():
            try:
                replies = run_sync(self.control.attended, answer)
            except LMError as problem:
                self.control.failed(problem)
                return [None] * len(samples)
        self.control.succeeded()
        return list(replies)

    async def _sample(
        self, asked: list[tuple[str, str]], sampling: Mapping[str, object], rollout: Any, place: int
    ) -> str:
        engine = getattr(self.lm, "direct", None)
        number = None if rollout is None and not place else f"{rollout or 0}/{place}"
        if engine is not None:
            system = "\n\n".join(text for role, text in asked if role == "system") or None
            rest = [(role, text) for role, text in asked if role != "system"]
            extra = {} if number is None else {"rollout": number}
            request = request_of(self.lm.model, system, rest, sampling, extra)
            return str((await engine.complete(request)).text)
        messages = [{"role": role, "content": text} for role, text in asked]
        outputs = await self.lm.acall(messages=messages, **sampling)
        return str(
            outputs[0].get("text") or "" if isinstance(outputs[0], dict) else outputs[0] or ""
        )


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
        self, signature: Any, demos: list[dict[str, object]], inputs: dict[str, object]
    ) -> Any:
        if self._page is not None and SOURCE in inputs:
            inputs = {**inputs, SOURCE: self._page}
        return super().format(signature, demos, inputs)

    def parse(self, signature: Any, completion: str) -> dict[str, object]:
        try:
            return dict(super().parse(signature, completion))
        except AdapterParseError:
            fields = signature.output_fields
            empty = dict.fromkeys(fields, "")
            typed = [name for name, field in fields.items() if field.annotation is not str]
            if typed:
                document = json_repair.loads(completion)
                if not isinstance(document, dict) or not all(
                    isinstance(document.get(name), dict) for name in typed
                ):
                    raise
                return {name: document.get(name) or "" for name in fields}
            if named := _named(completion, fields):
                return {**empty, **named}
            meant = next((name for name in fields if name not in THOUGHTS), list(fields)[-1])
            # without the chat adapter's headings
            lines = [
                line for line in completion.splitlines() if not line.strip().startswith("[[ ##")
            ]
            return {**empty, meant: "\n".join(lines).strip()}


def program_page(program: Program) -> str:
    """A description of a program: its purpose, its settings, and each agent's inputs, instructions
    and outputs.
    """
    if isinstance(program, Foreign):
        parts = [program.about()]
    else:
        about = (
            (inspect.getdoc(type(program)) or type(program).__name__)
            .partition("\nArgs:")[0]
            .strip()
        )
        parts = [
            about,
            f"Settings: {json.dumps(program.describe(), ensure_ascii=False, default=str)}",
        ]
    for name, seat in program.seats().items():
        asked = seat.predict.signature
        parts.append(
            f"Agent {name}: {', '.join(asked.input_fields)} -> {', '.join(asked.output_fields)}\n"
            f"{asked.instructions}"
        )
    return "\n\n".join(parts)


def _named(completion: str, fields: Mapping[str, object]) -> dict[str, str]:
    """The fields of a reply that is a JSON object."""
    document = (
        json_repair.loads(completion) if completion.lstrip().startswith(("{", "```")) else None
    )
    return (
        {name: str(document[name]) for name in fields if document.get(name)}
        if isinstance(document, dict)
        else {}
    )


def _texts(messages: Sequence[Mapping[str, object]]) -> list[tuple[str, str]]:
    """Role and text of each message; the parts of a message are joined."""
    texts = []
    for message in messages:
        content = message.get("content") or ""
        parts = (
            [part.get("text") or "" for part in content] if isinstance(content, list) else [content]
        )
        texts.append((str(message["role"]), "".join(map(str, parts))))
    return texts


def _key(
    asked: Sequence[tuple[str, str]], sampling: Mapping[str, object], rollout: Any, place: int
) -> str:
    text = json.dumps([asked, sampling, rollout, place], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
