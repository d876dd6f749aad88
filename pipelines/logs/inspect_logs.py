"""Logs of Inspect: an `.eval` file, which is a zip of JSON, or one `.json`."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError, missing_extra
from ..base.wording import shortened
from ..data.unpacked import Unpacked
from .answers import (
    LogAnswer,
    Record,
    is_unscored,
    json_record,
    json_value,
    lettered,
    log_document,
    log_text,
    right_by,
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
        document = log_document(path)
        if not isinstance(document.value("samples"), list):
            raise document.fault("there are no 'samples' in it; give a log that has them")
        for place, sample in enumerate(document.members("samples"), 1):
            row = Record(f"{path}, sample {place}", sample, "samples")
            yield _sample(row, document, Unpacked(path), scorer)
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
                    row = json_record(raw, where)
                    # Where nothing refers to attachments, they need not be unpacked.
                    if match["shell"] is not None and REFERS.encode() in raw:
                        texts = log.attachments(name.removesuffix("/sample.json"))
                        row = Record(where, {**row.fields, "attachments": texts})
                    yield _sample(row, header, log.unpacked, scorer)
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
            raise UserError(
                f"{self._path}: there is no {name} in it, so it is not a log of Inspect; name "
                "another file"
            )
        with self._packed.open(name) as opened:
            return self.unpacked.read_json(opened), f"{self._path}, {name}"

    def header(self) -> Record:
        """Return what the log says of the whole run; of a run that was killed, what it began
        with.
        """
        start = "header.json" if "header.json" in self.names else "_journal/start.json"
        return json_record(*self.member(start))

    def attachments(self, home: str) -> dict[str, object]:
        """Return the texts that a chunked sample refers to."""
        texts: dict[str, object] = {}
        for name in self.names:
            if name.startswith(f"{home}/attachments/"):
                raw, where = self.member(name)
                part = Record(where, {"texts": json_value(raw, where), "first": Path(name).stem})
                for number, text in enumerate(part.members("texts"), part.count("first") or 0):
                    texts[str(number)] = text
        return texts


def task_of(path: Path) -> tuple[tuple[str, ...], str] | None:
    """Return the identity of a log's task and the time of the log; None for a log without these."""
    try:
        if path.suffix.casefold() == ".json":
            header = log_document(path)
        else:
            with zipfile.ZipFile(path) as packed:
                header = _Packed(path, packed).header()
        task = header.text("eval.task_id")
    except (UserError, OSError, ValueError, RuntimeError, zipfile.BadZipFile):
        return None  # an error is raised when the log is read
    if task is None:
        return None
    return (task, str(header.value("eval.model"))), _moment(header.value("eval.created"))


def _moment(written: object) -> str:
    """Return a time as text in one time zone, so that later ones are greater."""
    text = str(written or "")
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        return text


def _sample(row: Record, header: Record, unpacked: Unpacked, wanted: str | None) -> LogAnswer:
    text_of = partial(_text_of, row.inner("attachments").fields, unpacked)
    error = row.text("error.message", "error")
    # Somebody stopped the run: the model has neither answered nor failed.
    if error is not None and "CancelledError" in error:
        return row.left_out("cancelled")
    scores = row.inner("scores")
    scorer = _scorer_in(scores, header, wanted)
    # Of a sample that failed there may be no score at all: then this is empty.
    score = Record(row.where, scores.fields.get(scorer), "scores")
    graded = score.value("value")
    if error is None and is_unscored(graded):
        return row.left_out("without a score")
    value = None if error else _graded(graded, scorer, row)
    reply = text_of(row.value("output.completion"))
    answer = text_of(score.value("answer"))
    # Without an answer of its own a score was given to the reply; N says that there was none.
    if answer is None and graded != NO_ANSWER:
        answer = reply
    options, target = lettered(row.value("choices")), row.value("target")
    if isinstance(target, list):
        target = next(iter(target), None)
    # An answer in words is none of the labels A, B, …: it is kept as it was given.
    if options and answer not in (None, *options):
        options = None
    usages = _own_usage(row, header)
    correct = right_by(value)
    return LogAnswer(
        row.where,
        row.name("id"),
        header.name("eval.model"),
        None if error else answer,
        False if error else correct,
        question=_asked(row, text_of),
        gold=log_text(target),
        choices=options,
        task=header.name("eval.task"),
        text=reply,
        prompt_tokens=_sum([usage.prompt_tokens() for usage in usages]),
        completion_tokens=_sum([usage.count("output_tokens") for usage in usages]),
        cost=_sum([usage.amount("total_cost") for usage in usages]),
        strategy=header.name_if_any("eval.solver"),
        seconds=row.amount("total_time"),
        error=error,
        score=value if correct is None else None,
        scorer=scorer,
        repeat=(row.count("epoch") or 1) - 1,
    )


def _text_of(attached: Mapping[str, object], unpacked: Unpacked, value: object) -> str | None:
    """Return a text of a sample, or the attachment that it refers to."""
    text = log_text(value)
    if text:
        text = log_text(attached.get(text.removeprefix(REFERS), text))
    unpacked.hold(4 * len(text or ""))  # many parts may refer to one long text
    return text


def _scorer_in(scores: Record, header: Record, wanted: str | None) -> str:
    """Return the name of the score that counts: the one wanted, or the first; empty without any."""
    if wanted is None:
        named = [scorer.value("name") for scorer in header.objects("eval.scorers")]
        return next((name for name in [*named, *scores.fields] if name in scores.fields), "")
    if scores.fields and wanted not in scores.fields:
        names = ", ".join(scores.fields)
        raise scores.fault(f"there is no score {wanted!r}; its scores are {names}")
    return wanted


def _own_usage(row: Record, header: Record) -> list[Record]:
    """Return the usage of the model that is evaluated, without that of others, such as a grader; of
    a log that names no usage of that model, the usage of all.
    """
    used, roles = row.inner("model_usage").fields, row.inner("role_usage").fields
    model = str(header.value("eval.model"))
    if model not in used:
        return [Record(row.where, usage, "model_usage") for usage in used.values()]
    own = dict(Record(row.where, used[model], "model_usage").fields)
    models = header.inner("eval.model_roles")
    for role, usage in roles.items():
        if models.value(f"{role}.model", role) not in (None, model):
            continue  # it is not in this model's usage
        less = {}
        for field, amount in Record(row.where, usage, "role_usage").fields.items():
            if isinstance(amount, int | float) and isinstance(own.get(field), int | float):
                less[field] = own[field] - amount
        # A grader that is the same model is counted among its usage, too; one that used more than
        # all of it is another model.
        if all(amount >= 0 for amount in less.values()):
            own |= less
    return [Record(row.where, own)]


def _graded(value: object, scorer: str, row: Record) -> float:
    """Return a score as Inspect's own metrics count it."""
    grade = _GRADES.get(value, value) if isinstance(value, str) else value
    # True and False are numbers, too, and NaN fails every comparison.
    if not isinstance(grade, int | float) or not 0 <= grade < math.inf:
        shown = shortened(repr(value), 60)
        raise row.fault(
            f"the score {shown} of {scorer!r} is not a number of at least 0; score the log again"
        )
    return float(grade)


def _asked(row: Record, text_of: Callable[[object], str | None]) -> str | None:
    if not isinstance(row.value("input"), list):
        return text_of(row.value("input"))
    texts = []
    for message in row.objects("input"):
        parts = message.value("content")
        if not isinstance(parts, list):
            parts = [parts]
        for part in parts:
            if isinstance(part, Mapping):
                part = part.get("text")
            texts.append(text_of(part))
    return "\n".join(filter(None, texts)) or None


def _sum(counts: Sequence[float | None]) -> Any:
    """Return a sum; None where one is not known, without which it would be too small."""
    if not counts or None in counts:
        return None
    return sum(filter(None, counts))
