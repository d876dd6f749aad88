"""The budget of a study: one account for all its worker processes, kept by the ledger that they share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...modules.base.calls import Usage
from ...modules.base.files import whole_lines
from ..base.budget import Account, Budget
from ..base.journal import parsed
from ..lms.ledger import LEDGER

SEARCH_SHARE = 0.8
"""The part of a budget that trials may spend; the rest is kept for the winner's evaluation."""


def share_of(budget: Budget, share: float) -> Budget:
    """A part of every ceiling of a budget, calls and tokens rounded down to at least 1."""
    return Budget(
        usd=budget.usd and budget.usd * share,
        calls=budget.calls and max(1, int(budget.calls * share)),
        tokens=budget.tokens and max(1, int(budget.tokens * share)),
        seconds=budget.seconds and budget.seconds * share,
    )


@dataclass
class SharedAccount(Account):
    """An account that also sees what other processes of the study have paid, on the ledger in `folder`.

    What they have in flight is not seen: over all, at most the calls in flight go beyond the ceiling.
    """

    folder: Path = field(default_factory=Path)
    _read_to: int = 0

    def _over(self) -> str | None:
        self._sync()
        return super()._over()

    def _sync(self) -> None:
        """Take what has been spent from the ledger's lines that are new."""
        for start, line in whole_lines(self.folder / LEDGER, self._read_to):
            self._read_to = start + len(line)
            if (paid := parsed(line, ("prompt_tokens", "completion_tokens", "cost_usd"))) is not None:
                tokens = paid["prompt_tokens"] or 0, paid["completion_tokens"] or 0
                self.spent.add(Usage(1, *tokens, 0, paid["cost_usd"]))

    def charge(self, usage: Usage, model: str, *, counted: bool) -> None:
        """The ledger is written by whoever pays and read by everyone: only what it cannot say is kept."""
        super().charge(Usage(0, cost_usd=usage.cost_usd and 0.0), model, counted=counted)
