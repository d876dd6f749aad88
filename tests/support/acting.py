"""A task, programs that act on it, and how they are evaluated without an LM of one's own."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from children import BARE
from completions import completion

import folkmoot as fm
from folkmoot.modules.base.errors import UserError
from folkmoot.pipelines.tasks.sandbox import Sandbox
from folkmoot.pipelines.testing.server import ScriptedServer, wanted_fields

PYTEST = f"env PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q -p no:cacheprovider"


def no_bwrap() -> str:
    try:
        Sandbox.of(None)
    except UserError as problem:
        return str(problem)
    return ""


needs_bwrap = pytest.mark.skipif(bool(no_bwrap()), reason=no_bwrap() or "there is one")


def add_task(id: str = "add") -> fm.Question:
    files = {"add.py": "def add(a, b):\n    return a - b\n", "README": "Sums.\n"}
    tests = {"test_add.py": "from add import add\n\ndef test():\n    assert add(2, 3) == 5\n"}
    asked = "Repair add.py: it subtracts."
    return fm.Question(id=id, question=asked, kind="task", files=files, tests=tests)


REPAIRED = "def add(a, b):\n    return a + b\n"
DIFF = """--- a/add.py
+++ b/add.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""


def command(folder: Path, code: str, **options: Any) -> fm.Command:
    """A command that runs this code in the task's folder."""
    script = folder / "acts.py"
    script.write_text("import json, os, socket, subprocess, sys, time\n" + code)
    return fm.Command(f"{BARE} {script}", **options)


@contextmanager
def fm_server() -> Iterator[Any]:
    """An LM that says `hello`."""
    with ScriptedServer(lambda body: (200, {}, completion("hello"))) as server:
        yield fm.lm("openai/m", api_base=server.url, price=(1e-6, 1e-5))


def done(program: Any, tasks: Any = None, **options: Any) -> fm.Evaluation:
    """The evaluation of a program whose LM says `hello`."""
    options = {"check": CHECK, "tracking": False, "cache": False, **options}
    with fm_server() as lm:
        return fm.evaluate(program, tasks or [add_task()], **{"lm": lm, **options})


def only_row(program: Any, **options: Any) -> Any:
    (row,) = done(program, **options).rows
    return row


CHECKS = "import sys, add; sys.exit(add.add(2, 3) != 5)"
CHECK = f'{BARE} -c "{CHECKS}"'
"""A check that takes a tenth of what pytest takes."""
TESTED = f'{BARE} -c "import test_add; test_add.test()"'
"""A check that runs the task's test."""
ASK = Path(__file__).with_name("crew.py").read_text().partition("if __name__")[0]
ASK += "asked = json.load(sys.stdin)\n"
SOLO = f"""said = ask(asked['id'])
open('add.py', 'w').write({REPAIRED!r} if said == 'right' else said)
"""
CREW = f"for n in range(3): ask(asked['id'] + str(n))\nopen('add.py', 'w').write({REPAIRED!r})\n"


class Says:
    """Every second reply to a task is right; the picker takes the candidate that is."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.picks = 0

    def __call__(self, body: dict[str, Any]) -> Any:
        text = body["messages"][-1]["content"]
        if "candidate 1" in json.dumps(body["messages"]):
            self.picks += 1
            assert wanted_fields(body)
            first = text.index("candidate 1"), text.index("candidate 2")
            best = "1" if "+    return a + b" in text[first[0] : first[1]] else "2"
            return 200, {}, completion(json.dumps({"comparison": "c", "best": best}))
        self.asked[text] += 1
        return 200, {}, completion("right" if self.asked[text] % 2 == 0 else f"wrong {text}")


def programs(folder: Path) -> tuple[fm.Command, fm.Command]:
    for name, code in (("solo", SOLO), ("crew", CREW)):
        (folder / f"{name}.py").write_text(ASK + code)
    solo, crew = (f"{BARE} {folder / name}.py" for name in ("solo", "crew"))
    return fm.Command(solo), fm.Command(crew)
