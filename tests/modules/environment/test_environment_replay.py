"""Recorded environments: the same observations again, whole lines only, for all processes."""

import asyncio
import multiprocessing
import os
from asyncio import run
from functools import partial
from pathlib import Path

import pytest
from children import Child, code, wait_until
from mortal import largest_file
from refusals import refused

from folkmoot.modules.base.errors import UserError
from folkmoot.modules.environment import Environment, Observation, Page
from folkmoot.modules.environment.corpus import CorpusEnvironment
from folkmoot.modules.environment.replay import RecordingEnvironment, ReplayEnvironment

ENGINE = "He designed the analytical engine in England."
DOCUMENTS = [
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada was a mathematician. She met Babbage."},
    {"id": "babbage", "title": "Charles Babbage", "text": ENGINE},
    {"id": "half", "title": "Half \ud83d", "text": "Half of a pair: \ud800."},
]


class Counting(Environment):
    """Gives another text each time it is asked, as a live wiki may."""

    source = "counting"

    def __init__(self) -> None:
        self.asked = 0

    async def fetch(self, title: str) -> Page | None:
        self.asked += 1
        await asyncio.sleep(0)
        return None if title == "none" else Page(title, f"text {self.asked}", "counting:1")

    async def closest(self, query: str, n: int) -> list[str]:
        self.asked += 1
        return [f"{query} {self.asked}"][:n]


async def observed(environment: Environment) -> list[Observation]:
    session = environment.open(max_chars=60)
    shown = [await session.search("Ada Lovelace"), await session.lookup("babbage")]
    shown += [await session.search(title) for title in ("engine", "qqq", "half \ud83d")]
    return shown + await environment.evidence("Who designed the engine?", passages=2)


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "records" / "run.jsonl"


def test_a_replay_observes_what_was_recorded(record: Path) -> None:
    corpus = CorpusEnvironment(DOCUMENTS)
    recording = RecordingEnvironment(corpus, record)
    first = run(observed(recording))
    assert first == run(observed(corpus))
    run(recording.close())
    assert recording.fingerprint == corpus.fingerprint
    assert run(observed(ReplayEnvironment(record))) == first


def test_what_is_not_on_record_is_named(record: Path) -> None:
    run(RecordingEnvironment(CorpusEnvironment(DOCUMENTS), record).fetch("Ada Lovelace"))
    replay = ReplayEnvironment(record)
    for work, says in (
        (replay.fetch("ada lovelace"), r"fetch\('ada lovelace'\)"),
        (replay.closest("Ada Lovelace", 5), r"closest\('Ada Lovelace', 5\)"),
        (replay.fetch("x\n" * 5000), r"fetch\('x\\nx"),
    ):
        with pytest.raises(UserError, match=says) as caught:
            run(work)
        assert str(caught.value).startswith(f"{record} has no answer to ")
        assert len(str(caught.value)) < 600
        assert str(caught.value).isprintable()


def write_many(path: Path, mine: str) -> list[Page | None]:
    class Mine(Counting):
        async def fetch(self, title: str) -> Page | None:
            return Page(title, f"{mine} " * 500, "counting:1")

    recording = RecordingEnvironment(Mine(), path)
    return [run(recording.fetch(f"Page {i}")) for i in range(60)]


@pytest.mark.nightly
def test_processes_that_record_at_once_agree_on_every_page(record: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        seen = pool.starmap(write_many, [(record, name) for name in "xy"])
    assert seen[0] == seen[1]
    replay = ReplayEnvironment(record)
    assert [run(replay.fetch(f"Page {i}")) for i in range(60)] == seen[0]
    assert len(record.read_bytes().splitlines()) == 61


CHILD = """
import asyncio, itertools, sys
from folkmoot.modules.environment.corpus import CorpusEnvironment
from folkmoot.modules.environment.replay import RecordingEnvironment
async def work():
    corpus = CorpusEnvironment([{"title": "A", "text": "word " * 20000}])
    recording = RecordingEnvironment(corpus, sys.argv[1])
    for i in itertools.count():
        await recording.fetch("A" if i == 0 else f"A (n{i})")
        print(i, flush=True)
asyncio.run(work())
"""


def test_a_killed_process_loses_nothing_that_was_seen(record: Path) -> None:
    for _ in range(2):
        child = Child(code, CHILD, record)
        told = partial(child.said, "out")
        wait_until(lambda told=told: told().count("\n") >= 20, partial(child.said, "err"))
        child.kill()
        seen = [int(line) for line in child.communicate()[0].splitlines()]
        replay = ReplayEnvironment(record)
        for i in seen:
            assert run(replay.fetch("A" if i == 0 else f"A (n{i})")) is not None


def test_a_missing_an_empty_and_anothers_record_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.jsonl cannot be opened .*record one first"):
        ReplayEnvironment(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").touch()
    refused(r"empty\.jsonl is empty", ReplayEnvironment, tmp_path / "empty.jsonl")
    refused("cannot be opened", RecordingEnvironment, Counting(), tmp_path)
    RecordingEnvironment(Counting(), tmp_path / "counting.jsonl")
    other = r"counting\.jsonl is the record of another environment \(counting\)"
    refused(other, RecordingEnvironment, CorpusEnvironment(DOCUMENTS), tmp_path / "counting.jsonl")


def test_a_full_disk_is_named_and_leaves_whole_lines(record: Path) -> None:
    corpus = CorpusEnvironment([{"title": "A", "text": "word " * 400}])
    recording = RecordingEnvironment(corpus, record)
    run(recording.fetch("A"))
    run(recording.fetch("a"))
    # The limit must be gone before pytest writes again: its own output may be a longer file.
    with (
        largest_file(5000),
        pytest.raises(UserError, match=r"run\.jsonl could not be written.*make room"),
    ):
        run(recording.fetch("A (x)"))
    assert os.path.getsize(record) <= 5000
    assert run(ReplayEnvironment(record).fetch("a")) is not None
    assert len(record.read_bytes().splitlines()) == 3
