"""What the folders in `saved/before-house` were made with, and what it takes to go on with them.

All of it is frozen: the folders hold hashes of these questions, of the requests that were made, and of the
LM's address.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
import time
from contextlib import suppress
from typing import Any

import folkmoot as fm

ADDRESS = "http://127.0.0.1:8799/v1"
"""Where the folders say that their LM is; `Relay` puts a scripted server there."""

CHOICES = {"A": "bank", "B": "library", "C": "mall"}
KEY = "Mind the colour of the sky."
TEAM = "deliberation:intuitive,reasoner:judge"
MODEL = "planted"  # an embedding model that is nowhere: `vector_of` stands in for it
SPACE = {
    "program": "deliberation",
    "roles": ["intuitive", "reasoner"],
    "max_rounds": 1,
    "tie_break": ["majority", "strongest"],
    "sampling": {"temperature": [None, 0.7]},
}


def questions(first: int, last: int) -> list[fm.Question]:
    return [
        fm.Question(id=f"q{i}", question=f"Question {i}?", choices=CHOICES, answer="ABC"[i % 3])
        for i in range(first, last)
    ]


def reply(body: dict[str, Any]) -> str:
    """Right for a judge, with KEY or after demonstrations; others are right as their fields' hash tells."""
    last = body["messages"][-1]["content"]
    if "response_format" not in body:
        return _proposal(body)
    number = int(re.findall(r"Question (\d+)\?", last)[-1])
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    mark = "+".join(fields) + f"|{number}|{last.count(', round ')}"
    lucky = hashlib.sha256(mark.encode()).digest()[0] % 10 < 6
    right = "summary" in fields or KEY in last or len(body["messages"]) > 2 or lucky
    answer = "ABC"[(number + (not right)) % 3]
    other = {"action": "Finish[because it fits]", "decision": "accept"}
    return json.dumps(
        {
            name: (spec.get("enum") or [other.get(name, "because it fits")])[0]
            if name != "answer" or answer not in spec.get("enum", "ABC")
            else answer
            for name, spec in fields.items()
        }
    )


def _proposal(body: dict[str, Any]) -> str:
    """Instructions in the form of DSPy's chat adapter; every other one of them holds KEY."""
    number = hashlib.sha256(json.dumps([body["messages"], body.get("temperature")]).encode()).digest()[0]
    told = f"Think about what is asked, way number {number % 7}." + (f" {KEY}" if number % 2 else "")
    listed = body["messages"][0]["content"].split("Your output fields are:")[1].split("All interactions")[0]
    names = re.findall(r"^\d+\. `(\w+)`", listed, re.MULTILINE)
    return "\n".join([*(f"[[ ## {name} ## ]]\n{told}\n" for name in names), "[[ ## completed ## ]]"])


def vector_of(text: str) -> list[float]:
    """Eight numbers that a text's words give it, of length 1: what stands in the cache for MODEL."""
    total = [0.001] * 8
    for word in text.split():
        digest = hashlib.sha256(word.encode()).digest()
        total = [old + (byte - 127.5) / 128 for old, byte in zip(total, digest, strict=False)]
    size = sum(each * each for each in total) ** 0.5
    return [each / size for each in total]


class Relay:
    """Inside a `with` block, whatever connects to ADDRESS is at the server with that port on loopback.

    Another process that has the address is waited for.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self._open: list[socket.socket] = []
        self._heard: socket.socket | None = None

    def __enter__(self) -> Relay:
        host, _, port = ADDRESS.removeprefix("http://").removesuffix("/v1").partition(":")
        end = time.monotonic() + 120
        while self._heard is None:
            try:
                self._heard = socket.create_server((host, int(port)), backlog=64)
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        threading.Thread(target=self._accept, args=(self._heard,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in [self._heard, *self._open]:
            assert each is not None
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, heard: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = heard.accept()
                far = socket.create_connection(("127.0.0.1", self.port))
                self._open += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_carry, args=(one, other), daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
