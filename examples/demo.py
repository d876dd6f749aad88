"""The main job in small: does a team beat one agent? No key needed.

Run it with `make demo`. First `folkmoot try` holds a contest on the embedded LM (Gemma 3 270M), in
this process. Then a recorded contest of a more capable one (Qwen2.5-Coder 1.5B), without a call.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
from pathlib import Path

import folkmoot as fm
from folkmoot.pipelines.cli.app import app

RUNS = Path("runs/demo")
LM = "local/gemma-3-270m"
RECORDED = Path(__file__).parent / "recorded"
CONTEST = {
    "one prompt": "csqa-simple",
    "two who talk": "csqa-blind",
    "one prompt, 0.5B": "csqa-small-simple",
}
"""The recorded runs by name: two programs on one LM, and one prompt on a smaller one."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=30, help="questions, at most 120")
    parser.add_argument("--lm", default=LM, help="such as openai/gpt-4o-mini")
    parser.add_argument("--api-base", help="address of an OpenAI-compatible endpoint, up to /v1")
    options = parser.parse_args()
    words = ["try", "sample-choice", "--split", "test", "--limit", str(options.limit)]
    words += ["--lm", options.lm, "--out", str(RUNS / f"{options.limit}-{Path(options.lm).name}")]
    words += ["--api-base", options.api_base] if options.api_base else []
    print(f"$ folkmoot {' '.join(words)}\n", flush=True)
    code = app(words, standalone_mode=False) or 0
    if code == 0:
        recorded()
        print('\nYour own: folkmoot try questions.csv --lm openai/gpt-4o-mini --budget "5 USD"')
    return int(code)


def recorded() -> None:
    """Show a contest of a capable LM in which something is decided, from its records."""
    for name in CONTEST.values():
        with tarfile.open(RECORDED / f"{name}.tar.xz") as archive:
            archive.extractall(RUNS / "recorded", filter="data")
    runs = [RUNS / "recorded" / name for name in CONTEST.values()]
    comparison = fm.compare(*runs, names=list(CONTEST))
    print("\nRecorded: Qwen2.5-Coder 1.5B on 100 questions of CommonsenseQA\n")
    print("\n".join([*comparison.table(), ""]))
    print(comparison.against[1].verdict)


if __name__ == "__main__":
    sys.exit(main())
