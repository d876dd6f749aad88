"""The trials of a study as Optuna's own plots and as a table, from its report."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..runs.study_file import StudyReport
from .figure import saved

if TYPE_CHECKING:
    import optuna
    import pandas as pd

DONE = ("complete", "told")
PLOTS = ("importances", "parallel_coordinates")


def trials_frame(report: StudyReport) -> pd.DataFrame:
    """Return a row for each trial: its number, its state, a column for each setting and each
    objective.
    """
    import pandas as pd

    rows = []
    for entry in report.table:
        scores = {goal: entry.value(goal) for goal in entry.scores}
        setting = entry.setting or {}
        rows.append({"trial": entry.trial, "state": entry.state, **setting, **scores})
    return pd.DataFrame(rows)


def as_optuna(report: StudyReport) -> optuna.Study:
    """Return the finished trials as an Optuna study in memory. Every setting is a choice there,
    since Optuna's plots need to know what the values of all trials are.
    """
    import optuna

    goal = report.goal
    done = [trial for trial in report.table if trial.state in DONE and goal in trial.scores]
    settings = [_plain(trial.setting or {}) for trial in done]
    choices: dict[str, dict[float | str | None, None]] = {}
    for setting in settings:
        for name, value in setting.items():
            choices.setdefault(name, {})[value] = None
    # The first objective is a score in every study.
    study = optuna.create_study(direction="maximize")
    for entry, setting in zip(done, settings, strict=True):
        drawn: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.CategoricalDistribution(list(choices[name]))
            for name in setting
        }
        study.add_trial(
            optuna.trial.create_trial(params=setting, distributions=drawn, value=entry.value(goal))
        )
    return study


def _plain(setting: Mapping[str, object]) -> dict[str, float | str | None]:
    """Return a setting with values that Optuna accepts as choices."""
    plain = dict[str, float | str | None]()
    for name, value in setting.items():
        if value is None or isinstance(value, str | int | float):
            plain[name] = value
        else:
            plain[name] = json.dumps(value)
    return plain


def draw_trials(report: StudyReport, name: str, path: Path) -> bool:
    """Draw one of PLOTS as PNG, or as interactive HTML where the path says so. False where there
    are too few trials, or for HTML without plotly (`pip install 'folkmoot[plots]'`).
    """
    study = as_optuna(report)
    if len(study.trials) < 2 or not any(trial.params for trial in study.trials):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's plots are experimental
        try:
            return _draw(study, name, path)
        except (ImportError, RuntimeError, ValueError):
            # No plotly, or nothing that varied apart.
            return False


def _draw(study: optuna.Study, name: str, path: Path) -> bool:
    from optuna import visualization
    from optuna.importance import PedAnovaImportanceEvaluator

    html = path.suffix == ".html"
    # Both libraries have the same functions.
    library = visualization if html else visualization.matplotlib
    if name == "importances":
        # Optuna would measure it around the best trials alone, of which a study has few.
        evaluator = PedAnovaImportanceEvaluator(evaluate_on_local=False)
        figure = library.plot_param_importances(study, evaluator=evaluator)
    else:
        figure = library.plot_parallel_coordinate(study)
    if html:
        figure.write_html(path)
        return True
    return saved(figure.figure, path)
