"""Embedded LMs as endpoints: their profiles, and the grammar that bounds the replies of base
models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from ...modules.agents.profile import DEFAULT_PROFILE, Profile
from ...modules.base.calls import CallError
from ..base.settings import settings
from .client import HttpEndpoint
from .embedded import EmbeddedServer
from .endpoint import Reply
from .grammar import reply_grammar
from .weights import Weights, weights_of

DEFAULT_LM = "local/gemma-3-270m"
PLAIN_PROFILE = Profile(layout="plain", answer_form="text", list_options=False, constrain="grammar")
ATTEMPT_SECONDS = 1800.0  # a long reply of a slow LM on a busy machine


class LocalEndpoint:
    """A GGUF model in this process, a server for each model and setting. It starts with the first
    request.

    Args: model: what follows `local/`: a known name, PATH.gguf, or hf:ORG/REPO:FILE.gguf. threads:
        CPU threads. context: longest prompt and reply together, in tokens; None takes 8192, or the
        most of the model. slots: calls that are answered side by side. timeout: seconds that one
        attempt may take. plain: messages reach the model as they are; always so for one without a
        chat template.

    Raises UserError for weights that are not there.
    """

    address = ""

    def __init__(
        self,
        model: str,
        *,
        threads: int = 1,
        context: int | None = None,
        slots: int = 1,
        timeout: float = ATTEMPT_SECONDS,
        plain: bool = False,
    ) -> None:
        self.model = model
        self.timeout = timeout
        self.settings: dict[str, Any] = {"threads": threads, "context": context, "slots": slots}
        self._weights = weights_of(model, settings().cache)
        self.plain = plain or not self._weights.layout.has_template
        self._http: HttpEndpoint | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process, which gets a server of its own and its own machine's cache."""
        again = partial(LocalEndpoint, **self.settings, timeout=self.timeout, plain=self.plain)
        return again, (self.model,)

    @property
    def name(self) -> str:
        return f"embedded llama.cpp ({self._weights.label})"

    @property
    def profile(self) -> Profile:
        """How the weights want to be asked."""
        return PLAIN_PROFILE if self._weights.layout.untuned else DEFAULT_PROFILE

    async def send(self, payload: Mapping[str, Any]) -> Reply:
        """One attempt. Raises TransientError or CallError."""
        http = await self._started()
        body = dict(payload)
        fields = body.pop("fields", None)
        if fields:
            options = [option for field in fields for option in field.get("options", ())]
            # As the LM would write them after "Answer:"; asks the server only for options not seen
            # before.
            tokens = await asyncio.to_thread(
                self._server.tokenize, [f" {option}" for option in options]
            )
            body["grammar"] = reply_grammar(fields, dict(zip(options, tokens, strict=True)))
        try:
            return await http.send({**body, "cache_prompt": True})
        except CallError as problem:
            if "context size" not in str(problem):
                raise
            raise CallError(
                f"a prompt does not fit into the context of local/{self.model} ({problem}): give "
                f"a larger "
                "context, such as --lm-set context=16384, or shorter questions"
            ) from None

    async def aclose(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    @property
    def _server(self) -> EmbeddedServer:
        return _server_of(self._weights, self.plain, **self.settings)

    async def _started(self) -> HttpEndpoint:
        if self._http is None or not self._server.running:
            # Loading takes a second or two: not on the event loop.
            await asyncio.to_thread(self._server.start)
            self._http = HttpEndpoint(
                self._server.base_url,
                self.model,
                api_key=self._server.api_key,
                timeout=self.timeout,
            )
        return self._http


@cache
def _server_of(
    weights: Weights, plain: bool, threads: int, context: int | None, slots: int
) -> EmbeddedServer:
    """The server of a model and these settings, made when it is first needed."""
    folder = settings().cache
    return EmbeddedServer(
        weights, cache_dir=folder, threads=threads, context=context, slots=slots, plain=plain
    )
