"""The embedded LM: a llama.cpp server per model, process and setting, started when first needed."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from ...modules.base.errors import UserError
from .llama import LlamaServer, import_engine
from .weights import Weights, progress_bar

CONTEXT_TOKENS = 8192
WORKSPACE_BYTES = 300 << 20  # what llama.cpp takes beside weights and context, about
# Tokens of context whose keys and values take about as much memory as a model's 4-bit weights.
TOKENS_LIKE_WEIGHTS = 16_384

_LOG = logging.getLogger("folkmoot")


class EmbeddedServer:
    """A GGUF model behind llama.cpp's OpenAI-compatible server, inside this process.

    Nothing is loaded before `start`, or before the first use of `base_url` or `tokenize`. With one
    slot, the same requests in the same order on a fresh server give the same answers bit for bit.

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
        self._lock = threading.Lock()
        self._server: LlamaServer | None = None
        self._tokens: dict[str, list[int]] = {}

    def __repr__(self) -> str:
        where = "not running" if self._server is None else self._server.address
        return f"EmbeddedServer({self.weights.model}, {where}, threads={self.threads})"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        return self._server is not None

    @property
    def base_url(self) -> str:
        """Up to and including `/v1`."""
        return f"{self.start().address}/v1"

    @property
    def api_key(self) -> str:
        """The key of the running server; every start makes a new one."""
        return self.start().key

    def start(self) -> LlamaServer:
        """Load the weights and listen; the server that runs already, if there is one.

        Raises UserError: the extra `local` is missing, the weights cannot be put together or
        loaded, the context is larger than the model's, or main memory too small.
        """
        with self._lock:
            if self._server is not None:
                return self._server
            import_engine()  # before weights are put together that could not be used
            path, name = self.weights.path(self.cache_dir), f"local/{self.weights.model}"
            context = self.context or CONTEXT_TOKENS
            size = path.stat().st_size if path.exists() else 0
            _check_memory(name, size, context * self.slots)
            began = time.monotonic()
            with progress_bar(size, f"loading {self.weights.model}") as bar:
                server = LlamaServer(
                    path,
                    name,
                    context=context,
                    threads=self.threads,
                    slots=self.slots,
                    plain=self.plain,
                )
                bar.update(bar.total)
            if self.context is not None and self.context > (longest := server.longest):
                server.stop()
                raise UserError(
                    f"{name} was made for {longest} tokens: give a context of at most that"
                )
            _LOG.info("loaded %s in %.1f s", name, time.monotonic() - began)
            self._server = server
            # Left to the interpreter's shutdown, the server's threads would outlive what they use.
            atexit.register(self.stop)
            return server

    def stop(self) -> None:
        """End the server and free its memory; does nothing when it is not running."""
        with self._lock:
            if self._server is not None:
                self._server.stop()
            self._server = None
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


def _check_memory(name: str, weights_bytes: int, tokens: int) -> None:
    """Raise UserError where main memory is too small: llama.cpp would be killed by the system."""
    needed = weights_bytes * (1 + tokens / TOKENS_LIKE_WEIGHTS) + WORKSPACE_BYTES
    free = psutil.virtual_memory().available
    if needed > free:
        raise UserError(
            f"{name} needs about {needed / 1e9:.1f} GB of main memory, and {free / 1e9:.1f} GB are "
            "free: end other programs, give a smaller context or fewer slots, or name a smaller "
            "model"
        )
