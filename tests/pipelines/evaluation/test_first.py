"""What the first call of a process imports: what it needs, and nothing that only others need."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer

LATER = {
    *("aiohttp.web", "anyio", "jinja2", "litellm", "matplotlib", "mlflow", "numpy", "optuna"),
    *("pandas", "rich", "scipy", "torch", "typer"),
    *("folkmoot.modules.environment", "folkmoot.modules.agents.informed"),
    *("folkmoot.modules.protocols.ensemble", "folkmoot.modules.protocols.foreign"),
    *("folkmoot.pipelines.base.account", "folkmoot.pipelines.base.cards"),
    *("folkmoot.pipelines.data.catalogue", "folkmoot.pipelines.data.load"),
    *("folkmoot.pipelines.data.tables", "folkmoot.pipelines.evaluation.estimate"),
    *("folkmoot.pipelines.cli", "folkmoot.pipelines.comparison", "folkmoot.pipelines.tuning"),
    *("folkmoot.pipelines.lms.embedded", "folkmoot.pipelines.lms.hosted"),
    *("folkmoot.pipelines.lms.foreign", "folkmoot.pipelines.lms.refusals"),
    *("folkmoot.pipelines.programs.build", "folkmoot.pipelines.programs.resolve"),
    *("folkmoot.pipelines.programs.saved", "folkmoot.pipelines.tasks.process"),
    *("folkmoot.pipelines.tasks.check", "folkmoot.pipelines.tasks.cluster"),
    *("folkmoot.pipelines.evaluation.card", "folkmoot.pipelines.evaluation.judge_sample"),
    *("folkmoot.pipelines.evaluation.kept", "folkmoot.pipelines.tracking.live"),
    *("folkmoot.pipelines.meter.programs", "folkmoot.pipelines.tracking.push"),
}
NOT_OF_A_COMPARISON = {
    *("aiohttp", "dspy", "litellm", "matplotlib", "mlflow", "optuna", "pandas", "regex"),
    *("rich", "scipy", "typer", "folkmoot.modules.agents", "folkmoot.pipelines.lms"),
    "folkmoot.pipelines.evaluation.evaluate",
}
EVALUATE = """
question = fm.Question(id="q", question="Where?", choices={"A": "here", "B": "there"}, answer="A")
lm = fm.lm("openai/scripted", api_base="URL")
fm.evaluate(fm.SingleAgent(), [question], lm=lm, tracking=False, cache=False)
"""
PATTERNS = """
from folkmoot.modules.reading import answers, choices, mentions, numbers
made = [each for module in (answers, choices, mentions, numbers) for each in vars(module).values()
        if type(each).__name__ == "_Pattern"]
assert len(made) > 30, made
assert sum(len(vars(each)) > 1 for each in made) < 10
"""


def imported(folder: Path, *steps: str) -> list[dict[str, str | None]]:
    """The modules that a process has imported after each of these steps, with their files."""
    files = "{name: getattr(each, '__file__', None) for name, each in {**sys.modules}.items()}"
    looks = [f"{step}\nprint(json.dumps({files}))" for step in steps]
    code = "\n".join(["import json, sys\nimport folkmoot as fm", *looks])
    run = [sys.executable, "-c", code]
    ended = subprocess.run(run, capture_output=True, text=True, cwd=folder, check=True)
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str | None]]:
    """What `fm.evaluate` has imported, and then a first evaluation."""
    with ScriptedServer() as server:
        steps = ("fm.evaluate", EVALUATE.replace("URL", server.url), PATTERNS)
        return imported(tmp_path_factory.mktemp("evaluated"), *steps)


@pytest.fixture(scope="module")
def deliberation(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str | None]]:
    """What `fm.Deliberation` has imported, then one that is made, then its search space."""
    made = "fm.Deliberation(['intuitive', 'reasoner'])"
    asked = "assert fm.Deliberation.protocol.space['max_rounds'].values.high == 3"
    return imported(tmp_path_factory.mktemp("made"), "fm.Deliberation", made, asked)


def test_a_first_evaluation_imports_and_compiles_what_it_needs(evaluated: Any) -> None:
    seen = {"folkmoot.pipelines.evaluation.evaluate", "aiohttp"}
    assert (LATER | seen) & {*evaluated[1]} == seen
    assert "folkmoot.modules.reading.numbers" in evaluated[2]  # PATTERNS was run


def test_a_deliberation_is_made_without_asking_its_space_on_demand(deliberation: Any) -> None:
    _, made, asked = deliberation
    assert not {*LATER, "aiohttp", "folkmoot.pipelines"} & {*made}
    assert "optuna" in asked


def test_comparing_imports_nothing_that_asks(scripted: ScriptedServer, tmp_path: Path) -> None:
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    question = fm.Question(id="q", question="Where?", choices={"A": "a", "B": "b"}, answer="A")
    for name in ("simple", "cot"):
        run = {"lm": lm, "tracking": False, "out": tmp_path / name}
        fm.evaluate(fm.SingleAgent(name), [question], **run)  # type: ignore[arg-type]
    (found,) = imported(tmp_path, "assert 'level' in fm.compare('simple', 'cot').headline")
    assert (NOT_OF_A_COMPARISON | {"numpy"}) & {*found} == {"numpy"}


@pytest.mark.parametrize(("name", "most"), [("evaluated", 10_500), ("deliberation", 2_800)])
def test_few_statements_are_imported(name: str, most: int, request: pytest.FixtureRequest) -> None:
    """Each thousand takes some 20 ms."""
    first = request.getfixturevalue(name)[0]
    files = [file for module, file in first.items() if module.startswith("folkmoot")]
    trees = [ast.parse(Path(file).read_text()) for file in files]
    statements = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    documented = [node for node in statements if _is_text(node)]
    assert 1_000 < len(statements) - len(documented) <= most


def _is_text(node: ast.stmt) -> bool:
    """Whether a statement is a docstring."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
