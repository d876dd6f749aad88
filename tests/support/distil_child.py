"""What a child process of the tests of distilling runs until it is killed."""

from __future__ import annotations

from pathlib import Path

from mortal import questions

import folkmoot as fm


def distil_in_child(url: str, folder: Path) -> None:
    lm = fm.lm("openai/scripted", api_base=url, seed=0)
    options = {"margin": 0.2, "tracking": False, "concurrency": 8}
    fm.distil(folder / "team", questions(48), lm=lm, out=folder / "found", **options)
