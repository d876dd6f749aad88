"""Every other provider, through LiteLLM."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from ...modules.base.calls import CallError, bound
from ...modules.base.connections import seconds_to_wait
from ...modules.base.errors import UserError
from ...modules.base.fence import one_line
from ..base.settings import settings
from .endpoint import (
    Reply,
    TransientError,
    Trouble,
    failure_of,
    origin,
    plain_address,
    read_completion,
)
from .guarded import GUARD, CallGuard, guard_clients
from .secrets import hiding

FIELDS = frozenset(
    {
        *("messages", "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "n"),
        *("stop", "seed", "frequency_penalty", "presence_penalty", "logit_bias", "user"),
        *("response_format", "logprobs", "top_logprobs", "tools", "tool_choice", "functions"),
        *("function_call", "parallel_tool_calls", "reasoning_effort", "thinking", "verbosity"),
        *("service_tier", "extra_body", "modalities", "audio", "prediction", "web_search_options"),
    }
)
"""What a request through LiteLLM may have."""


def litellm_quiet() -> Any:
    """LiteLLM, set to use the tables that it ships instead of fetching them, with guarded
    clients.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read by its import
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    os.environ.setdefault(
        "LITELLM_MODE", "PRODUCTION"
    )  # else it takes addresses from a `.env` of this folder
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    logging.getLogger("LiteLLM").setLevel(logging.ERROR)  # its warnings are about its own tables
    guard_clients(litellm)
    return litellm


class LiteLLMEndpoint:
    """One model of any provider LiteLLM knows; a key that is not given comes from its own variable.

    Raises UserError when LiteLLM does not know the provider, and for a name that holds an address,
    as one of Hugging Face's endpoints could: a name may stand in somebody else's file.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
    ) -> None:
        if "://" in model or not model.isprintable():
            raise UserError(
                f"{model!r} has an address in the LM's name: give that with --api-base (api_base=…)"
            )
        self.model = model
        self.api_base = api_base
        self.timeout = timeout
        self._key = api_key
        self._hide = hiding([api_key, *settings().provider_keys()], api_base)
        self._most_bytes = settings().reply_mb << 20
        litellm = litellm_quiet()
        try:
            litellm.get_llm_provider(model, api_base=api_base)
        except litellm.exceptions.BadRequestError:
            raise UserError(
                f"there is no LM {model!r}: give PROVIDER/MODEL as LiteLLM does, such as "
                f"openai/gpt-4o-mini "
                "or anthropic/claude-sonnet-4-5, or local/gemma-3-270m"
            ) from None
        missing = litellm.validate_environment(model)
        if missing["missing_keys"] and not api_base and not api_key:
            raise UserError(f"{model} needs a key: set {' and '.join(missing['missing_keys'])}")

    def check_settings(self, settings: Iterable[str]) -> None:
        """Raise UserError for a setting that LiteLLM would leave out without a word."""
        supported = litellm_quiet().get_supported_openai_params(model=self.model) or ()
        for key in settings:
            if supported and key != "extra_body" and key not in supported:
                raise UserError(
                    f"{self.model} takes no {key}: leave it out, or send it in extra_body"
                )

    @property
    def name(self) -> str:
        return plain_address(self.api_base) if self.api_base else "litellm"

    @property
    def address(self) -> str:
        return origin(self.api_base) if self.api_base else self.model.partition("/")[0]

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process, which finds the keys in its own environment."""
        if "@" in urlsplit(self.api_base or "").netloc:
            raise UserError(
                f"the address of {self.model} holds a password, which is not sent to other machines"
            )
        return partial(LiteLLMEndpoint, api_base=self.api_base, timeout=self.timeout), (self.model,)

    async def send(self, payload: Mapping[str, Any]) -> Reply:
        """One attempt. Raises TransientError, CallError or FatalCallError."""
        if "messages" not in payload:
            raise CallError(
                f"{self.model} makes no embeddings here: give an openai/… model, with its address"
            )
        if unknown := sorted(payload.keys() - FIELDS):  # LiteLLM reads addresses from such fields
            raise CallError(
                f"{self.model} takes no field {unknown[0]!r} in a request: leave it out"
            )
        guard = CallGuard(self.model, self._most_bytes)
        try:
            with bound(GUARD, guard):
                reply = await self._complete(payload)
        except TimeoutError:
            raise self._unanswered() from None
        except (
            litellm_quiet().exceptions.openai.OpenAIError
        ) as problem:  # the base of LiteLLM's own errors
            if guard.problem is not None:
                raise guard.problem from None
            raise self._failure(problem, guard) from None
        text = json.dumps(reply.model_dump(), default=str, ensure_ascii=False)
        return read_completion(self._hide(text), self.model)

    def _unanswered(self) -> TransientError:
        return TransientError(f"no answer from {self.model} within {self.timeout:g} s", "timed out")

    def _failure(self, problem: Any, guard: CallGuard) -> Exception:
        """What an error of LiteLLM's means, which says 500 of broken connections and unreadable
        answers.
        """
        errors = litellm_quiet().exceptions
        reason = one_line(self._hide(str(problem)))
        if guard.answered:
            unread = f"{self.model} answered with something that is not a chat completion"
            return TransientError(f"{unread} ({reason[:200]})", "unreadable")
        if guard.connected and isinstance(problem, errors.Timeout):
            return self._unanswered()
        if guard.cut_off or isinstance(problem, errors.APIConnectionError):
            kind: Trouble = "cut off" if guard.connected else "unreachable"
            return TransientError(f"no connection to {self.model} ({reason[:200]})", kind)
        return failure_of(
            getattr(problem, "status_code", None) or 500,
            reason,
            name=self.model,
            model=self.model,
            key="the provider's key",
            retry_after=_retry_after(problem),
        )

    async def _complete(self, payload: Mapping[str, Any]) -> Any:
        async with asyncio.timeout(self.timeout):
            return await litellm_quiet().acompletion(
                model=self.model,
                api_base=self.api_base,
                api_key=self._key,
                num_retries=0,
                max_retries=0,
                drop_params=True,
                timeout=self.timeout,
                **payload,
            )

    async def aclose(self) -> None:
        return None


def _retry_after(problem: Any) -> float | None:
    return seconds_to_wait(getattr(getattr(problem, "response", None), "headers", None) or {})
