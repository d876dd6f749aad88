"""HotpotQA as it really is: scores, sample, evidence, and recorded answers of other systems."""

import json
from pathlib import Path
from typing import Any

import pytest

from folkmoot.modules.reading.answers import em_f1

# Scores

# Prediction, gold, EM, F1; worked out by hand from the rules of the official script.
PAIRS: list[tuple[str, str, float, float]] = [
    # The same but for what normalisation takes away.
    ("Nile", "Nile", 1, 1),
    ("Jonny Craig", 'Jonny" Craig', 1, 1),
    ("the a an The", "a", 0, 0.4),  # where nothing would be left, articles stay, unlike there
    # Punctuation joins what it stood between.
    ("twenty-one", "twenty one", 0, 0),
    ("twenty-one", "twentyone", 1, 1),
    # Articles are whole words only, and go after the punctuation.
    ("another", "other", 0, 0),
    ("A.", "", 0, 0),
    # Partial overlap.
    ("New York City", "New York", 0, 0.8),
    ("Read It and Weep", '"Read It and Weep" (2006)', 0, 8 / 9),
    ("Nile", "", 0, 0),
    # Repeated words count as often as both have them.
    ("Duran Duran", "Duran", 0, 2 / 3),
    # Numbers.
    ("7", "seven", 0, 0),
    ("1986–2013", "1986-2013", 0, 0),  # an en dash is no ASCII punctuation
    # Yes, no and noanswer are all or nothing.
    ("yes it is", "yes", 0, 0),
    ("noanswer", "noanswer", 1, 1),
    ("true", "yes", 0, 0),
    # Beyond ASCII.
    ("Straße", "STRASSE", 0, 0),
    ("東京", "東京", 1, 1),
]


@pytest.mark.parametrize(("prediction", "gold", "em", "f1"), PAIRS)
def test_scores_are_those_of_the_script(prediction: str, gold: str, em: float, f1: float) -> None:
    assert em_f1(prediction, gold) == (em, pytest.approx(f1))


# Recorded answers


@pytest.fixture(scope="module")
def recorded(data_dir: Path) -> list[dict[str, Any]]:
    path = data_dir.parent / "recorded" / "hotpotqa_traces.jsonl"
    if not path.is_file():
        pytest.skip(f"the recorded answers {path.name} are not beside FOLKMOOT_DATA")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_scores_agree_with_the_labels_of_recorded_answers(recorded: list[dict[str, Any]]) -> None:
    assert len(recorded) > 6_000
    disagreements = set()
    for row in recorded:
        em, f1 = em_f1(row["answer"], row["gold"])
        # recorded with three places
        if bool(em) != row["correct"] or abs(f1 - row["f1"]) > 0.00051:
            disagreements.add((row["question_id"], row["agent"], row["round"]))
    assert disagreements == set()
