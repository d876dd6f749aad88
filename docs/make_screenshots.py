"""Writes docs/images from runs made for them, with headless Chromium: `make screenshots`.

The pages of MLflow show an LM with scripted answers, which needs no weights and says the same each
time; the report shows a recorded contest. Nothing is arranged by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from PIL import Image

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer, wanted_fields

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))

from browser import Browser  # type: ignore[import-not-found]  # noqa: E402

IMAGES = ROOT / "docs" / "images"
PROGRAMS = (
    "single:simple",
    "ensemble:simple,cot,zero_shot",
    "deliberation:intuitive,reasoner,critic:judge",
)
RECORDED = ("csqa-simple", "csqa-blind")
QUESTIONS = {
    one.question: one for part in ("train", "test") for one in fm.load("sample-choice", split=part)
}


def reply(body: dict[str, Any]) -> str:
    """A thoughtless answer, and a better one with reasons or after others have spoken."""
    prompt = body["messages"][-1]["content"]
    asked = QUESTIONS[prompt.partition("Question: ")[2].partition("\n\n")[0]]
    fields = wanted_fields(body)
    assert asked.choices
    assert asked.answer
    hard, drawn = _number(asked.question) % 100 < 30, _number(prompt)
    right = drawn % 100 < (12 if hard else 88) + 6 * (len(fields) > 1)
    label = (
        asked.answer if right else sorted({*asked.choices} - {asked.answer})[_number(asked.id) % 3]
    )
    said = (
        f"“{asked.choices[label]}” fits best: it comes to mind first, and the others are unusual."
    )
    return json.dumps({name: label if "enum" in spec else said for name, spec in fields.items()})


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


def folkmoot(words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "folkmoot", *words.split()], check=True, stdout=subprocess.DEVNULL
    )


def runs() -> None:
    """A recorded contest, and in another experiment three programs and a study, in the store that
    is here.
    """
    for name in RECORDED:
        with tarfile.open(ROOT / "examples" / "recorded" / f"{name}.tar.xz") as packed:
            packed.extractall(filter="data")
    words = ROOT / "examples" / "recorded" / "words" / "intuitive.yaml"  # those of that day
    talk = f"deliberation:intuitive,reasoner:judge --set opening=blind --set prompts={words}"
    recorded = "--data csqa-blind/questions.jsonl --lm replay/csqa-blind"
    folkmoot(f"evaluate {talk} {recorded} --out runs/real --quiet")
    with ScriptedServer(reply) as server:
        lm = (
            f"--quiet --lm openai/scripted --api-base {server.url} --price openai/scripted=0.15,0.6"
        )
        data = "--data sample-choice --split test --limit 100"
        for number, program in enumerate(PROGRAMS):
            folkmoot(f"evaluate {program} {data} --out runs/{number} {lm}")
        data = (
            "--train sample-choice --train-split train --train-limit 40 --validation sample-choice"
        )
        data += " --validation-split test --validation-limit 60"
        asked = "--trials 6 --objective accuracy,tokens --out study"
        folkmoot(f"tune deliberation:intuitive,reasoner {data} {asked} {lm}")


@contextmanager
def ui() -> Iterator[str]:
    """The address that `folkmoot ui` prints for the store of the working folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "folkmoot", "ui", "--port", str(port)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[0]
        finally:
            process.send_signal(signal.SIGTERM)


def taken(page: Browser, name: str, url: str, ready: str, pause: float = 4.0) -> None:
    """Open a page, wait for words on it, and a while for what draws itself, and write the
    picture.
    """
    page.open("about:blank")
    page.open(url)
    page.wait(f"document.body.innerText.includes({json.dumps(ready)})", 90)
    time.sleep(pause)
    picture(page, name)


def picture(page: Browser, name: str) -> None:
    path = IMAGES / f"{name}.png"
    page.picture(path)
    with Image.open(path) as image:
        image.convert("RGB").quantize(128).save(path, optimize=True)


def mlflow_pages(page: Browser, address: str) -> None:
    client = MlflowClient()
    experiment = address.partition("/experiments/")[2].partition("/")[0]
    found = client.search_runs([experiment], order_by=["attributes.start_time ASC"])
    *_, talk, study = (one for one in found if "mlflow.parentRunId" not in one.data.tags)
    root = f"{address.partition('#')[0]}#"
    runs = f"{root}/experiments/{experiment}/runs"
    page.open(address)
    assistant = "[data-component-id='mlflow.assistant.chat_panel.close']"
    page.wait(f"!!document.querySelector({json.dumps(assistant)})", 90)
    page.click(assistant)
    taken(page, "mlflow-runs", address, "accuracy_low")
    overview = "About this run"
    taken(page, "mlflow-run", f"{runs}/{talk.info.run_id}", overview)
    real = client.get_run(json.loads(Path("runs/real/run.json").read_text())["mlflow_run_id"]).info
    shown = f"{root}/experiments/{real.experiment_id}/runs/{real.run_id}/artifacts/dialogues.html"
    taken(page, "mlflow-dialogues", shown, "Path:", 8)
    traces = client.search_traces(locations=[experiment], run_id=talk.info.run_id)
    longest = max(traces, key=lambda one: len(one.data.spans))
    asked = f"{root}/experiments/{experiment}/traces?selectedEvaluationId={longest.info.trace_id}"
    taken(page, "mlflow-trace", asked, "round 2", 8)
    taken(page, "mlflow-study", f"{runs}/{study.info.run_id}", overview)


def report_page(page: Browser) -> None:
    """One agent and two who talk, embedded and recorded: docs/findings.md."""
    folkmoot(f"report {' '.join(RECORDED)} --out report.html")
    taken(page, "report-desktop", Path("report.html").absolute().as_uri(), "folkmoot", 1)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["FOLKMOOT_CACHE"] = f"{folder}/cache"
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        os.environ.setdefault("OPENAI_API_KEY", "none")
        runs()
        with ui() as address, Browser(1440, 900, seconds=90) as page:
            mlflow_pages(page, address)
            report_page(page)
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
