"""Estimates before anything is paid: the calls, tokens, cost and time of an evaluation, and which
difference its sample can show.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from ...modules.agents.adapter import profile_of
from ...modules.agents.profile import DEFAULT_PROFILE
from ...modules.agents.prompt import MAX_EVIDENCE_CHARS, chat_messages, plain_prompt
from ...modules.agents.seat import Seat
from ...modules.agents.transcript import Task
from ...modules.base.calls import Usage
from ...modules.protocols.program import Program
from ...modules.protocols.saved import hashes
from ...modules.reading.question import Question
from ...signatures.frame import SYSTEM
from ..base.journal import as_json, records
from ..base.wording import counted, duration, rounded_money
from ..lms.named import billed_as, thinks
from ..lms.prices import Prices, no_price
from ..runs.caveats import shows, smallest_differences
from ..runs.describe import lms_of
from ..runs.manifest import former_runs
from ..runs.rows import RESULTS

CHARS_PER_TOKEN = 4  # of English text, roughly, with current tokenisers
SAMPLE = 200  # questions whose requests are rendered; more would change little
PASSAGES = 6  # passages that an agent with evidence is shown at most: three for each of two queries
# The length of a reply that is only an answer; of one that argues first; and of one by an LM that
# thinks, if its tokens are not limited.
ANSWER_TOKENS = (5, 30)
ARGUED_TOKENS = (40, 400)
THOUGHT_TOKENS = (200, 3000)

READINGS = 2
"""How often an answer is asked for at most: once more if it cannot be read."""

MOST_ROWS = 2_000  # of an earlier run that are read
USUAL_SPREAD = 1.5  # factor by which replies to another program may be shorter or longer
WIDEST = 3.0  # the largest factor of uncertainty, down and up

UNKNOWN = "the cost of your own program is unknown before its first run"

Range = tuple[float, float]


@dataclass(frozen=True)
class CostEstimate:
    """The estimated cost of an evaluation, each figure as (low, high). Answers from records or the
    call cache will cost nothing, but are not known before.

    Attributes:
        calls: if all agents agree at once, and if they never do; None if the program does not say.
        most_calls: if, in addition, every answer has to be asked for twice.
        prompt_tokens, completion_tokens: counted from prompts, or taken from a pilot; None if there
            is neither.
        cost_usd: None if a price is unknown.
        unpriced: the LMs without a known price.
        seconds: None if the time per call is unknown.
        smallest_difference: the difference in accuracy, 0 to 1, that this many paired questions
            show with 80% power, if only one of two programs is right on 10%, and on 35%, of them; 1
            if they are too few.
        pilot: the earlier run of the same program and LMs from which the cost per question is
            taken.
    """

    questions: int
    calls: tuple[int, int] | None = None
    most_calls: int | None = None
    prompt_tokens: tuple[int, int] | None = None
    completion_tokens: tuple[int, int] | None = None
    cost_usd: Range | None = None
    unpriced: tuple[str, ...] = ()
    seconds: Range | None = None
    smallest_difference: Range = (1.0, 1.0)
    pilot: str | None = None

    @property
    def dearest(self) -> float:
        """The highest cost in USD; without a pilot, every answer counts as asked for twice."""
        if self.cost_usd is None:
            return math.inf
        if self.pilot:
            return self.cost_usd[1]
        return READINGS * self.cost_usd[1]

    def to_dict(self) -> dict[str, object]:
        """Return the estimate as JSON, each estimate as [low, high]."""
        return asdict(self)


def estimate(
    program: Program,
    questions: Sequence[Question],
    lm: object = None,
    *,
    asked: Sequence[Question] | None = None,
    concurrency: int = 64,
    seconds_per_call: float | None = None,
    out: Path | None = None,
    judged: int = 0,
) -> CostEstimate:
    """Estimate the cost of an evaluation without calling an LM.

    Args:
        program: any folkmoot program.
        questions: the evaluation's questions; at least one.
        lm: the LM of every seat without its own.
        asked: the questions still to be asked, if not all of `questions`.
        concurrency: most questions in flight.
        seconds_per_call: the time per call, if it is known.
        out: the folder of the run. From it, or from a run next to it, the cost per question is
            taken if program and LMs are the same.
        judged: the number of calls of a judge.
    """
    todo = questions
    if asked is not None:
        todo = asked
    turns = [(seat, low * len(todo), high * len(todo)) for seat, low, high in program.turns()]
    lengths = (sum(low for _, low, _ in turns), sum(high for _, _, high in turns))
    depth = (lengths[0] / max(1, len(todo)), lengths[1] / max(1, len(todo)))
    prompts, completions, costs = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
    unpriced: dict[str, None] = {}
    at_once = 1
    pilot = usual = None
    if out is not None:
        pilot = _pilot_in(out, program, lm)
    if out is not None and pilot is None:
        usual = _usual_reply(out, program, lm)
    for seat, *asks in turns:
        used = seat.predict.lm or lm
        engine = billed_as(used)
        prices = engine.prices
        if engine.endpoint is None:
            prices = Prices(0.0, 0.0)
        if prices is None and used is not None:
            unpriced[engine.model] = None
        at_once = max(at_once, engine.concurrency)
        first = _first_request(seat, used, todo)
        replies = _reply_tokens(seat, used)
        if usual is not None:
            # Their replies to another program say more about these LMs than the constants do.
            replies = (usual / USUAL_SPREAD, usual * USUAL_SPREAD)
        for end in (0, 1):
            # Later requests also quote what was said before.
            each = first + _heard(seat, depth[end], replies[end], end)
            prompt = asks[end] * each
            completion = asks[end] * replies[end]
            prompts[end] += prompt
            completions[end] += completion
            if prices is not None:
                price = Prices(*prices).of_prompt(each)
                costs[end] += prompt * price.prompt + completion * price.completion
    least = round(lengths[0])
    most = program.most_turns() * len(todo)
    known: dict[str, Any] = {}
    if turns:
        known["calls"] = min(least, most) + judged, most + judged
        known["most_calls"] = READINGS * most + judged
        if seconds_per_call is not None:
            each = seconds_per_call / min(at_once, concurrency)
            known["seconds"] = least * each, most * each
    priced = bool(turns) and not unpriced
    if pilot is not None:
        known["pilot"] = pilot.seen
        times = len(todo) / pilot.factor, len(todo) * pilot.factor
        prompts = [pilot.prompt * n for n in times]
        completions = [pilot.completion * n for n in times]
        if pilot.cost is not None:
            costs, priced = [pilot.cost * n for n in times], not unpriced
    if turns or pilot is not None:
        known["prompt_tokens"] = round(prompts[0]), round(prompts[1])
        known["completion_tokens"] = round(completions[0]), round(completions[1])
    if priced:
        known["cost_usd"] = costs[0], costs[1]
    return CostEstimate(
        questions=len(questions),
        unpriced=tuple(unpriced),
        smallest_difference=smallest_differences(len(questions)),
        **known,
    )


class Pilot(NamedTuple):
    """What a question cost on average in an earlier run: tokens, USD (None if unknown), and the
    factor by which the mean of other questions may differ. `seen` names the run in words.
    """

    prompt: float
    completion: float
    cost: float | None
    factor: float
    seen: str


def _pilot_in(out: Path, program: Program, lm: object) -> Pilot | None:
    """Return the pilot in the latest run of the same program and LMs that paid for calls, in this
    folder or next to it; None without one.
    """
    wanted = as_json({**hashes(program), "lms": lms_of(program, lm)})
    for folder, run in former_runs(out):
        if any(run.get(name) != wanted[name] for name in ("program_hash", "lms")):
            continue
        paid = [usage for usage in _read_usage(folder) if usage.tokens]
        if not paid:
            continue
        n, sums = len(paid), [usage.tokens or 0 for usage in paid]
        error = WIDEST
        if n > 1:
            error = stdev(sums) / math.sqrt(n) / fmean(sums)
        costs, cost = [usage.cost_usd for usage in paid], None
        if None not in costs:
            cost = math.fsum(filter(None, costs)) / n
        seen = f"{counted(n, 'question')} of {folder}"
        prompt = fmean(usage.prompt_tokens or 0 for usage in paid)
        completion = fmean(usage.completion_tokens or 0 for usage in paid)
        # Two standard errors of the mean, and a tenth for what the pilot did not meet.
        return Pilot(prompt, completion, cost, min(WIDEST, 1.1 + 2 * error), seen)
    return None


def _usual_reply(out: Path, program: Program, lm: object) -> float | None:
    """Return the mean tokens of a reply in the latest run next to this folder that asked the same
    LMs; None without one.
    """
    wanted = as_json(lms_of(program, lm))
    for folder, run in former_runs(out):
        if run.get("lms") != wanted:
            continue
        tokens = calls = 0
        for usage in _read_usage(folder):
            if usage.completion_tokens:
                tokens += usage.completion_tokens
                calls += usage.calls
        if calls:
            return tokens / calls
    return None


def _read_usage(folder: Path) -> list[Usage]:
    """Return the usage of each question that no cache answered, among the first rows of a run."""
    paid = []
    # A run that has only begun may have no rows yet.
    with suppress(OSError):
        for row in islice(records(folder / RESULTS, ("id", "usage")), MOST_ROWS):
            if not isinstance(row["usage"], dict):
                continue
            usage = Usage.of(row["usage"])
            if usage.calls and not usage.cached_calls:
                paid.append(usage)
    return paid


def _first_request(seat: Seat, lm: object, questions: Sequence[Question]) -> float:
    """Return the mean tokens of an agent's first request, over a sample of the questions."""
    # Spread evenly, since a file may be sorted by length or topic.
    some = questions[:: max(1, len(questions) // SAMPLE)][:SAMPLE]
    chars = [sum(map(len, _texts(seat, lm, question))) for question in some]
    return sum(chars) / CHARS_PER_TOKEN / max(1, len(chars))


def _texts(seat: Seat, lm: object, question: Question) -> Iterator[str]:
    """Yield the texts of an agent's first request about a question."""
    profile = profile_of(lm) or DEFAULT_PROFILE
    inputs = seat.inputs(Task.of(**question.inputs()))
    shown = (seat.predict.signature, seat.predict.demos, inputs, profile)
    if profile.layout == "plain":
        yield plain_prompt(*shown)
    else:
        yield SYSTEM  # that of the other `Wording` is as long
        yield from (text for _, text in chat_messages(*shown))


def _reply_tokens(seat: Seat, lm: Any) -> tuple[float, float]:
    """Return the tokens that a reply of an agent may have, as (low, high), by its fields and
    limits.
    """
    settings = {**getattr(lm, "kwargs", {}), **seat.predict.config}
    limit = settings.get("max_tokens")
    if limit is None and lm is not None and thinks(lm.model):
        return THOUGHT_TOKENS
    low, high = ANSWER_TOKENS
    if len(seat.predict.signature.output_fields) > 1:
        low, high = ARGUED_TOKENS
    if limit is None:
        return low, high
    return min(low, limit), min(high, limit)


def _heard(seat: Seat, depth: float, reply: float, end: int) -> float:
    """Return the mean tokens that an agent's requests have in addition to a first one: half of the
    transcript, and passages (only for the high `end`).
    """
    fields = seat.predict.signature.input_fields
    heard = 0.0
    if "discussion" in fields:
        heard += max(0.0, depth - 1) / 2 * reply
    if "evidence" in fields:
        heard += end * PASSAGES * MAX_EVIDENCE_CHARS / CHARS_PER_TOKEN
    return heard


def estimate_lines(plan: CostEstimate, budget: object, *, is_rate: bool = True) -> list[str]:
    """Return two lines: the likely and the highest cost of a run, and what it can show."""
    return [_bill_line(plan, budget), shows(plan.questions, is_rate=is_rate)]


def _bill_line(plan: CostEstimate, budget: object) -> str:
    """Return the likely calls, tokens, cost and time, and the most that the run may cost."""
    ceiling = ""
    if budget:
        ceiling = f"; at most {budget}"
    if plan.prompt_tokens is None or plan.completion_tokens is None:
        return UNKNOWN + ceiling
    middle, most = [], []
    if plan.calls is not None and plan.most_calls is not None:
        middle.append(counted(round(likely(plan.calls)), "call"))
        most.append(counted(plan.most_calls, "call"))
    tokens = likely(plan.prompt_tokens) + likely(plan.completion_tokens)
    # Two significant digits: more would suggest that it is known better.
    middle.append(f"{float(f'{tokens:.2g}'):,.0f} tokens")
    if plan.cost_usd is not None:
        middle.append(rounded_money(likely(plan.cost_usd)))
        most.append(rounded_money(plan.dearest))
    elif plan.unpriced:
        middle.append(no_price(plan.unpriced))
    else:
        middle.append("cost unknown")
    if plan.seconds is not None:
        middle.append(duration(likely(plan.seconds)))
    if not budget and most:
        ceiling = f"; at most {', '.join(most)}"
    return f"likely {', '.join(middle)}{ceiling}"


def likely(ends: Range) -> float:
    """Return the geometric mean of an estimate, whose ends may differ by orders of magnitude."""
    return math.sqrt(ends[0] * ends[1])


def left_of(
    folder: Path, questions: Sequence[Question], retry_errors: bool = False, *, repeats: int = 1
) -> tuple[list[Question], float | None]:
    """Return the questions that an earlier attempt in a folder left unanswered, as often as repeats
    are missing, and its seconds per call (None without calls).

    Damaged lines are skipped; the run itself reports them.
    """
    done, seconds, calls = set[tuple[object, object]](), 0.0, 0
    with suppress(OSError):
        for row in records(folder / RESULTS, ("id", "usage", "seconds")):
            try:
                usage = row["usage"]
                paid = (usage["calls"] or 0) - usage["cached_calls"]
            except (TypeError, KeyError):
                continue
            if not (retry_errors and row.get("error")):
                done.add((row["id"], row.get("repeat", 0)))
            # Only if no call was answered by a cache, which says nothing about the LM's speed.
            if paid == usage["calls"] > 0:
                seconds, calls = seconds + row["seconds"], calls + paid
    left = []
    # In the order in which they are asked.
    for repeat in range(repeats):
        left += [question for question in questions if (question.id, repeat) not in done]
    if not calls:
        return left, None
    return left, seconds / calls
