"""What the tests of bombs run in processes of their own."""

from __future__ import annotations

import resource
from pathlib import Path

import folkmoot as fm

MOST = 3000
"""Megabytes of memory, above what a child has, at which it ends."""


def reads(path: Path) -> tuple[str, int]:
    """How a file of questions, or a log, is refused, and how many megabytes of memory that
    took.
    """
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MOST * 2**20,) * 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = ""
    try:
        (fm.load if path.suffix in (".xlsx", ".csv", ".saved") else fm.import_log)(path)
    except fm.UserError as problem:
        said = str(problem)
    return said, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
