"""The budget-matched baseline: self-consistency for the tokens that another program spent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from glob import glob
from pathlib import Path
from typing import Any

from ...modules.agents.profile import Profile
from ...modules.base.calls import tokens_of
from ...modules.base.errors import UserError
from ...modules.protocols.single import SELF_CONSISTENCY, SingleAgent
from ...modules.reading.metrics import metric_of_run
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..base.journal import read_object
from ..data import catalogue
from ..data import load as data
from ..evaluation.answering import CONCURRENCY
from ..evaluation.earlier import Evaluation, earlier
from ..evaluation.evaluate import evaluate
from ..lms.named import SETTINGS, lm, lm_given, lm_identity
from ..programs.seats import EVERY, Seating
from ..runs.manifest import MANIFEST, lms_of
from ..runs.progress import Progress
from ..tracking.values import run_name
from .confounds import ARMS

PILOT = 8
MATCH = "match-budget"  # sub-folder of the run that is matched
MATCHED = "self-consistency, same budget"
Show = Callable[[Progress], None]


@dataclass(frozen=True)
class Match:
    """How many samples of `lm` the budget pays for: max(1, ⌊spent on a question / taken by a sample⌋).

    Both are in dollars where both are known, else in tokens, prompt and completion together: those of a
    question are the mean over the `rows` of the matched run whose calls were all paid for, those of a sample
    the mean over `pilot` questions asked once.
    """

    tokens_per_question: float
    rows: int
    tokens_per_sample: float
    pilot: int
    cost_per_question: float | None = None
    cost_per_sample: float | None = None
    lm: str = ""

    @property
    def samples(self) -> int:
        if self.cost_per_question and self.cost_per_sample:
            return max(1, int(self.cost_per_question / self.cost_per_sample))
        return max(1, int(self.tokens_per_question / self.tokens_per_sample))

    @property
    def sentence(self) -> str:
        if self.cost_per_question and self.cost_per_sample:
            spent, taken = f"{self.cost_per_question:.3g} US dollars", f"{self.cost_per_sample:.3g}"
        else:
            spent, taken = f"{self.tokens_per_question:,.0f} tokens", f"{self.tokens_per_sample:,.0f}"
        return (
            f"{spent} a question were spent, and a sample{f' of {self.lm}' if self.lm else ''} takes {taken} "
            f"(pilot of {self.pilot}): {SELF_CONSISTENCY} gets {self.samples} "
            f"sample{'s' if self.samples > 1 else ''}"
        )


def match_budget(
    evaluation: Evaluation | str | Path,
    questions: Sequence[Question],
    *,
    lm: Any = None,
    metric: Any = None,
    out: str | Path | None = None,
    pilot: int = PILOT,
    concurrency: int = CONCURRENCY,
    tracking: bool | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: bool | Show | None = None,
    told: Callable[[Match], None] | None = None,
) -> Evaluation:
    """Self-consistency on the same questions, with as many samples as fit into what the evaluation spent.

    Args:
        evaluation: the run to match, or its folder.
        questions: those that it ran on.
        lm: the LM to sample from; by rights one of those that the run used. Of several, in a list, each is
            run alone, and the result is the one most often right: the fair opponent of a team of unlike LMs.
            None takes DSPy's configured one.
        metric: what the run was scored by, where that is a function of your own: as `evaluate` takes it.
        out: folder for the pilot and the baseline; by default `match-budget` in that of the run. The same
            call resumes.
        pilot: how many questions are asked once to learn what a sample takes; they are spread evenly.
        concurrency, settings, progress: as in `evaluate`, of the baseline.
        tracking: log the baseline beside the run; None does where the run was tracked.
        told: called with the match after the pilot, before the baseline starts.

    Raises:
        UserError: other questions than those of the run, another LM or metric, unknown tokens (a replayed or
            cached run), and whatever `evaluate` raises.
    """
    matched = earlier(evaluation)
    described = matched.summary.run
    if data.fingerprint(questions) != described["data_fingerprint"]:
        raise UserError(
            f"the questions are not those that {matched.folder} ran on: give the same ones, in the same order"
        )
    if pilot < 1:
        raise UserError(f"pilot is {pilot}: give a number of questions from 1 up")
    lms = [lm_given(one) for one in (lm if isinstance(lm, list | tuple) and lm else [lm])]
    once = SingleAgent(SELF_CONSISTENCY, samples=1)
    used = [_checked_lm(matched, once, one) for one in lms]
    scored_by = metric_of_run(described, metric)
    spent, rows = tokens_per_question(matched.rows)
    if spent is None:
        raise UserError(
            f"what {matched.folder} spent is not known, since {_unknown_because(matched.rows)}, or set the "
            f"samples of single:{SELF_CONSISTENCY} yourself"
        )
    home = matched.folder / MATCH if out is None else Path(out)
    notes = {**described["settings"], **_BASELINE, **(settings or {})}
    notes[ARMS] = [known["endpoint"] for known in used]
    tracking = _is_tracked(matched) if tracking is None else tracking
    found = []
    for one, known in zip(lms, used, strict=True):
        folder = home if len(lms) == 1 else home / re.sub(r"[^\w.-]+", "-", known["name"])
        shared: dict[str, Any] = {"lm": one, "metric": scored_by, "concurrency": concurrency}
        some = evenly_spaced(questions, pilot)
        # From the cache, the pilot would not tell what a sample takes.
        tried = evaluate(
            once, some, out=folder / "pilot", cache=False, tracking=False, progress=False, **shared
        )
        sample, asked = tokens_per_question(tried.rows)
        if sample is None:
            raise UserError(
                f"what a sample takes is not known, since no question of the pilot in {folder / 'pilot'} was "
                "answered by an LM that counts tokens: see the errors in its rows, and delete it to try again"
            )
        spent_usd, sample_usd = (cost_per_question(run.rows) for run in (matched, tried))
        name = known["name"] if len(lms) > 1 else ""
        match = Match(spent, rows, sample, asked, spent_usd, sample_usd, name)
        if told is not None:
            told(match)
        title = f"{SELF_CONSISTENCY} × {match.samples} for the budget of {run_name(described)}"
        title += f", on {name}" if name else ""
        about = {**notes, "run_name": None, "label": title, **(settings or {}), MATCH: asdict(match)}
        found.append(
            evaluate(
                SingleAgent(SELF_CONSISTENCY, samples=match.samples),
                questions,
                out=folder / f"{match.samples}-samples",
                tracking=tracking,
                settings=about,
                parent=described.get("mlflow_parent_id"),
                progress=progress,
                **shared,
            )
        )
    best = max(found, key=lambda run: run.score)
    return Evaluation(best.folder, best.summary, (matched, *found))  # the matched one may own the folder


def made_match(run: Evaluation) -> Evaluation | None:
    """The baseline that was matched to a run before, the most often right of its LMs'; None without one.

    It is looked for in the run's folder and in those beside it.
    """
    if (found := _best_of((run.folder / MATCH).glob("**/*-samples"))) is not None:
        return found
    beside = run.folder.resolve().parent
    # Unlike a Path's, this glob goes on where a folder of others vanishes or cannot be read.
    homes = (Path(pilot).parent for each in ("*/pilot", "*/*/pilot") for pilot in glob(each, root_dir=beside))
    places = (beside / home / place for home in homes for place in glob("*-samples", root_dir=beside / home))
    return _best_of(places, lambda one: _made_for(run, one))


def run_or_match(run: Evaluation | str | Path) -> Evaluation:
    """As `earlier`; the folder that a baseline and its pilot were sent to stands for the baseline."""
    if isinstance(run, str | Path) and not (Path(run).expanduser() / MANIFEST).exists():
        home = Path(run).expanduser()
        return _best_of([*home.glob("*-samples"), *home.glob("*/*-samples")]) or earlier(run)
    return earlier(run)


def _best_of(
    places: Iterable[Path], fits: Callable[[Evaluation], bool] = lambda _: True
) -> Evaluation | None:
    """The most often right of the finished baselines in these folders."""
    found = []
    for place in sorted(places):
        with suppress(UserError, OSError):
            one = earlier(place)
            if is_match(one) and one.summary.finished == one.summary.counts["questions"] and fits(one):
                found.append(one)
    return max(found, key=lambda one: one.score, default=None)


def _made_for(run: Evaluation, baseline: Evaluation) -> bool:
    """Whether the questions, the LM and what was spent on how many rows are those of the run."""
    made, described = baseline.summary.run, run.summary.run
    noted = made["settings"][MATCH]
    return (
        made["data_fingerprint"] == described["data_fingerprint"]
        and all(any(_same_lm(lm, one) for one in described["lms"].values()) for lm in made["lms"].values())
        and isinstance(noted, dict)
        and (noted.get("tokens_per_question"), noted.get("rows")) == tokens_per_question(run.rows)
    )


def with_matches(names: Sequence[str], runs: Sequence[Evaluation]) -> tuple[list[str], list[Evaluation]]:
    """The runs, and after them the baselines that were matched to them before, if they are not among them."""
    known, new = {run.folder.resolve() for run in runs}, []
    for name, run in zip(names, runs, strict=True):
        found = made_match(run)
        if found is not None and found.folder.resolve() not in known:
            known.add(found.folder.resolve())
            new.append((name, found))
    titles = [MATCHED if len(new) == 1 else f"{MATCHED} as {name}" for name, _ in new]
    return [*names, *titles], [*runs, *(found for _, found in new)]


def is_match(run: Evaluation) -> bool:
    """Whether the run is a baseline that `match_budget` made."""
    return MATCH in run.summary.run["settings"]


_BASELINE = {"command": "compare", "program_spec": f"single:{SELF_CONSISTENCY}", "sets": [], "demos": 0}


def _is_tracked(run: Evaluation) -> bool:
    return (read_object(run.folder / MANIFEST) or {}).get("mlflow_run_id") is not None


def tokens_per_question(rows: Iterable[ResultRow]) -> tuple[float | None, int]:
    """Mean tokens of the questions whose calls were all paid for, and how many those are; None for none.

    Questions that failed are left out: what they spent before is no answer's price.
    """
    counts = [tokens for row in rows if _paid(row) and (tokens := tokens_of(row["usage"])) is not None]
    total = sum(counts)
    return (total / len(counts) if total else None), len(counts)


def _unknown_because(rows: Iterable[ResultRow]) -> str:
    """Why nobody knows the tokens of these rows, and what to do about it."""
    usages = [row["usage"] for row in rows if row["error"] is None]
    if not usages:
        return "all of its questions failed: run it again with --retry-errors"
    if any(usage["cached_calls"] for usage in usages):
        return "its answers came from a record or cache: match the run that paid for them"
    if any(usage["calls"] is None for usage in usages):
        return "calls in threads of its program's own are nobody's: let the program ask where it is called"
    if any(usage["calls"] for usage in usages):
        return "its LM did not say how many tokens its calls took: take an LM that does"
    return "no call of an LM was seen in it: match a run that asks one"


def cost_per_question(rows: Iterable[ResultRow]) -> float | None:
    """Mean dollars of the same questions; None where a price is not known, or nothing was paid."""
    costs = [row["usage"]["cost_usd"] for row in rows if _paid(row)]
    known = [cost for cost in costs if cost is not None]
    return sum(known) / len(known) if any(known) and len(known) == len(costs) else None


def _paid(row: ResultRow) -> bool:
    return bool(row["usage"]["calls"] and not row["usage"]["cached_calls"] and row["error"] is None)


def evenly_spaced(questions: Sequence[Question], most: int) -> list[Question]:
    """At most so many questions, evenly spaced."""
    count = min(most, len(questions))
    return [questions[index * len(questions) // count] for index in range(count)]


def questions_of(run: Evaluation, source: str | None = None) -> list[Question]:
    """The questions that a run was made on, read again as its settings say, or from another `source`.

    Raises UserError when they cannot be had, or are no longer the same.
    """
    settings = run.summary.run["settings"]
    wanted = source or settings.get("data")
    if not isinstance(wanted, str):
        raise UserError(f"{run.folder} does not note where its questions come from: give --data")
    split = settings.get("split") if source is None or catalogue.find(source) else None
    columns = dict(pair.split("=", 1) for pair in settings.get("columns") or ())
    try:
        found = data.load(
            wanted,
            split,
            settings.get("limit"),
            settings.get("seed"),
            columns=columns or None,
            kind=settings.get("kind"),
        )
    except UserError as problem:
        raise UserError(f"the questions of {run.folder} cannot be read again: {problem}") from None
    if data.fingerprint(found) != run.summary.run["data_fingerprint"]:
        raise UserError(
            f"{wanted} no longer gives the questions that {run.folder} ran on: give them with --data"
        )
    return found


def lms_of_run(run: Evaluation, lms: Seating, who: str) -> list[Any]:
    """The LM that `lms` names, or else each different one of the run's, made again with its settings; see
    `lm_of_run`."""
    known = dict.fromkeys(each["name"] for each in run.summary.run["lms"].values())
    wanted = [lms.seated[EVERY]] if EVERY in lms.seated else known
    return [lm_of_run(run, lms, who, name=name) for name in wanted]


def lm_of_run(
    run: Evaluation, lms: Seating, who: str, *, other: bool = False, name: str | None = None
) -> Any:
    """The LM of a run, made again with its settings: that of most of its seats, or the one that `lms` names.

    Its address comes from the options or the environment, never from the run: a folder from elsewhere could
    name one to send the key to. `who` has the one seat that it is for; with `other`, the name may be of an LM
    that the run did not use. `name` takes the place of the one in `lms`. Raises UserError when there are
    several LMs and no name, and when the LM made is not the one that the run used.
    """
    if {*lms.seated, *lms.addresses} - {EVERY}:
        raise UserError(f"{who} has one seat: give --lm and --api-base without a seat's name")
    known = run.summary.run["lms"]
    used = {each["name"]: each for each in [*known.values(), *([known["*"]] if "*" in known else [])]}
    named = name or lms.seated.get(EVERY)
    if named is None and "*" not in known and len(used) > 1:
        raise UserError(f"{run.folder} used several LMs: choose {' or '.join(used)} with --lm")
    wanted = named or (known["*"]["name"] if "*" in known else next(iter(used)))
    if other and lms.replays is not None:
        return lm(wanted)
    if wanted not in used:
        if other:
            return lms.make(wanted)
        raise UserError(f"{wanted} is not an LM of {run.folder}: choose {' or '.join(used)}")
    changed: dict[str, Any] = {"temperature": getattr(lms.options, "temperature", None)} | {
        "max_tokens": getattr(lms.options, "max_tokens", None)
    }
    if not other:
        changed["api_base"] = lms.addresses.get(EVERY)
    settings = {key: value for key, value in used[wanted]["settings"].items() if key in SETTINGS}
    settings |= {key: value for key, value in changed.items() if value is not None}
    profile = Profile(**used[wanted]["profile"]) if used[wanted]["profile"] else None
    made = lms.make(wanted, profile=profile, **settings)
    endpoint = (lm_identity(made) or {}).get("endpoint")
    if (named is None or not other) and used[wanted]["endpoint"] not in (endpoint, wanted):
        more = ", or name another LM with --lm" if other else ""
        raise UserError(
            f"{run.folder} used {used[wanted]['endpoint']}, not {endpoint}: give its address with "
            f"--api-base{more}"
        )
    return made


def _checked_lm(matched: Evaluation, program: SingleAgent, lm: Any) -> dict[str, Any]:
    """What is known of the baseline's LM, which the run must have used: another one's tokens are another
    currency."""
    import dspy

    used: dict[str, Any] = lms_of(program, lm or dspy.settings.lm)["*"]
    known = matched.summary.run["lms"].values()
    if not any(_same_lm(used, other) for other in known):
        names = ", ".join(dict.fromkeys(str(other["endpoint"]) for other in known)) or "none that is known"
        raise UserError(
            f"{used['endpoint']} is not an LM of {matched.folder}, which used {names}: match it with that one"
        )
    return used


def _same_lm(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two are one LM, as far as is known: of an LM that is DSPy's own no address is."""
    placed = {lm["endpoint"] for lm in (one, other)} - {one["name"]}
    return bool(one["name"] == other["name"]) and len(placed) < 2
