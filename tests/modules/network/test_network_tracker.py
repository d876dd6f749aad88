"""The strategy tracker: its arithmetic by hand, neutrality and merging."""

import math

import numpy as np
import numpy.typing as npt
import pytest

from folkmoot.modules.network.tracker import StrategyTracker, TrackerSettings

SETTINGS = TrackerSettings(alpha=0.2, similar=0.5, top_k=2, merge=0.99)


def at(degrees: float) -> npt.NDArray[np.float64]:
    """An embedding in the plane: cosines are those of the angles between."""
    return np.array([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))])


def test_scores_by_hand() -> None:
    tracker = StrategyTracker.empty(2, 2, SETTINGS)
    tracker.update(at(0), 0, True)  # 0.8 x 0.5 + 0.2 = 0.6
    tracker.update(at(0), 0, True)  # 0.8 x 0.6 + 0.2 = 0.68
    tracker.update(at(60), 0, False)  # 0.8 x 0.5 = 0.4
    assert len(tracker.questions) == 2
    # From 30 degrees both are equally near; from 15, cos 15 and cos 45 weigh 0.68 and 0.4.
    assert tracker.scores(at(30)) == pytest.approx([0.54, 0.5])
    near, far = math.cos(math.radians(15)), math.cos(math.radians(45))
    assert tracker.scores(at(15))[0] == pytest.approx((0.68 * near + 0.4 * far) / (near + far))
    # The length of an embedding does not matter.
    assert tracker.scores(7 * at(30)) == pytest.approx([0.54, 0.5])


def test_what_is_unknown_is_neutral() -> None:
    tracker = StrategyTracker.empty(2, 2, SETTINGS)
    assert tracker.scores(at(0)).tolist() == [0.5, 0.5]
    tracker.update(at(0), 1, True)
    assert tracker.scores(at(0)) == pytest.approx([0.5, 0.6])
    assert tracker.scores(at(61)).tolist() == [0.5, 0.5]  # cos 61 < 0.5
    assert tracker.scores(at(59))[1] == pytest.approx(0.6)


ELSEWHERE = [(10, 0, True), (-10, 1, False)], [0.6, 0.4]
MORE_THAN_TOP_K = [(10, 0, True), (-10, 0, True), (40, 0, False)], [0.6]


@pytest.mark.parametrize(("tried", "scores"), [ELSEWHERE, MORE_THAN_TOP_K])
def test_the_nearest_count_for_what_was_tried_there(tried, scores):
    tracker = StrategyTracker.empty(len(scores), 2, SETTINGS)
    for degrees, strategy, right in tried:
        tracker.update(at(degrees), strategy, right)
    assert tracker.scores(at(0)) == pytest.approx(scores)


def test_near_duplicates_share_one_entry() -> None:
    tracker = StrategyTracker.empty(1, 2, SETTINGS)
    for number in range(50):
        tracker.update(at(number % 5), 0, True)  # cos 4 = 0.9976
    assert len(tracker.questions) == 1
    tracker.update(at(9), 0, True)  # cos 9 = 0.9877
    assert len(tracker.questions) == 2
    assert tracker.means[0, 0] == pytest.approx(1 - 0.5 * 0.8**50)
