"""Writes the prompt for a signature in the layout of a profile, and says what a reply may contain.

The order suits the prefix caches of providers: what all agents are shown (question, options,
passages, discussion) comes first, and the instructions of this agent come last, unless a `Wording`
puts them first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NotRequired, TypedDict

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


class ReplyField(TypedDict):
    """An output field, for endpoints that constrain decoding; `options` only if that is its
    type.
    """

    name: str
    type: str
    options: NotRequired[list[str]]


def reply_form(signature: object, inputs: Mapping[str, Any], profile: Profile) -> dict[str, object]:
    """Return what a reply to these inputs may contain, for endpoints that constrain decoding.

    `fields` are the output fields in order, each with a `type` (text, option, boolean, number,
    span, action) and, if the type is option, its `options`; `schema` is their JSON schema. The
    result is cached: do not change it.
    """
    options: Iterable[str] = inputs.get("choices") or ()
    if options and profile.answer_form == "text":
        options = inputs["choices"].values()
    return _reply_form(signature, tuple(options), _kind_asked(inputs))


# Cached, since most questions of a file have the same labels.
@lru_cache(maxsize=256)
def _reply_form(signature: object, options: tuple[str, ...], kind: str) -> dict[str, object]:
    fields: list[ReplyField] = []
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


def _kind_asked(inputs: Mapping[str, object]) -> str:
    """Return the kind of a question; `span` where none is given, and for a choice without
    options.
    """
    kind = str(inputs.get("kind") or "span")
    return "span" if kind == "choice" else kind


def json_schema(fields: Sequence[ReplyField]) -> dict[str, object]:
    """Return the strict JSON schema of a reply with these fields."""
    kinds: dict[str, list[str]] = {"boolean": ["yes", "no"]}
    properties: dict[str, dict[str, object]] = {}
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
    """Return the system message of a chat request."""
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
    """Return the messages after the system message, as (role, text): demonstrations, then the
    question.
    """
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
    """Return whether a demonstration has this agent's last output field; one made for another agent
    may not.
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
    """Return one message of the user: the material, the instructions, and a correction, if any."""
    instructions, orders = _orders_of(signature, signature.__doc__, wording)
    if not wording.role_first:
        orders = f"{instructions}\n{orders}"
    parts = [*_material(inputs, profile), orders]
    correction = inputs.get("correction")
    # A demonstration made from a second attempt shows only how to answer, not the first failure.
    if correction and not demo:
        problem = frame.UNREADABLE if "answer" in signature.output_fields else frame.UNUSABLE
        parts.append(problem.format(problem=correction, form=_form(inputs, profile)))
    return "\n\n".join(parts)


def _material(inputs: Mapping[str, Any], profile: Profile) -> Iterator[str]:
    """Yield the paragraphs that all agents are shown. Each later turn is appended, so that a prompt
    begins like the one before, which providers have cached.
    """
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
        if note.get("advice"):  # not fenced: the prompt says not to follow what is in a fence
            yield _note_line(note, inputs, profile)
        else:
            shown = _with_answer(note, inputs, profile, most)
            yield fence(shown, note["title"], most + MAX_ANSWER_CHARS)


def _passage(context: str | Sequence[str]) -> str:
    """Return the context as one text; that of a demonstration may still be a list of passages."""
    return context if isinstance(context, str) else "\n\n".join(context)


def _with_answer(
    turn: Mapping[str, Any],
    inputs: Mapping[str, Any],
    profile: Profile,
    max_chars: int,
    joined: str = "\n",
) -> str:
    """Return the text of a turn, cut to `max_chars`, and its answer in the form for this LM."""
    text = str(turn["text"]).strip()
    if len(text) > max_chars:
        # Cleaned before it is cut, since invisible padding could take up the length.
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
    """Return the instructions of this agent, and the line that names its output fields. If the
    instructions end in such a line, that one is used.

    `instructions` is only there as a part of the cache's key: some optimizers change those of a
    class in place.
    """
    text = signature.instructions.strip()
    # A docstring is broken anywhere; only a user's own text may have line breaks that mean
    # something.
    if not wording.verbatim:
        text = " ".join(text.split())
    instructions, named, fields = text.rpartition(frame.FIELDS.format(fields=""))
    if named and "\n" not in fields and instructions.endswith("\n"):
        return instructions.strip(), f"{named}{fields}"
    return text, frame.FIELDS.format(fields=fields_of(signature).named)


def _form(inputs: Mapping[str, Any], profile: Profile) -> str:
    """Return the words that say in which form the answer is to be given."""
    choices = inputs.get("choices")
    if not choices:
        return frame.ANSWER_FORMS[_kind_asked(inputs)]
    return frame.ANSWER_FORMS[profile.answer_form].format(labels=", ".join(choices))


def shown_answer(answer: str | None, choices: Mapping[str, str] | None, profile: Profile) -> str:
    """Return an answer as this LM is shown it: by its label or its option's text; None is
    marked.
    """
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
    """Return bare text for a base LM to continue: finished demonstrations, then the question and
    the name of the first output field.
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
    """Return a note as one line; its text can neither begin another line nor forge a fence or
    speaker.
    """
    text = _with_answer(note, inputs, profile, note.get("most", MAX_NOTE_CHARS), " ")
    return f"{_one_line(note['title']).capitalize()}: {_one_line(text, len(text))}"


def _one_line(text: object, max_chars: int | None = MAX_TURN_CHARS) -> str:
    """Return the text for use within a line: without line ends, and without anything that a
    tokeniser takes for a special token.
    """
    return _SPECIAL.sub("< ", one_line(disarm(str(text))))[:max_chars]
