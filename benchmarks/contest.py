"""Contests on real questions against an LM whose accuracies are known: right outcomes, and money.

    FOLKMOOT_DATA=… python benchmarks/contest.py --seeds 200

Every contest is `fm.contest` itself, with its folders and its bill, on 300 questions of
CommonsenseQA drawn by the seed (`--questions`). The LM answers in this process, as often right as
the program that asks is said to be; all calls of a program agree about a question, so that its
accuracy is exactly the planted one. Worlds:

    null     five programs that are right in 70%, on a fifth of the questions not the same ones
    better   a team that is right in 84%, the others in 70%
    alike    five programs that are right in 70%, on nearly the same questions
    short    as better, with money for a third of the questions

For each world: how often each outcome came out, wrong ones, the share of the money that asking
everybody everything takes, questions used, and budgets that were overrun. `--field` runs the rule
alone on simulated answers, without calls, thousands of times.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import folkmoot as fm
from folkmoot.modules.statistics.field import FieldWatch
from folkmoot.pipelines.data.sampling import sample
from folkmoot.pipelines.testing.replies import filled, gold, text_of, wrong

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))
from scripted_lm import scripted_lm  # type: ignore[import-not-found]

TAG = re.compile(r"\[program (\w+)\]")
TEAMS = {"crew": 3, "gang": 2}
PLAIN = 0.70
WORLDS: dict[str, dict[str, float]] = {
    "null": {"solo": 0.70, "crew": 0.70, "gang": 0.70},
    "better": {"solo": 0.70, "crew": 0.84, "gang": 0.70},
    "alike": {"solo": 0.70, "crew": 0.70, "gang": 0.70},
    "short": {"solo": 0.70, "crew": 0.84, "gang": 0.70},
}
OWN = {"alike": 0.02}
"""By world, the share of questions on which a program goes its own way; else three in ten. On the
others, all are right where the question is easy enough for them.
"""

PROMPT = "[program {}] You are number {}. " + 4 * "Weigh every option on its own merits. "
TRUE = {"null": "reference", "better": "crew", "alike": "reference", "short": "crew"}
MONEY = {"short": "0.15 USD"}


def coin(*what: Any) -> float:
    digest = hashlib.blake2b("|".join(map(str, what)).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48


def planted(world: str, questions: Sequence[fm.Question], seed: int) -> Any:
    """An LM that is right as often as the program that asks is in this world."""
    by_text = {one.question: one for one in questions}
    marker = re.compile("|".join(re.escape(text) for text in sorted(by_text, key=len)[::-1]))

    def reply(body: dict[str, Any]) -> str:
        whole = " ".join(str(message["content"]) for message in body["messages"])
        tag = TAG.search(whole)
        found = marker.search(text_of(body))
        assert found is not None
        question, name = by_text[found[0]], tag[1] if tag else "plain"
        if not tag and len(body["response_format"]["json_schema"]["schema"]["properties"]) > 1:
            name = "samples"
        accuracy = WORLDS[world].get(name, PLAIN)
        own = coin(seed, question.id, name, "own") < OWN.get(world, 0.3)
        right = coin(seed, question.id, name if own else "all") < accuracy
        return filled(body, gold(question) if right else wrong(question), "since it fits")

    return scripted_lm(reply)


def program(name: str) -> fm.Program:
    """A program that says its name in its prompts; a team asks as often as it has members."""
    members: list[str | fm.Program] = [
        fm.SingleAgent("simple", prompts={"simple": PROMPT.format(name, number)})
        for number in range(TEAMS.get(name, 1))
    ]
    return fm.Ensemble(members) if name in TEAMS else members[0]  # type: ignore[return-value]


def contest(world: str, questions: list[fm.Question], seed: int, folder: Path) -> dict[str, Any]:
    lm = planted(world, questions, seed)
    budget = MONEY.get(world, "1 USD")
    field = {name: program(name) for name in WORLDS[world]}
    asks = {"field": field, "lm": lm, "budget": budget, "seed": seed, "out": folder}
    result = fm.contest(questions, **asks, tracking=False, progress=False)
    each = sum(one.usd or 0.0 for one in result.places if not one.free)
    race = len(questions) * 4 // 5 if len(questions) >= 300 else len(questions)
    paid = result.paid["cost_usd"] or 0.0
    return {
        "outcome": result.outcome,
        "winner": "reference" if result.winner_name == "one prompt" else result.winner_name,
        "questions": max(one.n for one in result.places),
        "share": paid / (each * race),
        "overrun": paid > float(budget.split()[0]),
        "paid": paid,
    }


def summed(world: str, runs: list[dict[str, Any]]) -> str:
    outcomes = Counter(one["outcome"] for one in runs)
    n, true = len(runs), TRUE[world]
    false = sum(one["outcome"] == "better" and one["winner"] != true for one in runs)
    right = sum(one["winner"] == true for one in runs)
    shares = np.mean([one["share"] for one in runs])
    used = np.mean([one["questions"] for one in runs])
    named = ", ".join(f"{name} {100 * count / n:.1f}%" for name, count in outcomes.most_common())
    return (
        f"{world:7} {n:4} contests: {named}; takes the right program {100 * right / n:.1f}%; "
        f"false better {100 * false / n:.1f}%; {100 * shares:.0f}% of the money, "
        f"{used:.0f} questions; budgets overrun {sum(one['overrun'] for one in runs)}"
    )


def rule_alone(seeds: int, questions: int) -> None:
    """The rule of the field on simulated answers of six programs, two of them kept."""
    prices = [1, 1.4, 2, 4, 4, 5]
    for name, top in (("null", 0.7), ("better", 0.84)):
        outcomes: Counter[str] = Counter()
        money = []
        for seed in range(seeds):
            random = np.random.default_rng([seed, len(name)])
            accuracies = np.array([0.7, 0.7, 0.7, 0.7, 0.7, top])
            watch = FieldWatch(prices, planned=questions, kept=(0, 3))
            paid = 0.0
            for _ in range(questions):
                right = random.random(6) < accuracies
                watch.update({one: float(right[one]) for one in watch.asked})
                paid += sum(prices[one] for one in watch.asked)
                if watch.seen % 10 == 0:
                    watch.decide()
                    if watch.decided:
                        break
            else:
                watch.last_look()
            won = watch.recommended
            beats = won not in (0, 3) and all(watch.better(won, one) for one in (0, 3))
            outcomes["better" if beats else "one left" if len(watch.racing) == 1 else "open"] += 1
            outcomes["false"] += (beats and won != 5) or (beats and top == 0.7)
            money.append(paid / (sum(prices) * questions))
        print(
            f"{name:7} {seeds} fields: {dict(outcomes)}; {100 * np.mean(money):.0f}% of the money"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--world", action="append", choices=list(WORLDS))
    parser.add_argument("--field", action="store_true", help="the rule alone, without calls")
    parser.add_argument("--rows", type=Path, help="append a line for each contest to this file")
    options = parser.parse_args()
    if options.field:
        rule_alone(options.seeds, options.questions)
        return 0
    known = fm.load("commonsenseqa", "validation")
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    began = time.monotonic()
    for seed in range(options.first, options.first + options.seeds):
        questions = sample(known, options.questions, seed)
        for world in options.world or WORLDS:
            with tempfile.TemporaryDirectory() as folder:
                runs[world].append(contest(world, questions, seed, Path(folder) / "out"))
            if options.rows:
                with options.rows.open("a") as file:
                    file.write(json.dumps({"world": world, "seed": seed, **runs[world][-1]}) + "\n")
    for world, found in runs.items():
        print(summed(world, found))
    print(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
