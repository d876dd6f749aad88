"""Programs that ask their LM through the meter: commands, and functions with an `endpoint`."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import os
import re
import shutil
from collections.abc import Awaitable, Container, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import dspy

from ...modules.base.calls import ASKER, FatalCallError, asking, record_turn
from ...modules.base.errors import UserError
from ...modules.base.files import read_regular
from ...modules.base.saved_file import Described
from ...modules.base.sync import in_thread
from ...modules.protocols.declaration import Protocol
from ...modules.protocols.foreign import COMMAND, ENDPOINT, FOLDER, Foreign, asks_for
from ...modules.protocols.program import Program
from ...modules.protocols.registry import PROTOCOLS
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow, TurnFields
from ..base.settings import settings
from ..lms.store import books_around
from ..tasks.folder import Workplace, left_in_folder, place_around
from ..tasks.process import ENDING_SECONDS, CommandError, Started, run, words_of
from ..tasks.sandbox import Door

if TYPE_CHECKING:
    from .server import Endpoint, MeteredQuestion

QUIET = {
    "AGNO_TELEMETRY": "false",  # docs.agno.com, telemetry
    "ANONYMIZED_TELEMETRY": "False",  # browser-use and Chroma, their READMEs
    "CREWAI_DISABLE_TELEMETRY": "true",  # docs.crewai.com, telemetry
    "CREWAI_TRACING_ENABLED": "false",  # docs.crewai.com, tracing
    "DO_NOT_TRACK": "1",  # consoledonottrack.com
    "HAYSTACK_TELEMETRY_ENABLED": "False",  # docs.haystack.deepset.ai, telemetry
    "HF_HUB_DISABLE_TELEMETRY": "1",  # huggingface_hub, environment variables
    "LANGCHAIN_TRACING_V2": "false",  # docs.smith.langchain.com, tracing
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # docs.litellm.ai: it fetches a list of prices
    "MEM0_TELEMETRY": "False",  # docs.mem0.ai, telemetry
    "NEXT_TELEMETRY_DISABLED": "1",  # nextjs.org/telemetry
    "OPENAI_AGENTS_DISABLE_TRACING": "1",  # openai-agents, tracing
    "OTEL_SDK_DISABLED": "true",  # opentelemetry.io, general SDK configuration
}
"""Environment variables that stop frameworks from sending to, or fetching from, third parties."""

QUESTION_SECONDS = 600.0
"""The time that a command has for one question, unless its user names another."""

T = TypeVar("T")

CACHES = ("DSPY_CACHEDIR", "XDG_CACHE_HOME")
"""Variables that name the folder of a cache. Each question gets a new one: from the cache of an
earlier run a program would answer without a call, and so without a price.
"""

PASSED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "TZ", "SYSTEMROOT"),
        *("LANG", "LANGUAGE", "TMPDIR", "TEMP", "TMP"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "NODE_PATH"),
        *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "LD_LIBRARY_PATH"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
        *("NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
        *("CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    }
)
"""The environment variables that every command gets, as it does LC_* and those that its user names.
No others are passed on, since a key may have any name.
"""


METERED = frozenset(
    {
        *("OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL"),
        *("OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
    }
)
"""Variables that a command gets with the meter's values in place of the user's."""


class Metered(Foreign):
    """A function of the user's own with a parameter `endpoint`, which gets an `Endpoint`.

    Its LM calls are the requests that it sends to the endpoint. The names that it sends as `model`
    are its agents; a name without its own LM means the run's LM.
    """

    metered = True

    def __init__(
        self, module: object, inputs: Mapping[str, str] | None = None, spec: str | None = None
    ) -> None:
        super().__init__(module, inputs, spec)
        self.models: dict[str, Any] = {}

    def seats(self) -> dict[str, Any]:
        """Return the agents with LMs of their own, by the name that is sent as `model`."""
        return dict(self.models)

    def report(self, rows: Iterable[ResultRow]) -> dict[str, object]:
        """Return `unmetered`, the number of questions without a call through the meter, and
        `refused_calls`, the number of refused calls, with the `last_refusal`; each if any.
        """
        silent = refused = 0
        last = ""
        for row in map(ResultRow.of, rows):
            failures = [turn.failed for turn in row.transcript if turn.failed is not None]
            refused += len(failures)
            if failures:
                last = failures[-1]
            silent += row.error is None and row.usage.calls == 0 and not failures
        report: dict[str, object] = {}
        if silent:
            report["unmetered"] = silent
        if refused:
            report |= {"refused_calls": refused, "last_refusal": last}
        return report

    async def _predict(
        self, question: Question, arguments: Sequence[object], fields: Mapping[str, object]
    ) -> dspy.Prediction:
        acts = question.kind == "task" and asks_for(self.module, FOLDER)
        if acts:
            fields = {**fields, FOLDER: question.files}
        prediction = await super()._predict(question, arguments, fields)
        if acts:  # reading strips an answer, but a diff needs the end of its last line
            prediction["answer"] = prediction["kept"]
        return prediction

    async def _asked(self, *arguments: object, **fields: object) -> tuple[object, list[TurnFields]]:
        if not asks_for(self.module, ENDPOINT):
            return await super()._asked(*arguments, **fields)
        from .server import LOOPBACK, metered_endpoint

        lms = {name: seat.predict.lm for name, seat in self.models.items() if seat.predict.lm}
        host = getattr(ASKER.get().place, "host", None) or LOOPBACK
        async with metered_endpoint(lms, dspy.settings.lm, host) as (endpoint, session):
            call = self._call(*arguments, **fields, **{ENDPOINT: endpoint})
            try:
                answer = await _await_program(session, call)
            finally:
                for turn in session.turns:
                    record_turn(turn)
        return answer, session.turns

    async def _call(self, *arguments: object, **fields: object) -> object:
        if FOLDER not in fields:
            return await super()._call(*arguments, **fields)
        place = place_around()
        # A worker imports the function by its name: its code is not sent.
        module = self.spec if place.host and self.spec else self.module
        return await place.run(acted, place, module, self.inputs, arguments, fields)


async def acted(
    place: Workplace,
    module: Any,
    inputs: Mapping[str, str],
    arguments: Sequence[object],
    fields: Mapping[str, Any],
) -> dict[str, str]:
    """Run a program in a task's folder, and return the changes in it, as a row keeps them and
    whole. `module` may be the name of a function.
    """
    if isinstance(module, str):
        named = PROTOCOLS.spec(module)
        assert named is not None, f"there was a {module}"
        module = named.thing.make()
    files = fields[FOLDER]
    with asking(place=place), place.folder(files) as folder:
        await Foreign(module, inputs)._call(*arguments, **{**fields, FOLDER: folder})
        kept, whole = await in_thread(left_in_folder, files, folder)
    return {"answer": kept, "kept": kept, "whole": whole}


async def _await_program(session: MeteredQuestion, call: Awaitable[T]) -> T:
    """Await a program, and return its answer. Once its calls are refused or the time of the budget
    is over, it gets only a few seconds more. Raises BudgetSpent, or the error that stopped its
    calls.
    """
    task = asyncio.ensure_future(call)
    over = asyncio.ensure_future(session.over.wait())
    accounts = [account for account in books_around().accounts if account.seconds_left is not None]
    left = min((account.seconds_left or 0.0 for account in accounts), default=None)
    try:
        await asyncio.wait([task, over], timeout=left, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([task], timeout=ENDING_SECONDS)
        if not task.done():
            for account in accounts:
                account.check()
            raise session.ended or CommandError("it did not end")
        return task.result()
    finally:
        # A program that went on would ask for a question that has ended.
        over.cancel()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Command(Metered):
    """A command that is started for each question and asks its LM through the meter.

    It gets the question's fields as a JSON object on its standard input, and environment variables
    by which OpenAI's and Anthropic's clients find the meter. Its answer is the last line that it
    prints: text, or a JSON object with `answer`. For a task, it is a unified diff of the folder.
    An exit code other than 0 or a time-out makes an error row.

    Args:
        command: such as `"python crew.py"`; it is not run by a shell.
        timeout: seconds that one question may take.
        pass_env: environment variables that it gets besides `PASSED`.
        cwd: the folder that it is started in; by default the current one.

    Raises UserError for a command that is empty or cannot be started.
    """

    protocol = Protocol("command")
    started = True

    def __init__(
        self,
        command: str,
        *,
        timeout: float = QUESTION_SECONDS,
        pass_env: Sequence[str] | str = (),
        cwd: str | Path | None = None,
    ) -> None:
        words = words_of(command, "command", "python crew.py")
        if not timeout > 0:
            raise UserError(f"the timeout is {timeout}: give seconds above 0")
        if isinstance(pass_env, str):
            pass_env = [pass_env]
        for name, mark, _ in (name.partition("=") for name in pass_env):
            if mark:  # the value would stand in the run's files
                raise UserError(f"pass_env has a value for {name}: give its name alone, and set it")
        if cwd is not None:
            cwd = Path(cwd)
        self.command = command
        super().__init__(Start(tuple(words), timeout, tuple(pass_env), cwd))

    def describe(self) -> Described:
        """Return the command with a hash of the files that it names."""
        start: Start = self.module
        digest = hashlib.sha256()
        # A changed script is another program: its answers must not join those of the old one.
        for path in ((start.cwd or Path()) / word for word in start.words):
            if os.path.isfile(path):  # a word may be longer than any path
                digest.update(read_regular(path))
        described: Described = {"program": self.protocol.name, "command": self.command}
        if start.timeout != QUESTION_SECONDS:
            described["timeout"] = start.timeout
        if start.pass_env:
            described["pass_env"] = list(start.pass_env)
        return {**described, "code": digest.hexdigest()}

    def check_saved(self) -> None:
        raise UserError(
            "a command is not saved, since loading a file must not start programs: name it again, "
            f"as {COMMAND}{self.command}"
        )


@dataclass(frozen=True)
class Start:
    """The function that runs a command on a question; see `Command`."""

    words: tuple[str, ...]
    timeout: float
    pass_env: tuple[str, ...]
    cwd: Path | None

    async def __call__(
        self, question: Question, endpoint: Endpoint, folder: Path | None = None
    ) -> object:
        """Return the command's answer to one question. Raises CommandError if it gives none."""
        with (
            TemporaryDirectory(prefix="folkmoot-", ignore_cleanup_errors=True) as cache,
            ExitStack() as held,
        ):
            given = json.dumps(_fields_of(question), ensure_ascii=False, default=str).encode()
            # The meter may be on another machine, whose socket is no file of this one.
            if folder is not None and place_around().relays:
                endpoint = held.enter_context(endpoint.near(Path(cache)))
            if folder is None:
                start = self._start(endpoint, cache)
            else:
                start = self._start_in(folder, question.files, endpoint)
            try:
                ended = await run(start, folder, self.timeout, given)
            except OSError as problem:
                raise self._cannot_start(str(problem.strerror)) from None
        if ended.code is None:
            raise CommandError(f"it took longer than its timeout, {self.timeout:g} s")
        if ended.code != 0:
            reason = _reason(ended.complaint)[:500] or "it printed no reason"
            advice = self._not_passed(reason)
            raise CommandError(f"the command ended with code {ended.code}: {reason}{advice}")
        return _answer(_last_of(ended.printed))

    def _not_passed(self, reason: str) -> str:
        """Return advice on the first variable in a reason that is set here but not passed on."""
        named = set(_VARIABLE.findall(reason)) - PASSED - set(self.pass_env) - METERED
        for name in settings().environment_of(named, ()):
            return f"; {name} is set here, and a command gets it where --pass-env {name} is given"
        return ""

    def _start(self, endpoint: Endpoint, cache: str) -> Started:
        """Return how the command is started for a question."""
        environment = self._environment(endpoint, cache)
        if _find_command(self.words[0], environment.get("PATH"), self.cwd) is None:
            raise self._cannot_start("there is none")
        return Started([*self.words], environment, self.cwd, [])

    def _start_in(self, folder: Path, task: Container[str], endpoint: Endpoint) -> Started:
        """Return how it is started in a task's folder; `task` holds the names of its files. Raises
        FatalCallError if it cannot be started.
        """
        place = place_around()
        variables = self._read_passed_env()
        try:
            return place.sandbox.started(
                self.words,
                folder,
                {**variables, **QUIET, **_meter_variables(endpoint)},
                task=task,
                door=Door(endpoint.socket, endpoint.port),
                hidden=place.hidden,
                cwd=self.cwd,
            )
        except UserError as problem:  # the same for every task: it ends the run
            raise FatalCallError(str(problem)) from None

    def _read_passed_env(self) -> dict[str, str]:
        """Return the values of `pass_env`. Raises FatalCallError for one that is not set."""
        variables = settings().environment_of(self.pass_env, ())
        for name in self.pass_env:
            if name not in variables:
                raise FatalCallError(
                    f"the command {self.words[0]!r} should get {name}, which is not set: set it, "
                    f"or leave out --pass-env {name}"
                )
        return variables

    def _cannot_start(self, why: str) -> FatalCallError:
        return FatalCallError(
            f"the command {self.words[0]!r} cannot be started ({why}): check its name, and that it "
            "may be run"
        )

    def _environment(self, endpoint: Endpoint, cache: str) -> dict[str, str]:
        """Return the variables of a command, with the meter in place of keys and addresses."""
        environment = settings().environment_of(PASSED, ("LC_",)) | self._read_passed_env()
        # A proxy could not reach the meter on this machine.
        direct = [environment.get(name) for name in ("NO_PROXY", "no_proxy")]
        no_proxy = ",".join([*dict.fromkeys(filter(None, direct)), "127.0.0.1"])
        return {
            **environment,
            **QUIET,
            **dict.fromkeys(CACHES, cache),
            "NO_PROXY": no_proxy,
            "no_proxy": no_proxy,
            **_meter_variables(endpoint),
        }


def _meter_variables(endpoint: Endpoint) -> dict[str, str]:
    """Return the variables by which clients find the meter."""
    return {
        "OPENAI_BASE_URL": endpoint.base_url,
        "OPENAI_API_BASE": endpoint.base_url,
        "ANTHROPIC_BASE_URL": endpoint.anthropic_url,
        "OPENAI_API_KEY": endpoint.api_key,
        "ANTHROPIC_API_KEY": endpoint.api_key,
    }


def _find_command(word: str, path: str | None, cwd: Path | None) -> str | None:
    """Return the path of a command as the system finds it, or None."""
    if "/" in word and cwd is not None:
        word = str(cwd / word)
    return shutil.which(word, path=path)


def _fields_of(question: Question) -> dict[str, object]:
    """Return the fields of a question that a command gets."""
    shown = question.shown()
    names = ("id", "question", "choices", "context", "kind", "meta")
    return {name: shown[name] for name in names}


def runs_on_workers(program: Program) -> bool:
    """Return whether workers of a cluster can run a part of a program: a command, or a function
    that can be imported by its name.
    """
    for _, part in program.parts(Metered):
        is_named = part.spec and inspect.isroutine(part.module)
        if is_named and asks_for(part.module, FOLDER) and asks_for(part.module, ENDPOINT):
            return True
    return bool(program.parts(Command))


def _last_of(lines: Sequence[str]) -> str:
    return "".join(lines[-1:]).strip()


_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]{3,}\b")
_NAMES_AN_ERROR = re.compile(
    r"^[\s|+>-]*((?:Uncaught |Unhandled )?[\w.]*(?:Error|Exception|Exit|Interrupt|Failure)\b"
    # After a line that ends with a colon or a tag, and after pydantic's count, the message goes on.
    r"(?:.*(?:[:>][ \t]*\n\s*|\d+ validation errors? for .*\n.*\n))*.*)",
    re.M,
)


def _reason(complaint: Sequence[str]) -> str:
    """Return the line of a command's standard error that names the error, or else the last line."""
    # Not always the last: Node.js prints its version after it, others a frame around it.
    named = _NAMES_AN_ERROR.findall("\n".join(complaint))
    if not named:
        return _last_of(complaint)
    return " ".join(named[-1].split()).strip(" |")


def _answer(line: str) -> object:
    """Return the answer in a command's last line; an object without `answer` counts as text."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line or None
    if isinstance(value, dict) and "answer" in value:
        return value["answer"]
    return line
