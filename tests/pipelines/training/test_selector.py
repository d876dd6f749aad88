"""`fm.StrategySelector` before a user's own modules: trained, compiled, nested, saved and tuned."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
import numpy as np
import pytest
from cli_helpers import question
from outcome_tables import WORDS, planted, words_of
from refusals import refused

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer

pytestmark = pytest.mark.usefixtures("quick_rivals", "no_figures")
SMALL = {"epochs": 8, "lr": 0.01}
SHAPE: dict[str, Any] = {"hidden": 8, "heads": 2, "choice": "argmax"}
QUESTIONS = [
    fm.Question(question(i, question=f"{WORDS[group]} {i}?", answer="A"))
    for i, group in enumerate(["sums", "rivers"] * 10)
]


class Argue(dspy.Module):  # type: ignore[misc]
    """A module of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.say = dspy.Predict("question, choices -> reasoning, answer")

    def forward(self, question: str, choices: Any) -> dspy.Prediction:
        return self.say(question=question, choices=choices)


class Guess(Argue):
    """Another one."""

    def __init__(self) -> None:
        super().__init__()
        self.say = dspy.Predict("question, choices -> answer")


class Routed(dspy.Module):  # type: ignore[misc]
    """Asks one of two modules, the one that the selector chooses."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        ways = {"cot": Argue(), "self_ask": Guess()}
        self.select = fm.StrategySelector(ways, embedding=words_of, **SHAPE, **settings)

    def forward(self, question: str, choices: Any = None) -> dspy.Prediction:
        way = self.select(question=question).choice
        return self.select.modules[way](question=question, choices=choices)


@pytest.fixture(autouse=True)
def lm(home: Path) -> Iterator[Any]:
    with ScriptedServer(reply) as server:
        yield fm.lm("openai/scripted", api_base=server.url)


def reply(body: dict[str, Any]) -> str:
    """Right on sums with reasoning and on rivers without; on odd questions only after examples."""
    text, names = json.dumps(body["messages"]), ["answer"]
    if "json_schema" in body.get("response_format", {}):
        names = list(body["response_format"]["json_schema"]["schema"]["properties"])
    elif "[[ ## reasoning ## ]]" in text:
        names = ["reasoning", "answer"]
    last = json.dumps(body["messages"][-1])
    right = (len(names) > 1) == ("add number" in last)
    odd = any(f" {i}?" in last for i in range(1, 20, 2))
    values = dict.fromkeys(names, "so")
    values["answer"] = "A" if right and (not odd or len(body["messages"]) > 2) else "B"
    if "json_schema" in body.get("response_format", {}):
        return json.dumps(values)
    return "".join(f"[[ ## {n} ## ]]\n{v}\n\n" for n, v in values.items()) + "[[ ## completed ## ]]"


def outcomes() -> list[dict[str, Any]]:
    return [row for row in planted(40, 1) if row["strategy"] != "zero_shot"]


def routed(**settings: Any) -> Routed:
    """Trained on recorded answers."""
    program = Routed(**settings)
    program.select = fm.train(outcomes(), program=program.select, settings=SMALL, tracking=False)
    return program


def choices(program: Routed) -> list[str]:
    return [program.select(question=words).choice for words in WORDS.values()]


def test_it_says_who_chooses_what_with_which_chance() -> None:
    several = fm.StrategySelector(["cot", "simple", "self_ask"], agents=3, embedding=words_of)
    found = several(question="What is it?")
    assert found.choice in ("cot", "simple", "self_ask")
    assert len(found.choices) == 3
    assert np.shape(found.probabilities) == (3, 3)
    assert np.allclose(np.sum(found.probabilities, axis=1), 1)
    alone = fm.StrategySelector(["cot", "simple"], embedding=words_of)(question="What is it?")
    assert alone.choices == [alone.choice]
    refused("the question is empty", several, question=" ")


def test_it_learns_from_outcomes_and_by_asking(lm: Any) -> None:
    program = Routed()
    asking = {"train": QUESTIONS, "lm": lm, "settings": SMALL | {"epochs": 20}, "tracking": False}
    taught = fm.train(program=program.select, **asking)
    assert isinstance(taught, fm.StrategySelector)
    assert taught.training.about["kind"] == "live"
    for selector in (routed().select, taught):
        found = [selector(question=words).choice for words in WORDS.values()]
        assert found == ["cot", "self_ask"]
    assert program.select.state.questions == 0  # what was given stays as it is
    again = fm.train(outcomes(), program=taught, settings=SMALL, tracking=False)
    assert again.state.questions == taught.state.questions + 8 * 40


@pytest.mark.parametrize("policy", ["knn", pytest.param("regression", marks=pytest.mark.nightly)])
def test_policies_without_a_graph_learn_likewise(policy: str, lm: Any, tmp_path: Path) -> None:
    program = routed(policy=policy)
    program.save(tmp_path / "routed.json")
    loaded = Routed(policy=policy)
    assert choices(loaded)[0] == choices(loaded)[1]  # nothing was learned yet
    loaded.load(tmp_path / "routed.json")
    assert choices(program) == choices(loaded) == ["cot", "self_ask"]
    even = [question for question in QUESTIONS if "sum" in question.question]
    asking = {"train": even, "lm": lm, "settings": SMALL, "tracking": False}
    taught = fm.train(program=Routed(policy=policy).select, **asking)
    assert taught(question=even[0].question).choice == "cot"
    selected = Routed(policy=policy).select(question=even[0].question)
    assert selected.probabilities.tolist() == [[0.5, 0.5]]
    refused("policy is 'nearest'", Routed, policy="nearest")


@pytest.mark.nightly
def test_what_was_learned_is_kept_by_dspy_and_by_compile(lm: Any, tmp_path: Path) -> None:
    program = routed()
    names = [name for name, _ in program.named_predictors()]
    assert names == ["select.modules['cot'].say", "select.modules['self_ask'].say"]
    program.save(tmp_path / "routed.json")
    other = Routed()
    other.load(tmp_path / "routed.json")
    compiled = fm.compile(
        program, QUESTIONS[:8], QUESTIONS[8:], optimizer="bootstrap", lm=lm, out=tmp_path / "out",
        tracking=False,
    )  # fmt: skip
    loaded = fm.load_program(tmp_path / "out")
    for same in (other, program.deepcopy(), compiled, loaded):
        assert choices(same) == ["cot", "self_ask"]
        for words in WORDS.values():
            one, two = (each.select(question=words).probabilities for each in (program, same))
            assert np.array_equal(one, two)
    assert any(predictor.demos for predictor in loaded.predictors())
    result = fm.evaluate(loaded, QUESTIONS, lm=lm, tracking=False)
    assert result.summary.scores["accuracy"]["value"] == 1


@pytest.mark.nightly
def test_a_network_asks_the_modules_and_votes(lm: Any, tmp_path: Path) -> None:
    selector = routed(agents=3).select
    network = fm.StrategyNetwork(selector, strategies={"self_ask": "zero_shot"})
    with dspy.context(lm=lm):
        found = network(question=QUESTIONS[0].question, choices=QUESTIONS[0].choices)
    assert (found.answer, found.strategies) == ("A", ["cot"] * 3)
    assert next(name for name, _ in network.named_predictors()) == "members['cot'].module.say"
    compiled = fm.compile(
        network, QUESTIONS[:8], QUESTIONS[8:], optimizer="bootstrap", lm=lm, out=tmp_path / "out",
        tracking=False,
    )  # fmt: skip
    loaded = fm.load_program(tmp_path / "out", embedding=words_of)
    assert loaded.describe() == compiled.describe()
    demos = [[dict(demo) for demo in predictor.demos] for predictor in compiled.predictors()]
    assert [[dict(demo) for demo in each.demos] for each in loaded.predictors()] == demos
    assert any(demos)
    with pytest.raises(fm.UserError, match="names 'tot', which the network does not choose"):
        fm.StrategyNetwork(selector, strategies={"tot": "cot"})
