"""The shipped sample set has no problems, and its checker sees a damage."""

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

import check_samples as samples


def test_the_shipped_set_has_no_problems_and_a_damaged_one_has(tmp_path: Path) -> None:
    assert samples.check(samples.SHIPPED) == []
    for path in samples.SHIPPED.glob("*.jsonl"):
        shutil.copy(path, tmp_path)
    _, second, *rest = (tmp_path / "choice-test.jsonl").read_text().splitlines(True)
    (tmp_path / "choice-test.jsonl").write_text("".join([second, second, *rest]))
    assert any("is used 2 times" in problem for problem in samples.check(tmp_path))
