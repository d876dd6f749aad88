"""Makes the tracking store match a folder, however often it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run

from ...modules.base.errors import UserError
from ..base.journal import read_object, write_json
from ..runs.folder import claimed
from .cursor import Cursor, RunState, cursor_of, kind_of, note_pushed
from .entry import RunEntry
from .projection import entries_in
from .store import current_store, open_client, quiet
from .stored_run import StoredRun, is_outage
from .traces import send_traces
from .values import problem_line

THE_RUN = "the run"


@dataclass
class Pushed:
    """The result of a push.

    Attributes:
        run_ids: the ids of the folder's own runs in the store, by kind.
        missing: the parts that a destination did not accept, by name, with the reason.
        outage: whether the store failed, rather than refusing something.
    """

    run_ids: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    outage: bool = False


def push(folder: str | Path) -> Pushed:
    """Make the tracking store match the folder of a finished run, and of all runs below it.

    Parts that the store already has are not sent, so the call can be repeated at any time. Parts
    that the store does not accept are listed, and the next call sends them.

    Raises UserError for a folder without a finished run, and for one that another process is
    writing to.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: name the folder of a finished run")
    if all(entry.status == "RUNNING" for entry in entries_in(folder, Cursor(store=""))):
        raise UserError(f"{folder} holds no finished run: run its command again")
    with claimed(folder, "name another folder"):
        pushed = push_held(folder)
    note_pushed(folder, current_store(), whole=not pushed.missing)
    return pushed


def push_held(
    folder: Path,
    kind: str | None = None,
    *,
    asks: bool | None = None,
) -> Pushed:
    """Push a folder that this process has locked, or only its run of one kind. Never raises.

    Args:
        asks: overrides the cursor's decision whether to ask the store what it holds.
    """
    pushed = Pushed()
    try:
        with quiet():
            _Push(open_client(), pushed).push(folder, kind, None, asks=asks)
    except Exception as problem:  # any error of MLflow, a database driver or the network
        pushed.outage = not isinstance(problem, UserError)
        pushed.missing[THE_RUN] = problem_line(problem)
    return pushed


def log_alone(entry: RunEntry) -> str | None:
    """Bring a run that no folder holds to what its entry says. Returns what went wrong, in a line,
    or None.
    """
    try:
        with quiet():
            for part in StoredRun(open_client(), entry, RunState(), None, asks=True).lacks():
                part.send()
    except Exception as problem:  # any error of MLflow, a database driver or the network
        return problem_line(problem)
    return None


@dataclass
class _Push:
    """A push to MLflow. Refused parts are noted; an outage ends the push."""

    client: MlflowClient
    pushed: Pushed

    def push(
        self, folder: Path, kind: str | None, above: Run | None, *, asks: bool | None = None
    ) -> None:
        with cursor_of(folder) as cursor:
            if asks is not None:
                cursor.asks = asks
            before = len(self.pushed.missing)
            entries = entries_in(folder, cursor, kind)
            cursor.save()  # until it is set again, any other push asks the store
            for entry in entries:
                if entry.status == "RUNNING":
                    continue
                stored = self._run(entry, cursor, above)
                if above is None:
                    self.pushed.run_ids.setdefault(kind_of(entry.key), stored.run_id)
                if entry.traced:
                    self._try("traces", partial(send_traces, stored, folder, cursor.save))
            # What was missing before belongs to another folder of this push.
            cursor.save(clean=len(self.pushed.missing) == before)

    def _run(self, entry: RunEntry, cursor: Cursor, above: Run | None) -> StoredRun:
        """Send the missing parts of a run, and of the runs below it."""
        state = cursor.runs.setdefault(entry.key, RunState())
        stored = StoredRun(self.client, entry, state, above, asks=cursor.asks)
        if stored.lacks():
            note_id(entry, str(stored.run.info.run_id))  # a deleted run lacks everything
            cursor.save()
        for name, digest, send in stored.lacks():
            self._try(name, send)
            if name not in self.pushed.missing:
                stored.state.sent[name] = digest
                cursor.save()
        for child in entry.children:
            self._run(child, cursor, stored.run)
        for part in entry.parts:
            try:
                self.push(part, None, stored.run)
            except UserError as problem:
                self.pushed.missing[str(part)] = problem_line(problem)
        return stored

    def _try(self, name: str, send: Callable[[], object]) -> None:
        try:
            send()
        except Exception as problem:
            if is_outage(problem):
                raise
            self.pushed.missing[name] = problem_line(problem)


def show_running(folder: Path, kind: str, step: int, figures: dict[str, float]) -> str:
    """Show a run that is still going on, with its running scores; returns its id."""
    with quiet(), cursor_of(folder) as cursor:
        entry = entries_in(folder, cursor, kind)[-1]
        entry = replace(entry, status="RUNNING", metrics=figures, step=step, note=None)
        state = cursor.runs.setdefault(entry.key, RunState())
        stored = StoredRun(open_client(), entry, state, None, asks=cursor.asks)
        run_id = str(stored.run.info.run_id)
        # Kept before the store shows it as running, so that the next push ends it again.
        stored.state.sent.pop("end", None)
        cursor.save()
        stored.show()
        return run_id


def note_id(entry: RunEntry, run_id: str) -> None:
    """Write a run's id into the folder's manifest."""
    document = entry.document and read_object(entry.document)
    if entry.document and document and document.get("mlflow_run_id") != run_id:
        write_json(entry.document, {**document, "mlflow_run_id": run_id})
