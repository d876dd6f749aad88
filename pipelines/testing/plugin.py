"""A pytest plugin: the fixture `folkmoot_compare` lets a test fail when a program got worse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..base.request import AnyProgram, AnyQuestions
    from ..comparison.comparison import Comparison


class ProgramCheck:
    """Two programs that answered the same questions; shown by pytest as the verdict on them.

    Attributes:
        comparison: all figures, as `folkmoot.compare` returns them.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def is_not_worse(self) -> bool:
        """Return whether the program is not shown to be worse; an undecided comparison passes."""
        return not self.comparison.fails("worse")

    def is_better(self) -> bool:
        """Return whether the program is shown to be better."""
        return not self.comparison.fails("not-better")

    def __repr__(self) -> str:
        return f"<{self.comparison.headline}>"


@pytest.fixture
def folkmoot_compare(tmp_path: Path) -> Callable[..., ProgramCheck]:
    """Ask a program and a baseline the same questions, and compare them.

    Both are whatever `folkmoot.evaluate` takes, such as a program, a spec or a saved folder;
    further keywords, such as `lm` and `budget`, are those of `folkmoot.evaluate`.
    """

    def compared(
        program: AnyProgram, baseline: AnyProgram, questions: AnyQuestions, **settings: Any
    ) -> ProgramCheck:
        # Every test session loads this file, and these imports take more than a second.
        from ..comparison.compare import compare
        from ..evaluation.evaluate import evaluate

        programs = {"baseline": baseline, "program": program}
        # A test leaves no run in the user's store, unless it is told to.
        options = {"tracking": False, "progress": False, **settings}
        runs = [
            evaluate(candidate, questions, out=tmp_path / name, **options)
            for name, candidate in programs.items()
        ]
        return ProgramCheck(compare(*runs, names=list(programs)))

    return compared
