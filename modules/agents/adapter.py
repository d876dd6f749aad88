"""Turns a signature into a request to an LM and its reply into fields, as the LM's profile asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import dspy
from dspy.lm15 import Config, Message, Request
from dspy.utils.exceptions import AdapterParseError

from ...signatures import frame
from .profile import DEFAULT_PROFILE, Profile
from .prompt import chat_messages, output_fields, plain_prompt
from .reply import parse_reply

SAMPLING = ("temperature", "max_tokens", "top_p", "top_k", "seed", "stop")


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
            try:
                return list(super().__call__(lm, lm_kwargs, signature, demos, inputs))
            except AdapterParseError:  # an empty reply
                return [self.parse(signature, "")]
        reply = lm(_request(lm, profile, lm_kwargs, signature, demos, inputs), **_rollout(lm_kwargs))
        return [_labelled(parse_reply(signature, reply.text or "", profile), inputs, profile)]

    async def acall(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        profile = profile_of(lm)
        if profile is None:
            try:
                return list(await super().acall(lm, lm_kwargs, signature, demos, inputs))
            except AdapterParseError:
                return [self.parse(signature, "")]
        if unobserved(lm, dspy.settings.config):
            # DSPy's own way hands every call to two threads, for nothing that is wanted here.
            return [await ask_unobserved(lm, lm_kwargs, signature, demos, inputs)]
        request = _request(lm, profile, lm_kwargs, signature, demos, inputs)
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


def unobserved(lm: Any, settings: Mapping[str, Any]) -> bool:
    """Whether nothing observes a call: no callbacks (tracing), history, usage tracker or stream."""
    watched = settings["callbacks"] or settings["usage_tracker"] or settings["send_stream"]
    direct = getattr(lm, "direct", None) is not None and not lm.callbacks
    return direct and settings["disable_history"] and not watched


async def ask_unobserved(
    lm: Any, lm_kwargs: Mapping[str, Any], signature: Any, demos: Sequence[Any], inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of the reply of an LM made by `lm`, asked through its engine and not through DSPy."""
    profile = lm.profile
    system, messages, config, extra = _asked(lm, profile, lm_kwargs, signature, demos, inputs)
    text = await lm.direct.ask(system, messages, config, extra)
    return _labelled(parse_reply(signature, text, profile), inputs, profile)


def _labelled(fields: dict[str, Any], inputs: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """Where options are answered by their text, that text means its option, even if it is another's label."""
    for label, text in (inputs.get("choices") or {}).items() if "answer" in fields else ():
        if profile.answer_form == "text" and fields["answer"].strip() == text.strip():
            return {**fields, "answer": label}
    return fields


def _rollout(lm_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {} if lm_kwargs.get("rollout_id") is None else {"rollout_id": lm_kwargs["rollout_id"]}


def _request(
    lm: Any,
    profile: Profile,
    lm_kwargs: Mapping[str, Any],
    signature: Any,
    demos: Sequence[Any],
    inputs: Mapping[str, Any],
) -> Request:
    system, messages, config, extra = _asked(lm, profile, lm_kwargs, signature, demos, inputs)
    return Request(
        model=lm.model,
        system=system,
        messages=tuple(getattr(Message, role)(text) for role, text in messages),
        config=replace(config, extensions={"folkmoot": extra}),
    )


def _asked(
    lm: Any,
    profile: Profile,
    lm_kwargs: Mapping[str, Any],
    signature: Any,
    demos: Sequence[Any],
    inputs: Mapping[str, Any],
) -> tuple[str | None, list[tuple[str, str]], Config, dict[str, Any]]:
    """What an LM is sent: system prompt, messages, sampling, and what only our engine understands."""
    settings = {**lm.kwargs, **lm_kwargs}
    takes = getattr(lm, "takes", SAMPLING)
    given = {name: settings[name] for name in takes if settings.get(name) is not None}
    if isinstance(given.get("stop"), list):
        given["stop"] = tuple(given["stop"])
    extra: dict[str, Any] = {"fields": output_fields(signature, inputs, profile)}
    if settings.get("rollout_id") is not None:
        extra["rollout"] = settings["rollout_id"]
    if profile.layout == "plain":
        messages, system = [("user", plain_prompt(signature, demos, inputs, profile))], None
    else:
        messages, system = chat_messages(signature, demos, inputs, profile), frame.SYSTEM
    return system, messages, _config(**given), extra


@lru_cache(maxsize=256, typed=True)
def _config(**given: Any) -> Config:
    return Config(**given)
