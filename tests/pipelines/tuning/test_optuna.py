"""The user's own Optuna: her study, sampler, pruner and callbacks go in, and a study comes out."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from tuned import ORDERS, critic_first, lm_at, questions, scripted_by, study_at

import folkmoot as fm
from folkmoot.pipelines.plots import tuning
from folkmoot.pipelines.plots.trials import PLOTS, draw_trials
from folkmoot.pipelines.runs.study_file import TrialEntry


def tuned(url: str, **options: Any) -> fm.Study:
    given: dict[str, Any] = {"trials": 3, "lm": lm_at(url), "tracking": False, "concurrency": 4}
    given |= {"space": ORDERS, "train": questions(0, 20), "validation": questions(20, 26)}
    return fm.tune(**{**given, **options})


def with_earlier_trials(**options: Any) -> optuna.Study:
    """A study of hers, with a finished, a failed and a running trial, better than any of ours."""
    study = optuna.create_study(direction="maximize", study_name="hers", **options)

    def objective(trial: optuna.Trial) -> float:
        trial.suggest_float("x", 0, 1)
        if trial.number == 1:
            raise RuntimeError
        return 7.0

    study.optimize(objective, n_trials=2, catch=(RuntimeError,))
    study.ask()
    return study


@pytest.mark.parametrize("kept", ["memory", pytest.param("sqlite", marks=pytest.mark.nightly)])
def test_a_study_of_hers_is_the_result(scripted: Any, tmp_path: Path, kept: str) -> None:
    scripted.reply = scripted_by(critic_first)
    storage = None if kept == "memory" else f"sqlite:///{tmp_path / 'hers.db'}"
    sampler = optuna.samplers.RandomSampler(seed=3)
    mine = with_earlier_trials(sampler=sampler, storage=storage)
    mine.pruner = optuna.pruners.NopPruner()
    hers = mine.get_trials()
    found = tuned(scripted.url, study=mine, out=tmp_path / "out")
    assert found.study is mine
    assert mine.sampler is sampler
    assert "stop" not in vars(mine)
    assert mine.trials[:3] == hers
    assert found.report.trials["complete"] == 3
    assert found.report.sampler == "RandomSampler"
    assert mine.best_trials[0].value == 7.0  # hers
    assert found.best  # ours
    assert found.validation is not None
    assert min(trial.trial for trial in found.trials) == 3
    # in a new folder, as a notebook's next cell would
    again = tuned(scripted.url, study=mine, trials=4)
    assert again.report.trials["complete"] == 4
    assert again.validation is not None
    optuna.visualization.matplotlib.plot_optimization_history(mine)


def test_callbacks_get_study_and_trial_and_may_stop_the_study(scripted: Any) -> None:
    scripted.reply = scripted_by(critic_first)
    mine = optuna.create_study(direction="maximize")
    seen: list[tuple[optuna.Study, int]] = []

    def stop_at_two(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        seen.append((study, trial.number))
        if len(seen) == 2:
            study.stop()

    found = tuned(scripted.url, study=mine, trials=9, callbacks=[stop_at_two])
    assert len(seen) == 2
    assert all(study is mine for study, _ in seen)
    assert found.report.stopped == "a callback stopped the study"
    assert found.validation is not None
    assert found.best


def test_a_sampler_that_has_tried_every_point_ends_the_study_well(scripted: Any) -> None:
    scripted.reply = scripted_by(critic_first)
    sampler = optuna.samplers.BruteForceSampler(seed=1)
    space = {"program": "single", "strategy": ["simple", "cot"], "sampling": {"temperature": None}}
    found = tuned(scripted.url, space=space, sampler=sampler, trials=9)
    assert found.stopped is None
    assert len({entry.setting["strategy"] for entry in found.trials if entry.setting}) == 2


@pytest.mark.parametrize(
    ("queued", "said"),
    [
        ({"tie_break": "strongest"}, None),
        ({"tie_break": "coin"}, r"outside the space \('coin' not in \('majority', 'strongest'\)\)"),
        ({"max_rounds": 9}, "outside the space .max_rounds 9 is not from 1 to 3"),
    ],
)
def test_a_trial_that_she_has_queued_in_a_study_is_tried(
    scripted: Any, tmp_path: Path, queued: dict[str, Any], said: str | None
) -> None:
    """Optuna fails a value that is no choice, and takes a number outside a range."""
    scripted.reply = scripted_by(critic_first)
    options: Any = {
        "space": {**ORDERS, "max_rounds": {"from": 1, "to": 3}},
        "out": tmp_path / "out",
    }
    tuned(scripted.url, trials=1, **options)
    again = tuned(scripted.url, trials=1, **options)  # which is shown as it is stored
    assert again.study is not None
    again.study.enqueue_trial(queued)
    if said is not None:
        with pytest.raises(fm.UserError, match=said):
            tuned(scripted.url, trials=2, **options)
        return
    found = tuned(scripted.url, trials=2, **options)
    (hers,) = [trial for trial in found.trials if trial.place == 2]
    assert hers.setting is not None
    assert hers.setting["tie_break"] == "strongest"
    assert found.report.trials["failed"] == 0


def test_a_sampler_and_a_pruner_without_a_study(scripted: Any) -> None:
    scripted.reply = scripted_by(critic_first)

    class PrunesAll(optuna.pruners.BasePruner):
        def prune(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> bool:
            return bool(trial.number)

    sampler = optuna.samplers.TPESampler(seed=1)
    found = tuned(scripted.url, sampler=sampler, pruner=PrunesAll(), trials=3)
    assert found.report.trials["pruned"] >= 1
    assert found.study is not None
    assert found.study.metric_names == ["accuracy"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"study": optuna.create_study()}, "is to minimize"),
        (
            {"study": optuna.create_study(direction="maximize"), "sampler": "gp"},
            "a sampler of its own",
        ),
        ({"study": optuna.create_study(direction="maximize"), "workers": 2}, "leave out workers="),
        ({"callbacks": [print], "workers": 2}, "leave out workers="),
        ({"sampler": 3}, "no sampler 3"),
        ({"study": ["x"]}, r"study is \['x'\]: give a name"),
    ],
)
def test_what_cannot_be_used_is_refused(scripted: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(fm.UserError, match=said):
        tuned(scripted.url, **options)
    assert scripted.requests == []


def test_a_study_is_a_table_and_draws_itself(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = scripted_by(critic_first)
    study = study_at(scripted.url, tmp_path / "out", trials=3, tracking=False)
    frame = study.to_pandas()
    assert list(frame["trial"]) == [entry.trial for entry in study.trials]
    assert {"roles", "max_rounds", "accuracy", "state"} <= {*frame.columns}
    assert study.plot(tmp_path / "history.png").is_file()
    for name in PLOTS:
        assert draw_trials(study.report, name, tmp_path / f"{name}.png"), name
    try:
        import plotly  # noqa: F401
    except ImportError:
        with pytest.raises(fm.UserError, match=r"pip install 'folkmoot\[plots\]'"):
            study.plot(tmp_path / "trials.html")
    else:
        assert "<html>" in study.plot(tmp_path / "trials.html").read_text()


def test_the_best_so_far_is_that_of_whole_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of a metric of one's own may all be below 0."""
    figures: list[Any] = []
    monkeypatch.setattr(tuning, "saved", lambda figure, path: figures.append(figure))
    table = []
    first = [("complete", -3.0), ("pruned", -1.0)]
    for number, (state, value) in enumerate([*first, ("complete", -2.0), ("complete", -4.0)]):
        score: Any = {"value": value, "low": value, "high": value, "n": 10}
        scored: Any = {"setting": {}, "scores": {"loss": score}}
        table.append(TrialEntry(trial=number, state=state, place=number, **scored))
    tuning.history_plot(SimpleNamespace(goal="loss", table=table), Path())  # type: ignore[arg-type]
    (line,) = figures[0].axes[0].get_lines()
    assert list(line.get_xdata()) == [0, 2, 3]
    assert list(line.get_ydata()) == [-3.0, -2.0, -2.0]
