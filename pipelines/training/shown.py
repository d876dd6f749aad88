"""The scores of a trained network on recorded answers, as a user sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.wording import as_sentence, percent, signed_interval

SCORES = (
    *("individual", "consensus", "majority", "best_fixed", "best_per_group"),
    *("knn", "regression", "vote_plain", "vote_conditional", "oracle"),
)


@dataclass(frozen=True)
class Rescored:
    """The scores of a network on recorded answers; see `network_scores`."""

    scores: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return dict(self.scores)

    def in_words(self, *, quiet: bool = False) -> dict[str, str]:
        """The scores, the difference of each to its rivals, and the verdict."""
        found = [name for name in SCORES if name in self.scores]
        lines = {name.replace("_", " "): percent(self.scores[name]) for name in found}
        if quiet:
            return {"consensus": lines["consensus"]}
        for team in ("consensus", "individual"):
            for rival, by in self.scores["differences"][team].items():
                difference = signed_interval(by["value"], by["low"], by["high"])
                lines[f"{team} over {rival.replace('_', ' ')}"] = f"{difference} points"
        sentences = list(map(as_sentence, self.scores["verdict"]))
        if self.scores.get("missing"):
            missing = f"{self.scores['missing']:,.1f} chosen answers"
            sentences.append(f"{missing} are not in the test outcomes, and count as wrong.")
        return {**lines, "verdict": " ".join(sentences)}
