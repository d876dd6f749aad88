"""Writes docs/api.md from the docstrings of the public API: `make api`. A test holds it up
to date.
"""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import folkmoot as fm

PAGE = Path(__file__).with_name("api.md")
HEAD = """# API reference

What `import folkmoot as fm` gives, from its docstrings. For the command line
see `folkmoot COMMAND --help`.
Every program returns a `dspy.Prediction` with the fields that [`fm.Program`](#fmprogram) lists.
"""

HELD = {
    "RouterCalibration",
    "Comparison",
    "Compilation",
    "Controls",
    "Evaluation",
    "Pair",
    "Rows",
    "Study",
    "Summary",
    "Trained",
}
"""Classes that functions return: nobody calls them."""

PARTS = {
    "ResultRow": ("folkmoot.modules.reading.row", "an item of `Evaluation.rows`"),
    "Compared": ("folkmoot.pipelines.comparison.compared", "an item of `Comparison.runs`"),
    "Recommendation": ("folkmoot.pipelines.comparison.verdict", "`Comparison.recommendation`"),
    "Verdict": ("folkmoot.pipelines.comparison.verdict", "`Comparison.verdict`"),
    "TrialEntry": ("folkmoot.pipelines.tuning.report", "an item of `Study.trials`"),
    "UsageFields": ("folkmoot.modules.base.calls", "`usage` and `paid`, wherever they stand"),
}
"""What stands inside of the others: where it is defined, and where it is met."""


def page() -> str:
    """The whole page, in the order of the alphabet."""
    public = [entry(name, getattr(fm, name)) for name in fm.__all__]
    return "\n".join([HEAD, *public, *(part(name, *where) for name, where in PARTS.items())])


def part(name: str, module: str, met: str) -> str:
    """A class that users meet inside of another: `met` says where."""
    thing = getattr(import_module(module), name)
    return (
        f"## `{name}`: {met}\n\n{text(inspect.getdoc(thing))}\n\n{members(thing)}".rstrip() + "\n"
    )


def entry(name: str, thing: Any) -> str:
    """A heading, the call, the docstring, and for a class its own public methods."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return f"## `fm.{name}`\n\n{about(thing)}\n"
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return f"## `fm.{name}`\n\n{text(inspect.getdoc(thing))}\n"
    parts = [f"## `fm.{name}`"]
    if name not in HELD:
        parts.append(f"```text\n{call(name, thing)}\n```")
    parts.append(text(inspect.getdoc(thing)))
    return "\n\n".join([*parts, members(thing)]).rstrip() + "\n"


def members(thing: Any) -> str:
    """A class's own public methods and, where no call shows them, its attributes, an item each."""
    if not inspect.isclass(thing):
        return ""
    attributes = [
        f"- `{name}: {annotated(annotation)}`"
        for name, annotation in inspect.get_annotations(thing).items()
        if not name.startswith("_") and thing.__name__ in (*HELD, *PARTS)
    ]
    return "\n".join([*attributes, *filter(None, (member(*one) for one in vars(thing).items()))])


def member(name: str, thing: Any) -> str | None:
    """A method or property with its types and what it is for; None for what is neither or says
    nothing.
    """
    function = thing.__func__ if isinstance(thing, classmethod) else thing
    if name.startswith("_") or not isinstance(function, types.FunctionType | property):
        return None
    if isinstance(function, property):
        returns = (
            annotated(inspect.signature(function.fget).return_annotation) if function.fget else ""
        )
        return f"- `{name}: {returns}`" + (f": {summary(function)}" if function.__doc__ else "")
    return (
        f"- `{call(name, function, within=True)}`: {summary(function)}"
        if function.__doc__
        else None
    )


def annotated(annotation: Any) -> str:
    """A type as it is written, without what a study or a check reads beside it."""
    read = ast.parse(annotation, mode="eval").body if isinstance(annotation, str) else None
    bounds = "Field(" in str(annotation)  # which users have to know
    if isinstance(read, ast.Subscript) and ast.unparse(read.value) == "Annotated" and not bounds:
        assert isinstance(read.slice, ast.Tuple)
        return ast.unparse(read.slice.elts[0])
    return annotation if isinstance(annotation, str) else str(inspect.formatannotation(annotation))


def about(thing: Any) -> str:
    """What a value that is neither class nor function holds."""
    names = ", ".join(f"`{key}`" for key in thing) if isinstance(thing, Mapping) else f"`{thing!r}`"
    return f"A {type(thing).__name__} of {names}."


def call(name: str, thing: Any, *, within: bool = False) -> str:
    """The call as one writes it, with types, an argument a line when it is long and not `within`
    one.
    """
    signature = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing)
    parameters = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    given = [argument(one) for one in parameters]
    kinds = [one.kind for one in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        given.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returns = signature.return_annotation
    end = (
        "" if inspect.isclass(thing) or returns is signature.empty else f" -> {annotated(returns)}"
    )
    line = f"{name}({', '.join(given)}){end}"
    return (
        line
        if len(line) <= 100 or within
        else f"{name}(\n" + "".join(f"    {item},\n" for item in given) + f"){end}"
    )


def argument(parameter: inspect.Parameter) -> str:
    """`name: type = default`."""
    many = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    named = "*" * (many.index(parameter.kind) + 1 if parameter.kind in many else 0) + parameter.name
    if parameter.annotation is not parameter.empty:
        named += f": {annotated(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return named
    default = re.sub(r"<function (\w+) at \w+>", r"\1", repr(parameter.default))
    return f"{named} = {default}" if ":" in named else f"{named}={default}"


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
