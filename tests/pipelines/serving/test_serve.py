"""`folkmoot serve`: questions over HTTP, and what it refuses."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import dspy
import pytest
from aiohttp.test_utils import TestClient, TestServer
from planted_programs import planted_lm, questions

import folkmoot as fm
from folkmoot.modules.protocols.router.router import PERSON
from folkmoot.pipelines.base.budget import Budget
from folkmoot.pipelines.runs.books import open_books
from folkmoot.pipelines.serving.request import ServeRequest
from folkmoot.pipelines.serving.serve import Service, service_of

ASKED = questions(4)
QUESTION = {"question": ASKED[0].question, "choices": ASKED[0].choices}
Client = TestClient[Any, Any]


def with_client(service: Service, work: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        async with TestClient(TestServer(service.app())) as client:
            await work(client)

    asyncio.run(run())


def replies(service: Service, status: int) -> dict[str, Any]:
    """What it replies to a question, with this status."""
    found: dict[str, Any] = {}

    async def work(client: Client) -> None:
        reply = await client.post("/answer", json=QUESTION)
        assert reply.status == status
        found.update(await reply.json())

    with_client(service, work)
    return found


def service(program: Any = None, **settings: Any) -> Service:
    return Service(program or fm.SingleAgent("simple"), planted_lm(ASKED), **settings)


def test_a_question_is_answered_and_its_calls_are_in_the_ledger(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        reply = await client.post("/answer", json=QUESTION)
        assert reply.status == 200
        body = await reply.json()
        assert set(body) == {"answer", "decided_by", "cost_usd"}
        assert body["answer"] in ASKED[0].choices
        choices = list(ASKED[0].choices.values())
        listed = await client.post("/answer", json={**QUESTION, "choices": choices})
        assert listed.status == 200
        health = await client.get("/health")
        assert await health.json() == {"status": "ok", "program": "1 agent"}

    with open_books(tmp_path) as books:
        with_client(service(), work)
        assert books.paid.calls == 2


@pytest.mark.parametrize(
    ("body", "headers", "status", "words"),
    [
        (b"{", {}, 400, "not JSON"),
        (b"[" * 100_000, {}, 400, "not JSON"),
        (b"{}", {"Content-Type": "application/json; charset=odd"}, 400, "not JSON"),
        (b"{}", {"Content-Encoding": "gzip"}, 400, "not JSON"),
        (b"[1]", {}, 400, "one JSON object"),
        (b'{"question": "?", "choises": ["a", "b"]}', {}, 400, "did you mean 'choices'"),
        (b'{"choices": ["a", "b"]}', {}, 400, "no 'question'"),
        (b'{"question": "?", "choices": {"A": "a"}}', {}, 400, "choices"),
        (json.dumps({"question": "?", "context": "x" * 900_000}).encode(), {}, 400, "context"),
        (json.dumps(QUESTION).encode(), {"Content-Type": "text/plain"}, 415, "JSON"),
    ],
)
def test_what_is_no_question_is_refused_in_a_sentence(body, headers, status, words):
    async def work(client: Client) -> None:
        sent = {"Content-Type": "application/json", **headers}
        reply = await client.post("/answer", data=body, headers=sent)
        assert reply.status == status
        assert words in (await reply.json())["error"]

    with_client(service(), work)


def test_a_name_that_was_pointed_at_this_machine_is_refused() -> None:
    async def work(client: Client) -> None:
        for host, status in (("evil.example", 403), ("localhost:80", 200), ("[::1]:80", 200)):
            reply = await client.post("/answer", json=QUESTION, headers={"Host": host})
            assert reply.status == status

    with_client(service(), work)


def test_a_token_is_asked_for(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "Bearer é"}):
            reply = await client.post("/answer", json=QUESTION, headers=headers)
            assert reply.status == 401
        right = {"Authorization": "Bearer secret"}
        assert (await client.post("/answer", json=QUESTION, headers=right)).status == 200
        assert (await client.get("/health")).status == 200

    with_client(service(token="secret"), work)
    with pytest.raises(fm.UserError, match="give --token"):
        service_of(ServeRequest("single:simple", lm=planted_lm(ASKED), host="0.0.0.0"))


class Slow(dspy.Module):  # type: ignore[misc]
    async def aforward(self, question: str, **_: Any) -> dspy.Prediction:
        await asyncio.sleep(5)
        return dspy.Prediction(answer="late")


def test_a_question_has_a_time_out_and_a_budget() -> None:
    replies(service_of(ServeRequest(Slow(), lm=planted_lm(ASKED), within=0.2)), 504)
    dear = service(fm.SingleAgent("self_consistency"), question_budget=Budget(calls=1))
    assert "budget" in replies(dear, 503)["error"]


class Broken(dspy.Module):  # type: ignore[misc]
    def forward(self, question: str, **_: Any) -> dspy.Prediction:
        raise RuntimeError(f"no way with {dspy.settings.lm.kwargs['api_key']}")


def test_a_program_that_fails_says_why_without_a_key() -> None:
    lm = dspy.LM("openai/x", api_key="sk-canary-8a41f0c2")
    failed = replies(service_of(ServeRequest(Broken(), lm=lm)), 500)
    assert failed["error"] == "RuntimeError: no way with …"


class Unsure(fm.SingleAgent):
    """Hands every question on, as a calibrated router does."""

    async def solve(self, task: Any) -> dspy.Prediction:
        prediction = await super().solve(task)
        prediction["answer"], prediction["decided_by"] = None, PERSON
        return prediction


def test_what_is_for_a_person_has_status_202() -> None:
    bill = {"cost_usd": pytest.approx(0.000169)}
    handed_on = replies(service(Unsure("simple")), 202)
    assert handed_on == {"answer": None, "decided_by": PERSON, **bill}
