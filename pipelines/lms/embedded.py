"""Embedded LMs as endpoints: a llama.cpp server per model, process and setting, started when first
needed, and the profiles that the models want.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import psutil

from ...modules.agents.profile import DEFAULT_PROFILE, Profile
from ...modules.base.calls import CallError
from ...modules.base.errors import UserError
from ..base.settings import settings
from .client import HttpEndpoint
from .endpoint import Reply
from .grammar import reply_grammar
from .llama import LlamaServer, import_engine
from .weights import Weights, weights_of

DEFAULT_LM = "local/gemma-3-270m"
PLAIN_PROFILE = Profile(layout="plain", answer_form="text", list_options=False, constrain="grammar")
ATTEMPT_SECONDS = 1800.0  # a long reply of a slow LM on a busy machine
CONTEXT_TOKENS = 8192
WORKSPACE_BYTES = 300 << 20  # what llama.cpp takes beside weights and context, about
# Tokens of context whose keys and values take about as much memory as a model's 4-bit weights.
TOKENS_LIKE_WEIGHTS = 16_384

_LOG = logging.getLogger("folkmoot")


class EmbeddedServer:
    """A GGUF model behind llama.cpp's OpenAI-compatible server, inside this process.

    Nothing is loaded before `start` or the first use of `tokenize`. With one slot, the same
    requests in the same order on a fresh server give the same answers bit for bit.

    Args: weights: the model. cache_dir: where weights that come in parts are put together once.
        threads: CPU threads of the model. context: longest prompt and reply together, in tokens;
        None takes 8192, or the most of the model. slots: calls that are answered side by side.
        plain: messages reach the model as they are, instead of through its chat template.
    """

    def __init__(
        self,
        weights: Weights,
        *,
        cache_dir: Path,
        threads: int = 1,
        context: int | None = None,
        slots: int = 1,
        plain: bool = False,
    ) -> None:
        self.weights = weights
        self.cache_dir = cache_dir
        self.threads = threads
        self.context = context
        self.slots = slots
        self.plain = plain
        self.running: LlamaServer | None = None
        self._lock = threading.Lock()
        self._tokens: dict[str, list[int]] = {}

    def start(self) -> LlamaServer:
        """Load the weights and listen; the server that runs already, if there is one.

        Raises UserError: the extra `local` is missing, the weights cannot be put together or
        loaded, the context is larger than the model's, or main memory too small.
        """
        with self._lock:
            if self.running is not None:
                return self.running
            import_engine()  # before weights are put together that could not be used
            path, name = self.weights.path(self.cache_dir), f"local/{self.weights.model}"
            context = self.context or CONTEXT_TOKENS
            _check_memory(name, path, context * self.slots)
            began = time.monotonic()
            server = LlamaServer(
                path,
                name,
                context=context,
                threads=self.threads,
                slots=self.slots,
                plain=self.plain,
            )
            longest = server.ask("/v1/models")["data"][0]["meta"]["n_ctx_train"]
            if self.context is not None and self.context > longest:
                server.stop()
                raise UserError(
                    f"{name} was made for {longest} tokens: give a context of at most that"
                )
            _LOG.info("loaded %s in %.1f s", name, time.monotonic() - began)
            self.running = server
            # Left to the interpreter's shutdown, the server's threads would outlive what they use.
            atexit.register(self.stop)
            return server

    def stop(self) -> None:
        """End the server and free its memory; does nothing when it is not running."""
        with self._lock:
            if self.running is not None:
                self.running.stop()
            self.running = None
        atexit.unregister(self.stop)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, without a start token; asked for once per text.

        The text of a special token, such as `<eos>`, counts as text.
        """
        server = self.start()
        for text in dict.fromkeys(texts):
            if text not in self._tokens:
                body = {"content": text, "add_special": False, "parse_special": False}
                self._tokens[text] = server.ask("/tokenize", body)["tokens"]
        return [list(self._tokens[text]) for text in texts]


def _check_memory(name: str, weights: Path, tokens: int) -> None:
    """Raise UserError where main memory is too small: llama.cpp would be killed by the system."""
    size = weights.stat().st_size if weights.exists() else 0
    needed = size * (1 + tokens / TOKENS_LIKE_WEIGHTS) + WORKSPACE_BYTES
    free = psutil.virtual_memory().available
    if needed > free:
        raise UserError(
            f"{name} needs about {needed / 1e9:.1f} GB of main memory, and {free / 1e9:.1f} GB are "
            "free: end other programs, give a smaller context or fewer slots, or name a smaller "
            "model"
        )


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
        self._http: tuple[LlamaServer, HttpEndpoint] | None = None

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
            await self._http[1].aclose()

    @property
    def _server(self) -> EmbeddedServer:
        return _server_of(self._weights, self.plain, **self.settings)

    async def _started(self) -> HttpEndpoint:
        server = self._server.running
        if server is None:
            # Loading takes a second or two: not on the event loop.
            server = await asyncio.to_thread(self._server.start)
        if self._http is None or self._http[0] is not server:
            address = f"{server.address}/v1"
            made = HttpEndpoint(address, self.model, api_key=server.key, timeout=self.timeout)
            self._http = server, made
        return self._http[1]


@cache
def _server_of(
    weights: Weights, plain: bool, threads: int, context: int | None, slots: int
) -> EmbeddedServer:
    """The server of a model and these settings, made when it is first needed."""
    folder = settings().cache
    return EmbeddedServer(
        weights, cache_dir=folder, threads=threads, context=context, slots=slots, plain=plain
    )
