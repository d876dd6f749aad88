"""The actions of a worker: what is read as one, and that nothing else is."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from folkmoot.modules.protocols.team.actions import MAX_ARGUMENT_CHARS, Action, read_action

NAMES = st.sampled_from(["search", "lookup", "finish"])
PLAIN = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=30)
LONGEST = "x" * MAX_ARGUMENT_CHARS


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("Search[Nile]", ("search", "Nile")),
        ("LOOKUP[river]", ("lookup", "river")),
        ("Finish [Conference USA]", ("finish", "Conference USA")),
        ("Action: Search[Nile]", ("search", "Nile")),
        ("Action 3: Finish[yes]", ("finish", "yes")),
        (
            "\n\nAction 1:\n  Search\n[The\n Nile]\nObservation 1: The Nile …",
            ("search", "The Nile"),
        ),
        ("Search[Kiss and Tell [1945 film]]", ("search", "Kiss and Tell [1945 film]")),
        ("Search[a] and Finish[b]", ("search", "a")),
        ("Search[\u2028Nile\u200b]", ("search", "Nile")),
        ("**Search[Nile]**", ("search", "Nile")),
        ("1. Lookup[river]", ("lookup", "river")),
        (f"Finish[{LONGEST}]", ("finish", LONGEST)),
    ],
)
def test_what_is_an_action(text: str, action: tuple[str, str]) -> None:
    assert read_action(text) == action


NO_ACTION = ["", "Search Nile", "Search[Nile", "Search[[Nile]", "Search[ \n ]", "Finish[\u200b]"]
NO_ACTION += ["Search(Nile)", "Search［Nile］", "Delete[Nile]", "Research[Nile]"]
NO_ACTION += ["I will Search[Nile]", "Observation: Search[Nile]", "Action 1234: Search[Nile]"]
NO_ACTION += ["ſearch[Nile]", "fınish[Nile]", "loo\u212aup[x]"]  # re.IGNORECASE would take these


@pytest.mark.parametrize("text", [*NO_ACTION, f"Finish[{LONGEST}x]"])
def test_what_is_no_action(text: str) -> None:
    assert read_action(text) is None


@given(NAMES, PLAIN, st.text(max_size=50), st.sampled_from(["", "Action: ", "Action 7: ", "\n"]))
def test_the_first_action_counts(name: str, argument: str, rest: str, prefix: str) -> None:
    assert read_action(f"{prefix}{name.title()}[{argument}]{rest}") == Action(name, argument)  # type: ignore[arg-type]


HUGE = ["action" + " " * 200_000 + "x", "Search" + " " * 500_000]
HUGE += ["Search" + "[" * 500_000, "Action 1:" * 100_000]


@pytest.mark.parametrize("text", HUGE)
def test_a_huge_text_takes_no_time(text: str) -> None:
    began = time.process_time()
    assert read_action(text) is None
    assert time.process_time() - began < 2
