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


def loaded(folder: Path, names: set[str], *codes: str) -> list[set[str]]:
    """Which of the modules a process has imported after each of these pieces of code."""
    look = f"\nprint('loaded', *{names} & {{*sys.modules}})\n"
    script = "import sys, folkmoot as fm\n" + "".join(code + look for code in codes)
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, check=True
    )
    return [set(line.split()[1:]) for line in ended.stdout.splitlines()]


def test_a_first_evaluation(scripted: ScriptedServer, tmp_path: Path) -> None:
    code = EVALUATE.replace("URL", scripted.url)
    seen = {"folkmoot.pipelines.evaluation.evaluate", "aiohttp"}
    assert loaded(tmp_path, LATER | seen, code) == [seen]


def test_a_deliberation_that_is_not_asked_yet_and_then_the_space_it_is_sought_in(
    tmp_path: Path,
) -> None:
    made = "fm.Deliberation(['intuitive', 'reasoner'])"
    sought = "assert fm.Deliberation.protocol.space['max_rounds'].values.high == 3"
    first, then = loaded(tmp_path, {*LATER, "aiohttp", "folkmoot.pipelines"}, made, sought)
    assert first == set()
    assert "optuna" in then
