"""Contests of programs with planted accuracies: outcomes, money, stops, and what never happens."""

import itertools
import json
import os
import random
import re
import shlex
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import children
import dspy
import mlflow
import pytest
from cli_helpers import folkmoot
from completions import completion
from mlflow import MlflowClient
from planted_programs import number_in, planted_lm, questions, solo, team
from stores import new_store

import folkmoot as fm
from folkmoot.modules.base.calls import CallError, GivenUpError
from folkmoot.pipelines.comparison.matched import samples_for
from folkmoot.pipelines.contest.card import KIND
from folkmoot.pipelines.contest.entrants import Entrant
from folkmoot.pipelines.contest.plan import plan_contest
from folkmoot.pipelines.contest.request import ContestRequest
from folkmoot.pipelines.lms.prices import Prices
from folkmoot.pipelines.runs.rows import read_rows
from folkmoot.pipelines.testing.replies import filled, text_of
from folkmoot.pipelines.testing.server import ScriptedServer

ASKED = questions(120)
SILENT: dict[str, Any] = {"tracking": False, "progress": False}


def hold(field: Any, asked: list[fm.Question] = ASKED, **given: Any) -> fm.Contest:
    lm = given.pop("lm", None) or planted_lm(asked)
    return fm.contest(asked, field=field, lm=lm, **SILENT, **given)


@pytest.fixture(scope="module")
def won(tmp_path_factory: pytest.TempPathFactory) -> fm.Contest:
    """A contest that a team of planted accuracy has won."""
    out = tmp_path_factory.mktemp("won") / "out"
    return hold({"crew": team("crew", 95)}, out=out, budget="1 USD")


def test_a_team_that_is_better_wins(won: fm.Contest) -> None:
    contest = won
    assert contest.outcome == "better"
    assert contest.winner_name == "crew"
    assert "crew is better than one prompt and than one prompt, " in contest.reason
    assert "chosen and measured on the same questions" in " ".join(contest.sentences)
    assert len(contest.lines()) <= 24
    lines = contest.lines()
    table = lines[: lines.index("")]
    assert len(table) == len(contest.asked) + 1
    assert all(len(line) <= 80 for line in table)
    assert lines[len(table) + 1].startswith("Take crew: ")
    assert "%, against " in lines[len(table) + 1]
    # The winner can be asked, and its folder is a program.
    assert contest.winner(ASKED[0].question, ASKED[0].choices).answer in ("A", "B", "C")
    assert isinstance(fm.load_program(contest.folder / "winner"), fm.Ensemble)
    assert any("--train FILE --validation FILE" in line for line in lines)
    standings = contest.standings
    assert list(standings["name"][:2]) == ["one prompt", "crew"]
    assert standings["n"].max() < len(ASKED)  # it has ended early


def test_the_plan_has_a_forecast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("folkmoot.modules.statistics.vote_forecast.RESAMPLES", 5)
    asked = ASKED[:60]
    request = ContestRequest(asked, lm=planted_lm(ASKED), field={"crew": team("crew", 95)})
    assert "forecast" not in " ".join(plan_contest(request).lines())
    for name, share in (("a", 60), ("b", 70), ("c", 65)):
        fm.evaluate(solo(name, share), asked, lm=planted_lm(ASKED), out=f"runs/{name}", **SILENT)
    fm.evaluate(solo("d", 60), ASKED[:50], lm=planted_lm(ASKED), out="runs/d", **SILENT)
    plan = plan_contest(request)
    assert len(plan.lines()) == 2
    last = plan.details()[-1]
    assert last.startswith("forecast from 3 earlier runs in runs/: vote of 5: ")


@pytest.mark.nightly
def test_equal_programs_are_not_worth_their_price(tmp_path: Path) -> None:
    """A team that always agrees with one prompt cannot be more than the margin better."""
    contest = hold({"crew": team("plain", 60)}, questions(250), out=tmp_path, margin=0.05)
    assert contest.outcome == "not worth it"
    assert contest.winner_name == "one prompt"
    assert isinstance(fm.load_program(tmp_path / "winner"), fm.SingleAgent)


def test_what_cannot_be_told_apart_is_undecided() -> None:
    contest = hold({"crew": team("crew", 62)}, questions(40))
    assert contest.outcome == "undecided"
    assert contest.winner_name == "one prompt"  # the cheapest, never "recommended" as better
    assert contest.sentences[0].startswith("Take one prompt for now: ")


def test_the_program_that_may_be_better_is_the_one_that_leads() -> None:
    """It was the dearest team, while a cheaper one led."""
    dear = fm.Ensemble([solo(f"dear {i}", 20) for i in range(5)])
    contest = hold({"crew": team("crew", 70), "dear": dear}, questions(20))
    assert contest.sentences[-1].startswith("Open: crew, +")


def altered(lm: Any, when: Callable[[Any], bool], said: str | Exception = "it depends") -> Any:
    """The LM, which says or raises something else at some requests."""
    reply = lm.endpoint.reply

    def answered(body: Any) -> str:
        if not when(body):
            return str(reply(body))
        if isinstance(said, Exception):
            raise said
        return said

    lm.endpoint.reply = answered
    return lm


def tagged(body: Any) -> bool:
    return "is right in" in str(body["messages"])


def numbered(body: Any) -> str:
    return number_in(text_of(body))


def unreadable(every: int = 10, of_tagged: bool = True) -> Any:
    """One in so many answers to prompts with a tag, or to those without, cannot be read."""
    lm = planted_lm(ASKED)
    return altered(lm, lambda body: tagged(body) == of_tagged and not int(numbered(body)) % every)


@pytest.mark.parametrize(
    ("program", "lm", "outcome", "said"),
    [
        # One prompt has to beat the reference alone, not a copy of itself.
        (solo("wise", 90), planted_lm(ASKED), "better", "wise is better than one prompt ("),
        # Above 5% of answers that cannot be read, there is no verdict, for or against.
        (solo("crew", 95), unreadable(), "undecided", "left: one prompt"),
        (solo("crew", 10), unreadable(), "undecided", "left: one prompt"),
        (solo("crew", 90), unreadable(3, False), "undecided", "of 30 answers of one prompt could"),
        (team("crew", 95), planted_lm(ASKED, plain=5), "better", "and than one prompt, 3 times"),
    ],
)
def test_the_outcome_is_about_the_program_to_take(program, lm, outcome, said):
    contest = hold({"mine": program}, lm=lm)
    assert contest.outcome == outcome
    assert said.replace("wise", "mine") in contest.reason
    # One of whose answers too many cannot be read is not paid for to the end.
    assert len(contest.runs["mine"].rows) < len(ASKED)


def test_one_unread_answer_may_be_all_the_difference() -> None:
    """The reference's answer that could not be read may have been right."""
    asked = questions(40)
    field = {"crew": team("crew", 82)}
    runs = hold(field, asked).runs
    right = {name: {row.id for row in run.rows if row.correct} for name, run in runs.items()}
    number = min(right["crew"] - right["one prompt"])[1:].zfill(4)
    lm = altered(planted_lm(asked), lambda body: not tagged(body) and numbered(body) == number)
    contest = hold(field, asked, lm=lm)
    assert (contest.outcome, contest.winner_name) == ("undecided", "one prompt")
    assert "1 answer could not be read, which may be all the difference" in contest.reason


def test_a_program_that_leaves_at_the_last_test_has_its_reason() -> None:
    contest = hold({"crew": team("crew", 83)}, questions(40))
    assert contest.outcome == "better"
    fair = next(place for place in contest.places if place.fair)
    assert (fair.state, fair.reason) == ("out", "crew is better (after 40)")


def test_the_course_of_a_contest_is_kept(won: fm.Contest, tmp_path: Path) -> None:
    with pytest.raises(fm.UserError, match=r"name one of those in .*runs$"):
        fm.load_run(won.folder)
    contest = won
    shutil.copytree(contest.folder, tmp_path / "out")
    course = json.loads((tmp_path / "out" / "contest.json").read_text())["result"]["course"]
    crew = [step for step in course if step["name"] == "crew"]
    assert [step["questions"] for step in crew][:2] == [20, 30]
    assert all(step["low"] <= step["difference"] <= step["high"] for step in crew)
    assert crew[-1]["low"] > 0  # shown better than the reference at its end
    assert contest.outcome == "better"
    # The page says what the contest says, and draws the course.
    page = contest.report()
    assert page.path == contest.folder / "report.html"
    assert page.headline == contest.sentences[0] == fm.report(tmp_path / "out").headline
    assert page.figures["groups"][0]["contest"]["course"] == course
    assert "The distance of each program from one prompt" in page.path.read_text()
    assert page.figures["warnings"] == []
    assert [run.name for run in fm.compare(str(tmp_path / "out")).runs] == list(contest.runs)
    written = json.loads((tmp_path / "out" / "contest.json").read_text())
    written["result"]["lost"] = {"calls": 2, "cost_usd": None}
    (tmp_path / "out" / "contest.json").write_text(json.dumps(written))
    assert "; 2 calls without an answer" in "".join(KIND.card(tmp_path / "out").lines())
    written["result"]["standings"] = [{"name": "x"}]
    (tmp_path / "out" / "contest.json").write_text(json.dumps(written))
    with pytest.raises(fm.UserError, match="is damaged"):
        fm.report(tmp_path / "out")
    (contest.folders["crew"] / "results.jsonl").unlink()
    del contest.runs  # which was read before
    with pytest.raises(fm.UserError, match="has no finished row"):
        _ = contest.runs


@pytest.mark.parametrize("permute", [False, True])
def test_repeats_belong_to_their_question(tmp_path: Path, permute: bool) -> None:
    """Each question counts once with its mean, at one answer's price; a second call is free."""
    asked = questions(12)
    options: dict[str, Any] = {"repeats": 2, "permute": permute, "early_stop": False}
    contest = hold({"crew": team("crew", 80)}, asked, out=tmp_path, **options)
    (crew,) = (one for one in contest.places if one.name == "crew")
    assert crew.n == 12
    assert crew.calls == 3  # three members, asked once
    rows = list(read_rows(contest.runs["crew"].folder / "results.jsonl"))
    every = {(one.id, repeat) for one in asked for repeat in range(2)}
    assert {(row["id"], row["repeat"]) for row in rows} == every
    again = hold({"crew": team("crew", 80)}, asked, out=tmp_path, **options)
    assert again.paid["calls"] == contest.paid["calls"]
    with pytest.raises(fm.UserError, match="repeats differs"):
        hold({"crew": team("crew", 80)}, asked, out=tmp_path, **{**options, "repeats": 3})


@pytest.mark.nightly
def test_a_winner_can_be_registered(won, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(tmp_path))
    out = shutil.copytree(won.folder, tmp_path / "out")
    for _ in range(2):  # a name that is given to a finished contest counts, once
        again = hold({"crew": team("crew", 95)}, out=out, budget="1 USD", register="later")
    again.winner.register("crew-model")
    assert MlflowClient().search_model_versions("name = 'crew-model'")
    assert len(MlflowClient().search_model_versions("name = 'later'")) == 1


def test_the_reference_and_the_fair_opponent_are_never_dropped(tmp_path: Path) -> None:
    contest = hold({"crew": team("crew", 95), "gang": team("gang", 94, 2)}, without=[])
    rows = {name: run.summary.counts.rows for name, run in contest.runs.items()}
    most = max(rows.values())
    kept = [one.name for one in contest.places if one.reference or one.fair]
    assert len(kept) == 2
    assert all(rows[name] == most for name in kept)
    without = ["one prompt, 4 examples"]
    plan = plan_contest(ContestRequest(ASKED, lm=planted_lm(ASKED), without=without))
    assert "one prompt, 4 examples" not in [one.name for one in plan.field]


def test_equal_calls_are_made_once_and_shown_on_both_bills(tmp_path: Path) -> None:
    """The panel's members ask what one prompt and step by step ask."""
    lm = planted_lm(ASKED)
    contest = fm.contest(ASKED[:30], lm=lm, out=tmp_path, only=["panel"], **SILENT)
    rows = sum(run.summary.counts.rows for run in contest.runs.values())
    takes = {name: run.summary.takes for name, run in contest.runs.items()}
    assert takes["panel of three"]["calls"] == 90
    assert takes["panel of three"]["cost_usd"] > takes["one prompt"]["cost_usd"] > 0
    used = sum(one["calls"] or 0 for one in takes.values())
    assert lm.endpoint.calls == contest.paid["calls"] < used
    assert rows > 0


def test_k_follows_from_prices_alone(tmp_path: Path) -> None:
    """Missing samples are asked for the first twenty questions, too, and none is paid twice."""
    lm = planted_lm(ASKED)
    contest = hold({"crew": team("crew", 60, 9)}, ASKED[:40], lm=lm, out=tmp_path)
    name = next(one.name for one in contest.places if one.fair)
    samples = int(name.split(", ")[1].split()[0])
    assert samples > 3
    rows = list(contest.runs[name].rows)
    assert all(len(row["transcript"]) == samples for row in rows)
    crew = next(one for one in contest.places if one.name == "crew")
    fair = next(one for one in contest.places if one.fair)
    assert crew.usd is not None
    assert fair.usd is not None
    assert 0.85 * crew.usd <= fair.usd <= 1.1 * crew.usd
    asked = contest.paid["calls"]
    assert asked == lm.endpoint.calls
    pays = {0.5: 1, 1.0: 1, 2.0: 1, 2.8: 3, 3.0: 3, 4.0: 4, 6.0: 6, 6.9: 7, 8.52: 9}
    assert {ratio: samples_for(ratio, 1.0) for ratio in pays} == pays


@pytest.mark.parametrize("budget", ["0.003 USD", "150 calls", "6k tokens", "4 calls"])
def test_the_budget_is_never_overrun(budget: str, tmp_path: Path) -> None:
    asked = questions(30)
    contest = hold({"crew": team("crew", 70)}, asked, budget=budget, out=tmp_path)
    paid = contest.paid
    most = {
        "0.003 USD": 0 < paid["cost_usd"] <= 0.003,
        "150 calls": (paid["calls"] or 0) <= 150,
        "6k tokens": (paid["prompt_tokens"] or 0) + (paid["completion_tokens"] or 0) <= 6_000,
        "4 calls": (paid["calls"] or 0) <= 4,
    }
    assert most[budget]
    assert contest.reason.endswith(" pays for no more questions")
    # Of a program without an answer neither a price nor a difference is known.
    for place in contest.places:
        unknown = (place.usd, place.multiple, place.difference) == (None, None, None)
        assert unknown == (place.n == 0)
    assert (tmp_path / "winner").is_dir()
    more = contest.resume(budget="1 USD")
    assert more.places[0].n > contest.places[0].n
    assert more.paid["calls"] > paid["calls"]
    # A second test at the end is allowed, and said.
    looks = json.loads((tmp_path / "contest.json").read_text())["last_looks"]
    assert ("up to 10%" in more.reason) == (len(looks) == 2)
    assert more.resume(budget="1 USD").reason == more.reason


def test_a_contest_is_replayed_from_its_folder(tmp_path: Path) -> None:
    field = {"crew": team("crew", 95)}
    # a record knows tokens, and prices only from the table
    lm = planted_lm(ASKED, prices=Prices(1e-6, 1e-6))
    first = hold(field, lm=lm, out=tmp_path / "first")
    again = hold(field, lm=f"replay/{tmp_path / 'first'}", out=tmp_path / "again")
    assert again.paid["calls"] == 0
    assert again.sentences == first.sentences


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def contest_to_kill(folder: Path) -> None:
    lm = planted_lm(ASKED, concurrency=4)
    hold({"crew": team("crew", 61)}, lm=lm, out=folder / "out", concurrency=4)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_pilot_ends_a_contest_whose_answers_cannot_be_read(tmp_path: Path) -> None:
    lm = planted_lm(ASKED)
    lm.endpoint.reply = lambda body: "it depends"
    with pytest.raises(fm.UserError, match="one prompt: none of the first 3 answers can be read"):
        fm.contest(ASKED, lm=lm, budget="1 USD", out=tmp_path, **SILENT)
    assert lm.endpoint.calls <= 6  # each asked twice, of the reference alone


def test_a_program_that_fails_ends_the_pilot() -> None:
    def broken(question: fm.Question) -> str:
        raise ValueError("no route")

    with pytest.raises(fm.UserError, match=r"broken failed on all.*no route.*--without 'broken'"):
        hold({"broken": broken})


@pytest.mark.parametrize("most", [10, 100, 200])
def test_an_endpoint_that_fails_pauses_the_contest(tmp_path: Path, most: int) -> None:
    """That is never a program's error, not even of its last answers, and the same call goes on."""
    lm = planted_lm(ASKED)
    reply, count = lm.endpoint.reply, itertools.count(1)
    down = GivenUpError("the server is down; given up after 7 attempts")
    altered(lm, lambda body: next(count) > most, down)
    given = {"field": {"crew": team("crew", 90)}, "lm": lm, "out": tmp_path}
    paused = hold(**given)
    assert paused.stopped is not None
    assert "counts against no program" in paused.stopped
    assert {(place.failed, place.state) for place in paused.places} == {(0, "racing")}
    assert paused.runs
    assert all(run.summary.counts.errors == 0 for run in paused.runs.values())
    lm.endpoint.reply = reply
    assert hold(**given).outcome == "better"


@pytest.mark.nightly
def test_a_large_contest_is_confirmed_on_questions_nobody_saw(tmp_path: Path) -> None:
    asked = questions(300)
    contest = hold({"crew": team("crew", 90)}, asked, out=tmp_path, budget="5 USD")
    confirmed = contest.confirmed
    assert confirmed is not None
    assert [run.name for run in confirmed.runs] == ["one prompt", "crew"]
    assert confirmed.runs[0].score["n"] == 60
    race = {row["id"] for run in contest.runs.values() for row in run.rows}
    for path in (tmp_path / "confirm").glob("*/results.jsonl"):
        assert not race & {row["id"] for row in read_rows(path)}
    assert "on 60 unseen questions" in " ".join(contest.sentences)
    assert hold({"crew": team("crew", 90)}, asked, confirm=False).confirmed is None


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("share", "improve", "taken"),
    [
        (10, None, "one prompt for now: "),
        (70, 0.3, "one prompt for now: "),
        ("no", None, "crew: no result on 60 unseen questions, since 60 of 60 answers of crew were"),
    ],
)
def test_unseen_questions_are_decisive(share, improve, taken, tmp_path):
    """The reference got the loser's figures, and `--improve` said "better" beside it."""
    asked = questions(300)
    lm = planted_lm(asked)
    field = {"crew": team("crew", 85)}
    plan = plan_contest(ContestRequest(asked, lm=lm, field=field))
    unseen = {number_in(question.question) for question in plan.unseen}
    reply, other = lm.endpoint.reply, planted_lm(asked, seed=1).endpoint.reply

    def answered(body: Any) -> str:
        if numbered(body) not in unseen:
            return str(reply(body))
        text = json.dumps(body).replace("is right in 85%", f"is right in {share}%")
        if "right in no%" in text:
            return "it depends"
        return str(other(json.loads(text)))

    lm.endpoint.reply = answered
    contest = hold(field, asked, lm=lm, out=tmp_path, improve=improve, budget="5 USD")
    assert contest.sentences[0].startswith(f"Take {taken}")
    assert (contest.outcome == "undecided") == ("for now" in taken)
    assert f"{share}%" not in contest.sentences[0]


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_what_on_question_raises_ends_it_alone(tmp_path: Path, ending: type[BaseException]) -> None:
    """The loop was gone that all later calls of the process need."""

    def ends(race: Any) -> None:
        if len(race.lanes["crew"].answers) >= 7:
            raise ending

    given: dict[str, Any] = {"field": {"crew": team("crew", 95)}, "out": tmp_path}
    wanted = (Exception, KeyboardInterrupt)
    with pytest.raises(wanted):
        hold(on_question=ends, **given)
    assert hold(**given).outcome == "better"


def test_nothing_is_decided_before_twenty_questions() -> None:
    seen: list[int] = []
    options = {"on_question": lambda race: seen.append(race.seen)}
    contest = hold({"crew": team("crew", 100)}, questions(12), **options)
    assert len(seen) >= 12
    assert contest.outcome == "undecided"
    assert contest.places[0].n == 12


def test_free_entrants_follow_from_recorded_answers(tmp_path: Path) -> None:
    lm = planted_lm(ASKED)
    contest = fm.contest(ASKED[:30], lm=lm, out=tmp_path, **SILENT)
    free = [one for one in contest.places if one.free]
    names = [one.name for one in free]
    assert "two who talk, 1 round, vote" in names
    assert "panel of three where two differ" in names
    assert all(one.state == "free" and one.usd is not None for one in free)
    assert lm.endpoint.calls == contest.paid["calls"]
    assert not any(name in contest.runs for name in names)


def test_several_lms_race_alone_and_in_a_mixed_panel(tmp_path: Path) -> None:
    lms = [planted_lm(ASKED, name=f"openai/{name}") for name in ("small", "large")]
    contest = fm.contest(ASKED[:30], lm=lms, out=tmp_path, **SILENT)
    names = [one.name for one in contest.places if not one.free]
    assert names[:2] == ["one prompt, small", "one prompt, large"]
    assert "mixed panel" in names
    assert all(lm.endpoint.calls > 0 for lm in lms)


@pytest.mark.parametrize(
    ("lms", "judge"),
    [
        (["openai/gpt-4o-mini", "openai/gpt-4o"], "openai/gpt-4o"),  # the dearest
        (["openai/gpt-4o", "openai/gpt-4o-mini"], "openai/gpt-4o"),
        (["openai/gpt-4o", "judge=openai/gpt-4o-mini"], "openai/gpt-4o-mini"),
    ],
)
def test_the_plan_names_judges(lms: list[str], judge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    plan = plan_contest(ContestRequest(ASKED, lm=lms))
    assert plan.lines()[-1].startswith(f"two who talk: judge {judge}, ")
    assert len(plan.lms) == sum("=" not in lm for lm in lms)


def test_a_baseline_and_programs_of_ones_own(tmp_path: Path) -> None:
    def mine(question: fm.Question) -> str:
        return "A"

    contest = hold([solo("one", 70), mine], questions(30), baseline=solo("base", 50), out=tmp_path)
    reference = contest.places[0]
    assert (reference.name, reference.reference) == ("1 agent.0", True)
    assert any(one.name.endswith("mine") for one in contest.places)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"field": "best"}, "there is no field 'best'"),
        ({"only": ["pannel"]}, "there is no program 'pannel' in the contest"),
        ({"margin": 3.0}, "the points that do not matter are 3.0"),
        ({"budget": "5"}, "the budget"),
        ({"metric": lambda e, p, trace=None: 2.5}, "no known limits"),
        ({"added": ["single:simpel"]}, "did you mean 'simple'"),
        ({"field": {f"p{n}": solo(f"p{n}", 50) for n in range(7)}}, "9 programs are too many"),
        ({"without": ["one prompt"]}, "one prompt stays"),
        ({"register": "a/b:c"}, "cannot be registered as 'a/b:c'"),
        ({"improve": True}, "at least 300"),
        ({"api_base": "http://x/v1"}, "made already, which api_base does not change"),
        ({"api_base": {"jugde": "http://x/v1"}}, "no agent 'jugde' with an LM of its own"),
        ({"lm_set": {"judge.top_p": 0.5}}, "no agent 'judge' with an LM of its own"),
        ({"price": {"openai/nope": (1, 2)}}, "names 'openai/nope', which no agent asks"),
        ({"lm": {5: planted_lm(ASKED)}}, "gives 5 its own LM, and no program here has"),
    ],
)
def test_what_cannot_be_held_is_refused(options: dict[str, Any], message: str) -> None:
    lm = planted_lm(ASKED)
    with pytest.raises(fm.UserError, match=message):
        fm.contest(ASKED, **{"lm": lm, **options}, **SILENT)
    assert lm.endpoint.calls == 0


@pytest.mark.nightly
def test_improving_is_judged_on_unseen_questions(tmp_path: Path) -> None:
    asked = questions(300)
    contest = hold({"crew": team("crew", 90)}, asked, out=tmp_path, budget="5 USD", improve=True)
    confirmed = contest.confirmed
    assert confirmed is not None
    assert "crew, compiled" in confirmed.names
    assert contest.winner_name in confirmed.names
    said = " ".join(contest.lines())
    assert re.search("Improving cost|The price of improving is unknown", said)
    assert "Price: not known" not in said
    race = {row["id"] for run in contest.runs.values() for row in run.rows}
    for path in (tmp_path / "confirm").glob("*/results.jsonl"):
        assert not race & {row["id"] for row in read_rows(path)}


def test_the_field_of_the_papers_has_two_more_teams() -> None:
    request = ContestRequest(ASKED[:30], lm=planted_lm(ASKED), field="papers")
    names = [one.name for one in plan_contest(request).field]
    assert names[-2:] == ["causal", "supervised team"]


def test_the_ends_for_the_list_itself_meet_when_all_of_it_was_asked() -> None:
    contest = hold({"crew": team("crew", 70)}, ASKED[:40], early_stop=False, confirm=False)
    for place in contest.places:
        if place.difference is not None and not place.free:
            assert place.listed_low == pytest.approx(place.difference)
            assert place.listed_high == pytest.approx(place.difference)
            assert place.difference_low < place.listed_low


@pytest.mark.nightly
def test_a_contest_killed_many_times_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    """Whatever moment it is killed at: the same result, and only calls under way are paid twice."""
    draw, kills, field = random.Random(7), 0, {"crew": team("crew", 61)}
    while kills < 12:
        child = children.Child(contest_to_kill, tmp_path)
        rows = tmp_path / "out" / "runs" / "crew" / "results.jsonl"
        wanted = count_lines(rows) + draw.randint(0, 7)
        while child.poll() is None and count_lines(rows) < wanted:
            time.sleep(0.005)
        time.sleep(draw.uniform(0, 0.05))
        child.send_signal(signal.SIGKILL)
        child.wait()
        kills += 1
    killed = hold(field, out=tmp_path / "out")
    calm = hold(field, out=tmp_path / "calm")
    assert killed.places == calm.places
    assert (killed.outcome, killed.reason) == (calm.outcome, calm.reason)
    assert killed.paid["calls"] <= calm.paid["calls"] + kills * 4 * 3  # 4 questions of 3 calls
    for run in killed.runs.values():
        ids = [row["id"] for row in run.rows]
        assert len(ids) == len(set(ids))


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("budget", [None, "1 USD", "90 calls"])
def test_a_finished_contest_is_only_shown(budget: str | None, tmp_path: Path) -> None:
    """Not a call, not a changed file, whatever the money that is left would plan."""
    asked, lm = questions(24), planted_lm(questions(24))
    options: dict[str, Any] = {"budget": budget, "out": tmp_path, "lm": lm}
    first = hold({"crew": team("crew", 75)}, asked, **options)
    calls, before = lm.endpoint.calls, contents(tmp_path)
    again = hold({"crew": team("crew", 75)}, asked, **options)
    assert lm.endpoint.calls == calls
    assert contents(tmp_path) == before
    assert again.sentences == first.sentences
    with pytest.raises(fm.UserError, match="another contest"):
        hold({"crew": team("crew", 75)}, asked[:23], **options)


REFUSED = CallError("400: content_filter")


def refusing(every: int) -> Any:
    """An LM that refuses one in so many calls."""
    count = itertools.count(1)
    return altered(planted_lm(ASKED), lambda body: next(count) % every == 0, REFUSED)


def test_failures_of_one_lm_are_no_verdict(tmp_path: Path) -> None:
    """Two programs that are equally right: one call in seven of the second is refused."""
    flaky = fm.Ensemble([solo("plain", 60).deepcopy()])
    flaky.set_lm(refusing(7))
    contest = hold({"flaky": flaky}, questions(80), out=tmp_path)
    (place,) = (place for place in contest.places if place.name == "flaky")
    assert place.failed
    assert place.reason.startswith("not compared: ")
    assert contest.outcome == "undecided", "nothing was compared"
    assert contest.winner_name != "flaky"


def test_a_program_that_cannot_be_asked_is_named() -> None:
    """It was in no table, and "no program can be more than 5 points better"."""
    lm = altered(planted_lm(ASKED), tagged, REFUSED)
    contest = hold({"mine": solo("mine", 90)}, lm=lm)
    assert (contest.outcome, contest.winner_name) == ("undecided", "one prompt")
    assert contest.reason == "after 20 questions, 1 program is left: one prompt; not compared: mine"
    (place,) = (place for place in contest.places if place.name == "mine")
    assert place.reason.startswith("not compared: the first 3 questions failed")


def test_a_few_failures_at_first_do_not_end_a_program() -> None:
    """Two of the first thirty failed, and of all that are planned so few are no doubt."""
    asked = questions(120)
    race = plan_contest(ContestRequest(asked, lm=planted_lm(asked), field=[solo("a", 60)])).race
    unlucky = {number_in(one.question) for one in race[4:6]}
    lm = altered(planted_lm(asked), lambda b: tagged(b) and numbered(b) in unlucky, REFUSED)
    contest = hold({"mine": solo("mine", 85)}, asked, lm=lm)
    assert (contest.outcome, contest.winner_name) == ("better", "mine")
    assert "2 failed" in "\n".join(contest.lines())


def test_a_budget_that_cannot_be_held_is_no_end_as_planned(scripted: ScriptedServer) -> None:
    """It said that the budget of 1 USD pays for no more questions, after one call."""
    scripted.reply = lambda _: (200, {}, completion('{"answer": "A"}', usage=None))
    lm = fm.lm("openai/x", api_base=scripted.url, price=(1e-6, 1e-6))
    contest = hold({"mine": solo("mine", 85)}, lm=lm, budget="1 USD")
    assert contest.lines()[0].startswith("Budget 1 USD cannot be enforced: openai/x did not report")
    assert (contest.result["finished"], len(scripted.bodies)) == (False, 1)


def test_a_program_is_not_its_own_fair_opponent() -> None:
    """Asked once, it was there twice, could not be told apart, and left the contest undecided."""
    field = {"bad": solo("bad", 20), "worse": solo("worse", 15)}
    plan = plan_contest(ContestRequest(ASKED, lm=planted_lm(ASKED), field=field))
    assert plan.lines()[0].startswith("up to 4 programs on ")
    assert "dearest team costs, if 3 times or more" in plan.details()[1]
    contest = hold(field)
    assert contest.outcome == "not worth it"
    assert [place.name for place in contest.places] == ["one prompt", "bad", "worse"]


def helpful(example: Any, prediction: Any, trace: Any = None) -> float:
    return 9.0 if prediction.answer == example.answer else 4.0


def test_scores_of_ones_own_are_written_in_their_own_scale(tmp_path: Path) -> None:
    """Shares of the scale were called right, in percent, and their differences points."""
    metric = fm.Metric(helpful, low=0, high=10)
    contest = hold({"mine": solo("mine", 95)}, metric=metric, out=tmp_path)
    said = "\n".join(contest.lines()).replace("expect a little less", "")
    assert not re.search("%|points|right", said)
    for place in contest.places:
        rows = contest.runs[place.name].rows
        assert place.right == pytest.approx(fmean(row.score for row in rows))
    head, reference, _ = contest.lines()[:3]
    assert head.split()[0] == "helpful"
    assert reference.split()[2] == f"{contest.places[0].right:.3g}"
    assert re.search(r"Better: mine is better than one prompt \(\+\d\.\d+ in helpful, \+", said)
    plan = plan_contest(ContestRequest(ASKED, lm=planted_lm(ASKED), metric=metric))
    assert plan.lines()[1].endswith(" up; up to 0.5 in helpful do not matter (--margin)")
    assert "helpful" in fm.report(tmp_path).path.read_text()


def test_a_reference_that_fails_gives_no_advice(tmp_path: Path) -> None:
    contest = hold({"crew": team("crew", 95)}, questions(80), lm=refusing(6), out=tmp_path)
    assert contest.empty
    assert "Take " not in "\n".join(contest.lines())
    assert re.match(r"\d+ of \d+ questions of one prompt failed \(the last: ", contest.lines()[0])
    assert (contest.winner_name, contest.to_dict()["winner"]) == ("", None)
    assert "one prompt" not in repr(contest)
    assert (KIND.card(tmp_path).outcome, KIND.card(tmp_path).tags) == (None, {})
    assert not (tmp_path / "winner").exists()


@pytest.mark.nightly
def test_a_name_is_a_name(tmp_path: Path) -> None:
    """`--improve` read the rounds of a dialogue out of its name."""
    talk = fm.Deliberation(["intuitive", "reasoner"], "majority", 2)
    contest = hold({"crew, v2": talk}, questions(300), out=tmp_path, improve=0.2, budget="5 USD")
    assert contest.result["finished"]


def test_the_winner_answers_with_the_lm_that_won(scripted, tmp_path, monkeypatch):
    """`ask` and the registered model had another LM or none. Each program has an MLflow run."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(tmp_path))
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    options: dict[str, Any] = {"out": tmp_path / "c", "register": "bot", "progress": False}
    contest = fm.contest(ASKED[:24], lm="openai/scripted", only=["step by step"], **options)
    assert "tracking" not in str(contest.stopped)
    client = MlflowClient()
    runs = client.search_runs([one.experiment_id for one in client.search_experiments()])
    parent = next(run for run in runs if run.info.run_id == contest.run_id)
    assert f"{contest.outcome}: " in parent.info.run_name
    children = [run for run in runs if run is not parent]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {contest.run_id}
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert len(children) == len(contest.runs) == 2
    shown = folkmoot("ask", tmp_path / "c" / "winner", "Where?", "--choice", "a", "--choice", "b")
    assert "answered by openai/scripted" in shown.stdout
    loaded = fm.load_program(tmp_path / "c")
    assert loaded(question="Where?", choices=["a", "b"]).answer in ("A", "B")
    version = client.get_model_version_by_alias("bot", "champion")
    assert version.description.lstrip("*").startswith("Take one prompt for now: ")
    assert version.tags["outcome"] == contest.outcome
    words = fm.load_program(tmp_path / "c").predictors()[0].signature
    (prompt,) = client.search_prompts()
    assert client.load_prompt(prompt.name).template == words.instructions
    run = client.get_run(version.run_id)
    assert prompt.name in run.data.tags["mlflow.linkedPrompts"]
    names = {file.path for file in client.list_artifacts(version.run_id)}
    assert {"race.png", "report.html", "standings.json"} <= names
    looks = client.get_metric_history(version.run_id, "race/one prompt")
    assert [point.step for point in looks] == sorted({point.step for point in looks})
    model = mlflow.pyfunc.load_model("models:/bot/1")
    assert not model.predict([{"question": "Where?", "choices": ["a", "b"]}])["error"].any()
    saved = (tmp_path / "c" / "winner" / "lm.json").read_text()
    assert scripted.url not in saved
    assert '"x"' not in saved


def test_programs_whose_names_are_written_alike_have_folders_of_their_own() -> None:
    alike = ["a b", "a-b", "A b", "a, b", "a_b", "a/b", "a  b", "", "-", "a" * 90, "a" * 91]
    folders = [Entrant(name, solo("x", 50), None).folder for name in alike]
    assert folders[0] == "a-b"
    assert len({*folders}) == len(alike)
    assert not any("/" in folder or folder.startswith(".") for folder in folders)


def test_a_selection_never_leaves_out_what_the_user_added() -> None:
    """`--only A --with mine` asked without `mine`, in silence."""
    chosen: Any = {"only": ["step by step"], "added": [team("mine", 70)]}
    request = ContestRequest(ASKED, lm=planted_lm(ASKED), **chosen)
    names = [entrant.name for entrant in plan_contest(request).field]
    assert len(names) == 4
    assert {"one prompt", "step by step"} < set(names)


def test_a_module_that_wins_has_the_lm_that_won(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = lambda body: filled(body, "A")
    lm, mine = fm.lm("openai/scripted", api_base=scripted.url), dspy.Predict("question -> answer")
    talk = fm.Deliberation(["intuitive", "reasoner"], "majority")
    with dspy.context(adapter=dspy.JSONAdapter()):
        contest = hold({"talk": talk, "mine": mine}, ASKED[:20], lm=lm, baseline="mine")
        assert contest.winner_name == "mine"
        assert contest.winner(question="Where?").answer == "A"
    assert mine.lm is None, "the user's own module is as it was"


def test_a_winning_command_is_named_and_not_replaced(scripted: Any, tmp_path: Path) -> None:
    """`winner/` held the loser, and the printed lines asked that."""
    crew = tmp_path / "crew.py"
    crew.write_text("import json, sys\nq = json.load(sys.stdin)\nprint(q['question'][-1])\n")
    asked = [
        {"id": str(n), "question": f"{n}: which is {gold}", "choices": ["x", "y"], "answer": gold}
        for n, gold in enumerate("AB" * 20)
    ]
    spec = f"cmd:{children.BARE} {crew}"
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    contest = hold({"crew": spec}, asked, lm=lm, out=tmp_path / "c")
    assert contest.winner_name == "crew", "shown to be better, whatever its price"
    assert [path.name for path in (tmp_path / "c" / "winner").iterdir()] == ["WINNER.txt"]
    lines = "\n".join(contest.lines())
    assert f"folkmoot ask {shlex.quote(spec)} " in lines
    assert "folkmoot ask " + str(tmp_path / "c" / "winner") not in lines
