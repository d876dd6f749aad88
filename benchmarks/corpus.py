"""A corpus of made-up paragraphs: seconds to index and to open it again, search time, memory.

`python benchmarks/corpus.py --paragraphs 1000000`; the words are drawn with the frequencies of
English prose (Zipf's law, stop words on top), from a fixed seed. Indexing and searching run in
processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bm25s.stopwords import STOPWORDS_EN

from folkmoot.modules.environment.corpus import CorpusEnvironment

WORDS = 300_000
WORDS_A_PARAGRAPH = 50
WORDS_A_QUESTION = 12
QUESTIONS = 200
BATCH = 20_000


def word_list(rng: np.random.Generator) -> list[str]:
    parts = np.array(
        ["ba", "ke", "lo", "mi", "nu", "ra", "se", "ti", "vo", "za", "der", "gal", "pin", "ston"]
    )
    made: dict[str, None] = dict.fromkeys(map(str, STOPWORDS_EN))
    while len(made) < WORDS:
        lengths = rng.integers(2, 7, BATCH)
        made.update(dict.fromkeys("".join(parts[rng.integers(0, len(parts), n)]) for n in lengths))
    return list(made)[:WORDS]


def write(path: Path, paragraphs: int) -> list[str]:
    """Writes the corpus; returns questions made of the words of some of its paragraphs."""
    rng = np.random.default_rng(20_240)
    words = word_list(rng)
    shares = 1 / np.arange(2, len(words) + 2)
    cumulated = np.cumsum(shares / shares.sum())
    asked = set(rng.integers(0, paragraphs, QUESTIONS).tolist())
    questions = []
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, paragraphs, BATCH):
            drawn = np.searchsorted(
                cumulated, rng.random((min(BATCH, paragraphs - start), WORDS_A_PARAGRAPH))
            )
            for number, row in enumerate(drawn.clip(max=len(words) - 1), start):
                said = [words[i] for i in row]
                title = f"{said[0].title()} {said[1].title()} {number}"
                file.write(
                    json.dumps({"title": title, "text": " ".join(said).capitalize() + "."}) + "\n"
                )
                if number in asked:
                    questions.append(" ".join(said[2 : 2 + WORDS_A_QUESTION]))
    return questions


def index(path: Path, folder: Path) -> dict[str, float]:
    began = time.perf_counter()
    CorpusEnvironment(path, index_dir=folder)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"index s": time.perf_counter() - began, "index most resident MB": most}


def search(path: Path, folder: Path, questions: list[str]) -> dict[str, float]:
    def resident() -> float:
        fields = Path("/proc/self/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGESIZE") / 2**20

    before = resident()
    began = time.perf_counter()
    corpus = CorpusEnvironment(path, index_dir=folder)
    loaded = time.perf_counter() - began

    async def work() -> list[float]:
        await corpus.closest(questions[0], 5)
        took = []
        for question in questions:
            start = time.perf_counter()
            titles = await corpus.closest(question, 5)
            took.append(1000 * (time.perf_counter() - start))
            assert titles, question
        return took

    took = asyncio.run(work())
    # Pages of the mapped files count as resident while nobody else needs the room.
    return {
        "load s": loaded,
        "search p50 ms": float(np.percentile(took, 50)),
        "search p90 ms": float(np.percentile(took, 90)),
        "resident MB, libraries": before,
        "resident MB, searched": resident(),
    }


def apart(*arguments: str) -> dict[str, float]:
    command = [sys.executable, __file__, *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--paragraphs", type=int, default=100_000)
    parser.add_argument("--step", choices=["index", "search"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        path, folder = options.folder / "corpus.jsonl", options.folder / "index"
        if options.step == "index":
            print(json.dumps(index(path, folder)))
        else:
            print(
                json.dumps(
                    search(
                        path, folder, json.loads((options.folder / "questions.json").read_text())
                    )
                )
            )
        return
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "corpus.jsonl")
        questions = write(path, options.paragraphs)
        Path(place, "questions.json").write_text(json.dumps(questions))
        print(f"{'paragraphs':32}{options.paragraphs:>12,}")
        print(f"{'corpus MB':32}{path.stat().st_size / 2**20:12.1f}", flush=True)
        for step in ("index", "search"):
            for name, value in apart("--step", step, "--folder", place).items():
                print(f"{name:32}{value:12.3f}", flush=True)
        size = sum(
            file.stat().st_size for file in Path(place, "index").rglob("*") if file.is_file()
        )
        print(f"{'index MB':32}{size / 2**20:12.1f}")


if __name__ == "__main__":
    main()
