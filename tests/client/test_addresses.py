"""A client with several addresses (spec/cluster.md, CL-212)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from aos.client import AsyncClient, Client
from aos.client.node_connection import AddressList, NodeAddress, NodeUnavailable
from aos.errors import BadUsage, Refused
from tests.cli.shell import here

Handle = Callable[[httpx.Request], httpx.Response]

NODES = "http://a,http://b,http://c"


def client(handle: Handle) -> Client:
    """A client of three nodes; ``handle`` answers for all of them."""
    world = Client(NODES)
    transport = httpx.MockTransport(handle)
    world._nodes = AddressList(
        NODES, lambda address: httpx.Client(base_url=address.base, transport=transport)
    )
    return world


def away(admitted: str) -> httpx.Response:
    problem = {"status": 503, "rule": "world_is_unavailable", "detail": "no", "admitted": admitted}
    return httpx.Response(503, json=problem)


def done() -> httpx.Response:
    return httpx.Response(200, json={"seq": 7})


def test_the_next_node_gets_what_the_first_one_surely_did_not_take() -> None:
    hosts: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        match request.url.host:
            case "a":
                raise httpx.ConnectError("refused", request=request)
            case "b":
                return away("no")
        return done()

    with client(handle) as world:
        world.command("clock")
        world.command("clock")
    assert hosts == ["a", "b", "c", "c"]


def test_a_command_that_may_have_been_admitted_is_not_sent_again() -> None:
    hosts: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        if request.url.host == "a":
            return away("unknown")
        if request.url.host == "b":
            raise httpx.ReadError("the connection broke", request=request)
        return done()

    with client(handle) as world:
        for _ in range(2):
            with pytest.raises(NodeUnavailable):
                world.command("clock")
        world.command("clock")
    assert hosts == ["a", "b", "c"]


def test_an_event_goes_to_each_node_under_one_id() -> None:
    ids: list[tuple[str, str]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        ids.append((request.url.host, json.loads(request.content)["submission_id"]))
        if request.url.host == "c":
            return httpx.Response(200, json={"seq": 7, "duplicate": True, "to": []})
        return away("unknown")

    with client(handle) as world:
        assert world.send("shop/Order@1", {}).seq == 7  # type: ignore[union-attr]
    assert [host for host, _ in ids] == ["a", "b", "c"]
    assert len({id for _, id in ids}) == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_read_goes_to_each_node_once_and_ends_with_the_last_problem(*, is_async: bool) -> None:
    hosts: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        raise httpx.ReadError(f"{request.url.host} broke", request=request)

    async def read() -> None:
        async with AsyncClient(NODES) as world:
            transport = httpx.MockTransport(handle)
            world._nodes = AddressList(
                NODES,
                lambda address: httpx.AsyncClient(base_url=address.base, transport=transport),
            )
            await world.seq()

    with client(handle) as world, pytest.raises(NodeUnavailable, match="c broke"):
        asyncio.run(read()) if is_async else world.seq()
    assert hosts == ["a", "b", "c"]


def test_a_refusal_is_no_reason_to_ask_another_node() -> None:
    hosts: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        return httpx.Response(401, json={"rule": "token_is_invalid", "detail": "no", "status": 401})

    with client(handle) as world, pytest.raises(Refused):
        world.seq()
    assert hosts == ["a"]


def test_addresses_are_read_from_one_text(tmp_path: Path) -> None:
    def addresses(text: str) -> list[NodeAddress]:
        return [site.address for site in AddressList(text, lambda _: None).sites]

    assert [address.base for address in addresses("http://a, https://b/w/x/,http://a")] == [
        "http://a", "https://b/w/x",
    ]  # fmt: skip
    folder = tmp_path / "one,two"
    folder.mkdir()
    assert addresses(str(folder)) == [NodeAddress.read(str(folder))]
    for text in ("http://a,", ",", "http://a,,http://b"):
        with pytest.raises(BadUsage, match="an address is empty"):
            addresses(text)
    with pytest.raises(BadUsage, match="expected a URL"):
        addresses("http://a,ftp://b")


SECRET = "hunter2"


@pytest.mark.parametrize(
    "address",
    [
        f"http://bob:{SECRET}@127.0.0.1:9", f"ftp://bob:{SECRET}@host", f"ftp://bob:{SECRET}/x@host",
        f"http://127.0.0.1:9,http://bob:{SECRET}@127.0.0.1:8,", f"http://{SECRET}@127.0.0.1:9",
    ],
)  # fmt: skip
def test_no_message_has_the_password_of_an_address(address: str) -> None:
    """C-92"""
    for command in (("inspect", "world"), ("cells",), ("send", "a/B@1", "{}")):
        failed = here(*command, "--node", address)
        assert failed.code in (2, 4)
        assert SECRET not in failed.out + failed.err
