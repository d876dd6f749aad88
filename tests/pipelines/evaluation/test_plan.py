"""The plan before spending: what it says holds, and nothing is asked or written to make it."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import evaluate as evaluate_command
from dspy.utils import DummyLM
from mortal import questions

import folkmoot as fm
from folkmoot.pipelines.cli import show as cli_show
from folkmoot.pipelines.evaluation.check import check_train
from folkmoot.pipelines.evaluation.estimate import estimate
from folkmoot.pipelines.testing.server import ScriptedServer

PRICE = (1e-6, 2e-6)
PROGRAMS = [
    (lambda: fm.SingleAgent("cot"), 1, 1),
    (lambda: fm.Ensemble(["simple", "cot"]), 2, 2),
    (lambda: fm.Deliberation(["intuitive", "reasoner"], max_rounds=3), 2, 7),
]
pytestmark = pytest.mark.usefixtures("home")


def priced(server: ScriptedServer, **options: Any) -> Any:
    return fm.lm("openai/scripted", api_base=server.url, **{"price": PRICE, **options})


@pytest.mark.parametrize(("make", "least", "most"), PROGRAMS)
@pytest.mark.parametrize("agree", [True, False])
def test_a_run_takes_what_was_planned(scripted, make, least, most, agree):
    def reply(body: dict[str, Any]) -> str:
        argues = "reasoning" in str(body["response_format"])
        text = body["messages"][-1]["content"]
        answer = "A" if agree or not argues else text and "B"
        return json.dumps({"reasoning": "so " * 30, "answer": answer})

    scripted.reply = reply
    program, asked = make(), questions(6)
    planned = estimate(program, asked, priced(scripted))
    assert not scripted.bodies
    assert (planned.calls, planned.most_calls) == ((6 * least, 6 * most), 12 * most)
    fm.evaluate(program, asked, lm=priced(scripted), tracking=False)
    assert planned.calls[0] <= len(scripted.bodies) <= planned.calls[1]
    chars = sum(len(message["content"]) for body in scripted.bodies for message in body["messages"])
    assert 0.6 * planned.prompt_tokens[0] <= chars / 4 <= 1.2 * planned.prompt_tokens[1]
    assert planned.unpriced == ()
    for end in (0, 1):
        cost = planned.prompt_tokens[end] * PRICE[0] + planned.completion_tokens[end] * PRICE[1]
        assert planned.cost_usd[end] == pytest.approx(cost, rel=0.01, abs=1e-5)


def test_each_seat_is_billed_at_its_own_price_or_unknown(scripted: ScriptedServer) -> None:
    roles = ["intuitive", "reasoner"]
    program = fm.Deliberation(roles, max_rounds=1, lms={"judge": priced(scripted)})
    planned = estimate(program, questions(10), priced(scripted, price=(0.0, 0.0)))
    assert planned.cost_usd[0] == 0  # who agree need no judge
    assert 0 < planned.cost_usd[1] < planned.prompt_tokens[1] * PRICE[0]
    program = fm.Deliberation(roles, lms={"judge": priced(scripted, price=None)})
    planned = estimate(program, questions(3), priced(scripted))
    assert (planned.cost_usd, planned.unpriced) == (None, ("openai/scripted",))
    assert estimate(fm.SingleAgent(), questions(3), DummyLM([{}])).cost_usd is None


def test_a_dry_run_shows_the_plan(scripted: ScriptedServer, ten: Path, tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*"))
    words = ["--dry-run", "--budget", "50 calls", "--price", "openai/scripted=1,2"]
    result = evaluate_command(scripted, ten, *words)
    assert (result.exit_code, result.stdout) == (0, "")
    first, second = result.stderr.splitlines()
    assert first.startswith("single:simple on 10 questions (choice) from ")
    enough = "10 questions show differences from about 62 points up"
    bill = r"likely 10 calls, [\d,]+ tokens, 0.00\d+ USD; at most 50 calls; "
    assert re.fullmatch(bill + enough, second)
    found = json.loads(evaluate_command(scripted, ten, *words, "--json", "-q").stdout)
    assert found["plan"]["calls"] == [10, 10]
    assert found["plan"]["cost_usd"][1] > 0
    assert min(found["plan"]["smallest_difference"]) > 0.3
    assert not scripted.bodies
    assert set(tmp_path.rglob("*")) == before
    talk = "deliberation:intuitive,reasoner:judge"
    unpriced = evaluate_command(scripted, ten, "--dry-run", program=talk)
    assert "the price of openai/scripted is unknown" in unpriced.stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


AT_9999 = [("y\n", "9999", [], True, 10), ("\n", "9999", [], True, 0), ("", "9999", [], True, 0)]
UNASKED = [("n\n", "9999", ["--yes"], False, 10), ("n\n", "1", [], False, 10)]


@pytest.mark.parametrize(("answer", "price", "words", "asked", "calls"), [*AT_9999, *UNASKED])
def test_only_an_expensive_run_is_asked_about_and_only_at_a_terminal(
    scripted, ten, monkeypatch, answer, price, words, asked, calls
):
    screen, real = Terminal(), cli_show.agreed

    def at_a_terminal(reason: str) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdin", Terminal(answer))
            patch.setattr("sys.stderr", screen)
            return real(reason)

    monkeypatch.setattr(cli_show, "agreed", at_a_terminal)
    result = evaluate_command(scripted, ten, "--price", f"openai/scripted={price},1", *words)
    assert ("Go on?" in screen.getvalue()) == asked
    assert len(scripted.bodies) == calls
    assert result.exit_code == (0 if calls else 1)


def test_tokens_are_forecast_from_a_pilot(scripted: ScriptedServer, tmp_path: Path) -> None:
    """A deliberation whose agents think for long: the prompts alone leave a factor of 40 open."""
    program = fm.Deliberation(["intuitive", "reasoner"], tie_break="majority", max_rounds=2)
    lm, asked = priced(scripted), questions(60)
    short, long = {"answer": "A"}, {"reasoning": "so " * 250, "answer": "A"}
    replies = {True: json.dumps(long), False: json.dumps(short)}
    scripted.reply = lambda body: replies["reasoning" in str(body["response_format"])]
    blind = estimate(program, asked, lm, out=tmp_path / "run")
    assert blind.pilot is None
    fm.evaluate(program, asked[:5], lm=lm, out=tmp_path / "pilot", tracking=False)
    planned = estimate(program, asked, lm, out=tmp_path / "run")
    assert planned.pilot == f"5 questions of {tmp_path / 'pilot'}"
    done = fm.evaluate(program, asked, lm=lm, out=tmp_path / "run", tracking=False).summary.usage
    for name in ("prompt_tokens", "completion_tokens"):
        low, high = getattr(planned, name)
        assert low <= done[name] <= high <= 3 * done[name]
        assert high <= 9 * low
        assert high / low < getattr(blind, name)[1] / max(1, getattr(blind, name)[0])
    assert planned.cost_usd[0] <= done["cost_usd"] <= planned.cost_usd[1]
    other = fm.SingleAgent("cot")
    assert estimate(other, asked, lm, out=tmp_path / "other").pilot is None  # of another program


def test_no_question_is_both_trained_on_and_tested() -> None:
    train, test = questions(4)[:2], questions(4)[2:]
    assert check_train([], test) == []
    assert check_train(train, test) == []
    with pytest.raises(fm.UserError, match="1 of 2 test questions are training questions"):
        check_train([*train, test[0]], test)
    renamed = fm.Question(**{**test[0].toDict(), "id": "another"})
    (warning,) = check_train([renamed], test)
    assert warning.startswith("1 of 2 test questions have the text of a training question")
