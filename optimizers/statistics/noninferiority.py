"""The non-inferiority test of a cheaper program against a team, its limits, and its sample size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict

from .statistics import Interval, quantile

CONFIDENCE = 0.95
POWER = 0.8
NON_INFERIOR, INFERIOR, NOT_SHOWN = "non-inferior", "inferior", "not shown"
_NEAR = 1e-9


class NonInferiority(TypedDict):
    """A program against a team on the same n questions.

    `gained` questions only the program got right, `lost` only the team; `difference` is the
    program's accuracy minus the team's, -1 to 1. `low` and `high` are its one-sided limits, each
    with the `confidence` given (so that together they are an interval of 2 × confidence - 1).
    `verdict` is `non-inferior` when `low` lies above -margin, `inferior` when `high` lies below it,
    else `not shown`. `needed` is the number of questions that would show non-inferiority with 80%
    power, if the two were equally good with the same share of discordant questions. `sentence` is
    the verdict in words that claim no more than the limits allow.
    """

    n: int
    gained: int
    lost: int
    difference: float
    low: float
    high: float
    margin: float
    confidence: float
    verdict: str
    needed: int
    sentence: str


def non_inferiority(
    program: Sequence[bool], team: Sequence[bool], margin: float, confidence: float = CONFIDENCE
) -> NonInferiority:
    """Test whether the program's accuracy is at most `margin` (0 to 1) below the team's.

    `program[i]` and `team[i]` say whether each answered question i right. Raises ValueError for
    lengths that differ, no question, or a margin or confidence outside 0 to 1.
    """
    if len(program) != len(team) or not len(team):
        raise ValueError(
            f"answers to the same questions are needed, not to {len(program)} and {len(team)}"
        )
    if not 0 < margin < 1:
        raise ValueError(f"margin must lie between 0 and 1, not {margin}")
    gained = sum(bool(mine) and not theirs for mine, theirs in zip(program, team, strict=True))
    lost = sum(bool(theirs) and not mine for mine, theirs in zip(program, team, strict=True))
    n = len(team)
    low, high = score_limits(gained, lost, n, confidence)
    verdict = NON_INFERIOR if low > -margin else INFERIOR if high < -margin else NOT_SHOWN
    needed = questions_needed(margin, max(gained + lost, 1) / n, confidence)
    points = (
        f"{100 * (gained - lost) / n:+.1f} points, one-sided {100 * confidence:.4g}% limits "
        f"{100 * low:+.1f} and {100 * high:+.1f}, n = {n:,}"
    )
    least = f"{100 * margin:.4g} points"
    sentence = (
        f"cannot be shown to be at most {least} below the team with so few questions ({points}): "
        f"about {needed:,} would be needed"
    )
    if verdict == NON_INFERIOR:
        sentence = f"is non-inferior to the team: at most {least} below it ({points})"
    elif verdict == INFERIOR:
        sentence = f"is inferior to the team: more than {least} below it ({points})"
    return {
        "n": n,
        "gained": gained,
        "lost": lost,
        "difference": (gained - lost) / n,
        "low": low,
        "high": high,
        "margin": margin,
        "confidence": confidence,
        "verdict": verdict,
        "needed": needed,
        "sentence": sentence,
    }


def score_limits(gained: int, lost: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """The one-sided lower and upper limits of a paired difference in accuracy, (gained - lost) / n.

    Tango's score limits (Tango 1998, "Equivalence test and confidence interval for the difference
    in proportions for the paired-sample design", Statistics in Medicine 17, 891-908): the
    differences D at which

        (gained - lost - n D) / sqrt(n (2 q(D) + D (1 - D)))  =  ± z(confidence)

    with q(D) the likeliest share of `lost` questions given D. Unlike a bootstrap, they have a width
    even without discordant questions: then the lower limit is -z² / (n + z²). Raises ValueError for
    counts that do not fit into n, or a confidence outside 0.5 to 1.
    """
    if min(gained, lost) < 0 or gained + lost > n or n < 1:
        raise ValueError(f"{gained} gained and {lost} lost do not fit into {n} questions")
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence must lie between 0.5 and 1, not {confidence}")
    z = quantile(confidence)
    return Interval(_lower(gained, lost, n, z), -_lower(lost, gained, n, z))


def questions_needed(
    margin: float, discordant: float, confidence: float = CONFIDENCE, power: float = POWER
) -> int:
    """The number of paired questions that show non-inferiority with this power if both programs are
    equally good.

    n = (z(confidence) + z(power))² s / margin², where s is the share of discordant questions (Nam
    1997, "Establishing equivalence of two treatments and sample size requirements in matched-pairs
    design", Biometrics 53), and at least the number needed without discordant questions,
    z(confidence)² (1 - margin) / margin.
    """
    z, z_power = quantile(confidence), quantile(power)
    apart = (z + z_power) ** 2 * discordant / margin**2
    return math.floor(max(apart, fewest_questions(margin, confidence) - 1)) + 1


def fewest_questions(margin: float, confidence: float = CONFIDENCE) -> int:
    """The fewest questions that show non-inferiority of two programs without discordant
    questions.
    """
    z = quantile(confidence)
    return math.floor(z * z * (1 - margin) / margin) + 1


def _lower(gained: int, lost: int, n: int, z: float) -> float:
    from scipy.optimize import brentq  # the import takes half a second

    seen = (gained - lost) / n
    if seen - _NEAR <= -1:
        return -1.0

    def beyond(d: float) -> float:
        """The distance of the score beyond the limit if the true difference is d."""
        b = (2 * n - gained + lost) * d - gained - lost
        q = (math.sqrt(max(0.0, b * b + 8 * n * lost * d * (1 - d))) - b) / (4 * n)
        return gained - lost - n * d - z * math.sqrt(max(0.0, n * (2 * q + d * (1 - d))))

    return float(brentq(beyond, -1.0, seen - _NEAR, xtol=1e-12))
