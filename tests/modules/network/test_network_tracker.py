"""The strategy tracker: its arithmetic by hand, neutrality, merging, and its state."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from folkmoot.modules.base.errors import UserError
from folkmoot.modules.network.tracker import StrategyTracker, TrackerSettings

SETTINGS = TrackerSettings(alpha=0.2, similar=0.5, top_k=2, merge=0.99)


def at(degrees: float) -> npt.NDArray[np.float64]:
    """An embedding in the plane: cosines are those of the angles between."""
    return np.array([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))])


def test_scores_by_hand() -> None:
    tracker = StrategyTracker(2, 2, SETTINGS)
    tracker.update(at(0), 0, True)  # 0.8 x 0.5 + 0.2 = 0.6
    tracker.update(at(0), 0, True)  # 0.8 x 0.6 + 0.2 = 0.68
    tracker.update(at(60), 0, False)  # 0.8 x 0.5 = 0.4
    assert len(tracker) == 2
    # From 30 degrees both are equally near; from 15, cos 15 and cos 45 weigh 0.68 and 0.4.
    assert tracker.scores(at(30)) == pytest.approx([0.54, 0.5])
    near, far = math.cos(math.radians(15)), math.cos(math.radians(45))
    assert tracker.scores(at(15))[0] == pytest.approx((0.68 * near + 0.4 * far) / (near + far))
    # The length of an embedding does not matter.
    assert tracker.scores(7 * at(30)) == pytest.approx([0.54, 0.5])


def test_what_is_unknown_is_neutral() -> None:
    tracker = StrategyTracker(2, 2, SETTINGS)
    assert tracker.scores(at(0)).tolist() == [0.5, 0.5]
    tracker.update(at(0), 1, True)
    assert tracker.scores(at(0)) == pytest.approx([0.5, 0.6])
    assert tracker.scores(at(61)).tolist() == [0.5, 0.5]  # cos 61 < 0.5
    assert tracker.scores(at(59))[1] == pytest.approx(0.6)


def test_a_question_counts_only_for_what_was_tried_there() -> None:
    tracker = StrategyTracker(2, 2, SETTINGS)
    tracker.update(at(10), 0, True)
    tracker.update(at(-10), 1, False)
    assert tracker.scores(at(0)) == pytest.approx([0.6, 0.4])


def test_only_the_nearest_top_k_count() -> None:
    tracker = StrategyTracker(1, 2, SETTINGS)
    tracker.update(at(10), 0, True)
    tracker.update(at(-10), 0, True)
    tracker.update(at(40), 0, False)
    assert tracker.scores(at(0)) == pytest.approx([0.6])


def test_near_duplicates_share_one_entry() -> None:
    tracker = StrategyTracker(1, 2, SETTINGS)
    for number in range(50):
        tracker.update(at(number % 5), 0, True)  # cos 4 = 0.9976
    assert len(tracker) == 1
    tracker.update(at(9), 0, True)  # cos 9 = 0.9877
    assert len(tracker) == 2
    assert tracker.state()["scores"][0, 0] == pytest.approx(1 - 0.5 * 0.8**50)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 359), st.integers(0, 2), st.booleans()), max_size=60),
    st.integers(0, 359),
)
def test_scores_are_shares_and_the_state_is_the_tracker(
    updates: list[tuple[int, int, bool]], asked: int
) -> None:
    tracker, copy = StrategyTracker(3, 2, SETTINGS), StrategyTracker(3, 2, SETTINGS)
    for angle, strategy, correct in updates:
        tracker.update(at(angle), strategy, correct)
        copy.update(at(angle), strategy, correct)
        copy = StrategyTracker.from_state(copy.state(), SETTINGS)
    scores = tracker.scores(at(asked))
    assert ((scores >= 0) & (scores <= 1)).all()
    assert (copy.scores(at(asked)) == scores).all()
    # cos 8 > 0.99: stored questions are over 8 degrees apart
    assert len(copy) == len(tracker) <= 44
    for name, array in tracker.state().items():
        assert (array == copy.state()[name]).all()


@pytest.mark.parametrize(
    "bad",
    [
        {"alpha": 0},
        {"alpha": 1.1},
        {"similar": 0.9, "merge": 0.8},
        {"similar": 0},
        {"merge": 1.1},
        {"top_k": 0},
    ],
)
def test_settings_that_make_no_sense_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(UserError):
        TrackerSettings(**bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [np.zeros(2), np.array([np.nan, 1]), np.ones(3), np.ones((1, 2))])
def test_embeddings_that_are_none_are_refused(bad: npt.NDArray[np.float64]) -> None:
    tracker = StrategyTracker(1, 2)
    with pytest.raises(ValueError, match="embedding"):
        tracker.update(bad, 0, True)
    with pytest.raises(ValueError, match="embedding"):
        tracker.scores(bad)
    with pytest.raises(ValueError, match="strategies"):
        tracker.update(at(0), 1, True)
