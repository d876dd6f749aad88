"""Writes docs/api.md from the docstrings of the public API: `make api`. A test holds it up
to date.

Each thing is said once: a keyword that several functions take with the same words stands in one
list at the beginning, and what a function takes otherwise stands below it.
"""

from __future__ import annotations

import ast
import inspect
import re
import types as types_module
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ForwardRef, NamedTuple

import folkmoot as fm

PAGE = Path(__file__).with_name("api.md")
HEAD = """# API reference

What `import folkmoot as fm` gives, from its docstrings. For the command line see
`folkmoot COMMAND --help`. What cannot be used raises [`fm.UserError`](#fmusererror), one sentence.
Every program returns a `dspy.Prediction` with the fields that [`fm.Program`](#fmprogram) lists.
Every result has `lines()` and `in_words()`, its figures in words; `to_dict()`; `empty`, whether
nothing is finished; `stopped`, why it ended early; `paused`, whether an endpoint or account failed;
and `run_id`, its run in MLflow.

## Shared keywords

A keyword that has no line at its function or class is one of these.
"""

AWAITED = {"acontest": "contest", "aevaluate": "evaluate"}
"""Functions to be awaited, which take what another one takes."""

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

INNER = {
    *("named", "wording", "parts", "other_seats", "with_seats", "take", "reseed", "lm_of_its_own"),
    *("identity", "grade_now", "regrade", "graded", "lost", "default", "scale", "like"),
    *("unit", "did_well", "headline", "figures", "sure", "price", "no_worse_words", "few_clusters"),
    *("worth", "text_form", "fingerprint", "unweighed", "weighs", "check_saved", "place", "acts"),
    *(
        "rename",
        "accuracy_a",
        "accuracy_b",
        "gat",
        "idle",
        "sampled",
        "watched",
        "not_tried_k_times",
    ),
}
"""Names that folkmoot's own rooms use: they are public, and nobody needs them on this page."""

SAID_ABOVE = {"lines", "in_words", "to_dict", "empty", "stopped", "paused", "run_id", "card"}
"""What every result has: the page says it once, in its head."""

SECTIONS = ("Args", "Attributes", "Raises", "Returns")


class Item(NamedTuple):
    """What is said about an argument or attribute."""

    name: str
    words: str


class Entry(NamedTuple):
    """A public thing, with its docstring taken apart."""

    heading: str
    call: str
    about: str
    types: Mapping[str, str]
    items: Sequence[Item]
    members: Sequence[str]


def page() -> str:
    """The whole page, in the order of the alphabet."""
    public = [entry(f"`fm.{name}`", getattr(fm, name), name) for name in fm.__all__]
    for name, (module, met) in PARTS.items():
        public.append(entry(f"`{name}`: {met}", getattr(import_module(module), name), name))
    shared = said_often(public)
    keywords = [line(item, type_) for item, type_ in sorted(shared.items())]
    return "\n".join([HEAD, *keywords, "", *(shown(each, shared) for each in public)])


def said_often(entries: Sequence[Entry]) -> dict[Item, str]:
    """The items that several entries have with the same words, with their types: of each name
    the most frequent.
    """
    counted = Counter(item for each in entries for item in each.items)
    types = {item: each.types.get(item.name, "") for each in entries for item in each.items}
    most: dict[str, Item] = {}
    for item, count in counted.most_common():
        if count > 1:
            most.setdefault(item.name, item)
    return {item: types[item] for item in most.values()}


def shown(entry: Entry, shared: Collection[Item]) -> str:
    """An entry as Markdown, without the items that stand at the beginning of the page."""
    own = [item for item in entry.items if item not in shared]
    lines = [line(item, entry.types.get(item.name, "")) for item in own]
    body = "\n".join([*lines, *entry.members])
    parts = (f"## {entry.heading}", entry.call, entry.about, body)
    return "\n\n".join(part for part in parts if part) + "\n"


def line(item: Item, type_: str) -> str:
    return f"- `{item.name}: {type_}`: {item.words}" if type_ else f"- `{item.name}`: {item.words}"


def entry(heading: str, thing: Any, name: str) -> Entry:
    """What the page shows of a class, a function, or a value."""
    if name in AWAITED:
        like = AWAITED[name]
        return Entry(heading, "", f"[`fm.{like}`](#fm{like}), to be awaited.", {}, [], [])
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return Entry(heading, "", about(thing), {}, [], [])
    taken = {} if uncalled(name, thing) else parameters(thing)
    types = taken or attributes(thing, name)
    words, items = taken_apart(inspect.getdoc(thing) or "", list(types))
    call = f"```text\n{called(name, thing)}\n```" if taken else ""
    return Entry(heading, call, words, types, items, list(members(thing, types, items, taken)))


def uncalled(name: str, thing: Any) -> bool:
    return (
        name in HELD or name in PARTS or (inspect.isclass(thing) and issubclass(thing, Exception))
    )


def parameters(thing: Any) -> dict[str, str]:
    """The type of each parameter by its name."""
    signature = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing)
    return {
        each.name: "" if each.annotation is each.empty else annotated(each.annotation)
        for each in signature.parameters.values()
        if each.name not in ("self", "cls")
    }


def attributes(thing: Any, name: str) -> dict[str, str]:
    """The type of each public attribute by its name, where no call shows them."""
    if name not in (*HELD, *PARTS):
        return {}
    named = inspect.get_annotations(thing).items()
    return {key: annotated(annotation) for key, annotation in named if not key.startswith("_")}


def taken_apart(documented: str, names: Sequence[str]) -> tuple[str, list[Item]]:
    """A docstring's own words, and what its sections say about these names. What it raises is
    left out.
    """
    paragraphs: list[str] = []
    items: list[Item] = []
    for paragraph in re.split(rf"\n+(?=(?:{'|'.join(SECTIONS)}):)|\n{{2,}}(?=\S)", documented):
        section = re.match(rf"({'|'.join(SECTIONS)}):\s", paragraph)
        if not section and not re.match(r"Raises UserError", paragraph):
            paragraphs.append(re.sub(r"\s*Raises UserError[^.]*\.$", "", paragraph))
        elif section and section[1] in ("Args", "Attributes"):
            items += named_items(" ".join(paragraph[section.end() :].split()), names)
        elif section and section[1] == "Returns":
            paragraphs.append(paragraph)
    return "\n\n".join(paragraphs), items


def named_items(text: str, names: Sequence[str]) -> Iterator[Item]:
    """`name: words. name, name: words.`, item by item."""
    one = "|".join(sorted(map(re.escape, names), key=len, reverse=True)) or r"\w+"
    begins = list(re.finditer(rf"(?:^|(?<=[.;)] ))((?:{one})(?:, (?:{one}))*): ", text))
    ends = [each.start() for each in begins[1:]] + [len(text)]
    for begin, end in zip(begins, ends, strict=True):
        yield Item(begin[1], text[begin.end() : end].strip())


def members(
    thing: Any, types: Mapping[str, str], items: Sequence[Item], taken: Mapping[str, str]
) -> Iterator[str]:
    """A line for each public method and property, one for attributes without words, and one for
    sentences.
    """
    if not inspect.isclass(thing):
        return
    said = {name for item in items for name in item.name.split(", ")}
    said |= SAID_ABOVE | INNER
    silent = [f"`{name}: {type_}`" for name, type_ in types.items() if name not in said]
    if silent and not taken:
        yield f"- {', '.join(silent)}"
    for name, value in vars(thing).items():
        function = value.__func__ if isinstance(value, classmethod) else value
        if name.startswith("_") or name in {*said, *types} or documented_above(name, thing):
            continue
        if isinstance(function, property):
            returns = inspect.signature(function.fget).return_annotation if function.fget else ""
            words = f": {summary(function)}" if function.__doc__ else ""
            yield f"- `{name}: {annotated(returns)}`{words}"
        elif isinstance(function, types_module.FunctionType) and function.__doc__:
            yield f"- `{called(name, function)}`: {summary(function)}"


def documented_above(name: str, thing: type[Any]) -> bool:
    """Whether a method is one of `fm.Program`, which the page shows there."""
    return thing is not fm.Program and issubclass(thing, fm.Program) and hasattr(fm.Program, name)


def annotated(annotation: Any) -> str:
    """A type as it is written, without modules and what a study or a check reads beside it."""
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    written = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    read = ast.parse(written, mode="eval").body if written.startswith("Annotated[") else None
    if isinstance(read, ast.Subscript) and isinstance(read.slice, ast.Tuple):
        written = ast.unparse(read.slice.elts[0])
    written = re.sub(r"Annotated\[(\w+), (?:FieldInfo|Field)\(.*?\)\]", r"\1", str(written))
    written = re.sub(r"(?:Not)?Required\[(.*)\]$", r"\1", written)
    written = re.sub(r"\b(?:collections\.abc|typing|pathlib|folkmoot)\.(?:[a-z_]+\.)*", "", written)
    return re.sub(r"\b(?:\w+\.)+(?=[A-Z]\w*Environment|Page\b)", "", written)


def about(thing: Any) -> str:
    """What a value that is neither class nor function holds."""
    if not isinstance(thing, Mapping):
        return f"The type `{annotated(thing)}`."
    return f"A {type(thing).__name__} of {', '.join(f'`{key}`' for key in thing)}."


def called(name: str, thing: Any) -> str:
    """The call as one writes it."""
    signature = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing)
    taken = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    given = [argument(each) for each in taken]
    kinds = [each.kind for each in taken]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        given.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returns = signature.return_annotation
    unsaid = inspect.isclass(thing) or returns in (signature.empty, None, "None")
    end = "" if unsaid else f" -> {annotated(returns)}"
    return f"{name}({', '.join(given)}){end}"


def argument(parameter: inspect.Parameter) -> str:
    """`name=default`."""
    many = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    named = "*" * (many.index(parameter.kind) + 1 if parameter.kind in many else 0) + parameter.name
    if parameter.default is parameter.empty:
        return named
    default = re.sub(r"<function (\w+) at \w+>", r"\1", repr(parameter.default))
    return f"{named}={default}"


def summary(function: Any) -> str:
    """The first paragraph of a docstring, on one line, without what it raises."""
    words = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    return re.sub(r" Raises UserError[^.]*\.$", "", words)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
