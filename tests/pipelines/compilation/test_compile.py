"""Compiling prompts: planted optima, budgets, held-out comparisons, each optimizer, protocol."""

import itertools
import json
import logging
import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import pytest
from planted import (
    KEY,
    answering,
    colours,
    compiled,
    digest,
    is_proposal,
    of_demos,
    of_instructions,
    proposing,
)

import folkmoot as fm
from folkmoot.modules.protocols.nearest import NearestDemos
from folkmoot.optimizers.prompts.candidates import prompts_of
from folkmoot.pipelines.compilation.card import KIND
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.signatures.strategies import Simple

WRITERS = ["copro", "mipro", "gepa", "infer_rules", "better_together"]
SHOWERS = ["labeled_few_shot", "bootstrap", "bootstrap_rs", "knn", "bootstrap_optuna"]
NAMES = [*SHOWERS, *WRITERS, "simba"]


def choices(count: int) -> list[fm.Question]:
    known: Any = {"choices": {"A": "x", "B": "y"}, "answer": "A"}
    return [fm.Question(id=f"q{n}", question=f"Which {n}?", **known) for n in range(count)]


def at_night(*case: Any) -> Any:
    return pytest.param(*case, marks=pytest.mark.nightly)


@pytest.mark.nightly
@pytest.mark.parametrize("name", WRITERS)
def test_the_sentence_that_answers_depend_on_is_found(scripted: Any, name: str) -> None:
    scripted.reply = of_instructions(varied=True)
    told = Simple.instructions
    given = fm.SingleAgent("simple")
    before = prompts_of(given)
    found = compiled(scripted.url, program=given, optimizer=name)
    result = found.compilation
    assert found is not given
    assert KEY in found.seat.predict.signature.instructions
    assert result.winner == "compiled"
    assert result.selection["winner"]["value"] == 1.0 > result.selection["given"]["value"]
    assert result.gain is True
    assert result.after["scores"]["accuracy"]["value"] == 1.0
    assert result.verdict.startswith("a gain: accuracy +")
    result.after = result.before  # as where both are equally good and long
    assert any("; after 100.0% [" in line for line in result.lines())
    assert (prompts_of(given), Simple.instructions) == (before, told)


@pytest.mark.parametrize("name", SHOWERS)
def test_demonstrations_that_answers_depend_on_are_found(scripted: Any, name: str) -> None:
    scripted.reply = of_demos()
    found = compiled(scripted.url, optimizer=name)
    assert found.compilation.winner == "compiled"
    assert found.compilation.gain is True
    if name == "knn":
        assert isinstance(found, NearestDemos)
        assert {one.question for one in found.pool} <= {q.question for q in colours(16, "t")}
    else:
        assert found.seat.predict.demos
        fields = {"question", "choices", "context", "kind", "answer"}
        assert all(set(demo.keys()) <= fields for demo in found.seat.predict.demos)


def test_only_right_answers_become_demonstrations(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = lambda body: answering(body, digest(body["messages"][-1]) % 2 == 0)
    given: Any = {"optimizer": "bootstrap", "validation": 0, "out": tmp_path}
    compiled(scripted.url, program=fm.SingleAgent("cot"), **given)
    gold = {q.question: q.answer for q in colours(16, "t")}
    rows = [json.loads(line) for line in (tmp_path / "candidates.jsonl").read_text().splitlines()]
    demos = [demo for row in rows for demo in row["prompts"]["seat.predict"]["demos"]]
    assert any(demo.get("reasoning") == "because" for demo in demos), "none was bootstrapped"
    assert all(demo["answer"] == gold[demo["question"]] for demo in demos)


@pytest.mark.parametrize("name", ["copro", *map(at_night, ("mipro", "gepa"))])
def test_without_a_better_candidate_the_given_program_is_kept(scripted: Any, name: str) -> None:
    def reply(body: dict[str, Any]) -> str:
        right = "number 1" in body["messages"][-1]["content"]
        return "rubbish ¯\\_(ツ)_/¯" if is_proposal(body) else answering(body, right)

    scripted.reply = reply
    found = compiled(scripted.url, optimizer=name, validation=3)
    assert found.compilation.winner == "given"
    assert prompts_of(found) == prompts_of(fm.SingleAgent("simple"))
    assert found.compilation.comparison["difference"] == 0
    # Nothing else was asked the held-out questions.
    assert [score.name for score in KIND.card(found.compilation.folder).scores] == ["accuracy"]
    assert found.compilation.gain is False
    assert "no gain" in found.compilation.verdict


@pytest.mark.parametrize(
    ("gain", "said"), [at_night(False, "a loss: "), (None, "9 of 9 answers of compiled were empty")]
)
def test_a_loss_on_held_out_questions_is_said(scripted, tmp_path, gain, said):
    """What is shown to be worse, or has no result, is handed over to those alone who insist."""

    def reply(body: dict[str, Any]) -> str:
        if is_proposal(body):
            return proposing(body, KEY)
        last = body["messages"][-1]["content"]
        if gain is None and KEY in last and "has t" not in last:
            return "I cannot help with that."
        return answering(body, ("has t" in last) == (KEY in last))

    scripted.reply = reply
    options = {"optimizer": "copro", "out": tmp_path / "out"}
    found = compiled(scripted.url, **options)
    result = found.compilation
    assert (result.winner, result.gain) == ("given", gain)
    assert KEY not in str(found.dump_state())
    assert result.verdict.startswith(said)
    assert result.verdict.endswith("is handed over (--keep compiled insists)")
    insisted = compiled(scripted.url, **options, keep="compiled")
    assert insisted.compilation.winner == "compiled"
    assert insisted.compilation.verdict.endswith(
        "; the compiled program is handed over all the same"
    )
    assert insisted.compilation.calls_made == result.calls_made
    assert KEY in str(insisted.dump_state())
    assert compiled(scripted.url, **options).compilation.verdict == result.verdict
    assert result.comparison["difference"] == -1.0
    assert len(result.comparison["only_b"]) == 9


def test_without_held_out_questions_no_gain_is_claimed(scripted: Any) -> None:
    scripted.reply = of_instructions()
    result = compiled(scripted.url, optimizer="copro", validation=0).compilation
    assert (result.winner, result.gain, result.comparison) == ("compiled", None, None)
    assert "no held-out questions" in result.verdict


def test_the_optimizer_never_sees_a_held_out_question(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = of_instructions()
    compiled(scripted.url, optimizer="mipro", out=tmp_path)
    proposals = [json.dumps(body) for body in scripted.bodies if is_proposal(body)]
    assert proposals
    assert not [text for text in proposals if "has v number" in text]
    assert not [text for text in proposals if "meta of" in text]
    rows = [json.loads(line) for line in (tmp_path / "candidates.jsonl").read_text().splitlines()]
    assert rows
    assert "has v number" not in json.dumps(rows)


def test_a_prompt_lm_of_its_own_gets_the_proposals(scripted: Any) -> None:
    from folkmoot.pipelines.testing.server import ScriptedServer

    scripted.reply = of_instructions()
    with ScriptedServer(of_instructions()) as writer:
        writing = fm.lm("openai/writer", api_base=writer.url)
        compiled(scripted.url, optimizer="copro", prompt_lm=writing)
        assert writer.bodies
        assert all(map(is_proposal, writer.bodies))
    assert not any(map(is_proposal, scripted.bodies))


@pytest.mark.parametrize("name", ["mipro", at_night("simba")])
def test_the_prompt_lm_is_told_of_the_program_without_source(scripted: Any, name: str) -> None:
    scripted.reply = of_instructions(varied=True, right_after=2)
    program = fm.Deliberation(["intuitive", "reasoner"], tie_break="judge", max_rounds=1)
    few: Any = {"train": 8, "validation": 3, "concurrency": 1, "budget": "150 calls"}
    compiled(scripted.url, optimizer=name, program=program, **few)
    asked = [body["messages"][-1]["content"] for body in scripted.bodies if is_proposal(body)]
    told = [text for text in asked if "## program_code ##" in text]
    assert told
    for text in told:
        page = text.split("[[ ## program_code ## ]]")[1].split("[[ ##")[0]
        assert '"tie_break": "judge"' in page
        assert all(f"Agent {seat}: question" in page for seat in ("intuitive", "reasoner", "judge"))
        assert not any(word in page for word in ("def ", "class ", "import ", "dspy."))
        assert len(page) < 6000


def protocols(folder: Path) -> dict[str, Any]:
    corpus = folder / "corpus.jsonl"
    corpus.write_text(json.dumps({"title": "Colour", "text": "t number 1 is blue."}) + "\n")
    there = fm.CorpusEnvironment(corpus, index_dir=folder)
    return {
        "cot": lambda: fm.SingleAgent("cot"),
        "decomposition": lambda: fm.SingleAgent("decomposition"),
        "self_consistency": lambda: fm.SingleAgent("self_consistency", samples=2),
        "ensemble": lambda: fm.Ensemble(["simple", "cot"]),
        "deliberation": lambda: fm.Deliberation(["intuitive", "retriever"], max_rounds=2),
        "causal": lambda: fm.CausalConsistency(2, 1, d_max=1),
        "team": lambda: fm.SupervisedTeam(["bold", "cautious"], there, max_steps=2, max_retries=1),
        "network": lambda: network(),
    }


def network() -> Any:
    import numpy as np

    from folkmoot.modules.network.config import NetworkConfig
    from folkmoot.modules.network.state import NetworkState
    from folkmoot.modules.network.strategy_network import StrategyNetwork

    config = NetworkConfig(agents=2, strategies=("simple", "cot"), hidden=2, heads=1)
    return StrategyNetwork(
        NetworkState.fresh(config, 4), lambda texts: np.ones((len(texts), 4), dtype=np.float32)
    )


# By day, optimizers that ask much have protocols that ask little.
PROTOCOL_NAMES = ["network", "decomposition", "ensemble", "causal"]
PROTOCOL_NAMES += ["deliberation", "cot", "self_consistency", "team"]
PAIRS = [(name, PROTOCOL_NAMES[place % len(PROTOCOL_NAMES)]) for place, name in enumerate(NAMES)]
REFUSED = [("knn", "network")]  # both choose anew for each question
ALL = itertools.product(NAMES, PROTOCOL_NAMES)
OTHERS = [at_night(*pair) for pair in ALL if pair not in PAIRS + REFUSED]


@pytest.mark.parametrize(("name", "protocol"), [*PAIRS, *OTHERS])
def test_optimizers_run_on_all(scripted: Any, tmp_path: Path, name: str, protocol: str) -> None:
    scripted.reply = of_instructions()
    given = protocols(tmp_path)[protocol]()
    out = tmp_path / "out"
    found = compiled(scripted.url, train=6, validation=2, program=given, optimizer=name, out=out)
    result = found.compilation
    assert result.winner in ("given", "compiled")
    assert result.candidates >= (1 if name == "simba" else 2)  # which needs answers that vary
    assert result.stopped is None
    assert result.calls_made <= len(scripted.bodies)
    with dspy.context(lm=fm.lm("openai/scripted", api_base=scripted.url)):
        loads = protocol not in ("team", "network")
        again = fm.load_program(out / "program") if loads else found
        asked = colours(1, "new")[0]
        assert again(**asked.inputs()).answer == found(**asked.inputs()).answer


@pytest.mark.parametrize(("name", "form"), [("bootstrap", "lm"), ("knn", "program")])
def test_a_teacher_writes_the_demonstrations(scripted: Any, name: str, form: str) -> None:
    scripted.reply = lambda body: answering(body, body["model"] == "teacher")
    lm = fm.lm("openai/teacher", api_base=scripted.url)
    teacher = lm if form == "lm" else fm.SingleAgent("simple", lm=lm)
    found = compiled(scripted.url, optimizer=name, teacher=teacher, validation=0, train=8)
    asked = [body["model"] for body in scripted.bodies]
    assert {"teacher", "scripted"} == {*asked}
    texts = [one.demos for one in found.predictors()] or [one.demos for one in found.pool]
    shown = [demo for demos in texts for demo in demos]
    assert found.compilation.winner == "given" or shown


@pytest.mark.parametrize("name", ["bootstrap", *map(at_night, (*SHOWERS[2:], "mipro"))])
def test_a_team_teaches_one_agent(scripted: Any, name: str) -> None:
    alone = of_demos()
    scripted.reply = lambda body: (
        answering(body, True) if body["model"] == "teacher" else alone(body)
    )
    lm = fm.lm("openai/teacher", api_base=scripted.url)
    team = fm.Deliberation(["intuitive", "reasoner"], lms={"intuitive": lm, "reasoner": lm})
    options: Any = {"optimizer": name, "teacher": team, "validation": 0, "train": 8}
    found = compiled(scripted.url, program=fm.SingleAgent("cot"), **options)
    asked = Counter(body["model"] for body in scripted.bodies)
    assert asked["teacher"] >= 2 * 4  # both agents answer each question that is learned from
    assert found.compilation.winner == "compiled"
    tried = (found.compilation.folder / "candidates.jsonl").read_text()
    assert "because" in tried  # what an agent of the team said for its answer


def test_a_teacher_that_does_not_fit_is_refused(scripted: Any) -> None:
    teacher = fm.lm("openai/teacher", api_base=scripted.url)
    with pytest.raises(fm.UserError, match="copro takes no teacher"):
        compiled(scripted.url, optimizer="copro", teacher=teacher)
    assert not scripted.bodies


class Even(dspy.Signature):  # type: ignore[misc]
    """Decide whether it is so."""

    question: str = dspy.InputField()
    answer: bool = dspy.OutputField(desc="whether the number is even")


def test_reanchor_fits_a_threshold_that_is_saved(scripted: Any, tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> str:
        number = int(re.findall(r"Is (\d+) even", body["messages"][-1]["content"])[-1])
        evidence = json.dumps({"noul": 0.6 if number % 2 else 0.9})
        asked = evidence if "noul" in str(body["messages"]) else "True"
        return f"[[ ## answer ## ]]\n{asked}\n\n[[ ## completed ## ]]"

    scripted.reply = reply
    answers = enumerate(["yes", "no"] * 12)
    known = [{"id": str(i), "question": f"Is {i} even?", "answer": said} for i, said in answers]
    even = [fm.Question(kind="boolean", **fields) for fields in known]
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    given: Any = {"lm": lm, "optimizer": "reanchor", "out": tmp_path, "tracking": False}
    found = fm.compile(dspy.Predict(Even), even, **given)
    assert 0.6 < found.fields["answer"]["threshold"] <= 0.9
    assert found.compilation.winner == "compiled"
    assert len(scripted.bodies) == 2 * 24  # each question with and without probabilities
    saved = json.loads((tmp_path / "program" / "state.json").read_text())
    assert saved["fields"] == found.fields


@pytest.mark.parametrize(("name", "calls"), [("copro", 30), at_night("gepa", 27)])
def test_a_budget_is_never_exceeded(scripted: Any, tmp_path: Path, name: str, calls: int) -> None:
    scripted.reply = of_instructions()
    (tmp_path / "compiled").mkdir()  # what an attempt with another outcome has left
    found = compiled(scripted.url, optimizer=name, budget=f"{calls} calls", out=tmp_path)
    assert not (tmp_path / "compiled").exists()
    result = found.compilation
    assert len(scripted.bodies) <= calls
    assert result.calls_made == len(scripted.bodies)
    assert result.stopped is not None
    assert f"budget {calls} calls" in result.stopped
    assert (tmp_path / "program" / "program.json").exists()
    stored = json.loads((tmp_path / "compile.json").read_text())["result"]
    assert stored["stopped"] == result.stopped


@pytest.mark.parametrize("better", [False, True])
def test_the_search_has_the_whole_budget_until_a_candidate_is_ahead(
    scripted: Any, better: bool
) -> None:
    scripted.reply = of_instructions() if better else of_instructions(share=100)
    found = compiled(scripted.url, optimizer="copro", budget="60 calls").compilation
    assert (found.winner == "compiled", found.gain) == (better, better)
    # The comparison of the winner is paid from what was kept for it.
    assert found.comparison["n"] == 9
    assert (found.calls_made == 60) == (not better)
    assert ("except for what is kept" in found.stopped) == better


@pytest.mark.nightly
def test_a_larger_budget_goes_on_where_a_smaller_one_ended(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = of_instructions()
    compiled(scripted.url, optimizer="copro", budget="30 calls", out=tmp_path / "a")
    found = compiled(scripted.url, optimizer="copro", budget="1000 calls", out=tmp_path / "a")
    paid = len(scripted.bodies)
    scripted.requests.clear()
    whole = compiled(scripted.url, optimizer="copro", out=tmp_path / "b")
    assert found.compilation.stopped is None
    assert prompts_of(found) == prompts_of(whole)
    assert paid == len(scripted.bodies)


def test_the_best_so_far_is_kept_when_the_budget_ends(scripted: Any) -> None:
    """The first proposal is the best one; the budget ends long before the optimizer does."""

    def reply(body: dict[str, Any]) -> str:
        if is_proposal(body):
            return proposing(body, KEY)
        return answering(body, KEY in body["messages"][-1]["content"])

    scripted.reply = reply
    found = compiled(scripted.url, optimizer="better_together", budget="110 calls")
    assert len(scripted.bodies) <= 110
    assert found.compilation.stopped is not None
    assert KEY in found.seat.predict.signature.instructions
    assert found.compilation.gain is True


@pytest.mark.parametrize("name", ["bootstrap_rs", *map(at_night, ("copro", "gepa"))])
def test_a_failing_call_is_a_wrong_answer_and_no_end(scripted: Any, name: str) -> None:
    right = of_instructions()

    def reply(body: dict[str, Any]) -> Any:
        if not is_proposal(body) and "has t number 3?" in body["messages"][-1]["content"]:
            return 400, {}, {"error": {"message": "too odd"}}
        return right(body)

    scripted.reply = reply
    result = compiled(scripted.url, optimizer=name).compilation
    assert result.stopped is None
    assert result.candidates > 1


def test_a_wrong_key_ends_it_at_once(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = lambda body: (401, {}, {"error": {"message": "no"}})
    with pytest.raises(fm.UserError, match="refused the key"):
        compiled(scripted.url, optimizer="copro", validation=0, out=tmp_path)
    assert len(scripted.bodies) <= 8


def test_bad_input_is_named_before_anything_is_asked(scripted: Any) -> None:
    train, held = colours(8, "t"), colours(4, "v")
    unlabelled = [fm.Question(id="x", question="Why?", kind="span")]
    lm = fm.lm("openai/scripted", api_base=scripted.url)

    def refused(*questions: Any, **arguments: Any) -> str:
        with pytest.raises(fm.UserError) as caught:
            fm.compile(fm.SingleAgent(), *questions, **{"lm": lm, "tracking": False, **arguments})
        return str(caught.value)

    assert "at least 2 training questions" in refused(train[:1], held)
    assert "no validation questions are left (there are none)" in refused(train, [])
    assert "1 question has no answer" in refused(train, unlabelled)
    assert "appears twice" in refused([*train, train[0]], held)
    assert "concurrency is 0" in refused(train, held, concurrency=0)
    assert "the budget is 100: give its unit, too" in refused(train, held, budget=100)
    assert "the seed is -1: give a whole number" in refused(train, held, seed=-1)
    assert not scripted.bodies


def test_another_compilation_in_the_folder_is_refused(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = of_demos()
    compiled(scripted.url, optimizer="labeled_few_shot", out=tmp_path)
    asked = len(scripted.bodies)
    few = {"optimizer": "labeled_few_shot"}
    for arguments, what in (
        ({"optimizer": "bootstrap"}, "optimizer"),
        (few | {"train": 15}, "training data"),
        (few | {"program": fm.SingleAgent("cot")}, "program"),
        (few | {"lm": fm.lm("openai/x", api_base=scripted.url)}, "LM"),
    ):
        with pytest.raises(fm.UserError, match=f"its {what} differs"):
            compiled(scripted.url, out=tmp_path, **arguments)
    assert len(scripted.bodies) == asked


def test_reanchor_is_refused_before_anything_is_paid(scripted: Any, tmp_path: Path) -> None:
    """A supervisor's `accept` is a decision, and fitting it crashed at the end."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"title": "Colour", "text": "blue"}) + "\n")
    there = fm.CorpusEnvironment(corpus, index_dir=tmp_path)
    team = fm.SupervisedTeam(["bold", "cautious"], there)
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    asked = [fm.Question(id=f"q{n}", question=f"Which {n}?", answer="blue") for n in range(20)]
    with pytest.raises(fm.UserError, match="fits the thresholds of decision outputs"):
        fm.compile(team, asked, lm=lm, optimizer="reanchor", tracking=False)
    assert not scripted.bodies


def test_dspys_ensemble_votes_on_our_programs(scripted: Any) -> None:
    voting = dspy.teleprompt.Ensemble(reduce_fn=dspy.majority)
    team = voting.compile([fm.SingleAgent("simple"), fm.SingleAgent("cot")])
    with dspy.context(lm=fm.lm("openai/scripted", api_base=scripted.url)):
        assert team(question="Where?", choices={"A": "bank", "B": "mall"}).answer in ("A", "B")


class Plain(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.think = dspy.Predict("question, choices -> answer")

    def forward(self, question: str, choices: dict[str, str]) -> dspy.Prediction:
        return self.think(question=question, choices=choices)


def test_own_proposals_are_booked_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What GEPA draws in threads of its own goes to the log, too."""
    asked = choices(12)

    def odd_ones_are_wrong(body: dict[str, Any]) -> str:
        number = int(re.findall(r"Which (\d+)", str(body["messages"]))[-1])
        return f"[[ ## answer ## ]]\n{'AB'[number % 2]}\n\n[[ ## completed ## ]]"

    with ScriptedServer(odd_ones_are_wrong) as server:
        lm = fm.lm("openai/scripted", api_base=server.url)
        options: dict[str, Any] = {"optimizer": "gepa", "out": tmp_path, "budget": "300 calls"}
        made = fm.compile(Plain(), asked, lm=lm, tracking=False, **options).compilation
        assert made.calls_made == len(server.requests)
    assert made.paid["prompt_tokens"]
    assert "Average Metric" not in capfd.readouterr().out
    assert "Average Metric" in (tmp_path / ".folkmoot" / "optimizer.log").read_text()
    assert (tmp_path / ".folkmoot" / "proposals.jsonl").read_text()


def test_two_compilations_at_once_leave_the_process(scripted: Any, tmp_path: Path) -> None:
    """They left sys.stdout and sys.stderr as closed files."""
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    asked = choices(24)
    before = (sys.stdout, sys.stderr, logging.getLogger("dspy").handlers[:])

    def compile_in(place: Path) -> None:
        options: dict[str, Any] = {"optimizer": "bootstrap_rs", "out": place, "lm": lm}
        fm.compile(fm.SingleAgent("simple"), asked, tracking=False, progress=False, **options)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(compile_in, tmp_path / name) for name in "ab"]:
            done.result()
    assert (sys.stdout, sys.stderr, logging.getLogger("dspy").handlers[:]) == before
    assert all((tmp_path / name / ".folkmoot" / "optimizer.log").read_text() for name in "ab")


@pytest.mark.parametrize("optimizer", ["mipro", at_night("simba")])
def test_a_finished_one_is_only_shown(scripted: Any, tmp_path: Path, optimizer: str) -> None:
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    asked = choices(24)
    options: dict[str, Any] = {"optimizer": optimizer, "out": tmp_path, "lm": lm, "cache": False}
    silent: dict[str, Any] = {"tracking": False, "progress": False}
    first = fm.compile(fm.SingleAgent("cot"), asked, **options, **silent)
    calls = len(scripted.bodies)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = fm.compile(fm.SingleAgent("cot"), asked, **options, **silent)
    assert len(scripted.bodies) == calls
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert again.compilation.verdict == first.compilation.verdict
    assert again.compilation.calls_made == first.compilation.calls_made > 0
    assert again.dump_state() == first.dump_state()
    lines = (tmp_path / "candidates.jsonl").read_text().splitlines()
    assert len({json.loads(line)["key"] for line in lines}) == len(lines)
