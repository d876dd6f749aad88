"""DSPy's own modules in `evaluate`, and Optuna's own samplers in `tune`: a table each."""

import json
import re
import shutil
import warnings
from collections.abc import Callable
from typing import Any

import dspy
import optuna
import pytest
from by_day import these_by_day

import folkmoot as fm
from folkmoot.optimizers.prompts.optimizers import OPTIMIZERS
from folkmoot.pipelines.testing.server import ScriptedServer

CHOICES = {"A": "bank", "B": "library"}
GIVEN = {"answer": "A", "next_tool_name": "finish", "next_tool_args": "{}"}
GIVEN |= {"tool_calls": '{"tool_calls": [{"name": "submit", "args": {"answer": "A"}}]}'}
GIVEN |= {"generated_code": "print('A')", "code": "SUBMIT('A')"}


def questions(n: int, prefix: str = "q") -> list[fm.Question]:
    known: Any = {"choices": CHOICES, "answer": "A"}
    ids = [f"{prefix}{i}" for i in range(n)]
    return [fm.Question(id=id, question=f"Is it {id}?", **known) for id in ids]


def in_chat(body: dict[str, Any]) -> Any:
    """A reply to DSPy's chat adapter: every output field that its prompt names."""
    system = body["messages"][0]["content"]
    asked = system.partition("Your output fields are:")[2].partition("All interactions")[0]
    names = re.findall(r"`(\w+)`", asked) or ["answer"]
    fields = [f"[[ ## {name} ## ]]\n{GIVEN.get(name, 'so')}" for name in names]
    return "\n\n".join([*fields, "[[ ## completed ## ]]"])


def one() -> dspy.Predict:
    return dspy.Predict("question -> answer")


class One(dspy.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.predict = one()


class TakesAnything(One):
    def forward(self, temperature: float = 0.0, **kwargs: Any) -> Any:
        return self.predict(question=kwargs["question"])


class AsyncForward(One):
    async def forward(self, question: str) -> Any:
        return await self.predict.acall(question=question)


class AForward(One):
    async def aforward(self, question: str) -> Any:
        return await self.predict.acall(question=question)


class NamedLikeOurs(One):
    """Its settings have the names of what folkmoot's programs do."""

    def __init__(self) -> None:
        super().__init__()
        self.describe, self.turns, self.seats, self.usage = 1, 2, 3, 4

    def forward(self, question: str) -> Any:
        return self.predict(question=question)


class Majority(One):
    def forward(self, question: str) -> Any:
        config = [{"rollout_id": number, "temperature": 1.0} for number in range(3)]
        return dspy.majority([self.predict(question=question, config=each) for each in config])


class InParallel(One):
    def forward(self, question: str) -> Any:
        asked = [(self.predict, {"question": question})] * 2
        return dspy.Parallel(disable_progress_bar=True)(asked)[0]


class Chains(dspy.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.chain = dspy.ChainOfThought("question -> answer")
        self.compare = dspy.MultiChainComparison("question -> answer", M=2)

    def forward(self, question: str) -> Any:
        chains = [self.chain(question=question) for _ in range(2)]
        return self.compare(chains, question=question)


BETTER = {"N": 2, "reward_fn": lambda args, prediction: 1.0, "threshold": 1.0}
CHAIN = "question -> answer"
needs_deno = pytest.mark.skipif(shutil.which("deno") is None, reason="runs code in Deno")

MODULES: dict[str, Callable[[], Any]] = {
    "Predict": one,
    "ChainOfThought": lambda: dspy.ChainOfThought("question, choices -> answer"),
    "BestOfN": lambda: dspy.BestOfN(dspy.ChainOfThought(CHAIN), **BETTER),
    "Refine": lambda: dspy.Refine(dspy.ChainOfThought(CHAIN), **BETTER),
    "ReAct": lambda: dspy.ReAct(CHAIN, tools=[]),
    "ReActV2": lambda: dspy.ReActV2(CHAIN, tools=[]),
    "**kwargs": TakesAnything,
    "async forward": AsyncForward,
    "aforward": AForward,
    "settings named like ours": NamedLikeOurs,
    "majority": Majority,
    "Parallel": InParallel,
    "MultiChainComparison": Chains,
    "asyncify": lambda: dspy.asyncify(one()),
}
WITH_CODE: dict[str, Callable[[], Any]] = {
    "ProgramOfThought": lambda: dspy.ProgramOfThought(CHAIN),
    "CodeAct": lambda: dspy.CodeAct(CHAIN, tools=[]),
    "RLM": lambda: dspy.RLM(CHAIN),
    "Flex": lambda: dspy.Flex(CHAIN),
}


def test_the_table_has_all_modules_of_dspy() -> None:
    kinds = {name: kind for name, kind in vars(dspy).items() if isinstance(kind, type)}
    modules = {name for name, kind in kinds.items() if issubclass(kind, dspy.Module)}
    assert modules - {"Module"} <= {*MODULES, *WITH_CODE}


NOT_OFFERED = {
    "AvatarOptimizer": "it compiles dspy.Avatar alone",
    "BootstrapFinetune": "it changes the weights of an LM, not a prompt",
    "Ensemble": "it joins programs, as fm.Ensemble does",
    "Teleprompter": "the base class",
}
NAMED = {"BootstrapFewShot": "bootstrap", "BootstrapFewShotWithOptuna": "bootstrap_optuna"}
NAMED |= {"BootstrapFewShotWithRandomSearch": "bootstrap_rs", "BetterTogether": "better_together"}
NAMED |= {"InferRules": "infer_rules", "KNNFewShot": "knn", "LabeledFewShot": "labeled_few_shot"}
NAMED["MIPROv2"] = "mipro"


def test_every_optimizer_of_dspy_is_offered_or_has_a_reason() -> None:
    """Each that is offered is run by tests/pipelines/compilation."""
    kinds = {name: kind for name, kind in vars(dspy.teleprompt).items() if isinstance(kind, type)}
    base = dspy.teleprompt.Teleprompter
    optimizers = {name for name, kind in kinds.items() if issubclass(kind, base)}
    for name in optimizers - NOT_OFFERED.keys():
        assert NAMED.get(name, name.lower()) in OPTIMIZERS, name


@pytest.mark.parametrize("ours", [True, pytest.param(False, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    "name", [*MODULES, *(pytest.param(name, marks=needs_deno) for name in WITH_CODE)]
)
def test_a_module_of_dspy_is_asked_as_dspy_asks_it(name: str, ours: bool) -> None:
    with ScriptedServer(in_chat) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lm = dspy.LM("openai/x", api_base=server.url, api_key="none", cache=False)
        lm = fm.lm("openai/x", api_base=server.url) if ours else lm
        module = (MODULES | WITH_CODE)[name]()
        result = fm.evaluate(module, questions(3), lm=lm, tracking=False, progress=False)
        assert [row["error"] for row in result.rows] == [None] * 3
        assert result.score == 1.0
        usage = result.summary.usage
        assert usage["calls"] - usage["cached_calls"] == len(server.bodies)


class Draws(One):
    """Asks alike three times."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, question: str) -> Any:
        settings = [{"rollout_id": n, "temperature": self.temperature} for n in range(3)]
        return dspy.majority([self.predict(question=question, config=how) for how in settings])


class SeesAnImage(dspy.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.predict = dspy.Predict("image: dspy.Image, question -> answer")

    def forward(self, question: str) -> Any:
        return self.predict(image=dspy.Image("data:image/png;base64,aGk="), question=question)


SAMPLES: dict[str, tuple[Callable[[], Any], int]] = {
    "n": (lambda: dspy.Predict(CHAIN, n=3, temperature=1.0), 3),
    "rollout_id": (lambda: Draws(1.0), 3),
    "rollout_id without temperature": (lambda: Draws(0.0), 1),
    "BestOfN": (lambda: dspy.BestOfN(Chained(), **BETTER | {"threshold": 2.0}), 4),
}


class Chained(dspy.Module):  # type: ignore[misc]
    """Two predictors, whose fields are those of `forward`."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = dspy.Predict("question -> plan")
        self.predict = dspy.Predict("question, plan -> answer")

    def forward(self, question: str) -> Any:
        return self.predict(question=question, plan=self.plan(question=question).plan)


@pytest.mark.parametrize("name", SAMPLES)
def test_equal_requests_above_temperature_0_are_samples(name: str) -> None:
    make, calls = SAMPLES[name]
    with ScriptedServer(in_chat) as server:
        lm = fm.lm("openai/x", api_base=server.url)
        result = fm.evaluate(make(), questions(2), lm=lm, tracking=False, progress=False)
        assert result.score == 1.0
        assert len(server.bodies) == 2 * calls


def test_an_image_is_sent_and_another_part_refused() -> None:
    with ScriptedServer(in_chat) as server:
        lm = fm.lm("openai/x", api_base=server.url)
        result = fm.evaluate(SeesAnImage(), questions(2), lm=lm, tracking=False, progress=False)
        assert result.score == 1.0
        contents = [body["messages"][-1]["content"] for body in server.bodies]
        assert all(content[1]["image_url"]["url"].endswith("aGk=") for content in contents)
        assert {str(content)[-200:] for content in contents} > {str(contents[0])[-200:]}
        program = dspy.Predict("audio: dspy.Audio -> answer")
        audio = dspy.Audio(data="aGk=", audio_format="wav")
        with dspy.context(lm=lm), pytest.raises(Exception, match="a part of type audio"):
            program(audio=audio)


S = optuna.samplers
QUIETLY = {"warn_independent_sampling": False}
WHOLE = {"strategy": ["simple", "cot"], "prompt_layout": ["role_first", "role_last"]}
WHOLE["sampling.temperature"] = [0.5]
SAMPLERS: dict[str, Callable[[], optuna.samplers.BaseSampler]] = {
    "TPESampler": lambda: S.TPESampler(seed=0),
    "RandomSampler": lambda: S.RandomSampler(seed=0),
    "CmaEsSampler": lambda: S.CmaEsSampler(seed=0, **QUIETLY),
    "NSGAIISampler": lambda: S.NSGAIISampler(seed=0),
    "NSGAIIISampler": lambda: S.NSGAIIISampler(seed=0),
    "QMCSampler": lambda: S.QMCSampler(seed=0, warn_asynchronous_seeding=False, **QUIETLY),
    "GPSampler": lambda: S.GPSampler(seed=0),
    "BruteForceSampler": lambda: S.BruteForceSampler(seed=0),
    "GridSampler": lambda: S.GridSampler(WHOLE),
    "PartialFixedSampler": lambda: S.PartialFixedSampler(
        {"strategy": "cot"}, S.RandomSampler(seed=0)
    ),
}
SAMPLERS_BY_DAY = {"TPESampler", "GridSampler"}


def tuned(server: ScriptedServer, sampler: optuna.samplers.BaseSampler) -> Any:
    lm = fm.lm("openai/x", api_base=server.url)
    given: dict[str, Any] = {"tracking": False, "progress": False, "trials": 5}
    train, others = questions(12, "t"), questions(6, "v")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fm.tune("single", train, others, lm=lm, sampler=sampler, **given)


def test_the_table_has_all_samplers_of_optuna() -> None:
    base = {"BaseSampler", "BaseGASampler"}
    assert set(SAMPLERS) == {name for name in dir(S) if name.endswith("Sampler")} - base


@pytest.mark.parametrize("name", these_by_day(SAMPLERS, SAMPLERS_BY_DAY))
def test_a_sampler_of_optuna_finishes_its_study(name: str) -> None:
    if name == "GPSampler":
        pytest.importorskip("torch")
    with ScriptedServer(lambda _: json.dumps({"reasoning": "so", "answer": "A"})) as server:
        study = tuned(server, SAMPLERS[name]())
    assert study.report.trials["complete"] == (4 if name == "GridSampler" else 5)
    assert study.stopped is None


def test_a_grid_that_leaves_out_a_parameter_is_refused() -> None:
    with (
        ScriptedServer() as server,
        pytest.raises(fm.UserError, match=r"does not fit the space.*give it values for every"),
    ):
        tuned(server, S.GridSampler({"strategy": ["simple"]}))
