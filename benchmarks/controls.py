"""Whether the intervals of controls keep their promise, by simulated teams whose parts are known.

    python benchmarks/controls.py [--seeds 1000]

Teams of 3 agents and 3 rounds answer questions of unlike difficulty, and stop when they agree, as a
deliberation does. `ignores` is a team whose agents ignore their peers and answer anew each time;
`sticky` agents keep their answer in 7 of 10 cases. Both have no content part: its 95% interval has
to cover 0 in 95 ± 2% of the seeds, and in at least 93%. `planted` has parts of 2.6 (re-evaluation),
4.3 (presence) and 1.4 points (content), which have to come out within 0.3 on average. Everything is
drawn from the seed; no LM is asked. `--seeds 1000` takes a minute at most.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from statistics import fmean

from folkmoot.modules.statistics.controls import (
    PARTS,
    expected_vote,
    gain_parts,
    half_width,
)

AGENTS, ROUNDS, OPTIONS = 3, 3, "ABCD"  # A is right
RIGHT, LOST = 0.6, 0.03  # of the planted team: right votes, and those of them that a step loses
PLANTED = {"re_evaluation": 0.026, "presence": 0.043, "content": 0.014}

Again = Callable[[random.Random, str, float], str]


def answer(draw: random.Random, right: float) -> str:
    return "A" if draw.random() < right else draw.choice(OPTIONS[1:])


def ignores(draw: random.Random, own: str, right: float) -> str:
    return answer(draw, right)


def sticky(draw: random.Random, own: str, right: float) -> str:
    return own if draw.random() < 0.7 else answer(draw, right)


def vote(answers: list[str]) -> float:
    return expected_vote(answers, lambda one: float(one == "A"))


def go_on(draw: random.Random, first: list[str], right: float, again: Again) -> list[str]:
    """The last answers of a dialogue that stops when all agree."""
    answers = first
    for _ in range(ROUNDS - 1):
        if len(set(answers)) == 1:
            break
        answers = [again(draw, own, right) for own in answers]
    return answers


def team_of(again: Again, questions: int, seed: int) -> dict[str, list[float]]:
    """The levels of a team for which it makes no difference what peers say."""
    draw = random.Random(f"controls/{again.__name__}/{questions}/{seed}")
    levels: dict[str, list[float]] = {name: [] for name in ("first", "vote")}
    for _ in range(questions):
        right = draw.betavariate(2, 1.5)
        first = [answer(draw, right) for _ in range(AGENTS)]
        levels["first"].append(fmean(one == "A" for one in first))
        levels["vote"].append(vote(first))
        for arm in ("isolated", "placebo", "last"):
            answers = go_on(draw, first, right, again)
            levels.setdefault(arm, []).append(vote(answers))
        levels.setdefault("team", []).append(float(max(answers, key=answers.count) == "A"))
    return levels


def planted(questions: int, seed: int) -> dict[str, list[float]]:
    """Levels that differ by the planted effects: a step makes some right votes wrong, and so many
    more wrong ones right.
    """
    draw = random.Random(f"controls/planted/{questions}/{seed}")
    votes = [float(draw.random() < RIGHT) for _ in range(questions)]
    levels, right = {"first": votes, "vote": votes}, RIGHT
    for level, effect in zip(("isolated", "placebo", "last"), PLANTED.values(), strict=True):
        gained = (effect + right * LOST) / (1 - right)
        chances = {0.0: gained, 1.0: LOST}
        votes = [1 - one if draw.random() < chances[one] else one for one in votes]
        levels[level], right = votes, right + effect
    return {**levels, "team": votes}


def measure(team: Callable[[int, int], dict[str, list[float]]], questions: int, seeds: int) -> None:
    """Print what comes out for a team: each part's mean, coverage of its truth, and half-width."""
    found = [gain_parts(team(questions, seed)) for seed in range(seeds)]
    named = team.__name__ == planted.__name__
    for name in PARTS[1:4]:
        parts = [one[name] for one in found]
        truth = PLANTED[name] if named else 0.0 if name != "re_evaluation" else None
        inside = [part.low <= (truth or 0.0) <= part.high for part in parts]
        covered = "" if truth is None else f", covers {100 * truth:.1f} in {fmean(inside):.1%}"
        half = fmean((part.high - part.low) / 2 for part in parts)
        value = fmean(part.value for part in parts)
        print(f"{questions:>6} {name:<14} {100 * value:+.2f} ± {100 * half:.1f} points{covered}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1000)
    seeds = parser.parse_args().seeds

    def team_ignoring(questions: int, seed: int) -> dict[str, list[float]]:
        return team_of(ignores, questions, seed)

    def team_sticking(questions: int, seed: int) -> dict[str, list[float]]:
        return team_of(sticky, questions, seed)

    for team in (team_ignoring, team_sticking, planted):
        print(f"{team.__name__}, {seeds:,} seeds")
        measure(team, 200, seeds)
    print("half-widths that the plan says")
    for questions in (200, 1_300):
        print(f"{questions:>6} ± {100 * half_width(questions):.1f} points")
    measure(team_ignoring, 1_300, max(1, seeds // 20))


if __name__ == "__main__":
    main()
