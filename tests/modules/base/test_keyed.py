"""Objects of files are dictionaries whose declared keys are attributes."""

from __future__ import annotations

import copy
import json

import pytest

from folkmoot.modules.base.keyed import Keyed, only, without
from folkmoot.modules.reading.row import ResultRow, TurnFields


class Part(Keyed):
    __slots__ = ()
    name: str
    size: int = 0


class Whole(Keyed):
    __slots__ = ()
    title: str
    parts: list[Part]
    named: dict[str, Part] | None = None
    main: Part | None = None


TEXT = (
    '{"title": "t", "later": 1, "parts": [{"name": "a", "own": 2}], "named": {"b": {"name": "b"}}}'
)


def test_a_file_is_read_and_written_unchanged() -> None:
    whole = Whole.of(json.loads(TEXT))
    assert (whole.title, whole.parts[0].name, whole.parts[0].size) == ("t", "a", 0)
    assert whole.named["b"].name == "b"
    assert whole.main is None
    assert json.dumps(whole) == TEXT
    with pytest.raises(KeyError, match="name"):
        _ = Part.of({"size": 1}).name


def test_it_is_a_dictionary_of_dictionaries_whose_attributes_are_made_once() -> None:
    plain = json.loads(TEXT)
    whole = Whole.of(plain)
    assert whole == plain
    assert whole | {"title": "u"} == {**plain, "title": "u"}
    assert "main" not in whole
    assert copy.deepcopy(whole).parts[0].name == "a"
    other = whole.but(title="u")
    assert (whole.title, other.title, other.parts[0].name) == ("t", "u", "a")
    whole.parts[0]["size"] = 3
    assert whole["parts"][0]["size"] == 3
    assert whole.parts is whole.parts
    assert Whole.of(whole) is whole


def test_rows_of_users_have_attributes_all_the_way_down() -> None:
    turn = {"agent": "a", "round": 1, "usage": {"calls": 2}}
    row = ResultRow.of({"id": "q", "transcript": [turn]})
    assert row.repeat == 0
    assert isinstance(row.transcript[0], TurnFields)
    assert row.transcript[0].usage.calls == 2
    row["transcript"].append({"agent": "b"})  # a plain one that is added later
    assert [turn.agent for turn in row.transcript] == ["a", "b"]


def test_a_part_of_a_mapping_is_in_the_order_of_the_mapping() -> None:
    values = {"a": 1, "b": None, "c": 3}
    assert list(only(values, ("c", "b", "d")).items()) == [("b", None), ("c", 3)]
    assert list(without(values, ("b", "d")).items()) == [("a", 1), ("c", 3)]
