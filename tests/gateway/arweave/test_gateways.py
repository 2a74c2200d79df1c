"""``AOS_ARWEAVE``, and how a worker loads the executors."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

import aos
from aos.errors import BadUsage
from aos.worker import NotConfigured
from aos.worker.load_executors import load
from aos_gateway.arweave.arweave_effects import arweave, connected
from aos_gateway.arweave.gateway_client import VARIABLE, address_of, read_addresses

WITHOUT_PYCRYPTODOME = """
import sys
sys.modules["Crypto"] = None
from aos.errors import BadUsage
from aos.worker.load_executors import load
try:
    load("arweave")
except BadUsage as problem:
    print(problem)
"""


def test_pairs_of_name_and_url_are_read() -> None:
    """AW-1."""
    found = read_addresses(" main=http://127.0.0.1:1984/\tother=https://user:pass@a.example/open  ")

    assert [(each.name, each.url, each.host) for each in found.values()] == [
        ("main", "http://127.0.0.1:1984", "127.0.0.1:1984"),
        ("other", "https://user:pass@a.example/open", "a.example"),
    ]
    assert "pass" not in repr(found)
    assert read_addresses("") == {}


@pytest.mark.parametrize(
    "pair",
    [
        "main",
        "=http://a.example",
        "main=",
        "main=ftp://secret.example",
        "main=//secret.example",
        "ma/in=http://secret.example",
        "main=http://",
        "main=http://secret.example:port",
        "main=http://secret.example/?key=1",
        "main=http://secret.example/#top",
    ],
)
def test_a_malformed_pair_is_named_by_its_place_and_never_shown(pair: str) -> None:
    """AW-1, AW-7."""
    with pytest.raises(BadUsage) as refused:
        read_addresses(f"first=http://a.example {pair}")

    assert str(refused.value) == (
        "AOS_ARWEAVE: pair 2: expected name=URL with http or https, such as "
        'AOS_ARWEAVE="main=https://gateway.example.com" (pairs are separated by blanks)'
    )


def test_a_name_that_is_there_twice_is_refused() -> None:
    with pytest.raises(BadUsage, match="pair 2: the name 'main' is there twice"):
        read_addresses("main=http://a.example main=http://b.example")


@pytest.mark.parametrize(
    ("text", "known"), [("", "none"), ("b=http://b.example a=http://a", "a, b")]
)
def test_an_unknown_gateway_holds_the_effect(text: str, known: str) -> None:
    """AW-1."""
    with pytest.raises(NotConfigured) as held:
        address_of(read_addresses(text), "main")

    assert held.value.code == "gateway_not_configured"
    assert str(held.value) == (
        f"AOS_ARWEAVE has no Arweave gateway 'main': found {known}: "
        'set AOS_ARWEAVE="main=https://gateway.example.com" and restart the process'
    )


def test_a_worker_starts_without_a_gateway_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """AW-1: it connects when an effect runs."""
    monkeypatch.setenv(VARIABLE, "main=http://127.0.0.1:1")

    async def start() -> list[str]:
        async with connected() as access:
            return list(access.addresses)

    assert asyncio.run(start()) == ["main"]


def test_a_malformed_variable_keeps_the_worker_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:1")

    async def start() -> None:
        async with connected():
            pass

    with pytest.raises(BadUsage, match="AOS_ARWEAVE: pair 1"):
        asyncio.run(start())


def test_the_executors_are_loaded_by_name() -> None:
    assert load("arweave") is arweave
    assert sorted(arweave.effects) == ["arweave/quote@1", "arweave/status@1", "arweave/upload@1"]
    assert arweave.effects["arweave/status@1"].concurrency == 256
    assert arweave.effects["arweave/upload@1"].blobs == ("data",)


def test_without_its_package_one_sentence_names_the_extra() -> None:
    """AW-2."""
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYCRYPTODOME], check=True, capture_output=True, text=True
    )

    assert ran.stdout == (
        f"executors 'arweave' of the package aos-kernel {aos.__version__}: the executors of "
        "Arweave need the package pycryptodome, which is not installed: pip install "
        "'aos-kernel[gateway]'\n"
    )
    assert ran.stderr == ""
