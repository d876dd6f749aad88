"""The views of commands, and the requests of commands without a Python function."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from ..base.request import (
    Argument,
    Columned,
    Kind,
    LMs,
    Option,
    ProgramSpec,
    Record,
    Request,
    Seats,
    Threads,
    tracked,
)
from ..comparison.request import RunNames, Tested


@dataclass(kw_only=True)
class View:
    """The output options that every command has."""

    as_json: Annotated[
        bool, Option("--json", help="Print one JSON document on standard output, and nothing else.")
    ] = False
    verbose: Annotated[
        bool,
        Option(
            "--verbose",
            "-v",
            help="Log each call, retry and cache hit, and the defaults.",
        ),
    ] = False
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an unexpected error.")] = (
        False
    )


@dataclass(kw_only=True)
class Quietly(View):
    """A command that shows more than its result."""

    quiet: Annotated[bool, Option("--quiet", "-q", help="Hide the plan and the progress.")] = False

    @property
    def progress(self) -> bool:
        """The value that functions take as `progress`."""
        return not self.quiet


@dataclass(kw_only=True)
class Planned(Quietly):
    """A command that shows a plan before it spends."""

    dry_run: Annotated[
        bool, Option("--dry-run", help="Show the plan and stop; no LM is asked.")
    ] = False


@dataclass(kw_only=True)
class Confirmed(Planned):
    """A command that asks before it spends much."""

    yes: Annotated[bool, Option("--yes", "-y", help="Start an expensive run without asking.")] = (
        False
    )


@dataclass(kw_only=True)
class EvaluateView(Confirmed):
    """Options of `evaluate` on the command line only."""

    outcomes: Annotated[
        list[str],
        Option(metavar="FILE", help="Recorded answers, in place of --data, for network:DIR."),
    ] = field(default_factory=list)


@dataclass(kw_only=True)
class TryView(Confirmed):
    """Options of `try` and `compare` on the command line only."""

    fail_if: Annotated[
        str | None,
        Option(
            "--fail-if",
            metavar="worse|undecided|not-better",
            help="Exit with code 3 if this is the verdict (for CI).",
        ),
    ] = None


@dataclass(kw_only=True)
class CompareView(TryView):
    """Options of `compare` on the command line only."""

    pairs: Annotated[
        bool, Option("--pairs", help="Also show the verdict on every pair of runs, with its test.")
    ] = False
    track: Annotated[
        bool,
        Option("--track", help="Log the table and its page to MLflow, named by the verdict."),
    ] = False


@dataclass(kw_only=True)
class AskRequest(LMs):
    """Ask a program one question and show the dialogue."""

    example: ClassVar[str] = (
        'ask deliberation:intuitive,reasoner:judge "What keeps soup warm?" '
        '--choice "a flask" --choice "a sieve" --lm openai/gpt-4o-mini'
    )

    program: ProgramSpec
    question: Annotated[str, Argument(metavar="QUESTION", help="The question.")]
    choice: Annotated[
        list[str],
        Option(
            "--choice",
            metavar="[A=]TEXT",
            help="An option of the question (repeat it). Without labels they are A, B, ….",
        ),
    ] = field(default_factory=list)
    context: Annotated[str | None, Option(help="A passage to answer from.")] = None
    kind: Kind = None
    record: Record = None


@dataclass(kw_only=True)
class ReportRequest(Tested):
    """Write one HTML page about runs: the verdict first, then figures, plots and dialogues.

    The other runs over the same questions are compared with the first. The page loads nothing from
    the network: send it, print it, or open it on a phone.
    """

    example: ClassVar[str] = "report runs/cot runs/talk --out report.html"

    runs: Annotated[
        list[str],
        Argument(metavar="RUN...", help="Folders of runs or other results."),
    ]
    out: Annotated[
        Path | None,
        Option(metavar="FILE", help="The page. Default: report.html in the first folder."),
    ] = None
    export: Annotated[
        Path | None,
        Option(metavar="DIR", help="Also write plots as SVG and tables as CSV into this folder."),
    ] = None
    names: RunNames = field(default_factory=list)
    tracking: Annotated[bool, tracked("the page", "Add {} to the runs' MLflow runs.")] = True


@dataclass(kw_only=True)
class ShowRequest(Request):
    """Show the questions of a run, the dialogue of one of them, or what any other result found."""

    example: ClassVar[str] = "show runs/talk q17"

    run: Annotated[str, Argument(metavar="RUN", help="Folder of a run or other result.")]
    question: Annotated[
        str | None, Argument(metavar="[ID]", help="Id of the question, or its number from 1 on.")
    ] = None


@dataclass(kw_only=True)
class RunsRequest(Request):
    """List runs: program, score with its interval, calls, price, date, and how each ended."""

    example: ClassVar[str] = "runs --sort score"

    folders: Annotated[
        list[str],
        Argument(metavar="[DIR]...", help="Folder to search, with its sub-folders. Default: runs."),
    ] = field(default_factory=list)
    sort: Annotated[
        str,
        Option(metavar="time|score|cost|calls", help="Sort order, greatest or newest first."),
    ] = "time"


@dataclass(kw_only=True)
class CheckRequest(Columned):
    """Show how a file of questions is read, and list everything that is wrong with it.

    The exit code is 2 if anything is wrong.
    """

    example: ClassVar[str] = "data check questions.csv --columns answer=gold:from0"

    source: Annotated[
        str, Argument(metavar="FILE|NAME", help="A file of questions, or a known data set.")
    ]
    split: Annotated[str | None, Option(help="Split of a data set, or sheet of a workbook.")] = None


@dataclass(kw_only=True)
class DatasetsRequest(Request):
    """List the data sets that have a name: splits, rows, licence, source, and which are here."""

    example: ClassVar[str] = "datasets --json"


@dataclass(kw_only=True)
class LmsRequest(Request):
    """List the LMs that run inside this process, or get their weights."""

    example: ClassVar[str] = "lms get qwen2.5-coder-1.5b"

    what: Annotated[
        list[str], Argument(metavar="get NAME", help="Fetch the weights of these LMs.")
    ] = field(default_factory=list)


@dataclass(kw_only=True)
class DoctorRequest(Seats):
    """Check extras, data, tracking store, sandbox and LM, and show a fix for each problem."""

    example: ClassVar[str] = "doctor --lm openai/my-model --api-base http://localhost:8000/v1"

    threads: Threads = None


@dataclass(kw_only=True)
class PushRequest(Request):
    """Send to MLflow what it lacks of finished runs."""

    example: ClassVar[str] = "push runs/sample-choice-single-cot-1a2b3c4d"

    folders: Annotated[
        list[Path],
        Argument(metavar="DIR", help="Folders of runs. Default: all runs that wait to be sent."),
    ] = field(default_factory=list)


@dataclass(kw_only=True)
class UiRequest(Request):
    """Open MLflow's UI on the tracking store until Ctrl-C, or show where its server has it."""

    example: ClassVar[str] = "ui --port 5001"

    port: Annotated[int, Option(min=1, max=65535, help="Port to listen on.")] = 5000
    host: Annotated[
        str, Option(help="Address to listen on; 0.0.0.0 shows it to the whole network.")
    ] = "127.0.0.1"
