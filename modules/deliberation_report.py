"""What a deliberation's rows say about its dialogue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def deliberation_report(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {}
