"""What the Wikipedia client must never do: reach other hosts, private addresses, or a bomb."""

import resource
import socket
import threading
from asyncio import run
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import given
from hypothesis import strategies as st
from mediawiki_server import MediaWikiServer, body, bomb, redirect, wiki
from mediawiki_server import quick as quick
from refusals import refused

from folkmoot.modules.base.calls import CallError, FatalCallError
from folkmoot.modules.environment import addresses
from folkmoot.modules.environment.addresses import is_public
from folkmoot.modules.environment.wikipedia import WikipediaEnvironment


@pytest.fixture
def server() -> Iterator[MediaWikiServer]:
    with MediaWikiServer([{"title": "Tea", "text": "A drink."}]) as running:
        yield running


class Answers(AbstractResolver):
    """Looks every name up in a list of answers, one a question; the last one stays."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        made: list[ResolveResult] = []
        for address in found:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            place: Any = {"hostname": host, "host": address, "port": port, "family": family}
            made.append(ResolveResult(proto=0, flags=socket.AI_NUMERICHOST, **place))
        return made

    async def close(self) -> None:
        pass


@contextmanager
def listening(address: str, port: int = 0) -> Iterator[tuple[int, list[str]]]:
    """A listener's port, and who has connected to it."""
    with socket.create_server((address, port)) as listener:
        callers: list[str] = []
        listener.settimeout(0.1)
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                try:
                    connection, caller = listener.accept()
                except TimeoutError:
                    continue
                callers.append(caller[0])
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], callers
        finally:
            over.set()
            thread.join()


PUBLIC = "198.35.26.96 2620:0:863:ed1a::1 64:ff9b::c623:1a60"
PRIVATE = "127.0.0.1 0.0.0.0 10.0.0.1 169.254.169.254 100.64.0.1 224.0.0.1 ::1 ::ffff:0:127.0.0.1 "
PRIVATE += "fd12:3456::1 fe80::1%eth0 ff02::1 64:ff9b:1::1 2001:0:7f00:1:: 4000::1"
ODD = "127.1 2130706433 0x7f.0.0.1 127.0.0.01 １２７.0.0.1"
ADDRESSES = dict.fromkeys(PUBLIC.split(), True) | dict.fromkeys(f"{PRIVATE} {ODD}".split(), False)


@pytest.mark.parametrize(("address", "public"), ADDRESSES.items())
def test_no_private_reserved_or_odd_address_is_public(address: str, public: bool) -> None:
    assert is_public(address) == public


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_no_more_public_than_itself(address: Any) -> None:
    mapped = f"2002:{int(address) >> 16:x}:{int(address) & 0xFFFF:x}::"
    for form in (f"::ffff:{address}", f"64:ff9b::{address}", mapped):
        assert is_public(form) == is_public(str(address))
    assert not is_public(f"::{address}")


@pytest.mark.parametrize(
    "host",
    [
        *("", "a b", "a/b", "a#b", "u:p@h", "a\\b", "a\nb", "a..b", "-a", "a."),
        *("a:65536", "a:x", "::1", "[fe80::1%eth0]", "ftp://a", "https://a/b"),
        *("wikipedia。org", "127.1", "2130706433", "0x7f.1", "x" * 64, "*.wikipedia.org"),
    ],
)
def test_what_is_no_host_is_refused_at_once(host: str) -> None:
    refused(r"not a host|cannot be asked", WikipediaEnvironment, host)


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "10.1.2.3", "[::ffff:7f00:1]:443"])
def test_a_private_address_needs_to_be_listed(host: str) -> None:
    for given_host in (host, f"https://{host}"):
        refused("private_hosts", WikipediaEnvironment, given_host)
        WikipediaEnvironment(given_host, private_hosts=[host])


def test_a_name_that_turns_private_is_never_followed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loopback address plays the public one: the name leads there, then to the private one."""
    monkeypatch.setattr(addresses, "is_public", lambda address: address == "127.0.0.2")
    with listening("127.0.0.2") as (port, public), listening("127.0.0.1", port) as (_, private):
        for answers in (
            [["127.0.0.2"], ["127.0.0.1"]],
            [["127.0.0.2", "127.0.0.1"], ["127.0.0.1"]],
        ):
            names = Answers(*answers)
            monkeypatch.setattr(aiohttp, "ThreadedResolver", lambda names=names: names)
            environment = WikipediaEnvironment(f"wiki.example.org:{port}")
            for loop in range(2):  # every loop asks for the address anew
                with pytest.raises(FatalCallError if loop else CallError):
                    run(environment.fetch("Tea"))
            assert len(names.asked) >= 2
        assert public
        assert not private


@pytest.mark.parametrize("code", [301, 308])
@pytest.mark.parametrize(
    "location", ["https://evil.example/", "http://169.254.169.254/", "http://u:hush@HOST/w", ""]
)
def test_no_redirect_is_followed(server: MediaWikiServer, location: str, code: int) -> None:
    server.faults = [redirect(location.replace("HOST", server.host), code)] * 2
    with pytest.raises(CallError, match="redirects") as caught:
        run(wiki(server).fetch("Tea"))
    assert len(server.log) == 1
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("fault", [body(b'{"x": "' + b"y" * (9 << 20) + b'"}'), bomb(256)])
def test_a_huge_answer_is_dropped_no_bomb_unpacked(server: MediaWikiServer, fault: Any) -> None:
    server.faults = [fault]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CallError, match=r"more than 8 MB"):
        run(wiki(server).fetch("Tea"))
    assert len(server.log) == 1
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 100  # MB


def test_nothing_of_the_environment_or_of_cookies_is_sent(server, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password word\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with listening("127.0.0.1") as (port, callers):
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        missing = b'{"query": {"pages": [{"missing": true}]}}'
        server.faults = [body(missing, Set_Cookie="a=b; Path=/")]
        environment = wiki(server)

        async def work() -> None:
            await environment.fetch("Tea")
            await environment.fetch("Tea")

        run(work())
        assert not callers
    for headers in server.headers:
        assert set(headers) == {"Host", "User-Agent", "Accept", "Accept-Encoding"}
