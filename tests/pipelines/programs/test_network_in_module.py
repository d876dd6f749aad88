"""A strategy network inside a module keeps what it learned, however that is saved and loaded."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
import numpy as np
import pytest
from cli_helpers import isolate, question
from outcome_tables import WORDS, planted, words_of

import folkmoot as fm
from folkmoot.modules.protocols.program import Program
from folkmoot.pipelines.programs.resolve import program_of
from folkmoot.pipelines.testing.server import ScriptedServer

CONFIG = fm.NetworkConfig(agents=2, strategies=("cot", "zero_shot"), hidden=4, heads=2, k=0)
QUESTIONS = [fm.Question(question(i)) for i in range(8)]
VECTORS = words_of(list(WORDS.values()))


def untrained(**settings: Any) -> fm.StrategyNetwork:
    return fm.StrategyNetwork.untrained(fm.NetworkConfig(**{**vars(CONFIG), **settings}), words_of)


class Careful(dspy.Module):  # type: ignore[misc]
    """Asks a network, and says what it found."""

    def __init__(self) -> None:
        super().__init__()
        self.network = untrained()
        self.say = dspy.Predict("question, found -> answer")

    def forward(self, question: str, choices: Any = None) -> dspy.Prediction:
        found = self.network(question=question, choices=choices).answer
        return self.say(question=question, found=found or "nothing")


class Mine(Program):
    """A program of the user's own that makes its network itself."""

    def __init__(self) -> None:
        super().__init__()
        self.network = untrained()

    def describe(self) -> dict[str, Any]:
        return {"program": "mine"}


@pytest.fixture(autouse=True)
def lm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    isolate(tmp_path, monkeypatch)
    with ScriptedServer(said) as server:
        yield fm.lm("openai/scripted", api_base=server.url)


def said(body: dict[str, Any]) -> str:
    """Right once it is shown examples; DSPy's own adapter asks for the user's predictor."""
    if "json_schema" not in body.get("response_format", {}):
        return "[[ ## answer ## ]]\nA\n\n[[ ## completed ## ]]"
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    return json.dumps(dict.fromkeys(fields, "A" if len(body["messages"]) > 2 else "B"))


@pytest.fixture(scope="module")
def learned() -> fm.StrategyNetwork:
    """A network that has learned, vote weights too, with other settings than `untrained`."""
    rows = [row for row in planted(40, 1) if row["strategy"] in CONFIG.strategies]
    settings = {"agents": 2, "hidden": 8, "heads": 1, "epochs": 3, "lr": 0.01, "k": 0, "gamma": 0.7}
    settings["weight"] = "conditional"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("folkmoot.optimizers.policy.rivals._FOLDS", 0)
        for name in ("trust", "graphs", "rewards", "strategies"):
            patched.setattr(f"folkmoot.pipelines.training.train.{name}_plot", lambda *_: False)
        return fm.train(rows, embedding=words_of, settings=settings, tracking=False)


@pytest.fixture
def trained(learned: fm.StrategyNetwork) -> fm.StrategyNetwork:
    return learned.deepcopy()


@pytest.fixture(scope="module")
def better(learned: fm.StrategyNetwork, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The network with its prompts and its policy compiled."""
    with ScriptedServer(said) as server:
        lm = fm.lm("openai/scripted", api_base=server.url)
        return compiled(learned.deepcopy(), lm, out=tmp_path_factory.mktemp("better") / "out")


def compiled(program: Any, lm: Any, **options: Any) -> Any:
    given = {"optimizer": "bootstrap", "lm": lm, "tracking": False, **options}
    return fm.compile(program, QUESTIONS[:4], QUESTIONS[4:], **given)


def check_same(one: fm.StrategyNetwork, other: fm.StrategyNetwork) -> None:
    """Both choose and vote alike, and are shown the same examples."""
    assert one is not other
    assert np.array_equal(one.state.probabilities(VECTORS), other.state.probabilities(VECTORS))
    for vector in VECTORS:
        states = [network.state for network in (one, other)]
        picks = [state.pick(state.scores(vector[None])[0], vector, "key") for state in states]
        assert picks[0] == picks[1]
        weights = [each.state.weights(vector, [0, 1]) for each in (one, other)]
        assert np.array_equal(*weights)
    for mine, its in zip(one.predictors(), other.predictors(), strict=True):
        assert [dict(demo) for demo in mine.demos] == [dict(demo) for demo in its.demos]


def by_file(module: Any) -> Any:
    module.save("module.json")
    loaded = type(module)()
    loaded.load("module.json")
    return loaded


def by_state(module: Any) -> Any:
    loaded = type(module)()
    for _ in range(2):
        loaded.load_state(json.loads(json.dumps(module.dump_state())))
    return loaded


def by_reset(module: Any) -> Any:
    copied = module.reset_copy()  # as DSPy's optimizers begin
    for own, its in zip(module.predictors(), copied.predictors(), strict=True):
        its.demos = own.demos
    return copied


@pytest.mark.parametrize("way", [by_file, by_state, by_reset, dspy.Module.deepcopy])
def test_a_module_takes_its_network_along(trained, better, way):
    module = Careful()
    module.network = better
    assert module.network.compilation.winner == "compiled"
    taken = way(module)
    check_same(taken.network, module.network)
    fresh = fm.StrategyNetwork.untrained(taken.network.state.config, words_of)
    # which the other does not notice
    taken.network.state.load_state(fresh.state.dump_state())
    assert taken.network.state.identity != module.network.state.identity
    assert module.network.state.identity != trained.state.identity  # compiling teaches the policy


def test_a_module_is_compiled_loaded(trained: fm.StrategyNetwork, lm: Any, tmp_path: Path) -> None:
    module = Careful()
    module.network = dspy.LabeledFewShot(k=1).compile(trained, trainset=QUESTIONS)
    module.network._compiled = True  # as most of DSPy's optimizers leave what they made
    better = compiled(module, lm, out=tmp_path / "out")
    assert not any(part._compiled for _, part in better.named_sub_modules(dspy.Module))
    assert any(predictor.demos for predictor in better.network.predictors())
    check_same(fm.load_program(tmp_path / "out").network, better.network)
    check_same(by_file(better).network, better.network)


def test_a_network_alone_is_loaded_by_either_way(better: Any) -> None:
    network = better
    network.save("saved")
    for folder in (network.compilation.folder, "saved"):
        check_same(fm.load_program(folder, embedding=words_of), network)
    check_same(program_of("network:saved", {"embedding": words_of}), network)
    network.save("network.json")
    loaded = untrained()
    loaded.load("network.json")
    check_same(loaded, network)
    fm.SingleAgent("cot").save("single")
    with pytest.raises(fm.UserError, match="has no strategy network: drop the embedding"):
        fm.load_program("single", embedding=words_of)


def test_a_network_that_a_program_makes_is_in_its_folder(trained: fm.StrategyNetwork) -> None:
    program = Mine()
    program.network.state.load_state(trained.state.dump_state())
    program.save("mine")
    check_same(fm.load_program("mine", protocols={"mine": Mine}).network, program.network)
    document = json.loads(Path("mine/program.json").read_text())
    for changed, said in (
        ({"program": {**document["program"], "depth": 1}}, "is damaged: its content is not what"),
        ({"learned": {"network.state": "../../elsewhere"}}, r"json: learned\.network\.state"),
    ):
        Path("mine/program.json").write_text(json.dumps({**document, **changed}))
        with pytest.raises(fm.UserError, match=said):
            fm.load_program("mine", protocols={"mine": Mine})
