"""Checks the hosts that a client may reach: by https and at public addresses, unless listed."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from aiohttp.abc import AbstractResolver, ResolveResult

from ..base.errors import UserError

Place = tuple[str, int]
"""A host, in lower case, and a port."""

_NAME = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
)
# Browsers and C libraries read a name whose last label is such a number as an IPv4 address.
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
_NAT64 = IPv6Network("64:ff9b::/96")
_LOCAL = (
    IPv6Network("::/96"),  # once "IPv4-compatible"; also :: and ::1
    IPv6Network("::ffff:0:0:0/96"),  # IPv4-translated
    IPv6Network("64:ff9b:1::/48"),  # NAT64 of a local network
)


class PrivateAddressError(OSError):
    """A host name that resolves to a private address."""


def may_be_private(scheme: str, host: str, private: Iterable[str]) -> bool:
    """Return whether a host, `HOST` or `HOST:PORT`, is listed in `private`: it may then have any
    address, and be reached by http.

    Raises UserError for a text that is no host, and, of hosts that are not listed, for a private
    address and for another scheme than https.
    """
    usual_port = 80 if scheme == "http" else 443
    name, port = _place(host, usual_port)
    # Without a port a private host is listed for both schemes.
    if (name, port) in {_place(listed, usual) for listed in private for usual in (443, 80)}:
        return True
    if _is_literal(name) and not is_public(name):
        raise UserError(
            f"{name} is a private, local or reserved address: name a public host, or list it in "
            "private_hosts if it is a wiki of your own"
        )
    if scheme != "https":
        raise UserError(f"{host} cannot be asked by {scheme}: public wikis are reached by https")
    return False


class CheckedResolver(AbstractResolver):
    """Resolves a host to its public addresses; with `private`, to all.

    The client connects to one of these, so a name that is public now and private a moment later
    gains nothing. Literal addresses are never resolved: `may_be_private` checks them.
    """

    def __init__(self, inner: AbstractResolver, *, private: bool) -> None:
        self._inner, self._private = inner, private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses that may be used. Raises PrivateAddressError when no address is
        left, OSError when there is none at all.
        """
        addresses = await self._inner.resolve(host, port, family)
        kept = [address for address in addresses if self._private or is_public(address["host"])]
        if addresses and not kept:
            raise PrivateAddressError(f"{host} leads to a private, local or reserved address")
        return kept

    async def close(self) -> None:
        await self._inner.close()


def is_public(address: str) -> bool:
    """Return whether a text is an address of the public Internet; an IPv4 address inside an IPv6
    one must be public, too.

    Loopback, link-local, private, shared, multicast, reserved and documentation ranges are not
    public, nor is a text in another form ("127.1", "0x7f000001", "fe80::1%eth0").
    """
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv4Address):
        return ip.is_global and not ip.is_multicast and not ip.is_reserved
    if ip.scope_id is not None or any(ip in network for network in _LOCAL):
        return False
    # A gateway would forward a request to the IPv4 address inside, which may be private.
    inside = _carried(ip)
    if inside is not None:
        return is_public(str(inside))
    return ip.is_global and not (
        ip.is_multicast or ip.is_reserved or ip.is_site_local or ip.teredo is not None
    )


def _carried(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address inside a mapped, 6to4 or NAT64 address, or None."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _is_literal(name: str) -> bool:
    return ":" in name or _NUMBER.fullmatch(name) is not None


def _place(text: str, default_port: int) -> Place:
    """Return the host and port of `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`. Raises UserError
    for any other text.
    """
    form = isinstance(text, str) and re.fullmatch(
        r"(?:\[([0-9a-f:.]+)\]|([^\[\]:/?#@\\\s]+))(?::([0-9]{1,5}))?", text.lower(), re.ASCII
    )
    if form:
        name, port = form[1] or form[2], int(form[3] or default_port)
        usable = _NAME.fullmatch(name) is not None
        if form[1] or _is_literal(name):
            usable = False
            with suppress(ValueError):
                usable = bool(ip_address(name))
        if usable and 0 < port < 65536:
            # An IPv6 address has several spellings.
            return str(ip_address(name)) if form[1] else name, port
    raise UserError(
        f"{text!r} is not a host: give a name such as en.wikipedia.org, "
        "with :PORT if it has its own"
    )
