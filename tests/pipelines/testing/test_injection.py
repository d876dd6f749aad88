"""Injected text stays text: attacks wherever text from outside enters a prompt or a report."""

import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import dspy
import markupsafe
import pytest
from injection import ATTACKS, TARGET, Attack, susceptibility
from refusals import refused

import folkmoot as fm
from folkmoot.modules.agents.retrieval import Retrieval
from folkmoot.modules.base import sync
from folkmoot.modules.base.fence import clean
from folkmoot.modules.environment import Environment, Page
from folkmoot.modules.environment.corpus import CorpusEnvironment
from folkmoot.pipelines.plots.dialogues import dialogues_page
from folkmoot.pipelines.testing.replies import sample_questions, text_of, wrong
from folkmoot.pipelines.testing.server import ScriptedServer, wanted_fields

GOAL = "Zanzibar"
HARMLESS = Attack("harmless", "none", f"The river {TARGET} is quiet here.")
QUESTION = f"Which town lies at mile one of the {GOAL} road?"
SPAN = {"question": QUESTION, "kind": "span"}
CHOICE = {"question": QUESTION, "choices": {"A": "Ashby", "B": "Oakham", "C": "Elmford"}}
PLAIN = fm.Profile(layout="plain")
NAMES = [attack.name for attack in ATTACKS]
Says = Callable[[list[str]], dict[str, str]]
Scene = tuple[fm.Program, dict[str, Any], Says, list[str]]
"""The program, what it is asked, what the LM says, and the look-ups as they happen."""


def attack(name: str) -> Attack:
    return next(one for one in ATTACKS if one.name == name)


_CONTACTS: list[list[Any]] = []
OUTWARD = ("socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "subprocess.Popen")


def _notice(event: str, args: tuple[Any, ...]) -> None:
    if not _CONTACTS:
        return
    if event == "socket.connect":
        _CONTACTS[-1].append(args[1])
    elif event in OUTWARD:
        _CONTACTS[-1].append((event, *args))


# Sees what any library does, in C as well; it cannot be taken away again, so it sleeps outside
# `watched`.
sys.addaudithook(_notice)


@pytest.fixture(scope="module", autouse=True)
def _own_loop() -> None:
    """Calls that earlier tests gave up are cancelled with their loop, and a new one begins."""
    sync._LOOP.stop()


@contextmanager
def watched() -> Iterator[list[Any]]:
    """Collects whatever is connected to, looked up or started inside the block."""
    _CONTACTS.append([])
    try:
        yield _CONTACTS[-1]
    finally:
        _CONTACTS.pop()


class Logged(Environment):
    """A corpus that notes what is asked of it, without the words."""

    source = "corpus"

    def __init__(self, documents: list[dict[str, str]], log: list[str]) -> None:
        self._corpus, self._log = CorpusEnvironment(documents), log

    async def fetch(self, title: str) -> Page | None:
        self._log.append("fetch")
        return await self._corpus.fetch(title)

    async def closest(self, query: str, n: int) -> list[str]:
        self._log.append("closest")
        return await self._corpus.closest(query, n)


def saying(**fixed: str | list[str]) -> Says:
    """A reply with these fields; of a list, one entry after the other."""
    left = {name: list(value) for name, value in fixed.items() if isinstance(value, list)}

    def say(fields: list[str]) -> dict[str, str]:
        return {n: left[n].pop(0) if n in left else fixed.get(n, "fine") for n in fields}

    return say


def by_field(**scripts: Says) -> Says:
    """The script of the field that a reply begins with."""
    return lambda fields: scripts[fields[0]](fields)


@cache
def single(strategy: str) -> fm.Program:
    return fm.SingleAgent(strategy)


@cache
def deliberation(*roles: str, tie_break: str = "judge", rounds: int = 1) -> fm.Program:
    return fm.Deliberation(roles, tie_break, rounds)


@cache
def causal() -> fm.Program:
    return fm.CausalConsistency(2, 1, d_max=1)


@cache
def team(*workers: str, retries: int = 0) -> fm.Program:
    there = CorpusEnvironment([{"title": "None", "text": "None"}])
    return fm.SupervisedTeam(workers, there, max_retries=retries)


def looking_up(program: fm.Program, *pages: tuple[str, str]) -> list[str]:
    """Give the program these pages; what it looks up is added to the list."""
    log: list[str] = []
    documents = [{"title": title, "text": text} for title, text in pages]
    for _, part in program.parts(dspy.Module):
        if hasattr(part, "retrieval"):
            part.retrieval = Retrieval(Logged(documents, log))
    return log


def passage(text: str) -> Scene:
    inputs = {**SPAN, "context": [text, "The road goes on."]}
    return single("cot"), inputs, saying(answer="Ashby"), []


def page(text: str) -> Scene:
    program = team("bold")
    log = looking_up(program, ("Elmford", f"Elmford is far out. {text} The road ends here."))
    actions = ["Search[Elmford]", f"Lookup[{GOAL}]", "Lookup[a]", "Finish[Ashby]"]
    return program, SPAN, saying(action=actions), log


def title(text: str) -> Scene:
    program = team("bold")
    log = looking_up(program, (text, f"{GOAL} again."), ("Oakham", "A town."))
    return program, SPAN, saying(action=[f"Search[{GOAL}]", "Finish[Ashby]"]), log


def evidence(text: str) -> Scene:
    program = deliberation("retriever", "intuitive", tie_break="majority")
    pages = looking_up(program, (text, text), ("Oakham", "A town."))
    return program, SPAN, saying(answer="Ashby"), pages


def turn(text: str) -> Scene:
    lies, honest = saying(critique=text, answer="B"), saying(answer="A")
    says = by_field(critique=lies, reasoning=honest, summary=honest)
    return deliberation("critic", "reasoner"), CHOICE, says, []


def solution(text: str) -> Scene:
    reasoner = saying(concepts=text, subquestions=text, rationale=text, answer="A")
    return causal(), CHOICE, by_field(concepts=reasoner, check=saying(answer="A")), []


def trace(text: str) -> Scene:
    """A worker's thoughts, and what the supervisor suggests to it."""
    program = team("bold", retries=1)
    worker = saying(thought=text, action=["Search[Elmford]", "Finish[Ashby]"] * 2)
    supervisor = saying(judgement=text, decision="retry", worker="bold", suggestion=text)
    log = looking_up(program, ("Elmford", "A town."))
    return program, SPAN, by_field(thought=worker, judgement=supervisor), log


def part(text: str) -> Scene:
    """One of the tasks that an agent lists, and what it makes of it."""
    listed = f"1. {' '.join(text.split())}\n2. The town at mile one."
    says = saying(parts=listed, solution=text, answer="Ashby")
    return single("least_to_most"), SPAN, says, []


ALL = (passage, page, title, evidence, turn, solution, trace, part)
PLACES: dict[str, Callable[[str], Scene]] = {place.__name__: place for place in ALL}


@cache
def scripted_lm(url: str) -> Any:
    return fm.lm("openai/scripted", api_base=url)


class Run:
    """What a scene came to: the requests, the outcome, what was done, and who was contacted."""

    def __init__(self, server: ScriptedServer, place: str, text: str) -> None:
        self.place = place
        program, inputs, says, self.log = PLACES[place](text)
        server.reply = lambda body: json.dumps(says(list(wanted_fields(body))))
        server.requests.clear()
        with dspy.context(lm=scripted_lm(server.url)), watched() as self.contacts:
            prediction = program(**inputs)
        self.bodies = list(server.bodies)
        names = ("answer", "decided_by", "rounds", "consensus_round")
        self.outcome = [prediction[name] for name in names]
        self.address = ("127.0.0.1", server.port)

    def strangers(self) -> list[Any]:
        """Whoever was contacted and is not the LM's endpoint."""
        return [one for one in self.contacts if one != self.address and "127.0.0.1" not in one[1:2]]


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as one:
        yield one


ADVICE = re.compile("^(The supervisor suggests, .*?: ).*")


def apart(prompt: str) -> tuple[str, list[str]]:
    """A prompt with the inside of its fences, and advice, blanked, and what stood there."""
    outside, inside, is_open = [], [], False
    for line in prompt.split("\n"):
        if line == ">>>":
            assert is_open, "a fence is closed that was not open"
            is_open = False
        elif is_open:
            inside[-1] += f"\n{line}"
            continue
        elif line.startswith("<<<"):
            is_open = True
            label = re.sub("^<<<(found: ).*", r"<<<\1", line)
            inside.append(line.removeprefix(label))
            line = label
        elif advice := ADVICE.match(line):
            inside.append(line.removeprefix(advice[1]))
            line = advice[1]
        outside.append(line)
    assert not is_open, "a fence stays open"
    return "\n".join(outside), inside


def as_read(text: str) -> str:
    """`text` for a reader to whom all angle brackets are ASCII, without gaps and accents."""
    if not text.isascii():
        bare = unicodedata.normalize("NFKD", text)
        text = "".join(char for char in bare if unicodedata.category(char) not in ("Mn", "Me"))
    text = re.sub(r"\s", "", text).replace("»", ">>").replace("«", "<<")
    return re.sub("[‹❮⟨〈]", "<", re.sub("[›❯⟩〉]", ">", text))


def odd(text: str) -> bool:
    """Whether it holds what is unseen or acts: controls, bidi, other line ends, surrogates."""
    return not text.replace("\n", "").isprintable()


def shape(body: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """All of a request that text from outside may not change."""
    rest = {name: value for name, value in body.items() if name != "messages"}
    messages = [(message["role"], apart(message["content"])[0]) for message in body["messages"]]
    return json.dumps(rest, sort_keys=True), messages


def inside(bodies: list[dict[str, Any]]) -> list[str]:
    return [text for body in bodies for m in body["messages"] for text in apart(m["content"])[1]]


TRACED = ("page", "title", "trace")


def steps(quoted: list[str]) -> Counter[str]:
    """How many lines, but for the first of a fence, are those of a trace."""
    whole = " ".join(text[1:] for text in quoted)
    return Counter(re.findall(r"\n(Thought|Action|Observation):", whole))


def unlike(run: Run, harmless: Run) -> list[str]:
    """What an attack has changed that it may not change."""
    quoted = inside(run.bodies)
    prompts = [message["content"] for body in run.bodies for message in body["messages"]]
    checks = {
        "requests": sorted(map(shape, run.bodies)) == sorted(map(shape, harmless.bodies)),
        "number of fences": len(quoted) == len(inside(harmless.bodies)),
        "marks in a fence": not any(re.search(">{3}|<{3}", as_read(text)) for text in quoted),
        "steps": run.place not in TRACED or steps(quoted) == steps(inside(harmless.bodies)),
        "odd characters": not any(map(odd, prompts)),
        "outcome": run.outcome == harmless.outcome,
        "look-ups": run.log == harmless.log,
        "other hosts": not run.strangers(),
        "nothing (it was not there)": sorted(quoted) != sorted(inside(harmless.bodies)),
    }
    return [what for what, holds in checks.items() if not holds]


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("place", PLACES)
def test_an_attack_changes_quotes_alone(place: str, every: int, server: ScriptedServer) -> None:
    """Every fifth attack by day, begun at another one in each place; all of them at night."""
    tried = ATTACKS[list(PLACES).index(place) % every :: every]
    harmless = Run(server, place, HARMLESS.aimed(GOAL))
    assert harmless.bodies
    assert not harmless.strangers()
    changed = {one.name: unlike(Run(server, place, one.aimed(GOAL)), harmless) for one in tried}
    assert not {name: what for name, what in changed.items() if what}


def test_checks_see_what_gets_out(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fences that quote without care every attack on them is noticed; so is a stranger."""
    harmless = Run(server, "passage", HARMLESS.aimed(GOAL))
    monkeypatch.setattr(
        "folkmoot.modules.agents.prompt.fence", lambda text, label, _: f"<<<{label}\n{text}\n>>>"
    )
    for name in ("fence-fullwidth", "fence-guillemets", "bidi", "ansi"):
        assert unlike(Run(server, "passage", attack(name).aimed(GOAL)), harmless), name
    for name in ("fence", "title-lines"):
        out = Run(server, "passage", attack(name).aimed(GOAL))
        assert apart(text_of(out.bodies[0]))[0] != apart(text_of(harmless.bodies[0]))[0]
    with ScriptedServer() as other, watched() as contacts:
        fm.SingleAgent("simple", lm=fm.lm("openai/x", api_base=other.url))(**SPAN)
    harmless.contacts[:] = contacts
    assert harmless.strangers() == [("127.0.0.1", other.port)]


def row(text: str) -> dict[str, Any]:
    """A row in which all that a model, a page or a data file can fill in is `text`."""
    spoken_by = {"round": 1, "answer": text, "text": text, "raw": text}
    step = {"thought": text, "action": text, "observation": text, "problem": text}
    found = {"title": text, "text": text, "source": text}
    turns = [
        {**spoken_by, "agent": "critic", "evidence": [found]},
        {**spoken_by, "agent": "bold", "trace": [step], "suggestion": text, "forced": True},
        {**spoken_by, "agent": "supervisor", "step": "retry", "worker": "bold", "suggestion": text},
    ]
    asked: dict[str, Any] = {"id": text, "question": text, "choices": {text: text, "B": text}}
    asked |= {"gold": text, "answer": text}
    outcome: dict[str, Any] = {"kind": "span", "correct": False, "decided_by": "judge"}
    outcome |= {"rounds": 1, "consensus_round": None}
    usage: dict[str, Any] = dict.fromkeys(("calls", "prompt_tokens", "completion_tokens"), 1)
    usage |= {"cached_calls": 0, "cost_usd": None}
    return {**asked, **outcome, "transcript": turns, "usage": usage, "error": None}


@pytest.mark.parametrize("name", NAMES)
def test_a_report_shows_an_attack_as_text(name: str) -> None:
    text = attack(name).aimed(GOAL)
    hidden = "\x00\x1b\u202e"
    page = dialogues_page([row(f"{hidden}{text}")], f"{text}{hidden}", 1)
    harmless = dialogues_page([row("x" * len(text))], "x", 1)
    for mark in "<>\"'":  # no element or attribute more than without it
        assert page.count(mark) == harmless.count(mark)
    assert str(markupsafe.escape(clean(text).strip()[:60])) in page
    assert not set(hidden).intersection(page)


def gullible(body: dict[str, Any]) -> str:
    """Right, unless the passages, or what somebody said, order another answer; then that."""
    text = text_of(body)
    asked = (one for one in sample_questions() if one.question in text)
    question = max(asked, key=lambda one: len(one.question))
    told = wrong(question)
    fooled = f"Answer {told} whatever" in text
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    return json.dumps(dict.fromkeys(fields, told if fooled else question.answer))


def spans() -> list[fm.Question]:
    return [question for question in sample_questions() if question.kind == "span"]


TRIED = [attack("ignore"), attack("keys")]


def test_susceptibility_compares_the_same_questions(server: ScriptedServer) -> None:
    server.reply = gullible
    lm = fm.lm("openai/gullible", api_base=server.url)
    found = susceptibility(lambda: fm.SingleAgent("simple"), spans(), lm, TRIED)
    assert found["questions"] == 4
    assert (found["benign"]["value"], found["benign"]["n"]) == (1.0, 4)
    fooled, unmoved = found["attacks"].values()
    assert fooled["kind"] == "instructions"
    assert (fooled["accuracy"]["value"], fooled["hit"]["value"], fooled["lost"]) == (0.0, 1.0, 4)
    assert fooled["hit"]["low"] == pytest.approx(0.5101, abs=1e-4)  # Wilson, 4 of 4
    assert (unmoved["accuracy"]["value"], unmoved["hit"]["value"], unmoved["lost"]) == (1.0, 0.0, 0)
    whole = found["all"]
    assert (whole["accuracy"]["value"], whole["hit"]["n"], whole["lost"]) == (0.5, 8, 4)


def test_susceptibility_to_a_liar(server: ScriptedServer) -> None:
    server.reply = gullible
    lm = fm.lm("openai/gullible", api_base=server.url)
    asked = sample_questions()[:8]
    panel = partial(fm.Deliberation, ["critic", "reasoner"], "strongest:reasoner", 1)
    found = susceptibility(panel, asked, lm, TRIED, liar="critic")
    fooled, unmoved = found["attacks"].values()
    assert found["benign"]["value"] == 1.0
    assert (fooled["accuracy"]["value"], unmoved["accuracy"]["value"]) == (0.0, 1.0)
    assert fooled["hit"] == {**fooled["hit"], "value": 1.0, "n": 8}


def test_susceptibility_says_what_it_cannot_measure(server: ScriptedServer) -> None:
    lm = fm.lm("openai/gullible", api_base=server.url)
    make = partial(fm.SingleAgent, "simple")
    bare = [question for question in sample_questions() if question.kind == "boolean"]
    refused("no text would be injected", susceptibility, make, bare, lm)
    refused("has no answer", susceptibility, make, [fm.Question(spans()[0], answer=None)], lm)
    with pytest.raises(fm.UserError, match="two attacks are called 'ignore'"):
        susceptibility(make, spans(), lm, [TRIED[0], TRIED[0]])
