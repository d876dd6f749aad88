"""Regular expressions that are compiled late do what others do."""

import copy
import re

import pytest

from folkmoot.modules.reading.mentions import pattern


def test_a_pattern_is_compiled_when_it_is_used() -> None:
    late, now = pattern(r"a(b+)", re.I), re.compile(r"a(b+)", re.I)
    for name in ("pattern", "flags", "groups"):
        assert getattr(late, name) == getattr(now, name)
    assert late.sub("", "xABBy") == now.sub("", "xABBy")
    assert late.search("ab") is not None
    assert late.search.__self__ is now  # type: ignore[attr-defined]
    assert "search" in vars(late)
    assert copy.deepcopy(late).findall("ab abb") == ["b", "bb"]


def test_a_wrong_pattern_says_so_when_it_is_used() -> None:
    wrong = pattern("(")
    with pytest.raises(re.error, match="unterminated"):
        wrong.search("")
