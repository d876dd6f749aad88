"""The contests that examples/recorded holds."""

import atexit
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path

import folkmoot

PLACE = Path(folkmoot.__file__).parent / "examples" / "recorded"
ARCHIVES = sorted(PLACE.glob("*.tar.xz"))


def unpack(folder: Path, wanted: str | None = None) -> None:
    """Put the contests there: all, or those that a text names."""
    for archive in ARCHIVES:
        name = archive.name.removesuffix(".tar.xz")
        if wanted is None or name in wanted:
            shutil.copytree(_unpacked(archive) / name, folder / name)
    shutil.copytree(PLACE / "words", folder / "words")


@cache
def _unpacked(archive: Path) -> Path:
    """Where this process has unpacked it, once."""
    folder = Path(tempfile.mkdtemp(prefix="folkmoot-recorded-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder
