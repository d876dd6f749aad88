"""What DSPy 3.5 removes is not used to ask its LMs, and LiteLLM only where it is needed."""

import inspect
import sys
from contextlib import nullcontext
from importlib.machinery import ModuleSpec, PathFinder
from types import SimpleNamespace
from typing import Any

import children
import dspy
import pytest
from dspy.clients.backend_selection import CLIENT_KEYS
from dspy.clients.base_lm import GLOBAL_HISTORY
from dspy.lm15 import Message, Request, Response, TextPart, Usage

import folkmoot as fm
from folkmoot.modules.agents.dspy_lm import ASKED_BY_CALL, CONNECTION, arguments_of
from folkmoot.modules.base.context import WATCHED, bound
from folkmoot.optimizers.prompts.proposer import Proposer
from folkmoot.optimizers.prompts.student import CallControl
from folkmoot.pipelines.lms.foreign import _messages as messages_asked
from folkmoot.pipelines.lms.foreign import metering
from folkmoot.pipelines.lms.seen import Seen
from folkmoot.pipelines.testing.server import ScriptedServer

QUESTION = {"question": "Where?", "choices": {"A": "bank", "B": "mall"}}
REPLY = '{"reasoning": "so", "answer": "B"}'


class Scripted:
    """An engine as DSPy 3.5 wants it, which numbers its replies where `numbered`."""

    def __init__(self, numbered: bool = False) -> None:
        self.asked: list[Request] = []
        self.numbered = numbered

    def complete(self, request: Request) -> Response:
        self.asked.append(request)
        text = f"reply {len(self.asked)}" if self.numbered else REPLY
        return replying(request, text)


def replying(request: Request, text: str) -> Response:
    said, usage = Message.assistant([TextPart(text)]), Usage(input_tokens=5, output_tokens=2)
    return Response(id=None, model=request.model, message=said, finish_reason="stop", usage=usage)


def without_what_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """DSPy, as far as it can be without messages as dictionaries and `BaseLM.forward`."""
    for name in ("forward", "aforward"):
        monkeypatch.delattr(dspy.BaseLM, name)
    for name in ("__call__", "acall"):
        known = getattr(dspy.LM, name)

        def strict(lm: Any, *asked: Any, known: Any = known, **settings: Any) -> Any:
            assert settings.get("messages") is None, "DSPy 3.5 takes no messages as dictionaries"
            return known(lm, *asked, **settings)

        monkeypatch.setattr(dspy.LM, name, strict)


def theirs(engine: Any, **settings: Any) -> dspy.LM:
    return dspy.LM("openai/theirs", engine=engine, cache=False, **settings)


def test_an_lm_of_dspy_is_asked_by_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    without_what_goes(monkeypatch)
    engine = Scripted()
    asked = [fm.Question(id="q", answer="B", **QUESTION)]
    lm = theirs(engine, temperature=0.7)
    result = fm.evaluate(fm.SingleAgent("cot"), asked, lm=lm, tracking=False)
    assert result.rows[0]["correct"]
    assert result.summary.paid["prompt_tokens"] == 5
    [request] = engine.asked
    assert "Where?" in str(request.messages[-1].text)
    assert request.system
    assert request.config.temperature == 0.7


@pytest.mark.parametrize("adapter", [None, dspy.XMLAdapter()])
def test_a_program_of_dspy_keeps_its_adapter(adapter: Any) -> None:
    def complete(request: Request) -> Response:
        text = str(request.messages[-1].text)
        form = "<answer>\nB\n</answer>" if "<answer>" in text else "[[ ## answer ## ]]\nB"
        return replying(request, form)

    lm = theirs(SimpleNamespace(complete=complete))
    asked = [fm.Question(id="q", answer="B", **QUESTION)]
    with dspy.context(adapter=adapter):
        program = dspy.Predict("question, choices -> answer")
        result = fm.evaluate(program, asked, lm=lm, tracking=False)
    assert result.rows[0]["correct"]


def test_what_only_litellm_takes_is_handed_to_it_by_messages() -> None:
    messages = [("system", "Answer."), ("user", "Where?")]
    known = {"reasoning_effort": "low", "seed": 3, "rollout_id": 4, "n": 2}
    [request], more = arguments_of(dspy.LM("openai/m", api_key="secret", **known), messages, {})
    assert more == {"rollout_id": 4}
    assert request.config.seed == 3
    assert request.config.reasoning is not None
    assert "secret" not in str(request)
    other = dspy.LM("openai/m", extra_body={"fast": True})
    chat = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Where?"}]
    assert arguments_of(other, messages, {"seed": 3}) == ([], {"messages": chat, "seed": 3})


def test_traces_show_what_an_lm_of_dspy_was_asked_and_said() -> None:
    seen = Seen()
    program, lm = fm.SingleAgent("cot"), theirs(Scripted())
    program.set_lm(lm)
    with bound(WATCHED, seen), metering([lm]):
        program(**QUESTION)
    [call] = seen
    assert [message["role"] for message in call.request["messages"]] == ["system", "user"]
    assert "Where?" in call.request["messages"][-1]["content"]
    assert call.text == REPLY


@pytest.mark.parametrize("name", ["prompt", "request"])
def test_traces_show_a_request_by_whatever_name_it_is_handed_over(name: str) -> None:
    """DSPy 3.5's adapters hand it to `LM.generate` as `request`."""
    asked = Request(model="openai/theirs", messages=(Message.user("Where?"),))
    assert messages_asked({name: asked, "n": 2}) == [{"role": "user", "content": "Where?"}]


class Known(dict[str, str]):
    """Proposals of an earlier attempt."""

    def put(self, key: str, text: str) -> None:
        self[key] = text


@pytest.mark.parametrize(("at_once", "batches"), [(1, [1, 1, 1]), (2, [2, 1])])
def test_a_prompt_lm_asked_the_same_again_gives_another_sample(monkeypatch, at_once, batches):
    without_what_goes(monkeypatch)
    engine, made, known = Scripted(numbered=True), [], Known()

    class Counted(Proposer):
        def _ask(self, asked: Any, sampling: Any, places: Any) -> Any:
            made.append(len(places))
            return super()._ask(asked, sampling, places)

    def samples() -> list[str | None]:
        proposer = Counted(theirs(engine, max_tokens=9), CallControl(nullcontext), known)
        lm = proposer.as_lm(at_once)
        request = Request(model=lm.model, messages=(Message.user("Propose."),))
        return [lm(request).text for _ in range(3)]

    replies = samples()
    assert len(set(replies)) == 3
    assert made == batches
    assert {request.config.max_tokens for request in engine.asked} == {9}
    assert samples() == replies  # an earlier attempt has kept all of them
    assert made == batches


def test_dspy_is_the_one_that_this_was_written_for() -> None:
    version = f"DSPy {dspy.__version__} "
    assert isinstance(GLOBAL_HISTORY, list), version + "keeps its history elsewhere"
    known = CONNECTION | ASKED_BY_CALL
    assert known >= CLIENT_KEYS, version + "reaches LMs by other settings, too"
    assert hasattr(dspy.BaseLM, "forward"), version + "takes requests only: drop the messages"
    parameters = inspect.signature(dspy.LM.__call__).parameters
    assert "messages" in parameters, version + "takes requests only: drop the messages"


class Refusing:
    """Finds LiteLLM, and lets nobody import it."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name.partition(".")[0] == "litellm" else None
        if spec is not None:
            spec.loader = Refusing()  # type: ignore[assignment]
        return spec

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        return None

    @staticmethod
    def exec_module(module: Any) -> None:
        raise ImportError(f"{module.__name__} was imported")


def _asks(url: str) -> None:
    sys.meta_path.insert(0, Refusing)  # type: ignore[arg-type]
    assert "litellm" not in sys.modules
    team = fm.Deliberation(["intuitive", "reasoner"])
    lm = fm.lm("openai/gpt-4o-mini", api_base=url)
    fm.evaluate(team, fm.load("sample-choice", limit=2), lm=lm, tracking=False)
    print(fm.lm("openai/gpt-4o-mini", api_base=url).model)
    try:
        fm.lm("anthropic/claude-haiku-4-5", api_key="none")
    except ImportError as problem:
        print(problem)


def test_litellm_is_imported_only_for_names_that_need_it(scripted: ScriptedServer) -> None:
    done = children.run(_asks, scripted.url)
    assert done.stdout.split() == ["openai/gpt-4o-mini", "litellm", "was", "imported"], done.stderr
