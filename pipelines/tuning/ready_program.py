"""A program that a study varies while its prompts stay: one that was saved, or a user's object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...modules.agents.retrieval import environments_in
from ...modules.base.errors import UserError
from ...modules.base.keyed import without_none
from ...modules.protocols.declaration import Protocol
from ...modules.protocols.program import Program, lms_by_seat
from ...modules.protocols.registry import known
from ..lms.named import lm
from ..programs.build import MakeLM
from ..programs.resolve import program_of
from ..programs.saved import saved_program
from ..programs.seats import program_given
from ..runs.folder import TemporaryFolder


def rebuilt(
    folder: Path, program: Program, changed: Mapping[str, object], make_lm: MakeLM = lm
) -> Program:
    """Return the program that is saved in a folder, with some parameters changed, and with the LMs
    and the environment of `program`, which has the same seats.

    Raises UserError for parameters that would change which seats there are.
    """
    places = {place.fingerprint: place for place in environments_in(program)}
    return saved_program(
        folder,
        sets=changed,
        lms=without_none(lms_by_seat(program)),
        environment=places or None,
        make_lm=make_lm,
    )


@dataclass(frozen=True)
class ReadyProgram:
    """A program with its prompts, of which a study may change constructor parameters.

    Args:
        folder: where it is saved; None for a module or function of the user's.
        program: the program as it is.
        keep: what a temporary folder lives as long as.
    """

    folder: Path | None
    program: Program
    keep: TemporaryFolder | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """Leave the folder's end to the process that made it."""
        return {**self.__dict__, "keep": None}

    @classmethod
    def of(cls, source: object, make_lm: MakeLM) -> ReadyProgram:
        """Return the program of a folder, or of an object in Python, which is saved in a temporary
        folder.

        Raises UserError for what is not a program, or cannot be saved.
        """
        if isinstance(source, str | Path) and Path(source).expanduser().is_dir():
            return cls(Path(source).expanduser(), program_of(source, make_lm=make_lm))
        program = program_given(source)
        if program.foreign:
            return cls(None, program)
        # Its parameters are changed by loading it anew, so it has to be in a folder.
        keep = TemporaryFolder()
        program.save(keep.path)
        return cls(keep.path, program, keep)

    @property
    def protocol(self) -> Protocol | None:
        return known(str(self.program.describe()["program"]))

    def build(self, parameters: Mapping[str, object], make_lm: MakeLM) -> Program:
        """Return the program with some constructor parameters changed, its prompts and LMs as they
        were.

        Raises UserError for parameters that its prompts do not fit.
        """
        described = self.program.describe()
        changed = dict[str, object]()
        for name, value in parameters.items():
            before = described.get(name)
            if value == before:
                continue
            # A mapping, such as the sampling, is given in part: the rest stays as it was.
            if isinstance(value, Mapping):
                value = {**(before or {}), **value}
            changed[name] = value
        if not changed:
            same: Program = self.program.deepcopy()
            return same
        if self.folder is None:
            raise UserError(f"{min(changed)} cannot be set on a program of your own: leave it out")
        return rebuilt(self.folder, self.program, changed, make_lm)
