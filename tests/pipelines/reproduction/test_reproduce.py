"""Reproducing published tables: presets are the papers' figures, and rows run, resume and are
compared.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from children import Child, command
from cli_helpers import KEY, folkmoot, isolate, lm, rows_of
from stores import new_store

import folkmoot as fm
from folkmoot.modules.network.config import PAPER_STRATEGIES
from folkmoot.optimizers.policy.settings import PRESETS, TrainingSettings
from folkmoot.pipelines.data import catalogue
from folkmoot.pipelines.programs.resolve import program_of
from folkmoot.pipelines.reproduction.lines import Line
from folkmoot.pipelines.reproduction.lms import PaperLMs, by_model
from folkmoot.pipelines.reproduction.measures import FIGURES, RULES, derived, measured, ratio
from folkmoot.pipelines.reproduction.plan import plan_reproduction
from folkmoot.pipelines.reproduction.presets import FOLDER, PublishedRow, models, papers, select
from folkmoot.pipelines.reproduction.reproduce import lines
from folkmoot.pipelines.reproduction.request import ReproduceRequest
from folkmoot.pipelines.testing.server import ScriptedServer, first_option
from folkmoot.pipelines.tracking.kinds import line_figures

ALL_ROWS = [row for paper in papers().values() for row in paper.rows()]
RUNNABLE = [row for row in ALL_ROWS if row.preset is not None]
Key = tuple[str, str, str, str]


# What the papers print in their text, and the file of the specification does not have.
BESIDE: dict[Key, float] = {
    ("agents-of-commonsense", "across-configurations", "table-2.consensus", "rate"): 98,
    ("agents-of-commonsense", "across-configurations", "table-3.judge", "accuracy"): 83.72,
    ("marl-gat", "discussion", "gsm1k.gpt-4o", "accuracy"): 92.9,
    ("marl-gat", "discussion", "gsm1k.gpt-4", "accuracy"): 92.3,
    ("marl-gat", "discussion", "gsm1k.llama-3.1-8b", "accuracy"): 69.0,
    ("marl-gat", "discussion", "arc-challenge.gpt-4", "accuracy"): 96.4,
    ("marl-gat", "discussion", "arc-challenge.llama-3.1-405b", "accuracy"): 96.9,
    ("marl-gat", "discussion", "arc-challenge.llama-3.1-8b", "accuracy"): 83.4,
    ("reasoning-as-a-team", "discussion", "beam-retriever", "em"): 72.7,
    ("reasoning-as-a-team", "discussion", "beam-retriever", "f1"): 85.0,
}

# The published figures, read by this test in its own way
# -------------------------------------------------


def published() -> dict[str, Any]:
    """`published-results.yaml` of the project's specification."""
    data = os.environ.get("FOLKMOOT_DATA")
    places = [
        os.environ.get("FOLKMOOT_PUBLISHED"),
        data and Path(data) / "../spec/published-results.yaml",
    ]
    places.append(Path(fm.__file__).parent / "../spec/published-results.yaml")
    for place in places:
        if place and Path(place).is_file():
            found: dict[str, Any] = yaml.safe_load(Path(place).read_text())
            return found
    pytest.skip("published-results.yaml is not here: FOLKMOOT_PUBLISHED names it")


class Reader:
    """Hands out parts of the file, and notes every number that was read."""

    def __init__(self, tree: Any) -> None:
        self.left = dict(_leaves(tree))

    def take(self, *path: Any) -> Any:
        return self.left.pop(path)


def _leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    items = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else None
    )
    if items is None:
        yield path, tree
        return
    for name, value in items:
        yield from _leaves(value, (*path, name))


def expected(
    tree: Mapping[str, Any], read: Reader
) -> dict[Key, tuple[float | None, dict[str, Any]]]:
    """Every published figure by paper, table, row and name, with what the row has to run."""
    found: dict[Key, tuple[float | None, dict[str, Any]]] = {}
    for add in (_commonsense, _marl, _team, _causal):
        add(tree, read, found)
    for key, value in BESIDE.items():
        found[key] = value, {}
    for key in [key for key in found if key[1:2] == ("table-1",) and key[3] == "consensus"]:
        together, wants = found[key]
        gain = round(together - found[*key[:3], "individual"][0], 2)
        found[*key[:3], "improvement"] = gain, wants
    for way in ("cot", "react"):  # the paper prints them in both tables
        key = ("reasoning-as-a-team", "table-1", f"palm-540b.{way}", "em")
        found[key[0], "table-2", *key[2:]] = found[key]
    return found


def _commonsense(tree: Mapping[str, Any], read: Reader, found: dict[Any, Any]) -> None:
    name = "agents-of-commonsense"
    paper = tree[name]
    short = {"gpt-4o-mini": "gpt", "gemini-2.0-flash-001": "gemini"}
    source = read.take(name, "dataset", "name"), read.take(name, "dataset", "split")
    assert source == ("commonsenseqa", "validation")
    assert catalogue.find(source[0]).splits[source[1]] == read.take(name, "dataset", "rows")
    found[name, "people", "human", "accuracy"] = read.take(name, "human_accuracy"), {}
    for at, row in enumerate(paper["table-1"]):
        told = {key: read.take(name, "table-1", at, key) for key in row}
        key = (name, "table-1", f"{told['model'].lower()}.{told['prompt']}", "accuracy")
        wants = {"model": told["model"], "data": source, "program": {"strategy": told["prompt"]}}
        found[key] = told["accuracy"], wants
    for at, _ in enumerate(paper["ensembles"]):
        vote = read.take(name, "ensembles", at, "vote")
        key = (name, "ensembles", vote, "accuracy")
        found[key] = (
            read.take(name, "ensembles", at, "accuracy"),
            {"data": source, "program": {"vote": vote}},
        )
    for at, row in enumerate(paper["role-baselines"]):
        told = {key: read.take(name, "role-baselines", at, key) for key in row}
        if "model" in told:
            key = (name, "role-baselines", f"{short[told['model']]}.{told['role']}", "accuracy")
            wants = {"model": told["model"], "data": source, "program": {"role": told["role"]}}
            found[key] = told["accuracy"], wants
        elif "role" in told:
            assert "7 to 9 points below intuitive" in told["note"]
            for model, who in short.items():
                wants = {"model": model, "data": source, "program": {"role": told["role"]}}
                found[name, "role-baselines", f"{who}.{told['role']}", "accuracy"] = None, wants
        else:
            for figure in ("correct", "wrong"):
                share = 100 * told[f"all_six_{figure}"] / told["of"]
                found[name, "role-baselines", "all-six", f"all_{figure}"] = share, {}
    for table, start in product(("table-2", "table-3", "table-4"), [source]):
        for at, row in enumerate(paper[table]):
            told = {key: read.take(name, table, at, key) for key in row if key != "order"}
            order = [
                read.take(name, table, at, "order", place) for place in range(len(row["order"]))
            ]
            model = told.get("model") or (
                "gpt-4o-mini" if table == "table-3" else "gemini-2.0-flash-001"
            )
            program = {"roles": order, "tie_break": told["tie_break"], "max_rounds": 3}
            wants = {"model": model, "data": start, "program": program}
            found[name, table, told["id"], "accuracy"] = told["accuracy"], wants
            if told["judge_accuracy"] is not None:
                found[name, table, told["id"], "judge_accuracy"] = told["judge_accuracy"], wants
    across = name, "across-configurations"
    for role in paper["across-configurations"]["role_accuracy"]:
        found[*across, f"role.{role}", "accuracy"] = read.take(*across, "role_accuracy", role), {}
    for key, row, figure in (
        ("judge_accuracy_when_called", "judge", "accuracy"),
        ("consensus_rate", "consensus", "rate"),
        ("resolved_after_round_1", "round-1", "rate"),
        ("reasoner_revisions_that_correct", "reasoner-revisions", "share_to_right"),
    ):
        found[*across, row, figure] = read.take(*across, key), {}
    never = read.take(*across, "questions_failed_by_every_configuration")
    found[*across, "never-right", "all_wrong"] = 100 * never / 1221, {}


def _marl(tree: Mapping[str, Any], read: Reader, found: dict[Any, Any]) -> None:
    name = "marl-gat"
    trained = read.take(name, "datasets", "arc-challenge", "train_sample")
    tested = read.take(name, "datasets", "arc-challenge", "test_sample")
    assert read.take(name, "datasets", "arc-challenge", "train_split") == "train"
    assert read.take(name, "datasets", "gsm8k", "train_sample") == trained
    assert read.take(name, "datasets", "gsm8k", "role") == "train only"
    assert read.take(name, "datasets", "gsm1k", "test") == "evaluation only"
    learnt = {
        "arc-challenge": "arc-challenge",
        "gsm1k": read.take(name, "datasets", "gsm1k", "trained_on"),
    }
    spelled = {"llama-3.1-8b": "Llama-3.1-8B"}

    def network(data: str, model: str, preset: str) -> dict[str, Any]:
        return {
            "model": spelled.get(model, model),
            "data": (data, "test"),
            "limit": tested,
            "train": (learnt[data], "train", trained),
            "training": preset,
        }

    for at, row in enumerate(tree[name]["table-1"]):
        told = {key: read.take(name, "table-1", at, key) for key in row}
        start, wants = (
            f"{told['dataset']}.{told['model']}",
            network(told["dataset"], told["model"], "paper"),
        )
        alone = {**wants, "train": None, "training": None, "program": {"strategy": "zero_shot"}}
        found[name, "table-1", f"{start}.zero-shot", "accuracy"] = told["zero_shot"], alone
        for figure in ("individual", "consensus"):
            found[name, "table-1", f"{start}.network", figure] = told[figure], wants
    for table, key, rows in (
        ("table-2", "learning", {"supervised": "supervised", "reinforcement": "paper"}),
        ("table-4", "gamma", {0.0: "gamma_0", 0.1: "paper", 0.7: "gamma_0.7"}),
    ):
        for at, _ in enumerate(tree[name][table]):
            value = read.take(name, table, at, key)
            row = value if key == "learning" else f"gamma-{value}"
            wants = network("gsm1k", "gpt-4.1-nano", rows[value])
            for figure in ("individual", "consensus"):
                found[name, table, row, figure] = read.take(name, table, at, figure), wants
    for at, _ in enumerate(tree[name]["table-3"]):
        data, model = (read.take(name, "table-3", at, key) for key in ("dataset", "model"))
        for reward, preset in (("base", "paper"), ("consensus_aware", "consensus_aware")):
            row = f"{data}.{model}.{reward.replace('_', '-')}"
            figure = read.take(name, "table-3", at, reward)
            found[name, "table-3", row, "consensus"] = figure, network(data, model, preset)


def _team(tree: Mapping[str, Any], read: Reader, found: dict[Any, Any]) -> None:
    name = "reasoning-as-a-team"
    data = {"data": ("hotpotqa", "validation")}

    def add(
        table: str, row: str, model: Any, workers: list[str], steps: int = 8, *path: Any
    ) -> None:
        program = {
            "workers": workers,
            "max_steps": steps,
            "max_retries": 3 if len(workers) > 1 else 0,
        }
        for figure in ("em", "f1"):
            value = read.take(*path, figure) if path else None
            found[name, table, row, figure] = value, {**data, "model": model, "program": program}

    for table, second in (("table-1", "cautious"), ("table-2", "neutral")):
        for at, row in enumerate(tree[name][table]):
            model = read.take(name, table, at, "model")
            if "method" in row:
                way, em = (read.take(name, table, at, key) for key in ("method", "em"))
                program = {
                    "cot": {"strategy": "cot"},
                    "react": {"workers": ["neutral"], "max_retries": 0},
                }
                wants = {**data, "model": model, "program": program[way]}
                found[name, table, f"palm-540b.{way}", "em"] = em, wants
                continue
            for config, workers in (
                ("bold", ["bold"]),
                (second, [second]),
                ("team", ["bold", second]),
            ):
                add(table, f"{model}.{config}", model, workers, 8, name, table, at, config)
    both = ["bold", "cautious"]
    for at, (row, model, workers) in enumerate(
        (
            ("bold", "grok-3", ["bold"]),
            ("cautious", "grok-3", ["cautious"]),
            ("team.grok-3", "grok-3", both),
            ("team.deepseek-chat", {"*": "grok-3", "supervisor": "deepseek-chat"}, both),
        )
    ):
        said = read.take(name, "table-3", at, "configuration")
        assert row.rpartition(".")[2] in said
        add("table-3", row, model, workers, 8, name, "table-3", at)
    for at, row in enumerate(tree[name]["table-4"]):
        workers = [
            read.take(name, "table-4", at, "team", place) for place in range(len(row["team"]))
        ]
        add("table-4", "-".join(workers), "deepseek-chat", workers, 8, name, "table-4", at)
    figure = tree[name]["figure-3"]
    model = read.take(name, "figure-3", "model")
    assert "near 10 steps" in read.take(name, "figure-3", "finding")
    for at, _ in enumerate(figure["step_limits"]):
        limit = read.take(name, "figure-3", "step_limits", at)
        for row, workers in (("team", both), ("bold", ["bold"]), ("cautious", ["cautious"])):
            add("figure-3", f"{row}.{limit}", model, workers, limit)


def _causal(tree: Mapping[str, Any], read: Reader, found: dict[Any, Any]) -> None:
    name = "causalgpt-caco-cot"
    paper = tree[name]
    splits = {"scienceqa": "test", "com2sense": "validation", "boolq": "validation"}
    for data, split in splits.items():
        said = read.take(name, "datasets", data, "split")
        assert catalogue.find(data).split(said) == split
    assert (
        read.take(name, "datasets", "boolq", "closed_book")
        is catalogue.find("boolq").closed_book
        is True
    )
    assert (
        read.take(name, "datasets", "scienceqa", "rows")
        == catalogue.find("scienceqa").splits["test"]
    )
    assert "no image" in read.take(name, "datasets", "scienceqa", "subset")
    drawn = {key: read.take(name, "sampling", key) for key in ("temperature", "top_p")}
    often = {
        key: read.take(name, "sampling", "self_consistency", key)
        for key in paper["sampling"]["self_consistency"]
    }
    samples = often.pop("samples")
    depth = read.take(name, "figure-3", "d_max")
    caco = {"program": "causal", "d_max": depth, "sampling": drawn, "without": []}
    ways: dict[str, dict[str, Any]] = {
        "base": {"strategy": "simple", "sampling": drawn},
        "cot": {"strategy": "cot", "sampling": drawn},
        "sc-cot": {"strategy": "self_consistency", "samples": samples, "sampling": often},
        "c-cot": {"strategy": "complexity", "samples": samples, "sampling": often},
        "l2m-cot": {"strategy": "least_to_most", "sampling": drawn},
        "caco-cot": {**caco, "reasoners": 2, "evaluators": 1},
    }

    def wants(model: str, way: dict[str, Any], data: str, shots: int) -> dict[str, Any]:
        program = {**way, "demonstration": data if shots else None}
        return {"model": model, "data": (data, splits[data]), "program": program}

    for shots, setting in enumerate(("zero-shot", "one-shot")):
        for model, scored in paper["table-1"][setting].items():
            for way, (at, data) in product(scored, enumerate(splits)):
                value = read.take(name, "table-1", setting, model, way, at)
                key = (name, "table-1", f"{setting}.{model}.{way}.{data}", "accuracy")
                found[key] = value, wants(model, ways[way], data, shots)
    figures = ("natural", "social", "language", "grades_1_6", "grades_7_12", "average")
    for at, _ in enumerate(paper["table-2"]):
        way, _, sizes = read.take(name, "table-2", at, "method").partition(" ")
        shots = read.take(name, "table-2", at, "shots")
        told = ways[way]
        if sizes:
            told = {**caco, "reasoners": int(sizes[1]), "evaluators": int(sizes[4])}
        row = ".".join(
            [("zero-shot", "one-shot")[shots], way, *([sizes.replace(" ", "")] if sizes else [])]
        )
        for place, figure in enumerate(figures):
            value = read.take(name, "table-2", at, "scores", place)
            found[name, "table-2", row, figure] = (
                value,
                wants("gpt-3.5-turbo", told, "scienceqa", shots),
            )
    parts = {
        "no_concept_explanation": ["concepts"],
        "no_non_causal_evaluation": ["non_causal"],
        "no_counterfactual_evaluation": ["counterfactual"],
        "no_reconsideration": ["reconsideration"],
        "full": [],
    }
    for model, scored in paper["table-3"].items():
        for without in scored:
            value = read.take(name, "table-3", model, without)
            told = {**ways["caco-cot"], "without": parts[without]}
            key = (name, "table-3", f"{model}.{without.replace('_', '-')}", "accuracy")
            found[key] = value, wants(model, told, "com2sense", 0)
    assert "round 1" in read.take(name, "figure-3", "finding")
    for shots, setting in enumerate(("zero-shot", "one-shot")):
        key = (name, "figure-3", setting, "consensus_in_round_1")
        found[key] = None, wants("gpt-3.5-turbo", ways["caco-cot"], "scienceqa", shots)


def test_presets_and_the_published_figures_agree_one_to_one() -> None:
    tree = published()
    read = Reader(tree)
    wanted = expected(tree, read)
    assert not read.left, "published figures that no row stands for"
    ours = {
        (row.paper, row.table, row.id, figure.name): figure.value
        for row in ALL_ROWS
        for figure in row.figures
    }
    assert ours.keys() == wanted.keys()
    assert ours == {
        key: pytest.approx(value) for key, (value, _) in wanted.items() if value is not None
    } | {key: None for key, (value, _) in wanted.items() if value is None}


def test_presets_run_what_was_published() -> None:
    tree = published()
    rows = {(row.paper, row.table, row.id): row for row in ALL_ROWS}
    for key, (_, wants) in expected(tree, Reader(tree)).items():
        preset = rows[key[:3]].preset
        assert (preset is None) == (not wants), key
        if preset is None:
            continue
        assert (preset.data.name, preset.data.split) == wants["data"], key
        model = wants.get("model")
        if model is not None:
            assert preset.models == (model if isinstance(model, dict) else {"*": model}), key
        if "limit" in wants:
            assert preset.data.limit == wants["limit"], key
        if "training" in wants:
            train = preset.train and (preset.train.name, preset.train.split, preset.train.limit)
            assert (preset.training, train) == (wants["training"], wants["train"]), key
        if "program" in wants:
            described = program_of(dict(preset.program)).describe()
            told = {name: described.get(name) for name in wants["program"]}
            assert told == wants["program"], key


# The package's own copy
# ----------------------------------------------------------------------------------


def test_every_row_is_of_a_kind_and_names_what_exists() -> None:
    assert len(ALL_ROWS) == len({row.name for row in ALL_ROWS}) > 150
    for row in ALL_ROWS:
        assert [row.preset is not None, row.derive is not None, row.reason is not None].count(
            True
        ) == 1, row
        assert row.figures, row
        for figure in row.figures:
            assert figure.value is None or 0 < figure.value <= 100, row
        if row.derive is not None:
            assert row.derive.partition(":")[0] in RULES
            assert papers()[row.paper].sources(row)
    for row in RUNNABLE:
        assert row.preset is not None
        assert {figure.name for figure in row.figures} <= FIGURES
        assert set(row.preset.models.values()) <= models().keys()
        for sample in (row.preset.data, row.preset.train):
            if sample is not None:
                spec = catalogue.find(sample.name)
                assert spec is not None
                assert spec.split(sample.split) == sample.split
        assert row.preset.training is None or row.preset.training in PRESETS


def test_presets_have_no_key_that_is_not_read() -> None:
    own = {"published", "model", "data", "program", "train", "derive", "from", "reason", "note"}
    for name in papers():
        told = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
        assert told.keys() <= {"title", "prompt_layout", "note", "data", "programs", "tables"}
        for table in told["tables"].values():
            assert table.keys() <= {
                "title",
                "note",
                "data",
                "model",
                "program",
                "from",
                "plot",
                "rows",
            }
            for row in table["rows"].values():
                assert row.keys() <= own
                assert row.get("train", {}).keys() <= {"data", "preset"}


def test_every_program_of_a_row_can_be_made() -> None:
    for told in {
        json.dumps(row.preset.program): row.preset for row in RUNNABLE if row.preset
    }.values():
        if not told.is_network:
            seats = program_of(dict(told.program)).seats()
            assert all(name == "*" or name in seats for name in told.models)


def test_the_networks_of_the_presets_are_the_papers() -> None:
    networks = [row.preset.program for row in RUNNABLE if row.preset and row.preset.is_network]
    assert networks
    for told in networks:
        assert told["agents"] == 10
        assert tuple(told["strategies"]) == PAPER_STRATEGIES
        assert told["epochs"] == TrainingSettings().epochs


# Choosing rows and LMs
# -----------------------------------------------------------------------------------


def test_rows_are_chosen_by_name_by_their_first_parts_and_by_pattern() -> None:
    table = "causalgpt-caco-cot/table-1"
    assert len(select(table).rows) == 60
    assert [row.id for row in select(f"{table}/one-shot.claude.cot.boolq").rows] == [
        "one-shot.claude.cot.boolq"
    ]
    assert len(select(f"{table}/one-shot.claude").rows) == 15
    assert len(select(f"{table}/*.boolq").rows) == 20


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("agents-of-comonsense/table-1", "did you mean 'agents-of-commonsense'?"),
        ("marl-gat", "name one of its tables too, there are table-1"),
        ("marl-gat/tabel-1", "did you mean 'table-1'?"),
        ("agents-of-commonsense/table-2/EX1_gtp", "did you mean 'EX1_gpt'?"),
        ("reasoning-as-a-team/table-1/*.neutral", "--list reasoning-as-a-team/table-1"),
        ("", "there is no paper"),
    ],
)
def test_an_unknown_paper_table_or_row_is_named(spec: str, said: str) -> None:
    with pytest.raises(fm.UserError, match=said.replace("?", r"\?").replace("*", r"\*")):
        select(spec)


def seats(spec: str, *names: str) -> dict[str, str]:
    preset = select(spec).rows[0].preset
    assert preset is not None
    return PaperLMs(ReproduceRequest(spec, lm=names)).seats(preset)


def test_one_lm_for_all_and_one_for_a_model() -> None:
    spec = "reasoning-as-a-team/table-3/team.deepseek-chat"
    assert seats(spec, "openai/x") == {"*": "openai/x", "supervisor": "openai/x"}
    assert seats(spec, "openai/x", "DeepSeek-Chat=openai/y") == {
        "*": "openai/x",
        "supervisor": "openai/y",
    }
    assert seats(spec)["supervisor"] == models()["deepseek-chat"].name


def test_an_ensemble_has_the_lm_of_each_member() -> None:
    found = seats("agents-of-commonsense/ensembles/majority", "openai/x", "Mistral-7B=openai/y")
    assert found == {f"simple.{place}": "openai/x" for place in range(5)} | {"simple.5": "openai/y"}


def test_lm_options_are_read_and_refused() -> None:
    assert by_model(["ollama/a:b=c"], "--lm") == {"*": "ollama/a:b=c"}
    assert by_model(["http://h/v1?a=b"], "--api-base") == {"*": "http://h/v1?a=b"}
    with pytest.raises(fm.UserError, match="did you mean 'gpt-4o-mini'"):
        by_model(["gpt-4o-mni=openai/x"], "--lm")
    with pytest.raises(fm.UserError, match="given twice for all models"):
        by_model(["openai/x", "openai/y"], "--lm")
    with pytest.raises(fm.UserError, match="PaLM-540B is offered by nobody"):
        seats("reasoning-as-a-team/table-1/palm-540b.cot")


# Measuring
# -----------------------------------------------------------------------------------------------


def test_a_ratio_of_single_chances_has_wilsons_interval() -> None:
    from folkmoot.optimizers.statistics.statistics import wilson

    found = ratio([1, 0, 1, 1], [1, 1, 1, 1])
    assert found is not None
    assert (found.value, found.low, found.high, found.n) == (0.75, *wilson(3, 4), 4)


def test_a_ratio_over_questions_is_bootstrapped_by_question() -> None:
    # Of 40 questions half have four hits in four chances, half none: one question, one piece of
    # evidence.
    found = ratio([4, 0] * 20, [4, 4] * 20)
    assert found is not None
    assert found.value == 0.5
    assert found.n == 40
    assert 0.25 < found.high - found.low < 0.35  # of 160 independent chances it would be 0.15
    sure = ratio([3.0], [3.0])
    assert sure is not None
    assert sure.low < 0.3 < sure.high == 1
    assert ratio([], []) is None


def test_the_improvement_is_the_consensus_less_its_agents_and_may_be_below_zero() -> None:
    def gain(*rows: tuple[str, str]) -> Any:
        return measured(
            "improvement", Fixed({}, *(_voted(str(at), *row) for at, row in enumerate(rows)))
        )

    found = gain(*[("A", "AABC"), ("B", "AABC")] * 20)
    assert found.value == pytest.approx((0.5 - 0.5) / 2)
    assert found.low < 0 < found.high
    worse = gain(*[("B", "AAB")] * 20)
    assert (worse.value, worse.n) == (pytest.approx(-2 / 3), 20)
    equal = gain(*[("A", "AAA")] * 20)
    assert equal.value == 0
    # twenty equal answers do not show that there is no difference
    assert equal.low == -equal.high < 0
    assert gain() is None


def _voted(name: str, answer: str, given: str) -> dict[str, Any]:
    row = talk(name, *[(f"agent_{at}", one) for at, one in enumerate(given)])
    return {**row, "answer": answer, "correct": answer == "A"}


class Fixed:
    """Stands for an evaluation: rows, and the program that gave them."""

    def __init__(self, program: dict[str, Any], *rows: dict[str, Any]) -> None:
        self.rows = rows
        self.summary = type("S", (), {"run": {"program": program}, "scores": {}, "groups": {}})()


def talk(
    name: str, *said: tuple[str, str], judge: str | None = None, consensus: int | None = None
) -> Any:
    """A row of a deliberation of gold A; `said` are (agent, answer), two a round."""
    turns = [
        {"agent": agent, "round": 1 + place // 2, "answer": answer, "text": ""}
        for place, (agent, answer) in enumerate(said)
    ]
    answer = judge or (said[-1][1] if consensus else said[0][1])
    return {
        "id": name,
        "kind": "choice",
        "choices": {"A": "bank", "B": "mall", "C": "den"},
        "gold": "A",
        "answer": answer,
        "correct": answer == "A",
        "decided_by": "judge" if judge else "consensus",
        "consensus_round": consensus,
        "rounds": len(said) // 2,
        "transcript": turns,
        "usage": {"calls": len(said), "prompt_tokens": 1, "completion_tokens": 1},
        "error": None,
    }


def test_figures_over_several_runs() -> None:
    program = {"roles": ["intuitive", "reasoner"], "tie_break": "judge"}
    first = Fixed(
        program,
        talk("q1", ("intuitive", "A"), ("reasoner", "A"), consensus=1),
        talk(
            "q2",
            ("intuitive", "B"),
            ("reasoner", "C"),
            ("intuitive", "B"),
            ("reasoner", "A"),
            judge="A",
        ),
    )
    second = Fixed(
        program,
        talk(
            "q1",
            ("intuitive", "B"),
            ("reasoner", "A"),
            ("intuitive", "A"),
            ("reasoner", "A"),
            consensus=2,
        ),
        talk(
            "q2",
            ("intuitive", "B"),
            ("reasoner", "A"),
            ("intuitive", "B"),
            ("reasoner", "B"),
            consensus=2,
        ),
    )
    runs: Any = [first, second]

    def of(rule: str, figure: str = "accuracy") -> Any:
        found = derived(rule, figure, runs)
        return found and (round(found.value, 4), found.n)

    assert of("role:intuitive") == (0.5, 2)
    assert of("role:reasoner") == (0.75, 2)
    assert of("role:critic") is None
    assert of("judge") == (1.0, 1)
    assert of("consensus") == (0.75, 2)
    assert of("resolved:1") == (0.25, 2)
    assert of("revisions:reasoner") == (0.5, 1)  # C to A in one run, A to B in the other
    assert of("agreement", "all_correct") == (0.5, 2)
    assert of("agreement", "all_wrong") == (0.0, 2)
    runs.append(Fixed(program, talk("q1", ("intuitive", "A"), ("reasoner", "A"), consensus=1)))
    assert of("agreement", "all_correct") == (1.0, 1)  # q2 is not in every run
    judged = measured("judge_accuracy", runs[0])
    assert judged is not None
    assert judged.value == 1.0
    strongest: Any = Fixed(
        {"roles": [], "tie_break": "majority"}, talk("q", ("a", "B"), ("b", "A"))
    )
    assert measured("judge_accuracy", strongest) is None


# Running
# -------------------------------------------------------------------------------------------------

QUESTIONS: dict[str, Callable[[int], dict[str, Any]]] = {
    "commonsenseqa-validation": lambda i: {
        "choices": {"A": "bank", "B": "mall"},
        "answer": "AB"[i % 2],
    },
    "arc-challenge-train": lambda i: {"choices": {"A": "ice", "B": "sand"}, "answer": "A"},
    "arc-challenge-test": lambda i: {"choices": {"A": "ice", "B": "sand"}, "answer": "AB"[i % 2]},
    "hotpotqa-validation": lambda i: {
        "answer": "because it fits",
        "choices": None,
        "meta": {"type": ("bridge", "comparison")[i % 2]},
    },
    "com2sense-validation": lambda i: {"choices": None, "answer": ("True", "False")[i % 2]},
    "scienceqa-test": lambda i: {
        "choices": {"A": "ice", "B": "sand"},
        "answer": "A",
        "meta": {
            "subject": ("natural science", "language science")[i % 2],
            "grade": 3 + 6 * (i % 2),
        },
    },
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with made-up questions under the data sets' names, and one document."""
    isolate(tmp_path, monkeypatch)
    data = tmp_path / "data"
    data.mkdir()
    for name, fields in QUESTIONS.items():
        rows = [
            {"id": f"{name}-{i}", "question": f"Is {name} {i} so?", **fields(i)} for i in range(12)
        ]
        (data / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = {"id": "1", "title": "Bank", "text": "A bank keeps things."}
    (tmp_path / "documents.jsonl").write_text(json.dumps(document) + "\n")
    monkeypatch.setenv("FOLKMOOT_DATA", str(data))
    return tmp_path


def acting(body: dict[str, Any]) -> str:
    """A worker that looks once and ends, and everyone else the first option."""
    told = json.loads(first_option(body))
    if "action" in told:
        told["action"] = "Finish[because it fits]"
    return json.dumps(told)


def reproduce(server: ScriptedServer, spec: str, *words: Any) -> Any:
    return folkmoot("reproduce", spec, *lm(server), "--no-track", *words)


SINGLE = "agents-of-commonsense/table-1"
SMALLEST = [
    ("agents-of-commonsense/table-2/EX2_gpt", []),
    ("marl-gat/table-1/arc-challenge.gpt-4.1-nano.zero-shot", []),
    ("reasoning-as-a-team/table-4/bold-cautious", ["--environment", "corpus:documents.jsonl"]),
    ("causalgpt-caco-cot/table-3/gpt-3.5-turbo.full", []),
]


@pytest.mark.plots
@pytest.mark.parametrize(("spec", "words"), SMALLEST)
def test_the_smallest_row_of_each_paper_runs(
    spec: str, words: list[str], home: Path, scripted: ScriptedServer
) -> None:
    scripted.reply = acting
    done = reproduce(scripted, spec, "--limit", 2, "--out", "out", "--json", *words)
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    row = select(spec).rows[0]
    assert [line["figure"] for line in found["rows"]] == [figure.name for figure in row.figures]
    line = found["rows"][0]
    assert line["published"] == row.figures[0].value
    assert line["n"] == 2
    assert line["low"] <= line["measured"] <= line["high"]
    assert line["difference"] == pytest.approx(line["measured"] - line["published"])
    assert line["inside"] == (line["low"] - 0.005 <= line["published"] <= line["high"] + 0.005)
    assert line["lm"] == "openai/scripted"
    assert len(rows_of(Path(line["run"]))) == 2
    assert all(Path(picture).stat().st_size > 1000 for picture in found["plots"])


def test_the_table_shows_published_and_measured_side_by_side(
    home: Path, scripted: ScriptedServer
) -> None:
    done = reproduce(scripted, "agents-of-commonsense/table-1/mistral-7b", "--out", "out")
    assert done.exit_code == 0
    line = next(line for line in done.stdout.splitlines() if "mistral-7b.simple" in line)
    assert "71.42" in line
    assert "50.0 [25.4, 74.6]" in line
    assert "-21.4" in line
    assert "yes" in line
    assert "Not the paper's model: Mistral-7B by openai/scripted." in done.stderr


def failing(body: dict[str, Any]) -> Any:
    """Who answers at once is always refused; of those who reason one is, one says nothing, one is
    cut off.
    """
    number = int(re.findall(r"validation (\d+) so", body["messages"][-1]["content"])[-1])
    if (
        "reasoning" not in body["response_format"]["json_schema"]["schema"]["properties"]
        or number == 3
    ):
        return 400, {}, {"error": {"message": "too hot"}}
    message = {"role": "assistant", "content": "" if number == 4 else first_option(body)}
    choice = {"index": 0, "message": message, "finish_reason": "length" if number == 5 else "stop"}
    return 200, {}, {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 5}}


def test_failures_are_counted_in_every_line_and_never_shown_as_measurements(
    home: Path, scripted: ScriptedServer
) -> None:
    scripted.reply = failing
    spec, words = "agents-of-commonsense/table-1/mistral-7b", ["--out", "out"]
    done = reproduce(scripted, spec, *words, "--json")
    assert done.exit_code == 1
    assert (
        "table-1/mistral-7b.simple: every question failed, because" in done.stderr.splitlines()[-1]
    )
    assert "too hot" in done.stderr.splitlines()[-1]
    assert done.stderr.count("every question failed") == 1
    table = json.loads(Path("out/agents-of-commonsense/table-1/table.json").read_text())
    for rows in (json.loads(done.stdout)["rows"], table["rows"]):
        simple, cot = (
            next(row for row in rows if row["row"] == f"mistral-7b.{way}")
            for way in ("simple", "cot")
        )
        lost = ("rows", "errors", "unreadable", "truncated")
        assert [simple[name] for name in lost] == [12, 12, 0, 0]
        assert [simple[name] for name in ("measured", "low", "n", "difference", "inside")] == [
            None
        ] * 5
        assert simple["why"] == "every question failed"
        assert [cot[name] for name in lost] == [12, 1, 1, 1]
        assert (cot["n"], cot["difference"], cot["inside"]) == (12, None, None)
        assert cot["low"] < cot["measured"] < cot["high"]
    assert table["plots"] == []
    shown = reproduce(scripted, spec, *words)
    assert "1 failed, 1 unreadable, 1 cut off" in shown.stdout
    assert "mistral-7b.cot: no difference while so many questions fail" in shown.stdout
    scripted.reply = first_option
    again = reproduce(scripted, spec, *words, "--retry-errors", "--json")
    assert again.exit_code == 0
    found = json.loads(again.stdout)
    assert [(row["errors"], row["difference"] is None) for row in found["rows"]] == [(0, False)] * 2
    assert [Path(path).name for path in found["plots"]] == ["published_and_measured.png"]


def test_up_to_two_percent_of_failures_leave_a_difference() -> None:
    lines = [
        Line("row", "accuracy", 71.4, 70, 60, 80, 100, rows=100, errors=errors) for errors in (2, 3)
    ]
    assert [line.failed for line in lines] == [False, True]
    line = Line("row", "accuracy", 71.4, rows=5, errors=5, unreadable=0, truncated=0)
    metrics = line_figures([line.to_dict()])
    assert metrics == {
        f"{name}/row/accuracy": n
        for name, n in (("errors", 5), ("unreadable", 0), ("truncated", 0))
    }


def test_rows_that_differ_in_nothing_share_a_run(home: Path, scripted: ScriptedServer) -> None:
    done = reproduce(
        scripted, "agents-of-commonsense/table-1", "--limit", 3, "--out", "out", "--json"
    )
    found = json.loads(done.stdout)
    assert len(found["rows"]) == 9
    assert len({line["run"] for line in found["rows"]}) == 2  # simple and cot
    assert len(scripted.bodies) == 6
    assert any("6 of the paper's models" in note for note in found["notes"])
    apart = ["--lm", "Mistral-7B=openai/other", "--api-base", f"Mistral-7B={scripted.url}"]
    done = reproduce(
        scripted, "agents-of-commonsense/table-1", "--limit", 3, *apart, "--out", "two", "--json"
    )
    assert len({line["run"] for line in json.loads(done.stdout)["rows"]}) == 4


def check_nested_training(uri: str) -> None:
    """A table's run has the training and the evaluation of its network under it."""
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    runs = client.search_runs([found.experiment_id for found in client.search_experiments()])
    (table,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    training, evaluation = sorted(
        (run for run in runs if run is not table), key=lambda run: "rows" in run.data.metrics
    )
    for run in (training, evaluation):
        assert run.data.tags["mlflow.parentRunId"] == table.info.run_id
        assert run.info.experiment_id == table.info.experiment_id
        assert run.info.status == "FINISHED"
    assert len(client.get_metric_history(training.info.run_id, "consensus")) > 1
    assert len(training.outputs.model_outputs) == 1


@pytest.mark.nightly
def test_a_network_is_trained_and_tested(
    home: Path, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    from folkmoot.pipelines.data import embeddings

    def vectors(self: Any, texts: list[str]) -> Any:
        made = np.array(
            [[len(text), sum(map(ord, text)) % 97, 1.0, 2.0] for text in texts], dtype=np.float32
        )
        return made / np.linalg.norm(made, axis=1, keepdims=True)

    monkeypatch.setattr(embeddings.Embedder, "__call__", vectors)
    monkeypatch.setattr(embeddings.Embedder, "width", 4)
    words = ["--limit", 2, "--out", "out", "--embedding", "all-MiniLM-L6-v2", "--json"]
    spec = "marl-gat/table-1/arc-challenge.gpt-4.1-nano.network"
    told = json.loads(reproduce(scripted, spec, *words, "--dry-run").stdout)
    # 2 questions to train on, at most once in seven ways, 2 to test; 10 agents of 1 to 10 samples.
    assert told["runs"][0]["calls"] == [(2 + 2) * 10, (2 * 7 + 2) * 10 * 10]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri := new_store(home))
    done = reproduce(scripted, spec, *words, "--track")
    assert done.exit_code == 0, done.stderr
    check_nested_training(uri)
    first = json.loads(done.stdout)
    figures = ["individual", "consensus", "improvement"]
    assert [(line["figure"], line["n"]) for line in first["rows"]] == [
        (name, 2) for name in figures
    ]
    alone, together, gain = (line["measured"] for line in first["rows"])
    assert gain == pytest.approx(together - alone)
    folder = Path(first["rows"][0]["run"])
    assert json.loads((folder / "training.json").read_text())["preset"] == "paper"
    asked = len(scripted.bodies)
    assert json.loads(reproduce(scripted, spec, *words).stdout) == first
    assert len(scripted.bodies) == asked
    ablation = "marl-gat/table-3/arc-challenge.gpt-4.1-nano"
    found = json.loads(reproduce(scripted, ablation, *words).stdout)
    runs = [Path(line["run"]) for line in found["rows"]]
    assert runs[0] == folder  # the base reward is table 1's run
    assert json.loads((runs[1] / "training.json").read_text())["preset"] == "consensus_aware"


def test_derived_figures_come_from_the_runs_of_their_sources(
    home: Path, scripted: ScriptedServer
) -> None:
    spec = "agents-of-commonsense/role-baselines"
    found = json.loads(
        reproduce(
            scripted, spec, "--out", "out", "--json", "--environment", "corpus:documents.jsonl"
        ).stdout
    )
    lines = {(line["row"], line["figure"]): line for line in found["rows"]}
    assert lines["all-six", "all_correct"]["measured"] == 50
    assert lines["all-six", "all_correct"]["published"] == pytest.approx(100 * 593 / 1221)
    assert lines["gpt.reasoner", "accuracy"]["published"] is None
    asked = len(scripted.bodies)
    alone = reproduce(
        scripted, f"{spec}/all-six", "--out", "out", "--environment", "corpus:documents.jsonl"
    )
    assert alone.exit_code == 0
    assert len(scripted.bodies) == asked


def test_what_no_program_can_do_is_shown_as_published_only(
    home: Path, scripted: ScriptedServer
) -> None:
    done = reproduce(scripted, "agents-of-commonsense/people", "--out", "out", "--json")
    line = json.loads(done.stdout)["rows"][0]
    assert (line["published"], line["measured"], line["why"]) == (
        89.0,
        None,
        "people answered, not a program",
    )
    assert not scripted.bodies


def test_a_published_bound_is_held_against_the_interval(
    home: Path, scripted: ScriptedServer
) -> None:
    spec = "agents-of-commonsense/across-configurations/table-2.consensus"
    words = ["--limit", 2, "--out", "out", "--json"]
    (line,) = json.loads(reproduce(scripted, spec, *words).stdout)["rows"]
    assert (line["published"], line["above"], line["measured"], line["inside"]) == (
        98,
        True,
        100,
        True,
    )
    shown = folkmoot("reproduce", "--list", "agents-of-commonsense/across-configurations", "--json")
    told = {row["row"]: row["published"] for row in json.loads(shown.stdout)["tables"][0]["rows"]}
    assert told[spec] == {"rate": {"above": 98}}
    assert Line("row", "rate", 98, 95, 90, 97, above=True).cells[0] == "above 98.00"


def test_the_page_counts_the_tables_rightly() -> None:
    page = (Path(fm.__file__).parent / "docs" / "reproduce.md").read_text()
    names = [table.id for paper in papers().values() for table in paper.tables.values()]
    tables = sum(name.startswith("table-") for name in names)
    figures = sum(name.startswith("figure-") for name in names)
    said = (
        f"{tables} tables and {figures} figures of results, and more in their text: "
        f"{len(names)} tables"
    )
    assert said in " ".join(page.split())


def test_groups_are_measured_apart(home: Path, scripted: ScriptedServer) -> None:
    spec = "causalgpt-caco-cot/table-2/zero-shot.cot"
    found = json.loads(reproduce(scripted, spec, "--limit", 8, "--out", "out", "--json").stdout)
    counts = {line["figure"]: line["n"] for line in found["rows"]}
    assert counts["natural"] + counts["language"] == counts["average"] == 8
    assert counts["grades_1_6"] + counts["grades_7_12"] == 8
    social = next(line for line in found["rows"] if line["figure"] == "social")
    assert social["measured"] is None
    assert "nothing to measure" in social["why"]


@pytest.mark.plots
def test_figures_are_drawn(home: Path, scripted: ScriptedServer) -> None:
    scripted.reply = acting
    words = ["--limit", 2, "--out", "out", "--json"]
    steps = reproduce(
        scripted,
        "reasoning-as-a-team/figure-3/bold",
        "--environment",
        "corpus:documents.jsonl",
        *words,
    )
    assert [Path(path).name for path in json.loads(steps.stdout)["plots"]] == [
        "step_limits_bold.png"
    ]
    rounds = json.loads(reproduce(scripted, "causalgpt-caco-cot/figure-3", *words).stdout)
    assert [Path(path).name for path in rounds["plots"]] == ["rounds.png"]
    assert all(line["measured"] is not None for line in rounds["rows"])


def test_the_dry_run_tells_the_price_and_asks_nobody(home: Path, scripted: ScriptedServer) -> None:
    words = ["--limit", 3, "--out", "out", "--dry-run", "--price", "openai/scripted=1,2"]
    done = reproduce(scripted, "agents-of-commonsense/table-2", *words, "--json")
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert [run["calls"] for run in told["runs"]] == [[6, 18], [6, 18], [6, 21], [6, 21]]
    assert told["total"]["calls"] == [24, 78]
    assert told["total"]["cost_usd"][1] == pytest.approx(
        sum(run["cost_usd"][1] for run in told["runs"])
    )
    assert told["runs"][0]["smallest_difference"] == [1.0, 1.0]
    assert not scripted.bodies
    assert not Path("out").exists()
    shown = reproduce(scripted, "agents-of-commonsense/table-2", *words).stderr
    assert "24 to 78" in shown
    assert "nothing" in shown


def test_the_dry_run_needs_no_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["reproduce", "agents-of-commonsense/table-2/EX2_gpt", "--limit", 3, "--no-track"]
    words += ["--lm", "openai/gpt-4o-mini"]
    refused = folkmoot(*words)
    assert refused.exit_code == 2
    assert "openai/gpt-4o-mini needs a key" in refused.stderr
    without = folkmoot(*words, "--dry-run", "--json")
    assert without.exit_code == 0, without.stderr
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    told = json.loads(folkmoot(*words, "--dry-run", "--json").stdout)
    assert json.loads(without.stdout) == told
    assert told["total"]["cost_usd"] is not None


def test_a_budget_holds_for_all_rows_together(home: Path, scripted: ScriptedServer) -> None:
    words = ["--limit", 4, "--out", "out", "--concurrency", 1, "--json"]
    done = reproduce(
        scripted, "agents-of-commonsense/table-1/mistral-7b", *words, "--budget", "6 calls"
    )
    assert done.exit_code == 0
    assert len(scripted.bodies) == 6
    found = json.loads(done.stdout)
    assert "6" in found["stopped"]
    assert [line["n"] for line in found["rows"]] == [4, 2]
    done = reproduce(
        scripted, "agents-of-commonsense/table-1/mistral-7b", *words, "--budget", "6 calls"
    )
    assert len(scripted.bodies) == 6
    done = reproduce(scripted, "agents-of-commonsense/table-1/mistral-7b", *words)
    assert len(scripted.bodies) == 8
    assert [line["n"] for line in json.loads(done.stdout)["rows"]] == [4, 4]


@pytest.mark.nightly
def test_a_killed_reproduction_goes_on_where_it_was(home: Path) -> None:
    spec = "agents-of-commonsense/table-1/gemma-2-9b"
    with ScriptedServer(delay=0.15) as server:
        words = [spec, *lm(server), "--no-track", "--limit", 8, "--out", "out", "--concurrency", 1]
        process = Child(command, "reproduce", *words)
        results = Path("out/agents-of-commonsense/table-1")
        began = time.monotonic()
        while len(server.bodies) < 10:
            assert time.monotonic() - began < 60, "the second row never began"
            time.sleep(0.02)
        process.kill()
        process.wait(30)
        killed = len(server.bodies)
        server.delay = 0.0
        done = folkmoot("reproduce", *words, "--json")
        assert done.exit_code == 0, done.stderr
        assert 10 <= killed < 16
        assert 16 <= len(server.bodies) <= 17  # one call was in flight
    assert [line["n"] for line in json.loads(done.stdout)["rows"]] == [8, 8]
    for folder in results.glob("*/results.jsonl"):
        ids = [row["id"] for row in rows_of(folder.parent)]
        assert len(ids) == len(set(ids)) == 8


def test_ctrl_c_keeps_and_shows_what_is_finished(
    home: Path, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from folkmoot.pipelines.reproduction import reproduce as module

    spec, words = (
        "agents-of-commonsense/table-1/mistral-7b",
        ["--limit", 2, "--out", "out", "--json"],
    )
    true, begun = module.evaluate, []

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        begun.append(kwargs["out"])
        if len(begun) == 2:
            raise KeyboardInterrupt
        return true(*args, **kwargs)

    monkeypatch.setattr(module, "evaluate", interrupted)
    done = reproduce(scripted, spec, *words)
    assert done.exit_code == 130
    assert "the same command takes it up again" in done.stderr
    assert [(line["n"], line["why"]) for line in json.loads(done.stdout)["rows"]] == [
        (2, None),
        (None, "not run"),
    ]


def test_a_refused_key_ends_it_at_once(home: Path, scripted: ScriptedServer) -> None:
    scripted.reply = lambda body: (401, {}, {"error": {"message": "no"}})
    done = reproduce(scripted, SINGLE, "--limit", 2, "--out", "out")
    assert done.exit_code == 2
    assert "key" in done.stderr.splitlines()[-1]
    assert len(scripted.bodies) <= 2


def test_a_folder_that_cannot_be_made_is_named(home: Path, scripted: ScriptedServer) -> None:
    Path("file").write_text("")
    done = folkmoot("reproduce", SINGLE, *lm(scripted), "--limit", 2, "--out", "file")
    assert done.exit_code == 2
    assert "cannot be written (Not a directory)" in done.stderr
    assert not scripted.bodies


def test_another_lm_or_sample_in_the_same_folder_is_refused(
    home: Path, scripted: ScriptedServer
) -> None:
    spec, words = "agents-of-commonsense/table-1/mistral-7b", ["--out", "out"]
    assert reproduce(scripted, spec, "--limit", 2, *words).exit_code == 0
    asked = len(scripted.bodies)
    other = ["--lm", "openai/other", "--api-base", scripted.url, "--no-track", "--limit", 2, *words]
    done = folkmoot("reproduce", spec, *other)
    assert done.exit_code == 2
    assert "holds another run (its LM differs)" in done.stderr
    done = reproduce(scripted, spec, "--limit", 3, *words)
    assert done.exit_code == 2
    assert "its data differs" in done.stderr
    assert len(scripted.bodies) == asked


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([SINGLE, "--limit", "0"], "--limit is 0"),
        (
            ["agents-of-commonsense/table-1", "--environment", "corpus:documents.jsonl"],
            "--environment is for",
        ),
        (
            ["agents-of-commonsense/table-1", "--lm", "claude=openai/x"],
            "names claude, which no row asked for has",
        ),
        ([SINGLE, "--price", "openai/x=1,2"], "is of no LM of these rows"),
        (
            ["causalgpt-caco-cot/table-1/one-shot.claude.cot.boolq"],
            "boolq (validation) is not here",
        ),
        ([SINGLE, "--budget", "lots"], "the budget 'lots' cannot be read"),
        ([], "name what to reproduce"),
    ],
)
def test_odd_input_is_refused_in_a_sentence(
    words: list[str],
    said: str,
    home: Path,
    scripted: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from folkmoot.pipelines.data import hub

    monkeypatch.setattr(hub, "can_fetch", lambda spec: False)
    done = folkmoot("reproduce", *words, *lm(scripted), "--no-track", "--out", "out")
    assert done.exit_code == 2
    assert said in done.stderr
    assert not Path("out").exists()
    assert not scripted.bodies


# The list
# ------------------------------------------------------------------------------------------------


def test_the_list_says_what_there_is_and_whether_its_data_is_here(home: Path) -> None:
    shown = folkmoot("reproduce", "--list", "--json")
    tables = {table["table"]: table for table in json.loads(shown.stdout)["tables"]}
    assert len(tables) == sum(len(paper.tables) for paper in papers().values())
    assert sum(len(table["rows"]) for table in tables.values()) == len(ALL_ROWS)
    rows = {row["row"]: row for row in tables["agents-of-commonsense/table-2"]["rows"]}
    told = rows["agents-of-commonsense/table-2/EX2_gpt"]
    assert (told["questions"], told["calls"], told["missing"]) == (12, [24, 84], [])
    assert told["models"] == {"*": ["gpt-4o-mini", "openai/gpt-4o-mini"]}
    network = tables["marl-gat/table-2"]["rows"][0]
    assert network["missing"] == ["gsm1k (test)", "gsm8k (train)"]
    # 300 test and 200 training questions, 10 agents; at most ten samples, and each of seven
    # strategies once.
    assert network["calls"] == [(300 + 200) * 10, (300 + 200 * 7) * 10 * 10]
    text = folkmoot("reproduce", "--list").stdout
    assert "causalgpt-caco-cot/table-3" in text
    assert "missing: boolq (validation)" in " ".join(text.split())


def test_the_list_of_a_table_shows_its_rows(home: Path) -> None:
    text = folkmoot("reproduce", "--list", "agents-of-commonsense/ensembles").stdout
    assert "weighted" in text
    assert "83.78" in text
    text = folkmoot("reproduce", "--list", "agents-of-commonsense/across-configurations").stdout
    assert "from the runs of table-2, table-3, table-4" in text
    assert (
        "published only" in folkmoot("reproduce", "--list", "agents-of-commonsense/people").stdout
    )
    assert folkmoot("reproduce", "--list", "agents").exit_code == 2


def test_the_commands_of_the_page_run(
    home: Path, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(fm.__file__).parent / "docs" / "reproduce.md").read_text()
    commands = [
        line
        for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(commands) == 5
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    scripted.reply = acting
    for line in commands:
        # the last --limit counts
        done = folkmoot(*shlex.split(line)[1:], "--no-track", "--limit", 2)
        assert done.exit_code == 0, f"{line}\n{done.stderr}"


# Tracking and Python
# -------------------------------------------------------------------------------------


def test_a_table_is_an_mlflow_run_with_its_rows_under_it(
    home: Path, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(home))
    spec = "agents-of-commonsense/table-1/mistral-7b"
    for _ in range(2):  # the second time goes on with the same runs
        fm.reproduce(spec, lm="openai/scripted", api_base=scripted.url, out="out")
    client = MlflowClient(f"sqlite:///{home}/mlflow.db")
    experiment = client.get_experiment_by_name("commonsenseqa")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    assert [run.info.run_name for run in parents] == ["reproduce agents-of-commonse… · scripted"]
    parent = parents[0]
    assert parent.info.status == "FINISHED"
    children = [
        run for run in runs if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id
    ]
    assert len(children) == 2
    assert parent.data.metrics["published/mistral-7b.simple/accuracy"] == 71.42
    assert parent.data.metrics["measured/mistral-7b.simple/accuracy"] == 50
    assert parent.data.metrics["errors/mistral-7b.simple/accuracy"] == 0
    assert parent.data.metrics["difference/mistral-7b.simple/accuracy"] == pytest.approx(-21.42)
    assert "| mistral-7b.cot | accuracy | 70.27 |" in parent.data.tags["mlflow.note.content"]
    names = {item.path for item in client.list_artifacts(parent.info.run_id)}
    assert {"side_by_side.json", "table.json", "plots"} <= names


def test_reproduce_in_python_and_the_table_on_disk(home: Path, scripted: ScriptedServer) -> None:
    given: dict[str, Any] = {"api_base": scripted.url, "limit": 12, "out": "out", "tracking": False}
    spec = "agents-of-commonsense/table-1/mistral-7b.cot"
    found = fm.reproduce(spec, lm={"Mistral-7B": "openai/scripted"}, **given)
    assert [(line.row, line.measured, line.inside) for line in found.lines] == [
        ("mistral-7b.cot", 50.0, True)
    ]
    table = json.loads(Path("out/agents-of-commonsense/table-1/table.json").read_text())
    kept = {row["row"]: row for row in table["rows"]}
    assert len(kept) == 9
    assert kept["mistral-7b.cot"]["measured"] == 50
    assert kept["qwen2.5-14b.simple"]["why"] == "not run"
    planned = plan_reproduction(
        ReproduceRequest(
            spec,
            lm=["Mistral-7B=openai/scripted"],
            api_base=[scripted.url],
            limit=12,
            out=Path("out"),
        )
    )
    assert planned.runs[0].estimate["left"] == 0
    rows: list[PublishedRow] = list(planned.selection.rows)
    assert [line.measured for line in lines(planned, rows)] == [50.0]


def test_a_plan_without_the_data_counts_on_its_known_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FOLKMOOT_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    request = ReproduceRequest(
        "agents-of-commonsense/table-1/mistral-7b.cot", lm="openai/gpt-4o-mini"
    )
    (run,) = plan_reproduction(request, keyless=True).runs
    assert len(run.questions) == 1221
    with pytest.raises(fm.UserError, match="commonsenseqa"):
        plan_reproduction(request)
