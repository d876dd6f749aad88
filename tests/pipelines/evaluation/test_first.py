"""What the first call of a process imports: what it needs, and nothing that only others need."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer

LATER = {
    *("aiohttp.web", "anyio", "jinja2", "litellm", "matplotlib", "mlflow", "numpy", "optuna"),
    *("pandas", "rich", "scipy", "torch", "typer"),
    *("folkmoot.modules.environment.corpus", "folkmoot.modules.environment.wikipedia"),
    *("folkmoot.modules.protocols.ensemble", "folkmoot.modules.protocols.foreign"),
    *("folkmoot.pipelines.base.cards", "folkmoot.pipelines.evaluation.estimate"),
    *("folkmoot.pipelines.data.load", "folkmoot.pipelines.data.tables"),
    *("folkmoot.pipelines.cli", "folkmoot.pipelines.comparison", "folkmoot.pipelines.tuning"),
    *("folkmoot.pipelines.lms.embedded", "folkmoot.pipelines.lms.hosted"),
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


def loaded(code: str, folder: Path, names: set[str]) -> list[str]:
    """Which of the modules a process has imported that has run the code."""
    look = (
        f"import folkmoot as fm\n{code}\nimport sys\nprint('loaded', *{names} & {{*sys.modules}})"
    )
    ended = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, cwd=folder, check=True
    )
    return ended.stdout.split()[1:]


def test_a_first_evaluation(scripted: ScriptedServer, tmp_path: Path) -> None:
    code = EVALUATE.replace("URL", scripted.url)
    seen = {"folkmoot.pipelines.evaluation.evaluate", "aiohttp"}
    assert {*loaded(code, tmp_path, LATER | seen)} == seen


def test_a_deliberation_that_is_not_asked_yet(tmp_path: Path) -> None:
    code = "fm.Deliberation(['intuitive', 'reasoner'])"
    assert loaded(code, tmp_path, {*LATER, "aiohttp", "folkmoot.pipelines"}) == []


def test_the_distributions_of_a_search_space_are_made_when_asked_for(tmp_path: Path) -> None:
    code = "assert fm.Deliberation.protocol.space['max_rounds'].values.high == 3"
    assert "optuna" in loaded(code, tmp_path, LATER)


def test_two_runs_are_compared_without_what_asks_programs(
    scripted: ScriptedServer, tmp_path: Path
) -> None:
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    question = fm.Question(id="q", question="Where?", choices={"A": "a", "B": "b"}, answer="A")
    for name in ("simple", "cot"):
        run = {"lm": lm, "tracking": False, "out": tmp_path / name}
        fm.evaluate(fm.SingleAgent(name), [question], **run)  # type: ignore[arg-type]
    code = "assert 'level' in fm.compare('simple', 'cot').headline"
    assert loaded(code, tmp_path, NOT_OF_A_COMPARISON | {"numpy"}) == ["numpy"]


def test_few_regular_expressions_are_compiled(scripted: ScriptedServer, tmp_path: Path) -> None:
    code = f"""{EVALUATE.replace("URL", scripted.url)}
from folkmoot.modules.reading import answers, choices, mentions, numbers
made = [each for module in (answers, choices, mentions, numbers) for each in vars(module).values()
        if type(each).__name__ == "_Pattern"]
assert len(made) > 30, made
assert sum(len(vars(each)) > 1 for each in made) < 10
"""
    assert loaded(code, tmp_path, {"folkmoot.modules.reading.numbers"})


@pytest.mark.parametrize(("name", "most"), [("evaluate", 10_900), ("Deliberation", 4_350)])
def test_not_many_statements_of_ours_are_imported(name: str, most: int, tmp_path: Path) -> None:
    """Each thousand takes some 20 ms."""
    code = (
        f"import folkmoot as fm\nfm.{name}\nimport sys\nfor name, module in sys.modules.items():\n"
        "    if name.startswith('folkmoot'):\n        print(module.__file__)"
    )
    files = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    ).stdout.split()
    trees = [ast.parse(Path(file).read_text()) for file in files]
    statements = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    documented = [node for node in statements if _is_text(node)]
    assert 1_000 < len(statements) - len(documented) <= most


def _is_text(node: ast.stmt) -> bool:
    """Whether a statement is a docstring."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
