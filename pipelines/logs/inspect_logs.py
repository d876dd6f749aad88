"""Logs of Inspect: an `.eval` file, which is a zip of JSON, or one `.json`."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError, missing_extra
from ..base.wording import shortened
from ..data.unpacked import Unpacked
from .answers import (
    LogAnswer,
    is_unscored,
    json_document,
    json_object,
    json_value,
    lettered,
    log_amount,
    log_count,
    log_fault,
    log_left_out,
    log_list,
    log_name,
    log_name_if_any,
    log_object,
    log_prompt_tokens,
    log_text,
)

with suppress(ImportError):
    import zipfile_zstd  # noqa: F401  # teaches `zipfile` zstd where Python is older than 3.14

_SAMPLE = re.compile(r"samples/.+_epoch_\d+(?P<shell>/sample)?\.json", re.DOTALL)
"""An id may hold anything, slashes too; a chunked sample has a folder, in which its shell says
most.
"""
REFERS = "attachment://"
"""Begins a text that stands elsewhere in the log."""

NO_ANSWER = "N"
_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, NO_ANSWER: 0.0, "correct": 1.0, "incorrect": 0.0}


def inspect_log(path: Path, scorer: str | None = None) -> Iterator[LogAnswer]:
    """One agent per model; the epochs of a sample are repeats of one question, with epoch 1 as
    repeat 0. `scorer` decides what is right, or gives the score; by default the first in the
    header does. A sample without a score, or of a run that was cancelled, is left out.
    """
    if path.suffix.casefold() == ".json":
        document = json_document(path)
        samples = document.get("samples")
        if not isinstance(samples, list):
            raise log_fault(str(path), "there are no 'samples' in it; give a log that has them")
        for place, sample in enumerate(samples, 1):
            where = f"{path}, sample {place}"
            row = log_object(sample, "samples", where)
            yield _sample(row, document, where, Unpacked(path), scorer)
        return
    try:
        with zipfile.ZipFile(path) as packed:
            log = _Packed(path, packed)
            header = log.header()
            for name in log.names:
                match = _SAMPLE.fullmatch(name)
                if match is None:
                    continue
                with log.unpacked.row():
                    raw, where = log.member(name)
                    sample = json_object(raw, where)
                    if match["shell"] is not None:
                        # Where nothing refers to attachments, they need not be unpacked.
                        refers = REFERS.encode() in raw
                        log.fill(sample, name.removesuffix("/sample.json"), refers)
                    yield _sample(sample, header, where, log.unpacked, scorer)
    except UserError:
        raise
    except NotImplementedError:
        raise missing_extra(f"{path}, which is packed with zstd,", "inspect") from None
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, RuntimeError) as problem:
        raise UserError(
            f"{path} is not readable as a log of Inspect ({problem}): copy it again"
        ) from None


class _Packed:
    """The zip of a log: what its members hold, counted together."""

    def __init__(self, path: Path, packed: zipfile.ZipFile) -> None:
        self.names = dict.fromkeys(packed.namelist())
        self.unpacked = Unpacked(path, path.stat().st_size)
        self._path, self._packed = path, packed

    def member(self, name: str) -> tuple[bytes, str]:
        """Return the JSON of a member, and what errors call it."""
        if name not in self.names:
            raise log_fault(
                str(self._path),
                f"there is no {name} in it, so it is not a log of Inspect; name another file",
            )
        with self._packed.open(name) as opened:
            return self.unpacked.read_json(opened), f"{self._path}, {name}"

    def header(self) -> dict[str, object]:
        """Return what the log says of the whole run; of a run that was killed, what it began
        with.
        """
        start = "header.json" if "header.json" in self.names else "_journal/start.json"
        return json_object(*self.member(start))

    def fill(self, sample: dict[str, object], home: str, attached: bool) -> None:
        """Add the separate parts of a chunked sample to it: metadata, and texts it refers to."""
        place = f"{home}/metadata.json"
        if place in self.names:
            sample["metadata"] = json_object(*self.member(place))
        texts: dict[str, object] = {}
        sample["attachments"] = texts
        if not attached:
            return
        for name in self.names:
            if name.startswith(f"{home}/attachments/"):
                raw, where = self.member(name)
                part = log_list(json_value(raw, where), "attachments", where)
                first = log_count({"attachments": Path(name).stem}, "attachments", where) or 0
                texts |= zip(map(str, count(first)), part, strict=False)


def task_of(path: Path) -> tuple[tuple[str, ...], str] | None:
    """Return the identity of a log's task and the time of the log; None for a log without these."""
    try:
        if path.suffix.casefold() == ".json":
            header: Mapping[str, object] = json_document(path)
        else:
            with zipfile.ZipFile(path) as packed:
                header = _Packed(path, packed).header()
    except (UserError, OSError, ValueError, RuntimeError, zipfile.BadZipFile):
        return None  # an error is raised when the log is read
    about = header.get("eval")
    if not isinstance(about, Mapping) or not about.get("task_id"):
        return None
    return (str(about["task_id"]), str(about.get("model"))), _moment(about.get("created"))


def _moment(written: object) -> str:
    """Return a time as text in one time zone, so that later ones are greater."""
    text = str(written or "")
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        return text


def _sample(
    row: Mapping[str, object],
    header: Mapping[str, object],
    where: str,
    unpacked: Unpacked,
    wanted: str | None,
) -> LogAnswer:
    about = log_object(header.get("eval"), "eval", where)
    attached = log_object(row.get("attachments"), "attachments", where)
    text_of = partial(_text_of, attached, unpacked)
    scores = log_object(row.get("scores"), "scores", where)
    problem = row.get("error")
    if isinstance(problem, Mapping):
        problem = problem.get("message")
    error = log_text(problem)
    # Somebody stopped the run: the model has neither answered nor failed.
    if error is not None and "CancelledError" in error:
        return log_left_out(where, "cancelled")
    scorer = _scorer_in(scores, about, where, wanted)
    if scorer is None and error is None:
        return log_left_out(where, "without a score")
    # Of a sample that failed there may be no score at all: then this is empty.
    score = log_object(scores.get(str(scorer)), "scores", where)
    output = log_object(row.get("output"), "output", where)
    reply = text_of(output.get("completion"))
    options, target = lettered(row.get("choices")), row.get("target") or None
    if isinstance(target, list):
        target = target[0]
    graded = score.get("value")
    answer = text_of(score.get("answer"))
    # Without an answer of its own a score was given to the reply; N says that there was none.
    if answer is None and graded != NO_ANSWER:
        answer = reply
    # An answer in words is none of the labels A, B, …: it is kept as it was given.
    if options and answer not in (None, *options):
        options = None
    usages = _own_usage(row, about, where)
    costs = [log_amount(usage, "total_cost", where) for usage in usages]
    cost = None
    # a sum without the cost of one of them would be too small
    if costs and None not in costs:
        cost = math.fsum(filter(None, costs))
    epoch = log_count(row, "epoch", where) or 1
    if error is None and is_unscored(graded):
        return log_left_out(where, "without a score")
    value = None
    if error:
        answer = None
    else:
        value = _graded(graded, scorer, where)
    # Neither right nor wrong: then the log is one of scores.
    between = value not in (None, 0.0, 1.0)
    return LogAnswer(
        where,
        log_name(row.get("id"), "id", where),
        log_name(about.get("model"), "model", where),
        answer,
        None if between else value == 1.0,
        question=_asked(row.get("input"), text_of),
        gold=log_text(target),
        choices=options,
        task=log_name(about.get("task"), "task", where),
        text=reply,
        prompt_tokens=_sum([log_prompt_tokens(usage, where) for usage in usages]),
        completion_tokens=_sum([log_count(usage, "output_tokens", where) for usage in usages]),
        cost=cost,
        strategy=log_name_if_any(about.get("solver"), "solver", where),
        seconds=log_amount(row, "total_time", where),
        error=error,
        score=value,
        metric={"name": str(scorer), "rate": False} if between else None,
        repeat=epoch - 1,
    )


def _text_of(attached: Mapping[str, object], unpacked: Unpacked, value: object) -> str | None:
    """Return a text of a sample, or the attachment that it refers to."""
    text = log_text(value)
    if text:
        text = log_text(attached.get(text.removeprefix(REFERS), text))
    unpacked.hold(4 * len(text or ""))  # many parts may refer to one long text
    return text


def _scorer_in(
    scores: Mapping[str, object], about: Mapping[str, object], where: str, wanted: str | None
) -> object:
    """Return the name of the score that counts: the one wanted, or the first; None if there is
    none.
    """
    if wanted is not None and scores:
        if wanted not in scores:
            names = ", ".join(scores)
            raise log_fault(where, f"there is no score {wanted!r}; its scores are {names}")
        return wanted
    named = log_list(about.get("scorers"), "scorers", where)
    scorers = [scorer.get("name") for scorer in named if isinstance(scorer, Mapping)]
    return next((name for name in scorers if name in scores), next(iter(scores), None))


def _own_usage(
    row: Mapping[str, object], about: Mapping[str, object], where: str
) -> list[dict[str, Any]]:
    """Return the usage of the model that is evaluated, without that of others, such as a grader; of
    a log that names no usage of that model, the usage of all.
    """
    used = log_object(row.get("model_usage"), "model_usage", where)
    model = str(about.get("model"))
    if model not in used:
        return [dict(log_object(value, "model_usage", where)) for value in used.values()]
    own = dict(log_object(used[model], "model_usage", where))
    models = log_object(about.get("model_roles"), "model_roles", where)
    for role, usage in log_object(row.get("role_usage"), "role_usage", where).items():
        named = models.get(role)
        if isinstance(named, Mapping):
            named = named.get("model")
        if named not in (None, model):
            continue  # it is not in this model's usage
        less = {}
        for field, amount in log_object(usage, "role_usage", where).items():
            if isinstance(amount, int | float) and isinstance(own.get(field), int | float):
                less[field] = own[field] - amount
        # A grader that is the same model is counted among its usage, too; one that used more than
        # all of it is another model.
        if all(amount >= 0 for amount in less.values()):
            own |= less
    return [own]


def _graded(value: object, scorer: object, where: str) -> float:
    """Return a score as Inspect's own metrics count it."""
    grade = _GRADES.get(value, value) if isinstance(value, str) else value
    # True and False are numbers, too, and NaN fails every comparison.
    if not isinstance(grade, int | float) or not 0 <= grade < math.inf:
        shown = shortened(repr(value), 60)
        raise log_fault(
            where,
            f"the score {shown} of {scorer!r} is not a number of at least 0; score the log again",
        )
    return float(grade)


def _asked(asked: object, text_of: Callable[[object], str | None]) -> str | None:
    if not isinstance(asked, list):
        return text_of(asked)
    texts = []
    for message in asked:
        parts = log_object(message, "input", "input").get("content")
        if not isinstance(parts, list):
            parts = [parts]
        for part in parts:
            if isinstance(part, Mapping):
                part = part.get("text")
            texts.append(text_of(part))
    return "\n".join(filter(None, texts)) or None


def _sum(counts: Sequence[int | None]) -> int | None:
    if not counts or None in counts:
        return None
    return sum(filter(None, counts))
