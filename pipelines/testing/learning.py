"""The part of the contract about what is learned: LMs of agents, instructions, demonstrations,
copies and files.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory

import dspy

from ...modules.agents.retrieval import environments_in
from ...modules.protocols.program import Program
from ...modules.protocols.registry import PROTOCOLS
from ...modules.reading.answers import same_answer
from ...modules.reading.question import Question
from ..programs.saved import load_program
from .base import Contract, check_rows, check_same, model
from .replies import agreeing, disputed, garbled, mixed, one_of_each_kind, text_of
from .server import ScriptedServer


class Learning(Contract):
    def test_every_seat_asks_its_own_lm_in_its_own_words(self) -> None:
        """Each seat takes an LM and each predictor instructions: its calls go there and
        carry them.
        """
        program, questions = self.program(), one_of_each_kind(self.questions())
        predictors, seats = dict(program.named_predictors()), program.seats()
        assert predictors, (
            "named_predictors() is empty: keep Seats in attributes of the program, or in lists"
        )
        rules = _instruct(program)
        seen: set[str] = set()
        with ScriptedServer() as server:
            lms = {name: model(server, f"seat-{place}") for place, name in enumerate(seats)}
            program.assign(lms)
            # Some predictors speak only in a dispute, or after a reply that nobody can read.
            for reply in (agreeing, disputed, garbled):
                server.reply = reply(questions)
                check_rows(
                    list(self.run(server, program=program, questions=questions).rows), questions
                )
        owner = {id(seat.predict): name for name, seat in seats.items()}
        for body in server.bodies:
            text = text_of(body)
            named = [name for name, rule in rules.items() if rule in text]
            assert len(named) == 1, (
                f"a call has the instructions of {named}: each has those of one predictor"
            )
            seen.update(named)
            # A predictor of no seat asks the LM of the run.
            seat = owner.get(id(predictors[named[0]]))
            wanted = lms[seat].model.partition("/")[2] if seat else "test"
            assert body["model"] == wanted, (
                f"a call of the agent {seat!r} went to {body['model']}, not {wanted}"
            )
        unheard = sorted(rules.keys() - seen - set(self.seldom_asked))
        assert not unheard, (
            f"changed instructions of {', '.join(unheard)} are in no call, whatever was answered"
        )

    def test_saved_and_loaded_it_answers_the_same(self) -> None:
        """Instructions and demonstrations survive JSON text, and `describe()` says the rest."""
        questions, program = self.asked()[:6], self.program()
        try:
            described = json.dumps(program.describe())
        except (TypeError, ValueError) as problem:
            raise AssertionError(f"describe() cannot be written as JSON: {problem}") from None
        # A description that changes by itself would take each run for another program.
        again = json.dumps(self.program().describe())
        assert described == again, (
            f"describe() differs between equal programs: {described} and {again}"
        )
        _demonstrate(program, questions, 2)
        rules = _instruct(program)
        loaded = self.program()
        loaded.load_state(json.loads(json.dumps(program.dump_state())))
        for name, predictor in loaded.named_predictors():
            assert rules[name] in predictor.signature.instructions, (
                f"{name} has lost its changed instructions"
            )
            assert len(predictor.demos) == 2, (
                f"{name} has {len(predictor.demos)} of its 2 demonstrations"
            )
        # Requests are compared, too: an answer may be the same by chance.
        rows, sent = [], []
        for twin in (program, loaded):
            with ScriptedServer(mixed(questions)) as server:
                rows.append(list(self.run(server, program=twin, questions=questions, seed=7).rows))
            sent.append(Counter(json.dumps(body, sort_keys=True) for body in server.bodies))
        assert sent[0] == sent[1], (
            "saved and loaded, the program sends other requests: keep state in predictors"
        )
        check_same(rows[0], rows[1], "before and after saving")
        assert _shows_demonstrations(server), "demonstrations are in no call"

    def test_it_is_found_and_loaded_by_its_name(self) -> None:
        """A saved folder names the protocol; its settings make an equal program. A protocol that
        no package registers is given by its class.
        """
        program = self.program()
        described = program.describe()
        name = str(described["program"])
        found = None if "class" in described else PROTOCOLS.find(name)
        # An environment is no part of a saved program: who loads it hands it over.
        places = {place.fingerprint: place for place in environments_in(program)}
        with TemporaryDirectory() as folder:
            program.save(folder)
            twin = load_program(
                folder,
                environment=places or None,
                protocols={} if found else {name: type(program)},
                **self.load_with(),
            )
        assert type(twin) is type(program), (
            f"the name {name!r} finds a {type(twin).__name__}, not a {type(program).__name__}"
        )
        assert twin.describe() == described, (
            f"loaded by its name, {name}, the program describes itself otherwise"
        )
        assert list(twin.seats()) == list(program.seats()), (
            f"loaded by its name, {name}, the program has other agents: describe() leaves a "
            "setting out"
        )

    def test_copies_keep_the_lms_of_seats(self) -> None:
        """`deepcopy` keeps all, `reset_copy` all but demonstrations; both leave the
        original alone.
        """
        question = self.asked()[0]
        ways: dict[str, Callable[[Program], Program]] = {
            "copy.deepcopy(program)": copy.deepcopy,
            "program.deepcopy()": Program.deepcopy,
            "program.reset_copy()": Program.reset_copy,
        }
        for way, copied in ways.items():
            program = self.program()
            _demonstrate(program, self.asked(), 1)
            with ScriptedServer(agreeing([question])) as server:
                lms = {
                    name: model(server, f"seat-{place}")
                    for place, name in enumerate(program.seats())
                }
                program.assign(lms)
                twin = copied(program)
                assert twin.describe() == program.describe(), f"{way} describes itself otherwise"
                for name, seat in twin.seats().items():
                    kept_lm = getattr(seat.predict.lm, "model", None)
                    assert kept_lm == lms[name].model, f"{way} loses the LM of the agent {name!r}"
                for predictor in twin.predictors():
                    kept = 0 if "reset" in way else 1
                    assert len(predictor.demos) == kept, (
                        f"{way} has {len(predictor.demos)} demos, not {kept}"
                    )
                check_rows(
                    list(self.run(server, program=twin, questions=[question]).rows), [question]
                )
                asked = {body["model"] for body in server.bodies}
                assert "test" not in asked, f"{way} asks the LM of the run, not those of its agents"

    def test_an_optimizer_can_teach_it(self) -> None:
        """DSPy's BootstrapFewShot gives every predictor demonstrations, which are then shown."""
        questions, program = self.asked(), self.program()
        optimizer = dspy.BootstrapFewShot(
            metric=_right, max_bootstrapped_demos=2, max_labeled_demos=4, max_errors=1
        )
        with ScriptedServer(agreeing(questions)) as server:
            with dspy.context(lm=model(server)):
                compiled = optimizer.compile(program, trainset=questions)
            taught = list[dspy.Example]()
            for name, predictor in compiled.named_predictors():
                assert predictor.demos, f"the optimizer gave {name} no demonstrations"
                taught += predictor.demos
            # DSPy marks in this way what it did not take from the labels.
            assert any(demo.get("augmented") for demo in taught), (
                "the optimizer made no demonstration of the program's own answers: ask through "
                "Seat.ask"
            )
            server.requests.clear()
            rows = list(self.run(server, program=compiled).rows)
        check_rows(rows, questions)
        assert _shows_demonstrations(server), "the optimizer's demonstrations are in no call"


def _shows_demonstrations(server: ScriptedServer) -> bool:
    """Return whether a request has more than a system's and a user's message: a demonstration adds
    a question and its answer.
    """
    return any(len(body["messages"]) > 2 for body in server.bodies)


def _demonstrate(program: Program, questions: Sequence[Question], k: int) -> None:
    for predictor in program.predictors():
        predictor.demos = list(map(dspy.Example, questions[:k]))


def _instruct(program: Program) -> dict[str, str]:
    """Add a rule to the instructions of every predictor; the rules by predictor name."""
    rules = {}
    for place, (name, predictor) in enumerate(program.named_predictors()):
        rules[name] = f"Heed rule {place}x."
        instructions = predictor.signature.instructions
        predictor.signature = predictor.signature.with_instructions(f"{instructions} {rules[name]}")
    return rules


def _right(example: dspy.Example, prediction: dspy.Prediction, trace: object = None) -> bool:
    return same_answer(prediction.answer, example.answer, example.kind)
