"""Fixtures that all tests share."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

gc.disable()  # until all tests are collected: what is imported until then stays

SUPPORT = str(Path(__file__).parent / "support")
sys.path.insert(0, SUPPORT)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [SUPPORT, os.environ.get("PYTHONPATH")]))
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # its threads would look hosts up
os.environ.setdefault("OMP_NUM_THREADS", "1")  # each worker has a core of its own
os.environ["FOLKMOOT_CALLS_MB"] = "0"  # no answers from earlier runs; for child processes too

from hypothesis import settings  # noqa: E402
from stores import leave_out_syncs, read_migrations_once  # noqa: E402

from folkmoot.pipelines.testing.server import ScriptedServer  # noqa: E402

# A property is tried on few examples by day and on many at night (make test-nightly).
settings.register_profile("day", max_examples=15, deadline=None)
settings.register_profile("nightly", max_examples=400, deadline=None)
settings.load_profile("day")


class RootIsNoPackage:
    """The checkout, which is the package, is a folder of tests like another, whatever its name."""

    @staticmethod
    @pytest.hookimpl
    def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        return pytest.Dir.from_parent(parent, path=path) if path == parent.config.rootpath else None


def pytest_configure(config: pytest.Config) -> None:
    # this file's own hooks are for what is below it
    config.pluginmanager.register(RootIsNoPackage())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Each worker would import for 15 s what one process can import for all."""
    from forked_workers import fork_workers

    fork_workers()


FROZEN = {"modules": 0}


def pytest_runtest_setup() -> None:
    """The garbage collector passes over what imports made, before the first test and later."""
    if len(sys.modules) > FROZEN["modules"] + 300:
        if FROZEN["modules"]:  # what the first imports left is less than a search for it costs
            gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        gc.enable()
        FROZEN["modules"] = len(sys.modules)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Neither tests nor the processes they start look into the folders of whoever runs them."""
    os.environ["FOLKMOOT_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


@pytest.fixture(autouse=True)
def _own_store() -> None:
    """No test goes on with a tracking store or experiment left in MLflow's settings."""
    os.environ.pop("MLFLOW_EXPERIMENT_ID", None)  # where `mlflow.set_experiment` notes it
    if (mlflow := sys.modules.get("mlflow")) is not None and hasattr(mlflow, "set_tracking_uri"):
        mlflow.set_tracking_uri(None)
    read_migrations_once()
    leave_out_syncs()


@pytest.fixture(autouse=True)
def _own_lm() -> Iterator[None]:
    """No test meets the LM and adapter that another, or a snippet of the docs, set DSPy to."""
    yield
    settings_of_dspy = getattr(sys.modules.get("dspy"), "settings", None)
    if settings_of_dspy is not None and (settings_of_dspy.lm or settings_of_dspy.adapter):
        settings_of_dspy.configure(lm=None, adapter=None)


@pytest.fixture(autouse=True)
def _new_addresses() -> None:
    """A server at a port that an earlier test's had is one that nobody has heard of."""
    if (limits := sys.modules.get("folkmoot.pipelines.lms.limits")) is not None:
        limits._GATES.clear()


@pytest.fixture(scope="session", autouse=True)
def _figures() -> Any:
    import figures

    figures.Figure.savefig = figures.blank
    return figures


@pytest.fixture(autouse=True)
def _rendered(
    request: pytest.FixtureRequest, _figures: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if request.node.get_closest_marker("plots"):
        monkeypatch.setattr(_figures.Figure, "savefig", _figures.RENDERED)


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real benchmark data; tests that need it are skipped without it."""
    folder = os.environ.get("FOLKMOOT_DATA")
    if not folder:
        pytest.skip("FOLKMOOT_DATA is not set: it names the folder of real benchmark data")
    return Path(folder)
