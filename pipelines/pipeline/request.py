"""The request of `folkmoot pipeline` and `fm.pipeline`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from ..base.request import Argument, Option, Running, folder, tracked
from ..cli.options import Confirmed


@dataclass
class PipelineRequest(Running):
    """Go from data to a registered winner by one file: compile, tune, hold a contest, register.

    Each key of the file is a command with its options. What a step makes is what the next one
    starts from; all share one folder and one budget. The same command continues a stopped pipeline
    and pays for nothing twice.
    """

    example: ClassVar[str] = "pipeline pipeline.yaml --out runs/support"

    file: Annotated[
        Any,
        str | None,
        Argument(metavar="FILE", help="The pipeline in YAML. In Python also its content."),
    ] = None
    _: KW_ONLY
    out: Annotated[
        str | Path | None,
        Path | None,
        folder(
            "Folder of the pipeline, which the same command continues. Default: one under runs/. "
            "In Python a temporary one."
        ),
    ] = None
    tracking: Annotated[bool, tracked("the pipeline, with a run below it for each step,")] = True


@dataclass(kw_only=True)
class PipelineView(Confirmed):
    """Options of `pipeline` on the command line only."""

    new: Annotated[
        bool, Option("--new", help="Print a file to start from, with comments, and stop.")
    ] = False
