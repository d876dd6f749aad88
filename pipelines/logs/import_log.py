"""Makes run folders and an outcome table from other tools' logs; no LM is called."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError, system_errors
from ...modules.base.files import open_regular
from ...modules.base.keyed import only, without_none
from ...modules.base.usage import UsageFields
from ...modules.reading.asked import Kind
from ...modules.reading.row import CHECK, ResultRow, TurnFields
from ..base.journal import to_json, write_json
from ..base.run_files import LMFields, Manifest, MetricFields, RunSettings
from ..data.unpacked import MOST_ROW, TOO_LONG
from ..evaluation.earlier import Evaluation, earlier
from ..runs.folder import claimed, out_folder
from ..runs.manifest import IMPORT, MANIFEST, RunFolder, git_commit, versions
from ..runs.rows import RESULTS, read_rows
from ..runs.summary import SUMMARY, summarise
from .answers import LogAnswer
from .card import OUTCOMES as OUTCOMES
from .formats import Format, format_of, logs_in

_STAGE = ".importing"
_FOLDER = RunFolder("import", IMPORT, {"sources": "its logs differ"})
_RANGE = 2**256  # of a SHA-256: a sum of hashes stays as long as one
_BUFFER = 2**14  # bytes of rows that a run holds


@dataclass
class Imported:
    """The result of an import: a run folder per agent in `folder`, and the outcome table
    `outcomes`.
    """

    folder: Path
    agents: dict[str, str]
    answers: int
    questions: int
    left_out: dict[str, int] = field(default_factory=dict)
    """What no row was made of, with the number of each."""
    read_as: list[str] = field(default_factory=list)
    """How tables were read whose figures could be meant otherwise."""
    _keep: object = field(default=None, repr=False)

    @property
    def outcomes(self) -> Path:
        return self.folder / OUTCOMES

    @cached_property
    def runs(self) -> dict[str, Evaluation]:
        """Each agent's run, as `fm.compare` and `fm.report` take it."""
        runs = {}
        for name, folder in self.agents.items():
            run = earlier(self.folder / folder)
            # Each run keeps a temporary folder alive, however long the import itself is held.
            runs[name] = Evaluation(run.folder, run.summary, self._keep)
        return runs


def import_log(
    log: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    *,
    score: str | None = None,
) -> Imported:
    """Read logs of others into run folders and an outcome table, without a call.

    Args:
        log: files, or folders of files, of Inspect, lm-eval, Every Eval Ever, promptfoo, MLflow,
            Terminal-Bench, Harbor, SWE-bench or mini-SWE-agent; dialogues; tables with the columns
            `question_id, agent, answer, correct`, or with a row an agent and a column a task.
        out: the folder to write to: `AGENT/results.jsonl` for each agent, and `outcomes.jsonl`.
            None writes to a temporary one.
        score: the score that says what is right, in logs of Inspect and MLflow with several.

    What a log does not say is None. A right answer without a text takes part in no vote. Samples
    without a score or of a cancelled run are left out and counted; of logs of one task, the newest
    counts.

    Raises UserError for no log, a damaged or unknown one, the same answer twice, an answer neither
    right nor wrong, and a folder that holds something else; with file and line.
    """
    logs = [log] if isinstance(log, str | Path) else list(log)
    paths = list(dict.fromkeys(path for log in logs for path in logs_in(Path(log).expanduser())))
    if not paths:
        raise UserError("no log is given: name at least one file")
    read, older = _newest(paths)
    if score is not None and not any(kind.scored for kind in read.values()):
        raise UserError(f"--score {score} is for logs of Inspect and MLflow: drop it")
    with out_folder(out) as (folder, keep), claimed(folder):
        sources = [
            {"name": path.name, "format": kind.name, "sha256": _digest(path)}
            for path, kind in read.items()
        ]
        result = _earlier_import(folder, sources)
        if not result:
            try:
                with system_errors(folder):
                    answers = _answers(read, score)
                    result = _written(folder, answers, sources, older)
            finally:
                # This file marks the staged runs as complete; after a kill, the next import moves
                # them into place.
                if not (folder / IMPORT).exists():
                    shutil.rmtree(folder / _STAGE, ignore_errors=True)
    return Imported(
        folder,
        result["agents"],
        result["answers"],
        result["questions"],
        result.get("left_out") or {},
        result.get("read_as") or [],
        keep,
    )


def _answers(logs: Mapping[Path, Format], score: str | None) -> Iterator[LogAnswer]:
    """Yield the answers of all logs one at a time, since they may not fit into memory."""
    for path, kind in logs.items():
        if kind.scored:
            yield from kind.read(path, score)
        else:
            yield from kind.read(path)


def _newest(paths: Sequence[Path]) -> tuple[dict[Path, Format], int]:
    """Return the logs with their formats, without those that a newer one of the same task replaces,
    and the number of these.
    """
    formats = {path: format_of(path) for path in paths}
    newest: dict[object, tuple[str, Path]] = {}
    for path, kind in formats.items():
        # a single log has no rival, and its header need not be read twice
        task, made = (len(paths) > 1 and kind.task(path)) or (path, "")
        if task not in newest or made >= newest[task][0]:
            newest[task] = (made, path)
    kept = only(formats, {path for _, path in newest.values()})
    return kept, len(formats) - len(kept)


def _earlier_import(folder: Path, sources: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """Read the result of an earlier import of the same logs; empty for a new folder.

    An import that was killed while its files were put in place is finished: they were whole by
    then.
    """
    result = _FOLDER.earlier(folder, {"sources": sources})
    if result:
        _put_in_place(folder)
        return result
    if others := [entry.name for entry in folder.iterdir() if entry.name != _STAGE]:
        raise UserError(f"{folder} holds {others[0]} and no import: choose another --out")
    shutil.rmtree(folder / _STAGE, ignore_errors=True)
    return {}


def _put_in_place(folder: Path) -> None:
    stage = folder / _STAGE
    if stage.is_dir():
        for entry in stage.iterdir():
            os.replace(entry, folder / entry.name)
        stage.rmdir()


def _digest(path: Path) -> str:
    with open(open_regular(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _line(row: Mapping[str, object], where: str) -> bytes:
    line = to_json(row)
    if len(line) > MOST_ROW:
        raise UserError(f"{where}: {TOO_LONG}")
    return line + b"\n"


class _Run:
    """A run under construction: its rows, and its identity."""

    def __init__(self, folder: Path, answered: LogAnswer) -> None:
        self.agent, self.strategy = answered.agent, answered.strategy
        self.name = " ".join(filter(None, (answered.agent, answered.strategy)))
        self.folder = folder
        folder.mkdir()
        self.asked = 0
        self._lines = b""
        self._repeats: dict[int, dict[int | str, int]] = {}
        self.scorer = ""
        self.clustered = False

    def add(self, answered: LogAnswer, row: ResultRow, place: int, asked: int) -> None:
        """Add a row to the question at this place. Repeats that a log only labels are numbered in
        order of appearance. Raises UserError for one that was there before.
        """
        if place not in self._repeats:
            self.asked = (self.asked + asked) % _RANGE  # the same whatever the order of questions
        repeats = self._repeats.setdefault(place, {})
        number = answered.repeat
        if isinstance(number, str):
            number = repeats.get(number, len(repeats))
        if number in repeats.values():
            raise UserError(
                f"{answered.where}: {answered.agent!r} has answered {row.id!r} before; keep one "
                "row, or say which repeat of the question each is"
            )
        repeats[answered.repeat] = row["repeat"] = number
        if answered.graded:
            self.scorer = self.scorer or answered.scorer
        self.clustered = self.clustered or answered.cluster is not None
        self._lines += _line(row, answered.where)
        if len(self._lines) > _BUFFER:
            self._flush()

    def _flush(self) -> None:
        # Rows are held back, so that the file need not be opened for each.
        # Closed again at once: a log may name hundreds of agents.
        with (self.folder / RESULTS).open("ab") as file:
            file.write(self._lines)
        self._lines = b""

    def finish(self, sources: Sequence[Mapping[str, object]]) -> None:
        self._flush()
        origin = {"agent": self.agent, "strategy": self.strategy, "sources": list(sources)}
        run = Manifest(
            program={"program": "imported", "agent": self.agent},
            program_hash=hashlib.sha256(json.dumps(origin).encode()).hexdigest(),
            prompt_hash="",
            lms={"*": LMFields(name=self.agent, endpoint="", profile={}, settings={})},
            data_fingerprint=f"{self.asked:064x}",
            questions=len(self._repeats),
            metric=MetricFields(name=self.scorer, rate=False) if self.scorer else None,
            settings=RunSettings(
                run_name=self.name,
                cluster="cluster" if self.clustered else None,
            ),
            versions=dict(versions()),
            git_commit=git_commit(),
            mlflow_run_id=None,
            imported=origin,
        )
        write_json(self.folder / MANIFEST, run)
        summary = summarise(
            read_rows(self.folder / RESULTS), len(self._repeats), lambda rows: {}, run
        )
        summary.paid = summary.usage
        write_json(self.folder / SUMMARY, summary.to_dict())


def _written(
    folder: Path, answers: Iterable[LogAnswer], sources: Sequence[Mapping[str, object]], older: int
) -> dict[str, Any]:
    stage = folder / _STAGE
    stage.mkdir()
    runs: dict[tuple[str, str | None], _Run] = {}
    questions: dict[str, tuple[int, int]] = {}
    # An agent of such a name would overwrite what the import itself writes.
    taken = {IMPORT, OUTCOMES, _STAGE}
    first_task: str | None = None
    total = 0
    left_out: Counter[str] = Counter({"logs that a newer one of the task replaces": older})
    read_as: list[str] = []
    with (stage / OUTCOMES).open("wb") as table:
        for answered in answers:
            if answered.read_as is not None:
                read_as.append(f"{answered.where}: {answered.read_as}")
                continue
            why = answered.left_out
            if answered.correct is None and answered.score is None:
                why = why or "without a score"
            if why is not None:
                left_out[f"samples {why}"] += 1
                continue
            first_task = first_task or answered.task
            # ids repeat between tasks; those of the first one stay as they are
            name = answered.question_id
            if answered.task not in (None, first_task):
                name = f"{answered.task}/{name}"
            run = runs.get((answered.agent, answered.strategy))
            if run is None:
                own = stage / _folder_name(answered.agent, answered.strategy, taken)
                run = runs[answered.agent, answered.strategy] = _Run(own, answered)
            row = _row(answered, name)
            asked = _asked(row, answered)
            place, text = questions.setdefault(name, (len(questions), asked))
            if text != asked:
                raise UserError(
                    f"{answered.where}: the question {name!r} has another text, options, gold "
                    "answer or group than before; give each question its own id"
                )
            run.add(answered, row, place, asked)
            # An answer without a text cannot vote; of tasks nobody expects it.
            unknown = answered.correct and answered.answer is None and not answered.outcome
            known = answered.correct is not None or answered.outcome
            if known and not answered.error and not unknown:
                table.write(_line(_outcome(answered, row), answered.where))
            total += 1
    if not total:
        without = "; ".join(f"left out were {number} {why}" for why, number in (+left_out).items())
        raise UserError(
            f"{sources[0]['name']} holds no answer ({without or 'it is empty'}): give a log with "
            "at least one"
        )
    for run in runs.values():
        run.finish(sources)
    result = {
        "agents": {run.name: run.folder.name for run in runs.values()},
        "answers": total,
        "questions": len(questions),
        # `+` leaves out what was counted 0 times.
        "left_out": dict(+left_out),
        "read_as": read_as,
        "sources": list(sources),
    }
    write_json(stage / IMPORT, result)
    # From here on the import counts as done: a later one only moves what is staged.
    os.replace(stage / IMPORT, folder / IMPORT)
    _put_in_place(folder)
    return result


def _folder_name(agent: str, strategy: str | None, taken: set[str]) -> str:
    """Return the name of a run's folder, different from those taken, whatever the file system."""
    name = re.sub(r"[^\w.+@-]+", "_", ".".join(filter(None, (agent, strategy)))).strip("._")
    # Two names may become one here: the digest below tells them apart.
    # File systems limit a name's bytes, and the cut may split a letter.
    name = name.encode()[:100].decode(errors="ignore") or "agent"
    # Windows and macOS take A and a for the same folder.
    if name.casefold() in taken:
        name += f"-{hashlib.sha256(json.dumps([agent, strategy]).encode()).hexdigest()[:8]}"
    taken.add(name.casefold())
    return name


def _asked(row: ResultRow, answered: LogAnswer) -> int:
    """Return a hash of the question's text, options and gold answer, the same in every process."""
    content = [row.id, row.question, row.choices, row.gold, answered.group]
    return int.from_bytes(hashlib.sha256(to_json(content)).digest(), "big")


def _row(answered: LogAnswer, name: str) -> ResultRow:
    turns = [
        TurnFields(agent=agent, round=round, answer=answer, text=text)
        for round, agent, answer, text in answered.turns
    ]
    if not turns:
        said = answered.text or ""
        alone = TurnFields(agent=answered.agent, round=0, answer=answered.answer, text=said)
        if answered.strategy:
            alone = alone.but(strategy=answered.strategy)
        turns = [alone]
    decided_by = CHECK if answered.outcome else None
    # Where the gold answer is no label, an answer cannot be compared by its label either.
    kind: Kind = "choice"
    choices = answered.choices
    if not choices or answered.gold not in choices:
        kind, choices = "span", None
    # An answer took a call at least; how many an agent made to act is known from its log alone.
    least = None if answered.outcome else 1
    usage = UsageFields(
        calls=answered.calls or len(answered.turns) or least,
        prompt_tokens=answered.prompt_tokens,
        completion_tokens=answered.completion_tokens,
        cached_calls=0,
        cost_usd=answered.cost,
    )
    meta = {
        "topic": answered.group,
        "task": answered.task,
        "tokens": answered.tokens,
        "cluster": answered.cluster,
    }
    row = ResultRow(
        id=name,
        repeat=0,
        kind=kind,
        question=answered.question or name,
        choices=choices,
        answer=answered.answer,
        gold=answered.gold,
        correct=answered.correct,
        em=None,
        f1=None,
        decided_by="error" if answered.error else decided_by,
        rounds=len({turn.round for turn in turns}),
        consensus_round=None,
        transcript=turns,
        usage=usage,
        seconds=answered.seconds,
        error=answered.error,
        meta=without_none(meta),
    )
    if answered.score is not None:
        row["score"] = None if answered.error else answered.score
    return row


def _outcome(answered: LogAnswer, row: ResultRow) -> dict[str, object]:
    """Return the answer as a row of the outcome table. What became of a task has no answer, and the
    optional fields that are known.
    """
    outcome: dict[str, object] = {
        "question_id": row.id,
        "question": row.question,
        "group": answered.group,
        "agent": answered.agent,
    }
    if not answered.outcome:
        outcome |= {"strategy": answered.strategy, "answer": row.answer, "correct": row.correct}
        if row.repeat:
            outcome["repeat"] = row.repeat
        return outcome
    tokens = answered.tokens
    if tokens is None and answered.prompt_tokens is not None:
        tokens = answered.prompt_tokens + (answered.completion_tokens or 0)
    known = {
        "score": answered.score,
        "cost_usd": answered.cost,
        "tokens": tokens,
        "cluster": answered.cluster,
    }
    right = answered.score == 1 if row.correct is None else row.correct
    return {**outcome, "correct": right, "trial": row.repeat, **without_none(known)}
