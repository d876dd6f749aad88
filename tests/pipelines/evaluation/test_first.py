"""What the first call of a process imports: what it needs, and nothing that only others need."""

import subprocess
import sys
from pathlib import Path

from folkmoot.pipelines.testing.server import ScriptedServer

LATER = {
    *("aiohttp.web", "jinja2", "litellm", "matplotlib", "mlflow", "numpy", "optuna", "pandas"),
    *("rich", "scipy", "torch"),
    *("folkmoot.modules.environment.corpus", "folkmoot.modules.environment.wikipedia"),
    *("folkmoot.pipelines.data.load", "folkmoot.pipelines.data.tables"),
    *("folkmoot.pipelines.cli", "folkmoot.pipelines.comparison", "folkmoot.pipelines.tuning"),
    *("folkmoot.pipelines.tasks.check", "folkmoot.pipelines.tasks.cluster"),
    *("folkmoot.pipelines.evaluation.card", "folkmoot.pipelines.evaluation.judge_sample"),
    *("folkmoot.pipelines.meter.programs", "folkmoot.pipelines.tracking.push"),
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
