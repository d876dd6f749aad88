"""All context variables. They hold what a call needs and cannot be passed as an argument, because
code of users, of DSPy or of LiteLLM lies between. Those whose class is defined further up are typed
`Any` here.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextvars import ContextVar, Token
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Asker(NamedTuple):
    """Who makes an LM call: the agent's name (`seat`) and the question's id, each None where
    unknown.

    `requests` collects the cache keys of the question's requests (None without a question); `paid`
    are the keys that an earlier attempt at the question has paid for. `turn` identifies the
    question in accounts. For a task, `files` are its files and `place` is the
    `tasks.folder.Workplace` where they are.
    """

    seat: str | None = None
    question: str | None = None
    requests: set[str] | None = None
    paid: Container[str] = ()
    turn: object = None
    files: Mapping[str, str] | None = None
    place: Any = None

    def asks_first(self, key: str) -> bool:
        """Note a request with this key; returns whether it is the question's first."""
        if self.requests is None:
            return True
        new = key not in self.requests
        self.requests.add(key)
        return new

    def sample(self, key: str) -> int:
        """Note one more request with this key; returns how many the question made before."""
        before = 0
        while not self.asks_first(f"{key}#{before}"):
            before += 1
        return before


class Source(NamedTuple):
    """A file that holds names, and how a user can give such a name instead."""

    file: str
    instead: str


ROLLOUTS_OF_A_COPY = 10_000  # more than any agent draws samples itself


class Rollouts(NamedTuple):
    """How the calls of one copy of an agent differ from those of the other copies: its rollouts
    are numbered from `rollout` on, and it samples at `temperature` unless the agent sets one (None:
    as the LM does).
    """

    rollout: int = 0
    temperature: float | None = None

    def number(self, rollout: int | None) -> int | None:
        """Return the number, unique among all copies, of this copy's rollout. The first copy's
        stays as it is.
        """
        return self.rollout + (rollout or 0) if self.rollout else rollout

    def of_copy(self, number: int, temperature: float | None) -> Rollouts:
        """Return the rollouts of copy `number`, counted from those of the current repeat."""
        return Rollouts(self.rollout + number * ROLLOUTS_OF_A_COPY, temperature)


ASKER: ContextVar[Asker] = ContextVar("folkmoot_asker", default=Asker())  # noqa: B039
ROLLOUTS: ContextVar[Rollouts] = ContextVar("folkmoot_rollouts", default=Rollouts())  # noqa: B039
METER: ContextVar[Any] = ContextVar("folkmoot_meter", default=None)
"""The innermost `calls.metered`."""
REFUSED: ContextVar[list[Exception] | None] = ContextVar("folkmoot_refused", default=None)
"""The reasons of the calls that were refused (`calls.refusals`)."""
WATCHED: ContextVar[Any] = ContextVar("folkmoot_watched", default=None)
"""The calls of the current question (`lms.seen.Seen`); None if it is not traced."""
OPEN_BOOKS: ContextVar[Any] = ContextVar("folkmoot_open_books", default=None)
"""The books of the runs around a call; read by `lms.store.books_around`."""
OF_A_CALL: tuple[ContextVar[Any], ...] = (ASKER, ROLLOUTS, METER, REFUSED, WATCHED, OPEN_BOOKS)
"""The variables that are copied into the threads that DSPy starts (`lms.foreign`)."""

GUARD: ContextVar[Any] = ContextVar("folkmoot_guard", default=None)
"""The guard of the current call (`lms.hosted`); LiteLLM calls of other code pass unchanged."""
CANCELLING: ContextVar[Any] = ContextVar("folkmoot_cancelling", default=None)
"""Cancels the synchronous function that an async form waits for (`tracking.context.awaitable`)."""
CALLER: ContextVar[Any] = ContextVar("folkmoot_caller", default=None)
"""The caller's MLflow run (`tracking.context`), for the thread in which an async form works."""
SOURCE: ContextVar[Source | None] = ContextVar("folkmoot_source", default=None)
"""The file whose names are being read (`registry.names_from`); None for names that a user gave."""


class bound(Generic[T]):  # noqa: N801
    """Give a context variable a value inside the block.

    A class and not a `@contextmanager`, which takes three times as long: every call enters several.
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
