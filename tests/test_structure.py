"""The rules of the house: who imports whom and when, what it costs, names are unique."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

import folkmoot

ROOT = Path(folkmoot.__file__).parent
FLOORS = ["signatures", "modules", "optimizers", "pipelines"]
PICTURE = (ROOT / "docs" / "architecture.md").read_text()
ROOMS: dict[str, list[str]] = {}
for floor in FLOORS[1:]:
    numbered = re.findall(rf"\b{floor[0]}(\d+)\(?\[(\w+)\]", PICTURE)
    # in the order of their numbers
    ROOMS[floor] = [room for _, room in sorted((int(n), room) for n, room in numbered)]
ATTACHED = set(re.findall(r"\(\[(\w+)\]\)", PICTURE))
SIBLINGS = {"compilation", "tuning", "reporting", *ATTACHED}
MAY_USE = {
    *(("reproduction", "training"), ("tuning", "compilation")),
    *(("pipeline", "compilation"), ("pipeline", "tuning")),
}
HEAVY = {
    *("torch", "torch_geometric", "sentence_transformers", "mlflow", "matplotlib", "datasets"),
    *("litellm", "pyarrow", "pandas", "scipy", "xllamacpp", "sqlalchemy", "jinja2", "grpc"),
    *("psycopg", "httpx", "networkx", "psutil", "ray", "numpy", "optuna", "rich"),
}
HEAVY_FOR_COMMANDS = {*HEAVY, "dspy", "aiohttp", "pydantic"}
MANY = 150
"""So many statements of our own take as long to import as a library."""

OF_EXTRAS = {
    *("torch", "torch_geometric", "sentence_transformers", "safetensors", "networkx", "xllamacpp"),
    *("datasets", "openpyxl", "psutil", "psycopg", "grpc", "ray"),
}

ON_DISK = ["mlflow_run_id", "mlflow_parent_id", "mlflow_experiment_id"]
ON_DISK += ["mlflow_experiment", r"mlflow\.json"]
"""Names in files of runs, which stay as they are."""

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
Path_ = tuple[str, ...]
When = Literal["top", "type", "function"]


class Arrow(NamedTuple):
    """One module imports from another, as paths from the package's root."""

    source: Path_
    target: Path_
    when: When

    def __str__(self) -> str:
        return f"{'/'.join(self.source)} -> {'/'.join(self.target)}"


class Module(NamedTuple):
    """A module of the package: its path from the root, without `.py`, and its syntax tree."""

    path: Path_
    tree: ast.Module

    @property
    def room(self) -> Path_:
        return self.path[:2] if len(self.path) > 2 else self.path[:1]


@cache
def modules(root: Path) -> dict[Path_, Module]:
    files = [file for floor in FLOORS for file in sorted((root / floor).rglob("*.py"))]
    paths = {file: file.relative_to(root).with_suffix("").parts for file in files}
    return {path: Module(path, ast.parse(file.read_text())) for file, path in paths.items()}


@cache
def statements(tree: ast.Module) -> list[tuple[ast.stmt, When]]:
    """Every statement of a module, and when it is carried out."""

    def walk(node: ast.AST, when: When) -> Iterator[tuple[ast.stmt, When]]:
        for child in ast.iter_child_nodes(node):
            now = when
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                now = "function"
            elif isinstance(child, ast.If) and when == "top":
                now = "type" if "TYPE_CHECKING" in ast.dump(child.test) else when
            if isinstance(child, ast.stmt):
                yield child, when
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                yield from walk(child, now)

    return list(walk(tree, "top"))


def times(tree: ast.Module) -> list[tuple[ast.Import | ast.ImportFrom, When]]:
    """Every import of a module, and when it happens."""
    every = statements(tree)
    return [(one, when) for one, when in every if isinstance(one, ast.Import | ast.ImportFrom)]


@cache
def arrows(root: Path) -> list[Arrow]:
    """The imports inside the package, each once."""
    there_are = modules(root)

    def target(parts: Path_) -> Path_ | None:
        while parts:
            for path in (parts, (*parts, "__init__")):
                if path in there_are:
                    return path
            parts = parts[:-1]
        return None

    imports = {}
    for module in there_are.values():
        for node, when in times(module.tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                named = filter(None, (node.module or "").split("."))
                base = module.path[: -node.level] + tuple(named)
                for alias in node.names:
                    there = target((*base, alias.name))
                    if there and there != module.path:
                        imports[Arrow(module.path, there, when)] = None
    return list(imports)


def libraries(module: Module) -> set[str]:
    """The other packages that importing a module imports by itself."""
    names = []
    for node, when in times(module.tree):
        if when == "top" and isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif when == "top" and isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
    return {name.partition(".")[0] for name in names}


def ways(root: Path, *whens: str) -> dict[Path_, set[Path_]]:
    """What each module imports at these times, and with that what those import, and so on."""
    into = defaultdict(set)
    for arrow in arrows(root):
        if arrow.when in whens:
            into[arrow.source].add(arrow.target)
    if whens == ("top",):  # the packages around a module are imported before it
        for path in modules(root):
            around = [(*path[:end], "__init__") for end in range(1, len(path))]
            into[path].update(one for one in around if one in modules(root) and one != path)

    def below(path: Path_) -> set[Path_]:
        seen: set[Path_] = set()
        waiting = [path]
        while waiting:
            new = into[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    return {path: below(path) for path in modules(root)}


@cache
def reached(root: Path) -> dict[Path_, set[str]]:
    """The libraries that importing each module brings in, by all that it imports at the top."""
    own = {path: libraries(module) for path, module in modules(root).items()}
    return {path: own[path].union(*map(own.get, way)) for path, way in ways(root, "top").items()}


def circles(root: Path) -> list[str]:
    """The modules that import themselves by way of others, whenever that happens."""
    every = ways(root, "top", "type", "function")
    return ["/".join(path) for path, way in every.items() if path in way]


def upward(root: Path) -> list[str]:
    """Arrows to a floor above, or to a room that comes later in its floor's own order."""

    def place(path: Path_) -> tuple[int, int]:
        rooms = ROOMS.get(path[0], [])
        known = len(path) > 2 and path[1] in rooms
        return FLOORS.index(path[0]), rooms.index(path[1]) if known else -1

    return [
        str(arrow)
        for arrow in arrows(root)
        if (a := place(arrow.source)) < (b := place(arrow.target))
        and (a[0] < b[0] or a[1] >= 0)
        and not (arrow.source[0] == "pipelines" and (arrow.source[1], arrow.target[1]) in MAY_USE)
    ]


def among_siblings(root: Path) -> list[str]:
    return [
        str(arrow)
        for arrow in arrows(root)
        if arrow.source[0] == arrow.target[0] == "pipelines"
        and arrow.source[1] != arrow.target[1]
        and {arrow.source[1], arrow.target[1]} <= SIBLINGS
        and (arrow.source[1], arrow.target[1]) not in MAY_USE
    ]


def _of_the_command_line(path: Path_) -> bool:
    return path[:2] == ("pipelines", "cli") or path[-1] == "command"


def late(root: Path) -> list[str]:
    """Imports inside functions of what is not heavy, or is imported at the top anyway."""
    weight, there, at_the_top = reached(root), modules(root), ways(root, "top")
    found = []
    for arrow in arrows(root):
        in_cli = _of_the_command_line(arrow.source)
        heavy = HEAVY_FOR_COMMANDS if in_cli else {*HEAVY, "dspy"}
        new = {arrow.target, *at_the_top[arrow.target]} - at_the_top[arrow.source]
        own = sum(len(statements(there[path].tree)) for path in new - {arrow.source})
        brought = (weight[arrow.target] - weight[arrow.source]) & heavy
        if arrow.when == "function" and not brought and own < MANY:
            found.append(str(arrow))
    return found


def public_names(root: Path) -> dict[str, list[str]]:
    """Where each public function and class is defined; commands are named as what they call."""
    found = defaultdict(list)
    for module in modules(root).values():
        if not _of_the_command_line(module.path):
            for node in module.tree.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    found[node.name].append("/".join(module.path))
    return {name: places for name, places in found.items() if not name.startswith("_")}


def code_of(file: Path) -> str:
    """The text of a module, without its docstrings and comments."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            del node.body[0]
    return ast.unparse(tree)


def naming_mlflow(root: Path) -> list[str]:
    # the version is among those that a run notes
    allowed = {("pipelines", "cli", "ui"), ("pipelines", "cli", "doctor")}
    allowed.add(("pipelines", "runs", "manifest"))
    others = [path for path in modules(root) if path[1] != "tracking" and path not in allowed]
    files = {path: root.joinpath(*path).with_suffix(".py") for path in others}
    return [
        "/".join(path)
        for path, file in files.items()
        if "mlflow" in file.read_text() and "mlflow" in re.sub("|".join(ON_DISK), "", code_of(file))
    ]


def test_nothing_imports_upwards_or_in_a_circle_or_late_without_need() -> None:
    assert len(arrows(ROOT)) > 3
    assert upward(ROOT) == []
    assert among_siblings(ROOT) == []
    assert circles(ROOT) == []
    assert late(ROOT) == []  # imports inside functions are for weight
    assert naming_mlflow(ROOT) == []


def test_the_core_never_imports_an_attached_room() -> None:
    assert len(ATTACHED) > 3
    found = [arrow for arrow in arrows(ROOT) if arrow.target[1] in ATTACHED]
    assert found
    assert [str(arrow) for arrow in found if arrow.source[1] not in ATTACHED] == []


def test_what_users_call_is_imported_without_the_packages_of_extras() -> None:
    brought = {path: packages & OF_EXTRAS for path, packages in reached(ROOT).items()}
    assert not {path: found for path, found in brought.items() if path[0] == "pipelines" and found}


def test_imports_inside_the_package_are_relative() -> None:
    """But in the file that MLflow copies into a saved model, and runs from there."""
    inside = {path: module for path, module in modules(ROOT).items() if path[-1] != "saved_model"}
    for path, module in inside.items():
        for node, _ in times(module.tree):
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert (node.module or "").partition(".")[0] != "folkmoot", path
            elif isinstance(node, ast.Import):
                assert all(alias.name.partition(".")[0] != "folkmoot" for alias in node.names), path


def test_the_rules_see_what_breaks_them(tmp_path: Path) -> None:
    """One small house in which every rule is broken once."""
    files = {
        "modules/base/low": "from ..agents import seat\nfrom ...pipelines.data import load\n",
        "modules/agents/seat": "def f():\n    from ..base import plain\n",
        "modules/base/plain": "import torch\nclass Row: ...\n",
        "modules/base/light": "class Row: ...\n",
        "pipelines/data/load": "if TYPE_CHECKING:\n from . import other\ndef f():\n from .. "
        "import base\n",
        "pipelines/data/other": "def f():\n    from .load import f\n",
        "pipelines/base/__init__": "",
        "pipelines/tuning/tune": "from ..training import train\nfrom ..compilation import "
        "compile\n",
        "pipelines/training/train": "'''mlflow'''\nimport mlflow.pyfunc\n",
        "pipelines/compilation/compile": "'mlflow'\nfrom ..training.train import "
        "fit\nrow['mlflow_id']\n",
        "pipelines/cli/tune": "def f():\n    from ..tuning.tune import g\n",
    }
    for name, code in files.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    assert upward(tmp_path) == [
        "modules/base/low -> modules/agents/seat",
        "modules/base/low -> pipelines/data/load",
        "pipelines/compilation/compile -> pipelines/training/train",
        "pipelines/tuning/tune -> pipelines/training/train",
    ]
    network = "pipelines/training/train"
    callers = ("pipelines/compilation/compile", "pipelines/tuning/tune")
    assert among_siblings(tmp_path) == [f"{caller} -> {network}" for caller in callers]
    assert circles(tmp_path) == ["pipelines/data/load", "pipelines/data/other"]
    assert late(tmp_path) == [
        "pipelines/data/load -> pipelines/base/__init__",
        "pipelines/data/other -> pipelines/data/load",
    ]
    assert public_names(tmp_path)["Row"] == ["modules/base/light", "modules/base/plain"]
    assert naming_mlflow(tmp_path) == ["pipelines/compilation/compile", "pipelines/training/train"]


def test_importing_the_package_is_quick_and_light() -> None:
    code = "import sys, time; began = time.process_time(); import folkmoot; "
    code += "took = time.process_time() - began; print(took, *HEAVY & set(sys.modules))"
    code = code.replace("HEAVY", "{'dspy', 'mlflow', 'torch', 'litellm', 'optuna'}")
    how: dict[str, Any] = {"capture_output": True, "text": True, "check": True, "cwd": "/"}
    took, *heavy = subprocess.run([sys.executable, "-c", code], **how).stdout.split()
    assert not heavy
    assert float(took) < 0.3


def test_asking_waits_for_nothing_heavy() -> None:
    weight = reached(ROOT)
    assert not weight["pipelines", "cli", "app"] & HEAVY_FOR_COMMANDS  # --help
    assert not weight["pipelines", "cli", "ask"] & HEAVY - {"rich"}
    assert not weight["pipelines", "evaluation", "evaluate"] & HEAVY


def test_every_public_name_can_be_had_and_is_defined_once() -> None:
    assert [name for name, places in public_names(ROOT).items() if len(places) > 1] == []
    for name in folkmoot.__all__:
        assert getattr(folkmoot, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        folkmoot.no_such_name  # noqa: B018


def test_every_package_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(project["tool"]["setuptools"]["packages"])
    found = [path for floor in FLOORS for path in (ROOT / floor).rglob("__init__.py")]
    there = {".".join(["folkmoot", *path.parent.relative_to(ROOT).parts]) for path in found}
    assert there | {"folkmoot"} == listed


def test_every_module_says_what_it_is_for() -> None:
    for path, module in modules(ROOT).items():
        assert ast.get_docstring(module.tree), f"{path} has no docstring"


def test_nothing_loads_pickle() -> None:
    banned = ("pickle.load", "allow_pickle=True", "joblib.load", "torch.load(")
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            assert not any(word in path.read_text() for word in banned), path


def calls_of(*names: str) -> dict[str, Counter[str]]:
    """How often each file calls what has each of these names."""
    found: dict[str, Counter[str]] = {name: Counter() for name in names}
    for module in modules(ROOT).values():
        for node in ast.walk(module.tree):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name) and called.id in found:
                found[called.id]["/".join(module.path)] += 1
    return found


def test_one_file_answers_questions_and_one_names_the_context_variables() -> None:
    calls = calls_of("RowFile", "answer_row", "ContextVar")
    assert list(calls["RowFile"]) == list(calls["answer_row"]) == ["pipelines/evaluation/sheet"]
    assert list(calls["ContextVar"]) == ["modules/base/context"]
    assert calls["ContextVar"]["modules/base/context"] <= 10


def test_the_picture_in_the_docs_shows_the_rooms_that_there_are() -> None:
    for floor, rooms in ROOMS.items():
        there = {path.name for path in (ROOT / floor).iterdir() if (path / "__init__.py").exists()}
        assert there == set(rooms)
