"""Which hosts and addresses HTTP requests may reach (X-61, X-62)."""

from __future__ import annotations

import pytest

from aos.errors import BadUsage
from aos.manifest.hosts import HostPort, as_address
from aos.worker.http_settings import AllowedPlace, AllowList, is_public, parse_entry


@pytest.mark.parametrize(
    ("text", "host", "port", "is_private"),
    [
        ("api.example.com", "api.example.com", None, False),
        ("API.Example.com:8443", "api.example.com", 8443, False),
        ("billing:8080+private", "billing", 8080, True),
        ("xn--bcher-kva.example", "xn--bcher-kva.example", None, False),
        ("localhost", "localhost", None, True),
        ("localhost:8080", "localhost", 8080, True),
        ("127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("[::1]:8080", "::1", 8080, True),
        ("[FE80::0001]", "fe80::1", None, True),
        ("8.8.8.8", "8.8.8.8", None, True),
    ],
)
def test_an_entry_is_read(text: str, host: str, port: int | None, is_private: bool) -> None:
    place = HostPort(host=host, port=port)
    assert parse_entry(text) == AllowedPlace(host_port=place, is_private=is_private)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":80",
        "https://api.example.com",
        "api.example.com/path",
        "api.example.com:",
        "api.example.com:0",
        "api.example.com:65536",
        "api.example.com:80:80",
        "*.example.com",
        "*",
        "a..b",
        ".example.com",
        "example.com.",
        "user@example.com",
        "bücher.example",
        "[api.example.com]",
        "[::1",
        "::1",
        "a b",
        "+private",
    ],
)
def test_an_invalid_entry_is_refused(text: str) -> None:
    with pytest.raises(BadUsage, match="expected HOST, HOST:PORT or NAME:PORT"):
        parse_entry(text)


def test_nothing_is_allowed_by_default() -> None:
    assert AllowList([]).find("localhost", 80) is None


def test_an_entry_allows_its_port_and_without_one_the_two_usual_ones() -> None:
    allowed = AllowList(["a.example", "b.example:8080", "c.example", "c.example:81"])

    found = {
        (host, port)
        for host in ("a.example", "b.example", "c.example", "www.a.example", "example")
        for port in (80, 81, 443, 8080)
        if allowed.find(host, port)
    }
    assert found == {
        ("a.example", 80),
        ("a.example", 443),
        ("b.example", 8080),
        ("c.example", 80),
        ("c.example", 81),
        ("c.example", 443),
    }


PRIVATE = """
0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 127.0.0.1 127.255.255.255 169.254.169.254 172.16.0.1
172.31.255.255 192.0.0.1 192.0.2.1 192.168.0.1 198.18.0.1 203.0.113.1 224.0.0.1 239.1.1.1 240.0.0.1
255.255.255.255
:: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::7f00:1 64:ff9b::a00:1 2002:7f00:1:: 2002:a00:1::
2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:db8::1 fc00::1 fd12:3456::1 fe80::1 fec0::1 ff02::1
"""

PUBLIC = """
1.1.1.1 8.8.8.8 93.184.216.34 172.32.0.1 100.128.0.1 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::
2606:4700::1111 2a00:1450:4001:830::200e
"""


@pytest.mark.parametrize("text", PRIVATE.split())
def test_addresses_of_the_machine_and_its_network_are_not_public(text: str) -> None:
    address = as_address(text)
    assert address is not None
    assert not is_public(address)


@pytest.mark.parametrize("text", PUBLIC.split())
def test_addresses_of_the_internet_are_public(text: str) -> None:
    address = as_address(text)
    assert address is not None
    assert is_public(address)


@pytest.mark.parametrize("text", ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "localhost"])
def test_other_spellings_of_an_address_are_names(text: str) -> None:
    """They match no entry but their own, and what they lead to is looked at as for any name."""
    assert as_address(text) is None
