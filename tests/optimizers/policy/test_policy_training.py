"""Training a strategy network: what it finds, each option, and stops that leave no trace."""

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from by_day import some_by_day
from refusals import refused

from folkmoot.modules.network.config import NetworkConfig
from folkmoot.modules.network.rivals import policies_of
from folkmoot.modules.network.state import NetworkState
from folkmoot.modules.network.trust import weighted_consensus
from folkmoot.optimizers.policy.batches import TrainingLog
from folkmoot.optimizers.policy.known_answers import KnownAnswers, Outcome, TrainingQuestion
from folkmoot.optimizers.policy.rivals import fit_rival
from folkmoot.optimizers.policy.settings import PRESETS, TrainingSettings, configured
from folkmoot.optimizers.policy.training import train_policies

WIDTH = 12
NAMES = ("a", "b", "c")
Right = Callable[[int, int, int], bool]  # (topic, agent, strategy)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Where checkpoints are kept."""
    return tmp_path / "checkpoint"


def config(**options: Any) -> NetworkConfig:
    return NetworkConfig(**{"agents": 3, "strategies": NAMES, "hidden": 4, "heads": 2, **options})


def questions(count: int, seed: int = 0) -> list[TrainingQuestion]:
    """Questions of three topics in turn, each near its topic's direction."""
    rng = np.random.default_rng(seed)
    topics = np.eye(3, WIDTH)
    vectors = [topics[q % 3] + 0.1 * rng.normal(size=WIDTH) for q in range(count)]
    units = [vector / np.linalg.norm(vector) for vector in vectors]
    return [TrainingQuestion(f"q{q}", unit, f"t{q % 3}") for q, unit in enumerate(units)]


def answers_of(right: Right) -> Callable[[int, int, int], Outcome]:
    """Who is right says so; wrong answers differ by strategy."""

    def answer(q: int, i: int, s: int) -> Outcome:
        return ("right", True) if right(q % 3, i, s) else (f"wrong {s}", False)

    return answer


def planted(topic: int, i: int, s: int) -> bool:
    return s == topic


def trained(
    right: Right = planted, count: int = 36, net: dict[str, Any] | None = None, **how: Any
) -> tuple[NetworkState, TrainingLog]:
    state = NetworkState.fresh(config(**(net or {})), WIDTH)
    settings = TrainingSettings(**{"lr": 3e-2, **how})
    log = train_policies(state, questions(count), answers_of(right), settings)
    return state, log


def reached(state: NetworkState, right: Right = planted) -> float:
    """How often an agent is expected to be right on new questions."""
    new = questions(90, seed=9)
    chances = state.probabilities(np.stack([each.vector for each in new]))
    picked = [chances[q, i, s] * right(q % 3, i, s) for q, i, s in np.ndindex(*chances.shape)]
    return float(np.mean(picked) * chances.shape[2])


def same(a: NetworkState, b: NetworkState) -> bool:
    """All numbers equal, bit for bit."""
    one, other = a.tensors(), b.tensors()
    equal = all(torch.equal(one[name], other[name]) for name in one.keys() | other.keys())
    return equal and a.questions == b.questions and a.config == b.config


@pytest.mark.parametrize("full_information", [True, False])
def test_the_right_strategy_of_each_topic_is_found(full_information: bool) -> None:
    state, log = trained(epochs=14, full_information=full_information)
    assert reached(NetworkState.fresh(config(), WIDTH)) < 0.4
    assert reached(state) > 0.9
    assert log.steps[-1]["individual"] > log.steps[0]["individual"]
    assert log.steps[-1]["entropy"] < 0.5 < log.steps[0]["entropy"]


@pytest.mark.parametrize("policy", ["knn", "regression"])
@pytest.mark.parametrize("alike", some_by_day([True, False]))
def test_without_a_graph_it_is_found_and_saved(policy: str, alike: bool, tmp_path: Path) -> None:
    def right(topic: int, i: int, s: int) -> bool:
        return s == (topic + (0 if alike else i)) % 3

    state, _ = trained(right, count=60, net={"policy": policy, "alike": alike}, epochs=6)
    new = questions(90, seed=9)
    vectors = np.stack([each.vector for each in new])
    best = state.scores(vectors).argmax(axis=-1)
    assert np.mean([right(q % 3, i, int(best[q, i])) for q, i in np.ndindex(*best.shape)]) > 0.9
    assert state.pick(state.scores(vectors)[0], vectors[0], "any") == best[0].tolist()
    state.save(tmp_path)
    again = NetworkState.load(tmp_path)
    assert same(again, state)
    assert np.array_equal(again.scores(vectors), state.scores(vectors))


def test_what_was_never_asked_does_not_count_as_wrong() -> None:
    """Strategy c is asked on one question of each topic alone, where it is right."""
    state = NetworkState.fresh(config(agents=1, policy="knn"), WIDTH)
    asked = questions(30)
    known = KnownAnswers(30, 1, 3, answers_of(lambda topic, i, s: s == 2))
    known.ask((q, 0, s) for q in range(30) for s in range(3) if s < 2 or q < 3)
    vectors = np.stack([each.vector for each in asked])
    state.policies = fit_rival(state, vectors, known)
    assert (state.scores(vectors).argmax(axis=-1) == 2).all()


def test_policies_that_do_not_fit_their_settings_are_refused() -> None:
    state, _ = trained(count=12, net={"policy": "knn"}, epochs=1)
    weights = dict(state.policies.state_dict())
    damaged = {"asked": weights["asked"][:, :, :2], "right": weights["right"][1:]}
    damaged |= {"k": torch.tensor([torch.nan]), "more": torch.zeros(1)}
    for name, part in damaged.items():
        refused("its policies", policies_of, state.config, WIDTH, {**weights, name: part})


def test_a_buffer_of_one_batch_is_none_and_a_larger_one_repeats_old_episodes() -> None:
    net = {"gamma": 0.5, "evolve_every": 5}
    found = {size: trained(net=net, epochs=3, batch=8, buffer=size) for size in (None, 8, 24)}
    assert same(found[None][0], found[8][0])
    assert found[None][1] == found[8][1]
    plain, more = (found[size][1].steps for size in (None, 24))
    assert plain[0]["loss"] == pytest.approx(more[0]["loss"])  # nothing old yet
    assert plain[-1]["loss"] != more[-1]["loss"]
    assert reached(trained(epochs=14, buffer=24)[0]) > 0.85
    assert reached(trained(epochs=3, buffer=24, full_information=True)[0]) > 0.5


def test_supervised_learning_follows_the_consensus_and_not_the_agent() -> None:
    # Agent 0 is always wrong, and the two others carry the vote: it learns nothing of its own
    # strategies.
    def right(topic: int, i: int, s: int) -> bool:
        return i > 0 or s == 2

    supervised, log = trained(right, epochs=10, learning="supervised")
    reinforced, _ = trained(right, epochs=10)
    vectors = np.stack([each.vector for each in questions(30, seed=5)])
    assert all(step["consensus"] == 1 for step in log.steps)
    assert reinforced.probabilities(vectors)[:, 0, 2].mean() > 0.9
    assert supervised.probabilities(vectors)[:, 0, 2].mean() < 0.9
    assert log.steps[0]["reward"] < 1  # what is logged is the agents' own reward


def test_gamma_lets_the_tracker_choose() -> None:
    vectors = np.stack([each.vector for each in questions(30, seed=5)])
    nets = [{"gamma": gamma, "merge": 0.99} for gamma in (0.0, 0.7, 20.0)]
    found = [trained(epochs=1, lr=1e-9, net=net)[0].probabilities(vectors) for net in nets]
    by_topic = [np.mean([one[q, :, q % 3].mean() for q in range(30)]) for one in found]
    assert by_topic[0] < by_topic[1] < by_topic[2]


@pytest.mark.nightly
def test_epochs_are_chosen_on_held_out_questions() -> None:
    how = {"full_information": True, "epochs": "auto", "max_epochs": 10, "folds": 3, "patience": 3}
    state, log = trained(**how)
    assert len(log.selection) <= 10
    assert log.selection[log.epochs - 1] >= max(log.selection) - 0.005 > 0.8
    assert len(log.steps) == log.epochs * 5
    assert same(state, trained(full_information=True, epochs=log.epochs)[0])


def test_the_graph_follows_trust_at_its_times() -> None:
    net: dict[str, Any] = {"strategies": ("any",), "agents": 6, "evolve_every": 5}
    net |= {"min_degree": 1, "k": 2, "p": 0.0}
    state, log = trained(lambda topic, i, s: i in (0, 2, 4), net=net, epochs=1)
    assert [graph["questions"] for graph in log.graphs] == [0, 5, 10, 15, 20, 25, 30, 35, 36]
    # one is kept, so that none is alone
    assert state.adjacency[[1, 3, 5]].sum(axis=1).tolist() == [1, 1, 1]
    assert state.adjacency[np.ix_([0, 2, 4], [0, 2, 4])].sum() == 6
    assert (np.array(log.graphs[-1]["adjacency"], dtype=bool) == state.adjacency).all()


@pytest.mark.parametrize("weight", ["accuracy", "log_odds", "fitted", "conditional"])
def test_votes_are_weighed_by_what_was_learned(weight: str) -> None:
    # The two worse agents agree on wrong answers, as a majority would.
    right = lambda topic, i, s: i == 0  # noqa: E731
    net = {"strategies": ("any",), "weight": weight}
    state, _ = trained(right, net=net, epochs=1)
    vector = questions(1, seed=7)[0].vector
    weights = state.weights(vector, [0, 0, 0])
    assert weights[0] > weights[1] + weights[2]
    assert weighted_consensus(["x", "y", "y"], weights).answer == "x"


def test_copies_of_one_lm_share_the_weights_of_strategies() -> None:
    right = lambda topic, i, s: s == 2  # noqa: E731
    net = {"alike": True, "weight": "fitted", "distinct": True}
    for full_information in (True, False):
        state, _ = trained(right, net=net, epochs=1, full_information=full_information)
        assert (state.vote.base == state.vote.base[0]).all()
        assert state.vote.base[0].argmax() == 2
        assert state.vote.base[0, 2] > state.vote.base[0, :2].sum()


def slowly(right: Right, asked: list[tuple[int, int, int]] | None = None) -> Callable[..., Any]:
    """Live answers that come in any order."""

    async def answer(q: int, i: int, s: int) -> Outcome:
        if asked is not None:
            asked.append((q, i, s))
        await asyncio.sleep(random.random() * 0.003)
        return answers_of(right)(q, i, s)

    return answer


class Stop(Exception):  # noqa: N818
    pass


NETS: list[dict[str, Any]] = [
    {"dropout": 0.2, "distinct": True, "evolve_every": 7},
    {"trust_rule": "averaged", "weight": "fitted", "features": "question"},
]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("net", "buffer"),
    [(NETS[0], None), (NETS[1], None), ({"evolve_every": 7, "k": 2, "agents": 5}, 11)],
)
@pytest.mark.parametrize("stops", [[3], [9], [1, 1, 6, 8]])
def test_a_stopped_training_ends_as_if_it_never_was(kept, stops, net, buffer):
    given: Any = {"batch": 4, "checkpoint_every": 2, "baseline": "mean", "buffer": buffer}
    how = TrainingSettings(lr=1e-2, epochs=2, **given)
    whole = NetworkState.fresh(config(**net), WIDTH)
    log = train_policies(whole, questions(20), answers_of(planted), how)

    for stop in stops:

        def stopping(line: dict[str, Any], stop: int = stop) -> None:
            if line["step"] == stop:
                raise Stop

        cut, seen = NetworkState.fresh(config(**net), WIDTH), {"progress": stopping}
        with pytest.raises(Stop):
            train_policies(cut, questions(20), slowly(planted), how, checkpoint=kept, **seen)
    state, asked = NetworkState.fresh(config(**net), WIDTH), list[tuple[int, int, int]]()
    again = train_policies(state, questions(20), slowly(planted, asked), how, checkpoint=kept)
    assert same(state, whole)
    assert again == log
    assert len(asked) == len(set(asked))  # nobody is asked for the same twice
    if stops == [9]:
        # what the checkpoint knows is not asked again
        assert len(asked) <= 2 * 4 * len(state.adjacency)
    once_more = NetworkState.fresh(config(**net), WIDTH)
    again = train_policies(once_more, questions(20), answers_of(planted), how, checkpoint=kept)
    assert again == log
    assert same(once_more, whole)
    assert list(kept.parent.iterdir()) == [kept]


def test_a_checkpoint_of_another_training_is_refused(kept: Path) -> None:
    how = TrainingSettings(epochs=1)

    def run(net: dict[str, Any], count: int, how: TrainingSettings) -> None:
        state = NetworkState.fresh(config(**net), WIDTH)
        train_policies(state, questions(count), answers_of(planted), how, checkpoint=kept)

    run({}, 10, how)
    for other in ([{"seed": 5}, 10, how], [{}, 11, how], [{}, 10, TrainingSettings(epochs=2)]):
        refused("checkpoint of another training", run, *other)
    kept.write_bytes(b"no tensors")
    refused("delete it to start again", run, {}, 10, how)


def test_embeddings_that_do_not_fit_are_refused() -> None:
    for vector, said in ((np.ones(5), "width 12"), (np.full(WIDTH, np.nan), "zero or not finite")):
        state, asked = NetworkState.fresh(config(), WIDTH), [TrainingQuestion("x", vector)]
        refused(said, train_policies, state, asked, answers_of(planted), TrainingSettings(epochs=1))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"learning": "magic"}, "learning is 'magic'"),
        ({"lr": "1e-3"}, "lr is '1e-3'"),
        ({"epochs": "auto"}, "full_information"),
        ({"learning": "supervised", "reward": "difference"}, "neither reward nor baseline"),
        ({"delta_d": 0.05}, "delta_d .* must be below delta_p"),
        ({"strategies": ["cot", "cot"]}, "named twice"),
        ({"gama": 1}, "no setting 'gama'"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], said: str) -> None:
    refused(said, configured, settings)


def test_presets_and_settings_by_name() -> None:
    assert configured({}) == (NetworkConfig(), TrainingSettings())
    given = {"gamma": 0.3, "lr": 0.1, "strategies": ["cot", "simple"]}
    network, training = configured(given, "supervised")
    assert (network.gamma, network.strategies) == (0.3, ("cot", "simple"))
    assert (training.lr, training.learning) == (0.1, "supervised")
    for name in PRESETS:
        pair = configured({}, name)
        assert NetworkConfig.from_dict(json.loads(json.dumps(pair[0].to_dict()))) == pair[0]
        assert TrainingSettings.from_dict(json.loads(json.dumps(pair[1].to_dict()))) == pair[1]
    paper, learning = configured({}, "paper")
    assert paper.gat(768).width == 768
    assert (paper.features, paper.trust_edges) == ("question", False)
    assert (paper.centred, learning.clip) == (False, None)
    assert configured({}, "gamma_0")[0] == replace(paper, gamma=0.0)
    assert (NetworkConfig().agents, NetworkConfig().k) == (5, 2)
    refused("no preset 'best'", configured, {}, "best")
