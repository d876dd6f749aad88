"""Teach a network which way of prompting suits which question, from answers that were recorded before.

No key needed: the recorded answers are made up (ten seconds), and so is what turns a question into numbers.
With --lm the trained network then answers, as a part of a DSPy module of one's own.
"""

from __future__ import annotations

import argparse
import random
import sys
import zlib
from collections.abc import Sequence

import dspy
import numpy as np

import folkmoot as fm

OUT = "runs/selector"
RIGHT = {"sums": {"cot": 0.9, "zero_shot": 0.3}, "capitals": {"cot": 0.4, "zero_shot": 0.8}}
"""How often each strategy is right on the made-up questions of each topic."""

ASKED = {"sums": "What is {} plus {}?", "capitals": "Which city is the capital of country {}, region {}?"}


def recorded(count: int, seed: int) -> list[dict[str, object]]:
    """Rows of an outcome table: who answered which question in which way, and was it right."""
    rng = random.Random(seed)
    rows: list[dict[str, object]] = []
    for number in range(count):
        topic = rng.choice(list(RIGHT))
        text = ASKED[topic].format(rng.randrange(100), rng.randrange(100))
        for strategy, chance in RIGHT[topic].items():
            right = rng.random() < chance
            rows.append(
                {
                    "question_id": f"{seed}-{number}",
                    "question": text,
                    "group": topic,
                    "agent": "some LM",
                    "strategy": strategy,
                    "answer": "right" if right else "wrong",
                    "correct": right,
                }
            )
    return rows


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

    def forward(self, question: str) -> dspy.Prediction:
        said = self.network(question=question)
        return dspy.Prediction(answer=said.answer if said.confidence > 0.5 else "not sure")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--questions", type=int, default=200, help="how many recorded questions to learn from"
    )
    parser.add_argument("--lm", help="such as openai/gpt-4o-mini, to ask the trained network something")
    parser.add_argument("--api-base", help="address of an OpenAI-compatible endpoint, up to /v1")
    options = parser.parse_args()

    network = fm.train(
        recorded(options.questions, seed=1),
        test=recorded(200, seed=2),
        embedding=embed,
        settings={"agents": 3, "choice": "argmax", "epochs": 8},
        preset="beyond",
        out=f"{OUT}/{options.questions}-questions",
        tracking=False,
    )
    scores = network.training.scores
    for name in ("individual", "best_fixed", "oracle"):
        print(f"{name}: {scores[name]['value']:.0%} [{scores[name]['low']:.0%}, {scores[name]['high']:.0%}]")
    for topic, use in scores["use_by_group"].items():
        print(f"{topic}: " + ", ".join(f"{name} {share:.0%}" for name, share in use.items()))
    print("verdict: " + "; ".join(scores["verdict"]))

    if options.lm:
        dspy.configure(lm=fm.lm(options.lm, api_base=options.api_base))
        print(Careful(network)(question="What is 12 plus 30?").answer)


if __name__ == "__main__":
    try:
        main()
    except fm.UserError as problem:
        sys.exit(f"folkmoot: {problem}")
    except KeyboardInterrupt:
        sys.exit("stopped; what is finished is kept: run it again to go on")
