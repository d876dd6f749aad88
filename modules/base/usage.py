"""Sums of the usage of LM calls: calls, tokens and dollars. Unknown values stay unknown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeVar

from .keyed import Keyed

N = TypeVar("N", int, float)


class UsageFields(Keyed):
    """The sums of `Usage` as JSON; files of earlier versions lack the last four. `calls` is None
    where a program may have asked in a thread of its own.
    """

    __slots__ = ()
    calls: int | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_calls: int
    cost_usd: float | None
    cached_prompt_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    truncated_calls: int = 0


_SUMS = tuple(UsageFields.__annotations__)
_sums_in = itemgetter(*_SUMS)


@dataclass
class Usage:
    """Sums over LM calls. A value that one paid call did not report is None in the sum, which means
    unknown, not 0.

    `calls` counts every answer used; `cached_calls` are those of them that came from a record or
    cache and cost nothing. Tokens and `cost_usd` are those of the calls that were really made:
    `cached_prompt_tokens` of the `prompt_tokens` came from the provider's cache and
    `cache_write_tokens` went into it, and `reasoning_tokens` are the hidden part of the
    `completion_tokens`. `truncated_calls` ended at a token limit. `finish_reason` is not part of
    the bill: how the calls ended, and of several ways the worst. Nor is `probability`: that of the
    last answer, where the LM gave one.
    """

    calls: int = 0
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cached_calls: int = 0
    cost_usd: float | None = 0.0
    cached_prompt_tokens: int | None = 0
    cache_write_tokens: int | None = 0
    reasoning_tokens: int | None = 0
    truncated_calls: int = 0
    finish_reason: str | None = field(default=None, compare=False)
    probability: float | None = field(default=None, compare=False)
    thoughts: str | None = field(default=None, compare=False)
    models: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Usage:
        """The usage in a row or a ledger's line; of what an earlier version did not note, None."""
        calls = fields.get("calls", 0)
        # Calls that were all cached cost nothing, so what was not noted of them is 0, not unknown.
        paid = calls is None or calls > fields.get("cached_calls", 0)
        usual = _NOT_NOTED if paid else _NOTHING
        return cls(*map(fields.get, usual, usual.values()))

    @classmethod
    def of_calls(cls, lines: Collection[Mapping[str, Any]]) -> Usage:
        """The sum of paid calls, from their lines in a ledger."""
        sums: dict[str, Any] = {}
        for name, usual in _NOT_NOTED.items():
            column = [line.get(name, usual) for line in lines]
            sums[name] = None if None in column else sum(column, _NOTHING[name])
        return cls(**sums | {"calls": len(lines)})

    @classmethod
    def unknown(cls, calls: int, truncated_calls: int = 0) -> Usage:
        """The usage of calls that were paid for and of which no more is known."""
        values: dict[str, Any] = dict.fromkeys(_SUMS)
        return cls(
            **values | {"calls": calls, "cached_calls": 0, "truncated_calls": truncated_calls}
        )

    @property
    def tokens(self) -> int | None:
        """The tokens of prompts and completions together."""
        return plus(self.prompt_tokens, self.completion_tokens)

    def add(self, other: Usage) -> None:
        own, others = vars(self), vars(other)
        before = _sums_in(own)
        # Most sums are of one call.
        if before == _ZEROS:
            own.update(others)
            return
        pairs = zip(before, _sums_in(others), strict=True)
        sums = [None if a is None or b is None else a + b for a, b in pairs]
        own.update(zip(_SUMS, sums, strict=True))
        if self.finish_reason is None:
            self.finish_reason = other.finish_reason
        elif other.finish_reason not in (None, self.finish_reason):
            self.finish_reason = max(self.finish_reason, other.finish_reason, key=_badness)
        if other.probability is not None:
            self.probability = other.probability
        self.thoughts = other.thoughts or self.thoughts
        self.models |= other.models

    def without(self, part: Usage) -> Usage:
        """The sum without one of its parts."""
        left: dict[str, Any] = {
            name: plus(getattr(self, name), getattr(part, name), -1) for name in _SUMS
        }
        return Usage(**left)

    def to_dict(self) -> UsageFields:
        # Rounded to what no price resolves, so that sums are equal in whatever order calls ended.
        sums = UsageFields.of(dict(zip(_SUMS, _sums_in(vars(self)), strict=True)))
        if self.cost_usd is not None:
            sums["cost_usd"] = round(self.cost_usd, 12)
        return sums


def _badness(finish_reason: str) -> tuple[bool, bool, str]:
    """Sorts ways to end: the usual one, others, cut off; the same whatever the order of calls."""
    return finish_reason in CUT_OFF, finish_reason != "stop", finish_reason


CUT_OFF = ("length", "max_tokens")
"""The names that endpoints have for the end of a reply at a token limit."""

REFUSED = frozenset(
    {
        *("content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii"),
        *("refusal", "content_filtered", "guardrail_intervened", "sensitive", "moderation"),
        *("error_toxic", "model_armor", "image_safety", "image_prohibited_content"),
    }
)
"""The names that providers have for the end of a reply which they or the LM refused."""

DETAILS = ("cached_prompt_tokens", "cache_write_tokens", "reasoning_tokens")

_ZEROS = _sums_in(vars(Usage()))
_NOTHING = Usage().to_dict()
_NOT_NOTED = _NOTHING.but(**dict.fromkeys(DETAILS))
"""What the usage of an earlier version lacks, where calls were paid for."""


def plus(a: N | None, b: N | None, sign: int = 1) -> N | None:
    """The sum, or the difference; None where one of the two is not known."""
    return None if a is None or b is None else a + sign * b


def tokens_of(usage: UsageFields) -> int | None:
    """The tokens of prompts and completions together; None where they are not known."""
    return plus(usage["prompt_tokens"], usage["completion_tokens"])


def total(usages: Iterable[Usage]) -> Usage:
    """The sum of usages."""
    summed = Usage()
    for usage in usages:
        summed.add(usage)
    return summed
