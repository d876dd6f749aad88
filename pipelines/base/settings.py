"""Settings that come from the environment (FOLKMOOT_…): the only place that reads them."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ...modules.base.errors import UserError


def _default_cache() -> Path:
    """Return `$XDG_CACHE_HOME/folkmoot`, else `~/.cache/folkmoot`; the XDG rules ignore a relative
    path.
    """
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not root.is_absolute():
        root = Path.home() / ".cache"
    return root / "folkmoot"


_KEYS = (
    *("_KEY", "_KEY_ID", "APIKEY", "_TOKEN", "_TOKEN_BEDROCK", "_SECRET", "_PASSWORD"),
    "_CREDENTIALS",
)

Folder = Annotated[Path, AfterValidator(Path.expanduser)]


class Settings(BaseModel):
    """Settings of a machine rather than of a run; the variable of each field is `FOLKMOOT_` plus
    its name.
    """

    model_config = ConfigDict(frozen=True)

    data: Folder | None = Field(
        default=None, description="folder with data sets as NAME-SPLIT.jsonl files"
    )
    lm: str | None = Field(default=None, description="the default LM; None: the embedded one")
    cache: Folder = Field(
        default_factory=_default_cache, description="folder of the call and vector caches"
    )
    calls_mb: int = Field(
        default=2000, ge=0, description="largest size of the call cache in MB; 0 turns it off"
    )
    reply_mb: int = Field(
        default=8, ge=1, description="largest reply of an LM in MB, once it is unpacked"
    )
    threads: int | None = Field(
        default=None, ge=1, description="threads of the embedded LM; None: its own choice"
    )

    default_openai_base_url: ClassVar[str] = "https://api.openai.com/v1"

    @property
    def openai_base_url(self) -> str:
        """The address of `openai/…` LMs when none is given: OPENAI_BASE_URL, else OpenAI itself."""
        return os.environ.get("OPENAI_BASE_URL") or self.default_openai_base_url

    def openai_key(self) -> str | None:
        """Return the key of OpenAI-compatible endpoints. Read when an LM is made; kept nowhere
        else.
        """
        return os.environ.get("OPENAI_API_KEY") or None

    def anthropic_key(self) -> str | None:
        """Return the key of Anthropic's own API; None if it is not set."""
        return os.environ.get("ANTHROPIC_API_KEY") or None

    def key_names(self) -> set[str]:
        """Return the environment variables whose names look like those of keys."""
        return {name for name in os.environ if name.upper().endswith(_KEYS)}

    def provider_keys(self) -> list[str]:
        """Return the values of these variables, which are hidden in messages from servers."""
        return [os.environ[name].strip() for name in self.key_names()]

    def environment_of(self, names: Container[str], prefixes: tuple[str, ...]) -> dict[str, str]:
        """Return the variables of these names and with these prefixes, for another process."""
        return {
            name: value
            for name, value in os.environ.items()
            if name in names or name.startswith(prefixes)
        }


SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""The environment of a Python process that imports nothing from the working folder, as `python -m`
and `-c` otherwise do.
"""


@contextmanager
def safe_path() -> Iterator[None]:
    """Start all processes in the block, also those that libraries start, with `SAFE_PATH`."""
    (name,) = SAFE_PATH
    before = os.environ.get(name)
    os.environ |= SAFE_PATH
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def settings() -> Settings:
    """Read the settings from the environment. Raises UserError for an invalid value."""
    given = {name: os.environ.get(f"FOLKMOOT_{name.upper()}") for name in Settings.model_fields}
    try:
        # An empty variable counts as unset, as shells and compose files leave them.
        return Settings.model_validate({name: value for name, value in given.items() if value})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0])  # a number, since a text is never invalid
        least = Settings.model_fields[field].metadata[0].ge
        raise UserError(
            f"the environment variable FOLKMOOT_{field.upper()} is {first['input']!r}: give a "
            f"whole number of at least {least}"
        ) from None
