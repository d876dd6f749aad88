"""llama.cpp's server in this process, for one GGUF file: started, asked, and ended."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from ...modules.base.errors import UserError
from ...modules.base.extras import from_extra

HOST = "127.0.0.1"
# Earlier prompts whose beginnings a later one may share, such as those of the other seats of a
# dialogue.
KEPT_PROMPTS_MIB = 512
# Messages reach the model as they are, joined without anything in between.
PASS_THROUGH = "{%- for message in messages %}{{ message['content'] }}{% endfor %}"
# How the chat template begins that llama.cpp uses for a file without one.
NO_TEMPLATE = "{%- for message in messages -%}\n  {{- '<|im_start|>' + message.role"
_BASE = re.compile(r"(?<![a-z])(base|pt|pretrain(ed)?)(?![a-z])")


class LlamaServer:
    """A running server of xllamacpp on the loopback, behind a random key, until `stop`.

    Args: path: the GGUF file. name: what errors call the LM. context: longest prompt and reply
        together, in tokens. threads: CPU threads. slots: calls that are answered side by side.
        plain: messages reach the model as they are, instead of through its chat template.

    Raises UserError where the extra `local` is missing, and for a file that llama.cpp cannot load.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        *,
        context: int,
        threads: int = 1,
        slots: int = 1,
        plain: bool = False,
    ) -> None:
        if not path.is_file():
            raise UserError(f"the file {path} is missing: name a GGUF file as local/PATH.gguf")
        engine = import_engine()
        self.key = secrets.token_urlsafe(32)
        params = engine.CommonParams()
        params.model.path = str(path)
        params.model_alias = {name}
        params.hostnames = [HOST]
        params.port = 0
        params.api_keys = [self.key]
        params.n_ctx = context * slots
        params.n_parallel = slots
        params.kv_unified = False
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.cache_prompt = True
        # Without the full window Gemma's sliding-window layers forget the prefix, and nothing is
        # reused.
        params.swa_full = True
        params.n_ctx_checkpoints = 0
        # Prompts kept for later in main memory would grow to 8 GiB.
        params.cache_ram_mib = 0 if plain else KEPT_PROMPTS_MIB
        params.cache_idle_slots = False
        params.fit_params = False
        params.use_jinja = True
        if plain:
            params.chat_template = PASS_THROUGH
        params.verbosity = 0
        params.ui = False
        params.endpoint_slots = False
        params.endpoint_metrics = True
        try:
            self._server = engine.Server(params)
        except (RuntimeError, ValueError):  # llama.cpp does not say why
            raise UserError(
                f"llama.cpp cannot load {path}: it is not a whole GGUF file of a language model, "
                "or this llama.cpp does not know the model: fetch it again, or name another file"
            ) from None
        # An answer proves that the server's loop runs: ended before that, it would never end.
        self._server.handle_metrics()
        self.address: str = self._server.listening_address

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The server's JSON answer to a GET, or to a POST of `body`."""
        connection = HTTPConnection(urlsplit(self.address).netloc, timeout=60)
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        try:
            method = "GET" if body is None else "POST"
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return answer

    def stop(self) -> None:
        """End the server and its threads, and free its memory."""
        _hang_up(urlsplit(self.address).port)
        # xllamacpp has no call for this: the server ends with its last reference.
        self._server = None


@dataclass(frozen=True)
class Layout:
    """How a model wants to be asked: whether its file has a chat template, and whether it is an
    untuned base model, which knows no chat.
    """

    has_template: bool
    untuned: bool


def read_layout(path: Path) -> Layout:
    """What llama.cpp says about a GGUF file. Raises UserError as `LlamaServer` does."""
    server = LlamaServer(path, path.stem, context=8)
    try:
        template = not server.ask("/props")["chat_template"].startswith(NO_TEMPLATE)
    finally:
        server.stop()
    return Layout(template, not template or bool(_BASE.search(path.stem.casefold())))


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


def import_engine() -> ModuleType:
    """The package xllamacpp. Raises UserError where the extra `local` is missing."""
    with from_extra("local", "the embedded LM"):
        return import_module("xllamacpp")
