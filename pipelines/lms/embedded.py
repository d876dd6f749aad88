"""The embedded llama.cpp server: one per model, process and setting, on the loopback, behind a
random key.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import secrets
import socket
import stat
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import psutil

from ...modules.base.errors import UserError
from ...modules.base.extras import from_extra
from .gguf import Header, read_header
from .weights import Weights, progress_bar

HOST = "127.0.0.1"
CONTEXT_TOKENS = 8192
WORKSPACE_BYTES = 300 << 20  # what llama.cpp takes beside weights and context, about
# Earlier prompts whose beginnings a later one may share, such as those of the other seats of a
# dialogue.
KEPT_PROMPTS_MIB = 512
# Messages reach the model as they are, joined without anything in between.
PASS_THROUGH = "{%- for message in messages %}{{ message['content'] }}{% endfor %}"

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
        self._server: Any = None
        self._address = ""
        self._key = ""
        self._known: dict[str, list[int]] = {}

    def __repr__(self) -> str:
        where = self._address if self.running else "not running"
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
        self.start()
        return f"{self._address}/v1"

    @property
    def api_key(self) -> str:
        """The key of the running server; every start makes a new one."""
        self.start()
        return self._key

    def start(self) -> None:
        """Load the weights and listen; nothing happens when the server runs already.

        Raises: UserError: the extra `local` is missing, the weights cannot be put together or
            loaded, the context is larger than the model's, or main memory too small.
        """
        with self._lock:
            if self._server is not None:
                return
            engine = _import_engine()
            key = secrets.token_urlsafe(32)
            path = self.weights.path(self.cache_dir)
            header = read_header(path)
            self._check(path, header)
            began = time.monotonic()
            try:
                with progress_bar(path.stat().st_size, f"loading {self.weights.model}") as bar:
                    server = engine.Server(self._params(engine, path, header, key))
                    bar.update(bar.total)
            except (RuntimeError, ValueError) as problem:
                raise UserError(
                    f"llama.cpp could not load {path} ({problem}): delete the file and fetch it "
                    f"again"
                ) from None
            _LOG.info("loaded local/%s in %.1f s", self.weights.model, time.monotonic() - began)
            # An answer proves that the server's loop runs: ended before that, it would never end.
            server.handle_metrics()
            self._server, self._key, self._address = server, key, server.listening_address
            # Left to the interpreter's shutdown, the server's threads would outlive what they use.
            atexit.register(self.stop)

    def stop(self) -> None:
        """End the server and its threads, and free its memory; does nothing when it is not
        running.
        """
        with self._lock:
            if self._server is not None:
                _hang_up(urlsplit(self._address).port)
            # xllamacpp has no call for this: the server ends with its last reference.
            self._server = None
            self._address = self._key = ""
        atexit.unregister(self.stop)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, without a start token; asked for once per text.

        The text of a special token, such as `<eos>`, counts as text.
        """
        self.start()
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            connection = HTTPConnection(urlsplit(self._address).netloc, timeout=60)
            try:
                for text in missing:
                    self._known[text] = self._ask_tokens(connection, text)
            finally:
                connection.close()
        return [list(self._known[text]) for text in texts]

    def _ask_tokens(self, connection: HTTPConnection, text: str) -> list[int]:
        body = json.dumps({"content": text, "add_special": False, "parse_special": False})
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        connection.request("POST", "/tokenize", body, headers)
        with connection.getresponse() as response:
            found: list[int] = json.loads(response.read())["tokens"]
        return found

    def _tokens(self, header: Header) -> int:
        return self.context or min(CONTEXT_TOKENS, header.context_tokens or CONTEXT_TOKENS)

    def _check(self, path: Path, header: Header) -> None:
        name, most = f"local/{self.weights.model}", header.context_tokens
        if self.context is not None and 0 < most < self.context:
            raise UserError(f"{name} was made for {most} tokens: give a context of at most that")
        cache = header.bytes_a_token * self._tokens(header) * self.slots
        needed, free = (
            path.stat().st_size + cache + WORKSPACE_BYTES,
            psutil.virtual_memory().available,
        )
        if needed > free:
            raise UserError(
                f"{name} needs about {needed / 1e9:.1f} GB of main memory, {free / 1e9:.1f} GB "
                f"are free: end "
                "other programs, give a smaller context or fewer slots, or name a smaller model"
            )

    def _params(self, engine: ModuleType, path: Path, header: Header, key: str) -> Any:
        params = engine.CommonParams()
        params.model.path = str(path)
        params.model_alias = {self.weights.model}
        params.hostnames = [HOST]
        params.port = 0
        params.api_keys = [key]
        params.n_ctx = self._tokens(header) * self.slots
        params.n_parallel = self.slots
        params.kv_unified = False
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self.threads
        params.cache_prompt = True
        # Without the full window Gemma's sliding-window layers forget the prefix, and nothing is
        # reused.
        params.swa_full = True
        params.n_ctx_checkpoints = 0
        # Prompts kept for later in main memory would grow to 8 GiB.
        params.cache_ram_mib = 0 if self.plain else KEPT_PROMPTS_MIB
        params.cache_idle_slots = False
        params.fit_params = False
        params.use_jinja = True
        if self.plain:
            params.chat_template = PASS_THROUGH
        params.verbosity = 0
        params.ui = False
        params.endpoint_slots = False
        params.endpoint_metrics = True
        return params


def _hang_up(port: int | None) -> None:
    """Close the server's listening socket, then its connections: both ends are in this process.

    A request that still waits for its answer would keep the server from ending for good.
    """
    ends = []
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # closed in the meantime
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                end = socket.socket(fileno=os.dup(int(name)))
                if end.family == socket.AF_INET and end.getsockname() == (HOST, port):
                    ends.append(end)
                else:
                    end.close()
    ends.sort(key=lambda end: not end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    for end in ends:
        with end, suppress(OSError):  # the other side was faster
            end.shutdown(socket.SHUT_RDWR)


def _import_engine() -> ModuleType:
    with from_extra("local", "the embedded LM"):
        return import_module("xllamacpp")
