"""All context variables: what travels with a call without being handed on, since code of users, of
DSPy or of LiteLLM lies between. A type that belongs to a room above is named where it is read.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextvars import ContextVar, Token
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Asker(NamedTuple):
    """The asker of a call: the agent's name and the question's id, each None where unknown.
    `requests` has the keys of all requests of the question; None without a question. `paid` has the
    keys that an earlier attempt has paid for. By `turn`, accounts know the question. A task has
    `files`, and the `place` where it is done (`tasks.folder.Workplace`).
    """

    seat: str | None = None
    question: str | None = None
    requests: set[str] | None = None
    paid: Container[str] = ()
    turn: object = None
    files: Mapping[str, str] | None = None
    place: Any = None

    def asks_first(self, key: str) -> bool:
        """Whether this is the question's first request with this key, which is noted."""
        if self.requests is None:
            return True
        new = key not in self.requests
        self.requests.add(key)
        return new

    def sample(self, key: str) -> int:
        """How many requests with this key the question made before, of which this is one more."""
        before = 0
        while not self.asks_first(f"{key}#{before}"):
            before += 1
        return before


ROLLOUTS_OF_A_COPY = 10_000  # more than any agent draws samples itself


class Rollouts(NamedTuple):
    """The samples of an LM that an agent's calls are: copies of one LM have rollouts of their own,
    from `rollout` on, at `temperature` unless another is set; None leaves it as it is.
    """

    rollout: int = 0
    temperature: float | None = None

    def number(self, rollout: int | None) -> int | None:
        """The number of a call's rollout among those of all copies."""
        return self.rollout + (rollout or 0) if self.rollout else rollout

    def of_copy(self, number: int, temperature: float | None) -> Rollouts:
        """The samples of a copy: a repeat of the question has rollouts of its own, on which these
        are built.
        """
        return Rollouts(self.rollout + number * ROLLOUTS_OF_A_COPY, temperature)


ASKER: ContextVar[Asker] = ContextVar("folkmoot_asker", default=Asker())  # noqa: B039
ROLLOUTS: ContextVar[Rollouts] = ContextVar("folkmoot_rollouts", default=Rollouts())  # noqa: B039
METER: ContextVar[Any] = ContextVar("folkmoot_meter", default=None)
"""The innermost `calls.metered`."""
REFUSED: ContextVar[list[Any] | None] = ContextVar("folkmoot_refused", default=None)
"""The reasons of the calls that were refused (`calls.refusals`)."""
WATCHED: ContextVar[Any] = ContextVar("folkmoot_watched", default=None)
"""The calls of the current question (`lms.seen.Seen`); None if it is not traced."""
OPEN_BOOKS: ContextVar[Any] = ContextVar("folkmoot_open_books", default=None)
"""The books of the runs around a call; read by `lms.store.books_around`."""
OF_A_CALL: tuple[ContextVar[Any], ...] = (ASKER, ROLLOUTS, METER, REFUSED, WATCHED, OPEN_BOOKS)
"""What DSPy's own threads take along of a program's call."""

GUARD: ContextVar[Any] = ContextVar("folkmoot_guard", default=None)
"""The guard of the current call (`lms.hosted`); LiteLLM calls of other code pass unchanged."""
CANCELLING: ContextVar[Any] = ContextVar("folkmoot_cancelling", default=None)
"""How the async form of a function cancels it (`tracking.context.awaitable`)."""
CALLER: ContextVar[Any] = ContextVar("folkmoot_caller", default=None)
"""The caller's place in MLflow (`tracking.context`), for the thread of an async form."""
SOURCE: ContextVar[Any] = ContextVar("folkmoot_source", default=None)
"""The file that names code or hosts (`registry.names_from`); None where a user does."""


class bound(Generic[T]):  # noqa: N801
    """Give a context variable a value inside the block. A class, since every call passes several
    such blocks: a generator takes three times as long.
    """

    __slots__ = ("_token", "_value", "_variable")
    _token: Token[T]

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> T:
        self._token = self._variable.set(self._value)
        return self._value

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)
