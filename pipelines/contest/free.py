"""Free entrants: programs whose answers follow from recorded answers of others, without a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...modules.base.calls import Usage, total
from ...modules.base.errors import UserError
from ...modules.protocols.deliberation.deliberation import Deliberation
from ...modules.protocols.deliberation.replay import replay
from ...modules.protocols.single import SingleAgent
from ...modules.reading.answers import answer_key, score
from ...modules.reading.metrics import Metric
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow, score_in, taken
from ...modules.reading.voting import vote_among
from ..base.wording import counted
from ..tasks.picked import checked_scores
from .entrants import Entrant

Rows = Mapping[str, ResultRow]


class Free(NamedTuple):
    """A free entrant: its score (1 right, 0 wrong) and what it would have cost, by question; and
    the `rounds` of a shorter dialogue.
    """

    name: str
    scores: dict[str, float]
    bills: dict[str, Usage]
    rounds: int = 0


def free_entrants(entrants: Sequence[Entrant], rows: Mapping[str, Rows]) -> list[Free]:
    """Return the free entrants of a field, computed from the rows of its programs."""
    entries: list[Free] = []
    for entrant in entrants:
        recorded = rows.get(entrant.name) or {}
        if isinstance(entrant.program, Deliberation):
            entries += talks_of(entrant, entrant.program, recorded)
        elif entrant.fair and isinstance(entrant.program, SingleAgent):
            entries += _fewer_samples(entrant.prompt, entrant.program, recorded)
    entries += _where_two_differ(entrants, rows)
    return [entry for entry in entries if entry.scores]


async def any_right(
    entrant: Entrant, rows: Rows, check: Metric, questions: Sequence[Question]
) -> Free:
    """Return the free entrant that is right whenever any sample is: no pick among them can be
    better.
    """
    free = Free(f"any of {entrant.program.samples} right (a ceiling)", {}, {})
    others = []
    for question in questions:
        if (row := rows.get(question.id)) is None:
            continue
        for turn in row.transcript:
            # Round 1 has the samples, a later one the pick, whose answer has been scored already.
            if turn.round == 1 and turn.answer not in (row.answer, None):
                others.append((question, str(turn.answer)))
    for id, row in rows.items():
        free.scores[id], free.bills[id] = score_in(row), taken(row)
    for (id, _), scored in (await checked_scores(check, others)).items():
        free.scores[id] = max(free.scores[id], scored)
    return free


def talks_of(entrant: Entrant, program: Deliberation, rows: Rows) -> Iterator[Free]:
    """Yield the dialogue with fewer rounds, and with a vote instead of its judge."""
    for rounds in range(1, program.max_rounds + 1):
        if rounds == program.max_rounds and program.judge is None:  # the program itself
            continue
        free = Free(f"{entrant.name}, {counted(rounds, 'round')}, vote", {}, {}, rounds)
        for id, row in rows.items():
            if row.error is not None:
                continue
            try:
                outcome = replay(row, max_rounds=rounds, tie_break="majority")
            except UserError:  # a row of another program
                return
            # An estimate, as if all turns cost the same.
            turns = row.transcript[: outcome.usage["calls"]]
            _add(free, id, row, outcome.answer, len(turns) / max(1, len(row.transcript)))
        yield free


def _fewer_samples(prompt: str, program: SingleAgent, rows: Rows) -> Iterator[Free]:
    """Yield the fair opponent's prompt, asked fewer times."""
    samples = program.samples or 1
    # Not once: that is the prompt itself, which is in the field already.
    for fewer in sorted({3, samples // 2} - {0, 1}):
        if fewer >= samples:
            continue
        free = Free(f"{prompt}, {fewer} times", {}, {})
        for name, row in rows.items():
            if row.error is None:
                answers = [turn.answer for turn in row.transcript[:fewer]]
                _add(free, name, row, vote_among(answers, row.kind).answer, fewer / samples)
        yield free


def _where_two_differ(entrants: Sequence[Entrant], rows: Mapping[str, Rows]) -> Iterator[Free]:
    """Yield each team, asked only if the answers of two cheap programs differ."""
    cheap, teams = list[Rows](), dict[str, Rows]()
    for entrant in entrants:
        recorded = rows.get(entrant.name) or {}
        if entrant.team:
            teams[entrant.name] = recorded
        elif recorded and not entrant.prompt:
            cheap.append(recorded)
    if len(cheap) < 2:
        return
    first, second, *_ = cheap
    for team, recorded in teams.items():
        free = Free(f"{team} where two differ", {}, {})
        for name, row in recorded.items():
            if name not in first or name not in second:
                continue
            chosen, bill = first[name], total([taken(first[name]), taken(second[name])])
            if not _agree(first[name], second[name]):
                chosen = row
                bill.add(taken(row))
            free.scores[name] = float(bool(chosen.correct))
            free.bills[name] = bill
        yield free


def _agree(one: ResultRow, other: ResultRow) -> bool:
    """Return whether two rows have the same answer."""
    if one.answer is None or other.answer is None:
        return False
    return answer_key(one.answer, one.kind) == answer_key(other.answer, other.kind)


def _add(free: Free, name: str, row: ResultRow, answer: str | None, share: float) -> None:
    """Add the score of another answer to a recorded question, at a share of the recorded cost."""
    right = answer is not None and score(answer, row.gold or "", row.kind, row.choices).correct
    free.scores[name] = float(right)
    bill: dict[str, Any] = {}
    for unit in ("calls", "prompt_tokens", "completion_tokens", "cost_usd"):
        whole = getattr(taken(row), unit)
        bill[unit] = whole and whole * share
    free.bills[name] = Usage(**bill)
