"""Writes docs/llms.txt, the list of pages that LMs read first, from mkdocs.yml and the pages:
`make llms`. A test holds it up to date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parent
PAGE = DOCS / "llms.txt"
LONGEST = 240
"""Characters of what is said about a page."""


class Settings(yaml.SafeLoader):
    """Reads mkdocs.yml without importing what it names."""


Settings.add_multi_constructor("", lambda loader, tag, node: None)


def page() -> str:
    """The whole file: a heading, what folkmoot is, and a section with links for each part of the
    site.
    """
    settings = yaml.load((DOCS.parent / "mkdocs.yml").read_text(), Settings)
    lines = [f"# {settings['site_name']}", "", f"> {settings['site_description']}.", ""]
    lines += ["How to change the code: [AGENTS.md](../AGENTS.md).", ""]
    for part in settings["nav"]:
        if isinstance(part, str):
            continue
        ((heading, pages),) = part.items()
        lines += [f"## {heading}", "", *links(pages), ""]
    return "\n".join(lines)


def links(pages: list[Any]) -> Iterator[str]:
    for entry in pages:
        ((title, file),) = entry.items()
        about = first_sentence(DOCS / file)
        yield f"- [{title}]({file})" + (f": {about}" if about else "")


def first_sentence(file: Path) -> str:
    """What a page begins with, below its heading; empty for a notebook and for a page without
    such a sentence.
    """
    if file.suffix != ".md":
        return ""
    for paragraph in file.read_text().split("\n\n"):
        text = " ".join(paragraph.split())
        if text[:1].isalpha() or text.startswith(("`", "*")):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("**", "")
            sentence = re.split(r"(?<=[.?])\s", plain, maxsplit=1)[0].rstrip(":")
            return sentence if len(sentence) <= LONGEST else f"{sentence[:LONGEST]} …"
    return ""


if __name__ == "__main__":
    PAGE.write_text(page())
