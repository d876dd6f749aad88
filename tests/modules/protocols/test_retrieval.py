"""A retriever that writes its queries: what it is asked, looks up, and what came before."""

import json
from typing import Any

import pytest

import folkmoot as fm
from folkmoot.modules.environment.base import Environment, Page
from folkmoot.pipelines.testing.replies import text_of
from folkmoot.pipelines.testing.server import ScriptedServer, wanted_fields

CHOICES = {"A": "bank", "B": "library"}
ASKED = {"question": "Where is money kept?", "choices": CHOICES}
PAGES = {
    "Savings": "Savings are kept in a vault.",
    "Vault": "A vault is a room of a bank.",
    "Zebra": "A zebra has stripes.",
}


class Pages(Environment):
    """Pages by title; it notes what was searched for."""

    source = "pages"

    def __init__(self) -> None:
        self.searched: list[str] = []

    async def fetch(self, title: str) -> Any:
        return Page(title, PAGES[title], self.source) if title in PAGES else None

    async def closest(self, query: str, n: int) -> list[str]:
        self.searched.append(query)
        return [title for title in PAGES if title.casefold() in query.casefold()][:n]


def reply(queries: Any, answers: str = "AB") -> Any:
    """The retriever's queries; it answers with the first letter, everybody else with the second."""

    def replied(body: dict[str, Any]) -> str:
        fields = wanted_fields(body)
        answer = answers[0] if "findings" in fields else answers[-1]
        return json.dumps({name: queries if name == "queries" else answer for name in fields})

    return replied


def seated(program: Any, scripted: ScriptedServer) -> Any:
    program.set_lm(fm.lm("openai/scripted", api_base=scripted.url))
    return program


def test_every_round_has_queries_from_question_and_discussion(scripted: ScriptedServer) -> None:
    pages = Pages()
    program = fm.Deliberation(["intuitive", "retriever"], "majority", 2, environment=pages)
    scripted.reply = reply("1. savings of people\n2. the vault\n3. a zebra")
    prediction = seated(program, scripted)(**ASKED)
    assert pages.searched == ["savings of people", "the vault"] * 2
    queries = [body for body in scripted.bodies if "You may look things up" in text_of(body)]
    assert len(queries) == 2
    asked = [text_of(body) for body in queries]
    assert all("Where is money kept?" in text and "A) bank" in text for text in asked)
    assert text_of(queries[0]).count(", round 1") == 1
    assert [text_of(queries[1]).count(f", round {n}") for n in (1, 2)] == [2, 1]
    turns = [turn for turn in prediction.transcript if turn["agent"] == "retriever"]
    assert [turn["queries"] for turn in turns] == [["savings of people", "the vault"]] * 2
    assert [item["title"] for item in turns[0]["evidence"]] == ["Savings", "Vault"]
    shown = ["Savings are kept in a vault." in text_of(body) for body in scripted.bodies]
    assert shown == [False, False, True] * 2  # the retriever, when it answers, and nobody else
    assert [turn["usage"]["calls"] for turn in turns] == [2, 2]
    assert prediction.usage["calls"] == len(scripted.bodies) == 6
    assert program.most_turns() == 6
    again = fm.replay(prediction, max_rounds=1, tie_break="majority")
    assert again.usage["calls"] == 3
    assert again.transcript[1]["queries"] == ["savings of people", "the vault"]


@pytest.mark.parametrize(
    ("queries", "searched"),
    [
        (["savings", "the vault", "zebra"], ["savings", "the vault"]),
        ("", ["Where is money kept?"]),
        ("x" * 1000, ["x" * 299 + "…", "Where is money kept?"]),
        ("savings\nsavings", ["savings"]),
    ],
)
def test_searches_are_limited(scripted: ScriptedServer, queries: Any, searched: list[str]) -> None:
    pages = Pages()
    scripted.reply = reply(queries)
    found = seated(fm.SingleAgent(role="retriever", environment=pages), scripted)(**ASKED)
    assert pages.searched == searched
    assert ("fallback" in found.transcript[0]) == ("Where is money kept?" in searched)


def test_the_question_may_be_all_that_is_looked_up(scripted: ScriptedServer) -> None:
    pages = Pages()
    how: Any = {"environment": pages, "retrieval": "question"}
    program = fm.Deliberation(["retriever", "critic"], "majority", 2, **how)
    scripted.reply = reply("never asked for")
    seated(program, scripted)(**ASKED)
    assert pages.searched == ["Where is money kept?"] * 2
    assert len(scripted.bodies) == 4
    assert "retriever.query" not in program.seats()
    assert program.describe()["retrieval"] == "question"
    assert "max_queries" not in program.describe()
    none = ({"max_queries": 0}, "max_queries")
    for wrong, words in (({"retrieval": "web"}, "no retrieval 'web'"), none):
        with pytest.raises(fm.UserError, match=words):
            fm.SingleAgent(role="retriever", environment=pages, **wrong)
