"""Writes a request for a signature in the layout of a profile, and says what the reply may contain.

The order is built for prefix caching: material that all seats share (question, options, passages,
discussion) comes first, and the instructions of this seat come last, unless a wording puts them
first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import dspy

from ...signatures import frame
from ..base.fence import cut, disarm, fence, one_line
from .fields import fields_of
from .profile import Profile, Wording
from .transcript import MAX_CONTEXT_CHARS

MAX_TURN_CHARS = 4_000
MAX_EVIDENCE_CHARS = 1_500
MAX_NOTE_CHARS = 24_000
MAX_ANSWER_CHARS = 500
DEFAULT_WORDING = Wording()

_SPECIAL = re.compile(r"<(?=[|｜/\w])")

# What the reply may contain
# ---------------------------------------------------------------------------------


def reply_form(signature: object, inputs: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """What a reply to these inputs may contain: `fields` are the output fields in order, each with
    a `type` (text, option, boolean, number, span, action) and, where the field is a choice, its
    `options`, for grammars; `schema` is their JSON schema. It is kept, and not to be changed.
    """
    options: Iterable[str] = inputs.get("choices") or ()
    if options and profile.answer_form == "text":
        options = inputs["choices"].values()
    return _reply_form(signature, tuple(options), _kind_asked(inputs))


# Most questions of a file have the same labels.
@lru_cache(maxsize=256)
def _reply_form(signature: object, options: tuple[str, ...], kind: str) -> dict[str, Any]:
    fields: list[dict[str, Any]] = []
    outputs = fields_of(signature)
    for name in outputs.outputs:
        if name == "answer" and options:
            fields.append({"name": name, "type": "option", "options": list(dict.fromkeys(options))})
        elif name == "answer":
            fields.append({"name": name, "type": kind})
        elif name == "action":
            fields.append({"name": name, "type": "action"})
        elif name in outputs.options:
            fields.append({"name": name, "type": "option", "options": list(outputs.options[name])})
        else:
            fields.append({"name": name, "type": "text"})
    return {"fields": fields, "schema": json_schema(fields)}


def _kind_asked(inputs: Mapping[str, Any]) -> str:
    """The kind of a question; `span` for a choice without options to choose from."""
    kind = str(inputs.get("kind") or "span")
    return "span" if kind == "choice" else kind


def json_schema(fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The strict JSON schema of a reply with these fields."""
    kinds: dict[str, list[str]] = {"boolean": ["yes", "no"]}
    properties: dict[str, Any] = {}
    for field in fields:
        values = field.get("options") or kinds.get(field["type"])
        properties[field["name"]] = {"type": "string"}
        if values:
            properties[field["name"]]["enum"] = values
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# The chat layout
# ---------------------------------------------------------------------------------------------


def system_text(signature: object, wording: Wording) -> str:
    """The system message of a chat request."""
    if not wording.role_first:
        return frame.SYSTEM
    return f"{_orders_of(signature, signature.__doc__, wording)[0]}\n\n{frame.SYSTEM_BELOW}"


def chat_messages(
    signature: dspy.SignatureMeta,
    demos: Sequence[dspy.Example],
    inputs: Mapping[str, object],
    profile: Profile,
    wording: Wording = DEFAULT_WORDING,
) -> list[tuple[str, str]]:
    """The messages after the system message, as (role, text)."""
    messages = []
    for demo in demos:
        if not _finished(signature, demo):
            continue
        outputs = {
            name: demo[name] for name in signature.output_fields if demo.get(name) is not None
        }
        if "answer" in outputs:
            outputs["answer"] = shown_answer(str(outputs["answer"]), demo.get("choices"), profile)
        messages.append(("user", _user_text(signature, demo, profile, wording, demo=True)))
        messages.append(("assistant", json.dumps(outputs, ensure_ascii=False)))
    messages.append(("user", _user_text(signature, inputs, profile, wording)))
    return messages


def _finished(signature: dspy.SignatureMeta, demo: dspy.Example) -> bool:
    """Whether a demonstration has this seat's last output field; one of another seat's work does
    not.
    """
    return demo.get(list(signature.output_fields)[-1]) is not None


def _user_text(
    signature: dspy.SignatureMeta,
    inputs: Mapping[str, object],
    profile: Profile,
    wording: Wording,
    *,
    demo: bool = False,
) -> str:
    instructions, orders = _orders_of(signature, signature.__doc__, wording)
    if not wording.role_first:
        orders = f"{instructions}\n{orders}"
    parts = [*_material(inputs, profile), orders]
    correction = inputs.get("correction")
    # A demonstration made of a second attempt shows how to answer, not how to fail first.
    if correction and not demo:
        problem = frame.UNREADABLE if "answer" in signature.output_fields else frame.UNUSABLE
        parts.append(problem.format(problem=correction, form=_form(inputs, profile)))
    return "\n\n".join(parts)


def _material(inputs: Mapping[str, Any], profile: Profile) -> Iterator[str]:
    """The material that all seats share, in an order in which later turns are only appended."""
    yield f"Question: {inputs['question']}"
    choices = inputs.get("choices")
    if choices and profile.list_options:
        lines = [f"- {text}" for text in choices.values()]
        if profile.answer_form == "label":
            lines = [f"{label}) {text}" for label, text in choices.items()]
        yield "\n".join(["Options:", *lines])
    yield frame.ANSWER.format(form=_form(inputs, profile))
    if inputs.get("context"):
        yield fence(_passage(inputs["context"]), "passage", MAX_CONTEXT_CHARS)
    for turn in inputs.get("discussion") or ():
        text = _with_answer(turn, inputs, profile, MAX_TURN_CHARS)
        speaker = f"{turn['agent']}, round {turn['round']}"
        yield fence(text, speaker, MAX_TURN_CHARS + MAX_ANSWER_CHARS)
    if inputs.get("evidence") is not None:
        passages = [
            fence(item["text"], f"found: {item['title']}", MAX_EVIDENCE_CHARS)
            for item in inputs["evidence"]
        ]
        yield "\n\n".join(passages) or frame.NO_EVIDENCE
    for note in inputs.get("notes") or ():
        most = note.get("most", MAX_NOTE_CHARS)
        if note.get("advice"):  # the fence would say not to follow it
            yield _note_line(note, inputs, profile)
        else:
            shown = _with_answer(note, inputs, profile, most)
            yield fence(shown, note["title"], most + MAX_ANSWER_CHARS)


def _passage(context: str | Sequence[str]) -> str:
    """A demonstration is a question as it was loaded, whose context may be several passages."""
    return context if isinstance(context, str) else "\n\n".join(context)


def _with_answer(
    turn: Mapping[str, Any],
    inputs: Mapping[str, Any],
    profile: Profile,
    max_chars: int,
    joined: str = "\n",
) -> str:
    """The text of a turn, cut to `max_chars`, and its answer in the form for this LM."""
    text = str(turn["text"]).strip()
    if len(text) > max_chars:
        # cleaned first: invisible padding could be long
        text = cut(disarm(text).strip(), max_chars)
    if "answer" not in turn:
        return text
    shown = shown_answer(turn["answer"], inputs.get("choices"), profile)
    answer = f"Answer: {shown}"[:MAX_ANSWER_CHARS]
    return f"{text}{joined}{answer}" if text else answer


@lru_cache(maxsize=256)
def _orders_of(
    signature: dspy.SignatureMeta, instructions: str | None, wording: Wording
) -> tuple[str, str]:
    """The instructions of this seat alone, kept short, because no two seats share them, and its
    fields. A last line of instructions that names the fields takes the place of folkmoot's own.

    Cached by signature and instructions, since some optimizers change those of a class in place.
    """
    text = signature.instructions.strip()
    # Line breaks of a docstring mean nothing; those of a user's own text may.
    if not wording.verbatim:
        text = " ".join(text.split())
    instructions, named, fields = text.rpartition(frame.FIELDS.format(fields=""))
    if named and "\n" not in fields and instructions.endswith("\n"):
        return instructions.strip(), f"{named}{fields}"
    return text, frame.FIELDS.format(fields=fields_of(signature).named)


def _form(inputs: Mapping[str, Any], profile: Profile) -> str:
    choices = inputs.get("choices")
    if not choices:
        return frame.ANSWER_FORMS[_kind_asked(inputs)]
    return frame.ANSWER_FORMS[profile.answer_form].format(labels=", ".join(choices))


def shown_answer(answer: str | None, choices: Mapping[str, str] | None, profile: Profile) -> str:
    """An answer in the form for this LM: a label or the option's text; abstentions are marked."""
    if answer is None:
        return frame.ABSTAINED
    if choices and answer in choices and profile.answer_form == "text":
        return choices[answer]
    return answer


# The plain layout
# --------------------------------------------------------------------------------------------


def plain_prompt(
    signature: dspy.SignatureMeta,
    demos: Sequence[dspy.Example],
    inputs: Mapping[str, object],
    profile: Profile,
) -> str:
    """Bare text for an untuned LM: finished examples, then the question and the name of the first
    output.
    """
    names = list(signature.output_fields)
    blocks = []
    for demo in demos:
        if not _finished(signature, demo):
            continue
        lines = list(_plain_material(demo, profile))
        for name in names:
            if name == "answer":
                shown = shown_answer(str(demo["answer"]), demo.get("choices"), profile)
                lines.append(f"Answer: {shown}")
            elif demo.get(name):
                lines.append(f"{name.capitalize()}: {_one_line(demo[name])}")
        blocks.append("\n".join(lines))
    blocks.append("\n".join([*_plain_material(inputs, profile), f"{names[0].capitalize()}:"]))
    return "\n\n".join(blocks)


def _plain_material(inputs: Mapping[str, Any], profile: Profile) -> Iterator[str]:
    if inputs.get("context"):
        yield f"Passage: {_one_line(_passage(inputs['context']), MAX_CONTEXT_CHARS)}"
    for item in inputs.get("evidence") or ():
        yield f"Found: {_one_line(item['title'])}: {_one_line(item['text'], MAX_EVIDENCE_CHARS)}"
    yield f"Question: {_one_line(inputs['question'], None)}"
    if inputs.get("choices") and profile.list_options:
        yield "Options: " + ", ".join(inputs["choices"].values())
    for turn in inputs.get("discussion") or ():
        answer = shown_answer(turn["answer"], inputs.get("choices"), profile)
        answer = _one_line(answer, MAX_ANSWER_CHARS)
        yield f"{turn['agent'].capitalize()} says {answer}: {_one_line(turn['text'])}"
    for note in inputs.get("notes") or ():
        if note.get("bare"):
            most = note.get("most", MAX_NOTE_CHARS)
            yield from (_one_line(line, most) for line in note["text"].splitlines())
        else:
            yield _note_line(note, inputs, profile)


def _note_line(note: Mapping[str, Any], inputs: Mapping[str, Any], profile: Profile) -> str:
    """A note as one line, which it can neither end nor fill with marks of a fence or a speaker."""
    text = _with_answer(note, inputs, profile, note.get("most", MAX_NOTE_CHARS), " ")
    return f"{_one_line(note['title']).capitalize()}: {_one_line(text, len(text))}"


def _one_line(text: object, max_chars: int | None = MAX_TURN_CHARS) -> str:
    """Text as part of a line: no line of its own, and nothing that a tokeniser takes for a special
    token.
    """
    return _SPECIAL.sub("< ", one_line(disarm(str(text))))[:max_chars]
