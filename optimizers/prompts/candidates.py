"""Candidate programs of a compilation, their scores, and the best of them."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

import dspy

from ...modules.base.keyed import without_none
from ...modules.protocols.nearest import NearestDemos
from ...modules.protocols.program import Program
from ...modules.reading.question import Question
from ...modules.statistics.statistics import Estimate, mean_estimate


@dataclass
class PromptCandidate:
    """A program with the prompts of one candidate, and its scores (0 to 1) by question id.

    `shown` are the texts of the questions among its demonstrations, whose answers are not scored.
    """

    name: str
    program: Program
    shown: frozenset[str]
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def score(self) -> float:
        return sum(self.scores.values()) / len(self.scores) if self.scores else 0.0

    def estimate(self) -> Estimate:
        """Return the score with its 95% interval."""
        return mean_estimate(list(self.scores.values()), seed=0)


class Candidates:
    """All candidates of one compilation, in order of first appearance. Thread-safe.

    Args:
        program: the program to compile; it is the first candidate.
        selection: the questions by which candidates are chosen.
        finished: called with every candidate once it has a score on all of them.
    """

    def __init__(
        self,
        program: Program,
        selection: Sequence[Question],
        finished: Callable[[PromptCandidate], None],
    ) -> None:
        self._selection = {question.id: question.question for question in selection}
        self._finished = finished
        self._lock = threading.Lock()
        self._program = program
        self._candidates: dict[str, PromptCandidate] = {}
        self.scorings = 0
        self.first = self.met(program)

    def __getitem__(self, name: str) -> PromptCandidate:
        return self._candidates[name]

    def __iter__(self) -> Iterator[PromptCandidate]:
        return iter(list(self._candidates.values()))

    def __len__(self) -> int:
        return len(self._candidates)

    def met(self, program: Program) -> str:
        """Return the name of a program's candidate; a copy of a new one is kept."""
        name = name_of(program)
        with self._lock:
            if name not in self._candidates:
                seated, shown = self._with_user_lms(program), _questions_in(program)
                self._candidates[name] = PromptCandidate(name, seated, shown)
        return name

    def scored(self, question: Question, prediction: object, score: float) -> None:
        """Note a score; predictions that no candidate made are ignored."""
        program = getattr(prediction, "_program", None)
        if program is None:
            return
        name = self.met(program)
        with self._lock:
            candidate = self._candidates[name]
            # Its prompt has the answer.
            if question.question in candidate.shown:
                return
            self.scorings += 1
            done = self.complete(candidate)
            candidate.scores[question.id] = score
            now = not done and self.complete(candidate)
        if now:
            self._finished(candidate)

    def complete(self, candidate: PromptCandidate) -> bool:
        """Return whether it has a score on every selection question that is not among its
        demonstrations.
        """
        return all(
            name in candidate.scores or text in candidate.shown
            for name, text in self._selection.items()
        )

    def best(self) -> PromptCandidate:
        """Return the candidate with the best score on the selection questions; ties go to the
        user's program, then to the shortest prompts. A candidate that was scored only on some
        questions (the run was stopped) has to be clearly better: the lower end of its interval must
        lie above the others' score. Without scores, the user's program is the best.
        """
        best = self._candidates[self.first]
        at = self.selected(best).score
        # The shortest first: what comes later has to be better, so ties stay with the shorter.
        others = sorted(
            self._candidates.values(),
            key=lambda candidate: (len(str(prompts_of(candidate.program))), candidate.name),
        )
        for candidate in others:
            score = self.selected(candidate).score
            if self.complete(candidate) and score > at:
                best, at = candidate, score
        for candidate in others:
            part = self.selected(candidate)
            if part.scores and not self.complete(candidate):
                low = part.estimate().low
                if low > at:
                    best, at = candidate, low
        return best

    def selected(self, candidate: PromptCandidate) -> PromptCandidate:
        """Return the candidate with only its scores on selection questions."""
        scores = {
            name: candidate.scores[name] for name in self._selection if name in candidate.scores
        }
        return PromptCandidate(candidate.name, candidate.program, candidate.shown, scores)

    def _with_user_lms(self, program: Program) -> Program:
        """Return a copy with the user's LMs and settings, since optimizers may have replaced
        them.
        """
        copied: Program = program.deepcopy()
        seats = self._program.seats()
        for name, seat in copied.seats().items():
            seat.predict.lm = seats[name].predict.lm
            seat.predict.config = dict(seats[name].predict.config)
        for predictor in copied.predictors():
            predictor.demos = [dspy.Example(**demo) for demo in demos_of(predictor)]
        return copied


class PromptFields(TypedDict):
    """What a prompt optimizer changes of a predictor, as JSON."""

    instructions: str
    demos: list[dict[str, object]]
    thresholds: NotRequired[dict[str, object]]


def prompts_of(program: Program) -> dict[str, PromptFields]:
    """Return instructions and demonstrations by predictor, as JSON: everything that a prompt
    optimizer changes. Where demonstrations are chosen per question, all available ones are
    included.
    """
    by_predictor: dict[str, PromptFields] = {}
    for name, predictor in program.named_predictors():
        by_predictor[name] = {
            "instructions": predictor.signature.instructions,
            "demos": demos_of(predictor),
        }
        if predictor.fields:
            by_predictor[name]["thresholds"] = predictor.fields
    if isinstance(program, NearestDemos):
        # Which of them a question is shown is not known before it is asked.
        for name, prompts in by_predictor.items():
            inner = name.removeprefix("program.")
            prompts["demos"] = [
                dict(shown.demos[inner]) for shown in program.pool if inner in shown.demos
            ]
    return by_predictor


def demos_of(predictor: dspy.Predict) -> list[dict[str, object]]:
    """Return the demonstrations that a seat shows, each with the fields of its signature.
    Demonstrations without the seat's last output field are never shown, and are left out.
    """
    signature = predictor.signature
    last = list(signature.output_fields)[-1]
    shown = []
    for demo in predictor.demos:
        if demo.get(last) is not None:
            # A correction is about one unreadable reply, and no demonstration shows it.
            own = {name: demo.get(name) for name in signature.fields if name != "correction"}
            shown.append(without_none(own))
    return shown


def _questions_in(program: Program) -> frozenset[str]:
    """Return the texts of the questions among a program's demonstrations."""
    texts = set()
    for predictor in program.predictors():
        for demo in predictor.demos:
            if isinstance(demo, Mapping | dspy.Example) and demo.get("question") is not None:
                texts.add(str(demo["question"]))
    return frozenset(texts)


def name_of(program: Program) -> str:
    """Return a short hash of everything that distinguishes candidates."""
    what: list[object] = [type(program).__name__, prompts_of(program)]
    if isinstance(learned := program.describe().get("learned"), str):
        what.append(learned)  # the weights of a network, which prompts do not show
    text = json.dumps(what, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def candidate_row(candidate: PromptCandidate, complete: bool) -> dict[str, object]:
    """Return the candidate's row in `candidates.jsonl`."""
    value, low, high = candidate.estimate()
    return {
        # a new key for each number of scores, since each gets a row
        "key": f"{candidate.name}/{len(candidate.scores)}",
        "candidate": candidate.name,
        "score": value,
        "low": low,
        "high": high,
        "questions": len(candidate.scores),
        "complete": complete,
        "prompts": prompts_of(candidate.program),
    }
