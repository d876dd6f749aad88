"""HotpotQA as it really is: its scores, its sample, its evidence, and recorded answers of other
systems.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from folkmoot.modules.reading.answers import em_f1

# Scores
# --------------------------------------------------------------------------------------------------

# Prediction, gold, EM, F1; worked out by hand from the rules of the official script.
PAIRS: list[tuple[str, str, float, float]] = [
    # The same but for what normalisation takes away.
    ("Nile", "Nile", 1, 1),
    ("nile", "NILE", 1, 1),
    ("The Nile", "Nile", 1, 1),
    ("a Nile", "an Nile", 1, 1),
    ("Nile.", "Nile", 1, 1),
    (" Nile \n", "Nile", 1, 1),
    ("New   York\tCity", "new york city", 1, 1),
    ('"Creature Comforts"', "Creature Comforts", 1, 1),
    ("Jonny Craig", 'Jonny" Craig', 1, 1),
    ("(2004)", "2004", 1, 1),
    ("U.S.", "US", 1, 1),
    ("Washington, D.C.", "Washington DC", 1, 1),
    ("rock 'n' roll", "rock n roll", 1, 1),
    ("the a an The", "a", 1, 0),  # nothing is left of either: equal, and no token shared
    ("", "", 1, 0),
    ("...", "", 1, 0),
    ("the", "!", 1, 0),
    # Punctuation joins what it stood between.
    ("twenty-one", "twenty one", 0, 0),
    ("twenty-one", "twentyone", 1, 1),
    ("AC/DC", "ACDC", 1, 1),
    ("1,000", "1000", 1, 1),
    ("3.14", "314", 1, 1),
    ("it's", "its", 1, 1),
    ("snake_case", "snakecase", 1, 1),
    ("a-ha", "aha", 1, 1),
    ("a ha", "aha", 0, 0),
    # Articles are whole words only, and go after the punctuation.
    ("another", "other", 0, 0),
    ("theatre", "atre", 0, 0),
    ("The The", "", 1, 0),
    ("t.h.e. band", "band", 1, 1),
    ("A.", "", 1, 0),
    ("vitamin A", "vitamin", 1, 1),
    ("Anna the Great", "Anna Great", 1, 1),
    # Partial overlap.
    ("New York", "New York City", 0, 0.8),
    ("New York City", "New York", 0, 0.8),
    ("German culture", "German", 0, 2 / 3),
    ("river Nile", "Nile", 0, 2 / 3),
    ("the Nile in Africa", "Nile", 0, 0.5),
    ("Sam Boyd Stadium in Whitney, Nevada", "Sam Boyd Stadium", 0, 2 / 3),
    ("Read It and Weep", '"Read It and Weep" (2006)', 0, 8 / 9),
    ("Cannes Film Festival", "69th Cannes Film Festival", 0, 6 / 7),
    ("Paris", "London", 0, 0),
    ("", "Nile", 0, 0),
    ("Nile", "", 0, 0),
    ("York New", "New York", 0, 1),  # the order of words counts for EM alone
    # Repeated words count as often as both have them.
    ("New New York", "New York", 0, 0.8),
    ("New York", "New New York", 0, 0.8),
    ("Duran Duran", "Duran", 0, 2 / 3),
    ("Duran Duran", "Duran Duran", 1, 1),
    ("b b b", "b c", 0, 0.4),
    # Numbers.
    ("2004", "2004.", 1, 1),
    ("2004", "in 2004", 0, 2 / 3),
    ("7", "seven", 0, 0),
    ("007", "7", 0, 0),
    ("$5 million", "5 million", 1, 1),
    ("1986–2013", "1986-2013", 0, 0),  # an en dash is no ASCII punctuation
    ("from 1986 to 2013", "1986 to 2013", 0, 6 / 7),
    # Yes, no and noanswer are all or nothing.
    ("yes", "yes", 1, 1),
    ("Yes.", "yes", 1, 1),
    ("the yes", "yes", 1, 1),
    ("yes", "no", 0, 0),
    ("yes it is", "yes", 0, 0),
    ("yes", "yes it is", 0, 0),
    ("no", "no way", 0, 0),
    ("No", "no", 1, 1),
    ("noanswer", "noanswer", 1, 1),
    ("no answer", "noanswer", 0, 0),
    ("noanswer", "Nile", 0, 0),
    ("oh yes", "yes indeed", 0, 0.5),  # neither side is the bare word
    ("true", "yes", 0, 0),
    # Beyond ASCII.
    ("Rémi Lange", "Remi Lange", 0, 0.5),
    ("ÉCOLE", "école", 1, 1),
    ("Straße", "STRASSE", 0, 0),
    ("“Nile”", "Nile", 0, 0),  # typographic quotes stay
    ("Nile’s", "Niles", 0, 0),
    ("東京", "東京", 1, 1),
    ("東京 タワー", "東京", 0, 2 / 3),
    ("new\u00a0york", "new york", 1, 1),
    ("İstanbul", "istanbul", 0, 0),  # lower case adds a combining dot
    ("cafe\u0301", "café", 0, 0),
]


@pytest.mark.parametrize(("prediction", "gold", "em", "f1"), PAIRS)
def test_em_and_f1_are_those_of_the_official_script(
    prediction: str, gold: str, em: float, f1: float
) -> None:
    assert em_f1(prediction, gold) == (em, pytest.approx(f1))


# The evidence
# -----------------------------------------------------------------------------------------------


# Recorded answers
# -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(data_dir: Path) -> list[dict[str, Any]]:
    path = data_dir.parent / "recorded" / "hotpotqa_traces.jsonl"
    if not path.is_file():
        pytest.skip(f"the recorded answers {path.name} are not beside FOLKMOOT_DATA")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_scores_agree_with_the_labels_of_recorded_answers(
    recorded: list[dict[str, Any]],
) -> None:
    assert len(recorded) > 6_000
    disagreements = set()
    for row in recorded:
        em, f1 = em_f1(row["answer"], row["gold"])
        # recorded with three places
        if bool(em) != row["correct"] or abs(f1 - row["f1"]) > 0.00051:
            disagreements.add((row["question_id"], row["agent"], row["round"]))
    assert disagreements == set()
    em = sum(row["correct"] for row in recorded) / len(recorded)
    print(f"\n{len(recorded)} recorded answers, {em:.1%} exact: no disagreement in EM or F1")
