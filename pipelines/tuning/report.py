"""The report of a study: its trials, front and winner, and what they took, as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from ...modules.statistics.effects import Effect, Tried, effects
from ...optimizers.structure.points import Setting, key_of
from ..base.run_files import ScoreFields
from ..comparison.words import say
from ..runs.study_file import StudyReport, TrialEntry
from ..runs.summary import mean_score
from .recovery import trials_tuned
from .worker import scores_of

SCORED = ("complete", "told", "pruned")
NOTED = ("home", "told_by", "same_as", "failed", "training")
UNITS = {"cost": "price", "tokens": "number of tokens", "calls": "number of calls"}
"""What effects are priced in, and the words for each: the first that is known."""

MOST_FRONT = 8
"""Lines of the Pareto front on a screen."""
MOST_EFFECTS = 4
"""Lines of effects on a screen, but for those that are confounded."""


def entries(study: optuna.Study, objectives: Sequence[str]) -> list[TrialEntry]:
    """Return the trials in the order in which they were made."""
    return [_entry(trial, objectives) for trial in trials_tuned(study)]


def _entry(trial: FrozenTrial, objectives: Sequence[str]) -> TrialEntry:
    noted = trial.user_attrs
    state = trial.state.name.lower()
    if "told_by" in noted:
        state = "told"
    if trial.state == TrialState.FAIL:
        state = "failed" if "failed" in noted else "given back"
    said = {name: noted[name] for name in NOTED if noted.get(name) is not None}
    for name, moment in (("began", trial.datetime_start), ("ended", trial.datetime_complete)):
        if moment is not None:
            said[name] = int(moment.timestamp() * 1000)
    # Whoever gives a trial back says so; a worker that died could not.
    if state == "given back" and "stopped" not in noted:
        said["lost"] = True
    scores: dict[str, ScoreFields] = {}
    if "questions" in noted:
        said |= {"questions": noted["questions"], "errors": scores_of(trial).count(None)}
        scores = _scores(trial, objectives)
    return TrialEntry(
        trial=trial.number,
        state=state,
        place=noted.get("place"),
        setting=noted.get("setting"),
        **said,
        scores=scores,
    )


def _scores(trial: FrozenTrial, objectives: Sequence[str]) -> dict[str, ScoreFields]:
    scores, n = _known(scores_of(trial)), trial.user_attrs["questions"]
    # The interval of a rate is for right and wrong answers; F1 may be 0 or 1 by chance.
    is_rate = objectives[0] != "f1" and set(scores) <= {0, 1}
    fields = {objectives[0]: mean_score(scores, is_rate=is_rate)}
    for name, means in json.loads(trial.user_attrs["took"]).items():
        fields[name] = ScoreFields.of({"value": means[str(n)], "n": n})
        for end in means.keys() & {"low", "high"}:
            fields[name][end] = means[end]
    return fields


def _known(scores: Iterable[float | None]) -> list[float]:
    return [score for score in scores if score is not None]


def effects_of(study: optuna.Study, table: Sequence[TrialEntry]) -> list[Effect]:
    """Return what each choice changes, by the scores of trials and replays on the same
    questions.
    """
    trials = {trial.number: trial for trial in trials_tuned(study)}
    tried, most = [], 1.0
    for entry in table:
        if entry.state in SCORED and entry.scores and entry.setting is not None:
            # Calls are counted in any case, price and tokens only as objectives.
            unit = next(filter(entry.scores.__contains__, UNITS))
            scores = scores_of(trials[entry.trial])
            tried.append(Tried(entry.setting, scores, entry.value(unit)))
            most = max([most, *map(abs, _known(scores))])  # a metric of the user's may exceed 1
    return effects(tried, most)


def effects_in(report: StudyReport) -> list[Effect]:
    """Return the effects that a report holds; none in one of an earlier version."""
    return [Effect(**fields) for fields in report.effects or ()]


def effect_words(effect: Effect, report: StudyReport) -> str:
    """Return an effect in a line, in points where the study's scores are rates."""
    best = report.best
    is_rate = best is None or best.scores[report.goal].rate
    unit = UNITS[next(filter(report.objectives.__contains__, UNITS), "calls")]
    return say("effect", effect, _value(effect.value), _value(effect.against), is_rate, unit)


def effect_lines(report: StudyReport) -> list[str]:
    """Return the effects in words: the largest one of each choice in a line, and all choices that
    are confounded in one.
    """
    found = effects_in(report)
    measured = [effect for effect in found if effect.difference is not None]
    largest, confounded = dict[str, Effect](), dict[str, None]()
    for effect in sorted(measured, key=lambda effect: -abs(effect.difference or 0.0)):
        largest.setdefault(effect.choice, effect)
    lines = [effect_words(effect, report) for effect in [*largest.values()][:MOST_EFFECTS]]
    if len(measured) > len(lines):
        lines.append(f"{len(measured) - len(lines):,} more under `effects` in study.json")
    for effect in found:
        # A choice with one measured value is not confounded, whatever its others are.
        if effect.choice not in largest:
            confounded[effect.choice] = None
    if confounded:
        lines.append(f"effect not known, since never changed alone: {', '.join(confounded)}")
    return lines


def _value(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "the default" if value is None else str(value)


def best_of(study: optuna.Study, table: Sequence[TrialEntry]) -> list[TrialEntry]:
    """Return the Pareto front of the finished settings, the winner first: the best in the first
    objective, then the one with the fewest calls, then the earliest. With one objective it is the
    winner alone.
    """
    sign = -1 if study.directions[0] == StudyDirection.MAXIMIZE else 1
    first = {trial.number: sign * trial.values[0] for trial in _best_trials(study)}
    front = [entry for entry in table if entry.trial in first and entry.scores]
    front.sort(key=lambda entry: (first[entry.trial], entry.value("calls"), entry.trial))
    if len(study.directions) == 1:
        front = front[:1]
    # A setting that was drawn twice is listed once.
    by_setting: dict[str, TrialEntry] = {}
    for entry in front:
        by_setting.setdefault(key_of(entry.setting or {}), entry)
    return list(by_setting.values())


def _best_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Return Optuna's best trials, without regard to those that the user has made herself."""
    tuned = [trial for trial in trials_tuned(study) if trial.state == TrialState.COMPLETE]
    # Optuna ranks all trials of a study: only these are in one of their own, in memory.
    apart = optuna.create_study(directions=study.directions)
    apart.add_trials(tuned)
    return [tuned[trial.number] for trial in apart.best_trials]


def counts(trials: Sequence[TrialEntry]) -> dict[str, int]:
    """Return how many trials ended how; `given back` were stopped or lost with their worker, and
    tried again.
    """
    states = ("complete", "pruned", "told", "failed", "running", "waiting", "given back")
    number = dict.fromkeys(states, 0)
    for entry in trials:
        number[entry.state] += 1
    return number


def calls_of(trials: Sequence[TrialEntry], made: int, training: int = 0) -> dict[str, int]:
    """Return `made` and paid for; `used`: what every setting would have taken alone, `training`
    included; `saved`: the difference.
    """
    seen: dict[str, float] = {}
    for entry in trials:
        if entry.scores:
            calls = entry.scores["calls"]
            seen.setdefault(key_of(entry.setting or {}), calls.value * calls.n)
    used = round(sum(seen.values())) + training
    return {"made": made, "used": used, "saved": max(0, used - made)}


def why_no_winner(trials: Sequence[TrialEntry]) -> str:
    """Return why a study has no winner, in a sentence."""
    reasons = Counter(entry.failed for entry in trials if entry.failed is not None)
    if not reasons:
        return "no trial has finished"
    ((reason, times),) = reasons.most_common(1)
    return f"no trial has finished: in {times:,} of {reasons.total():,}, {reason}"


def setting_words(setting: Setting | None) -> str:
    """Return a setting in one line."""
    parts = []
    for name, value in (setting or {}).items():
        if value is not None:
            parts.append(f"{name}={_value(value)}")
    return " ".join(parts) or "the only one"
