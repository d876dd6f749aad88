"""Turns a signature into a request and a reply into fields, in the way that the LM's profile asks for.

The order of a request is built for prefix caching: material that all seats share (question, options,
passages, discussion) comes first, and what this seat is told to do comes last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

import dspy
import json_repair
from dspy.clients._deprecation import adapter_message_call
from dspy.lm15 import Config, Message, Request

from ..signatures import frame
from .fence import fence
from .profile import DEFAULT_PROFILE, Profile

MAX_CONTEXT_CHARS = 24_000
MAX_TURN_CHARS = 4_000
MAX_EVIDENCE_CHARS = 1_500
MAX_PROSE_CHARS = 20_000  # a longer reply that is no JSON object is not searched for an answer

SAMPLING = ("temperature", "max_tokens", "top_p", "top_k", "seed", "stop")
_BLOCK = re.compile(r"\{.*\}", re.DOTALL)
_SPECIAL = re.compile(r"<(?=[|/\w])")
_MARKER = re.compile(r"^\[\[ ## (\w+) ## \]\]", re.MULTILINE)


class ProfileAdapter(dspy.Adapter):  # type: ignore[misc]
    """The DSPy adapter of every folkmoot program; what it writes depends on `lm.profile` alone.

    An LM without a profile (a plain `dspy.LM`, a `DummyLM`) is asked with the default one, through its own
    messages interface.
    """

    def __call__(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        profile = profile_of(lm)
        if profile is None:
            messages = self.format(signature, demos, inputs)
            with adapter_message_call(lm, messages):
                return _parse_foreign(signature, lm(messages=messages, **lm_kwargs))
        reply = lm(_request(lm, profile, lm_kwargs, signature, demos, inputs), **_rollout(lm_kwargs))
        return [_labelled(parse_reply(signature, reply.text or "", profile), inputs, profile)]

    async def acall(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        profile = profile_of(lm)
        if profile is None:
            messages = self.format(signature, demos, inputs)
            with adapter_message_call(lm, messages):
                return _parse_foreign(signature, await lm.acall(messages=messages, **lm_kwargs))
        request = _request(lm, profile, lm_kwargs, signature, demos, inputs)
        if _unobserved(lm):
            # DSPy's own way hands every call to two threads, for nothing that is wanted here.
            reply = await lm.direct.complete(request)
        else:
            reply = await lm.acall(request, **_rollout(lm_kwargs))
        return [_labelled(parse_reply(signature, reply.text or "", profile), inputs, profile)]

    def format(self, signature: Any, demos: list[Any], inputs: dict[str, Any]) -> list[dict[str, Any]]:
        messages = chat_messages(signature, demos, inputs, DEFAULT_PROFILE)
        return [{"role": role, "content": text} for role, text in [("system", frame.SYSTEM), *messages]]

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        return parse_reply(signature, completion, DEFAULT_PROFILE)


def profile_of(lm: Any) -> Profile | None:
    profile = getattr(lm, "profile", None)
    return profile if isinstance(profile, Profile) else None


def _unobserved(lm: Any) -> bool:
    """Whether nobody wants to see this call: no callbacks (tracing), history, usage tracker or stream."""
    settings = dspy.settings
    watched = settings.callbacks or lm.callbacks or settings.usage_tracker or settings.send_stream
    return getattr(lm, "direct", None) is not None and settings.disable_history and not watched


def _labelled(fields: dict[str, Any], inputs: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """Where options are answered by their text, that text means its option, even if it is another's label."""
    for label, text in (inputs.get("choices") or {}).items():
        if profile.answer_form == "text" and fields["answer"].strip() == text.strip():
            return {**fields, "answer": label}
    return fields


def _rollout(lm_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {} if lm_kwargs.get("rollout_id") is None else {"rollout_id": lm_kwargs["rollout_id"]}


def _parse_foreign(signature: Any, outputs: Sequence[Any]) -> list[dict[str, Any]]:
    texts = [output.get("text") if isinstance(output, dict) else output for output in outputs]
    return [parse_reply(signature, text or "", DEFAULT_PROFILE) for text in texts]


def _request(
    lm: Any,
    profile: Profile,
    lm_kwargs: Mapping[str, Any],
    signature: Any,
    demos: Sequence[Any],
    inputs: Mapping[str, Any],
) -> Request:
    settings = {**lm.kwargs, **lm_kwargs}
    given = {name: settings[name] for name in SAMPLING if settings.get(name) is not None}
    extra: dict[str, Any] = {"fields": output_fields(signature, inputs, profile)}
    if settings.get("rollout_id") is not None:
        extra["rollout"] = settings["rollout_id"]
    if profile.layout == "plain":
        messages, system = [("user", plain_prompt(signature, demos, inputs, profile))], None
    else:
        messages, system = chat_messages(signature, demos, inputs, profile), frame.SYSTEM
    return Request(
        model=lm.model,
        system=system,
        messages=tuple(getattr(Message, role)(text) for role, text in messages),
        config=Config(**given, extensions={"folkmoot": extra}),
    )


# What the reply may contain ---------------------------------------------------------------------------------


def output_fields(signature: Any, inputs: Mapping[str, Any], profile: Profile) -> list[dict[str, Any]]:
    """The output fields in order, each with a `type` (text, option, boolean, number, span) and, where the
    field is a
    choice, its `options`. Endpoints turn this into a JSON schema or a grammar."""
    fields = []
    for name, info in signature.output_fields.items():
        if name == "answer":
            fields.append({"name": name, **_answer_space(inputs, profile)})
        elif get_origin(info.annotation) is Literal:
            fields.append(
                {"name": name, "type": "option", "options": [str(a) for a in get_args(info.annotation)]}
            )
        else:
            fields.append({"name": name, "type": "text"})
    return fields


def _answer_space(inputs: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    choices = inputs.get("choices")
    if choices:
        options = choices if profile.answer_form == "label" else choices.values()
        return {"type": "option", "options": list(dict.fromkeys(options))}
    kind = inputs.get("kind") or "span"
    return {"type": "span" if kind == "choice" else kind}


def json_schema(fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The strict JSON schema of a reply with these fields."""
    kinds: dict[str, list[str]] = {"boolean": ["yes", "no"]}
    properties: dict[str, Any] = {}
    for field in fields:
        values = field.get("options") or kinds.get(field["type"])
        properties[field["name"]] = {"type": "string", "enum": values} if values else {"type": "string"}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# The chat layout
# ---------------------------------------------------------------------------------------------


def chat_messages(
    signature: Any, demos: Sequence[Any], inputs: Mapping[str, Any], profile: Profile
) -> list[tuple[str, str]]:
    messages = []
    for demo in demos:
        outputs = {name: demo[name] for name in signature.output_fields if demo.get(name) is not None}
        if "answer" not in outputs:
            continue
        outputs["answer"] = shown_answer(str(outputs["answer"]), demo.get("choices"), profile)
        messages.append(("user", _user_text(signature, demo, profile, demo=True)))
        messages.append(("assistant", json.dumps(outputs, ensure_ascii=False)))
    messages.append(("user", _user_text(signature, inputs, profile)))
    return messages


def _user_text(signature: Any, inputs: Mapping[str, Any], profile: Profile, *, demo: bool = False) -> str:
    parts = [*_material(inputs, profile), _orders(signature)]
    correction = inputs.get("correction")
    if correction and not demo:
        form = _form(inputs, profile)
        parts.append(frame.UNREADABLE.format(problem=correction, form=form))
    return "\n\n".join(parts)


def _material(inputs: Mapping[str, Any], profile: Profile) -> Iterator[str]:
    """What every seat sees alike, in an order in which later turns only ever add at the end."""
    yield f"Question: {inputs['question']}"
    if inputs.get("choices") and profile.list_options:
        mark = "{0}) {1}" if profile.answer_form == "label" else "- {1}"
        yield "Options:\n" + "\n".join(mark.format(*item) for item in inputs["choices"].items())
    yield frame.ANSWER.format(form=_form(inputs, profile))
    if inputs.get("context"):
        yield fence(inputs["context"], "passage", MAX_CONTEXT_CHARS)
    for turn in inputs.get("discussion") or ():
        answer = shown_answer(turn["answer"], inputs.get("choices"), profile)
        said = f"{turn['text']}\nAnswer: {answer}" if turn["text"] else f"Answer: {answer}"
        yield fence(said, f"{turn['agent']}, round {turn['round']}", MAX_TURN_CHARS)
    if inputs.get("evidence") is not None:
        found = [
            fence(item["text"], f"found: {item['title']}", MAX_EVIDENCE_CHARS) for item in inputs["evidence"]
        ]
        yield "\n\n".join(found) if found else frame.NO_EVIDENCE


def _orders(signature: Any) -> str:
    """What this seat alone is told: kept short, because it is what no two seats share."""
    fields = []
    for name, info in signature.output_fields.items():
        described = (info.json_schema_extra or {}).get("desc", "")
        told = "" if name == "answer" or described.startswith("${") else f" ({described})"
        fields.append(f'"{name}"{told}')
    return " ".join(signature.instructions.split()) + "\n" + frame.FIELDS.format(fields=", ".join(fields))


def _form(inputs: Mapping[str, Any], profile: Profile) -> str:
    choices = inputs.get("choices")
    if not choices:
        return frame.ANSWER_FORMS[_answer_space(inputs, profile)["type"]]
    return frame.ANSWER_FORMS[profile.answer_form].format(labels=", ".join(choices))


def shown_answer(answer: str | None, choices: Mapping[str, str] | None, profile: Profile) -> str:
    """An answer as this LM is shown it: a label or the option's text; abstentions are said to be such."""
    if answer is None:
        return frame.ABSTAINED
    if not choices or answer not in choices:
        return answer
    if profile.answer_form == "text":
        return choices[answer]
    return answer


# The plain layout
# --------------------------------------------------------------------------------------------


def plain_prompt(signature: Any, demos: Sequence[Any], inputs: Mapping[str, Any], profile: Profile) -> str:
    """Bare text for an untuned LM: finished examples, then the question and the name of the first output."""
    names = list(signature.output_fields)
    blocks = []
    for demo in demos:
        if demo.get("answer") is None:
            continue
        lines = list(_plain_material(demo, profile))
        for name in names:
            if name == "answer":
                lines.append(f"Answer: {shown_answer(str(demo['answer']), demo.get('choices'), profile)}")
            elif demo.get(name):
                lines.append(f"{name.capitalize()}: {_one_line(demo[name])}")
        blocks.append("\n".join(lines))
    blocks.append("\n".join([*_plain_material(inputs, profile), f"{names[0].capitalize()}:"]))
    return "\n\n".join(blocks)


def _plain_material(inputs: Mapping[str, Any], profile: Profile) -> Iterator[str]:
    if inputs.get("context"):
        yield f"Passage: {_one_line(inputs['context'], MAX_CONTEXT_CHARS)}"
    for item in inputs.get("evidence") or ():
        yield f"{_one_line(item['title'])}: {_one_line(item['text'], MAX_EVIDENCE_CHARS)}"
    yield f"Question: {_one_line(inputs['question'])}"
    if inputs.get("choices") and profile.list_options:
        yield "Options: " + ", ".join(inputs["choices"].values())
    for turn in inputs.get("discussion") or ():
        answer = shown_answer(turn["answer"], inputs.get("choices"), profile)
        yield f"{turn['agent'].capitalize()} says {answer}: {_one_line(turn['text'])}"


def _one_line(text: Any, max_chars: int = MAX_TURN_CHARS) -> str:
    """Text as part of a line: no line of its own, and nothing that a tokeniser takes for a special token."""
    return _SPECIAL.sub("< ", " ".join(str(text).split()))[:max_chars]


# Reading the reply
# -------------------------------------------------------------------------------------------


def parse_reply(signature: Any, text: str, profile: Profile) -> dict[str, Any]:
    """The output fields of a reply; every field is present, and what cannot be found is an empty string.

    A reply that is no JSON object counts as argument and answer at once, so that an answer stated in plain
    words is still read; whether it is one is for the answer's reader to say.
    """
    names = list(signature.output_fields)
    if profile.layout == "plain":
        return _parse_plain(names, text)
    found = _json_object(text) or _marked_fields(text)
    if not found and len(text) > MAX_PROSE_CHARS:
        return dict.fromkeys(names, "")
    if not found:
        return dict.fromkeys(names, text.strip())
    return {name: _as_text(found.get(name)) for name in names}


def _parse_plain(names: Sequence[str], text: str) -> dict[str, str]:
    fields = dict.fromkeys(names, "")
    rest = text
    for index, name in enumerate(names):
        following = names[index + 1 :]
        if following:
            value, _, rest = rest.partition(f"\n{following[0].capitalize()}:")
        else:
            value = rest
        fields[name] = value.strip()
    return fields


def _json_object(text: str) -> dict[str, Any] | None:
    for candidate in (text, *(match.group() for match in [_BLOCK.search(text)] if match)):
        try:
            found = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    if text.lstrip().startswith("{") and len(text) <= MAX_PROSE_CHARS:
        try:
            repaired = json_repair.loads(text)
        except (ValueError, RecursionError):
            return None
        if isinstance(repaired, dict):
            return repaired
    return None


def _marked_fields(text: str) -> dict[str, Any]:
    """Fields under DSPy's own `[[ ## name ## ]]` headings, which tuned demos and test doubles may use."""
    pieces = _MARKER.split(text)[1:]
    return {name: value.strip() for name, value in zip(pieces[::2], pieces[1::2], strict=True)}


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
