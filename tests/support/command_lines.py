"""Command lines in turn, in one process."""

import json
import sys
from pathlib import Path

from folkmoot.pipelines import cli


def commands(lines: list[list[str]]) -> None:
    """Run each command line, and keep their exit codes in codes.json."""
    codes = []
    for words in lines:
        print(f"== {words[0]}", flush=True)
        sys.argv = ["folkmoot", *words]
        try:
            cli.main()
            codes.append(0)
        except SystemExit as end:
            codes.append(int(end.code or 0))
    Path("codes.json").write_text(json.dumps(codes))
