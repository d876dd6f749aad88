"""Files of a run with something that folkmoot does not write: cut off, wrong, absurd."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

WRONG: dict[str, Any] = {"null": None, "text": "x", "negative": -1, "list": [], "object": {}}
WRONG |= {"truth": True, "numbers": [1, 2], "nested": {"x": {"y": [None]}}}
# What JSON can say and few readers expect; as text, since Python does not write it.
RAW = {"huge": "1" + "0" * 400, "infinite": "1e999", "nan": "NaN"}
RAW |= {"surrogate": '"\\ud800"', "long": "9" * 5000}
MARK = "@@raw@@"

Doctor = Callable[[Path], object]
"""Changes a file, or what stands in its place."""


def whole_files() -> dict[str, Doctor]:
    """What can be wrong with any file."""
    contents = {"empty": b"", "not JSON": b"hello\n", "a list": b"[]\n", "a text": b'"x"\n'}
    contents |= {"null": b"null\n", "deep": b"[" * 100_000 + b"\n"}
    contents |= {"deep object": b'{"a":' * 100_000 + b"\n", "not UTF-8": b'{"id": "\xff\xfe"}\n'}
    contents["zeros"] = bytes(1000)
    return {name: partial(Path.write_bytes, data=content) for name, content in contents.items()} | {
        "torn": lambda path: path.write_bytes(path.read_bytes()[:-40]),
        "missing": Path.unlink,
        "folder": _instead(Path.mkdir),
        "fifo": _instead(os.mkfifo),
        "device": _instead(lambda path: path.symlink_to("/dev/zero")),
        "dangling link": _instead(lambda path: path.symlink_to(path.parent / "nowhere")),
    }


def values(first_line: bool, inner: tuple[str, ...] = ()) -> Callable[[Path], Iterator[Any]]:
    """Every value of an object (a file's, its first line's, under `inner`), doctored or gone."""

    def doctors(path: Path) -> Iterator[tuple[str, Doctor]]:
        lines = path.read_text().splitlines() if first_line else [path.read_text()]
        known = json.loads(lines[0])
        places = [(key,) for key in known]
        for name in inner:
            held = known.get(name)
            if isinstance(held, dict):
                places += [(name, key) for key in held]
            elif isinstance(held, list) and held and isinstance(held[0], dict):
                places += [(name, 0, key) for key in held[0]]
                places.append((name, 0))
        for place in places:
            for wrong in (*WRONG, *RAW, "left out"):
                where = ".".join(map(str, place))
                yield f"{where} {wrong}", _replaced(lines, place, wrong)

    return doctors


def _replaced(lines: list[str], place: tuple[Any, ...], wrong: str) -> Doctor:
    def doctor(path: Path) -> None:
        document = json.loads(lines[0])
        *way, last = place
        held = document
        for step in way:
            held = held[step]
        if wrong == "left out":
            del held[last]
        else:
            held[last] = WRONG.get(wrong, MARK)
        text = json.dumps(document).replace(f'"{MARK}"', RAW.get(wrong, ""))
        path.write_text("\n".join([text, *lines[1:]]) + "\n")

    return doctor


def _instead(make: Callable[[Path], object]) -> Doctor:
    """Put something else in the place of a file."""

    def doctor(path: Path) -> None:
        path.unlink()
        make(path)

    return doctor


class Hang(BaseException):
    """Something took longer than it may; no `except Exception` hides it."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises Hang in the block after so many seconds."""

    def rung(*_: Any) -> None:
        raise Hang(f"still busy after {seconds} s")

    before = signal.signal(signal.SIGALRM, rung)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
