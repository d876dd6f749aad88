"""Plans a pipeline: its steps, each with the request of the command that carries it out."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError, did_you_mean
from ...modules.base.yaml_file import read_yaml
from ...modules.protocols.registry import PROTOCOLS
from ..base.budget import Budget
from ..base.life import Plan
from ..compilation.plan import plan_compilation
from ..compilation.request import CompileRequest
from ..contest.plan import plan_contest
from ..contest.request import ContestRequest
from ..data.load import load
from ..programs.build import takes
from ..programs.resolve import YAML_SUFFIXES, program_of
from ..runs.manifest import git_commit, versions
from ..tuning.plan import plan_study
from ..tuning.request import TuneRequest
from .request import PipelineRequest

REQUESTS: dict[str, type[Any]] = {
    "compile": CompileRequest,
    "tune": TuneRequest,
    "contest": ContestRequest,
}
"""The steps in their order."""

PLANS: dict[str, Callable[[Any], Any]] = {
    "compile": plan_compilation,
    "tune": plan_study,
    "contest": plan_contest,
}
HELD_OUT = 0.3
"""Share of the training questions that is held out where a file names no others."""

_OF_SPACES = ("program", "lms", "compile")
"""Keys of a study's space that are no parameters of a protocol."""

_OWN = ("data", "programs", "register", "budget", *REQUESTS)
_GIVEN = (
    *("program", "questions", "train", "validation", "budget", "out", "register"),
    *("tracking", "progress", "settings", "defaults", "callbacks", "on_question"),
)
"""Fields of requests that the pipeline fills."""


@dataclass
class PipelineStep:
    """A step: what it is called, the program it works on (None for the contest), its folder below
    that of the pipeline, and its request so far.
    """

    name: str
    program: str | None
    folder: str
    request: Any

    @property
    def title(self) -> str:
        return self.name if self.program is None else f"{self.name} {self.program}"


@dataclass
class PipelinePlan:
    """A checked pipeline. `notes` says which programs a step leaves as they are."""

    request: PipelineRequest
    name: str
    programs: list[str]
    steps: list[PipelineStep]
    plans: list[Plan]
    register: str | None
    about: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    title: str = "pipeline"

    @property
    def out(self) -> Path | None:
        return None if self.request.out is None else Path(self.request.out).expanduser()

    @property
    def warnings(self) -> list[str]:
        return [warning for plan in self.plans for warning in plan.warnings]

    @property
    def cost(self) -> tuple[float, float] | None:
        """USD of all steps, from and to; None where the price of one is unknown."""
        low = high = 0.0
        for plan in self.plans:
            if plan.cost is None:
                return None
            low, high = low + plan.cost[0], high + plan.cost[1]
        return low, high

    def lines(self) -> list[Any]:
        lines: list[Any] = []
        for number, (step, plan) in enumerate(zip(self.steps, self.plans, strict=True), 1):
            lines += [f"{number}. {step.title}", *plan.lines()]
        lines += self.notes
        if self.cost is not None:
            lines.append(f"in all: {self.cost[0]:.2f} to {self.cost[1]:.2f} USD")
        if self.request.budget is not None:
            lines.append(f"budget of all steps: {self.request.budget}")
        if self.register is not None:
            lines.append(f"the winner is registered as {self.register}")
        return lines

    def to_dict(self) -> dict[str, object]:
        pairs = zip(self.steps, self.plans, strict=True)
        return {
            "steps": [{"step": step.title, **plan.to_dict()} for step, plan in pairs],
            "cost_usd": self.cost,
            "budget": None if self.request.budget is None else str(self.request.budget),
            "register": self.register,
        }


def plan_pipeline(request: PipelineRequest, *, stored: bool = False) -> PipelinePlan:
    """Read and check the file and the input of every step. Raises UserError before any LM is
    called. With `stored`, a pipeline without a folder gets one under `runs/`.
    """
    if request.file is None:
        raise UserError("FILE is missing: name a pipeline, or write one with --new")
    document, name, home = _document(request.file)
    _check_keys("the pipeline", document, [*_OWN, *_shared_names()])
    programs = document.get("programs")
    if not isinstance(programs, list) or not all(isinstance(each, str) for each in programs):
        raise UserError("the pipeline has no list of programs: write programs: [single:cot]")
    if not programs or len(set(programs)) < len(programs):
        raise UserError("programs is empty or names one twice: name each program once")
    if not any(step in document for step in REQUESTS):
        raise UserError(f"the pipeline has no step: give one of {', '.join(REQUESTS)}")
    budget = document.get("budget") if request.budget is None else request.budget
    budget = Budget.parse(budget) if isinstance(budget, str) else budget
    out = request.out
    if out is None and stored:
        out = Path("runs") / f"pipeline-{name}"
    request = replace(request, budget=budget, out=out)
    register = document.get("register")
    if register is not None and not request.tracking:
        raise UserError("register needs MLflow: drop --no-track, or the key register")
    if len(programs) > 1 and register is not None and "contest" not in document:
        raise UserError("several programs and no contest: add contest, or leave one program")
    data = _data(document, home)
    steps, notes = list[PipelineStep](), list[str]()
    roles = {"roles": _place(document["roles"], home)} if "roles" in document else {}
    for step in _steps({**document, **roles}, data, programs):
        if step.name == "tune" and len(programs) > 1 and (why := _misfit(step)):
            notes.append(f"{step.program} is not tuned: it has no {why}")
        else:
            steps.append(step)
    if notes and not any(step.name == "tune" for step in steps):
        raise UserError(f"no program can be tuned: {'; '.join(notes)}")
    plans = list[Plan]()
    for step in steps:
        # What earlier steps leave is shared again, so that this is the least that a step gets.
        share = None if budget is None else budget.part(1 / len(steps))
        asked = replace(step.request, budget=share)
        if step.name == "contest":
            asked = entered(asked, {each: _planned(each, steps) for each in programs})
        # All are planned at once: a mistake in the last step is found before the first one is paid.
        plans.append(PLANS[step.name](asked))
    # With more money, or another name for the winner, it is the same pipeline.
    kept = {key: value for key, value in document.items() if key not in ("budget", "register")}
    about = _about(name, kept, str(document["data"].get("test") or document["data"].get("train")))
    return PipelinePlan(request, name, programs, steps, plans, register, about, notes)


def _planned(program: str, steps: list[PipelineStep]) -> Any:
    """The program as the contest is planned with it: one that an earlier step trains is not there
    yet.
    """
    protocol = PROTOCOLS.find(program)
    trained = Path(program).suffix in YAML_SUFFIXES or (protocol and protocol.learning)
    if trained and any(step.program == program for step in steps):
        return program_of(program, untrained=True)
    return program


def _document(file: Any) -> tuple[dict[str, Any], str, Path]:
    """The content of a pipeline, its name, and the folder that its paths start from."""
    if isinstance(file, Mapping):
        return dict(file), "pipeline", Path()
    path = Path(file).expanduser()
    document = read_yaml(path, "pipeline", "programs: [single:cot]")
    return document, path.stem, path.parent


def _check_keys(where: str, keys: Mapping[str, Any], known: list[str]) -> None:
    for key in keys:
        if key not in known:
            raise UserError(f"{where} has an unknown key {key!r}{did_you_mean(key, known)}")


def _names(step: str) -> list[str]:
    given = _GIVEN if step == "tune" else (*_GIVEN, "space")
    return [each.name for each in fields(REQUESTS[step]) if each.name not in given]


def _shared_names() -> list[str]:
    return [name for step in REQUESTS for name in _names(step) if name not in (*_OWN, "space")]


def _data(document: Mapping[str, Any], home: Path) -> dict[str, Any]:
    """The questions by part. Where none are held out for validation, some of the training
    questions are, by the pipeline's seed.
    """
    data = document.get("data")
    if not isinstance(data, Mapping):
        raise UserError("the pipeline has no data: write data: {train: FILE, test: FILE}")
    _check_keys("data", data, ["train", "validation", "test"])
    learns = any(step in document for step in ("compile", "tune"))
    for part, needed in (("train", learns), ("test", "contest" in document)):
        if needed and data.get(part) is None:
            raise UserError(f"data has no {part}: name a file of labelled questions")
    parts = {part: _place(source, home) for part, source in data.items()}
    if learns and "validation" not in parts:
        columns, kind = document.get("columns"), document.get("kind")
        questions = load(parts["train"], columns=columns, kind=kind)
        # Files are often sorted by topic or answer: the last part would be another population.
        random.Random(document.get("seed", 0)).shuffle(questions)
        held_out = round(HELD_OUT * len(questions))
        parts |= {"validation": questions[:held_out], "train": questions[held_out:]}
    return parts


def _place(source: Any, home: Path) -> Any:
    """A file beside that of the pipeline, else what was given."""
    beside = home / source if isinstance(source, str) else None
    return str(beside) if beside is not None and beside.exists() else source


def _steps(
    document: Mapping[str, Any], data: Mapping[str, Any], programs: list[str]
) -> Iterator[PipelineStep]:
    for name in ("compile", "tune"):
        if name in document:
            for number, program in enumerate(programs, start=1):
                # Specs have colons, and may be paths.
                slug = re.sub(r"[^\w.=+-]+", "-", program).strip("-")[:60]
                given = {"train": data["train"], "validation": data["validation"]}
                options = _options(document, name, read=isinstance(data["train"], list))
                if name == "tune":
                    options["space"] = {"program": program, **(options.get("space") or {})}
                else:
                    given["program"] = program
                request = REQUESTS[name](**given, **options)
                yield PipelineStep(name, program, f"{name}-{number}-{slug}", request)
    if "contest" in document:
        request = ContestRequest(data["test"], **_options(document, "contest"))
        yield PipelineStep("contest", None, "contest", request)


def entered(request: ContestRequest, programs: Mapping[str, Any]) -> ContestRequest:
    """The contest with the programs as they are by now, by name, beside those that the file adds;
    one alone meets the default field.
    """
    added = request.added
    if not isinstance(added, Mapping):
        added = {str(program): program for program in added}
    if len(programs) > 1 and request.field == "fair":
        return replace(request, field=dict(programs), added=added)
    return replace(request, added={**programs, **added})


def _options(document: Mapping[str, Any], step: str, *, read: bool = False) -> dict[str, Any]:
    """The options of a step: those that all share, then its own. Where its questions are `read`,
    nothing is left of how to read them.
    """
    own = document[step] or {}
    if not isinstance(own, Mapping):
        raise UserError(f"{step} is {own!r}: give its options, such as {step}: {{}}")
    names = _names(step)
    _check_keys(step, own, names)
    shared = {name: document[name] for name in document if name in names and name not in _OWN}
    options = {**shared, **own}
    if options.get("margin") is not None:
        options["margin"] = str(options["margin"])  # points, as on the command line
    unread = ("columns", "kind", "show") if read else ()
    return {
        **{name: value for name, value in options.items() if name not in unread},
        "tracking": False,
        "progress": False,
    }


def _misfit(step: PipelineStep) -> str:
    """The first parameter of the study's space that a program does not have; empty where it has all
    of them, or where only the study can say.
    """
    protocol = PROTOCOLS.find(str(step.program).partition(":")[0])
    known = set() if protocol is None else {*takes(protocol), *_OF_SPACES}
    return next((name for name in step.request.space if known and name not in known), "")


def _about(name: str, document: Mapping[str, Any], data: str) -> dict[str, Any]:
    # An LM or a program of Python's is known by its name, since its address is another each time.
    text = json.dumps(document, sort_keys=True, default=_named)
    digest = hashlib.sha256(text.encode()).hexdigest()
    manifest = {
        "program": {"program": "pipeline"},
        "program_hash": digest,
        "prompt_hash": "",
        "lms": {},
        "data_fingerprint": hashlib.sha256(data.encode()).hexdigest(),
        "questions": 0,
        "metric": None,
        "settings": {"command": "pipeline", "label": name, "data": data},
        "versions": dict(versions()),
        "git_commit": git_commit(),
        "mlflow_run_id": None,
    }
    return {"hash": digest, "manifest": manifest}


def _named(thing: Any) -> str:
    return str(getattr(thing, "model", None) or getattr(thing, "__name__", type(thing).__name__))
