"""Comparing two runs: the figures by hand, and a verdict that claims no more than they show."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence, Set
from itertools import pairwise
from pathlib import Path
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores import new_store

import folkmoot as fm
from folkmoot.modules.agents.transcript import Task
from folkmoot.modules.protocols.program import Program, prediction_of
from folkmoot.pipelines.comparison.match_budget import Match, evenly_spaced

CHOICES = {"A": "yes it is", "B": "no it is not"}


class Knows(Program):
    """Right on the questions whose number is among those given, failing on others; makes no
    call.
    """

    def __init__(self, right: set[int], fails: Set[int] = frozenset()) -> None:
        super().__init__()
        self.right, self.fails = right, fails

    def describe(self) -> dict[str, Any]:
        return {"program": "knows", "right": sorted(self.right)}

    async def solve(self, task: Task) -> dspy.Prediction:
        number = int(task.question.split()[-1])
        if number in self.fails:
            raise dspy.utils.exceptions.LMError("the endpoint is away")
        return prediction_of(task, "A" if number in self.right else "B", "single", [])


class Says(Program):
    """Gives the same answer to everything; makes no call."""

    def __init__(self, answers: tuple[str, ...]) -> None:
        super().__init__()
        self.answers = answers

    def describe(self) -> dict[str, Any]:
        return {"program": "says", "answers": list(self.answers)}

    async def solve(self, task: Task) -> dspy.Prediction:
        return prediction_of(task, self.answers[0], "single", [])


def ask(i: int, **fields: Any) -> fm.Question:
    given = {"question": f"Is this number {i}", "choices": CHOICES, "answer": "A", **fields}
    return fm.Question(id=str(i), **given)


def run(
    right: set[int],
    n: int,
    folder: Path | None = None,
    questions: Sequence[fm.Question] = (),
    fails: Set[int] = frozenset(),
) -> fm.Evaluation:
    asked = questions or [ask(i) for i in range(n)]
    return fm.evaluate(
        Knows(right, fails), asked, lm=dspy.LM("openai/none"), out=folder, tracking=False
    )


def test_the_figures_of_a_pair() -> None:
    (pair,) = fm.compare(
        run(set(range(50)), 100), run(set(range(40, 100)), 100), names=["base", "team"]
    )
    assert (pair.a, pair.b, pair.n) == ("team", "base", 100)
    assert (pair.accuracy_a, pair.accuracy_b) == (0.6, 0.5)
    assert pair.difference == pytest.approx(0.1)
    assert pair.low < 0 < pair.high
    assert set(pair.only_a) == {str(i) for i in range(50, 100)}
    assert set(pair.only_b) == {str(i) for i in range(40)}
    assert (pair.p, pair.test) == (pytest.approx(0.2945, abs=0.0001), "McNemar's mid-p")
    (exact,) = fm.compare(run(set(range(50)), 100), run(set(range(40, 100)), 100), exact=True)
    assert exact.p == pytest.approx(0.343, abs=0.001)  # two-sided binomial of 40 against 50
    assert exact.test == "McNemar's exact p"
    assert (pair.token_ratio, pair.cost_ratio) == (None, None)


def test_a_clear_difference_is_said_in_the_right_direction() -> None:
    better, worse = run(set(range(90)), 100), run(set(range(50)), 100)
    (up,) = fm.compare(worse, better, names=["base", "team"])
    (down,) = fm.compare(better, worse, names=["base", "team"])
    figures = "90% against 50% on 100 questions: +40 points, 95% interval +"
    assert up.verdict.startswith(f"team beats base: {figures}")
    assert down.verdict.startswith(
        "team does worse than base: 50% against 90% on 100 questions: -40 points"
    )


def test_no_difference_is_not_called_a_win() -> None:
    (pair,) = fm.compare(
        run(set(range(50)), 100), run(set(range(1, 55)), 100), names=["base", "team"]
    )
    said = (
        "team is ahead so far, undecided. Beside base: 54% against 50% on 100 questions: +4 points"
    )
    assert pair.verdict.startswith(said.replace("54%", f"{pair.score_a:.0%}"))
    assert "100 questions show differences from about " in pair.verdict


def test_an_interval_off_zero_that_shows_nothing_says_why() -> None:
    base, more, most = (
        run(set(range(begin, end)), 100) for begin, end in ((1, 52), (0, 56), (2, 55))
    )
    alone, among = fm.compare(base, more)[0], fm.compare(base, more, most)[0]
    assert alone.outcome == "a"
    assert among.low > 0
    assert f", but p = {among.p_adjusted:.2g} over all pairs. 100 questions show" in among.verdict
    assert "Holm" in among.sure


def test_a_run_that_failed_gets_no_verdict_and_its_failures_are_told() -> None:
    base = run(set(range(50)), 100)
    some, half = run(set(range(90)), 100, fails={99}), run(set(), 100, fails=set(range(50)))
    found = fm.compare(base, some, half, names=["base", "some", "half"])
    assert found[0].verdict.startswith("some beats base: ")
    assert found[1].verdict == (
        "No verdict on half and base: half failed on 50 of 100 questions: run it again with "
        "--retry-errors "
        "before judging it."
    )
    assert (found[0].failed_a, found[1].failed_a, found[1].failed_b) == (1, 50, 0)
    assert found.notes == [
        f"{told} as wrong: folkmoot evaluate --retry-errors asks again."
        for told in (
            "1 of the 100 questions of some failed and counts",
            "50 of the 100 questions of half failed and count",
        )
    ]
    assert fm.compare(half, base, names=["half", "base"])[0].verdict.startswith(
        "No verdict on base and half"
    )


def test_without_a_discordant_question_no_interval_is_claimed() -> None:
    right = set(range(50))
    (pair,) = fm.compare(run(right, 100), run(right, 100), names=["base", "same"])
    assert (pair.difference, pair.low, pair.high) == (0, 0, 0)
    assert pair.verdict == (
        "same and base are level so far, undecided: 50% against 50% on 100 questions: no "
        "question was right "
        "in only one of the two. 100 questions show differences from about 8 points up."
    )


@pytest.mark.parametrize(("exact", "fewest"), [(False, 5), (True, 6)])
def test_too_few_questions_can_show_nothing(exact: bool, fewest: int) -> None:
    few = fewest - 1
    names = ["base", "team"]
    (none,) = fm.compare(run(set(), few), run(set(range(few)), few), names=names, exact=exact)
    assert none.p > 0.05
    assert none.verdict.endswith(f" {few} questions can show no difference at all.")
    (enough,) = fm.compare(
        run(set(), fewest), run(set(range(fewest)), fewest), names=names, exact=exact
    )
    assert enough.verdict.startswith("team beats base: 100% against 0%")


def test_p_values_are_corrected_for_the_number_of_comparisons() -> None:
    base, some = run(set(range(40)), 100), run(set(range(50)), 100)
    one = fm.compare(base, some)[0]
    three = fm.compare(base, some, some, some)[0]
    assert one.p == three.p == one.p_adjusted
    assert three.p_adjusted == pytest.approx(6 * one.p)  # every pair of the four


def test_only_shared_questions_are_compared_and_the_others_are_told() -> None:
    found = fm.compare(run({1, 2}, 10), run({1, 15}, 20), names=["base", "team"])
    assert (found[0].n, found[0].accuracy_a, found[0].accuracy_b) == (10, 0.1, 0.2)
    assert found.notes == ["Only the 10 shared questions are compared: left out are 10 of team."]
    assert [one.left_out for one in found.runs] == [0, 10]


@pytest.mark.parametrize("other", [None, 3, {"id": "1"}])
def test_what_is_no_run_is_refused(other: Any) -> None:
    with pytest.raises(
        fm.UserError, match=r"a run is .*: pass an evaluation, or the name of the folder"
    ):
        fm.compare(run(set(), 2), other)


def test_runs_that_share_nothing_or_alone_are_refused() -> None:
    other = [fm.Question(id="x", question="Is this number 1", choices=CHOICES, answer="A")]
    with pytest.raises(fm.UserError, match="share no question"):
        fm.compare(run({1}, 10), run({1}, 10, questions=other))
    with pytest.raises(fm.UserError, match="two runs"):
        fm.compare(run({1}, 10))


@pytest.mark.parametrize(
    "change",
    [{"answer": "B"}, {"question": "Is that number 3"}, {"choices": {"A": "yes", "B": "no"}}],
)
def test_a_question_that_changed_under_its_id_is_refused(change: dict[str, Any]) -> None:
    changed = [ask(i, **(change if i == 3 else {})) for i in range(10)]
    with pytest.raises(fm.UserError, match=r"1 of the questions .* first is '3'.* differ"):
        fm.compare(run({1}, 10), run({1}, 10, questions=changed))


def test_folders_of_earlier_runs_compare_like_their_evaluations(tmp_path: Path) -> None:
    first, second = run({1, 2}, 10, tmp_path / "a"), run({2, 3, 4}, 10, tmp_path / "b")
    assert (
        fm.compare(tmp_path / "a", str(tmp_path / "b")).to_dict()
        == fm.compare(first, second).to_dict()
    )


def test_a_killed_run_is_compared_by_its_rows_and_called_unfinished(tmp_path: Path) -> None:
    """Killed while it ran: fewer rows than questions, and no summary."""
    run({1, 2}, 10, tmp_path / "a")
    run({2, 3}, 10, tmp_path / "b")
    rows = (tmp_path / "b" / "results.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "b" / "results.jsonl").write_text("".join(rows[:4]))
    (tmp_path / "b" / "summary.json").unlink()
    found = fm.compare(tmp_path / "a", tmp_path / "b", names=["base", "team"])
    assert (found[0].n, found[0].only_a, found[0].only_b) == (4, ("3",), ("1",))
    assert "team is not finished: 4 of its 10 questions have a row." in found.notes


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: shutil.rmtree(folder), "there is no folder"),
        (lambda folder: (folder / "run.json").unlink(), "holds no run"),
        (lambda folder: (folder / "run.json").write_text("[]"), "holds no run"),
        (lambda folder: (folder / "results.jsonl").write_text(""), "no finished row"),
        (lambda folder: (folder / "results.jsonl").unlink(), "no finished row"),
        (lambda folder: (folder / "results.jsonl").write_text("{}\n"), "line 1"),
    ],
)
def test_a_folder_that_holds_no_run_is_named(
    tmp_path: Path, spoil: Callable[[Path], Any], words: str
) -> None:
    run({1}, 3, tmp_path / "a")
    run({1}, 3, tmp_path / "b")
    spoil(tmp_path / "b")
    with pytest.raises(fm.UserError, match=words):
        fm.compare(tmp_path / "a", tmp_path / "b")


def test_a_comparison_is_a_sequence_of_pairs_with_the_first_run_as_baseline() -> None:
    found = fm.compare(run({1}, 9), run({2}, 9), run({3}, 9), names=["base", "one", "two"])
    assert (len(found), found.names) == (3, ["base", "one", "two"])
    assert [(pair.a, pair.b) for pair in found] == [
        ("one", "base"),
        ("two", "base"),
        ("two", "one"),
    ]
    assert found.against == found.pairs[:2]
    assert found[-1] is found.pairs[2]
    assert repr(found).splitlines()[0] == found.headline


@pytest.mark.parametrize("names", [["one"], ["one", "one"], ["one", ""], "ab"])
def test_names_that_do_not_fit_are_refused(names: Any) -> None:
    with pytest.raises(fm.UserError, match="name of its own"):
        fm.compare(run({1}, 3), run({2}, 3), names=names)


def test_runs_are_called_by_what_they_ran_then_by_lm_and_folder(
    scripted: Any, tmp_path: Path
) -> None:
    same = [run({1}, 3, tmp_path / "a"), run({1}, 3, tmp_path / "b")]
    assert fm.compare(*same).names == ["knows (a)", "knows (b)"]
    by_lm = [
        fm.evaluate(
            fm.SingleAgent(),
            [ask(1)],
            lm=fm.lm(f"openai/{name}", api_base=scripted.url),
            tracking=False,
        )
        for name in ("small", "large")
    ]
    assert fm.compare(*by_lm).names == [
        "single simple (openai/small)",
        "single simple (openai/large)",
    ]
    assert fm.compare(tmp_path / "a", tmp_path / "a").names == ["knows.0", "knows.1"]


def test_discordant_questions_are_shown_from_both_sides(tmp_path: Path) -> None:
    found = fm.compare(run(set(range(3)), 10), run(set(range(2, 10)), 10), names=["base", "team"])
    shown = found.discordant(found[0], most=3)
    assert [(row["id"], row["right"]) for row in shown] == [
        ("3", "team"),
        ("0", "base"),
        ("4", "team"),
    ]
    assert shown[0]["answers"] == {"team": "A", "base": "B"}
    assert (shown[0]["question"], shown[0]["gold"]) == ("Is this number 3", "A")
    assert found.discordant(found[0], most=0) == []


def test_span_questions_are_also_compared_by_f1() -> None:
    questions = [
        fm.Question(id=str(i), question=f"Who is {i}", answer="Ada Byron King") for i in range(8)
    ]

    def said(*answers: str) -> fm.Evaluation:
        return fm.evaluate(Says(answers), questions, lm=dspy.LM("openai/none"), tracking=False)

    exact, partial = said("Ada Byron King"), said("Ada Byron")
    (pair,) = fm.compare(exact, partial)
    assert pair.f1 is not None
    assert pair.f1.difference == pytest.approx(0.8 - 1)
    assert pair.difference == -1
    (none,) = fm.compare(run({1}, 3), run({2}, 3))
    assert none.f1 is None


def test_ratios_of_what_was_spent(scripted: Any, tmp_path: Path) -> None:
    questions = [ask(i) for i in range(4)]
    lm = fm.lm("openai/scripted", api_base=scripted.url, price=(0.01, 0.03))
    one = fm.evaluate(fm.SingleAgent(), questions, lm=lm, tracking=False, out=tmp_path / "one")
    two = fm.evaluate(
        fm.SingleAgent("self_consistency", samples=3),
        questions,
        lm=lm,
        tracking=False,
        out=tmp_path / "two",
    )
    (pair,) = fm.compare(one, two)
    spent = [run.summary.usage for run in (two, one)]
    tokens = [usage["prompt_tokens"] + usage["completion_tokens"] for usage in spent]
    assert (pair.call_ratio, pair.paid) == (3, 4)
    assert pair.token_ratio == tokens[0] / tokens[1]
    assert pair.cost_ratio == pytest.approx(spent[0]["cost_usd"] / spent[1]["cost_usd"])
    assert fm.compare(one, one)[0].token_ratio == 1


def test_questions_answered_from_a_record_are_in_no_ratio(scripted: Any, tmp_path: Path) -> None:
    """Two of four were recorded before: their tokens are not in the rows, so they cannot be
    weighed.
    """
    questions = [ask(i) for i in range(4)]
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    record = tmp_path / "record"
    fm.evaluate(fm.SingleAgent(), questions[:2], lm=lm, tracking=False, record=record)
    full = fm.evaluate(fm.SingleAgent(), questions, lm=lm, tracking=False)
    half = fm.evaluate(fm.SingleAgent(), questions, lm=lm, tracking=False, record=record)
    found = fm.compare(full, half, names=["full", "half"])
    assert (found[0].paid, found[0].token_ratio, found[0].call_ratio) == (2, 1, 1)
    assert any("2 of the 4 calls of half came from a record" in note for note in found.notes)
    replayed = fm.evaluate(
        fm.SingleAgent(), questions, lm=fm.lm(f"replay/{full.folder}"), tracking=False
    )
    assert fm.compare(full, replayed)[0].token_ratio is None


# The budget-matched baseline
# --------------------------------------------------------------------------------


def talk(
    scripted: Any, tmp_path: Path, n: int = 12
) -> tuple[fm.Evaluation, list[fm.Question], Any]:
    """Two agents who agree in the first round, over n questions."""
    questions = [ask(i) for i in range(n)]
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    program = fm.Deliberation(["intuitive", "reasoner", "critic"], tie_break="judge")
    return (
        fm.evaluate(program, questions, lm=lm, out=tmp_path / "talk", tracking=False),
        questions,
        lm,
    )


def test_the_baseline_gets_the_samples_that_the_tokens_pay_for(
    scripted: Any, tmp_path: Path
) -> None:
    run, questions, lm = talk(scripted, tmp_path)
    told: list[Match] = []
    before = len(scripted.bodies)
    base = fm.match_budget(run, questions, lm=lm, told=told.append)
    (match,) = told
    usage, n = run.summary.usage, len(questions)
    assert match.tokens_per_question == (usage["prompt_tokens"] + usage["completion_tokens"]) / n
    assert (match.rows, match.pilot) == (n, 8)
    assert match.samples == int(match.tokens_per_question / match.tokens_per_sample) > 1
    assert base.summary.run["program"]["samples"] == match.samples
    assert len(scripted.bodies) - before == 8 + n * match.samples
    ratio = fm.compare(base, run)[0].token_ratio
    assert ratio is not None
    assert 1 <= ratio < 1 + 1 / match.samples  # one more sample would cost more than the run did
    assert base.folder == tmp_path / "talk" / "match-budget" / f"{match.samples}-samples"


@pytest.mark.nightly
def test_the_baseline_is_a_run_beside_the_one_that_it_matches(
    scripted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri := new_store(tmp_path))
    questions, lm = [ask(i) for i in range(4)], fm.lm("openai/scripted", api_base=scripted.url)
    program = fm.Deliberation(["intuitive", "reasoner", "critic"], tie_break="judge")
    settings = {"data": "beside", "run_name": "talk"}
    run = fm.evaluate(program, questions, lm=lm, out=tmp_path / "talk", settings=settings)
    base = fm.match_budget(run, questions, lm=lm)
    fm.match_budget(tmp_path / "talk", questions, lm=lm)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("beside")
    assert experiment is not None
    logged = {
        one.info.run_name.partition(" · self")[0]: one
        for one in client.search_runs([experiment.experiment_id])
    }
    name = f"{base.accuracy:.0%}"
    assert logged.keys() == {"talk", name}
    assert logged[name].data.metrics["accuracy"] == base.accuracy


def test_the_baseline_resumes(scripted: Any, tmp_path: Path) -> None:
    run, questions, lm = talk(scripted, tmp_path, n=3)
    first = fm.match_budget(run, questions, lm=lm)
    asked = len(scripted.bodies)
    again = fm.match_budget(tmp_path / "talk", questions, lm=lm)
    assert len(scripted.bodies) == asked
    assert list(again.rows) == list(first.rows)


def test_a_cheap_run_is_matched_by_one_sample(scripted: Any, tmp_path: Path) -> None:
    questions = [ask(i) for i in range(3)]
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    run = fm.evaluate(fm.SingleAgent(), questions, lm=lm, tracking=False)
    base = fm.match_budget(run, questions, lm=lm, out=tmp_path / "base")
    assert base.summary.usage["calls"] == 3
    assert base.folder == tmp_path / "base" / "1-samples"


def test_what_cannot_be_matched_is_refused_before_any_call(scripted: Any, tmp_path: Path) -> None:
    run, questions, lm = talk(scripted, tmp_path, n=3)
    replayed = fm.evaluate(
        fm.Deliberation(["intuitive", "reasoner", "critic"], tie_break="judge"),
        questions,
        lm=fm.lm(f"replay/{run.folder}"),
        tracking=False,
    )
    other = fm.lm("openai/other", api_base=scripted.url)
    before = len(scripted.bodies)
    for run_of, asked, by, words in [
        (run, questions[:2], lm, "not those that"),
        (run, questions, other, "openai/other .* is not an LM of"),
        (replayed, questions, lm, "came from a record or cache"),
    ]:
        with pytest.raises(fm.UserError, match=words):
            fm.match_budget(run_of, asked, lm=by)
    with pytest.raises(fm.UserError, match="pilot is 0"):
        fm.match_budget(run, questions, lm=lm, pilot=0)
    assert len(scripted.bodies) == before


def test_a_pilot_that_fails_is_named(scripted: Any, tmp_path: Path) -> None:
    run, questions, lm = talk(scripted, tmp_path, n=3)
    scripted.reply = lambda _: (400, {}, {"error": {"message": "no"}})
    with pytest.raises(fm.UserError, match="what a sample takes is not known"):
        fm.match_budget(run, questions, lm=lm)


@given(st.integers(1, 200), st.integers(1, 200))
def test_the_pilot_is_spread_evenly(n: int, most: int) -> None:
    questions = [ask(i) for i in range(n)]
    chosen = [int(question.id) for question in evenly_spaced(questions, most)]
    assert len(chosen) == len(set(chosen)) == min(n, most)
    gaps = {b - a for a, b in pairwise(chosen)}
    assert not gaps or max(gaps) - min(gaps) <= 1


@given(st.floats(1, 1e6), st.floats(1, 1e4))
def test_samples_fit_the_budget_or_are_one(question: float, sample: float) -> None:
    n = Match(question, 1, sample, 1).samples
    assert n >= 1
    assert n == 1 or n * sample <= question * (1 + 1e-9)
    assert (n + 1) * sample > question * (1 - 1e-9)


# What a verdict may say
# -------------------------------------------------------------------------------------


class Mute(Program):
    """Right on the first so many questions, and silent on those with the given numbers; makes no
    call.
    """

    def __init__(self, right: int, silent: Set[int] = frozenset(), name: str = "mute") -> None:
        super().__init__()
        self.right, self.silent, self.name = right, silent, name

    def describe(self) -> dict[str, Any]:
        return {"program": self.name, "right": self.right, "silent": sorted(self.silent)}

    async def solve(self, task: Task) -> dspy.Prediction:
        number = int(task.question.split()[-1])
        answer = None if number in self.silent else "A" if number < self.right else "B"
        return prediction_of(task, answer, "single", [])


def mute(
    right: int, n: int, silent: Set[int] = frozenset(), folder: Path | None = None
) -> fm.Evaluation:
    return fm.evaluate(
        Mute(right, silent),
        [ask(i) for i in range(n)],
        lm=dspy.LM("openai/none"),
        out=folder,
        tracking=False,
    )


def test_replies_that_were_cut_off_lose_to_nobody(tmp_path: Path) -> None:
    base = mute(20, 20)
    mute(20, 20, set(range(1, 20)), tmp_path / "thinker")
    rows = [
        json.loads(line)
        for line in (tmp_path / "thinker" / "results.jsonl").read_text().splitlines()
    ]
    about = json.loads((tmp_path / "thinker" / "run.json").read_text())
    about["lms"] = {
        "*": {"name": "thinker", "endpoint": "t", "profile": {}, "settings": {"max_tokens": 1024}}
    }
    (tmp_path / "thinker" / "run.json").write_text(json.dumps(about))
    (tmp_path / "thinker" / "results.jsonl").write_text(
        "".join(
            json.dumps({**row, "finish_reason": "length", "truncated": True}) + "\n" for row in rows
        )
    )
    (pair,) = fm.compare(tmp_path / "thinker", base, names=["thinker", "base"])
    assert pair.outcome == "not_comparable"
    cause = "20 of 20 replies of thinker were cut off at 1,024 tokens: raise max_tokens"
    assert pair.verdict == f"No verdict on base and thinker: {cause}."
    assert f"{cause}." in pair.notes
    assert pair.to_dict()["outcome"] == "not_comparable"
    found = fm.report(
        [tmp_path / "thinker", base], names=["thinker", "base"], out=tmp_path / "r.html"
    )
    assert found.headline == pair.verdict
    assert "beats" not in (tmp_path / "r.html").read_text()
    alone = fm.report(tmp_path / "thinker", names=["thinker"], out=tmp_path / "r.html")
    assert alone.headline == f"No verdict: {cause}"
    assert "is right on" not in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("silent", "outcome"),
    [(0, "a"), (5, "a"), (6, "not_comparable")],  # of 100: up to 5% are the program's own fault
)
def test_above_five_percent_unreadable_there_is_no_verdict(silent: int, outcome: str) -> None:
    team, base = mute(90, 100), mute(50, 100, set(range(100 - silent, 100)))
    (pair,) = fm.compare(base, team, names=["base", "team"])
    assert pair.outcome == outcome
    (turned,) = fm.compare(team, base, names=["team", "base"])
    assert turned.outcome == {"a": "b"}.get(outcome, outcome)
    if outcome == "not_comparable":
        assert ": 6 of 100 answers of base were empty or could not be read" in pair.verdict


def test_replies_that_were_cut_off_count_though_an_answer_was_read(tmp_path: Path) -> None:
    mute(90, 100, frozenset(), tmp_path / "team")
    rows = [
        json.loads(line) for line in (tmp_path / "team" / "results.jsonl").read_text().splitlines()
    ]
    for cut, outcome in ((5, "a"), (6, "not_comparable")):
        (tmp_path / "team" / "results.jsonl").write_text(
            "".join(json.dumps({**row, "truncated": i < cut}) + "\n" for i, row in enumerate(rows))
        )
        (pair,) = fm.compare(mute(50, 100), tmp_path / "team", names=["base", "team"])
        assert pair.outcome == outcome
    assert ": 6 of 100 replies of team were cut off at the token limit" in pair.verdict


def test_unreadable_answers_that_could_undo_a_difference_leave_it_open() -> None:
    """Ten questions ahead, and five of the loser's answers could not be read: below 5%, and
    enough.
    """
    team, base = mute(60, 100), mute(50, 100, set(range(50, 55)))
    (pair,) = fm.compare(base, team, names=["base", "team"])
    assert pair.outcome == "a"  # five to none is still a difference
    tight = fm.compare(mute(50, 100, set(range(50, 54))), mute(57, 100), names=["base", "team"])[0]
    assert tight.p_adjusted < 0.05
    assert tight.outcome == "not_comparable"
    assert "the difference would be +3.0 instead of +7.0 points, and not shown" in tight.verdict
    own = fm.compare(mute(50, 100), mute(57, 100, set(range(90, 94))), names=["base", "team"])[0]
    assert own.outcome == "a"  # the winner's are wrong already


def seated(scripted: Any, tmp_path: Path) -> tuple[fm.Evaluation, fm.Evaluation, list[fm.Question]]:
    """A weak LM alone, right on a half, and a team of it with a judge on a strong one, who knows
    all.
    """

    def reply(body: dict[str, Any]) -> str:
        number = int(body["messages"][-1]["content"].split("number ")[1].split()[0])
        knows = body["model"] == "strong" or number % 2 == 0
        said = ("A" if knows else "B") if "reasoning" in str(body.get("response_format")) else "B"
        return json.dumps({"reasoning": "so", "answer": "A" if knows else said})

    scripted.reply = reply
    weak, strong = (fm.lm(f"openai/{name}", api_base=scripted.url) for name in ("weak", "strong"))
    questions = [ask(i) for i in range(24)]
    one = fm.evaluate(
        fm.SingleAgent("cot"), questions, lm=weak, out=tmp_path / "one", tracking=False
    )
    program = fm.Deliberation(
        ["intuitive", "reasoner"], tie_break="judge", max_rounds=1, lms={"judge": strong}
    )
    scripted.reply = lambda body: (
        reply(body)
        if body["model"] == "strong"
        else json.dumps({"reasoning": "so", "answer": "AB"[len(scripted.bodies) % 2]})
    )
    return (
        one,
        fm.evaluate(
            program, questions, lm=weak, out=tmp_path / "team", tracking=False, concurrency=1
        ),
        questions,
    )


def test_a_judge_on_a_stronger_lm_is_said_to_be_one(scripted: Any, tmp_path: Path) -> None:
    one, team, questions = seated(scripted, tmp_path)
    (pair,) = fm.compare(one, team, names=["one", "team"])
    assert pair.difference > 0.2
    assert (
        "differ in LM (team: openai/strong as judge, openai/weak; one: openai/weak)" in pair.verdict
    )
    assert any("differ in LM" in note for note in pair.notes)
    page = fm.report([one, team], names=["one", "team"], out=tmp_path / "r.html")
    assert "But they differ in LM" in page.headline
    assert "not yet tried against the best of its LMs alone, asked k times" in page.headline
    assert page.figures["groups"][0]["comparison"]["pairs"][0]["worth"] == "better, dearer"
    # The fair opponent: each LM alone for the same tokens, and the best of them.
    scripted.reply = lambda body: json.dumps(
        {"reasoning": "so", "answer": "A" if body["model"] == "strong" else "B"}
    )
    lms = [fm.lm(f"openai/{name}", api_base=scripted.url) for name in ("weak", "strong")]
    told: list[Match] = []
    base = fm.match_budget(team, questions, lm=lms, told=told.append)
    assert [match.lm for match in told] == ["openai/weak", "openai/strong"]
    assert base.summary.run["lms"]["*"]["name"] == "openai/strong"
    fair = fm.compare(base, team, names=["best LM", "team"])[0]
    assert fair.confounds == ()
    assert "differ in" not in fair.verdict
    # It is found again, and not advised again.
    again = fm.report([one, team], names=["one", "team"], out=tmp_path / "r.html")
    runs = [run["name"] for run in again.figures["groups"][0]["runs"]]
    assert runs == ["one", "team", "self-consistency, same budget"]
    assert again.headline.startswith("self-consistency, same budget beats one: 100% against 50%")
    assert "not yet tried" not in again.headline


def test_a_budget_is_matched_in_dollars_where_prices_are_known(
    scripted: Any, tmp_path: Path
) -> None:
    """The judge's LM costs ten times as much a token: by tokens one sample too many would be
    bought.
    """
    weak = fm.lm("openai/weak", api_base=scripted.url, price=(1e-6, 1e-6))
    strong = fm.lm("openai/strong", api_base=scripted.url, price=(1e-5, 1e-5))
    questions = [ask(i) for i in range(8)]
    program = fm.Deliberation(["intuitive", "reasoner"], tie_break="majority", max_rounds=1)
    team = fm.evaluate(program, questions, lm=weak, tracking=False)
    seats = fm.Deliberation(
        ["intuitive", "reasoner"], tie_break="majority", max_rounds=1, lms={"reasoner": strong}
    )
    mixed = fm.evaluate(seats, questions, lm=weak, tracking=False)
    told: list[Match] = []
    fm.match_budget(mixed, questions, lm=[weak, strong], told=told.append, out=tmp_path / "mixed")
    by_weak, by_strong = told
    assert by_weak.samples == int(by_weak.cost_per_question / by_weak.cost_per_sample) > 5
    assert by_strong.samples == 1
    assert "US dollars per question" in by_weak.sentence
    fm.match_budget(team, questions, lm=weak, told=told.append, out=tmp_path / "team")
    assert told[-1].samples == int(told[-1].tokens_per_question / told[-1].tokens_per_sample)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"settings": {"temperature": 0.7}},
            "differ in sampling (two: temperature 0.7; one: temperature",
        ),
        ({"profile": {"layout": "plain"}}, 'differ in prompt layout (two: layout "plain"'),
    ],
)
def test_sampling_and_layout_stand_in_the_verdict(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    for name in ("one", "two"):
        run({1}, 10, tmp_path / name)
    about = json.loads((tmp_path / "two" / "run.json").read_text())
    about["lms"] = {
        "*": {"name": "x", "endpoint": "x", "profile": {"layout": "chat"}, "settings": {}}
    }
    (tmp_path / "one" / "run.json").write_text(json.dumps(about))
    for key, value in changed.items():
        about["lms"]["*"][key] = value
    (tmp_path / "two" / "run.json").write_text(json.dumps(about))
    (pair,) = fm.compare(tmp_path / "one", tmp_path / "two", names=["one", "two"])
    assert words in pair.verdict
    assert any(words in note for note in pair.notes)


def test_other_data_under_the_same_ids_is_said(tmp_path: Path) -> None:
    """Texts, options and gold answers are alike; a passage or a label may not be."""
    changed = [ask(i, meta={"page": 1}) for i in range(10)]
    found = fm.compare(run({1}, 10), run({1}, 10, questions=changed))[0]
    assert "differ in data (their files are not the same)" in found.verdict
    assert "differ in data (team: 20 questions; base: 10 questions)" in str(
        fm.compare(run({1}, 10), run({1}, 20), names=["base", "team"])
    )


def test_every_pair_is_tested_and_shown(tmp_path: Path) -> None:
    found = fm.compare(
        run(set(range(50)), 100),
        run(set(range(51)), 100),
        run(set(range(80)), 100),
        names=["base", "same", "best"],
    )
    assert [(pair.a, pair.b, pair.outcome) for pair in found] == [
        ("same", "base", "undecided"),
        ("best", "base", "a"),
        ("best", "same", "a"),
    ]
    page = fm.report(
        [run(set(range(50)), 100), run(set(range(51)), 100), run(set(range(80)), 100)],
        names=["base", "same", "best"],
        out=tmp_path / "r.html",
    )
    assert "Every pair" in (tmp_path / "r.html").read_text()
    assert page.figures["groups"][0]["comparison"]["recommendation"]["run"] == "best"


def test_questions_of_a_cluster_count_together() -> None:
    """40 of 200 questions gained, all of them in two of ten subjects: no evidence for new
    subjects.
    """
    questions = [ask(i, meta={"subject": f"s{i // 20}"}) for i in range(200)]
    base, team = run(set(), 200, questions=questions), run(set(range(40)), 200, questions=questions)
    plain = fm.compare(base, team, names=["base", "team"])[0]
    assert plain.outcome == "a"
    (pair,) = fm.compare(base, team, names=["base", "team"], cluster="subject")
    assert pair.clustered is not None
    assert (pair.clustered.clusters, pair.cluster, pair.outcome) == (10, "subject", "undecided")
    assert (pair.low, pair.high) == (plain.low, plain.high)  # of these subjects
    assert pair.interval.low < 0 < pair.low
    assert pair.p == pair.clustered.p == pytest.approx(0.1679, abs=0.001)
    assert "for new clusters of subject" in pair.verdict
    assert "for these clusters of subject" in pair.sure
    assert any("only 10 clusters" in note for note in pair.notes)
    assert any(
        "only 10 clusters" in note for note in fm.compare(base, team, team, cluster="subject").notes
    )
    for field, words in (("topic", "have no 'topic'"), ("kind", "have no 'kind'")):
        with pytest.raises(fm.UserError, match=words):
            fm.compare(base, team, cluster=field)


def test_data_sets_declare_what_belongs_together(tmp_path: Path) -> None:
    """Statements that come in pairs: each names its partner's id."""
    questions = [ask(i, meta={"pair_id": str(i ^ 1)}) for i in range(40)]
    for name, right in (("base", set()), ("team", set(range(8)))):
        run(right, 40, tmp_path / name, questions=questions)
        about = json.loads((tmp_path / name / "run.json").read_text())
        about["settings"]["data"] = "com2sense"
        (tmp_path / name / "run.json").write_text(json.dumps(about))
    (pair,) = fm.compare(tmp_path / "base", tmp_path / "team")
    assert pair.clustered is not None
    assert (pair.cluster, pair.clustered.clusters, pair.test) == ("pair_id", 20, "cluster-robust p")
    assert fm.compare(tmp_path / "base", tmp_path / "team", cluster="none")[0].clustered is None
