"""Writes docs/api.md from the docstrings of the public API: `make api`. A test holds it up
to date.

Each thing is said once: an argument that several functions take with the same words stands at the
beginning, and what a function takes otherwise stands below it.
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
from folkmoot.modules.protocols.declared import Shared
from folkmoot.pipelines.base.request import (
    Asking,
    Checked,
    Columned,
    Commands,
    LMs,
    Seats,
    SharedByLMs,
)
from folkmoot.pipelines.cli.command import command_options

PAGE = Path(__file__).with_name("api.md")
HEAD = """# API reference

What `import folkmoot as fm` gives, from its docstrings. For the command line see
`folkmoot COMMAND --help`. What cannot be used raises [`fm.UserError`](#fmusererror), one sentence.
Every program returns a `dspy.Prediction` with the fields that [`fm.Program`](#fmprogram) lists.
Every result has `lines()`, what came out in words; `to_dict()`; `empty`, whether nothing is
finished; `stopped`, why it ended early; `paused`, whether an endpoint or account failed;
`run_id`, its run in MLflow; and where there is something to draw `plot(path)`, as PNG or SVG, of a
study also as interactive `.html`. Plain types are left out.

## Arguments that many functions share

An argument without a line at its function or class is one of these. *Also* names groups of them
that an entry takes, too. `Pairs` are a mapping, or texts such as `"key=value"`.
"""

GROUPS: Mapping[str, Sequence[type[Any]]] = {
    "LMs": (Seats, Asking, SharedByLMs),
    "Programs": (Commands, LMs),
    "Columns": (Columned,),
    "Tasks": (Checked,),
    "Agents": (Shared,),
}
"""Arguments that are taken together: an entry names their group instead of them."""

ALIKE = {
    r"^out: Folder .*temporary one\.$": "Folder of the result, which the same call continues, "
    "without paying for anything twice. Default: a temporary one.",
    r"^tracking: Log the \w+ to MLflow\.$": "Log to MLflow.",
    r"^\w*limit: Use at most this many": "Use at most this many questions, drawn by the seed.",
    r"^\w*split: Split of ": "Split of a data set. Default: the one that the argument names; for "
    "`split`, the one that is evaluated.",
    r"^settings: (?:notes to keep|what to note)": "Notes to keep beside the result.",
}
"""Arguments whose words differ in a noun: how they are known, and what the page says instead."""

AWAITED = {"acontest": "contest", "aevaluate": "evaluate"}
"""Functions to be awaited, which take what another one takes."""

HELD = {
    *("Comparison", "Compilation", "Contest", "Controls", "Endpoint", "Evaluation", "Forecast"),
    *("Imported", "Pair", "Pipeline", "RouterCalibration", "Rows", "Study", "Summary", "Trained"),
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
    *("worth", "text_form", "told_by", "home", "rivals", "rival_usd", "failed", "mlflow_run_id"),
    *("Seat.inputs", "Role.describe", "StrategySelector.describe", "Turn.of", "Task.of", "acts"),
    *("fingerprint", "unweighed", "weighs", "ties", "check_saved", "place"),
    *("rename", "accuracy_a", "accuracy_b", "gat", "idle", "sampled", "watched", "keep", "draws"),
    *("not_tried_k_times", "word", "refuse_idle_role", "most_turns", "next_command", "judged"),
    *("lead", "short", "how_sure", "tests", "legend", "can_show_any", "failure", "other_metric"),
    *("main", "answered", "failures", "mostly_unread", "unbeaten_choice", "met"),
    *("not_shown", "not_met", "near", "port", "routed", "answering", "spoken", "to_row", "socket"),
    *("program_with", "spent", "requests", "ending", "Rows.to_pandas"),
    *("Check.grade", "CorpusEnvironment.close", "WikipediaEnvironment.close", "Pair.notes"),
    *("failure, other_metric, unread", "unread", "f1_outcome", "largest", "leader_price"),
    *("as_given", "lacks_weights", "metered_parts", "Question.given", "Metric.ended"),
    *("has_seat", "Controls.names", "Trained.state"),
}
"""Names that folkmoot's own rooms use: they are public, and nobody needs them on this page."""

SAID_ABOVE = {
    "lines",
    "in_words",
    "to_dict",
    "empty",
    "stopped",
    "paused",
    "run_id",
    "card",
    "plot",
}
"""What every result has: the page says it once, in its head."""

PLAIN = {"bool", "int", "float", "str", "Path", "None"}
"""Types that the words about a thing show."""

BRACKETS = r"\[(?:[^][]|\[(?:[^][]|\[(?:[^][]|\[[^][]*\])*\])*\])*\]"
"""What a type holds, up to four brackets deep."""

SECTIONS = ("Args", "Attributes", "Raises", "Returns")


class Item(NamedTuple):
    """What is said about an argument or attribute."""

    name: str
    words: str


class Entry(NamedTuple):
    """A public thing, with its docstring taken apart; `forms` are what arguments and attributes are
    written as, by name.
    """

    heading: str
    call: str
    groups: Sequence[str]
    about: str
    forms: Mapping[str, str]
    items: Sequence[Item]
    members: Sequence[str]


def page() -> str:
    """The whole page, in the order of the alphabet."""
    public = [entry(f"`fm.{name}`", getattr(fm, name), name) for name in fm.__all__]
    for name, (module, met) in PARTS.items():
        public.append(entry(f"`{name}`: {met}", getattr(import_module(module), name), name))
    shared = said_often(public)
    sections = [HEAD, *shared_sections(shared), *(shown(each, shared) for each in public)]
    return "\n".join(sections)


def shared_sections(shared: Mapping[Item, str]) -> Iterator[str]:
    """What stands at the beginning: each group of arguments, then the others."""
    left = dict(sorted(shared.items()))
    for group in GROUPS:
        inside = [item for item in left if item.name in names_of(group)]
        yield section(f"### {group}", {item: left.pop(item) for item in inside})
    yield section("### Others", left)


def section(heading: str, forms: Mapping[Item, str]) -> str:
    """A line for each words, with all arguments that have them."""
    named: dict[str, list[str]] = {}
    for item, form in forms.items():
        named.setdefault(item.words, []).append(f"`{form}`")
    lines = [f"- {', '.join(names)}: {words}" for words, names in named.items()]
    return "\n".join([heading, "", *lines, ""])


def names_of(group: str) -> list[str]:
    """The arguments of a group."""
    return [name for part in GROUPS[group] for name in inspect.get_annotations(part)]


def said_often(entries: Sequence[Entry]) -> dict[Item, str]:
    """The items that several entries have with the same words, with their forms: of each name
    the most frequent.
    """
    counted = Counter(item for each in entries for item in each.items)
    forms = {item: form_of(item, each) for each in entries for item in each.items}
    most: dict[str, Item] = {}
    for item, count in counted.most_common():
        if count > 1 or item.words in ALIKE.values():
            most.setdefault(item.name, item)
    return {item: forms[item] for item in most.values()}


def form_of(item: Item, entry: Entry) -> str:
    return entry.forms.get(item.name, item.name)


def shown(entry: Entry, shared: Collection[Item]) -> str:
    """An entry as Markdown, without the items that stand at the beginning of the page."""
    own = [item for item in entry.items if item not in shared]
    lines = [line(item, form_of(item, entry)) for item in own]
    body = "\n".join([*lines, *entry.members])
    links = ", ".join(f"[{group}](#{group.lower()})" for group in entry.groups)
    also = f"Also: {links}." if links else ""
    parts = (f"## {entry.heading}", entry.call, also, entry.about, body)
    return "\n\n".join(part for part in parts if part) + "\n"


def line(item: Item, form: str) -> str:
    return f"- `{form}`: {item.words}"


def entry(heading: str, thing: Any, name: str) -> Entry:
    """What the page shows of a class, a function, or a value."""
    if name in AWAITED:
        like = AWAITED[name]
        return Entry(heading, "", (), f"[`fm.{like}`](#fm{like}), to be awaited.", {}, [], [])
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return Entry(heading, "", (), about(thing), {}, [], [])
    taken = [] if uncalled(name, thing) else parameters(thing)
    groups = [group for group in GROUPS if {*names_of(group)} <= {each.name for each in taken}]
    unsaid = [name for group in groups for name in names_of(group)]
    forms = {each.name: form(each, each.name in unsaid) for each in taken} | choices(thing)
    forms = forms or attributes(thing, name)
    words, items = taken_apart(inspect.getdoc(thing) or "", list(forms))
    call = f"`{called(name, thing, unsaid)}`" if taken else ""
    items = [item for item in items if taken or item.name not in INNER]
    lines = list(members(thing, words, forms, items, bool(taken)))
    return Entry(heading, call, groups, words, forms, items, lines)


def uncalled(name: str, thing: Any) -> bool:
    return (
        name in HELD or name in PARTS or (inspect.isclass(thing) and issubclass(thing, Exception))
    )


def parameters(thing: Any) -> list[inspect.Parameter]:
    signature = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing)
    return [each for each in signature.parameters.values() if each.name not in ("self", "cls")]


def form(parameter: inspect.Parameter, unsaid: bool) -> str:
    """A parameter with its type; with the default where no call has it."""
    default = parameter.default
    if unsaid and default not in (None, ()):
        return argument(parameter)
    if parameter.annotation is parameter.empty:
        return parameter.name
    type_ = annotated(parameter.annotation)
    return typed(parameter.name, re.sub(r" \| None$", "", type_) if default is None else type_)


def choices(thing: Any) -> dict[str, str]:
    """The arguments of a command that take one of few values, with these."""
    work = inspect.unwrap(thing)
    named = getattr(work, "__annotations__", {}).get("request", "")
    request = vars(import_module(work.__module__)).get(named)
    options = {} if request is None else command_options(request)
    values = {name: str(option.info.metavar) for name, option in options.items()}
    return {name: f"{name}: {of}" for name, of in values.items() if re.match(r"[a-z]\S*\|", of)}


def typed(name: str, type_: str) -> str:
    """A name with its type, unless that is plain; what a mapping or function holds is left out."""
    type_ = re.sub(rf"\b(Mapping|Callable){BRACKETS}", r"\1", type_)
    parts = {*re.sub(r"Any$", "str", type_).split(" | ")}
    return name if parts <= PLAIN else f"{name}: {type_}"


def attributes(thing: Any, name: str) -> dict[str, str]:
    """The public attributes, where no call shows them."""
    if name not in (*HELD, *PARTS):
        return {}
    return {key: key for key in inspect.get_annotations(thing) if not key.startswith("_")}


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
            named = named_items(" ".join(paragraph[section.end() :].split()), names)
            items += [of_python(item, names) for item in named]
        elif section and section[1] == "Returns":
            paragraphs.append(paragraph)
    return "\n\n".join(paragraphs), items


def of_python(item: Item, names: Sequence[str]) -> Item:
    """The item in the words of Python, and in those that it shares with other functions."""
    words = item.words.replace("In Python also", "Also").replace(" (repeat it)", "")
    for name in names:
        words = re.sub(rf"--{name.replace('_', '-')}\b(?!-)", f"`{name}`", words)
    for pattern, shared in ALIKE.items():
        if re.search(pattern, f"{item.name}: {words}"):
            words = shared
    return Item(item.name, words)


def named_items(text: str, names: Sequence[str]) -> Iterator[Item]:
    """`name: words. name, name: words.`, item by item."""
    one = "|".join(sorted(map(re.escape, names), key=len, reverse=True)) or r"\w+"
    begins = list(re.finditer(rf"(?:^|(?<=[.;)] ))((?:{one})(?:, (?:{one}))*): ", text))
    ends = [each.start() for each in begins[1:]] + [len(text)]
    for begin, end in zip(begins, ends, strict=True):
        yield Item(begin[1], text[begin.end() : end].strip())


def members(
    thing: Any, words: str, forms: Mapping[str, str], items: Sequence[Item], taken: bool
) -> Iterator[str]:
    """A line for the attributes of which nothing is said, and one for each public method and
    property.
    """
    if not inspect.isclass(thing):
        return
    said = {name for item in items for name in item.name.split(", ")}
    said |= SAID_ABOVE | INNER
    in_words = {*re.findall(r"`(\w+)`", words)}
    met = said | in_words | {*re.findall(r"`(\w+)`", " ".join(item.words for item in items))}
    unsaid = [written for name, written in forms.items() if name not in met]
    if unsaid and not taken:
        yield f"- {', '.join(f'`{written}`' for written in unsaid)}"
    for name, value in vars(thing).items():
        function = value.__func__ if isinstance(value, classmethod) else value
        known = name in said or name in forms or f"{thing.__name__}.{name}" in INNER
        if name.startswith("_") or known or documented_above(name, thing):
            continue
        if isinstance(function, property):
            if name in in_words:
                continue
            returns = inspect.signature(function.fget).return_annotation if function.fget else ""
            said_of_it = f": {summary(function)}" if function.__doc__ else ""
            yield f"- `{typed(name, annotated(returns))}`{said_of_it}"
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
    written = re.sub(r"\b(?:collections\.abc|typing|pathlib|folkmoot)\.(?:[a-z_]+\.)*", "", written)
    written = re.sub(r"\b(?:\w+\.)+(?=[A-Z]\w*Environment|Page\b)", "", written)
    return written.replace("Mapping[str, object] | Sequence[str]", "Pairs")


def about(thing: Any) -> str:
    """What a value that is neither class nor function holds."""
    if not isinstance(thing, Mapping):
        return f"The type `{annotated(thing)}`."
    return f"A {type(thing).__name__} of {', '.join(f'`{key}`' for key in thing)}."


def called(name: str, thing: Any, unsaid: Collection[str] = ()) -> str:
    """The call as one writes it, without the arguments that are unsaid."""
    signature = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing)
    taken = [each for each in parameters(thing) if each.name not in unsaid]
    given = [argument(each) for each in taken]
    kinds = [each.kind for each in taken]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        given.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returns = signature.return_annotation
    nothing = inspect.isclass(thing) or returns in (signature.empty, None, "None")
    end = "" if nothing else f" -> {annotated(returns)}"
    return f"{name}({', '.join(given)}){end}"


def argument(parameter: inspect.Parameter) -> str:
    """`name=default`."""
    many = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    named = "*" * (many.index(parameter.kind) + 1 if parameter.kind in many else 0) + parameter.name
    if parameter.default is parameter.empty:
        return named
    default = parameter.default
    written = re.sub(r"<function (\w+) at \w+>", r"\1", repr(default))
    if isinstance(default, float):
        written = f"{default:.4g}"
    if isinstance(default, tuple) and len(default) > 3:
        written = f"({default[0]!r}, …, {default[-1]!r})"
    return f"{named}={'…' if written == '<factory>' else written}"


def summary(function: Any) -> str:
    """Return the first paragraph of a docstring, on one line, without what it raises, and without
    its "Return", which the arrow before it says.
    """
    words = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    words = re.sub(r" Raises UserError[^.]*\.$", "", words.removeprefix("Return "))
    return words[:1].upper() + words[1:]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
