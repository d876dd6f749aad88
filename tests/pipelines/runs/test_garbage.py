"""How often the garbage collector looks while runs go on."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from folkmoot.pipelines.runs.garbage import SELDOM, seldom_collected


@pytest.fixture
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(("usual", "inside"), [(700, SELDOM), (0, 0), (SELDOM + 1, SELDOM + 1)])
def test_overlapping_blocks_share_their_end(usual: int, inside: int, thresholds: None) -> None:
    gc.set_threshold(usual, 10, 10)
    first, second = seldom_collected(), seldom_collected()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold()[0] == inside
    first.__exit__()
    assert gc.get_threshold()[0] == inside
    second.__exit__()
    assert gc.get_threshold()[0] == usual


def test_what_the_user_sets_meanwhile_stays(thresholds: None) -> None:
    with seldom_collected():
        gc.set_threshold(900, 5, 5)
    assert gc.get_threshold() == (900, 5, 5)
