"""Tasks under optimizers and studies: what a check says is what they learn from."""

from pathlib import Path
from typing import Any

from acting import REPAIRED, add_task
from completions import completion

import folkmoot as fm
from folkmoot.pipelines.testing.replies import filled, text_of
from folkmoot.pipelines.testing.server import ScriptedServer, wanted_fields

SAID = "add(2, 3) is not 5 yet"


def tasks(prefix: str) -> list[fm.Question]:
    listed = [add_task(f"{prefix}{number}") for number in range(4)]
    for number, task in enumerate(listed):
        task.question = f"{prefix}{number}: {task.question}"
    return listed


def check(task: fm.Question, folder: Path) -> Any:
    right = (folder / "add.py").read_text().strip() == REPAIRED.strip()
    return float(right), "" if right else SAID


class Says:
    """Right once the prompt says `add the two`, which the LM that reflects proposes."""

    def __init__(self) -> None:
        self.reflections: list[str] = []

    def __call__(self, body: dict[str, Any]) -> Any:
        text = text_of(body)
        if "answer" in wanted_fields(body):
            return filled(body, REPAIRED if "add the two" in text else "pass\n", "because")
        self.reflections.append(text)
        return 200, {}, completion("```\nRepair it: add the two.\n```")


def options(server: ScriptedServer, folder: Path) -> dict[str, Any]:
    lm = fm.lm("openai/m", api_base=server.url, price=(1e-6, 1e-5))
    checked = {"check": check, "answer_file": "add.py", "sandbox": "none"}
    return {"lm": lm, "tracking": False, "out": folder, "progress": False, **checked}


def test_what_the_check_says_reaches_the_lm_that_reflects(tmp_path: Path) -> None:
    with ScriptedServer(says := Says()) as server:
        compiled = fm.compile(
            fm.SingleAgent("simple"), tasks("t"), validation=tasks("v"), optimizer="gepa",
            budget="60 calls", **options(server, tmp_path / "compiled"),
        )  # fmt: skip
    assert any(SAID in text for text in says.reflections)
    assert "add the two" in compiled.seat.predict.signature.instructions


def test_a_study_tries_settings_on_tasks(tmp_path: Path) -> None:
    with ScriptedServer(Says()) as server:
        study = fm.tune(
            "single:simple", tasks("t"), validation=tasks("v"), trials=2,
            budget="60 calls", **options(server, tmp_path / "study"),
        )  # fmt: skip
    assert (tmp_path / "study" / "study.json").exists()
    assert study.validation.summary.counts["rows"] == 4
