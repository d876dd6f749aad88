"""folkmoot's DSPy adapter: writes the request for a signature as the LM's profile says, and parses
the reply into the signature's fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import dspy
from dspy.lm15 import Config, Message, Request

from ..base.calls import counted_once
from ..base.keyed import without_none
from ..base.sync import in_thread
from .dspy_lm import arguments_of, asked_with_history, can_be_awaited, reply_text
from .profile import DEFAULT_PROFILE, SAMPLING, SETTINGS, Profile, Wording
from .prompt import DEFAULT_WORDING, chat_messages, plain_prompt, reply_form, system_text
from .reply import parse_reply


def settings_of(lm: dspy.BaseLM) -> dict[str, object]:
    """Return the settings of an LM that are not None, without addresses, headers and keys."""
    settings = {**lm.kwargs, **getattr(lm, "passed", {})}
    return {name: settings[name] for name in SETTINGS if settings.get(name) is not None}


class ProfileAdapter(dspy.Adapter):  # type: ignore[misc]
    """The DSPy adapter of every folkmoot program: the LM's `profile` decides the form of a request.

    An LM without a profile, which `fm.lm` did not make (a plain `dspy.LM`, a `DummyLM`), is asked
    through DSPy with the default profile. `wording` says where in a chat request the instructions
    stand.
    """

    def __init__(self, wording: Wording = DEFAULT_WORDING) -> None:
        super().__init__()
        self.wording = wording

    def __call__(
        self,
        lm: dspy.BaseLM,
        lm_kwargs: dict[str, object],
        signature: dspy.SignatureMeta,
        demos: list[dspy.Example],
        inputs: dict[str, object],
    ) -> list[dict[str, str]]:
        if profile_of(lm) is None:
            messages = self.messages(signature, demos, inputs)
            request, settings = arguments_of(lm, messages, lm_kwargs)
            with counted_once():
                text = reply_text(lm(*request, **settings))
            return [parse_reply(signature, text, DEFAULT_PROFILE, inputs.get("kind"))]
        asked = Asked(lm, lm_kwargs, signature, demos, inputs, self.wording)
        return [asked.read(lm(asked.request(), **asked.rollout()).text)]

    async def acall(
        self,
        lm: dspy.BaseLM,
        lm_kwargs: dict[str, object],
        signature: dspy.SignatureMeta,
        demos: list[dspy.Example],
        inputs: dict[str, object],
    ) -> list[dict[str, str]]:
        if profile_of(lm) is None:
            # A synchronous LM would hold up the event loop, and all other questions with it.
            if not can_be_awaited(lm):
                return await in_thread(self, lm, lm_kwargs, signature, demos, inputs)
            messages = self.messages(signature, demos, inputs)
            request, settings = arguments_of(lm, messages, lm_kwargs)
            with counted_once():
                text = reply_text(await lm.acall(*request, **settings))
            return [parse_reply(signature, text, DEFAULT_PROFILE, inputs.get("kind"))]
        asked = Asked(lm, lm_kwargs, signature, demos, inputs, self.wording)
        if unobserved(lm, dspy.settings.config):
            return [await asked.directly()]
        return [asked.read((await lm.acall(asked.request(), **asked.rollout())).text)]

    def messages(
        self, signature: object, demos: Sequence[object], inputs: Mapping[str, object]
    ) -> list[tuple[str, str]]:
        """Return what an LM without a profile is asked, as (role, text)."""
        asked = chat_messages(signature, demos, inputs, DEFAULT_PROFILE, self.wording)
        return [("system", system_text(signature, self.wording)), *asked]


def profile_of(lm: object) -> Profile | None:
    """Return the profile of an LM that `fm.lm` made; None for any other."""
    profile = getattr(lm, "profile", None)
    return profile if isinstance(profile, Profile) else None


def unobserved(lm: dspy.BaseLM, settings: Mapping[str, object]) -> bool:
    """Return whether an LM can be asked without DSPy, because nothing of DSPy's but its history
    would see the call: no callback (such as tracing), usage tracker or stream.
    """
    watched = settings["callbacks"] or settings["usage_tracker"] or settings["send_stream"]
    return getattr(lm, "direct", None) is not None and not (lm.callbacks or watched)


@dataclass(slots=True)
class Written:
    """A request as text: the system prompt, the other messages as (role, text), and the sampling.
    `extra` is for folkmoot's engine alone and is not sent.
    """

    system: str | None
    messages: Sequence[tuple[str, str]]
    sampling: Mapping[str, object]
    extra: Mapping[str, Any]

    def checked(self) -> tuple[Config, Mapping[str, object]]:
        """Return the sampling as DSPy's Config, which checks and rounds it, and as the fields of a
        request. Both are cached: do not change them.
        """
        sampling = self.sampling
        stops = sampling.get("stop")
        if isinstance(stops, list):
            # The cache needs hashable values.
            sampling = {**sampling, "stop": tuple(stops)}
        return _checked(tuple(sampling.items()))

    def request(self, model: str) -> Request:
        """Return the request as an object of DSPy's."""
        return Request(
            model=model,
            system=self.system,
            messages=tuple(getattr(Message, role)(text) for role, text in self.messages),
            config=replace(self.checked()[0], extensions={"folkmoot": self.extra}),
        )


@lru_cache(maxsize=256)
def _checked(sampling: tuple[tuple[str, object], ...]) -> tuple[Config, Mapping[str, object]]:
    config = Config(**dict(sampling))
    return config, sampling_of(config)


def sampling_of(config: Config) -> dict[str, Any]:
    """Return the sampling as the fields of an OpenAI-style request."""
    sampling = without_none({name: getattr(config, name) for name in SAMPLING})
    stops = sampling.pop("stop", None)
    if stops:
        sampling["stop"] = list(stops)
    return sampling


@dataclass(slots=True)
class Asked:
    """What an agent asks an LM with a profile: from it, the request is written."""

    lm: dspy.BaseLM
    lm_kwargs: Mapping[str, object]
    signature: dspy.SignatureMeta
    demos: Sequence[dspy.Example]
    inputs: Mapping[str, Any]
    wording: Wording

    async def directly(self) -> dict[str, str]:
        """Ask the LM without DSPy in between; returns the fields of its reply.

        DSPy's own method passes every call through two threads, which takes 0.5 ms.
        """
        if dspy.settings.disable_history:
            return self.read(await self.lm.direct.ask(self.written()))
        return self.read(await asked_with_history(self.lm, self.request(), self.rollout()))

    def request(self) -> Request:
        return self.written().request(self.lm.model)

    def written(self) -> Written:
        """Return the request in the layout of the LM's profile."""
        lm, profile = self.lm, self.lm.profile
        settings = {**lm.kwargs, **self.lm_kwargs}
        takes = getattr(lm, "takes", SAMPLING)
        # Only what this LM accepts: endpoints refuse a request with a setting they do not know.
        sampling = {name: settings[name] for name in takes if settings.get(name) is not None}
        extra = dict(reply_form(self.signature, self.inputs, profile))
        if settings.get("rollout_id") is not None:
            extra["rollout"] = settings["rollout_id"]
        shown = self.signature, self.demos, self.inputs, profile
        if profile.layout == "plain":
            system, messages = None, [("user", plain_prompt(*shown))]
        else:
            system = system_text(self.signature, self.wording)
            messages = chat_messages(*shown, self.wording)
        return Written(system, messages, sampling, extra)

    def rollout(self) -> dict[str, object]:
        rollout = self.lm_kwargs.get("rollout_id")
        return {} if rollout is None else {"rollout_id": rollout}

    def read(self, text: str | None) -> dict[str, str]:
        """Return the fields of a reply. An LM that answers with an option's text gets that option's
        label as its answer.
        """
        profile = self.lm.profile
        fields = parse_reply(self.signature, text or "", profile, self.inputs.get("kind"))
        if "answer" in fields and profile.answer_form == "text":
            # Before any reading of labels: where option A has the text "B", this LM means A.
            for label, option in (self.inputs.get("choices") or {}).items():
                if fields["answer"].strip() == option.strip():
                    return {**fields, "answer": label}
        return fields
