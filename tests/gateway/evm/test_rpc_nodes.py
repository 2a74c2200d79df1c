"""``AOS_EVM_RPC``, and the URL that no message may contain (EV-1 to EV-3)."""

from __future__ import annotations

import asyncio

import pytest

from aos.errors import BadUsage
from aos.worker import NotConfigured
from aos.worker.failure import failure_of
from aos_gateway.evm.evm_effects import connected
from aos_gateway.evm.rpc_connections import parse_nodes
from tests.gateway.evm import stage
from tests.gateway.evm.fake_node import FakeNode
from tests.gateway.evm.stage import node_of


def test_each_chain_has_a_node() -> None:
    nodes = parse_nodes(" 31337=http://127.0.0.1:8545\n1=https://eth.example/v3/abcdef ")

    assert list(nodes) == [31337, 1]
    assert (nodes[31337].host_port, nodes[31337].port) == ("127.0.0.1:8545", 8545)
    assert (nodes[1].host_port, nodes[1].port, nodes[1].target) == (
        "eth.example",
        443,
        "/v3/abcdef",
    )
    assert parse_nodes("") == {}


def test_an_ipv6_address_is_a_host() -> None:
    node = node_of("1=http://[::1]:8545")

    assert (node.host_port, node.host) == ("[::1]:8545", "::1")


def test_user_and_password_become_a_header_and_no_message() -> None:
    node = node_of("1=https://user:pass%40word@eth.example/")

    assert node.authorization == "Basic dXNlcjpwYXNzQHdvcmQ="
    assert "pass" not in repr(node)
    assert "dXNlc" not in repr(node)
    text = node.redacted_line("no user:pass%40word, no pass@word")
    assert text == "no [secret AOS_EVM_RPC], no [secret AOS_EVM_RPC]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("http://127.0.0.1:8545/SECRET", "entry 1 is not valid"),
        ("31337:http://h/SECRET", "entry 1 is not valid"),
        ("0=http://h/SECRET", "entry 1 is not valid"),
        ("-1=http://h/SECRET", "entry 1 is not valid"),
        ("01=http://h/SECRET", "entry 1 is not valid"),
        ("1=http://h 2=ftp://h/SECRET", "entry 2, of chain 2, has no valid URL"),
        ("1=http:///SECRET", "entry 1, of chain 1, has no valid URL"),
        ("1=http://h:99999999/SECRET", "entry 1, of chain 1, has no valid URL"),
        ("1=SECRET", "entry 1, of chain 1, has no valid URL"),
        ("1=http://SECRET[x@h/", "entry 1, of chain 1, has no valid URL"),
        ("1=http://[SECRET", "entry 1, of chain 1, has no valid URL"),
        ("1=http://h/SECRET 1=http://h/SECRET", "entry 2 is the second one of chain 1"),
        ("99999999999999999999=http://h/SECRET", "expected a chain id below 2^64"),
    ],
)
def test_a_malformed_entry_is_named_by_its_place(text: str, words: str) -> None:
    with pytest.raises(BadUsage) as refused:
        parse_nodes(text)

    message = str(refused.value)
    assert message.startswith("AOS_EVM_RPC: entry ")
    assert words in message
    assert "SECRET" not in message
    assert refused.value.__cause__ is None


def test_a_start_with_a_malformed_entry_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOS_EVM_RPC", "SECRET")

    async def story() -> None:
        async with connected():
            pass

    with pytest.raises(BadUsage, match="AOS_EVM_RPC: entry 1 is not valid"):
        asyncio.run(story())


@pytest.mark.parametrize("value", ["", "1=http://127.0.0.1:1"])
def test_an_effect_of_a_chain_without_a_node_is_held(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOS_EVM_RPC", value)

    async def story() -> None:
        async with connected() as nodes:
            nodes.of(31337)

    with pytest.raises(NotConfigured) as held:
        asyncio.run(story())

    assert (held.value.code, failure_of(held.value).end) == ("chain_not_configured", "hold")
    assert str(held.value) == (
        "AOS_EVM_RPC has no node for chain 31337: "
        'add "31337=URL" to AOS_EVM_RPC and start the process again'
    )


def test_a_process_without_a_node_for_the_chain_does_not_get_the_key() -> None:
    async def story() -> None:
        with pytest.raises(NotConfigured, match="AOS_EVM_RPC has no node for chain 5"):
            await stage.direct(FakeNode()).submit(chain=5)

    asyncio.run(story())
