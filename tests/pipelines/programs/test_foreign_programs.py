"""A user's DSPy program or function is evaluated as ours are: fields, answers, bill, resume."""

import asyncio
import enum
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import numpy as np
import pytest
from cli_helpers import folkmoot, isolate, write
from pydantic import BaseModel
from refusals import refused

import folkmoot as fm
from folkmoot.pipelines.lms.ledger import read_ledger
from folkmoot.pipelines.programs.resolve import program_of
from folkmoot.pipelines.testing.server import ScriptedServer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
CHOICES = {"A": "bank", "B": "mall"}


def questions(n: int = 4, **fields: Any) -> list[fm.Question]:
    known: dict[str, Any] = {"choices": CHOICES, "answer": "A", **fields}
    return [fm.Question(id=f"q{i}", question=f"Where {i}?", **known) for i in range(n)]


def said(**fields: Any) -> str:
    """A reply as DSPy's chat adapter reads it."""
    parts = {**fields, "completed": ""}
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in parts.items())


def answering(body: dict[str, Any]) -> str:
    ours = "[[ ##" not in str(body["messages"])
    return "Reasoning: so\nAnswer: A" if ours else said(reasoning="so", answer="A")


@pytest.fixture
def server() -> Any:
    with ScriptedServer(answering) as running:
        yield running


def plain(server: ScriptedServer, **settings: Any) -> dspy.LM:
    given = {"cache": False, "num_retries": 0, **settings}
    return dspy.LM("openai/scripted", api_base=server.url, api_key="sk-none-0000000000", **given)


def run(program: Any, asked: Any = None, **options: Any) -> Any:
    return fm.evaluate(program, asked or questions(), tracking=False, cache=False, **options)


def asked_in(server: ScriptedServer) -> str:
    return "\n".join(str(body["messages"][-1]["content"]) for body in server.bodies)


class Rag(dspy.Module):  # type: ignore[misc]
    """A retriever and a predictor."""

    def __init__(self, k: int = 2) -> None:
        super().__init__()
        self.k = k
        self.generate = dspy.ChainOfThought("context, question -> answer")

    def forward(self, question: str) -> Any:
        return self.generate(context=["a passage"] * self.k, question=question)


@pytest.mark.parametrize(
    ("signature", "inputs", "shown"),
    [
        ("question, choices -> answer", None, "[[ ## choices ## ]]\nA. bank\nB. mall"),
        ("question, choices: dict[str, str] -> answer", None, '{"A": "bank", "B": "mall"}'),
        ("question, hint -> answer", None, "[[ ## hint ## ]]\nmoney"),
        ("query -> answer", {"query": "question"}, "[[ ## query ## ]]\nWhere 3?\nA. bank"),
        ("passage, question -> answer", {"passage": "context"}, "[[ ## passage ## ]]\none\n\ntwo"),
        ("context: list[str], question -> answer", None, '["one", "two"]'),
    ],
)
def test_fields_reach_a_signature_by_name(server, signature, inputs, shown):
    asked = questions(context=["one", "two"], meta={"hint": "money", "gold_source": "x"})
    program = dspy.ChainOfThought(signature)
    if "hint" in signature:
        with pytest.warns(UserWarning, match="--show hint"):
            run(program, asked, lm=plain(server), inputs=inputs)
        assert "money" not in asked_in(server)
    show = ["hint"] if "hint" in signature else []
    if "context" in signature or "context" in (inputs or {}).values():
        run(program, asked, lm=plain(server), inputs=inputs)
    else:
        with pytest.warns(UserWarning, match="no field for the context"):
            run(program, asked, lm=plain(server), inputs=inputs, show=show)
    assert shown in asked_in(server)
    assert "gold_source" not in asked_in(server)


def test_a_field_that_no_question_has_is_refused_before_a_call(server: ScriptedServer) -> None:
    lm = plain(server)
    for name, way in (("hint", "inputs="), ("context", "--columns context="), ("gold", "inputs=")):
        with pytest.raises(fm.UserError, match=rf"needs '{name}', which no question has.*{way}"):
            run(dspy.Predict(f"question, {name} -> answer"), lm=lm)
    with pytest.raises(fm.UserError, match="needs 'gold', which no question"):
        run(dspy.Predict("question, gold -> answer"), lm=lm, inputs={"gold": "answer"})
    told = [asked.copy(meta={"solution": asked.answer}) for asked in questions()]
    with pytest.raises(fm.UserError, match=r"takes 'solution', .* no program is shown unasked"):
        run(dspy.Predict("question, hint -> answer"), told, lm=lm, inputs={"hint": "solution"})
    with pytest.raises(fm.UserError, match=r"does not take .did you mean 'question'"):
        run(dspy.Predict("question -> answer"), lm=lm, inputs={"questoin": "question"})
    with pytest.raises(fm.UserError, match="inputs are for programs of your own"):
        run(fm.SingleAgent(), lm=lm, inputs={"a": "question"})
    assert server.bodies == []


def test_a_callable_gets_the_question_without_its_gold_answer() -> None:
    seen: list[Any] = []

    def mine(question: fm.Question) -> str:
        seen.append(question)
        return "A"

    meta = {"hint": "h", "solution": "it is A, a bank", "answer_raw": "A"}
    assert run(mine, questions(1, meta=meta), show=["hint"]).accuracy == 1
    assert run(mine, questions(1, meta=meta)).accuracy == 1
    assert seen[1].meta == {}, "no column travels unasked"
    for column in ("solution", "answer_raw"):
        refused("holds the gold answer", run, mine, questions(4, meta=meta), show=[column])
    first = seen[0]
    assert (first.id, first.choices, first.answer) == ("q0", CHOICES, None)
    assert first.meta == {"hint": "h"}


class Read(BaseModel):
    answer: str
    confidence: float = 0.9


class City(BaseModel):
    name: str


@dataclass
class Verdict:
    verdict: object


class Letter(enum.Enum):
    A = "A"


CHOSEN = ["A", "The answer is bank.", Letter.A, dspy.Prediction(reasoning="B", label="A")]
CHOSEN += [["A"], ("A",), b"A", np.str_("A"), np.array(["A"]), Read(answer="A")]
CHOSEN += [dspy.Prediction(reasoning="B", result=Read(answer="A"))]
CHOSEN += [{"output": {"answer": "A", "sources": ["x"]}}]
CHOSEN += [SimpleNamespace(answer="A"), SimpleNamespace(content="A")]
CHOSEN += [{"choices": [{"message": {"content": "A"}}], "usage": {}}]
CHOSEN += [SimpleNamespace(choices=[{"message": {"content": "A"}}])]
BLOCKS = [{"type": "thinking", "thinking": "B"}, {"type": "text", "text": "A"}]
CHOSEN += [BLOCKS, SimpleNamespace(content=BLOCKS), {"role": "assistant", "content": BLOCKS}]
CHOSEN += [SimpleNamespace(**{name: "A", "cost": 1}) for name in ("final_output", "output")]
CHOSEN += [SimpleNamespace(raw="A", pydantic=None, json_dict=None)]
CHOSEN += [SimpleNamespace(final_output=Read(answer="A"), cost=1)]


@pytest.mark.parametrize(
    ("returned", "kind", "gold", "read"),
    [
        *((each, "choice", "A", "A") for each in CHOSEN),
        ({"verdict": True}, "boolean", "yes", "yes"),
        (1, "boolean", "yes", "yes"),
        (np.float64(0), "boolean", "no", "no"),
        (-1, "boolean", "yes", None),
        (0.1 + 0.2, "number", "0.3", "0.3"),
        (Verdict("A"), "choice", "A", "A"),
        (Verdict(5), "number", "5", "5"),
        (City(name="Rome"), "span", "Rome", "Rome"),
        (["2.5"], "span", "2.5", "2.5"),
        (False, "boolean", "no", "no"),
        (3, "number", "3", "3"),
        (None, "choice", "A", None),
        ("perhaps", "choice", "A", None),
        (True, "number", "1", None),
        (np.array(3.0), "number", "3", "3"),
        (dspy.Prediction(answer=dspy.Code(code="print(1)")), "span", "print(1)", "print(1)"),
    ],
)
def test_what_it_returns_is_read(returned: Any, kind: str, gold: str, read: str | None) -> None:
    asked = questions(1, kind=kind, answer=gold, choices=CHOICES if kind == "choice" else None)
    result = run(lambda question: returned, asked)
    row = next(iter(result.rows))
    assert (row["answer"], row["correct"], row["error"]) == (read, read is not None, None)
    assert result.summary.counts.unreadable == (read is None)


async def awaited() -> str:
    return "A"


@pytest.mark.parametrize("kind", ["choice", "number", "span"])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: (letter for letter in "A"), "type generator:"),
        (lambda: {"answer": awaited()}, "type coroutine, which was not awaited:"),
        (lambda: object(), "type object:"),  # digits were read in its address
        (lambda: ValueError("A"), "type ValueError:"),
        (lambda: print, "type builtin_function_or_method:"),
        (lambda: np.array([1, 2]), "type ndarray:"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_what_is_no_answer_is_named(make: Callable[[], Any], said: str, kind: str) -> None:
    gold = {"number": "3"}.get(kind, "A")
    asked = questions(1, kind=kind, answer=gold, choices=CHOICES if kind == "choice" else None)
    (row,) = run(lambda question: make(), asked).rows
    assert (row["answer"], row["correct"]) == (None, False)
    assert f"returned a value of the {said} return the answer as a text" in row["error"]
    assert "UserError" not in row["error"]


@pytest.mark.parametrize(
    ("returned", "read"),
    [
        (["Rome", "Bonn"], '["Rome","Bonn"]'),
        (("Rome", 0.9), '["Rome",0.9]'),
        ({"answer": {"city": "Rome"}}, '{"city":"Rome"}'),
        (dspy.Prediction(answer=City(name="Rome")), '{"name":"Rome"}'),
        (dspy.Prediction(answer=Verdict("x")), '{"verdict":"x"}'),
        (dspy.Prediction(answer=[City(name="Rome")]), '[{"name":"Rome"}]'),
    ],
)
def test_a_metric_of_ones_own_gets_lists_and_objects_as_they_are(returned: Any, read: str) -> None:
    got: list[Any] = []

    def metric(example: Any, prediction: Any, trace: Any = None) -> bool:
        got.append(prediction.answer)
        return True

    wanted = returned if isinstance(returned, list | tuple) else returned["answer"]
    asked = questions(1, kind="span", choices=None)
    (row,) = run(lambda question: returned, asked, metric=metric).rows
    assert (row["answer"], row["correct"], row["error"], got) == (read, True, None, [wanted])
    (row,) = run(lambda question: [], questions(1, kind="span", choices=None), metric=metric).rows
    assert (row["answer"], row["correct"], len(got)) == (None, False, 1), "nothing is no answer"


class WithRetriever(dspy.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.retrieve = dspy.Retrieve(k=2)
        self.answer = dspy.Predict("question -> answer")

    def forward(self, question: str) -> Any:
        return self.answer(question=question)


def test_a_program_with_a_retriever_is_kept(tmp_path: Path, server: ScriptedServer) -> None:
    run(WithRetriever(), questions(1), lm=fm.lm("openai/any", api_base=server.url), out=tmp_path)
    assert isinstance(fm.load_program(tmp_path), WithRetriever)


class MuteError(Exception):
    def __str__(self) -> str:
        raise GeneratorExit("no text")


ODD = {
    "SystemExit 3": SystemExit(3),
    "cancelled itself": asyncio.CancelledError(),
    "GeneratorExit": GeneratorExit(),
    "BaseExceptionGroup": BaseExceptionGroup("two", [GeneratorExit(), ValueError("x")]),
    "ExceptionGroup": ExceptionGroup("two", [ValueError("x"), MuteError()]),
    "MuteError": MuteError(),
    "Halt": type("Halt", (BaseException,), {"__str__": MuteError.__str__})(),
}
"""What programs and metrics may raise, by what an error row says of it."""


@pytest.mark.parametrize("name", ODD)
def test_whatever_a_program_raises_is_an_error_row(name: str) -> None:
    ending = ODD[name]

    def leaving(question: fm.Question) -> str:
        if question.id == "q1":
            raise ending
        return "A"

    async def waiting(question: fm.Question) -> str:
        return leaving(question)

    for program in (waiting, leaving):
        rows = list(run(program, questions(6), lm=None, concurrency=2).rows)
        assert [row["correct"] for row in rows] == [True, False, True, True, True, True]
        assert name in rows[1]["error"]


@pytest.mark.parametrize("inside", [False, True])
def test_an_interrupt_ends_the_run_and_nothing_else(inside: bool, tmp_path: Path) -> None:
    async def waiting(question: fm.Question) -> str:
        return interrupted(question)

    def interrupted(question: fm.Question) -> str:
        if question.id == "q2":
            raise KeyboardInterrupt
        return "A"

    program = waiting if inside else interrupted
    with pytest.raises(KeyboardInterrupt):
        run(program, lm=None, concurrency=1, out=tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["stopped"], summary["counts"]["rows"]) == ("interrupted", 2)
    assert run(lambda question: "A", lm=None).accuracy == 1


def test_what_only_protocols_have_is_absent() -> None:
    result = run(lambda question: "A")
    row = next(iter(result.rows))
    assert (row["transcript"], row["rounds"], row["consensus_round"]) == ([], 0, None)
    assert (result.summary.report, result.summary.forensics) == ({}, {})
    assert set(result.summary.usage.values()) == {0}  # it calls no LM: a true 0


@pytest.mark.parametrize("given", [Rag, 3, None, ["single:cot"]])
def test_what_is_no_program_is_refused(given: Any) -> None:
    refused(r"is a class: give an instance|is not a program", run, given)


class Twice(dspy.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.one = dspy.Predict("question -> answer")
        self.other = dspy.Predict("question -> answer")


class Parallel(Twice):
    def forward(self, question: str) -> Any:
        example = dspy.Example(question=question).with_inputs("question")
        both = [(self.one, example), (self.other, example)]
        return dspy.Parallel(num_threads=2, disable_progress_bar=True)(both)[0]


class Pool(Twice):
    def forward(self, question: str) -> Any:
        lm = dspy.settings.lm

        def ask(predict: Any) -> Any:
            with dspy.context(lm=lm):
                return predict(question=question)

        with ThreadPoolExecutor(2) as pool:
            return next(iter(pool.map(ask, (self.one, self.other))))


class Gathered(Twice):
    async def aforward(self, question: str) -> Any:
        both = [each.acall(question=question) for each in (self.one, self.other)]
        return (await asyncio.gather(*both))[0]


class NotAwaited(Twice):
    """Waits where it could await."""

    async def aforward(self, question: str) -> Any:
        self.one(question=question)
        return self.other(question=f"{question} ")


class Making(Twice):
    """Makes an LM that nobody could know of before."""

    def __init__(self, lm: Any) -> None:
        super().__init__()
        self.make = lm.copy

    def forward(self, question: str) -> Any:
        with dspy.context(lm=self.make()):
            self.one(question=question)
            return self.other(question=f"{question} ")


class Team(Twice):
    """A folkmoot program inside a user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.team = fm.SingleAgent("cot")

    def forward(self, question: str, choices: dict[str, str]) -> Any:
        self.one(question=question)
        return dspy.Prediction(answer=self.team(question=question, choices=choices).answer)


@pytest.mark.parametrize("kind", [Parallel, Pool, Gathered, NotAwaited, Making, Team])
@pytest.mark.parametrize("ours", [True, False])
def test_the_bill_is_what_the_server_counts_however_it_is_asked(server, tmp_path, kind, ours):
    lm = fm.lm("openai/scripted", api_base=server.url) if ours else plain(server)
    # DSPy's bars of several dspy.Parallel clash, and then a question is asked again
    at_once = 1 if kind is Parallel else 64
    program = kind(lm) if kind is Making else kind()
    result = run(program, questions(8), lm=lm, out=tmp_path, concurrency=at_once)
    paid, usage = result.summary.paid, result.summary.usage
    assert [row["error"] for row in result.rows] == [None] * 8
    assert result.accuracy == 1
    assert paid["calls"] == len(server.bodies) == len(list(read_ledger(tmp_path)))
    assert paid["prompt_tokens"] == server.prompt_tokens
    if kind is Pool:  # whose calls those are, nobody can say
        assert {row["usage"]["prompt_tokens"] for row in result.rows} == {None}
    else:
        assert usage["calls"] == 16
        assert usage["prompt_tokens"] == server.prompt_tokens
    assert lm.callbacks == []


@pytest.mark.parametrize("ours", [True, False])
def test_a_failed_call_in_parallel_is_not_unreadable(server: ScriptedServer, ours: bool) -> None:
    usual = server.reply
    refused = (400, {}, {"error": {"message": "content filter"}})
    server.reply = lambda body: refused if "Where 1?" in str(body) else usual(body)
    lm = fm.lm("openai/scripted", api_base=server.url) if ours else plain(server)
    errors = [row["error"] for row in run(Parallel(), lm=lm, concurrency=1).rows]
    assert [error is None for error in errors] == [True, False, True, True]
    assert "content filter" in errors[1]


class Hasty(fm.Declared):
    def seat(self) -> None:
        self.predict = dspy.Predict("question -> answer")

    async def solve(self, task: fm.Task) -> dspy.Prediction:
        return self.predict(question=task.question)


def test_a_protocol_that_does_not_await_a_call_is_told_to(server: ScriptedServer) -> None:
    [row] = run(Hasty(), questions(1), lm=fm.lm("openai/x", api_base=server.url)).rows
    assert "await it, as in predictor.acall" in row["error"]


class Waiting(dspy.BaseLM):  # type: ignore[misc]
    """An LM of a user's own, which can only be waited for, and says nothing of tokens."""

    def __init__(self) -> None:
        super().__init__("waiting")
        self.together = threading.Barrier(4, timeout=120)

    def forward(self, prompt: Any = None, messages: Any = None, **_: Any) -> Any:
        self.together.wait()
        message = SimpleNamespace(content=answering({"messages": messages}), tool_calls=None)
        choice = SimpleNamespace(message=message, finish_reason="stop")
        return SimpleNamespace(choices=[choice], usage={}, model="waiting")


@pytest.mark.parametrize(
    "program", [fm.SingleAgent("cot"), dspy.ChainOfThought("question -> answer"), Rag()]
)
def test_an_lm_that_cannot_be_awaited_is_asked_in_threads(program: Any) -> None:
    lm = Waiting()
    # all four at once, or the barrier breaks
    usage = run(program, questions(4), lm=lm).summary.usage
    assert (usage["calls"], usage["prompt_tokens"], usage["cost_usd"]) == (4, None, None)


def test_a_budget_ends_one_that_catches_all(server: ScriptedServer, tmp_path: Path) -> None:
    predict = dspy.Predict("question -> answer")

    def stubborn(question: fm.Question) -> Any:
        try:
            return predict(question=question.question)
        except Exception:
            return "B"

    for lm in (plain(server), fm.lm("openai/scripted", api_base=server.url)):
        before, out = len(server.bodies), tmp_path / str(len(server.bodies))
        first = run(stubborn, questions(12), lm=lm, out=out, budget="5 calls")
        assert "5 calls" in first.summary.stopped
        assert len(server.bodies) - before <= 5
        done = run(stubborn, questions(12), lm=lm, out=out, budget="100 calls")
        assert (done.accuracy, done.summary.counts.rows) == (1, 12)


def test_it_resumes_and_what_changed_is_refused(server: ScriptedServer, tmp_path: Path) -> None:
    lm = plain(server)
    run(Rag(), lm=lm, out=tmp_path)
    made = len(server.bodies)
    again = Rag()
    again._asked = made  # an attribute of this name is no setting
    assert run(again, lm=lm, out=tmp_path).accuracy == 1
    assert len(server.bodies) == made
    changed = Rag()
    predict = changed.generate.predict
    predict.signature = predict.signature.with_instructions("Otherwise.")
    for other in (Rag(k=3), changed, Gathered()):
        refused(r"holds another run .its program differs", run, other, lm=lm, out=tmp_path)


def made(answer: str) -> Callable[[Any], str]:
    return lambda question: answer


def test_a_function_is_known_by_its_code_and_what_it_holds(tmp_path: Path) -> None:
    run(made("A"), out=tmp_path)
    run(made("A"), out=tmp_path)
    refused("its program differs", run, made("B"), out=tmp_path)
    refused("its program differs", run, lambda question: "A" + "", out=tmp_path)


def learning(body: dict[str, Any]) -> str:
    """Right once it is shown examples."""
    text = str(body["messages"])
    return said(reasoning="so", answer="A" if len(body["messages"]) > 2 or " 7?" in text else "B")


@pytest.mark.filterwarnings("ignore:Failed to deep copy")
@pytest.mark.parametrize("program", [Rag(), dspy.ChainOfThought("question -> answer")])
def test_a_module_comes_back_compiled(server: ScriptedServer, tmp_path: Path, program: Any) -> None:
    server.reply = learning
    asked = questions(24)
    given = {"lm": plain(server), "out": tmp_path, "cache": False, "tracking": False}
    compiled = fm.compile(program, asked[:16], asked[16:], optimizer="bootstrap", **given)
    assert type(compiled) is type(program)
    assert compiled.compilation.gain
    assert compiled.compilation.paid["calls"] == len(server.bodies)
    assert program.predictors()[0].demos == []
    back = fm.load_program(tmp_path)
    assert type(back) is type(program)
    demos = [dict(demo) for demo in compiled.predictors()[0].demos]
    assert [dict(demo) for demo in back.predictors()[0].demos] == demos
    assert run(back, lm=plain(server)).accuracy == 1
    program.deepcopy().load(tmp_path / "program" / "state.json")  # as DSPy reads it
    assert not list(tmp_path.rglob("*.pkl"))
    assert "sk-none" not in (tmp_path / "program" / "state.json").read_text()


@pytest.mark.parametrize("optimizer", ["labeled_few_shot", "bootstrap"])
@pytest.mark.parametrize(
    ("typed", "words", "shows", "never"),
    [
        ("Literal['yes', 'no', 'maybe']", ["yes", "no", "maybe"], "maybe", "C\n"),
        ("bool", ["yes", "no", "no"], "False", "no\n"),
    ],
)
def test_demonstrations_give_what_a_type_names(
    server, tmp_path, optimizer, typed, words, shows, never
):
    server.reply = lambda body: said(answer="yes")
    program = dspy.Predict(f"question -> answer: {typed}")
    rows = [{"question": f"Is it {n}?", "answer": words[n % 3]} for n in range(24)]
    given: Any = {"lm": plain(server), "out": tmp_path, "cache": False, "tracking": False}
    found = fm.compile(program, rows[:12], rows[12:], optimizer=optimizer, **given)
    turns = [turn for body in server.bodies for turn in body["messages"]]
    shown = {turn["content"] for turn in turns if turn["role"] == "assistant"}
    assert any(shows in text for text in shown)
    assert not any(never in text for text in shown), "that is none of the type's words"
    assert run(found, rows, lm=plain(server)).accuracy == 8 / 24


def test_what_cannot_be_compiled_or_loaded_says_so(tmp_path: Path, server: ScriptedServer) -> None:
    with pytest.raises(fm.UserError, match="no prompts to improve"):
        fm.compile(lambda question: "A", questions(4), lm=plain(server))
    with pytest.raises(fm.UserError, match="knn chooses the demonstrations for each question"):
        fm.compile(Rag(), questions(4), optimizer="knn", lm=plain(server))

    class Local(Rag):
        pass

    given = {"lm": plain(server), "out": tmp_path, "tracking": False}
    compiled = fm.compile(Local(), questions(4), optimizer="labeled_few_shot", **given)
    assert type(compiled) is Local
    refused(r"cannot be made here .*module\.load\(.*state\.json", fm.load_program, tmp_path)
    (tmp_path / "program" / "module.json").write_text('{"class": "os:abort"}')  # is not called
    refused(r"cannot be made here .os:abort is not a dspy", fm.load_program, tmp_path)


MODULE = """
import dspy

class Rag(dspy.Module):
    def __init__(self, k=2):
        super().__init__()
        self.k = k
        self.generate = dspy.ChainOfThought("context, query -> answer")

    def forward(self, query):
        return self.generate(context=["a passage"] * self.k, query=query)

def always(question):
    return "A"
"""


def test_a_module_of_the_working_folder_is_named_on_the_command_line(server, tmp_path, monkeypatch):
    (tmp_path / "herrag.py").write_text(MODULE)
    rows = [{"id": n, "question": f"Where {n}?", "choices": CHOICES, "answer": "A"} for n in "012"]
    write(tmp_path / "q.jsonl", *rows)
    isolate(tmp_path, monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none-0000000000")
    lm = ["--lm", "openai/x", "--api-base", server.url, "--no-track", "--json"]
    rag = ["evaluate", "herrag:Rag", "--set", "k=4", "--inputs", "query=question"]
    done = folkmoot(*rag, "--data", "q.jsonl", *lm, "--out", "rag")
    assert (done.exit_code, json.loads(done.stdout)["scores"]["accuracy"]["value"]) == (0, 1.0)
    assert "[4] «a passage»" in asked_in(server)
    assert folkmoot(*rag, "--data", "q.jsonl", *lm, "--out", "rag").exit_code == 0
    assert len(server.bodies) == 3
    done = folkmoot("evaluate", "herrag:always", "--data", "q.jsonl", "--no-track", "--json")
    assert (done.exit_code, json.loads(done.stdout)["usage"]["calls"]) == (0, 0)


def test_adapters_are_honoured_and_seats_can_be_given_one(server: ScriptedServer) -> None:
    server.reply = lambda body: '{"reasoning": "so", "answer": "A"}'
    lm = plain(server)
    with dspy.context(adapter=dspy.JSONAdapter()):
        assert run(Rag(), lm=lm).accuracy == 1
        assert "JSON" in str(server.bodies[-1]["messages"])
        program = fm.SingleAgent("cot")
        said = r"JSONAdapter, but folkmoot's agents have .* of their own"
        with pytest.warns(UserWarning, match=said):
            run(program, lm=lm)
        assert "JSON object" not in str(server.bodies[-1]["messages"][-1]["content"])
    for seat in program.seats().values():
        seat.adapter = dspy.JSONAdapter()
    assert run(program, lm=lm).accuracy == 1
    assert "JSON object" in str(server.bodies[-1]["messages"][-1]["content"])
    with pytest.raises(fm.UserError, match=r"give a dspy\.Adapter"):
        next(iter(program.seats().values())).adapter = "json"


def test_a_loaded_program_without_its_address_takes_the_lm_that_dspy_is_set_to(
    server, tmp_path, monkeypatch
):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    lm = plain(server)
    run(fm.SingleAgent("simple"), lm=fm.lm("openai/plain", api_base=server.url), out=tmp_path)
    loaded = fm.load_program(tmp_path)
    refused("had an address of its own", run, loaded)
    with dspy.context(lm=lm):
        assert run(loaded).accuracy is not None


def test_own_modules_are_members_of_an_ensemble_that_loads_back(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "herown.py").write_text(MODULE.replace("query", "question"))
    own = program_of("herown.py:Rag")  # as users name a file
    assert program_of("./herown.py:Rag").own_name == own.own_name
    with pytest.raises(fm.UserError, match="cannot be imported from here: run"):
        program_of(f"{__file__}:Rag")
    assert own.describe()["spec"] == "herown:Rag"
    panel = fm.Ensemble(["simple", own.module])
    assert run(panel, lm=plain(server)).rows[0]["answer"] is not None
    panel.save(tmp_path / "panel")
    assert fm.load_program(tmp_path / "panel").describe() == panel.describe()
    refused("int is not a program", fm.Ensemble, ["simple", 5])
