"""Questions of the kind `open`, each with a rubric in its meta."""

from __future__ import annotations

import folkmoot as fm


def asked(n: int = 12) -> list[fm.Question]:
    return [
        fm.Question(
            id=str(i),
            question=f"Why {i}?",
            answer=f"since {i} apples fell from the tree",
            kind="open",
            meta={"rubric": f"apples {i}"},
        )
        for i in range(1, n + 1)
    ]
