"""Makes the README fit for the package page: links lead to the repository's own files at the
release's tag.

`python tools/package_page.py OWNER/NAME TAG` rewrites README.md and names the repository in
pyproject.toml. The release does so before it builds, since it may be made from any copy of the
repository.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def absolute(text: str, repository: str, tag: str) -> str:
    """Return the text with every relative link, and every picture as the file itself."""
    at = f"https://github.com/{repository}"

    def link(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        return f"{picture}[{words}]({at}/{'raw' if picture else 'blob'}/{tag}/{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)]+)\)", link, text)


def with_urls(project: str, repository: str) -> str:
    """pyproject.toml with the addresses that a package index shows."""
    at = f"https://github.com/{repository}"
    urls = f'[project.urls]\nRepository = "{at}"\nIssues = "{at}/issues"\n'
    urls += f'Changelog = "{at}/blob/main/CHANGELOG.md"\n\n'
    return project.replace(
        "[project.optional-dependencies]", urls + "[project.optional-dependencies]"
    )


def main() -> None:
    repository, tag = sys.argv[1:]
    readme, project = ROOT / "README.md", ROOT / "pyproject.toml"
    readme.write_text(absolute(readme.read_text(), repository, tag))
    project.write_text(with_urls(project.read_text(), repository))


if __name__ == "__main__":
    main()
