"""The command line: its commands by theme; nothing imports it."""

from __future__ import annotations

import gc
import sys
from importlib import import_module


def main() -> None:
    """`folkmoot …`. Ctrl-C ends it in a line, also while the rest is still being imported."""
    # Imports leave no garbage, and yet the collector would look for it after every 700 objects.
    gc.set_threshold(50_000)
    try:
        run = import_module(".app", __package__).run
    except KeyboardInterrupt:
        sys.stderr.write("folkmoot: interrupted\n")
        raise SystemExit(130) from None
    run()
