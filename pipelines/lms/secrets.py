"""Takes keys and passwords out of what servers say: some repeat in answers and errors what they
were sent.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from ..base.settings import settings

# shorter keys are the placeholders of local servers ("EMPTY") and may be ordinary words
SECRET_CHARS = 12
_NAMES = re.compile(r"(key|token|secret|password|signature|sig)$", re.IGNORECASE)


def hiding(keys: Iterable[str | None], address: str | None = None) -> Callable[[str], str]:
    """What replaces these keys, and the password and keys in the address, by `…` wherever they
    stand.

    A password is also hidden as it travels, which is in base64 together with its user name.
    """
    secrets = {key for key in keys if key and len(key) >= SECRET_CHARS}
    parts = urlsplit(address or "")
    if parts.password:
        user, password = unquote(parts.username or ""), unquote(parts.password)
        secrets.add(base64.b64encode(f"{user}:{password}".encode()).decode())
        if len(password) >= SECRET_CHARS:
            secrets.update((password, parts.password))
    for name, value in parse_qsl(parts.query):
        if _NAMES.search(name) and len(value) >= SECRET_CHARS:
            secrets.update((value, quote(value, safe="")))
    if not secrets:
        return str
    pattern = re.compile(
        "|".join(re.escape(secret) for secret in sorted(secrets, key=len, reverse=True))
    )
    return lambda text: pattern.sub("…", text)


def without_keys(text: str, lms: Iterable[Any]) -> str:
    """A text about LMs that are not ours, without their keys and those of the environment."""
    for lm in lms:
        own = getattr(lm, "kwargs", {})
        hide = hiding([own.get("api_key"), *settings().provider_keys()], own.get("api_base"))
        text = hide(text)
    return text
