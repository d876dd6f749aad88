"""A page in headless Chromium, driven by the DevTools protocol over its pipe: for tests and for
pictures.

The pipe needs nothing but the standard library: messages are JSON, each ended by a NUL byte, which
the browser reads from its descriptor 3 and writes to 4 (`--remote-debugging-pipe`).
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
QUIET = (  # no request of the browser's own, no prompt, no keyring
    *(
        "--headless=new",
        "--no-first-run",
        "--no-default-browser-check",
        "--disable-background-networking",
    ),
    *(
        "--disable-component-update",
        "--disable-sync",
        "--disable-default-apps",
        "--disable-extensions",
    ),
    *("--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--password-store=basic"),
)
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), " ": (32, " ")} | {
    name: (code, "")
    for code, name in enumerate(
        ("PageUp", "PageDown", "End", "Home", "ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"), 33
    )
}
"""The keys without a letter: their code, and what they type."""


def find_browser() -> str | None:
    """Chromium or Chrome on the path; None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


# Puts the ends of its pipes where the browser looks for them: what is open at 3 and 4 in this
# process may be
# closed by a library as it forks.
BEGIN = """
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(end), fcntl.F_DUPFD_CLOEXEC, 5) for end in sys.argv[1:3])
os.dup2(reads, 3)
os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class PageError(Exception):
    """The browser refused a command, a script failed, or what was waited for did not come."""


class Browser:
    """One page in a browser of its own, which ends with the `with` block.

    `requests` has the address of everything that the page asked for, itself included, and
    `problems` what it said in the console as an error or warning, scripts that failed and what its
    policy refused.
    """

    def __init__(self, width: int = 1440, height: int = 900, seconds: float = 30) -> None:
        executable = find_browser()
        if executable is None:
            raise PageError(f"there is no browser: install one of {', '.join(NAMES)}")
        self.requests: list[str] = []
        self.problems: list[str] = []
        self._seconds, self._number, self._session = seconds, 0, ""
        self._came = b""
        self._events: list[str] = []
        self._home = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        reads, self._out = os.pipe()
        self._in, writes = os.pipe()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # root has none
        here = [f"--user-data-dir={self._home.name}", "--remote-debugging-pipe"]
        begin = [sys.executable, "-c", BEGIN, str(reads), str(writes)]
        self._process = subprocess.Popen(
            [*begin, executable, *QUIET, *sandbox, *here, "about:blank"],
            pass_fds=(reads, writes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(reads)
        os.close(writes)
        try:
            target = self.send("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.send(f"{domain}.enable")
            self.resize(width, height)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for end in (self._out, self._in):
            os.close(end)  # which ends the browser
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._home.cleanup()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its result."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": params, **session}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        end = time.monotonic() + self._seconds
        while True:
            answer = self._next(end, method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise PageError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self, end: float, what: str) -> dict[str, Any]:
        """Return the next message of the browser; events are noted on the way."""
        while b"\0" not in self._came:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise PageError(f"{what}: nothing came within {self._seconds:g} s")
            data = os.read(self._in, 1 << 20)
            if not data:
                raise PageError(f"{what}: the browser has ended")
            self._came += data
        first, _, self._came = self._came.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        if "method" in message:
            self._note(message["method"], message["params"])
        return message

    def _note(self, event: str, said: dict[str, Any]) -> None:
        self._events.append(event)
        if event == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            details = said["exceptionDetails"]
            self.problems.append(
                str(details.get("exception", {}).get("description", details["text"]))
            )
        elif event == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(arg.get("value", arg)) for arg in said["args"]))
        elif event == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.problems.append(said["entry"]["text"])

    def open(self, url: str) -> None:
        """Go to an address and wait until the page has loaded."""
        self._events.clear()
        found = self.send("Page.navigate", url=url)
        if found.get("errorText"):
            raise PageError(f"{url}: {found['errorText']}")
        end = time.monotonic() + self._seconds
        while "Page.loadEventFired" not in self._events:
            self._next(end, url)

    def js(self, script: str) -> Any:
        """Return the value of an expression in the page, or what its promise gives."""
        found = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise PageError(str(details.get("exception", {}).get("description", details["text"])))
        return found["result"].get("value")

    def wait(self, script: str, seconds: float | None = None) -> None:
        """Wait until an expression in the page is true, such as an element that is there."""
        end = time.monotonic() + (self._seconds if seconds is None else seconds)
        while not self.js(f"!!({script})"):
            if time.monotonic() > end:
                raise PageError(f"not so: {script}")
            time.sleep(0.02)

    def press(self, *keys: str) -> None:
        """Press keys where the focus is: by name, such as ArrowDown, or a character."""
        for key in keys:
            code, typed = KEYS.get(key, (ord(key[0].upper()), key))
            about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
            self.send(
                "Input.dispatchKeyEvent",
                type="keyDown",
                **about,
                **({"text": typed} if typed else {}),
            )
            self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    def type(self, text: str) -> None:
        """Put text where the focus is, as if typed."""
        self.send("Input.insertText", text=text)

    def _middle(self, selector: str) -> tuple[float, float]:
        place = self.js(
            f"(e => {{ if (!e) return null; e.scrollIntoView({{block: 'nearest'}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / "
            "2]; })"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        if place is None:
            raise PageError(f"there is no {selector} on the page")
        return place[0], place[1]

    def hover(self, selector: str) -> None:
        """Move the pointer onto the first element that a CSS selector finds."""
        x, y = self._middle(selector)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        x, y = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def resize(self, width: int, height: int, scale: float = 1) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )

    def media(self, media: str = "", *, dark: bool = False) -> None:
        """Show the page as `print` does, or in the colours of a dark screen."""
        colours = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media=media, features=[colours])

    def picture(self, path: str | Path, *, whole: bool = False) -> None:
        """Write what the window shows, or the `whole` page, as PNG."""
        clip: dict[str, Any] = {}
        if whole:
            clip = {"clip": {**self.send("Page.getLayoutMetrics")["cssContentSize"], "scale": 1}}
        found = self.send("Page.captureScreenshot", captureBeyondViewport=whole, **clip)
        Path(path).write_bytes(base64.b64decode(found["data"]))


def main(words: Sequence[str]) -> None:
    """`python tools/browser.py URL PICTURE [WIDTH [HEIGHT]]`"""
    url, picture, *size = words
    with Browser(*map(int, size)) as page:
        page.open(url)
        page.picture(picture, whole=len(size) < 2)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
