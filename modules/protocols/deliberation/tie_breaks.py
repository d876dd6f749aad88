"""Tie-breaks: the rules that decide a dialogue which ends without consensus."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...agents.transcript import Turn
from ...base.errors import UserError, did_you_mean
from ...base.registry import Registry
from ...reading.asked import Kind
from ...reading.row import SpokenTurn
from ...reading.voting import DecideTie, Ties, vote_among

Turns = Sequence[SpokenTurn]
"""The turns of the agents in order, each with its `agent`, `round`, `answer` and `text`."""

Rule = Callable[["Chosen", Turns, Kind, DecideTie], str | None]
"""(the tie-break, the turns, the kind of question, what decides a tied vote) → answer or None."""


@dataclass(frozen=True)
class TieBreak:
    """A way to decide a dialogue without consensus: by a `rule`, or, if that is None, by an LM (the
    judge, or one that `picks` among the last answers).

    `names_agent`: it is written with the name of an agent, as `NAME:ROLE`. `votes`: it may be
    written with a rule for tied votes, as `NAME:RULE`.
    """

    rule: Rule | None = None
    names_agent: bool = False
    votes: bool = False
    picks: bool = False


class Chosen(NamedTuple):
    """A tie-break for a dialogue between these agents. `name` is how it is written, with the agent
    `named` or the rule for `ties` in it.
    """

    name: str
    tie_break: TieBreak
    agents: Sequence[str]
    named: str = ""
    ties: Ties = Ties()

    @property
    def asks_lm(self) -> bool:
        return self.tie_break.rule is None

    def decide(
        self,
        transcript: Sequence[Turn],
        kind: Kind,
        decide_tie: DecideTie,
        judged: str | None = None,
    ) -> tuple[str | None, str]:
        """Return the answer and `decided_by`; `judged` is the answer of an LM that was asked to
        decide. If there is no valid answer, the majority of the agents' last answers decides.
        """
        # Without the turns of a judge or a picker.
        turns = [turn.spoken() for turn in transcript if turn.agent in self.agents]
        rule = self.tie_break.rule
        answer = judged if rule is None else rule(self, turns, kind, decide_tie)
        if answer is not None:
            return answer, self.name
        return _majority(self, turns, kind), "fallback:majority"


def _majority(
    chosen: Chosen, turns: Turns, kind: Kind, decide_tie: DecideTie | None = None
) -> str | None:
    last = [turn.answer for turn in turns[-len(chosen.agents) :]]
    return vote_among(last, kind, decide_tie=decide_tie).answer


def _strongest(
    chosen: Chosen, turns: Turns, kind: Kind, decide_tie: DecideTie | None = None
) -> str | None:
    for turn in reversed(turns):
        if turn.agent == chosen.named and turn.answer is not None:
            return turn.answer
    return None


def _own(name: str, function: object) -> TieBreak:
    """Return the tie-break by a user's own function. Raises UserError for anything else."""
    if isinstance(function, TieBreak):
        return function
    if not callable(function):
        raise UserError(f"{name} is not a tie-break: name a function of the list of turns")

    def rule(chosen: Chosen, turns: Turns, kind: Kind, decide_tie: DecideTie) -> str | None:
        # Copies, since the user's function may change them.
        answer: str | None = function(list(map(dict, turns)))
        if answer is not None and answer not in [turn.answer for turn in turns]:
            raise UserError(
                f"the tie-break {name} returned {answer!r}, which no agent answered: return the "
                "answer of a turn, or None"
            )
        return answer

    return TieBreak(rule)


BUILT_IN: Mapping[str, TieBreak] = {
    "judge": TieBreak(),
    "majority": TieBreak(_majority, votes=True),
    "strongest": TieBreak(_strongest, names_agent=True),
    "pick": TieBreak(picks=True),
}
TIE_BREAKS: Registry[TieBreak] = Registry("tie_breaks", _own, lambda: BUILT_IN)
"""Every tie-break by name; to add one, add it to `BUILT_IN`, or as an entry point."""


def chosen(tie_break: object, agents: Sequence[str], seed: object = 0) -> Chosen:
    """Return a user's tie-break for a dialogue between these agents.

    Raises UserError for a name that no tie-break has, an agent that does not take part, and a seed
    that is no whole number.
    """
    # Made even if no tie is drawn, since it checks the seed.
    ties = Ties.of("first", agents, seed)
    if callable(tie_break):
        name = TIE_BREAKS.adopted(tie_break)
        return Chosen(name, _own(name, tie_break), agents)
    name, found, more = tie_break_named(str(tie_break))
    if found is None or (more and not found.votes and not found.names_agent):
        raise UserError(
            f"there is no tie-break {tie_break!r}{did_you_mean(name, TIE_BREAKS.names())}: choose "
            f"{', '.join(_written())}, a function of yours, or one that a package registers "
            "(entry point folkmoot.tie_breaks)"
        )
    if found.votes and more:
        ties = Ties.of(more, agents, seed, allowed=("first", "strongest", "random"))
        written = name if ties == Ties() else f"{name}:{str(ties).replace(':', '=')}"
        return Chosen(written, found, agents, ties=ties)
    if not found.names_agent:
        return Chosen(name, found, agents)
    if not more:
        raise UserError(f"{name} needs an agent: write {name}:AGENT, such as {name}:{agents[0]}")
    if more not in agents:
        raise UserError(
            f"the {name} agent {more!r} does not take part: choose among {', '.join(agents)}"
        )
    return Chosen(f"{name}:{more}", found, agents, more)


def tie_break_named(tie_break: str) -> tuple[str, TieBreak | None, str]:
    """Return the name in a written tie-break, the tie-break of that name (None if there is none),
    and what follows the name.
    """
    # The whole text first, since the name `module:function` has a colon itself.
    if (whole := TIE_BREAKS.find(tie_break)) is not None:
        return tie_break, whole, ""
    name, *rest = re.split("[:=]", tie_break, maxsplit=1)
    return name, TIE_BREAKS.find(name), "".join(rest)


def _written() -> list[str]:
    """Return the forms in which tie-breaks are written."""
    forms = []
    for name in TIE_BREAKS.names():
        found = TIE_BREAKS.find(name)
        if found and found.names_agent:
            name += ":ROLE"
        forms.append(name)
    return forms
