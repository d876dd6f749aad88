"""What users are told who give something that cannot be."""

from collections.abc import Callable
from typing import Any

import pytest

from folkmoot.modules.base.errors import UserError


def refused(words: str, call: Callable[..., Any], /, *given: Any, **named: Any) -> None:
    """The call ends with an error of one line, in which the words (a pattern) are found."""
    with pytest.raises(UserError, match=words) as caught:
        call(*given, **named)
    assert "\n" not in str(caught.value)
