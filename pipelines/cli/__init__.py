"""The command line: its commands by theme; nothing imports it."""

from __future__ import annotations

import sys
from importlib import import_module


def main() -> None:
    """`folkmoot …`. Ctrl-C ends it in a line, also while the rest is still being imported."""
    try:
        run = import_module(".app", __package__).run
    except KeyboardInterrupt:
        sys.stderr.write("folkmoot: interrupted\n")
        raise SystemExit(130) from None
    run()
