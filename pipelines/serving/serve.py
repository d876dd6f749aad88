"""Answers questions over HTTP with a program: `folkmoot serve`."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import signal
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path

import dspy
from aiohttp import web

from ...modules.base.calls import CallError, Usage
from ...modules.base.errors import UserError, did_you_mean, said_by, system_errors
from ...modules.protocols.program import Program
from ...modules.protocols.router.router import PERSON
from ...modules.protocols.short_names import short_name
from ...modules.reading.question import INPUTS, NAMELESS, Question, from_row
from ..base.budget import Budget, BudgetSpent
from ..data.questions import check_contexts
from ..evaluation.answering import lm_names, lms_in, seat_engines
from ..lms.endpoint import without_keys
from ..lms.named import Billed
from ..programs.resolve import program_of
from ..programs.seats import (
    Seating,
    parse_sets,
    program_given,
)
from ..runs.books import open_books
from ..runs.folder import claimed
from .request import ServeRequest

BIGGEST = 1_000_000
"""Bytes of a request at most."""
LAST_SECONDS = 5.0
"""How long requests under way may take once the server is to end."""

_LOG = logging.getLogger("folkmoot")


@dataclass
class Service:
    """A program with its agents' LMs, and the limits of a question: `question_budget`, and `within`
    in seconds.
    """

    program: Program
    lm: dspy.BaseLM
    question_budget: Budget | None = None
    within: float = 60.0
    token: str | None = None

    @property
    def engines(self) -> list[Billed]:
        """What counts and prices the calls of its LMs (`billed_as`)."""
        return seat_engines(self.program, self.lm)

    def app(self) -> web.Application:
        """Return the web application: POST /answer and GET /health."""
        # Handlers do not inherit the open books, so each runs in a copy of this context.
        around = copy_context()

        async def answer(request: web.Request) -> web.Response:
            return await asyncio.create_task(self._reply(request), context=around.copy())

        async def health(_: web.Request) -> web.Response:
            return web.json_response(
                {"status": "ok", "program": short_name(self.program.describe())}
            )

        app = web.Application(client_max_size=BIGGEST, middlewares=[self._guard])
        app.add_routes([web.post("/answer", answer), web.get("/health", health)])
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse requests without the token; /health needs none.

        Without a token the server is for this machine alone, and refuses requests that name another
        host: a page in a browser may have pointed its own name at this machine.
        """
        if self.token is None and not _loopback(request.url.host or ""):
            return _problem(
                403, "ask this server at 127.0.0.1 or localhost, or start it with --token"
            )
        if self.token is not None and request.path != "/health":
            scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
            # An ordinary comparison takes longer the more of the token is right, which can be
            # measured.
            same = hmac.compare_digest(shown.encode(errors="replace"), self.token.encode())
            if scheme.casefold() != "bearer" or not same:
                return _problem(401, "give the header Authorization: Bearer TOKEN")
        try:
            return await handler(request)
        except web.HTTPException as problem:  # no such path or method, a body that is too large
            return _problem(problem.status, f"{problem.reason}: POST a question to /answer")

    async def _reply(self, request: web.Request) -> web.Response:
        """Return the reply to a request: the answer, or one sentence about what is wrong."""
        # A page of another site can send text to this machine unasked, but not JSON.
        if request.content_type != "application/json":
            return _problem(415, "send the question as JSON, with Content-Type: application/json")
        try:
            body = await request.json()
        except (ValueError, LookupError, RecursionError, web.RequestPayloadError):
            return _problem(400, "the body of the request is not JSON")
        try:
            question = question_in(body)
        except UserError as problem:
            return _problem(400, str(problem))
        try:
            async with asyncio.timeout(self.within):
                prediction = await self.answer(question)
        except TimeoutError:
            return _problem(504, f"there was no answer within {self.within:g} s")
        except BudgetSpent as problem:
            return _problem(503, str(problem))
        except CallError as problem:  # whose words name the address of the LM
            _LOG.warning("a question has no answer: %s", problem)
            return _problem(502, "the LM behind this server did not answer: its log says why")
        except UserError as problem:
            return _problem(400, str(problem))
        except Exception as problem:  # of a program of the user's own, or an LM that is not ours
            reason = f"{type(problem).__name__}: {said_by(problem)}"
            return _problem(500, without_keys(reason, lms_in(self.program, self.lm)))
        reply = {
            "answer": prediction.answer,
            "decided_by": prediction.decided_by,
            "cost_usd": prediction.usage["cost_usd"],
        }
        return web.json_response(reply, status=202 if prediction.decided_by == PERSON else 200)

    async def answer(self, question: Question) -> dspy.Prediction:
        """Return the program's prediction, within the budget of a question."""
        budget, engines = self.question_budget, self.engines
        with (
            dspy.context(lm=self.lm, disable_history=True),
            open_books(budget=budget, engines=engines, spent=Usage(), option="--question-budget"),
        ):
            return await self.program.answer(question)


def question_in(body: object) -> Question:
    """Return the question in a request's JSON. Raises UserError for an invalid one."""
    if not isinstance(body, dict):
        raise UserError('send one JSON object, such as {"question": "…", "choices": ["a", "b"]}')
    # A program of the user's own may take any field, but not one that is misspelt.
    for name in body.keys() - INPUTS:
        if meant := did_you_mean(name, INPUTS):
            raise UserError(f"a question has no {name!r}{meant}: correct or drop it")
    question = from_row({**body, "id": str(body.get("id") or NAMELESS)}, "")
    check_contexts([question])
    return question


def _problem(status: int, sentence: str) -> web.Response:
    return web.json_response({"error": sentence}, status=status)


def service_of(request: ServeRequest) -> Service:
    """Return the service that a request describes. Raises UserError; no LM is called."""
    if request.token is not None and not request.token.strip():
        raise UserError("the token is empty, so that anybody could ask: give it a word")
    # Each question is paid for by the owner, so strangers must not be able to ask.
    if request.token is None and not _loopback(request.host):
        raise UserError(
            f"--host {request.host} can be reached from other machines: give --token WORD, too"
        )
    lms = Seating(request)
    spec = request.program
    if isinstance(spec, str | Path):
        spec = program_of(str(spec), parse_sets(request.parameters()), make_lm=lms.make)
    program, lm = lms.seat(program_given(spec, request.input_fields()))
    budget = Budget.of(request.question_budget)
    return Service(program, lm, budget, request.within, request.token)


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve_program(request: ServeRequest, ready: Callable[[str, str], None]) -> None:
    """Answer questions over HTTP until interrupted; `ready` gets the address of the server, and the
    names of the LMs that answer.

    Raises UserError for a program, LM or address that cannot be used.
    """
    service = service_of(request)
    out = Path(request.out).expanduser()
    with (
        claimed(out),  # two servers would each spend the whole budget
        open_books(out, cache=request.cache, budget=request.budget, engines=service.engines),
    ):
        asyncio.run(_listen(service, request, ready))


async def _listen(
    service: Service, request: ServeRequest, ready: Callable[[str, str], None]
) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    runner = web.AppRunner(service.app(), access_log=None, shutdown_timeout=LAST_SECONDS)
    await runner.setup()
    try:
        here = f"{request.host} port {request.port}"
        with system_errors(here, "choose another --port or --host", "is not free"):
            await web.TCPSite(runner, request.host, request.port).start()
        # --port 0 lets the system pick one.
        port = runner.addresses[0][1]
        host = f"[{request.host}]" if ":" in request.host else request.host  # IPv6
        ready(f"http://{host}:{port}", lm_names(service.program, service.lm))
        await stopped.wait()
    finally:
        await runner.cleanup()
