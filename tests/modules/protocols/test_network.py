"""The strategy network as a program: contract, choices, votes, copies, files, hostile input."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from outcome_tables import words_of as embed

import folkmoot as fm
from folkmoot.modules.base.errors import UserError
from folkmoot.modules.network.config import NetworkConfig
from folkmoot.modules.network.state import NetworkState
from folkmoot.modules.network.strategy_network import StrategyNetwork
from folkmoot.modules.network.trust import trust_consensus, weighted_consensus
from folkmoot.modules.network.weights import VoteWeights
from folkmoot.modules.protocols.program import Program
from folkmoot.optimizers.policy.known_answers import TrainingQuestion
from folkmoot.optimizers.policy.settings import TrainingSettings
from folkmoot.optimizers.policy.training import train_policies
from folkmoot.pipelines.testing.contract import ProtocolContract
from folkmoot.pipelines.testing.replies import filled

torch.set_num_threads(1)

WIDTH = 32


def config(**settings: Any) -> NetworkConfig:
    usual = {"agents": 3, "strategies": ("simple", "cot"), "hidden": 4, "heads": 2, "seed": 1}
    return NetworkConfig(**{**usual, **settings})


def fresh(**settings: Any) -> NetworkState:
    return NetworkState.fresh(config(**settings), WIDTH)


def learned(**settings: Any) -> NetworkState:
    """A network that has seen some questions, with odd words in some."""
    state = fresh(**settings)
    vectors = embed([f"question {q} about thing {q % 3} é" for q in range(12)])
    asked = [TrainingQuestion(str(q), vector) for q, vector in enumerate(vectors)]

    def answers(q: int, i: int, s: int) -> tuple[str, bool]:
        return str((q + i + s) % 3), (q + i + s) % 3 == 0

    train_policies(state, asked, answers, TrainingSettings(epochs=2))
    return state


VECTOR = embed(["a new question"])[0]


class TestStrategyNetwork(ProtocolContract):
    def program(self) -> Program:
        return StrategyNetwork(NetworkState.fresh(config(), WIDTH), embed)

    def load_with(self) -> dict[str, Any]:
        return {"embedding": embed}


CHOICES = {"A": "bank", "B": "library", "C": "mall"}


def saying(*answers: Any) -> Callable[[dict[str, Any]], Any]:
    """The model `m0`, `m1`, … gives the answer of that place."""

    return lambda body: filled(body, answers[int(body["model"].removeprefix("m"))])


def network(scripted: Any, state: NetworkState | None = None, **options: Any) -> StrategyNetwork:
    """A network in which agent i has the model `mi`."""
    state = fresh() if state is None else state
    names = {f"agent.{i}": f"openai/m{i}" for i in range(state.config.agents)}
    lms = {seat: fm.lm(name, api_base=scripted.url) for seat, name in names.items()}
    return StrategyNetwork(state, embed, lms=lms, **options)


def test_agents_choose_ask_and_vote(scripted: Any) -> None:
    scripted.reply = saying("A", "B", "B")
    state = fresh()
    prediction = network(scripted, state)(question="Where is money?", choices=CHOICES)
    assert (prediction.answer, prediction.decided_by) == ("B", "consensus")
    # Trust is 0.5 everywhere at first: softmax of 1 against 0.5.
    assert prediction.confidence == pytest.approx(np.exp(1.0) / (np.exp(1.0) + np.exp(0.5)))
    assert prediction.probabilities["A"] == pytest.approx(1 - prediction.confidence)
    assert prediction.weights == pytest.approx([0.5] * 3)
    assert [turn["agent"] for turn in prediction.transcript] == ["agent.0", "agent.1", "agent.2"]
    chances = state.probabilities(embed(["Where is money?"]))[0]
    for i, turn in enumerate(prediction.transcript):
        assert turn["strategy"] == prediction.strategies[i]
        s = state.config.strategies.index(turn["strategy"])
        assert turn["confidence"] == pytest.approx(chances[i, s], abs=1e-6)
        assert turn["weight"] == 0.5


def test_the_words_are_those_of_the_strategy_that_was_chosen(scripted: Any) -> None:
    scripted.reply = saying("A", "A", "A")
    program = network(scripted, fresh(seed=2))
    prediction = program(question="Where is money?", choices=CHOICES)
    schemas = {body["model"]: json.dumps(body["response_format"]) for body in scripted.bodies}
    asked = {model: "reasoning" in schema for model, schema in schemas.items()}
    assert asked == {f"m{i}": name == "cot" for i, name in enumerate(prediction.strategies)}


def test_only_the_top_are_asked(scripted: Any) -> None:
    scripted.reply = saying("A", "B", "C")
    state = fresh(top=1, weight="accuracy")
    state.vote = VoteWeights(np.array([[0.2, 0.2], [0.9, 0.9], [0.5, 0.5]]))
    program = network(scripted, state)
    prediction = program(question="Where?", choices=CHOICES)
    assert len(scripted.bodies) == 1 == program.most_turns()
    assert prediction.answer == "B"
    assert [name is None for name in prediction.strategies] == [True, False, True]
    assert prediction.weights == [0.0, 0.9, 0.0]


def test_agents_with_one_lm_draw_samples_of_their_own(scripted: Any) -> None:
    def seeds(**settings: Any) -> list[int]:
        scripted.requests.clear()
        scripted.reply = lambda body: saying("A")({**body, "model": "m0"})
        program = StrategyNetwork(fresh(**settings), embed, samples=3)
        with fm_lm(scripted, seed=7):
            program(question="Where is money?", choices=CHOICES)
        return sorted(body["seed"] for body in scripted.bodies)

    assert seeds(strategies=("cot",)) == [7, 10_007, 20_007]
    several = seeds(strategies=("self_consistency",))
    assert several == [8, 9, 10, 10_008, 10_009, 10_010, 20_008, 20_009, 20_010]


@pytest.mark.parametrize(
    ("settings", "sampling", "lm", "asked_at"),
    [
        ({}, None, {}, {0.7}),
        ({"copies_temperature": 1.0}, None, {}, {1.0}),
        ({"copies_temperature": None}, None, {}, {0}),
        ({}, {"temperature": 0.0}, {}, {0}),
        ({}, None, {"temperature": 0.3}, {0.3}),
        ({"agents": 1}, None, {}, {0}),
        ({"strategies": ("self_consistency",)}, None, {}, {0.8}),
    ],
)
def test_copies_of_one_lm_are_asked_above_temperature_0(scripted, settings, sampling, lm, asked_at):
    scripted.reply = lambda body: saying("A")({**body, "model": "m0"})
    program = StrategyNetwork(fresh(**settings), embed, sampling=sampling)
    with fm_lm(scripted, **lm):
        program(question="Where is money?", choices=CHOICES)
    assert {body["temperature"] for body in scripted.bodies} == asked_at


def fm_lm(scripted: Any, **sampling: Any) -> Any:
    import dspy

    return dspy.context(lm=fm.lm("openai/one", api_base=scripted.url, **sampling))


def test_agents_share_the_prompt_of_a_strategy_unless_they_have_an_lm_of_their_own() -> None:
    program = StrategyNetwork(fresh(agents=2, strategies=("cot", "least_to_most")), embed)
    shared = ["cot", "least_to_most", "least_to_most.solve", "least_to_most.split"]
    assert sorted(program.seats()) == shared
    assert program.most_turns() == 2 * 6
    lm = object()
    program.assign({"agent.1": lm})
    own = [f"agent.1.{name}" for name in shared]
    assert sorted(program.seats()) == [*own, *shared]
    assert sorted(name for name, seat in program.seats().items() if seat.predict.lm is lm) == own
    assert program.describe()["own_prompts"] == [1]
    assert sum(low for _, low, _ in program.turns()) == 2
    assert program.most_turns() == 2 * 6
    config = fm.NetworkConfig(hidden=4, heads=2)
    for own_prompts, predictors in ((False, 11), (True, 55), ([0], 22)):
        network = StrategyNetwork.untrained(config, embed, own_prompts=own_prompts)
        assert len(network.predictors()) == predictors
    with pytest.raises(UserError, match="own_prompts has 5"):
        StrategyNetwork.untrained(config, embed, own_prompts=[5])


@pytest.mark.nightly
def test_an_agent_that_stands_for_a_strategy_is_saved_as_that_agent(tmp_path: Path) -> None:
    own = {"cot": fm.SingleAgent("self_ask"), "simple": "zero_shot"}
    network = StrategyNetwork(fresh(), embed, strategies=own)
    agent = {"program": "single", "strategy": "self_ask", "sampling": {}}
    assert network.describe()["strategies"] == {"simple": "zero_shot", "cot": agent}
    network.save(tmp_path)
    loaded = fm.load_program(tmp_path, embedding=embed)
    assert list(loaded.seats()) == list(network.seats()) == ["simple", "self_ask"]
    assert loaded.describe() == network.describe()


def test_draws_follow_the_probabilities_and_hang_on_seed_and_key_alone() -> None:
    state = learned()
    chances = state.probabilities(VECTOR[None])[0]
    scores = state.scores(VECTOR[None])[0]
    drawn = np.array([state.pick(scores, VECTOR, str(key)) for key in range(2_000)])
    assert np.abs((drawn == 1).mean(axis=0) - chances[:, 1]).max() < 0.04
    assert state.pick(scores, VECTOR, "5") == drawn[5].tolist()
    other = learned(seed=2)
    assert [other.pick(scores, VECTOR, str(key)) for key in range(50)] != drawn[:50].tolist()
    assert state.pick(scores, VECTOR, "\ud800") == state.pick(scores, VECTOR, "\ud800")


def test_policies_see_questions_with_the_centre_taken_off() -> None:
    state = learned()
    seen = torch.from_numpy(VECTOR - state.centre)[None]
    with torch.no_grad():
        expected = state.policies(seen, state.group()).numpy()
    assert np.allclose(state.logits(VECTOR[None]), expected, atol=1e-7)
    vectors = embed([f"question {q} about thing {q % 3} é" for q in range(12)])
    assert np.allclose(state.centre, vectors.mean(axis=0), atol=1e-7)


@given(st.lists(st.sampled_from([None, "x", "y", "z"]), min_size=3, max_size=3))
def test_mean_trust_is_the_papers_consensus(answers: list[str | None]) -> None:
    state = LEARNED
    ours = weighted_consensus(answers, state.weights(VECTOR, [0, 1, 0]))
    papers = trust_consensus(answers, state.trust, state.adjacency)
    assert (ours.answer, ours.probability) == (papers.answer, pytest.approx(papers.probability))
    assert ours.probabilities == pytest.approx(papers.probabilities)
    assert (ours.weights == papers.weights).all()


LEARNED = learned()


def test_learned_weights_go_by_agent_strategy_and_question() -> None:
    state = fresh(weight="conditional")
    # nothing learned: a plain majority
    assert state.weights(VECTOR, [0, 0, 1]).tolist() == [1, 1, 1]
    slopes = np.zeros((3, 2, WIDTH))
    slopes[1, 1] = VECTOR
    state.vote = VoteWeights(np.arange(6.0).reshape(3, 2), slopes, 0.5 * VECTOR.astype(float))
    assert state.weights(VECTOR, [0, 1, None]) == pytest.approx([0, 3.5, 0])
