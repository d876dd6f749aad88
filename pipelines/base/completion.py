"""What the shell offers for values: names that can be had without importing what they name, and
files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

PROGRAMS = ("causal", "deliberation", "ensemble", "network", "router", "single", "team")
"""Protocols, strategies and optimizers of folkmoot's own; a test holds these names to the
registries.
"""
STRATEGIES = (
    *("simple", "zero_shot", "few_shot", "cot", "self_consistency", "complexity", "self_ask"),
    *("decomposition", "least_to_most", "plan_and_solve"),
)
OPTIMIZERS = (
    *("labeled_few_shot", "bootstrap", "bootstrap_rs", "knn", "copro", "mipro", "simba", "gepa"),
    *("infer_rules", "better_together", "bootstrap_optuna", "reanchor"),
)
_CATALOGUE = Path(__file__).parents[1] / "data" / "catalogue.yaml"

Offer = Callable[[str], Iterable[str]]


def completed_programs(incomplete: str) -> list[str]:
    """Protocols, for those of strategies these too, and files and folders."""
    begun = re.match(r"(?:single:|ensemble:(?:[^:]*,)?)", incomplete)
    if begun:
        return [f"{begun[0]}{name}" for name in STRATEGIES]
    return [*PROGRAMS, *completed_files(incomplete)]


def completed_optimizers(incomplete: str) -> list[str]:
    return list(OPTIMIZERS)


def completed_sources(incomplete: str) -> list[str]:
    """Data sets, and files."""
    names = re.findall(r"^([\w.-]+):", _CATALOGUE.read_text(encoding="utf-8"), re.MULTILINE)
    return [*names, *completed_files(incomplete)]


def completed_files(incomplete: str) -> list[str]:
    folder, begun = os.path.split(incomplete)
    try:
        found = sorted(os.scandir(os.path.expanduser(folder) or "."), key=lambda one: one.name)
    except OSError:
        return []
    shown = (one for one in found if begun.startswith(".") or not one.name.startswith("."))
    return [os.path.join(folder, one.name) + ("/" if one.is_dir() else "") for one in shown]


def offered(metavar: str | None) -> Offer | None:
    """What fits an option's metavar: `NAME|FILE`, `DIR`, or the words to choose from."""
    kinds = {*re.split(r"[^A-Za-z0-9_]+", metavar or "")} - {""}
    if {"NAME", "FILE"} <= kinds:
        return completed_sources
    if kinds & {"FILE", "DIR", "RUN"}:
        return completed_files
    words = metavar.split("|") if metavar and metavar.islower() and "|" in metavar else []
    return (lambda incomplete: words) if words else None
