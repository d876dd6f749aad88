"""Where the name of an LM leads: the endpoint behind it, how that wants to be asked, and what it costs."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from ...modules.agents.profile import DEFAULT_PROFILE, Profile
from ...modules.base.errors import UserError
from ..base.settings import settings
from .client import HttpEndpoint
from .endpoint import Endpoint
from .hosted import LiteLLMEndpoint
from .local import LOCAL_PROFILE, MODEL, LocalEndpoint
from .prices import price_per_token

DEFAULT_LM = f"local/{MODEL}"

Prices = tuple[float, float] | None
"""USD per prompt token and per completion token; None where they are not known."""


class Reached(NamedTuple):
    """An endpoint with its profile and prices; `embedded` ones take one call at a time, and count calls."""

    endpoint: Endpoint
    profile: Profile
    prices: Prices
    embedded: bool = False


def reach(name: str, *, api_base: str | None, timeout: float, threads: int | None) -> Reached:
    """The endpoint of `PROVIDER/MODEL`. Raises UserError: unknown name, missing key or extra, bad address."""
    provider, _, model = name.partition("/")
    if not model:
        raise UserError(
            f"{name!r} is no LM name: give PROVIDER/MODEL, such as openai/gpt-4o-mini or {DEFAULT_LM}"
        )
    known = settings()
    if provider == "local":
        if api_base:
            raise UserError(f"{name} runs inside this process: drop --api-base, or name the model openai/…")
        if model != MODEL:
            raise UserError(f"there is no embedded LM {model!r}: the only one is {DEFAULT_LM}")
        local = LocalEndpoint(threads or known.threads or 1, known.cache)
        return Reached(local, LOCAL_PROFILE, (0.0, 0.0), embedded=True)
    if provider != "openai":
        hosted = LiteLLMEndpoint(name, api_base=api_base, timeout=timeout)
        return Reached(hosted, DEFAULT_PROFILE, price_per_token(name))
    base = api_base or known.openai_base_url
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"{base!r} is no address of an endpoint: give --api-base as http://HOST:PORT/v1")
    key = known.openai_key()
    if key is None and api_base is None and base == known.default_openai_base_url:
        raise UserError(
            f"{name} needs a key: set OPENAI_API_KEY, or give --api-base for an endpoint of your own"
        )
    openai = HttpEndpoint(base, model, api_key=key, timeout=timeout)
    own = openai.name != known.default_openai_base_url
    return Reached(openai, DEFAULT_PROFILE, None if own else price_per_token(name))
