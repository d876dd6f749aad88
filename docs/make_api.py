"""Writes docs/api.md from the docstrings of the public API: `make api`. A test holds it up to date."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import folkmoot as fm

PAGE = Path(__file__).with_name("api.md")
HEAD = """# API reference

What `import folkmoot as fm` gives, from its docstrings. For the command line see `folkmoot COMMAND --help`.
"""


def page() -> str:
    """The whole page, in the order of the alphabet."""
    return "\n".join([HEAD, *(entry(name, getattr(fm, name)) for name in fm.__all__)])


def entry(name: str, thing: Any) -> str:
    """A heading, the call, the docstring, and for a class its own public methods."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return f"## `fm.{name}`\n\n{about(thing)}\n"
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return f"## `fm.{name}`\n\n{text(inspect.getdoc(thing))}\n"
    parts = [f"## `fm.{name}`", f"```text\n{call(name, thing)}\n```", text(inspect.getdoc(thing))]
    methods = [
        f"- `{call(method, function) if inspect.isfunction(function) else method}`: {summary(function)}"
        for method, function in (vars(thing).items() if inspect.isclass(thing) else ())
        if not method.startswith("_")
        and isinstance(function, types.FunctionType | property)
        and function.__doc__
    ]
    return "\n\n".join([*parts, "\n".join(methods)]).rstrip() + "\n"


def about(thing: Any) -> str:
    """What a value that is neither class nor function holds."""
    names = ", ".join(f"`{key}`" for key in thing) if isinstance(thing, Mapping) else f"`{thing!r}`"
    return f"A {type(thing).__name__} of {names}."


def call(name: str, thing: Any) -> str:
    """The call as one writes it, an argument a line when it is long; annotations are left out."""
    parameters = [
        parameter.replace(annotation=parameter.empty)
        for parameter in inspect.signature(
            thing.__init__ if inspect.isclass(thing) else thing
        ).parameters.values()
        if parameter.name != "self"
    ]
    given = [re.sub(r"<function (\w+) at \w+>", r"\1", str(parameter)) for parameter in parameters]
    first = next(
        (i for i, parameter in enumerate(parameters) if parameter.kind == parameter.KEYWORD_ONLY), None
    )
    if first is not None:
        given.insert(first, "*")
    line = f"{name}({', '.join(given)})"
    return line if len(line) <= 100 else f"{name}(\n" + "".join(f"    {item},\n" for item in given) + ")"


def text(documented: str | None) -> str:
    """A docstring as Markdown: `Args:` and the like become headings of lists."""
    lines, section = [], False
    for line in (documented or "").splitlines():
        if match := re.fullmatch(r"(Args|Raises|Returns):", line.strip()):
            lines += ["", f"**{match[1]}**", ""]
            section = True
        elif section and re.match(r" {4}\S", line):
            lines.append(f"- {line.strip()}")
        elif section and line.startswith(" "):
            lines.append(f"  {line.strip()}")
        else:
            section = section and not line.strip()
            lines.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def summary(function: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
