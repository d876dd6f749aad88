"""What a dialogue consists of: the task, and the turns that its transcript lists."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from ..base.calls import Usage, note_transcribed
from ..base.errors import UserError
from ..reading.asked import Kind, check_choices, check_context, require_text
from ..reading.row import Examined, Passage, SpokenTurn, TurnDetails, TurnFields
from ..reading.voting import all_agree

MAX_CONTEXT_CHARS = 24_000  # of a context that an agent is shown


def check_passage(passage: str, name: str) -> None:
    """Raise UserError for a passage that every prompt would cut."""
    if len(passage) > MAX_CONTEXT_CHARS:
        raise UserError(
            f"{name} has a context of {len(passage):,} characters: "
            f"shorten it to {MAX_CONTEXT_CHARS:,}, or put it into a corpus for a retriever"
        )


@dataclass(frozen=True)
class Task:
    """One question as the agents see it, without the gold answer."""

    question: str
    choices: Mapping[str, str] | None = None
    context: str | None = None
    kind: Kind = "choice"

    @classmethod
    def of(
        cls,
        question: str,
        choices: Mapping[str, str] | Sequence[str] | None = None,
        context: str | Sequence[str] | None = None,
        kind: Kind | None = None,
    ) -> Task:
        """Return the task of a program's call; the default kind is `choice` with choices, else
        `span`.

        Raises UserError for a kind that is unknown or does not fit the choices, and for a question,
        choices or context that a data set could not have either.
        """
        require_text(question, "the question needs a text")
        labelled = check_choices(choices or None, "the question")
        context = check_context(context, "the question")
        if kind is not None and kind not in get_args(Kind):
            raise UserError(f"there is no kind {kind!r}: choose one of {', '.join(get_args(Kind))}")
        if kind is not None and (kind == "choice") != bool(labelled):
            needs = "needs choices={…}"
            fault = needs if kind == "choice" else "has no choices: drop them, or the kind"
            raise UserError(f"a question of kind {kind} {fault}")
        passage = context if isinstance(context, str) else "\n\n".join(context or ())
        if kind is None:
            kind = "choice" if labelled else "span"
        return cls(question, labelled, passage or None, kind)

    @property
    def key(self) -> str:
        """A stable hash of the question, to seed random draws with."""
        options = "\x1f".join(f"{label}={text}" for label, text in (self.choices or {}).items())
        return hashlib.sha256(f"{self.question}\x1e{options}".encode()).hexdigest()[:16]


_FIELDS = (*("agent", "round", "answer", "text", "raw", "evidence", "usage", "step", "examined"),)


@dataclass(frozen=True)
class Turn:
    """One agent's contribution. `answer` is None if it could not be read.

    `raw` is the answer in the agent's own words if these differ; `evidence` are the passages that
    it was shown. `step` names a turn that only prepares an answer. `examined` is what an evaluator
    examined. `outputs` are the output fields of the agent's signature; empty if the turn was read
    from a row.
    """

    agent: str
    round: int
    answer: str | None
    text: str
    raw: str | None = None
    evidence: tuple[Passage, ...] = ()
    usage: Usage = field(default_factory=Usage)
    step: str | None = None
    examined: Examined | None = None
    details: TurnDetails = field(default_factory=TurnDetails)
    outputs: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, row: TurnFields) -> Turn:
        """Return the turn that `to_dict` has written into a row."""
        row = TurnFields.of(row)
        return cls(
            row.agent,
            row.round,
            row.answer,
            row.text,
            row.raw,
            tuple(row.evidence or ()),
            Usage.of(row.usage or {}),
            row.step,
            row.examined,
            TurnDetails.of({name: held for name, held in row.items() if name not in _FIELDS}),
        )

    def to_dict(self) -> TurnFields:
        """Return the turn as it stands in the transcript of a row; empty fields are left out."""
        row = TurnFields.of(self.spoken())
        if self.raw is not None:
            row["raw"] = self.raw
        if self.evidence:
            row["evidence"] = [*self.evidence]
        if self.step is not None:
            row["step"] = self.step
        if self.examined is not None:
            row["examined"] = self.examined
        usage = self.usage.to_dict()
        note_transcribed(usage, self.usage)
        row.update(self.details, usage=usage)
        return row

    def spoken(self) -> SpokenTurn:
        """Return the part of the turn that later speakers see."""
        return SpokenTurn(agent=self.agent, round=self.round, answer=self.answer, text=self.text)


def agreed(turns: Iterable[Turn], kind: Kind) -> bool:
    """Return whether all these turns give the same answer."""
    return all_agree([turn.answer for turn in turns], kind)
