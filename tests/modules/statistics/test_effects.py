"""Effects of choices, against hand calculations, and how often their intervals cover."""

import random
from statistics import fmean

import pytest

from folkmoot.modules.statistics.controls import gain_part
from folkmoot.modules.statistics.effects import Tried, effects
from folkmoot.modules.statistics.paired import tango


def tried(rounds: int, tie: str, scores: list[float | None], cost: float = 1.0) -> Tried:
    return Tried({"rounds": rounds, "tie": tie}, scores, cost)


def test_a_choice_is_averaged_over_what_else_was_tried() -> None:
    first = [tried(1, "judge", [0, 0, 1, 1]), tried(3, "judge", [1, 0, 1, 1], 2.0)]
    second = [tried(1, "vote", [0, 0, 0, 1]), tried(3, "vote", [1, 1, 0, None], 4.0)]
    found = effects([*first, *second])
    rounds, tie = found
    assert (rounds.choice, rounds.value, rounds.against) == ("rounds", 3, 1)
    # By question: (1 + 1) / 2, (0 + 1) / 2, 0, 0; what failed is left out, as from the scores.
    differences = [1.0, 0.5, 0.0, 0.0]
    expected = gain_part([0.0] * 4, differences)
    assert (rounds.difference, rounds.low, rounds.high) == pytest.approx(expected)
    assert (rounds.pairs, rounds.questions, rounds.cost_ratio) == (2, 4, 3.0)
    assert (tie.value, tie.against) == ("vote", "judge")
    assert tie.difference == pytest.approx(fmean([0.0, 0.5, -1.0, 0.0]))


def test_choices_that_only_vary_together_are_confounded() -> None:
    found = effects([tried(1, "judge", [0, 1]), tried(3, "vote", [1, 1])])
    assert [effect.difference for effect in found] == [None, None]
    assert found[0].low is None


def test_a_setting_that_was_stopped_early_counts_where_it_answered() -> None:
    (rounds,) = effects([tried(1, "judge", [0, 0, 1]), tried(3, "judge", [1])])
    assert (rounds.questions, rounds.difference) == (1, 1.0)
    assert (rounds.low, rounds.high) == tango(1, 0, 1)[1:]  # as `compare` has it for one pair


def test_values_may_be_lists_and_one_value_has_no_effect() -> None:
    settings = [{"roles": ["a", "b"], "same": 1}, {"roles": ["b", "a"], "same": 1}]
    (roles,) = effects([Tried(setting, [1.0, 0.0], 1.0) for setting in settings])
    assert (roles.value, roles.difference) == (["b", "a"], 0.0)


def test_a_choice_may_bring_another_with_it() -> None:
    settings = [{"tie": "strongest", "strongest": role} for role in ("critic", "reasoner")]
    settings.insert(0, {"tie": "judge"})
    scores = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
    found = effects([Tried(*each, 1.0) for each in zip(settings, scores, strict=True)])
    tie = found[0]
    assert (tie.value, tie.pairs, tie.difference) == ("strongest", 2, 0.75)


def test_an_interval_of_other_scores_holds_its_difference() -> None:
    (rounds,) = effects([tried(1, "judge", [1, 2, 3]), tried(3, "judge", [7, 8, 9])], unit=10)
    assert rounds.low < 6 == rounds.difference < rounds.high


def test_intervals_cover_the_true_effect() -> None:
    """Three rounds are right on 5 points more questions; other choices change the level."""
    dice = random.Random(0)
    covered = 0
    for _ in range(400):
        trials = []
        for tie, level in (("judge", 0.5), ("vote", 0.6)):
            hard = [dice.random() for _ in range(100)]
            for rounds, gain in ((1, 0.0), (3, 0.05)):
                hits = [dice.random() < 0.1 or each < level + gain for each in hard]
                scores: list[float | None] = [float(hit) for hit in hits]
                trials.append(tried(rounds, tie, scores))
        effect = effects(trials)[0]
        covered += effect.low <= 0.9 * 0.05 <= effect.high
    assert 0.93 <= covered / 400 <= 1.0


def test_a_choice_that_another_leaves_out_has_no_value_there() -> None:
    settings = [{"tie": "judge"}, {"tie": "strongest", "strongest": "critic"}]
    found = effects([Tried(setting, [1.0, 0.0], 1.0) for setting in settings])
    assert [effect.choice for effect in found] == ["tie"]
