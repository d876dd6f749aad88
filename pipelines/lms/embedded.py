"""LMs inside this process as endpoints: a llama.cpp server for each model and setting, started on
first use.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import re
import secrets
import socket
import stat
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from http.client import HTTPConnection
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from ...modules.agents.profile import DEFAULT_PROFILE, Profile
from ...modules.base.calls import ContextLengthError
from ...modules.base.errors import UserError, from_extra
from ..base.settings import settings
from .client import HttpEndpoint
from .endpoint import Reply
from .weights import Weights, read_once, weights_of

PLAIN_PROFILE = Profile(layout="plain", answer_form="text", list_options=False, constrain="grammar")
ATTEMPT_SECONDS = 1800.0  # enough for a long reply of a slow LM on a busy machine
CONTEXT_TOKENS = 8192
WORKSPACE_BYTES = 300 << 20  # about what llama.cpp needs besides weights and context
# This many tokens of context take about as much memory as a model's 4-bit weights.
TOKENS_LIKE_WEIGHTS = 16_384

HOST = "127.0.0.1"
# For earlier prompts, such as other agents', with which a later one may share its beginning.
KEPT_PROMPTS_MIB = 512
# A chat template that joins messages without anything in between.
PASS_THROUGH = "{%- for message in messages %}{{ message['content'] }}{% endfor %}"
# The beginning of llama.cpp's default chat template, for files without one.
NO_TEMPLATE = "{%- for message in messages -%}\n  {{- '<|im_start|>' + message.role"
_BASE = re.compile(r"(?<![a-z])(base|pt|pretrain(ed)?)(?![a-z])")


_LOG = logging.getLogger("folkmoot")


class EmbeddedServer:
    """A GGUF model behind llama.cpp's OpenAI-compatible server, in threads of this process, on the
    loopback interface and behind a random key.

    Nothing is loaded before `start` or the first use of `tokenize`. With one slot, the same
    requests in the same order on a fresh server give the same answers bit for bit.

    Args:
        weights: the model.
        cache_dir: the folder where weights that come in parts are joined, once.
        threads: CPU threads of the model.
        context: the longest prompt and reply together, in tokens; None takes 8192, or the model's
            maximum if smaller.
        slots: calls that are answered concurrently.
        plain: send messages to the model unchanged, not through its chat template.
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
        self.running: Any = None
        self.address = self.key = ""
        self._lock = threading.Lock()
        self._tokens: dict[str, list[int]] = {}

    def start(self) -> None:
        """Load the weights and listen, unless the server already runs; every start makes a new key.
        Raises UserError if the extra `local` is missing, the weights cannot be joined or loaded,
        the context is larger than the model's, or main memory is too small.
        """
        with self._lock:
            if self.running is not None:
                return
            # First, since joining the weights takes long and would be in vain without it.
            engine = _import_engine()
            path, name = self.weights.path(self.cache_dir), f"local/{self.weights.model}"
            context = (self.context or CONTEXT_TOKENS) * self.slots
            _check_memory(name, path, context)
            began, key = time.monotonic(), secrets.token_urlsafe(32)
            try:
                server = engine.Server(self._parameters(engine, path, name, context, key))
            except (RuntimeError, ValueError):  # llama.cpp does not say why
                raise UserError(
                    f"llama.cpp cannot load {path}: it is not a whole GGUF file of a language "
                    "model, or this llama.cpp does not know the model: fetch it again, or name "
                    "another file"
                ) from None
            # Its answer shows that the server's loop runs: before that, the server cannot be
            # stopped.
            server.handle_metrics()
            self.running, self.address, self.key = server, server.listening_address, key
            # At the interpreter's shutdown, the server's threads would outlive the objects that
            # they use.
            atexit.register(self.stop)
        longest = self.ask("/v1/models")["data"][0]["meta"]["n_ctx_train"]
        if self.context is not None and self.context > longest:
            self.stop()
            raise UserError(f"{name} was made for {longest} tokens: give a context of at most that")
        _LOG.info("loaded %s in %.1f s", name, time.monotonic() - began)

    def _parameters(self, engine: ModuleType, path: Path, name: str, context: int, key: str) -> Any:
        """llama.cpp's parameters for this server."""
        params = engine.CommonParams()
        params.model.path = str(path)
        params.model_alias = {name}
        params.hostnames = [HOST]
        # The operating system picks a free port.
        params.port = 0
        params.api_keys = [key]
        params.n_ctx = context
        params.n_parallel = self.slots
        params.kv_unified = False
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self.threads
        params.cache_prompt = True
        # With a smaller window, Gemma's sliding-window layers forget the prefix, so that no prompt
        # could be reused.
        params.swa_full = True
        params.n_ctx_checkpoints = 0
        # Without this, saved prompts in main memory would grow to 8 GiB.
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

    def ask(self, path: str, body: dict[str, object] | None = None) -> dict[str, Any]:
        """Return the server's JSON answer to a GET, or to a POST of `body`."""
        connection = HTTPConnection(urlsplit(self.address).netloc, timeout=60)
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        try:
            method = "GET" if body is None else "POST"
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer: dict[str, object] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return answer

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, without a start token; asked for once per text.

        The text of a special token, such as `<eos>`, counts as text.
        """
        self.start()
        for text in texts:
            if text not in self._tokens:
                body = {"content": text, "add_special": False, "parse_special": False}
                self._tokens[text] = self.ask("/tokenize", body)["tokens"]
        return [list(self._tokens[text]) for text in texts]

    def stop(self) -> None:
        """End the server and its threads, and free its memory, if it runs."""
        with self._lock:
            if self.running is not None:
                _hang_up(urlsplit(self.address).port)
            # xllamacpp has no call for this: the server ends with its last reference.
            self.running = None
        atexit.unregister(self.stop)


def untuned(weights: Weights, cache_dir: Path) -> tuple[bool, bool]:
    """Return whether a model has no chat template, and whether it is a base model without chat
    training. Raises UserError for a file that llama.cpp cannot load.
    """
    # Of known weights it is known, and they may not have been fetched; llama.cpp reads other files.
    if (file := weights.file) is None:
        return not weights.tuned, not weights.tuned

    def template_missing(path: Path) -> bool:
        # The shortest context, which takes the least memory, is enough for that.
        server = EmbeddedServer(weights, cache_dir=cache_dir, context=8)
        server.start()
        try:
            return bool(server.ask("/props")["chat_template"].startswith(NO_TEMPLATE))
        finally:
            server.stop()

    missing = bool(read_once(file, cache_dir.expanduser() / "weights", "layout", template_missing))
    return missing, missing or bool(_BASE.search(file.stem.casefold()))


def _check_memory(name: str, weights: Path, tokens: int) -> None:
    """Raise UserError if main memory is too small: the system would kill this process."""
    with from_extra("local", "the embedded LM"):
        import psutil
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
    """A GGUF model in this process as an endpoint. Its server, which endpoints with the same
    settings share, starts with the first request. Raises UserError for missing weights.

    Args:
        model: what follows `local/`: a known name, PATH.gguf, or hf:ORG/REPO:FILE.gguf.
        threads, context, slots: as of an `EmbeddedServer`.
        timeout: seconds that one attempt may take.
        plain: send messages to the model unchanged, as always to one without a chat template.
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
        self.settings: dict[str, object] = {"threads": threads, "context": context, "slots": slots}
        folder = settings().cache
        self._weights = weights_of(model, folder)
        bare, self._untuned = untuned(self._weights, folder)
        self.plain = plain or bare
        self._key = ""
        self._http: HttpEndpoint | None = None

    @property
    def name(self) -> str:
        return f"embedded llama.cpp ({self._weights.label})"

    @property
    def answered(self) -> bool:
        """Whether a call was answered before."""
        return self._http is not None and self._http.answered

    @property
    def profile(self) -> Profile:
        """The profile of the weights."""
        return PLAIN_PROFILE if self._untuned else DEFAULT_PROFILE

    async def send(self, payload: Mapping[str, Any]) -> Reply:
        """One attempt. Raises TransientError or CallError."""
        http = await self._ensure_started()
        body = dict(payload)
        fields = body.pop("fields", None)
        if fields:
            options = [option for field in fields for option in field.get("options", ())]
            # With a space in front, as the LM would write them after "Answer:".
            written = [f" {option}" for option in options]
            tokens = await asyncio.to_thread(self._server.tokenize, written)
            body["grammar"] = reply_grammar(fields, dict(zip(options, tokens, strict=True)))
        try:
            return await http.send({**body, "cache_prompt": True})
        except ContextLengthError as problem:
            raise ContextLengthError(
                f"a prompt does not fit into the context of local/{self.model} ({problem}): give "
                "a larger context, such as --lm-set context=16384, or shorter questions"
            ) from None

    async def aclose(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    @property
    def _server(self) -> EmbeddedServer:
        return _server_of(self._weights, self.plain, **self.settings)

    async def _ensure_started(self) -> HttpEndpoint:
        """Return the client of the server, which is started if need be."""
        server = self._server
        if server.running is None:
            # Loading takes a second or two, so it must not block the event loop.
            await asyncio.to_thread(server.start)
        # A server that was started again has another port and another key.
        if self._http is None or self._key != server.key:
            self._key = server.key
            self._http = HttpEndpoint(
                f"{server.address}/v1",
                self.model,
                api_key=self._key,
                timeout=self.timeout,
                proxied=False,
            )
        return self._http


@cache
def _server_of(
    weights: Weights, plain: bool, threads: int, context: int | None, slots: int
) -> EmbeddedServer:
    """Return the server of a model and these settings, created on first use."""
    folder = settings().cache
    return EmbeddedServer(
        weights, cache_dir=folder, threads=threads, context=context, slots=slots, plain=plain
    )


def _hang_up(port: int | None) -> None:
    """Close the server's listening socket, then its connections: a request that still waits for its
    answer would block the server's end forever. xllamacpp has no call for this, but all sockets are
    in this process.
    """
    ends = []
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # closed in the meantime
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                # A copy of the descriptor, since closing this object must not close the original.
                end = socket.socket(fileno=os.dup(int(name)))
                if end.family == socket.AF_INET and end.getsockname() == (HOST, port):
                    ends.append(end)
                else:
                    end.close()
    ends.sort(key=lambda end: not end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    for end in ends:
        with end, suppress(OSError):  # the other end has closed it
            end.shutdown(socket.SHUT_RDWR)


def _import_engine() -> ModuleType:
    """Return the package xllamacpp. Raises UserError if the extra `local` is not installed."""
    with from_extra("local", "the embedded LM"):
        return import_module("xllamacpp")


# llama.cpp's grammars (GBNF), which restrict a plain-text reply to its fields
# ---------------------------------------------------------------------------

MAX_TEXT_CHARS = 120
MAX_SPAN_CHARS = 80

# Free text has no "<", with which the texts of special tokens, such as <eos>, begin.
_FIRST = r"[^ \t\r\n<]"
_FURTHER = r"[^\t\r\n<]"
_END = r'"\n"'
# An LM without chat training often ends free text by a blank line, which is a single token. If that
# were not allowed, it would go on.
_FREE_END = r'("\n" | "\n\n")'

BOOLEAN_RULE = '" " ("yes" | "no")'
ACTION_RULE = r'" " ("Search" | "Lookup" | "Finish") "[" [^\t\r\n<\[\] ] [^\t\r\n<\[\]]{0,79} "]"'
NUMBER_RULE = '" " "-"? [0-9]{1,12} ("." [0-9]{1,6})?'


def reply_grammar(
    fields: Sequence[Mapping[str, Any]],
    tokens: Mapping[str, Sequence[int]],
    *,
    max_text_chars: int = MAX_TEXT_CHARS,
) -> str:
    """Return the grammar of a reply that starts right after the label of its first field.

    Before each further field are a newline, its capitalised name and a colon; the reply ends with a
    newline.

    Args:
        fields: the output fields in order, each with `name`, `type` (text, span, open, task,
            option, boolean, number or action) and, for an option, its `options`.
        tokens: the token ids of each option with a leading space.
        max_text_chars: the most characters of a field of type text.
    """
    rules = []
    for index, field in enumerate(fields):
        if index:
            rules.append(rf'"\n{field["name"].capitalize()}:"')
        rules.append(_field_rule(field, tokens, max_text_chars))
    rules.append(_FREE_END if fields[-1]["type"] in ("text", "span", "open", "task") else _END)
    return "root ::= " + " ".join(rules)


def choice_rule(sequences: Iterable[Sequence[int]]) -> str:
    """Return the rule for one of these token sequences, exactly as tokenised.

    By a rule of characters, greedy decoding could begin an option with a token that real text never
    has. Equal sequences count once; one may be a prefix of another, since the text after the rule
    decides.
    """
    distinct = dict.fromkeys(tuple(sequence) for sequence in sequences)
    alternatives = (" ".join(f"<[{token}]>" for token in sequence) for sequence in distinct)
    return f"({' | '.join(alternatives)})"


def text_rule(max_chars: int) -> str:
    """Return the rule for a space and 1 to `max_chars` characters on one line, the first not a
    space.

    llama.cpp refuses repetitions not far above 1000.
    """
    return f'" " {_FIRST} {_FURTHER}{{0,{max_chars - 1}}}'


def _field_rule(
    field: Mapping[str, Any], tokens: Mapping[str, Sequence[int]], max_text_chars: int
) -> str:
    """Return the rule for the value of a field."""
    if field["type"] == "option":
        return choice_rule(tokens[option] for option in field["options"])
    rules = {
        "boolean": BOOLEAN_RULE,
        "number": NUMBER_RULE,
        "action": ACTION_RULE,
        "span": text_rule(MAX_SPAN_CHARS),
    }
    return rules.get(field["type"], text_rule(max_text_chars))
