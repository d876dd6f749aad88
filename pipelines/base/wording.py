"""Wording that several commands share: counts, prices, times and errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

from ...modules.base.errors import UserError, said_by
from ...modules.base.usage import UsageFields
from ...modules.reading.row import ResultRow
from .run_files import ScoreFields

NOTHING = 1e-6
"""A difference below this is 0, but for the rounding of sums."""

LONGEST_REASON = 300  # characters of an error that are shown


@dataclass(frozen=True)
class ProgressLine:
    """A line of live progress: the work, its figures, and the share that is done, if known, which
    gives the time left. A `picture`, as rich draws it, replaces the line where it can be redrawn;
    it must be clean text. A pipe gets the line of a new `stage` at once.
    """

    label: str
    parts: Iterable[str]
    done: int = 0
    total: int = 0
    picture: Any = None
    stage: int = 0


def counted(number: int, thing: str) -> str:
    """Return `1 question`, `2,000 questions`."""
    words = f"{number:,} {thing}"
    return words if number == 1 else f"{words}s"


def percent(score: Mapping[str, object]) -> str:
    """Return a share in percent with its interval; other scores (`rate` is False) in their own
    unit.
    """
    score = ScoreFields.of(score)
    form = "{:.3g} [{:.3g}, {:.3g}]"
    if score.rate:
        form = "{:.1%} [{:.1%}, {:.1%}]"
    return form.format(score.value, score.low, score.high)


def signed(difference: float, is_rate: bool = True, decimals: int = 1) -> str:
    """Return a difference with its sign, which 0 has not: of rates in points, of scores in their
    unit.
    """
    text = f"{difference:+.3g}"
    if is_rate:
        text = f"{100 * difference:+.{decimals}f}"
    if float(text):
        return text.replace("-", "−")
    # An interval that ends close to 0 does not reach it: as 0, its end would contradict a verdict.
    if abs(difference) > NOTHING:
        return f"{100 * difference:+.1g}".replace("-", "−")
    return text.lstrip("+-")


def signed_interval(
    difference: float, low: float, high: float, *, is_rate: bool = True, points: bool = False
) -> str:
    """Return a difference with its interval, such as `+1.0 points [−0.2, +2.0]`; scores that are no
    rates have no points.
    """
    value, *ends = (signed(end, is_rate) for end in (difference, low, high))
    if points and is_rate:
        value += " points"
    return f"{value} [{', '.join(ends)}]"


def money(cost: float | None) -> str:
    """Return `0.000042 USD`, `0.0042 USD`, `12.50 USD`."""
    if cost is None:
        return "price unknown"
    if not cost:
        return "0 USD"
    if cost >= 10:
        return f"{cost:.2f} USD"
    if cost >= 0.001:
        return f"{cost:.4f} USD"
    return f"{cost:.6f} USD"


def total_cost(costs: Iterable[tuple[float, float] | None]) -> tuple[float, float] | None:
    """Return the lowest and the highest cost of several steps; None where one is not known."""
    lowest, highest = 0.0, 0.0
    for cost in costs:
        if cost is None:
            return None
        lowest, highest = lowest + cost[0], highest + cost[1]
    return lowest, highest


def rounded_money(cost: float) -> str:
    """Return an estimate of a cost: `0.42 USD`, `0.0031 USD`, `12 USD`."""
    return f"{float(f'{cost:.2g}'):,g} USD"


def thousand(usd: float | None, tokens: float | None) -> str:
    """Return the price of 1,000 questions, from that of one; empty where none is known."""
    # An LM of one's own costs 0 dollars: then tokens say more.
    if usd:
        return f"{rounded_money(1000 * usd)} for 1,000 questions"
    if tokens is None:
        return ""
    return f"{float(f'{1000 * tokens:.2g}'):,.0f} tokens for 1,000 questions"


def duration(seconds: float) -> str:
    """Return `0.4 s`, `12 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def calls_used(calls: int | None) -> str:
    return "calls unknown" if calls is None else counted(calls, "call")


def used(usage: UsageFields) -> str:
    calls = calls_used(usage.calls)
    if usage.cached_calls:
        calls += f" ({usage.cached_calls:,} of them recorded or cached)"
    return f"{calls}, {tokens_used(usage)}, {money(usage.cost_usd)}"


def unanswered(lost: Mapping[str, object] | None) -> str:
    """Return a clause on the possible cost of calls without an answer, which the bill lacks; empty
    if there are none.
    """
    usage = UsageFields.of(lost or {"calls": 0})
    if not usage.calls:
        return ""
    calls = counted(usage.calls, "call")
    if usage.cost_usd:
        return f"; at most {money(usage.cost_usd)} more for {calls} without an answer"
    return f"; {calls} without an answer"


def tokens_used(usage: UsageFields) -> str:
    """Return `2,000 (1,920 cached) + 700 tokens`; what is not known, or 0, of the parts in brackets
    is left out.
    """
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return "tokens unknown"
    cached = {"cached": usage.cached_prompt_tokens, "written to cache": usage.cache_write_tokens}
    reasoning = {"reasoning": usage.reasoning_tokens}
    prompt = _parts(usage.prompt_tokens, cached)
    return f"{prompt} + {_parts(usage.completion_tokens, reasoning)} tokens"


def _parts(total: int, parts: Mapping[str, int | None]) -> str:
    """Return a number of tokens with its known, non-zero parts."""
    named = [f"{tokens:,} {name}" for name, tokens in parts.items() if tokens]
    if not named:
        return f"{total:,}"
    return f"{total:,} ({', '.join(named)})"


def asked(rows: int, questions: int) -> str:
    """Return `100 questions`; with several rows per question, `500 answers to 100 questions`."""
    named = counted(questions, "question")
    return f"{rows:,} answers to {named}" if rows > questions else named


def as_sentence(text: str) -> str:
    """Return a clause as a sentence of its own; an address or a name that begins it keeps its
    spelling.
    """
    if "/" in text.split()[0]:
        return f"{text}."
    return f"{text[0].upper()}{text[1:]}."


def paused(problem: Exception) -> str:
    """Return why asking stopped where an endpoint or an account does not answer any more."""
    return (
        f"paused, since an endpoint fails ({problem}); this counts against no program, and the "
        "same command continues"
    )


def why_ended(problem: BaseException | None) -> str | None:
    """Return why work ended early, in one line; None if it did not."""
    if problem is None:
        return None
    if isinstance(problem, UserError):
        return said_by(problem)
    if isinstance(problem, KeyboardInterrupt | CancelledError):
        return "interrupted"
    return type(problem).__name__


def common_error(rows: Iterable[ResultRow]) -> tuple[str, int] | None:
    """Return the most frequent error of rows, and its count; the first of equally frequent ones."""
    reasons = Counter(" ".join(str(row.error).split()) for row in rows if row.error is not None)
    if not reasons:
        return None
    ((reason, times),) = reasons.most_common(1)
    return shortened(reason), times


def shortened(text: str, longest: int = LONGEST_REASON) -> str:
    """Return a text as one line of at most this many characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else f"{flat[: longest - 1]}…"
