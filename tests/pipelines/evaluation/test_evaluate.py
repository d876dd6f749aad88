"""Evaluation: rows, summaries, failures, resuming after any death, equal in any order."""

import asyncio
import json
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dspy
import pytest
from by_day import some_by_day
from children import wait_for_requests, wait_until
from cli_helpers import rows_of
from completions import completion
from mortal import Constant, Forked, deliberate, in_child, memory_of_an_evaluation, questions
from refusals import refused

import folkmoot as fm
from folkmoot.modules.agents.transcript import Task
from folkmoot.modules.base.calls import UsageFields
from folkmoot.modules.reading.row import taken
from folkmoot.modules.statistics.statistics import wilson
from folkmoot.pipelines.base.run_files import Counts
from folkmoot.pipelines.lms.ledger import read_ledger
from folkmoot.pipelines.runs.lines import Progress
from folkmoot.pipelines.testing.replies import filled
from folkmoot.pipelines.testing.server import ScriptedServer

KEYS = ["id", "repeat", "kind", "answer", "gold", "correct", "score", "em", "f1", "decided_by"]
KEYS += ["rounds", "consensus_round", "transcript", "usage", "seconds", "error"]


def number_of(body: Mapping[str, Any]) -> int:
    text = body["messages"][-1]["content"]
    return int(text.split("Question: Question ")[1].split("?")[0])


def of_question(answers: Callable[[int], Any]) -> Callable[[dict[str, Any]], Any]:
    """A reply function: what `answers` says of the question's number."""

    def reply(body: dict[str, Any]) -> Any:
        said = answers(number_of(body))
        return said if isinstance(said, tuple) else json.dumps({"reasoning": "so", "answer": said})

    return reply


def run(server: Any, asked: list[fm.Question], program: Any = None, **arguments: Any) -> Any:
    lm = arguments.pop("lm", None) or fm.lm("openai/scripted", api_base=server.url)
    given = {"tracking": False, **arguments}
    return fm.evaluate(program or fm.SingleAgent(), asked, lm=lm, **given)


def same_but_time(rows: Any) -> list[dict[str, Any]]:
    """Rows without what differs between runs: seconds, and who paid for a shared call."""
    rest = []
    for row in rows:
        changing = ("seconds", "usage", "takes")
        kept = {key: value for key, value in row.items() if key not in changing}
        if not row["error"]:  # what else was under way when a question failed is a matter of time
            kept["takes"] = taken(row).to_dict()  # whoever paid
        turns = [] if row["error"] else row["transcript"]
        kept["transcript"] = [turn | {"usage": None} for turn in turns]
        rest.append(kept)
    return rest


def test_a_row_has_the_fields_of_the_specification(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = of_question(lambda _: "A")
    run(scripted, questions(2), fm.SingleAgent("cot"), out=tmp_path)
    right, wrong = rows_of(tmp_path)
    assert [key for key in right if key in KEYS] == KEYS
    more = {"meta", "question", "choices", "finish_reason", "truncated", "model", "program"}
    assert set(right) - set(KEYS) <= more
    assert right["id"] == "q0"
    assert (right["kind"], right["correct"]) == ("choice", True)
    assert (right["answer"], right["gold"]) == ("A", "A")
    assert (right["em"], right["f1"], right["error"]) == (None, None, None)
    assert (right["decided_by"], right["rounds"], right["consensus_round"]) == ("single", 1, None)
    (turn,) = right["transcript"]
    assert (turn["agent"], turn["round"], turn["answer"], turn["text"]) == ("cot", 1, "A", "so")
    assert set(right["usage"]) == set(UsageFields.__annotations__)
    assert right["usage"]["calls"] == 1
    assert right["seconds"] > 0
    assert (wrong["answer"], wrong["gold"], wrong["correct"]) == ("A", "B", False)


def test_spans_have_em_and_f1_and_numbers_a_strict_score(scripted: Any) -> None:
    span, number = {"kind": "span", "answer": "Eiffel Tower"}, {"kind": "number", "answer": "18"}
    expected: Any = [("which one", "the Eiffel Tower of Paris", span, (False, 0.0, 0.667, None))]
    expected += [("which other", "an Eiffel tower", span, (True, 1.0, 1.0, None))]
    expected += [("how many", "#### 18", number, (True, None, None, True))]
    expected += [("how much", "It makes 18 dollars", number, (True, None, None, False))]
    expected += [("how far", "17", number, (False, None, None, False))]
    replies = {question: reply for question, reply, *_ in expected}

    def reply(body: dict[str, Any]) -> str:
        asked = body["messages"][-1]["content"]
        return next(json.dumps({"answer": said}) for name, said in replies.items() if name in asked)

    scripted.reply = reply
    asked = [fm.Question(id=name, question=f"{name}?", **fields) for name, _, fields, _ in expected]
    result = run(scripted, asked)
    for row, (*_, wanted) in zip(result.rows, expected, strict=True):
        f1 = row["f1"] and round(row["f1"], 3)
        assert (row["correct"], row["em"], f1, row.get("strict")) == wanted
    scores = result.summary.scores
    assert set(scores) == {"accuracy", "accuracy_strict", "em", "f1"}
    assert scores["f1"]["value"] == pytest.approx((2 / 3 + 1) / 2, abs=1e-3)
    assert scores["accuracy_strict"]["value"] == pytest.approx(1 / 3)


def test_unreadable_is_neither_right_nor_an_error(scripted: Any, tmp_path: Path) -> None:
    def answer(i: int) -> Any:
        return [(400, {}, {"error": {"message": "too\nlong"}}), "none of them", "C", "B"][i]

    scripted.reply = of_question(answer)
    result = run(scripted, questions(4), out=tmp_path)
    error, unreadable, right, wrong = rows_of(tmp_path)
    assert (error["answer"], error["correct"], error["decided_by"]) == (None, False, "error")
    assert error["error"].endswith("(400: too long)")
    assert (unreadable["answer"], unreadable["correct"], unreadable["error"]) == (None, False, None)
    assert (unreadable["decided_by"], unreadable["usage"]["calls"]) == ("none", 2)
    assert (right["correct"], wrong["correct"]) == (True, False)
    counted = Counts(questions=4, rows=4, correct=1, errors=1, unreadable=1, truncated=0)
    assert result.summary.counts == counted
    assert result.accuracy == 0.25


def test_what_was_said_before_a_question_failed_is_kept(scripted: Any, tmp_path: Path) -> None:
    """A user could not see where a team failed."""
    asked = iter("ABAB")

    def reply(body: dict[str, Any]) -> Any:
        answer = next(asked, None)
        if answer is None:
            return 400, {}, {"error": {"message": "filtered"}}
        return filled(body, answer, "so it is")

    scripted.reply = reply
    team = fm.Deliberation(["intuitive", "reasoner"], "judge", max_rounds=2)
    result = run(scripted, questions(1), team, out=tmp_path)
    (row,) = rows_of(tmp_path)
    assert (row["answer"], row["correct"], row["rounds"]) == (None, False, 0)
    said = [f"{turn['agent']} {turn['round']} {turn['answer']}" for turn in row["transcript"]]
    assert said == ["intuitive 1 A", "reasoner 1 B", "intuitive 2 A", "reasoner 2 B"]
    assert row["usage"]["calls"] == 4
    assert result.summary.report["errors"] == 1
    assert fm.load_run(tmp_path).rows[0].transcript[3].text == "so it is"


def test_a_cut_off_reply_is_counted_and_says_so(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = lambda _: (200, {}, completion("", "length"))
    result = run(scripted, questions(5), fm.SingleAgent("cot"), out=tmp_path)
    for row in rows_of(tmp_path):
        assert (row["answer"], row["correct"], row["error"]) == (None, False, None)
        assert (row["finish_reason"], row["truncated"]) == ("length", True)
        assert row["usage"]["truncated_calls"] == 2
    assert (result.summary.counts.unreadable, result.summary.counts.truncated) == (5, 5)
    assert {entry["finish_reason"] for entry in read_ledger(tmp_path)} == {"length"}
    replay = {"lm": f"replay/{tmp_path}", "out": tmp_path / "again", "tracking": False}
    again = fm.evaluate(fm.SingleAgent("cot"), questions(5), **replay)
    assert [(row["error"], row["truncated"]) for row in again.rows] == [(None, True)] * 5


def test_the_summary(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = of_question(lambda i: "A")
    asked = questions(30, subject=lambda i: "odd" if i % 2 else "even", grade=lambda i: 5)
    result = run(scripted, asked, out=tmp_path, settings={"seed": 3})
    summary = json.loads((tmp_path / "summary.json").read_text())
    accuracy = summary["scores"]["accuracy"]
    low, high = wilson(10, 30)
    assert (accuracy["value"], accuracy["n"]) == (pytest.approx(1 / 3), 30)
    assert (accuracy["low"], accuracy["high"]) == (pytest.approx(low), pytest.approx(high))
    none = dict.fromkeys(("errors", "unreadable", "truncated"), 0)
    counts = {"questions": 30, "rows": 30, "correct": 10, **none}
    assert summary["counts"] == counts
    assert summary["usage"]["calls"] == 30
    tokens = [row["usage"]["prompt_tokens"] for row in result.rows]
    assert summary["usage"]["prompt_tokens"] == sum(tokens) > 0
    assert 0 < summary["seconds"]["p50"] <= summary["seconds"]["p90"] <= summary["seconds"]["p99"]
    assert set(summary["groups"]) == {"subject"}  # one grade is no grouping
    groups = summary["groups"]["subject"]
    assert {name: group["n"] for name, group in groups.items()} == {"even": 15, "odd": 15}
    assert summary["settings"]["seed"] == 3
    assert summary["versions"]["dspy"] == dspy.__version__
    assert summary["lms"]["*"]["name"] == "openai/scripted"
    assert repr(result) == "Evaluation(33.3% [19.2%, 51.2%], n=30)"


def test_progress_tells_how_it_stands(scripted: Any) -> None:
    scripted.reply = of_question(lambda i: (400, {}, {}) if i == 3 else "A")
    seen: list[tuple[Any, ...]] = []

    def note(state: Progress) -> None:
        seen.append((state.done, state.correct, state.errors, state.usage.calls))

    run(scripted, questions(6), concurrency=1, progress=note)
    failed = [(4, 1, 1, 3), (5, 1, 1, 4), (6, 1, 1, 5)]
    assert seen == [(0, 0, 0, 0), (1, 1, 0, 1), (2, 1, 0, 2), (3, 1, 0, 3), *failed]


@pytest.mark.parametrize(
    ("asked", "arguments", "words"),
    [
        ([], {}, "no questions"),
        ([fm.Question(id="x", question="Why?")], {}, "has no answer .*'x'"),
        (questions(2) + questions(1), {}, "'q0' appears twice"),
        (questions(1), {"concurrency": 0}, "concurrency is 0"),
        (Path("q.jsonl"), {}, r"there is no file 'q\.jsonl'"),
        ([*questions(1), 7], {}, "questions, row 2: .*int"),
        (questions(1), {"lm": "openai/gpt-4o"}, "OPENAI_API_KEY"),
        (questions(1), {"lm": object()}, "a object"),
        (questions(1), {"temperature": 0.5}, "made already, which temperature does not change"),
        (questions(1), {"api_base": "http://x/v1"}, r"in fm\.lm\('openai/scripted', api_base=…"),
        (questions(1), {"price": {"openai/scripted": (1, 2)}}, "which price does not change"),
        (questions(1), {"lm_set": {"seed": 3}}, "which seed does not change"),
        (questions(1), {"program": 3}, "int is not a program"),
    ],
)
def test_bad_input_is_named_before_any_call(scripted, asked, arguments, words):
    refused(words, run, scripted, asked, **arguments)
    assert not scripted.bodies


def test_which_lm_is_asked_without_one(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("FOLKMOOT_LM", "openai/of-environment")
    fm.evaluate("single:simple", questions(1), tracking=False)
    with dspy.context(lm=fm.lm("openai/of-dspy")):
        fm.evaluate("single:simple", questions(1), tracking=False)
    assert [body["model"] for body in scripted.bodies] == ["of-environment", "of-dspy"]


def test_a_run_ends_where_none_of_ten_answers_can_be_read(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = of_question(lambda i: "I would rather\nnot say")
    for rows in (10, 11):  # the same command again asks one more question, not forty
        said = f"none of the first {rows} answers can be read"
        with pytest.raises(fm.UserError, match=said) as stopped:
            run(scripted, questions(50), out=tmp_path, concurrency=1)
        assert "the last reply was 'I would rather not say'" in str(stopped.value)
        assert "give --no-cache and another --out" in str(stopped.value)
        assert len(rows_of(tmp_path)) == rows
    scripted.reply = of_question(lambda i: "A" if i == 3 else "")
    result = run(scripted, questions(30), out=tmp_path / "b", concurrency=1)
    assert result.summary.counts.unreadable == 29


def test_error_rows_are_kept_and_asked_again_only_on_request(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = of_question(lambda i: (400, {}, {}) if i % 3 == 0 else "A")
    run(scripted, questions(9), out=tmp_path)
    scripted.requests.clear()
    scripted.reply = of_question(lambda i: "A")
    run(scripted, questions(9), out=tmp_path)
    assert not scripted.bodies
    result = run(scripted, questions(9), out=tmp_path, retry_errors=True)
    assert sorted(map(number_of, scripted.bodies)) == [0, 3, 6]
    assert [row["id"] for row in rows_of(tmp_path)] == [f"q{i}" for i in range(9)]
    assert result.summary.counts.errors == 0
    assert result.accuracy == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"program": fm.SingleAgent("cot")}, "program"),
        ({"program": fm.labelled_demos(fm.SingleAgent(), questions(3), 1)}, "program"),
        ({"settings_of_lm": {"temperature": 0.5}}, "LM"),
        ({"asked": questions(9)}, "data"),
        ({"asked": list(reversed(questions(10)))}, "data"),
    ],
)
def test_another_run_is_refused_in_one_sentence(scripted, tmp_path, changed, what):
    scripted.reply = of_question(lambda i: "A")
    run(scripted, questions(10), out=tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    scripted.requests.clear()
    lm = fm.lm("openai/scripted", api_base=scripted.url, **changed.pop("settings_of_lm", {}))
    said = rf"another run \(its {what} differs\): choose another --out"
    with pytest.raises(fm.UserError, match=said):
        run(scripted, changed.pop("asked", questions(10)), lm=lm, out=tmp_path, **changed)
    assert not scripted.bodies
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()} == before


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("run.json", b"{", "run.json is damaged"),
        ("results.jsonl", b'{"id": "q0"\n', "results.jsonl, line 1, is not a result row"),
        ("results.jsonl", b"\x00" * 100 + b"\n", "results.jsonl, line 1, is not a result row"),
    ],
)
def test_damaged_files_are_named(scripted, tmp_path, name, content, words):
    run(scripted, questions(2), Constant(), out=tmp_path)
    (tmp_path / name).write_bytes(content)
    refused(words, run, scripted, questions(2), Constant(), out=tmp_path)
    assert (tmp_path / name).read_bytes() == content


def test_two_runs_at_once_do_not_share_a_folder(scripted: Any, tmp_path: Path) -> None:
    go = threading.Event()

    class Waits(Constant):
        async def solve(self, task: Task) -> Any:
            await asyncio.to_thread(go.wait, 120)
            return await super().solve(task)

    first = threading.Thread(target=lambda: run(scripted, questions(3), Waits(), out=tmp_path))
    first.start()
    wait_until((tmp_path / "run.json").exists)
    refused("another process is writing", run, scripted, questions(3), Constant(), out=tmp_path)
    go.set()
    first.join(120)
    assert [row["id"] for row in rows_of(tmp_path)] == ["q0", "q1", "q2"]
    run(scripted, questions(3), Constant(), out=tmp_path)


@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[Path]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("only root can mount the small disk that this test fills")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("kilobytes", some_by_day([40, 16, 100], 3))
def test_a_full_disk_is_named_and_kept(scripted: Any, tmp_path: Path, kilobytes: int) -> None:
    scripted.reply = lambda body: json.dumps({"reasoning": "x" * 1000, "answer": "A"})
    with small_disk(tmp_path / "disk", f"size={kilobytes}k") as disk:
        said = r"cannot be written|could not be written"
        with pytest.raises(fm.UserError, match=said) as problem:
            run(scripted, questions(200), fm.SingleAgent("cot"), out=disk / "out", concurrency=2)
        assert str(disk) in str(problem.value)
        assert "\n" not in str(problem.value)
        kept = rows_of(disk / "out") if (disk / "out" / "results.jsonl").exists() else []
        assert len({row["id"] for row in kept}) == len(kept) < 200
        asked = len(scripted.bodies)
        subprocess.run(["mount", "-o", "remount,size=10m", str(disk)], check=True)
        result = run(scripted, questions(200), fm.SingleAgent("cot"), out=disk / "out")
        assert result.summary.counts.rows == 200
        assert [row["id"] for row in rows_of(disk / "out")] == [f"q{i}" for i in range(200)]
        assert len(scripted.bodies) <= 200 + 2
        assert asked >= len(kept)


class DeathServer(ScriptedServer):
    """A deterministic team that rarely agrees, with small random delays: death finds any state."""

    def __init__(self) -> None:
        super().__init__(self._said)

    def _said(self, body: dict[str, Any]) -> str:
        draw = random.Random(body["messages"][-1]["content"]).random()
        return filled(body, "ABC"[int(draw * 999) % 3], f"é {draw}" * 20)

    async def _complete(self, request: Any) -> Any:
        await asyncio.sleep(0.01 + random.random() * 0.02)
        return await super()._complete(request)

    def arrived(self) -> Counter[str]:
        return Counter(json.dumps(body, sort_keys=True) for body in self.bodies)


def whole_lines(path: Path) -> list[bytes]:
    whole = path.read_bytes().splitlines(True) if path.exists() else []
    return [line for line in whole if line.endswith(b"\n")]


def killed_and_resumed(tmp_path: Path, deaths: int, n: int, seed: int) -> None:
    """Kill a child after a random number of calls, several times; then the command finishes."""
    draw = random.Random(seed)
    with DeathServer() as server:
        deliberate(server.url, tmp_path / "a", n)
        needed = server.arrived()
        server.requests.clear()
        before: set[str] = set()
        killed = 0
        for _ in range(deaths):
            process = Forked(target=deliberate, args=(server.url, tmp_path / "b", n))
            start, calls = len(server.requests), draw.randint(0, sum(needed.values()) // deaths)
            process.start()
            wait_for_requests(server, start + calls, process.is_alive)
            time.sleep(draw.random() * 0.03)
            process.kill()
            process.join(10)
            killed += process.exitcode == -signal.SIGKILL
            ids = [json.loads(line)["id"] for line in whole_lines(tmp_path / "b" / "results.jsonl")]
            assert len(set(ids)) == len(ids)
            assert before <= set(ids)
            before = set(ids)
        assert killed > deaths / 2
        process = Forked(target=deliberate, args=(server.url, tmp_path / "b", n))
        process.start()
        process.join(120)
        assert process.exitcode == 0
        assert same_but_time(rows_of(tmp_path / "b")) == same_but_time(rows_of(tmp_path / "a"))
        assert set(server.arrived()) == set(needed)
        repeated = sum((server.arrived() - needed).values())
        assert repeated <= 8 * killed
        server.requests.clear()
        assert deliberate(server.url, tmp_path / "b", n).summary.counts.rows == n
        assert not server.bodies


@pytest.mark.parametrize(("deaths", "n"), [(3, 30), pytest.param(6, 60, marks=pytest.mark.nightly)])
def test_killed_at_random_nothing_is_lost_or_repeated(tmp_path: Path, deaths: int, n: int) -> None:
    seed = random.randrange(10**6)
    print("seed", seed)
    killed_and_resumed(tmp_path, deaths, n, seed)


@pytest.mark.nightly
def test_many_questions_take_little_memory(tmp_path: Path) -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("resident memory is read from /proc, which this system does not have")
    assert in_child(memory_of_an_evaluation, tmp_path, 20_000, False) < 40
    assert in_child(memory_of_an_evaluation, tmp_path, 3_000, True) < 15  # the replies are 30 MB


@pytest.mark.plots
def test_a_score_is_drawn_with_those_of_groups(tmp_path: Path) -> None:
    yes = {"question": "Yes?", "kind": "boolean", "answer": "yes"}
    topics = enumerate(["tea", "tea", "rice"])
    asked = [fm.Question(id=str(i), meta={"topic": topic}, **yes) for i, topic in topics]
    run = fm.evaluate(lambda _: "yes", asked, tracking=False)
    drawn = run.plot(tmp_path / "scores.svg").read_text()
    for name in ("all questions", "topic tea", "topic rice", "accuracy in %, with 95% intervals"):
        assert name in drawn
