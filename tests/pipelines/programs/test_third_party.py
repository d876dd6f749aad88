"""Programs, strategies, environments, … of others: by entry point, and as `module:Name`."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest

import folkmoot as fm
from folkmoot.modules.base.registry import FUNCTIONS, Registry
from folkmoot.modules.protocols.deliberation.replay import replay
from folkmoot.modules.protocols.deliberation.tie_breaks import TIE_BREAKS
from folkmoot.modules.protocols.registry import PROTOCOLS
from folkmoot.modules.protocols.strategies import STRATEGIES
from folkmoot.optimizers.prompts.optimizers import OPTIMIZERS, optimizer_of
from folkmoot.pipelines.cli.command import ATTACHED
from folkmoot.pipelines.logs.formats import OTHERS
from folkmoot.pipelines.programs.build import ENVIRONMENTS, environment_of
from folkmoot.pipelines.programs.resolve import program_of
from folkmoot.pipelines.testing.server import ScriptedServer

SOURCE = '''
"""A small package that adds one of each."""
from dataclasses import dataclass
from typing import Annotated

import dspy
from typer import Option
import folkmoot as fm
from folkmoot.modules.agents.seat import Seat
from folkmoot.modules.environment import Environment, Page
from folkmoot.modules.protocols.declaration import Protocol, comma_items
from folkmoot.modules.protocols.program import prediction_of
from folkmoot.optimizers.prompts.optimizers import PromptOptimizer
from folkmoot.pipelines.base.request import Request
from folkmoot.pipelines.cli.command import Command
from folkmoot.pipelines.cli.options import View
from folkmoot.pipelines.logs.answers import LogAnswer
from folkmoot.pipelines.logs.formats import Format
from folkmoot.signatures.strategies import Answering


class Queue(fm.Program):
    """Asks roles one after the other; the first readable answer stands."""

    protocol = Protocol(
        "queue", "queue:critic,reasoner", lambda parts: {"roles": comma_items(parts)},
    )

    def __init__(self, roles):
        super().__init__()
        self.roles = list(roles)
        self.agents = [Seat(role, fm.ROLES[role].signature) for role in roles]

    def describe(self):
        return {"program": "queue", "roles": self.roles}

    async def solve(self, task):
        turns = []
        for agent in self.agents:
            turns.append(await agent.ask(task))
            if turns[-1].answer is not None:
                break
        answer = turns[-1].answer
        return prediction_of(task, answer, "none" if answer is None else "first", turns)


class Quiet(fm.SingleAgent):
    """A single agent that inherits all it says of itself."""


class Doubt(Answering):
    """Doubt first. Then answer the question."""

    doubts: str = dspy.OutputField()
    answer: str = dspy.OutputField()


doubting = fm.Strategy(Doubt)


class Shelf(Environment):
    """One page."""

    source = "shelf"

    def __init__(self, title="Bank"):
        self.title = title

    async def fetch(self, title):
        if title != self.title:
            return None
        return Page(self.title, "A bank keeps things.", self.source)

    async def closest(self, query, n):
        return [self.title][:n]


def _first(bench):
    made = dspy.LabeledFewShot(k=1)
    return [made.compile(bench.student, trainset=list(bench.learn))]


def last_word(turns):
    """The answer of whoever spoke last."""
    return turns[-1]["answer"]


@dataclass
class Greeting(Request):
    """Say hello."""

    name: Annotated[str, Option(help="Whom to greet.")] = "all"


greet = Command(Greeting, View, lambda request, view: print(f"hello {request.name}"))


def _tally(path):
    for place, line in enumerate(path.read_text().splitlines()[1:]):
        yield LogAnswer(f"{path}, line {place}", f"q{place}", "me", line, line == "A")


tally = Format("tally", (".tally",), frozenset(), _tally)


first_demo = PromptOptimizer(
    "first_demo", "shows one question", {}, _first, lambda n: (0, 0), demonstrates=True, learns=True
)
'''
ENTRY_POINTS = """
[folkmoot.programs]
queue = {module}:Queue
quiet = {module}:Quiet
broken = {module}:nothing

[folkmoot.strategies]
doubt = {module}:Doubt
doubting = {module}:doubting

[folkmoot.environments]
shelf = {module}:Shelf

[folkmoot.optimizers]
first_demo = {module}:first_demo

[folkmoot.tie_breaks]
last_word = {module}:last_word

[folkmoot.commands]
greet = {module}:greet
runs = {module}:greet

[folkmoot.functions]
last_word = {module}:last_word

[folkmoot.logs]
tally = {module}:tally
"""
REGISTRIES: list[Registry] = [PROTOCOLS, STRATEGIES, ENVIRONMENTS, OPTIMIZERS, TIE_BREAKS]
REGISTRIES += [ATTACHED, FUNCTIONS, OTHERS]
TALK = ["intuitive", "reasoner"]


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test adds to the registries is taken out again, and so are its modules and paths."""
    known = [set(one) for one in REGISTRIES]
    modules, path = set(sys.modules), list(sys.path)
    yield
    for registry, names in zip(REGISTRIES, known, strict=True):
        for name in set(registry) - names:
            del registry[name]
    for name in {name for name in sys.modules if name.startswith("extra_")} - modules:
        del sys.modules[name]
    sys.path[:] = path


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package as pip installs it: a module, and a dist-info folder with its entry points."""
    site = tmp_path / "site"
    about = site / "extra_moot-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "extra_moot.py").write_text(SOURCE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: extra-moot\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS.format(module="extra_moot"))
    monkeypatch.syspath_prepend(str(site))
    return site


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a module of one's own, which nothing registers."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "extra_mine.py").write_text(SOURCE.replace('"queue"', '"mine"'))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.usefixtures("installed")
def test_an_installed_package_adds_one_of_each() -> None:
    program = program_of("queue:critic,reasoner")
    described = {"program": "queue", "roles": ["critic", "reasoner"]}
    assert (type(program).__name__, program.describe()) == ("Queue", described)
    fields = fm.SingleAgent("doubt").seat.predict.signature.output_fields
    assert list(fields) == ["doubts", "answer"]
    assert program_of("ensemble:doubting,simple:majority").names == ["doubting", "simple"]
    assert environment_of("shelf").title == "Bank"
    assert environment_of("shelf:Soup").title == "Soup"
    team = program_of("team:bold", {"environment": "shelf:Soup"})
    assert team.retrieval.environment.title == "Soup"
    assert optimizer_of("first_demo", "heavy").presets["heavy"] == {}


@pytest.mark.usefixtures("here")
def test_what_nobody_registers_is_named_by_module_and_name() -> None:
    program = program_of("extra_mine:Queue:critic,reasoner")
    assert program.describe()["roles"] == ["critic", "reasoner"]
    assert program_of({"program": "extra_mine:Queue", "roles": ["critic"]}).roles == ["critic"]
    assert program_of("single:extra_mine:doubting").strategy == "extra_mine:doubting"
    known = program_of({"program": "single", "strategy": "extra_mine:Doubt"})
    assert known.strategy == "extra_mine:Doubt"
    assert environment_of("extra_mine:Shelf:Soup").title == "Soup"
    assert optimizer_of("extra_mine:first_demo", "light").name == "extra_mine:first_demo"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("given", [None, "a program", ["no student"]])
def test_an_optimizer_that_returns_no_programs_is_named(given: Any) -> None:
    mine = replace(optimizer_of("extra_mine:first_demo", "light"), run=lambda bench: given)
    module: Any = sys.modules["extra_mine"]
    module.careless = mine
    bench: Any = None
    with pytest.raises(fm.UserError, match="extra_mine:careless gives something else than a list"):
        optimizer_of("extra_mine:careless", "light").run(bench)
    with pytest.raises(fm.UserError, match="the optimizer is a PromptOptimizer: give a name"):
        optimizer_of(mine, "light")


def quarrel(program: Any) -> Any:
    """The prediction of a dialogue whose first speaker says A, the second B, in each round."""
    answers = iter("AB" * 9)
    said = {"reasoning": "so", "explanation": "so"}
    with (
        ScriptedServer(lambda _: json.dumps({**said, "answer": next(answers)})) as server,
        dspy.context(lm=fm.lm("openai/test", api_base=server.url)),  # the program is saved without
    ):
        return program(question="Which?", choices=["one", "two"])


def earliest(turns: list[dict[str, Any]]) -> str | None:
    """The first answer of all."""
    assert [(turn["agent"], turn["round"]) for turn in turns[:2]] == [(role, 1) for role in TALK]
    assert all(turn["text"] == "so" for turn in turns)
    return turns[0]["answer"]  # type: ignore[no-any-return]


def test_a_tie_break_is_a_function_of_what_was_said() -> None:
    said = quarrel(fm.Deliberation(TALK, tie_break=earliest, max_rounds=2))
    assert (said.answer, said.decided_by) == ("A", f"{__name__}:earliest")
    assert [turn["agent"] for turn in said.transcript] == TALK * 2  # nobody was asked to judge
    assert replay(said, tie_break=lambda turns: turns[-1]["answer"]).answer == "B"
    undecided = quarrel(fm.Deliberation(TALK, tie_break=lambda turns: None))
    assert (undecided.answer, undecided.decided_by) == ("A", "fallback:majority")
    with pytest.raises(fm.UserError, match=r"returned 'Z', which no agent answered"):
        quarrel(fm.Deliberation(TALK, tie_break=lambda turns: "Z"))


@pytest.mark.usefixtures("installed")
def test_a_registered_tie_break_is_known_by_its_name_and_saved_with_it(tmp_path: Path) -> None:
    program = program_of("deliberation:intuitive,reasoner:last_word")
    assert quarrel(program).decided_by == "last_word"
    program.save(tmp_path / "named")
    del TIE_BREAKS["last_word"]
    assert quarrel(fm.load_program(tmp_path / "named")).answer == "B"
    function = sys.modules["extra_moot"].last_word
    assert fm.Deliberation(TALK, tie_break=function).tie_break == "last_word"
    fm.Ensemble([fm.Deliberation(TALK, tie_break=function), "cot"]).save(tmp_path / "inside")
    assert fm.load_program(tmp_path / "inside").members[0].tie_break == "last_word"


@pytest.mark.usefixtures("installed")
def test_a_class_that_inherits_its_protocol_is_saved_under_its_own_name(tmp_path: Path) -> None:
    """It was saved as its parent, and loaded as that without a word."""
    quiet = program_of("quiet")
    assert quiet.describe() == {**fm.SingleAgent().describe(), "class": "extra_moot:Quiet"}
    quiet.save(tmp_path / "alone")
    fm.Ensemble([quiet, "cot"]).save(tmp_path / "inside")
    del PROTOCOLS["quiet"]
    assert type(fm.load_program(tmp_path / "alone")).__name__ == "Quiet"
    members = fm.load_program(tmp_path / "inside").members
    assert [type(one).__name__ for one in members] == ["Quiet", "SingleAgent"]


@pytest.mark.usefixtures("installed")
def test_a_function_and_a_format_of_logs_are_found_by_entry_point(tmp_path: Path) -> None:
    assert fm.last_word([{"answer": "B"}]) == "B"
    (tmp_path / "one.tally").write_text("answers\nA\nB\n")
    imported = fm.import_log(tmp_path / "one.tally", out=tmp_path / "imported")
    assert fm.load_run(imported.folder / "me").summary.scores["accuracy"]["value"] == 0.5


def test_a_command_is_found_by_entry_point_unless_its_name_is_taken(installed: Path) -> None:
    words, env = ["greet", "--name", "you"], {**os.environ, "PYTHONPATH": str(installed)}
    run = [sys.executable, "-m", "folkmoot", *words]
    done = subprocess.run(run, env=env, capture_output=True, text=True)
    warning = "folkmoot: warning: the command runs is folkmoot's own: give yours another name\n"
    assert (done.returncode, done.stderr) == (0, f"{warning}hello you\n")
