"""The options of every command: a dataclass each, made of groups that are written once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

from typer import Argument, Option

from ...modules.base.errors import UserError
from .completion import OPTIMIZERS, completed_optimizers, completed_programs

SORTS = ("time", "score", "cost", "calls", "program", "data", "kind", "state", "folder")

Text = str | None
Whole = int | None
Place = Path | None
Made = TypeVar("Made")


def source(of: str) -> Any:
    """An option that names questions."""
    return Option(metavar="NAME|FILE", help=of)


def folder(of: str) -> Any:
    """An option that names a folder."""
    return Option(metavar="DIR", help=of)


def sampled(what: str) -> Any:
    """The option of a limit on questions of a part of the data."""
    return Option(min=1, help=f"Only so many {what} questions, drawn by the seed.")


def tracked(what: str = "the run", does: str = "Log {} to MLflow.") -> Any:
    """The option that turns logging to MLflow on or off."""
    return Option("--track/--no-track", help=does.format(what))


# Options that stand in commands without the rest of their group ---------------------------------------

Program = Annotated[
    str,
    Argument(
        help="single:cot, ensemble:simple,cot:majority, deliberation:intuitive,reasoner:judge; a YAML file; "
        "a folder of a saved, compiled, tuned, distilled or trained program.",
        autocompletion=completed_programs,
    ),
]
Names = Annotated[
    list[str],
    Option(
        "--lm",
        metavar="[SEAT=]NAME",
        help="LM of every seat, or of one. Default: FOLKMOOT_LM, else local/gemma-3-270m.",
    ),
]
Bases = Annotated[
    list[str],
    Option("--api-base", metavar="[SEAT=]URL", help="Address of an OpenAI-compatible endpoint, up to /v1."),
]
Sets = Annotated[
    list[str], Option("--set", metavar="KEY=VALUE", help="Constructor parameter, such as max_rounds=2.")
]
Temperature = Annotated[float | None, Option(min=0.0, help="Sampling temperature. Default: 0.")]
MaxTokens = Annotated[Whole, Option(min=1, help="Most tokens of a reply. Default: none.")]
AnswerForm = Annotated[
    Text, Option(metavar="label|text", help="Whether a choice is answered by its label or its text.")
]
Timeout = Annotated[
    float | None,
    Option(min=0.1, help="Seconds that one try of an LM call may take. Default: 120, embedded LMs 1800."),
]
LMSettings = Annotated[
    list[str],
    Option(
        "--lm-set",
        metavar="[SEAT.]KEY=VALUE",
        help="Setting of every LM or of a seat's, such as reasoning_effort=low.",
    ),
]
Threads = Annotated[Whole, Option(min=1, help="CPU threads of an embedded LM.")]
Concurrency = Annotated[int, Option(min=1, help="Most questions and LM calls in flight.")]
Record = Annotated[Place, folder("Keep every LM call there, for --lm replay/DIR.")]
Priced = Annotated[
    list[str],
    Option(
        "--price",
        metavar="MODEL=IN,OUT",
        help="USD per million prompt and completion tokens; a third: cached prompt.",
    ),
]
Cache = Annotated[bool, Option("--cache/--no-cache", help="Share answers of hosted LMs between runs.")]
Json = Annotated[bool, Option("--json", help="One JSON object on standard output, nothing else.")]
DryRun = Annotated[bool, Option("--dry-run", help="Show the plan and stop; no LM is asked.")]
Workers = Annotated[Whole, Option(min=1, help="Ray's worker processes. Default: one a CPU.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask before an expensive run.")]
Kind = Annotated[Text, Option(metavar="choice|boolean|number|span|open", help="Kind of answer.")]
Scored = Annotated[
    Text,
    Option(
        metavar="NAME",
        help="accuracy (the default), em, f1, exact, contains, regex:PATTERN, judge, or your own "
        "module:function.",
    ),
]
JudgeLM = Annotated[Text, Option(metavar="NAME", help="LM that grades, for --metric judge.")]
Runs = Annotated[list[str], Argument(metavar="RUN...", help="Folders that evaluate wrote.")]
RunNames = Annotated[
    list[str], Option("--names", metavar="A,B,…", help="What to call the runs. Default: what they ran.")
]
RetryErrors = Annotated[bool, Option("--retry-errors", help="Ask failed questions again.")]
BootstrapSeed = Annotated[int, Option(help="Of the bootstrap.")]
TrainSplit = Annotated[Text, Option(help="Split of the training questions. Default: train.")]


# Groups ----------------------------------------------------------------------------------------------


def listed(values: list[str]) -> list[str]:
    """The items of an option that may repeat, and each time hold several with commas between."""
    return [part.strip() for value in values for part in value.split(",")]


class Default(NamedTuple):
    """What is given of an option elsewhere than on the command line, and where."""

    value: Any
    place: str


@dataclass(kw_only=True)
class Options:
    """What every command has. In help, a command's own options come first, then its groups in their order.

    `defaults` are the options that a configuration file or the environment gave, by field.
    """

    example: ClassVar[str]
    own_defaults: ClassVar[tuple[str, ...]] = ()
    """Options that a configuration file says for this command alone, not for all."""

    as_json: Json = False
    verbose: Annotated[
        bool,
        Option("--verbose", "-v", help="Say what happens: each call, retry and cache hit, and defaults."),
    ] = False
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an unexpected error.")] = False
    defaults: dict[str, Default] = field(default_factory=dict)

    def given(self, name: str) -> bool:
        """Whether an option stands on the command line."""
        return bool(getattr(self, name)) and name not in self.defaults

    def named(self, *names: str) -> dict[str, Any]:
        """These options by name."""
        return {name: getattr(self, name) for name in names}

    def into(self, kind: Callable[..., Made], **more: Any) -> Made:
        """A dataclass whose fields are the options of the same names, and what is given besides."""
        names = [one.name for one in fields(kind) if one.name not in more and hasattr(self, one.name)]  # type: ignore[arg-type]
        return kind(**{name: getattr(self, name) for name in names}, **more)


@dataclass(kw_only=True)
class Quietly(Options):
    """A command that says more than its result."""

    quiet: Annotated[bool, Option("--quiet", "-q", help="No plan and no progress.")] = False

    @property
    def progress(self) -> bool | None:
        """What functions take as `progress`: on a terminal, if not quiet."""
        return False if self.quiet else None


@dataclass(kw_only=True)
class Spending(Quietly):
    """A command that says what it is going to take before it spends."""

    budget: Annotated[
        Text, Option(metavar="LIMITS", help='Hard ceilings, such as "2 USD, 500 calls, 1M tokens, 20 min".')
    ] = None
    dry_run: DryRun = False


@dataclass(kw_only=True)
class Confirmed(Spending):
    """A command that asks before it spends much."""

    yes: Yes = False


@dataclass(kw_only=True)
class Seats(Options):
    """The LMs of a program's seats."""

    lm: Names = field(default_factory=list)
    api_base: Bases = field(default_factory=list)


@dataclass(kw_only=True)
class SharedByLMs(Options):
    """What all LMs of a command share."""

    max_tokens: MaxTokens = None
    answer_form: AnswerForm = None
    threads: Threads = None
    concurrency: Concurrency = 64
    timeout: Timeout = None
    lm_set: LMSettings = field(default_factory=list)
    price: Priced = field(default_factory=list)
    cache: Cache = True


@dataclass(kw_only=True)
class LMs(SharedByLMs, Seats):
    """A program's own settings, and its LMs."""

    sets: Sets = field(default_factory=list)
    inputs: Annotated[
        list[str],
        Option(
            "--inputs",
            metavar="FIELD=QUESTION_FIELD",
            help="Of a program of your own: its field, and the question's that it takes.",
        ),
    ] = field(default_factory=list)
    temperature: Temperature = None

    def fields(self) -> dict[str, str]:
        """`--inputs` by the program's field. Raises UserError."""
        found = {}
        for pair in self.inputs:
            name, equals, source = pair.partition("=")
            if not equals or not name.strip() or not source.strip():
                raise UserError(f"--inputs {pair!r} is no FIELD=QUESTION_FIELD: write such as query=question")
            found[name.strip()] = source.strip()
        return found


@dataclass(kw_only=True)
class Columned(Options):
    """How questions are read from a file."""

    columns: Annotated[
        list[str],
        Option(
            "--columns",
            metavar="FIELD=COLUMN",
            help="Column that holds a field, such as question=text, choices=first,second,third for options "
            "in columns of their own, or answer=gold:from0 for places of options counted from 0.",
        ),
    ] = field(default_factory=list)
    kind: Kind = None

    def column_names(self) -> dict[str, str] | None:
        """`FIELD=COLUMN` pairs by field. Raises UserError."""
        found: dict[str, str] = {}
        for pair in (pair for given in self.columns for pair in re.split(r",(?=\s*\w+=)", given)):
            key, _, value = (part.strip() for part in pair.partition("="))
            if not key or not value or key in found:
                raise UserError(
                    f"--columns {pair!r} is no FIELD=COLUMN pair, or its field stands twice: correct it"
                )
            found[key] = value
        return found or None


# Commands --------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class AskOptions(LMs, Quietly):
    """Ask a program one question and show the dialogue."""

    example = (
        'ask deliberation:intuitive,reasoner:judge "What keeps soup warm?" '
        '--choice "a flask" --choice "a sieve" --lm openai/gpt-4o-mini'
    )

    program: Program
    question: Annotated[str, Argument(help="The question; - reads it from standard input.")]
    choice: Annotated[
        list[str],
        Option(
            "--choice", metavar="[A=]TEXT", help="An option (repeat it); without a label it gets A, B, …."
        ),
    ] = field(default_factory=list)
    context: Annotated[Text, Option(help="A passage to answer from.")] = None
    kind: Kind = None
    record: Record = None


@dataclass(kw_only=True)
class EvaluateOptions(Columned, LMs, Confirmed):
    """Answer labelled questions, score the answers, and keep a row for each.

    Run the same command again to resume a run that was stopped: nothing that is finished is asked twice.
    """

    example = (
        "evaluate deliberation:intuitive,reasoner:judge --data commonsenseqa "
        "--limit 200 --seed 1 --lm openai/gpt-4o-mini --lm judge=openai/gpt-4o"
    )

    program: Program
    data: Annotated[Text, source("Questions: a data set's name, a file, or - for standard input.")] = None
    outcomes: Annotated[
        list[str], Option(metavar="FILE", help="For network:DIR instead: recorded answers.")
    ] = field(default_factory=list)
    metric: Scored = None
    judge_lm: JudgeLM = None
    judge_sample: Annotated[
        Text, source("Answers that people graded: columns question, answer (the reference), given, verdict.")
    ] = None
    split: Annotated[Text, Option(help="Split of the data set.")] = None
    limit: Annotated[Whole, Option(help="Only so many questions.")] = None
    seed: Annotated[
        int | None,
        Option(help="Draw the limit at random (without it, the first ones); a program's own draws, too."),
    ] = None
    out: Annotated[Place, folder("Folder of the run. Default: one under runs/ that it resumes.")] = None
    train: Annotated[Text, source("Training questions, for --demos or weights.")] = None
    train_split: TrainSplit = None
    demos: Annotated[int, Option(min=0, help="Show every agent so many training questions.")] = 0
    demo_seed: Annotated[Whole, Option(help="Draw the demos at random.")] = None
    step_limits: Annotated[
        list[str], Option(metavar="5,8,10,15", help="Once for each step limit of a team.")
    ] = field(default_factory=list)
    max_failures: Annotated[Whole, Option(min=1, help="Stop after so many failed questions.")] = None
    retry_errors: RetryErrors = False
    engine: Annotated[
        str, Option(metavar="asyncio|ray", help="Where to run: in this process, or on a Ray cluster.")
    ] = "asyncio"
    workers: Annotated[Whole, Option(min=1, help="Ray's worker processes. Default: one a CPU.")] = None
    record: Record = None
    track: Annotated[bool, tracked()] = True
    traces: Annotated[
        float | None,
        Option(
            min=0, max=1, help="Share of the questions that MLflow gets as traces. Default: 20 questions."
        ),
    ] = None


@dataclass(kw_only=True)
class Tested(Options):
    """How runs are tested against each other."""

    cluster: Annotated[
        Text,
        Option(
            metavar="FIELD",
            help="Field of meta that says which questions belong together; none for no field. Default: what "
            "the data set declares.",
        ),
    ] = None
    exact: Annotated[bool, Option("--exact", help="McNemar's exact test instead of his mid-p.")] = False
    panel: Annotated[
        int, Option(min=0, metavar="K", help="Of three runs or more, judge a vote of up to so many; 0: none.")
    ] = 5
    seed: BootstrapSeed = 0

    def tested(self) -> dict[str, Any]:
        """The arguments of `compare` and `report`."""
        return {"seed": self.seed, "exact": self.exact, "cluster": self.cluster, "panel": self.panel}


@dataclass(kw_only=True)
class CompareOptions(Seats, Tested, Confirmed):
    """Compare runs question by question: differences with intervals, exact tests, effect sizes, prices.

    Only questions that all runs answered are compared. With --match-budget, one run is enough: --lm and
    --api-base then say where its LM is, if not where its name leads. What it runs takes no more than that
    run took and a fifth, or than --budget; the plan comes first.
    """

    example = "compare runs/cot runs/talk --match-budget"
    own_defaults = ("lm", "api_base", "metric")

    runs: Runs
    names: RunNames = field(default_factory=list)
    baseline: Annotated[
        Text,
        Option(
            metavar="DIR|NAME|N",
            help="The run that the others are measured against, by folder, name or place. Default: the "
            "first, or what --match-budget ran.",
        ),
    ] = None
    match_budget: Annotated[
        bool,
        Option(
            "--match-budget",
            help="Also run self-consistency with as many samples as the costliest run's bill pays for.",
        ),
    ] = False
    data: Annotated[Text, source("Questions for --match-budget. Default: as the run notes.")] = None
    metric: Annotated[
        Text,
        Option(metavar="NAME", help="For --match-budget of runs scored by your own module:function: that."),
    ] = None
    out: Annotated[
        Place, folder("Folder of what --match-budget runs. Default: match-budget in the run's.")
    ] = None
    show: Annotated[int, Option(min=0, help="Show so many questions on which a pair parts.")] = 5
    pairs: Annotated[bool, Option("--pairs", help="Also show the verdict on every pair of runs.")] = False
    concurrency: Concurrency = 64
    price: Priced = field(default_factory=list)


@dataclass(kw_only=True)
class CompileOptions(Columned, LMs, Confirmed):
    """Improve a program's prompts, and say on held-out questions what that gained.

    Run the same command again to resume one that was stopped: nothing that was answered is asked again.
    folkmoot evaluate OUT/program uses the result.
    """

    example = (
        "compile single:cot --train train.jsonl --validation held-out.jsonl "
        '--optimizer mipro --preset light --budget "500 calls" --out runs/compiled --lm openai/gpt-4o-mini'
    )

    program: Program
    train: Annotated[Text, source("Questions that the optimizer learns from.")] = None
    validation: Annotated[Text, source("Held-out questions, to compare before and after on.")] = None
    metric: Scored = None
    judge_lm: JudgeLM = None
    optimizer: Annotated[
        str,
        Option(metavar="NAME", help=f"{', '.join(OPTIMIZERS)}.", autocompletion=completed_optimizers),
    ] = "mipro"
    preset: Annotated[str, Option(metavar="light|medium|heavy", help="How much is tried.")] = "light"
    out: Annotated[Place, folder("Folder of the result; the same command resumes it.")] = None
    train_split: TrainSplit = None
    train_limit: Annotated[Whole, sampled("training")] = None
    validation_split: Annotated[
        Text, Option(help="Split of the held-out questions. Default: validation.")
    ] = None
    validation_limit: Annotated[Whole, sampled("held-out")] = None
    seed: Annotated[int, Option(min=0, help="Of the samples, the split and the optimizer's draws.")] = 0
    prompt_lm: Annotated[
        Text, Option(metavar="NAME", help="LM that proposes instructions. Default: that of --lm.")
    ] = None
    prompt_api_base: Annotated[
        Text, Option(metavar="URL", help="Its address, where that is not --api-base.")
    ] = None
    track: Annotated[bool, tracked()] = True


@dataclass(kw_only=True)
class ReportOptions(Tested, Quietly):
    """Write one HTML page about runs: the verdict first, then figures, plots and dialogues.

    The first run is what the others over the same questions are measured against. The page loads nothing
    from anywhere: send it, print it, or open it on a phone.
    """

    example = "report runs/cot runs/talk --out report.html"

    runs: Annotated[
        list[str], Argument(metavar="RUN...", help="Folders that evaluate, compile, tune or import wrote.")
    ]
    out: Annotated[
        Place, Option(metavar="FILE", help="The page. Default: report.html in the first folder.")
    ] = None
    names: RunNames = field(default_factory=list)
    cases: Annotated[
        list[str],
        Option(
            metavar="KINDS",
            help="Show these case studies only: spoiled or rescued by talk, overruled (the judge against the "
            "majority), overturned (an evaluator against reasoners), advised (a supervisor's advice that "
            "helped).",
        ),
    ] = field(default_factory=list)
    most: Annotated[
        Whole, Option(metavar="N", help="Dialogues of each run. Default: 6, or 3 of more than two runs.")
    ] = None
    track: Annotated[bool, tracked("the page", "Add {} to the runs' MLflow runs.")] = True


@dataclass(kw_only=True)
class TrainOptions(Columned, LMs, Confirmed):
    """Train a strategy network: who asks in which way for which question, and whose vote counts how much.

    With --outcomes it learns from recorded answers; with --train it asks LMs. Run the same command again to
    resume a training that was stopped: nothing that was answered is asked again. folkmoot evaluate
    network:DIR uses the result.
    """

    example = "train --outcomes train.jsonl --test test.jsonl --out runs/network"

    program: Annotated[
        str, Argument(metavar="[PROGRAM]", help="What to train: network, the strategy network.")
    ] = "network"
    outcomes: Annotated[
        list[str],
        Option(
            "--outcomes",
            metavar="FILE",
            help="Recorded answers to learn from, without any LM call: outcome tables, results.jsonl files "
            "or run folders (repeat it).",
        ),
    ] = field(default_factory=list)
    train: Annotated[Text, source("Questions to learn from by asking LMs.")] = None
    train_split: TrainSplit = None
    train_limit: Annotated[Whole, sampled("training")] = None
    test: Annotated[
        list[str],
        Option(metavar="FILE|NAME", help="What to score the trained network on: outcomes, or questions."),
    ] = field(default_factory=list)
    test_split: Annotated[Text, Option(help="Split of the test questions.")] = None
    test_limit: Annotated[Whole, sampled("test")] = None
    out: Annotated[Place, folder("Folder of the network; the same command resumes it.")] = None
    seed: Annotated[int, Option(min=0, help="Of graph, weights, draws and samples of questions.")] = 0
    preset: Annotated[
        str,
        Option(
            help="standing, beyond, paper, supervised, consensus_aware, gamma_0, gamma_0.7 (its ablations)."
        ),
    ] = "standing"
    embedding: Annotated[
        Text, Option(metavar="MODEL|DIR", help="Sentence embeddings. Default: all-mpnet-base-v2.")
    ] = None
    record: Record = None
    track: Annotated[bool, tracked()] = True


@dataclass(kw_only=True)
class ReproduceOptions(SharedByLMs, Confirmed):
    """Run rows of a published table again, and show published | measured with its interval | difference.

    Run the same command again to resume one that was stopped. Rows that differ in nothing share a run.
    """

    example = "reproduce agents-of-commonsense/table-2/EX2_gpt --limit 200 --lm openai/gpt-4o-mini"
    own_defaults = ("lm", "api_base")

    spec: Annotated[
        Text, Argument(metavar="PAPER/TABLE[/ROW]", help="What to run; --list shows what there is.")
    ] = None
    show_list: Annotated[
        bool, Option("--list", help="Show papers and tables, or the rows of PAPER or PAPER/TABLE.")
    ] = False
    lm: Annotated[
        list[str],
        Option(
            "--lm",
            metavar="[MODEL=]NAME",
            help="LM for all models, or for one model of the paper. Default: what each is called today.",
        ),
    ] = field(default_factory=list)
    api_base: Annotated[
        list[str],
        Option("--api-base", metavar="[MODEL=]URL", help="Address of an OpenAI-compatible endpoint."),
    ] = field(default_factory=list)
    limit: Annotated[Whole, Option(help="At most so many questions a row, drawn with the row's seed.")] = None
    out: Annotated[Place, folder("Folder of all runs. Default: one under runs/ that it resumes.")] = None
    environment: Annotated[
        Text,
        Option(
            metavar="corpus:PATH|replay:PATH",
            help="Where agents look things up. Default: the live Wikipedia.",
        ),
    ] = None
    embedding: Annotated[
        Text, Option(metavar="MODEL|DIR", help="Sentence embeddings of strategy networks.")
    ] = None
    prompts: Annotated[
        Text, Option(metavar="FILE", help="YAML of seats and instructions, instead of folkmoot's wording.")
    ] = None
    retry_errors: RetryErrors = False
    track: Annotated[bool, tracked("the runs")] = True


@dataclass(kw_only=True)
class DistilOptions(Seats, Spending):
    """Find the cheapest single agent that is as good as a team, and learn when the team is worth asking.

    The team is never asked: its recorded answers count. --lm is the single agents' LM, by default the run's.
    The same command goes on after any stop.
    """

    example = "distil runs/talk --margin 2 --out runs/distil"
    own_defaults = ("lm", "api_base")

    run: Annotated[str, Argument(metavar="RUN", help="Folder that evaluate wrote for the team.")]
    margin: Annotated[
        float, Option(metavar="POINTS", help="How much less accurate still counts as as good.")
    ] = 2.0
    data: Annotated[Text, source("The run's questions. Default: as it notes.")] = None
    team: Annotated[Text, Option(metavar="PROGRAM", help="The team. Default: as the run notes.")] = None
    out: Annotated[Place, folder("Folder to write. Default: distil in the run's.")] = None
    seed: Annotated[int, Option(help="Of the split and of cross-validation.")] = 0
    temperature: Temperature = None
    max_tokens: MaxTokens = None
    concurrency: Concurrency = 64
    price: Priced = field(default_factory=list)
    cache: Cache = True
    track: Annotated[bool, tracked("", "Log to MLflow.")] = True


@dataclass(kw_only=True)
class TuneOptions(Columned, LMs, Confirmed):
    """Search a protocol's settings, and evaluate the winner once on questions that no trial saw.

    What one setting has paid for, every other one has for free. Run the same command again to resume a study
    that was stopped; on other machines, with the same --storage and --study, to join it.
    """

    example = (
        "tune deliberation --train train.jsonl --validation validation.jsonl --trials 30 "
        "--objective accuracy,calls --lm openai/gpt-4o-mini --out runs/tuned"
    )

    space: Annotated[
        str, Argument(help="deliberation, single, …: its declared space; a short spec; a YAML file.")
    ]
    train: Annotated[str, source("Questions that trials are scored on.")]
    validation: Annotated[str, source("Questions for the winner, which no trial sees.")]
    train_split: Annotated[Text, Option(help="Split of the training data.")] = None
    train_limit: Annotated[Whole, Option(min=1, help="Only so many of them.")] = None
    validation_split: Annotated[Text, Option(help="Split of the validation data.")] = None
    validation_limit: Annotated[Whole, Option(min=1, help="Only so many of them.")] = None
    trials: Annotated[int, Option(min=1, help="Settings to try.")] = 50
    objective: Annotated[
        list[str],
        Option(metavar="NAME,…", help="score (the metric's) or f1, and any of cost, latency, calls, tokens."),
    ] = field(default_factory=lambda: ["score"])
    metric: Scored = None
    judge_lm: JudgeLM = None
    sampler: Annotated[str, Option(metavar="tpe|nsga2|gp|random|grid", help="How to draw them.")] = "tpe"
    seed: Annotated[int, Option(help="Of the sampler and the order of questions.")] = 0
    storage: Annotated[
        Text, Option(metavar="URL", help="postgresql://…, mysql://…, sqlite:///FILE, grpc://HOST:PORT.")
    ] = None
    study: Annotated[str, Option(metavar="NAME", help="Its name in the storage.")] = "folkmoot"
    workers: Annotated[int, Option(min=1, help="Processes on this machine.")] = 1
    out: Annotated[Place, folder("Folder of the study, which it resumes.")] = None
    register: Annotated[
        Text, Option(metavar="NAME", help="Enter the winner into MLflow's model registry.")
    ] = None
    track: Annotated[bool, tracked("the study")] = True


@dataclass(kw_only=True)
class RunsOptions(Options):
    """List runs: what ran, its score with its interval, calls and price, when, and how it ended.

    The newest come first; what is not known comes last.
    """

    example = "runs --sort score"

    folders: Annotated[
        list[str], Argument(metavar="[DIR]...", help="Where to look, with folders within. Default: runs.")
    ] = field(default_factory=list)
    sort: Annotated[
        str, Option(metavar="|".join(SORTS), help="Order, greatest or newest first; names by the alphabet.")
    ] = "time"


@dataclass(kw_only=True)
class ImportOptions(Options):
    """Read what others measured as runs, one an agent, and as an outcome table; no LM is called.

    Reads logs of Inspect (.eval), samples of lm-eval, rows of Every Eval Ever, results of promptfoo,
    evaluation tables of MLflow, and plain tables with the columns question_id, agent, answer, correct. The
    same import again changes nothing.
    """

    example = "import logs/ --out runs/imported"

    logs: Annotated[list[str], Argument(metavar="LOG...", help="Files, or folders of files.")]
    out: Annotated[Path, folder("Where the runs go: DIR/AGENT for each agent, and DIR/outcomes.jsonl.")]


@dataclass(kw_only=True)
class ExportOptions(Options):
    """Write runs as logs that other tools read; no LM is called.

    inspect writes NAME.eval for `inspect view`, every-eval-ever instance rows and their summary under data/,
    and huggingface a folder that `datasets` opens.
    """

    example = "export runs/sample-choice-single-cot-1a2b3c4d --out logs"

    runs: Runs
    out: Annotated[Path, folder("Where the logs go; or one run's NAME.eval.")]
    format: Annotated[
        str, Option(metavar="inspect|every-eval-ever|huggingface", help="What to write them as.")
    ] = "inspect"


@dataclass(kw_only=True)
class CheckOptions(Columned):
    """Show what a file of questions is understood as, and list everything that is wrong with it.

    The exit code is 2 if anything is.
    """

    example = "data check questions.csv --columns answer=gold:from0"

    source: Annotated[str, Argument(metavar="FILE|NAME", help="A file of questions, or a known data set.")]
    split: Annotated[Text, Option(help="Split of a data set, or sheet of a workbook.")] = None


@dataclass(kw_only=True)
class DatasetsOptions(Options):
    """List the data sets known by name: splits, rows, licence, where from, and whether it is here."""

    example = "datasets --json"


@dataclass(kw_only=True)
class LmsOptions(Options):
    """List the LMs that run inside this process: name, size, licence, and whether the weights are here."""

    example = "lms get qwen2.5-coder-1.5b"

    what: Annotated[list[str], Argument(metavar="get NAME", help="Fetch the weights of these LMs.")] = field(
        default_factory=list
    )


@dataclass(kw_only=True)
class DoctorOptions(Seats):
    """Check this machine: packages, LM, data, folders, tracking store; each problem with its fix."""

    example = "doctor --lm openai/my-model --api-base http://localhost:8000/v1"

    threads: Threads = None


@dataclass(kw_only=True)
class PushOptions(Options):
    """Send runs to MLflow that its store could not take, or not whole, while they lasted."""

    example = "push runs/sample-choice-single-cot-1a2b3c4d"

    folders: Annotated[
        list[Path], Argument(metavar="DIR", help="Folders of finished runs. Default: all that wait.")
    ] = field(default_factory=list)


@dataclass(kw_only=True)
class UiOptions(Options):
    """Open MLflow's UI on the store that runs are tracked in, until Ctrl-C."""

    example = "ui --port 5001"

    port: Annotated[int, Option(min=1, max=65535, help="Port to listen on.")] = 5000
    host: Annotated[str, Option(help="Address to listen on; 0.0.0.0 shows it to the whole network.")] = (
        "127.0.0.1"
    )
