"""Attacks on runs, folders, files and budgets: one entry each, and what must be true after it.

An attack is a function of a place to work in. To add one, decorate a function with `attack`.
"""

import hashlib
import itertools
import json
import os
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import pytest
from by_day import some_by_day
from children import Forked, wait_for_requests
from cli_helpers import folkmoot
from refusals import refused
from wire_server import quick as quick

import folkmoot as fm
from folkmoot.pipelines.lms.ledger import lost_in, totals
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tracking.store import open_client

CHOICES = {"A": "bank", "B": "library", "C": "mall"}


@dataclass
class Place:
    """A folder, and an LM that is right on 70% of the questions and refuses `refuses` percent."""

    folder: Path
    server: ScriptedServer
    refuses: int = 0
    down: bool = False

    def reply(self, body: dict[str, Any]) -> Any:
        if self.down:
            return 503, {}, {"error": {"message": "down"}}
        text = str(body["messages"])
        if _percent(text, "refuse") < self.refuses:
            return 400, {}, {"error": {"message": "content policy", "code": "content_filter"}}
        answer = "A" if _percent(text, "right") < 70 else "B"
        return json.dumps({"reasoning": "so", "answer": answer})

    @property
    def calls(self) -> int:
        return len(self.server.bodies)

    @property
    def usual(self) -> dict[str, Any]:
        lm = fm.lm("openai/x", api_base=self.server.url, price=(1e-6, 1e-6))
        return {"lm": lm, "cache": False, "tracking": False, "progress": False}

    def evaluate(self, n: int = 60, **options: Any) -> fm.Evaluation:
        program = options.pop("program", None) or fm.SingleAgent()
        given = {"out": self.folder / "run", **self.usual, **options}
        return fm.evaluate(program, questions(n, "e"), **given)

    def tune(self, **options: Any) -> Any:
        given = {"trials": 4, "out": self.folder / "study", **self.usual, **options}
        return fm.tune("single", questions(40, "t"), questions(40, "v"), **given)

    def compile(self, **options: Any) -> Any:
        given = {"optimizer": "labeled_few_shot", "out": self.folder / "compiled", **self.usual}
        held_out = options.pop("held_out", None) or questions(30, "v")
        return fm.compile(fm.SingleAgent(), questions(30, "t"), held_out, **{**given, **options})

    def contest(self, **options: Any) -> Any:
        given = {"budget": "800 calls", "out": self.folder / "contest", **self.usual, **options}
        return fm.contest(questions(100, "k"), **given)

    def file(self, n: int = 4) -> Path:
        path = self.folder / "questions.jsonl"
        known = {"choices": ["yes", "no"], "answer": "A"}
        lines = [{"question": f"Is it {i}?", **known} for i in range(n)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path


def _percent(text: str, salt: str) -> int:
    return int(hashlib.md5((text + salt).encode()).hexdigest(), 16) % 100


def questions(n: int, prefix: str) -> list[fm.Question]:
    asked = {f"{prefix}{i}": f"Question {prefix}{i}?" for i in range(n)}
    known: Any = {"choices": CHOICES, "answer": "A"}
    return [fm.Question(id=id, question=text, **known) for id, text in asked.items()]


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


ATTACKS: dict[str, Callable[[Place], None]] = {}


def attack(function: Callable[[Place], None]) -> Callable[[Place], None]:
    ATTACKS[function.__name__] = function
    return function


@attack
def a_tenth_of_the_calls_is_refused(place: Place) -> None:
    place.refuses = 10
    study = place.tune()
    for trial in study.trials:
        failed = trial.get("errors", 0)
        assert trial["state"] == "failed" or failed <= 0.05 * 40
    compiled = place.compile()
    assert compiled.compilation.gain is None
    assert "so its score is no result" in compiled.compilation.verdict
    contest = place.contest()
    better = [run for name, run in contest.runs.items() if name == contest.winner_name]
    for run in better if contest.result["finished"] else ():
        counts = run.summary.counts
        assert counts.errors <= 0.05 * counts.rows or contest.outcome == "undecided"


@attack
def half_of_the_calls_is_refused(place: Place) -> None:
    place.refuses = 60
    result = place.evaluate()
    assert "questions failed, because" in str(result.stopped)


@attack
def the_lm_goes_down_and_comes_back(place: Place) -> None:
    for name, command in {"run": place.evaluate, "study": place.tune}.items():
        place.down, before = False, place.calls
        answer = place.server.reply

        def dies(body: dict[str, Any], answer: Any = answer, before: int = before) -> Any:
            place.down = place.calls - before > 25
            return answer(body)

        place.server.reply = dies
        ended = command(concurrency=1)
        assert "paused, since an endpoint fails" in str(ended.stopped), name
        place.server.reply, place.down = answer, False
        again = command(concurrency=1)
        assert again.stopped is None
    assert place.evaluate().summary.counts.errors == 0


@attack
def a_program_fails_on_everything(place: Place) -> None:
    def broken(question: fm.Question) -> str:
        raise ValueError("no route")

    refused(r"all of the first 10 questions failed.*no route", place.evaluate, program=broken)


@attack
def a_metric_fails_on_everything(place: Place) -> None:
    def metric(answer: str, gold: str) -> float:
        raise ValueError("no scale")

    said = (
        r"none of the first 10 answers has a score, the last because the metric metric raised "
        r"ValueError \(no scale\): fix the metric$"
    )
    for command in (place.evaluate, place.tune, place.compile):
        refused(said, command, metric=metric, concurrency=1)
    assert place.calls == 3 * 10


@attack
def every_command_runs_again(place: Place) -> None:
    for command in (place.evaluate, place.tune, place.compile, place.contest):
        command()
        calls, before = place.calls, content(place.folder)
        command()
        assert place.calls == calls, command
        assert content(place.folder) == before, command


@attack
def a_run_is_asked_again_with_the_budget_that_ended_it(place: Place) -> None:
    for command in (place.evaluate, place.tune):  # no trial of the study has finished
        command(budget="20 calls")
        calls, before = place.calls, content(place.folder)
        command(budget="20 calls")
        assert (place.calls, content(place.folder)) == (calls, before), command
    assert place.evaluate(budget="40 calls").summary.counts.rows == 40


@attack
def a_database_of_another_program(place: Place) -> None:
    file = place.folder / "shop.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE customers (id INTEGER)")
    before = file.read_bytes()
    said = r"shop\.db is the database of another program, not of {} \(it has 'customers'\)"
    with pytest.raises(fm.UserError, match=said.format("Optuna")):
        place.tune(storage=f"sqlite:///{file}", study="mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{file}")
        with pytest.raises(fm.UserError, match=said.format("MLflow")):
            open_client()
    assert file.read_bytes() == before


@attack
def a_folder_of_another_kind(place: Place) -> None:
    place.compile()
    folder = place.folder / "compiled"
    for command in (place.tune, place.evaluate):
        refused("holds a compilation: choose another --out", command, out=folder)


def command(place: Place, script: str, **options: Any) -> Any:
    path = place.folder / "team.py"
    path.write_text(script)
    return place.evaluate(2, program=fm.Command(f"python {path}"), **options)


@attack
def a_command_never_ends(place: Place) -> None:
    began = time.monotonic()
    result = command(place, "import time\ntime.sleep(300)", budget="1 s")
    assert time.monotonic() - began < 200
    assert "the time is over" in str(result.stopped)


@attack
def a_command_hides_its_processes(place: Place) -> None:
    mark = place.folder / "pids"
    command(
        place,
        "import os, subprocess, time\n"
        "one = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"open({str(mark)!r}, 'a').write(f'{{one.pid}}\\n')\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        f"        open({str(mark)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n"
        "time.sleep(0.3)\n"
        "print('A')",
    )
    pids = [int(line) for line in mark.read_text().split()]
    assert len(pids) == 4
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


@attack
def files_that_are_no_files(place: Place) -> None:
    os.mkfifo(place.folder / "x.jsonl")
    asked = ("--lm", "openai/x", "--api-base", place.server.url, "--dry-run", "--no-track")
    for data in (place.folder / "x.jsonl", "/dev/zero"):
        assert folkmoot("evaluate", "single", "--data", data, *asked).exit_code == 2
    refused = folkmoot("evaluate", "single", "--data", place.file(), "--repeats", 10**6, *asked)
    assert "ask each question at most 1,000 times" in refused.stderr
    place.evaluate(budget="30 calls")
    os.mkfifo(place.folder / "run" / ".in-flight-1-x")
    assert place.evaluate().summary.counts.rows == 60


@attack
def a_sparse_file_of_six_gigabytes(place: Place) -> None:
    place.evaluate()
    os.truncate(place.folder / "run" / "results.jsonl", 6 << 30)
    for name in ("report", "show"):
        said = folkmoot(name, place.folder / "run")
        assert "a line has more than 33,554,432 bytes" in said.output + said.stderr


@attack
def the_ledger_is_gone_or_damaged(place: Place) -> None:
    ledger = place.folder / "run" / ".folkmoot" / "ledger.jsonl"
    place.evaluate(budget="40 calls")
    for budget, harm in ((45, ledger.unlink), (50, lambda: ledger.write_text("[[[\n"))):
        harm()
        result = place.evaluate(budget=f"{budget} calls")
        assert place.calls == budget == result.summary.paid["calls"]


def sixty_questions(url: str, folder: Path) -> None:
    """A run that a test can kill."""
    lm = fm.lm("openai/x", api_base=url, price=(1e-6, 1e-6))
    given: dict[str, Any] = {"cache": False, "tracking": False, "progress": False}
    out = folder / "run"
    asked = questions(60, "e")
    fm.evaluate(fm.SingleAgent(), asked, lm=lm, out=out, budget="100 calls", **given)


@attack
def ctrl_c_awaits_what_was_sent(place: Place) -> None:
    place.server.delay = 1.0
    process = Forked(target=sixty_questions, args=(place.server.url, place.folder))
    process.start()
    wait_for_requests(place.server, 10)
    os.kill(process.pid, signal.SIGINT)
    process.join(120)
    sent = place.calls
    assert totals(place.folder / "run").calls == sent
    assert lost_in(place.folder / "run").calls == 0


@attack
def the_folder_goes_away(place: Place) -> None:
    for how in (shutil.rmtree, lambda path: shutil.move(path, place.folder / "away")):
        place.server.delay, before = 0.05, place.calls

        def harm(how: Any = how, before: int = before) -> None:
            wait_for_requests(place.server, before + 20)
            how(place.folder / "run")

        thread = threading.Thread(target=harm)
        thread.start()
        refused("is gone, so no further call is sent", place.evaluate, 300, concurrency=8)
        thread.join()
        assert place.calls - before < 40


@attack
def rows_are_forged_or_copied(place: Place) -> None:
    place.evaluate(12, budget="10 calls")
    place.evaluate(12, program=fm.SingleAgent("cot"), out=place.folder / "other")
    path = place.folder / "run" / "results.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    wrong = next(row for row in rows if not row["correct"])
    forged = {**wrong, "answer": "A", "correct": True, "score": 1.0}
    text = path.read_text()
    path.write_text(text.replace(json.dumps(wrong, separators=(",", ":")), json.dumps(forged)))
    refused(r"line \d+: .*which no turn of it gave", place.evaluate, 12)
    path.write_text((place.folder / "other" / "results.jsonl").read_text())
    refused(r"line 1: .*was answered by another program", place.evaluate, 12)


@attack
def a_file_of_the_working_folder_sets_a_price(place: Place) -> None:
    Path("folkmoot.toml").write_text('price = ["openai/gpt-4o=0,0"]\n')
    words = ("evaluate", "single", "--data", place.file(), "--lm", "openai/gpt-4o", "--no-track")
    planned = folkmoot(*words, "--api-base", place.server.url, "--budget", "1 USD", "--dry-run")
    assert planned.exit_code == 2
    assert "the price of openai/gpt-4o is unknown" in planned.stderr


@attack
def a_judge_is_asked_for_every_answer(place: Place) -> None:
    words = ("evaluate", "single", "--data", place.file(), "--lm", "openai/x", "--metric", "judge")
    planned = folkmoot(*words, "--judge-lm", "openai/y", "--api-base", place.server.url,
                       "--dry-run", "--json", "--no-track")  # fmt: skip
    assert json.loads(planned.stdout)["plan"]["most_calls"] == 4 * 2 + 4


@attack
def a_study_that_was_made_for_something_else(place: Place) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def made(name: str, **how: Any) -> tuple[str, optuna.Study]:
        url = f"sqlite:///{place.folder / name}.db"
        return url, optuna.create_study(storage=url, study_name="mine", **how)

    down, _ = made("down")
    other, study = made("other", direction="maximize")
    study.optimize(lambda trial: len(trial.suggest_categorical("strategy", ["x", "y"])), n_trials=1)
    foreign = place.folder / "foreign.db"
    with sqlite3.connect(foreign) as database:
        database.execute("create table studies (a int)")
    studies = "holds something else than Optuna's studies"
    refused = {down: "is to minimize", other: "has other values for strategy"}
    for url, words in {**refused, f"sqlite:///{foreign}": studies}.items():
        with pytest.raises(fm.UserError, match=words):
            place.tune(study="mine", storage=url)
    assert place.calls == 0


@attack
def questions_that_are_the_same_question(place: Place) -> None:
    some = questions(40, "v")
    known: Any = {"choices": CHOICES, "answer": "A"}
    again = []
    for i, q in itertools.product(range(5), some[:6]):
        text = f" {q.question.upper()}"
        again.append(fm.Question(id=f"again-{i}-{q.id}", question=text, **known))
    trained = questions(5, "t")
    for more, words in ((again, "asked twice"), (trained, "are training questions, too")):
        with pytest.warns(UserWarning, match=words):
            compiled = place.compile(held_out=[*some, *more], out=place.folder / words[:3])
        assert compiled.compilation.before["counts"]["rows"] == 40


@attack
def the_account_is_empty_while_many_calls_are_in_flight(place: Place) -> None:
    answer = place.reply

    def reply(body: dict[str, Any]) -> Any:
        time.sleep(0.01 * (_percent(str(body["messages"]), "late") % 10))
        said = 402, {}, {"error": {"message": "Insufficient Balance"}}
        return said if place.calls > 60 else answer(body)

    place.server.reply = reply
    contest = place.contest()
    assert not contest.result["finished"]
    assert "no quota left" in " ".join(contest.sentences)
    folder = place.folder / "contest"
    assert totals(folder).calls == 60
    assert lost_in(folder).calls == 0


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", some_by_day(ATTACKS))
def test_attack(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with ScriptedServer() as server:
        place = Place(tmp_path, server)
        server.reply = place.reply
        ATTACKS[name](place)
