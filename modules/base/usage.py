"""The usage of LM calls: sums of calls, tokens and dollars, in which the unknown stays unknown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeVar

from .keyed import Keyed

N = TypeVar("N", int, float)


class UsageFields(Keyed):
    """The sums of `Usage` as JSON. Files of earlier versions lack the last four. `calls` is None
    where a program may have made calls that were not counted, in a thread of its own.
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
    """Sums over LM calls. A sum is None, which means unknown and not 0, if one of the paid calls
    did not report its value.

    `calls` counts all answers; `cached_calls` are those of them that came from a record or cache
    and cost nothing. Tokens and `cost_usd` are those of the calls that were really made: of the
    `prompt_tokens`, `cached_prompt_tokens` came from the provider's cache and `cache_write_tokens`
    went into it; `reasoning_tokens` are the hidden part of the `completion_tokens`.
    `truncated_calls` ended at a token limit.

    Not part of the bill: `finish_reason` (the worst way in which a call ended), `probability` and
    `thoughts` (of the last answer that has them) and `models` (the LMs that answered).
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
        """Return the usage in a row or a ledger's line. What an earlier version did not write is
        None.
        """
        calls = fields.get("calls", 0)
        # Calls that were all cached cost nothing, so what is missing of them is 0, not unknown.
        paid = calls is None or calls > fields.get("cached_calls", 0)
        missing = _NOT_NOTED if paid else _NOTHING
        return cls(*map(fields.get, missing, missing.values()))

    @classmethod
    def of_calls(cls, lines: Collection[Mapping[str, Any]]) -> Usage:
        """Return the sum of paid calls, from their lines in a ledger."""
        sums: dict[str, Any] = {}
        for name, missing in _NOT_NOTED.items():
            column = [line.get(name, missing) for line in lines]
            sums[name] = None if None in column else sum(column, _NOTHING[name])
        return cls(**sums | {"calls": len(lines)})

    @classmethod
    def unknown(cls, calls: int, truncated_calls: int = 0) -> Usage:
        """Return the usage of calls that were paid for; their tokens and price are unknown."""
        values: dict[str, Any] = dict.fromkeys(_SUMS)
        return cls(
            **values | {"calls": calls, "cached_calls": 0, "truncated_calls": truncated_calls}
        )

    @property
    def tokens(self) -> int | None:
        """The tokens of prompts and completions together; None if they are unknown."""
        return plus(self.prompt_tokens, self.completion_tokens)

    def add(self, other: Usage) -> None:
        """Add another usage to this one."""
        own, others = vars(self), vars(other)
        before = _sums_in(own)
        # Quick, for the most frequent case: a sum of one call.
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
        """This sum without one of its parts."""
        left: dict[str, Any] = {
            name: plus(getattr(self, name), getattr(part, name), -1) for name in _SUMS
        }
        return Usage(**left)

    def to_dict(self) -> UsageFields:
        # Rounded below any price: the sum must not depend on the order in which calls ended.
        sums = UsageFields.of(dict(zip(_SUMS, _sums_in(vars(self)), strict=True)))
        if self.cost_usd is not None:
            sums["cost_usd"] = round(self.cost_usd, 12)
        return sums


def _badness(finish_reason: str) -> tuple[bool, bool, str]:
    """Return a sort key for how replies end: as usual, in another way, cut off; ties go by name, so
    that the worst one does not depend on the order of calls.
    """
    return finish_reason in CUT_OFF, finish_reason != "stop", finish_reason


CUT_OFF = ("length", "max_tokens")
"""The finish reasons of endpoints for a reply that ended at a token limit."""

REFUSED = frozenset(
    {
        *("content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii"),
        *("refusal", "content_filtered", "guardrail_intervened", "sensitive", "moderation"),
        *("error_toxic", "model_armor", "image_safety", "image_prohibited_content"),
    }
)
"""The finish reasons of providers for a reply that they or the LM refused."""

DETAILS = ("cached_prompt_tokens", "cache_write_tokens", "reasoning_tokens")

_ZEROS = _sums_in(vars(Usage()))
_NOTHING = Usage().to_dict()
_NOT_NOTED = _NOTHING.but(**dict.fromkeys(DETAILS))
"""Defaults for what a line about paid calls lacks: None for what earlier versions did not write."""


def plus(a: N | None, b: N | None, sign: int = 1) -> N | None:
    """Return `a + sign * b`; None if one of the two is unknown."""
    return None if a is None or b is None else a + sign * b


def tokens_of(usage: UsageFields) -> int | None:
    """Return the tokens of prompts and completions together; None if they are unknown."""
    return plus(usage.prompt_tokens, usage.completion_tokens)


def total(usages: Iterable[Usage]) -> Usage:
    """Return the sum of usages."""
    summed = Usage()
    for usage in usages:
        summed.add(usage)
    return summed
