"""The environments of folkmoot that can be named."""

from __future__ import annotations

from collections.abc import Callable

from ...modules.base.errors import UserError
from ...modules.environment.base import Environment
from ...modules.environment.corpus import CorpusEnvironment
from ...modules.environment.replay import RecordingEnvironment, ReplayEnvironment
from ...modules.environment.wikipedia import WikipediaEnvironment
from ..base.settings import settings


def built_in(environment_of: Callable[[str], Environment]) -> dict[str, Callable[..., Environment]]:
    """Return what makes each environment from the text after its name; `environment_of` makes the
    one that is recorded.
    """

    def recording(rest: str) -> RecordingEnvironment:
        path, _, environment = rest.partition(":")
        if not path or not environment:
            raise UserError(
                f"record:{rest} names no file or no environment: write record:pages.jsonl:wikipedia"
            )
        return RecordingEnvironment(environment_of(environment), path)

    return {
        "corpus": _corpus,
        "wikipedia": _wikipedia,
        "replay": ReplayEnvironment,
        "record": recording,
    }


def _corpus(path: str) -> CorpusEnvironment:
    return CorpusEnvironment(path, index_dir=settings().cache)


def _wikipedia(address: str = "") -> WikipediaEnvironment:
    host, _, path = address.partition("/")
    return WikipediaEnvironment(
        host or "en.wikipedia.org", path=f"/{path or 'w/api.php'}", cache_dir=settings().cache
    )
