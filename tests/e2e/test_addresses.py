"""Addresses that could be read as one host and reached as another are refused everywhere."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from by_day import some_by_day
from cli_helpers import folkmoot, isolate
from refusals import refused

import folkmoot as fm
from folkmoot.pipelines.programs.resolve import program_of
from folkmoot.pipelines.tracking.store import open_client
from folkmoot.pipelines.tuning.storage import open_storage

ODD = [
    *("http:/\t/evil.test/v1", "http:/\n/evil.test", "http:\r//evil.test", " http://evil.test"),
    *("http://localhost: @evil.test", "http://localhost:8000@evil.test"),
    *("http://api.openai.com@evil.test", "http://[::1]@evil.test", "http://a@b@evil.test"),
    *("http://127.0.0.1\\@evil.test", "http://evil.test\x7f", "http://\u202eevil.test"),
    *("http://\N{CIRCLED LATIN SMALL LETTER E}vil.test", "http://evil.test:99999"),
]


def in_environment(
    name: str, read: Callable[[], object]
) -> Callable[[str, pytest.MonkeyPatch], object]:
    def reader(address: str, patch: pytest.MonkeyPatch) -> object:
        patch.setenv(name, address)
        return read()

    return reader


READERS: dict[str, Callable[[str, pytest.MonkeyPatch], object]] = {
    "api_base=": lambda address, patch: fm.lm("openai/x", api_base=address),
    "api_base= of a provider": lambda address, patch: fm.lm(
        "mistral/x", api_base=address, api_key="k"
    ),
    "OPENAI_BASE_URL": in_environment("OPENAI_BASE_URL", lambda: fm.lm("openai/x")),
    "storage=": lambda address, patch: open_storage(address.replace("http", "postgresql"), Path()),
    "MLFLOW_TRACKING_URI": in_environment("MLFLOW_TRACKING_URI", open_client),
}


@pytest.mark.parametrize("reader", some_by_day(READERS))
def test_odd_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str) -> None:
    isolate(tmp_path, monkeypatch)
    for address in ODD:
        refused(r"address|not a URL|SQLAlchemy URL", READERS[reader], address, monkeypatch)


@pytest.mark.nightly
def test_a_dotenv_file_of_the_working_folder_names_no_server(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=http://evil.test/v1\n")
    makes = "fm.lm('mistral/x', api_key='k'); found = fm.lm('openai/x', api_key='k')"
    code = f"import folkmoot as fm; {makes}; print(found.dump_state())"
    names = os.environ.keys() - {"OPENAI_BASE_URL", "LITELLM_MODE"}
    env = {name: os.environ[name] for name in names}
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert "openai/x at https://api.openai.com/v1" in done.stdout, done.stderr


def test_a_program_file_names_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)
    monkeypatch.setenv("HUGGINGFACE_API_KEY", "none")
    path = tmp_path / "program.yaml"
    for line, why in {
        "lms: {simple: {name: openai/x, api_base: 'http://x.test'}}": "an address or key of an LM",
        "lms: {simple: {name: openai/x, api_key: k}}": "'api_key', an address or key of an LM",
        "lms: {simple: huggingface/https://evil.test}": "has an address in the LM's name",
        "environment: wikipedia:evil.test": "an address other than Wikipedia's",
    }.items():
        path.write_text(f"program: single\nstrategy: simple\n{line}\n")
        refused(why, program_of, path)
        data = ("--train", "sample-choice", "--validation", "sample-choice")
        done = folkmoot("tune", path, *data, "--dry-run", "--out", "study", code=2)
        assert why in done.stderr
