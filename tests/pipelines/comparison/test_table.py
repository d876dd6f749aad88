"""The table of programs: its shape, its bars and its width."""

import pytest

from folkmoot.modules.statistics.statistics import Estimate
from folkmoot.pipelines.base.wording import signed
from folkmoot.pipelines.comparison.table import UNANSWERED, Standing, table_lines

ONE = Standing("one prompt", Estimate(0.62, 0.49, 0.73), price=1)
PANEL = Standing("panel of three", Estimate(0.60, 0.47, 0.71), Estimate(-0.02, -0.13, 0.08), 3)
TALK = Standing("two who talk", Estimate(0.63, 0.51, 0.74), Estimate(0.02, -0.10, 0.13), 5.6)


def test_the_table_has_a_line_for_each_program_with_bars_to_one_scale() -> None:
    silent = Standing("no answers", UNANSWERED, note="out: 3 failed")
    assert table_lines([ONE, PANEL, TALK, silent], "one prompt") == [
        "                right              against one prompt           price",
        "one prompt      62%  ▕─────●────▏  ·                            1×",
        "panel of three  60% ▕─────●────▏   −2 ─────●┊────   [−13, +8]   3×",
        "two who talk    63%   ▕────●────▏  +2  ─────┊●───── [−10, +13]  5.6×",
        "no answers        –                out: 3 failed                ?",
    ]


def test_narrow_intervals_get_a_decimal_and_scores_their_own_unit() -> None:
    sure = Standing("panel", Estimate(0.97, 0.96, 0.98), Estimate(0.006, 0.001, 0.011), 0.25)
    text = "\n".join(table_lines([ONE, sure], "one prompt"))
    assert "97.0%" in text
    assert "+0.6 " in text
    assert "[+0.1, +1.1]  0.25×" in text
    text = "\n".join(table_lines([ONE, sure], "one prompt", is_rate=False, metric="rubric"))
    assert "rubric" in text
    assert "+0.006" in text
    assert "%" not in text


@pytest.mark.parametrize(
    ("difference", "decimals", "written"),
    [
        (0.42, 0, "+42"),
        (0.003, 0, "+0.3"),  # an end that does not reach 0 is not written as 0
        (-0.0004, 1, "−0.04"),
        (0.0, 1, "0.0"),
        (-1e-17, 0, "0"),
    ],
)
def test_only_0_is_written_as_0(difference: float, decimals: int, written: str) -> None:
    assert signed(difference, decimals=decimals) == written


@pytest.mark.parametrize("is_rate", [True, False])
def test_no_line_is_wider_than_a_terminal(is_rate: bool) -> None:
    score, gain = Estimate(0.123456, -1, 1), Estimate(-0.123456, -0.987654, 0.5)
    wide = Standing("x" * 60, score, gain, 1234567.0)
    lines = table_lines([ONE, wide], "y" * 90, is_rate=is_rate)
    assert max(map(len, lines)) <= 80
    assert "…" in lines[0]
    assert "…" in lines[2]
