"""The papers that the protocols come from, as BibTeX."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...signatures.shipped import shipped_yaml


def bibtex(names: Collection[str]) -> list[str]:
    """Return the BibTeX entries of papers, by their own names or those of their protocols."""
    entries = []
    for key, paper in shipped_yaml(__package__, "papers.yaml").items():
        if key in names or paper["protocol"] in names:
            fields = [f"  {name} = {{{paper[name]}}}" for name in paper if name != "protocol"]
            entries.append("\n".join([f"@misc{{{key},", ",\n".join(fields), "}"]))
    return entries


def protocols_in(program: object) -> set[str]:
    """Return the names of the protocols in what `Program.describe` says, those of members
    included.
    """
    names = set[str]()
    if isinstance(program, Mapping):
        if isinstance(program.get("program"), str):
            names.add(program["program"])
        program = list(program.values())
    if isinstance(program, list):
        names.update(*map(protocols_in, program))
    return names
