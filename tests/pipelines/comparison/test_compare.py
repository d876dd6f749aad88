"""Comparing runs: the figures by hand, and verdicts that claim no more than they show."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from refusals import refused
from repeats import row, write_run

import folkmoot as fm


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """Writes a run of n questions that is right on the given ones, silent or failed on others."""
    numbers = iter(range(1_000))

    def write(right: Iterable[int], n: int, name: str = "", **about: Any) -> Path:
        silent, fails = about.pop("silent", set()), about.pop("fails", set())
        right, change = {*right}, about.pop("change", lambda _: {})
        rows = []
        for q in range(n):
            fields: dict[str, Any] = {"meta": {}}
            if q in silent | fails:
                fields |= {"answer": None, "score": 0.0}
            if q in fails:
                fields |= {"error": "the endpoint is away", "decided_by": "error", "score": None}
            good = q in right and q not in silent | fails
            rows.append({**row(q, 0, good), **fields, **change(q)})
        folder = tmp_path / (name or f"run{next(numbers)}")
        return write_run(folder, rows, **{"program": {"program": folder.name}, **about})

    return write


Write = Callable[..., Path]
NAMES = ["base", "team"]


def ids(numbers: Iterable[int]) -> set[str]:
    return {f"q{number}" for number in numbers}


def test_the_figures_of_a_pair(run: Write) -> None:
    base, team = run(range(50), 100), run(range(40, 100), 100)
    (pair,) = fm.compare(base, team, names=NAMES)
    assert (pair.a, pair.b, pair.n) == ("team", "base", 100)
    assert (pair.accuracy_a, pair.accuracy_b) == (0.6, 0.5)
    assert pair.difference == pytest.approx(0.1)
    assert pair.low < 0 < pair.high
    assert ids(range(50, 100)) == set(pair.only_a)
    assert ids(range(40)) == set(pair.only_b)
    assert (pair.p, pair.test) == (pytest.approx(0.2945, abs=0.0001), "McNemar's mid-p")
    (exact,) = fm.compare(base, team, exact=True)
    assert exact.p == pytest.approx(0.343, abs=0.001)  # two-sided binomial of 40 against 50
    assert exact.test == "McNemar's exact p"
    assert "McNemar" not in pair.verdict
    assert "McNemar's mid-p is 0.29, n = 100" in pair.sure


@pytest.mark.parametrize(
    ("base", "team", "n", "verdict"),
    [
        (range(90), range(50), 100, "team does worse than base: 50% against 90% on 100 questions: "
         "−40 points, 95% interval −50 to −31."),
        (range(50), range(1, 55), 100, "team is ahead so far, undecided, as it may be "
         "chance. Against base: 54% against 50% on 100 questions: +4 points, 95% interval −1 to "
         "+10. 100 questions show differences from about 8 points up."),
        (range(50), range(50), 100, "team and base are level so far, undecided: 50% against 50% on "
         "100 questions: no question was right in only one of the two. 100 questions show "
         "differences from about 8 points up."),
        ((), range(4), 4, "team is ahead so far, undecided, as it may be chance. "
         "Against base: 100% against 0% on 4 questions: +100 points, 95% interval 0 to +100. 4 "
         "questions can show no difference at all."),
        ((), range(5), 5, "team beats base: 100% against 0% on 5 questions: +100 points, 95% "
         "interval +13 to +100."),
    ],
)  # fmt: skip
def test_verdicts_are_plain_figures(run: Write, base: Any, team: Any, n: int, verdict: str) -> None:
    assert fm.compare(run(base, n), run(team, n), names=NAMES)[0].verdict == verdict


def test_p_values_are_corrected_for_the_number_of_pairs(run: Write) -> None:
    base, some = run(range(40), 100), run(range(50), 100)
    one, three = fm.compare(base, some)[0], fm.compare(base, some, some, some)[0]
    assert one.p == three.p == one.p_adjusted
    assert three.p_adjusted == pytest.approx(6 * one.p)  # every pair of the four
    base, more, most = (run(range(*ends), 100) for ends in ((1, 52), (0, 56), (2, 55)))
    alone, among = fm.compare(base, more)[0], fm.compare(base, more, most)[0]
    assert (alone.outcome, among.outcome) == ("a", "undecided")
    assert alone.interval.low > 0
    assert among.interval.low == 0 == among.to_dict()["low"], "the interval never contradicts"
    assert "after Holm's correction" in among.sure


def test_span_questions_are_also_compared_by_f1(run: Write) -> None:
    def spans(answer: str, right: bool, f1: float) -> Path:
        fields = {"kind": "span", "choices": None, "gold": "Ada Byron King", "answer": answer}
        scores = {"em": float(right), "f1": f1}
        return run(range(8 if right else 0), 8, change=lambda _: {**fields, **scores})

    (pair,) = fm.compare(spans("Ada Byron King", True, 1.0), spans("Ada Byron", False, 0.8))
    assert pair.f1.difference == pytest.approx(0.8 - 1)
    assert pair.difference == -1
    assert fm.compare(run({1}, 3), run({2}, 3))[0].f1 is None


def test_prices_count_answers_from_a_cache_at_their_price(run: Write) -> None:
    """A rerun from the cache paid nothing, and takes what the first run took."""

    def usage(calls: int, cached: int = 0) -> dict[str, Any]:
        amounts = {"prompt_tokens": 10 * calls, "completion_tokens": 0, "cost_usd": 0.01 * calls}
        return {"calls": calls, "cached_calls": cached, **amounts}

    once = run(range(5), 10, change=lambda _: {"usage": usage(1)})
    thrice = run(range(5), 10, change=lambda _: {"usage": usage(3)})
    nothing = {"calls": 3, "cached_calls": 3, "prompt_tokens": 0, "completion_tokens": 0}
    free = {**nothing, "cost_usd": 0.0}
    again = run(range(5), 10, change=lambda _: {"usage": free, "takes": usage(3)})
    for other in (thrice, again):
        found = fm.compare(once, other, names=["one", "other"])
        ratios = (found[0].call_ratio, found[0].token_ratio, found[0].cost_ratio)
        assert ratios == pytest.approx((3, 3, 3))
        assert found.verdict.unit == "US dollars"
        assert found.verdict.prices == pytest.approx({"one": 0.01, "other": 0.03})
    assert (thrice and found.runs[1].usage["cost_usd"], found[0].seconds_ratio) == (0.0, None)
    unknown = run(range(5), 10, change=lambda _: {"usage": free})
    found = fm.compare(once, unknown)
    assert (found[0].token_ratio, found.verdict.unit) == (None, "calls")


def test_a_comparison_is_a_sequence_of_pairs_and_a_table(run: Write) -> None:
    found = fm.compare(run({1}, 9), run({2}, 9), run({3}, 9), names=["base", "one", "two"])
    pairs = [("one", "base"), ("two", "base"), ("two", "one")]
    assert (len(found), found.names) == (3, ["base", "one", "two"])
    assert [(pair.a, pair.b) for pair in found] == pairs
    assert found.against == found.pairs[:2]
    assert found[-1] is found.pairs[2]
    assert repr(found).splitlines()[:5] == [*found.table(), ""]
    assert found.headline.startswith("Nothing is shown to beat base. one and base are level so far")
    assert list(found.to_pandas()["a"]) == ["one", "two", "two"]
    runs = found.to_pandas("runs")
    assert isinstance(runs, pd.DataFrame)
    assert list(runs["score.value"]) == pytest.approx([1 / 9] * 3)
    assert "<pre>" in found._repr_html_()
    json.dumps(found.to_dict(), allow_nan=False)


def test_what_is_not_in_every_run_is_left_out_and_said(run: Write) -> None:
    found = fm.compare(run({1, 2}, 10), run({1, 15}, 20), names=NAMES)
    assert (found[0].n, found[0].accuracy_a, found[0].accuracy_b) == (10, 0.1, 0.2)
    assert found.notes == ["Only the 10 shared questions are compared: left out are 10 of team."]
    assert [one.left_out for one in found.runs] == [0, 10]
    killed = fm.compare(run({1, 2}, 10), run({2, 3}, 4, questions=10), names=NAMES)
    assert (killed[0].n, killed[0].only_a, killed[0].only_b) == (4, ("q3",), ("q1",))
    assert "team is not finished: 4 of its 10 questions have a row." in killed.notes


def test_runs_are_named_by_program_then_by_its_rest_lm_and_folder(run, tmp_path, monkeypatch):
    def single(strategy: str, lm: str = "openai/small", name: str = "") -> Path:
        lms = {"*": {"name": lm, "endpoint": lm, "profile": {}, "settings": {}}}
        return run({1}, 3, name=name, program={"program": "single", "strategy": strategy}, lms=lms)

    deliberation = {"roles": ["a", "b"], "tie_break": "judge", "max_rounds": 3}
    talk = run({1}, 3, program={"program": "deliberation", **deliberation})
    assert fm.compare(single("simple"), talk).names == ["1 agent", "2 agents + judge"]
    names = ["1 agent (simple)", "1 agent (cot)"]
    assert fm.compare(single("simple"), single("cot")).names == names
    by_lm = fm.compare(single("cot"), single("cot", "openai/large"))
    assert by_lm.names == ["1 agent (openai/small)", "1 agent (openai/large)"]
    by_folder = fm.compare(single("cot", name="x"), single("cot", name="y"))
    assert by_folder.names == ["1 agent (x)", "1 agent (y)"]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # the names of such folders say nothing
    unnamed = fm.compare(single("cot", name="folkmoot-x"), single("cot", name="folkmoot-y"))
    assert unnamed.names == ["1 agent.0", "1 agent.1"]
    assert fm.compare(talk, talk).names == ["2 agents + judge.0", "2 agents + judge.1"]
    legend = ["1 agent: simple", "2 agents + judge: a, b; at most 3 rounds"]
    assert fm.compare(single("simple"), talk).legend == legend


def test_the_baseline_is_chosen_by_folder_name_or_place(run: Write, tmp_path: Path) -> None:
    one, two = run({1}, 5, name="one"), run({2}, 5, name="two")
    for baseline in ("2", "team", str(two), f"{two}/"):
        assert fm.compare(one, two, names=NAMES, baseline=baseline).names == ["team", "base"]


@pytest.mark.parametrize(
    ("runs", "options", "words"),
    [
        ([None], {}, r"a run is None: pass an evaluation, or the name of the folder"),
        (["nowhere"], {}, "there is no folder nowhere"),
        ([], {}, "at least two runs"),
        (["b"], {"names": ["one"]}, "give each a name of its own"),
        (["b"], {"baseline": "three"}, "there is no run 'three'"),
        (["b"], {"cluster": "topic"}, "have no 'topic' in their meta"),
        (["b"], {"lm": "openai/x"}, "--lm says how to run a baseline"),
        (["other"], {}, "share no question"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(run, tmp_path, runs, options, words):
    first = run({1}, 3, name="a")
    run({1}, 3, name="b")
    run({1}, 3, name="other", change=lambda q: {"id": f"x{q}"})
    places = [tmp_path / one if one in ("b", "other") else one for one in runs]
    refused(words, fm.compare, first, *places, **options)


def test_a_run_that_failed_gets_no_verdict_and_its_failures_are_told(run: Write) -> None:
    base = run(range(50), 100)
    some, half = run(range(90), 100, fails={99}), run((), 100, fails={*range(50)})
    found = fm.compare(base, some, half, names=["base", "some", "half"])
    assert found[0].verdict.startswith("some beats base: ")
    failed = "half failed on 50 of 100 questions, more than 5%, so its score is no result."
    assert found[1].verdict == f"No verdict on half and base: {failed}"
    assert found[1].verdict in found.lines()
    assert "no verdict" in found.table()[3]
    assert [one.errors for one in found.runs] == [0, 1, 50]
    again = "as wrong: folkmoot evaluate --retry-errors asks again."
    counted = ["1 of the 100 questions of some failed and counts"]
    counted.append("50 of the 100 questions of half failed and count")
    assert found.notes == [f"{told} {again}" for told in counted]


@pytest.mark.parametrize(
    ("silent", "outcome"),
    [(0, "a"), (5, "a"), (6, "not_comparable")],  # of 100: up to 5% are the program's own fault
)
def test_above_5_percent_unreadable_is_no_verdict(run: Write, silent: int, outcome: str) -> None:
    team, base = run(range(90), 100), run(range(50), 100, silent={*range(100 - silent, 100)})
    (pair,) = fm.compare(base, team, names=NAMES)
    (turned,) = fm.compare(team, base, names=["team", "base"])
    assert (pair.outcome, turned.outcome) == (outcome, {"a": "b"}.get(outcome, outcome))
    if outcome == "not_comparable":
        assert ": 6 of 100 answers of base were empty or could not be read" in pair.verdict


def test_cut_off_replies_count_though_an_answer_was_read(run: Write, tmp_path: Path) -> None:
    settings = {"max_tokens": 1024}
    lms = {"*": {"name": "thinker", "endpoint": "t", "profile": {}, "settings": settings}}
    base = run(range(50), 100)
    for cut, outcome in ((5, "a"), (6, "not_comparable")):
        team = run(range(90), 100, change=lambda q, cut=cut: {"truncated": q < cut}, lms=lms)
        (pair,) = fm.compare(base, team, names=NAMES)
        assert pair.outcome == outcome
    cause = "6 of 100 replies of team were cut off at 1,024 tokens: raise max_tokens"
    assert pair.verdict == f"No verdict on team and base: {cause}."
    assert f"{cause}." in pair.notes
    page = fm.report([base, team], names=NAMES, out=tmp_path / "r.html", tracking=False)
    assert page.headline == pair.verdict
    assert "beats" not in (tmp_path / "r.html").read_text()


def test_unreadable_answers_that_could_undo_a_difference_leave_it_open(run: Write) -> None:
    def pair(base: Path, team: Path) -> fm.Pair:
        return fm.compare(base, team, names=NAMES)[0]

    far = pair(run(range(50), 100, silent={*range(50, 55)}), run(range(60), 100))
    assert far.outcome == "a"  # five to none is still a difference
    tight = pair(run(range(50), 100, silent={*range(50, 54)}), run(range(57), 100))
    assert (tight.p_adjusted < 0.05, tight.outcome) == (True, "not_comparable")
    assert "the difference would be +3 instead of +7 points, and not shown" in tight.verdict
    own = pair(run(range(50), 100), run(range(57), 100, silent={*range(90, 94)}))
    assert own.outcome == "a"  # the winner's are wrong already


def lms(settings: Any = None, layout: str = "chat", **seats: str) -> dict[str, Any]:
    """The LMs of a run by seat."""
    known = {"profile": {"layout": layout}, "settings": settings or {}}
    named = (seats or {"*": "x"}).items()
    return {seat: {"name": name, "endpoint": name, **known} for seat, name in named}


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"lms": lms({"temperature": 0.7})}, "sampling (team: temperature 0.7; base: temperature"),
        ({"lms": lms(layout="plain")}, 'prompt layout (team: layout "plain"; base: layout "chat")'),
        ({"lms": lms(judge="strong", reasoner="x")}, "LM (team: strong as judge, x as reasoner;"),
        ({"lms": {"*": lms()["*"] | {"endpoint": "x at b"}}}, "LM (team: x at b; base: x)"),
        ({"data_fingerprint": "1"}, "data (their files are not the same)"),
        ({"data_fingerprint": "1", "questions": 20}, "data (team: 20 questions; base: 10"),
    ],
)  # fmt: skip
def test_what_else_differs_stands_in_the_verdict(run: Write, about: Any, words: str) -> None:
    base = run({1}, 10, lms=lms())
    team = run({1}, 10, **{"lms": lms(), **about})
    (pair,) = fm.compare(base, team, names=NAMES)
    assert f"team and base also differ in {words}" in pair.verdict
    assert any(words in note for note in pair.notes)


def test_questions_of_a_cluster_count_together(run: Write) -> None:
    """40 of 200 questions gained, all of them in two of ten subjects: no evidence for new ones."""

    def subject(q: int) -> dict[str, Any]:
        return {"meta": {"subject": f"s{q // 20}"}}

    base, team = run((), 200, change=subject), run(range(40), 200, change=subject)
    plain = fm.compare(base, team, names=NAMES)[0]
    (pair,) = fm.compare(base, team, names=NAMES, cluster="subject")
    assert plain.outcome == "a"
    assert (pair.clustered.clusters, pair.cluster, pair.outcome) == (10, "subject", "undecided")
    assert (pair.low, pair.high) == (plain.low, plain.high)  # of these subjects
    assert pair.interval.low < 0 < pair.low
    assert pair.p == pair.clustered.p == pytest.approx(0.1679, abs=0.001)
    assert "for new clusters of subject" in pair.verdict
    assert "for these clusters of subject" in pair.sure
    few = "There are only 10 clusters of subject"
    assert any(few in note for note in pair.notes)
    assert any(few in note for note in fm.compare(base, team, team, cluster="subject").notes)


def test_data_sets_declare_what_belongs_together(run: Write) -> None:
    """Statements that come in pairs: each names its partner's id."""
    given: Any = {"change": lambda q: {"meta": {"pair_id": f"q{q ^ 1}"}}}
    given["settings"] = {"data": "com2sense"}
    base, team = (run(right, 40, **given) for right in ((), range(8)))
    (pair,) = fm.compare(base, team)
    assert (pair.cluster, pair.clustered.clusters, pair.test) == ("pair_id", 20, "cluster-robust p")
    assert fm.compare(base, team, cluster="none")[0].clustered is None


def test_variants_belong_to_the_question_that_they_name(run: Write) -> None:
    """Every fourth question has no template; the three after it name it."""

    def template(q: int) -> dict[str, Any]:
        return {"meta": {"of": f"q{q - q % 4}"} if q % 4 else {}}

    def topic(q: int) -> dict[str, Any]:
        return {"meta": {"topic": q % 5}}

    given: Any = {"change": template, "settings": {"data": "x", "cluster": "of"}}
    base, team = (run(right, 40, **given) for right in ((), range(8)))
    by_template: Any = fm.compare(base, team)[0].clustered
    assert by_template.clusters == 10
    base, team = (run(right, 40, change=topic) for right in ((), range(8)))
    by_topic: Any = fm.compare(base, team, cluster="topic")[0].clustered
    assert by_topic.clusters == 5  # 0 is a topic, too


def test_different_metrics_are_not_compared(run: Write) -> None:
    metric = {"name": "rubric", "spec": None, "code": "1", "low": 0, "high": 1, "rate": False}
    found = fm.compare(run({1}, 10), run({1, 2}, 10, metric=metric), names=NAMES)
    assert found[0].outcome == "not_comparable"
    assert "different metrics, team by rubric and base by accuracy: evaluate both" in found.headline
    assert found.recommendation is None
    assert found[0].to_dict()["difference"] is None


def test_comparing_imports_nothing_heavy(run: Write) -> None:
    code = (
        "import sys; from folkmoot.pipelines.cli.app import app\n"
        "for more in ([], ['--pairs'], ['--json', '--cluster', 'none']):\n"
        "    try: app(['compare', *sys.argv[1:], *more])\n"
        "    except SystemExit as end: assert not end.code, more\n"
        "    print('loaded', *sorted(HEAVY & {*sys.modules}), file=sys.stderr)"
    )
    heavy = {"dspy", "mlflow", "torch", "litellm", "optuna", "pandas", "scipy.stats"}
    code = code.replace("HEAVY", repr(heavy | {"sqlite3", "ssl"}))
    words = [sys.executable, "-c", code, str(run({1}, 5)), str(run({2}, 5))]
    done = subprocess.run(words, capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if line.startswith("loaded")]
    assert (done.returncode, said) == (0, ["loaded"] * 3), done.stderr


@pytest.mark.parametrize(
    ("right", "n", "margin", "shown"),
    [
        (range(100), 133, 0.02, True),  # no question differs: 133 are enough for 2 points
        (range(100), 132, 0.02, False),
        (range(100), 133, "2", True),  # the command line gives points
        (range(50, 100), 1000, 0.02, False),  # 5 points worse
        (range(50, 100), 1000, 0.1, True),
    ],
)
def test_a_margin_asks_whether_a_run_is_at_most_so_much_worse(run, right, n, margin, shown):
    team, one = run(range(100), n), run(right, n)
    comparison = fm.compare(team, one, names=["team", "one"], margin=margin)
    (pair,) = comparison
    assert pair.no_worse is shown
    assert (pair.least > -pair.margin) is shown
    (sentence,) = [line for line in comparison.lines() if "at most" in line]
    assert sentence.startswith(f"one is {'shown' if shown else 'not shown'} to be at most")
    assert fm.compare(team, one)[0].no_worse is None


def test_a_margin_is_a_share_of_the_error_for_each_run_beside_the_reference(run: Write) -> None:
    team, one, other = (run(range(100), 133) for _ in range(3))
    pairs = fm.compare(team, one, other, margin=0.02)[:2]
    assert [pair.no_worse for pair in pairs] == [False, False]
    for wrong in (0, "-2", "x", 1.5, True):
        refused("give points such as 5", fm.compare, team, one, margin=wrong)


@pytest.mark.plots
def test_a_comparison_is_drawn_unless_it_has_no_verdict(run: Write, tmp_path: Path) -> None:
    metric = {"name": "rubric", "spec": None, "code": "1", "low": 0, "high": 1, "rate": False}
    drawn = fm.compare(run({1}, 10), run(range(8), 10), names=NAMES).plot(tmp_path / "drawn.svg")
    assert "points against base" in drawn.read_text()
    with pytest.raises(fm.UserError, match="nothing to draw: no program has a verdict against"):
        fm.compare(run({1}, 10), run({2}, 10, metric=metric)).plot(tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()
