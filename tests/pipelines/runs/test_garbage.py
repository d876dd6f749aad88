"""How often the garbage collector looks while runs go on."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from folkmoot.modules.base.calls import metered, record_call
from folkmoot.modules.base.usage import Usage
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
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] == inside
    second.__exit__(None, None, None)
    assert gc.get_threshold()[0] == usual


def test_what_the_user_sets_meanwhile_stays(thresholds: None) -> None:
    with seldom_collected():
        gc.set_threshold(900, 5, 5)
    assert gc.get_threshold() == (900, 5, 5)


@pytest.mark.parametrize("each", [False, True])
def test_the_calls_of_a_question_do_not_wait_for_the_collector(
    each: bool, thresholds: None
) -> None:
    """The thoughts of 10,000 questions took 150 MB."""
    gc.set_threshold(0)
    block = metered(each=each)
    with block:
        record_call(Usage(calls=1))
    left = weakref.ref(block)
    del block
    assert left() is None
