"""A sample of answers that people graded, and how far a judge agrees with them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

import dspy

from ...modules.agents.judge import JudgeMetric
from ...modules.base.calls import asking, metered
from ...modules.base.errors import UserError
from ...modules.reading.grading import MetricError
from ...modules.reading.question import Question
from ...modules.statistics.paired import cohens_kappa
from ...modules.statistics.statistics import Estimate
from ..base.run_files import JudgeFields, score_fields
from ..data.load import load
from ..runs.summary import rate
from .answering import METRIC

GIVEN, VERDICT = "given", "verdict"
"""Columns of a sample: an answer, and whether people found it right."""

_VERDICTS = {"true": True, "yes": True, "1": True, "right": True}
_VERDICTS |= {"false": False, "no": False, "0": False, "wrong": False}


def sample_of(source: object) -> list[Question]:
    """Return the answers that people graded, from anything that `fm.load` accepts: `answer` is the
    reference, `given` the graded answer, and `verdict` says right or wrong. Raises UserError for a
    row without one of these.
    """
    rows = load(source, kind="open")
    for row in rows:
        if row.answer is None:
            raise UserError(
                f"the judge's sample: {row.id!r} has no reference: put it into the column answer"
            )
        if not str(row.meta.get(GIVEN) or "").strip():
            raise UserError(
                f"the judge's sample: {row.id!r} has no answer that was graded: add a column "
                f"{GIVEN}"
            )
        if _verdict(row) is None:
            raise UserError(
                f"the judge's sample: {row.id!r} has the {VERDICT} {row.meta.get(VERDICT)!r}: "
                "give true or false"
            )
    return rows


async def agreement_with_people(
    judge: JudgeMetric, sample: Iterable[Question], at_once: int
) -> JudgeFields:
    """Return the judge's verdicts on the sample, compared with those of people: the share that
    agrees and Cohen's kappa, each with its interval; the questions on which the judge is too kind,
    too strict or unreadable (which counts as disagreement); and the usage of its calls.
    """
    rows, slots = list(sample), asyncio.Semaphore(at_once)

    async def verdict(row: Question) -> bool | None:
        async with slots:
            with asking(seat=METRIC, question=row.id), suppress(MetricError):
                return (await judge.grade(row, dspy.Prediction(answer=row.meta[GIVEN]))).correct
        return None

    with metered(each=True) as usage:
        verdicts = await asyncio.gather(*map(verdict, rows))
    read = list[tuple[bool, bool]]()
    too_kind, too_strict, unreadable = list[str](), list[str](), list[str]()
    for row, found in zip(rows, verdicts, strict=True):
        people = bool(_verdict(row))
        # Not for kappa, which has two classes: right and wrong.
        if found is None:
            unreadable.append(row.id)
            continue
        read.append((found, people))
        if found and not people:
            too_kind.append(row.id)
        elif people and not found:
            too_strict.append(row.id)
    kappa = Estimate(0.0, 0.0, 0.0)
    if read:
        kappa = cohens_kappa(*zip(*read, strict=True), seed=0)
    return JudgeFields(
        lm=str(judge.lm.model),
        checked=True,
        agreement=rate(len(read) - len(too_kind) - len(too_strict), len(rows)),
        kappa=score_fields(kappa, len(read)),
        too_kind=too_kind,
        too_strict=too_strict,
        unreadable=unreadable,
        usage=usage.to_dict(),
    )


def _verdict(row: Question) -> bool | None:
    """Return what people found of a row's answer: right or wrong; None if that cannot be read."""
    # A spreadsheet may have 1 as 1.0.
    return _VERDICTS.get(str(row.meta.get(VERDICT)).strip().casefold().removesuffix(".0"))
