"""Candidate programs of a compilation: which were met, how each scored, and which is the best."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from ...modules.protocols.nearest import NearestDemos
from ...modules.protocols.program import Program
from ...modules.reading.question import Question
from ..statistics.statistics import bootstrap_mean, wilson


@dataclass
class PromptCandidate:
    """A program with the prompts of one candidate, and its scores (0 to 1) by question id.

    `shown` are the texts of the questions that it has as demonstrations: its answers to those say
    nothing.
    """

    name: str
    program: Program
    shown: frozenset[str]
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def score(self) -> float:
        return sum(self.scores.values()) / len(self.scores) if self.scores else 0.0

    def interval(self) -> tuple[float, float]:
        """Ends of the 95% interval of the score: Wilson's for right and wrong (0 to 1 without any),
        bootstrap otherwise.
        """
        values = list(self.scores.values())
        if set(values) <= {0.0, 1.0}:
            return wilson(int(sum(values)), len(values))
        _, low, high = bootstrap_mean(values, seed=0)
        return low, high


class Candidates:
    """All candidates of one compilation, in the order in which they were met. Thread-safe.

    Args:
        given: the program as it was given; it is the first candidate.
        selection: the questions by which candidates are chosen.
        finished: called with every candidate once it has a score on all of them.
    """

    def __init__(
        self,
        given: Program,
        selection: Sequence[Question],
        finished: Callable[[PromptCandidate], None],
    ) -> None:
        self._selection = {question.id: question.question for question in selection}
        self._finished = finished
        self._lock = threading.Lock()
        self._given = given
        self._known: dict[str, PromptCandidate] = {}
        self.scorings = 0
        self.first = self.met(given)

    def __getitem__(self, name: str) -> PromptCandidate:
        return self._known[name]

    def __iter__(self) -> Iterator[PromptCandidate]:
        return iter(list(self._known.values()))

    def __len__(self) -> int:
        return len(self._known)

    def met(self, program: Program) -> str:
        """The name of the candidate that a program is; a copy is kept when it is a new one."""
        name = name_of(program)
        with self._lock:
            if name not in self._known:
                demos = [demo for predictor in program.predictors() for demo in predictor.demos]
                texts = [
                    demo.get("question")
                    for demo in demos
                    if isinstance(demo, Mapping | dspy.Example)
                ]
                shown = frozenset(str(text) for text in texts if text is not None)
                self._known[name] = PromptCandidate(name, self._seated(program), shown)
        return name

    def scored(self, question: Question, prediction: Any, score: float) -> None:
        """Note a score; of a prediction that no candidate made as it is, nothing."""
        program = getattr(prediction, "_program", None)
        if program is None:
            return
        name = self.met(program)
        with self._lock:
            candidate = self._known[name]
            if question.question in candidate.shown:
                return
            self.scorings += 1
            done = self.complete(candidate)
            candidate.scores[question.id] = score
            now = not done and self.complete(candidate)
        if now:
            self._finished(candidate)

    def complete(self, candidate: PromptCandidate) -> bool:
        """Whether it has a score on every selection question that it does not show."""
        return all(
            name in candidate.scores or text in candidate.shown
            for name, text in self._selection.items()
        )

    def best(self) -> PromptCandidate:
        """The candidate with the best score on the selection questions; of equal ones the given
        program, then the one with the shortest prompts.

        One that was scored on some questions only (the run was stopped) has to be surely better:
        the lower end of its interval has to lie above the others' score. The given program is the
        best as long as nothing else is known.
        """
        best = self._known[self.first]
        at = self.selected(best).score
        others = sorted(
            self._known.values(), key=lambda one: (len(str(prompts_of(one.program))), one.name)
        )
        for candidate in others:
            if self.complete(candidate) and (score := self.selected(candidate).score) > at:
                best, at = candidate, score
        for candidate in others:
            if candidate.scores and not self.complete(candidate) and candidate.interval()[0] > at:
                best, at = candidate, candidate.interval()[0]
        return best

    def selected(self, candidate: PromptCandidate) -> PromptCandidate:
        """The candidate with its scores on selection questions alone."""
        scores = {
            name: candidate.scores[name] for name in self._selection if name in candidate.scores
        }
        return PromptCandidate(candidate.name, candidate.program, candidate.shown, scores)

    def _seated(self, program: Program) -> Program:
        """A copy with the LMs and settings that were given: optimizers may have put others
        there.
        """
        copied: Program = program.deepcopy()
        seats = self._given.seats()
        for name, seat in copied.seats().items():
            seat.predict.lm = seats[name].predict.lm
            seat.predict.config = dict(seats[name].predict.config)
        for predictor in copied.predictors():
            predictor.demos = [dspy.Example(**demo) for demo in demos_of(predictor)]
        return copied


def prompts_of(program: Program) -> dict[str, dict[str, Any]]:
    """Instructions and demonstrations by predictor, as JSON: all that a prompt optimizer changes.

    Where they are chosen for each question, the demonstrations are all those there are to choose
    from.
    """
    by_predictor = {
        name: {
            "instructions": predictor.signature.instructions,
            "demos": demos_of(predictor),
            **({"thresholds": predictor.fields} if predictor.fields else {}),
        }
        for name, predictor in program.named_predictors()
    }
    if isinstance(program, NearestDemos):
        for name, prompts in by_predictor.items():
            inner = name.removeprefix("program.")
            prompts["demos"] = [
                dict(one.demos[inner]) for one in program.pool if inner in one.demos
            ]
    return by_predictor


def demos_of(predictor: Any) -> list[dict[str, Any]]:
    """The demonstrations that a seat shows, each with the fields that its signature has.

    One that does not end as this seat's replies do is never shown, and left out.
    """
    signature = predictor.signature
    last = list(signature.output_fields)[-1]
    fields = [name for name in signature.fields if name != "correction"]
    return [
        {name: demo[name] for name in fields if demo.get(name) is not None}
        for demo in predictor.demos
        if demo.get(last) is not None
    ]


def name_of(program: Program) -> str:
    """A short hash of everything that tells candidates apart."""
    text = json.dumps([type(program).__name__, prompts_of(program)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def candidate_row(candidate: PromptCandidate, complete: bool) -> dict[str, Any]:
    """The candidate as it stands in `candidates.jsonl`."""
    low, high = candidate.interval()
    return {
        "key": f"{candidate.name}/{len(candidate.scores)}",  # scored further, it gets another row
        "candidate": candidate.name,
        "score": candidate.score,
        "low": low,
        "high": high,
        "questions": len(candidate.scores),
        "complete": complete,
        "prompts": prompts_of(candidate.program),
    }
