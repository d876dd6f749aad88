"""Your module, LM, DataFrame, metric, MLflow experiment and Optuna study: does a deliberation beat
it?

It asks the LM that DSPy is set to, such as openai/gpt-4o-mini with its key in OPENAI_API_KEY.
"""

from __future__ import annotations

import argparse

import dspy
import mlflow
import optuna
import pandas as pd

import folkmoot as fm

OUT = "runs/bring_your_own"
THINGS = {"money": "bank", "soup": "pot", "books": "library", "fish": "sea", "cars": "garage"}
NOTES = [f"People keep {thing} in a {place}." for thing, place in THINGS.items()]


class Rag(dspy.Module):
    """Looks notes up by their words, and answers with them."""

    def __init__(self, k: int = 2) -> None:
        super().__init__()
        self.k = k
        self.respond = dspy.ChainOfThought("notes: list[str], query -> answer")

    def retrieve(self, query: str) -> list[str]:
        words = set(query.lower().replace("?", " ").split())
        return sorted(NOTES, key=lambda note: -len(words & set(note.lower().split())))[: self.k]

    def forward(self, query: str) -> dspy.Prediction:
        return self.respond(notes=self.retrieve(query), query=query)


def table() -> pd.DataFrame:
    places = list(THINGS.values())
    rows = []
    for n in range(24):
        thing, place = list(THINGS.items())[n % len(THINGS)]
        other = places[(n + 1 + n // len(THINGS)) % len(places)]
        other = other if other != place else places[(places.index(place) + 1) % len(places)]
        question = f"Where do {n + 2} people keep {thing}?"
        rows.append({"question": question, "A": place, "B": other, "answer": "A"})
    return pd.DataFrame(rows)


def right_place(example: dspy.Example, prediction: dspy.Prediction, trace: object = None) -> bool:
    return bool(prediction.answer == example.answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--lm", default="openai/gpt-4o-mini", help="the name of any LM that DSPy reaches"
    )
    parser.add_argument("--api-base", help="address of an endpoint of your own, up to /v1")
    options = parser.parse_args()

    where = {} if options.api_base is None else {"api_base": options.api_base}
    dspy.configure(lm=dspy.LM(options.lm, cache=False, **where))
    mlflow.set_experiment("my own experiment")

    questions = fm.load(table())
    train, held_out = questions[:16], questions[16:]
    named = {"query": "question"}  # the module calls a question by another name

    rag = fm.evaluate(Rag(), held_out, inputs=named, metric=right_place, out=f"{OUT}/rag")
    panel = fm.Deliberation(["intuitive", "critic"], max_rounds=1)
    team = fm.evaluate(panel, held_out, metric=right_place, out=f"{OUT}/team")
    print(fm.compare(rag, team, names=["my module", "a deliberation"]))

    better = fm.compile(
        Rag(),
        train,
        held_out,
        optimizer="labeled_few_shot",
        inputs=named,
        metric=right_place,
        out=f"{OUT}/compiled",
    )
    print(f"compiled: {better.compilation.verdict}")

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    tuned = fm.tune(
        "deliberation",
        train,
        held_out,
        metric=right_place,
        trials=2,
        study=study,
        out=f"{OUT}/tuned",
    )
    if best := tuned.report.best:
        print(f"tuned: {best.setting}, in {len(study.trials)} trials of my study")

    paid = [rag.summary.paid, team.summary.paid, better.compilation.paid, tuned.report.paid]
    print(f"in all: {sum(bill['calls'] for bill in paid)} calls, in MLflow as 'my own experiment'")


if __name__ == "__main__":
    main()
