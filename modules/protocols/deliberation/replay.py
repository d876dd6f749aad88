"""Replays: the outcome of a recorded dialogue with fewer rounds or another tie-break."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy

from ...agents.transcript import Task, Turn
from ...base.calls import total
from ...base.errors import UserError, checked_whole
from ...base.keyed import without
from ...reading.asked import Kind
from ...reading.row import DECIDERS, ResultRow
from ...reading.voting import all_agree
from ..declaration import MAX_ROUNDS, Replayed, Replays
from ..program import prediction_of
from .tie_breaks import chosen

OPENINGS = ("in_turn", "blind")


def replay(
    result: ResultRow | dspy.Prediction,
    *,
    max_rounds: int | None = None,
    tie_break: str | Callable[[list[dict[str, object]]], str | None] | None = None,
    opening: str | None = None,
    seed: int = 0,
) -> dspy.Prediction:
    """Return the outcome of a recorded dialogue under a smaller round limit or another tie-break,
    without an LM call.

    Args:
        result: a prediction of `Deliberation`, or a row of `results.jsonl`.
        max_rounds: None keeps the recorded length; otherwise at most that, unless the dialogue
            ended by consensus.
        tie_break: one that asks no LM; None keeps the recorded judge, which needs the full length.
        opening: the recorded one, or None.
        seed: draws a tie, together with the question's id, which only a row has.

    Raises UserError for more rounds than were recorded, another opening, and a judge that was never
    asked at this point.
    """
    kind: Kind = result["kind"]
    turns = [Turn.of(turn) for turn in result["transcript"]]
    began = OPENINGS[any(turn.details.blind for turn in turns)]
    if opening not in (None, began):
        raise UserError(
            f"the recorded dialogue began {began.replace('_', ' ')}, and what agents saw cannot be "
            f"changed afterwards: run it with opening={opening!r}"
        )
    verdicts = [turn for turn in turns if turn.agent in DECIDERS]
    spoken = [turn for turn in turns if turn.agent not in DECIDERS]
    if not (recorded := max((turn.round for turn in spoken), default=0)):
        raise UserError(
            "this result holds no dialogue: replay needs a recorded run of Deliberation"
        )
    limit = checked_whole("max_rounds", max_rounds) if max_rounds is not None else recorded
    # If all agreed in a round within the limit, the dialogue ends there.
    for number in range(1, min(limit, recorded) + 1):
        latest = [turn.answer for turn in spoken if turn.round == number]
        if all_agree(latest, kind):
            kept = [turn for turn in spoken if turn.round <= number]
            return _outcome(kind, latest[0], "consensus", kept, number, consensus_round=number)
    if limit > recorded:
        raise UserError(
            f"the recorded dialogue has {recorded} rounds without consensus: "
            f"record it with max_rounds={limit} to see what they give"
        )
    kept = [turn for turn in spoken if turn.round <= limit]
    agents = list(dict.fromkeys(turn.agent for turn in spoken))
    recorded_rule = verdicts[-1].agent if verdicts else "judge"
    rule = chosen(tie_break or recorded_rule, agents, seed)
    question = str(result.get("id", ""))
    verdicts = [turn for turn in verdicts if turn.agent == rule.name]
    judged, heard = None, kept
    if rule.asks_lm:
        # The recorded verdict is about the whole dialogue; another one would need a call.
        if limit < recorded or (not verdicts and tie_break == rule.name):
            raise UserError(
                f"no {rule.name} was asked after round {limit}: choose majority or "
                "strongest:ROLE, or run it"
            )
        if not verdicts:
            # No LM was asked when it was recorded either, so the recorded outcome stays.
            return _outcome(kind, result["answer"], str(result["decided_by"]), kept, limit)
        judged, heard = verdicts[-1].answer, [*kept, verdicts[-1]]
    elif rule.ties.rule == "random" and not question:
        raise UserError(
            "a tie is drawn by the question's id, which a prediction lacks: replay its row"
        )
    answer, decided_by = rule.decide(kept, kind, rule.ties.decider(question, agents), judged)
    return _outcome(kind, answer, decided_by, heard, limit)


def _outcome(
    kind: Kind, answer: str | None, decided_by: str, kept: Sequence[Turn], rounds: int, **more: int
) -> dspy.Prediction:
    """Return the prediction of a replay, with the usage of the turns that are kept."""
    task = Task("(replayed)", None, None, kind)
    prediction = prediction_of(task, answer, decided_by, kept, rounds=rounds, **more)
    prediction["usage"] = total(turn.usage for turn in kept).to_dict()
    return prediction


def _recorded(parameters: Mapping[str, object], largest: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters of the run to record: the most rounds, and a tie-break without a
    call.
    """
    return {**without(parameters, ("seed",)), **largest, "tie_break": "majority"}


def _replay_rows(
    rows: Sequence[ResultRow], parameters: Mapping[str, Any]
) -> list[Replayed | None] | None:
    """Return the outcomes with other rounds or another tie-break; None for a judge, who needs a
    call. Raises UserError if fewer rounds were recorded.
    """
    wanted = {"tie_break": "judge", "max_rounds": MAX_ROUNDS, **parameters}
    if wanted["tie_break"] in DECIDERS:
        return None
    outcomes: list[Replayed | None] = []
    for row in map(ResultRow.of, rows):
        if row.error:
            outcomes.append(None)
            continue
        found = replay(
            row,
            max_rounds=wanted["max_rounds"],
            tie_break=wanted["tie_break"],
            opening=wanted.get("opening"),
            seed=wanted.get("seed", 0),
        )
        calls = found.usage["calls"]
        outcomes.append(Replayed(found.answer, found.decided_by, found.rounds, calls))
    return outcomes


REPLAYS = Replays(("max_rounds", "tie_break", "seed"), _recorded, _replay_rows)
