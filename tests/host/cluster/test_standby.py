"""The socket of a node that follows (spec/cluster.md, CL-114 and CL-115)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aos.errors import AosError, BadUsage, Unavailable
from aos.host.cluster.beat import Beat
from aos.host.cluster.replica import NodeView, Role
from aos.host.door.protocol import LENGTH_BYTES, error_fields, pack, raise_error, unpack
from aos.host.errors import Busy
from aos.host.folder.replica_file import ReplicaFile
from aos.host.standby import PassOn, Standby
from aos.store.log.logged_store import LogEnd
from aos.store.log.nats_address import NatsAddress
from aos.values.digests import content_hash
from tests.host.cluster.owner_process import WORLD

REPLICA = ReplicaFile(address=NatsAddress.parse("nats://h/shop"), stream="AOS-1", node="b")


def end_at(position: int) -> LogEnd:
    return LogEnd(position=position, seq=1, frame=content_hash(b"frame"))


def beat(position: int, *, released: bool = False) -> Beat:
    return Beat(
        world=WORLD, node="a", instance=b"i" * 16, inbox="i", end=end_at(position),
        released=released,
    )  # fmt: skip


FOLLOWING = NodeView(role=Role.FOLLOWING, end=end_at(7), owner=beat(9), dead=2)


def played(
    scene: Callable[[Callable[[dict[str, Any]], Awaitable[Any]], Standby], Awaitable[None]],
    pass_on: PassOn | None = None,
) -> list[str]:
    """Play a scene with one connection; return whether it was stopped."""
    stops: list[str] = []

    async def run() -> None:
        standby = Standby(
            WORLD, REPLICA, stop=lambda: stops.append("stop"), report=print, pass_on=pass_on
        )
        with standby.talk() as handler:

            async def ask(fields: dict[str, Any]) -> Any:
                reply = await handler.answer(pack(fields)[LENGTH_BYTES:])
                assert isinstance(reply, bytes)
                answer = unpack(reply[LENGTH_BYTES:])
                raise_error(answer)
                return answer

            await scene(ask, standby)

    asyncio.run(run())
    return stops


def test_a_standby_says_how_it_stands_to_the_owner() -> None:  # CL-114
    async def scene(ask: Callable[..., Awaitable[Any]], standby: Standby) -> None:
        assert (await ask({"op": "status"}))["replica"]["owner"] is None
        standby.take(FOLLOWING)
        status = await ask({"op": "status"})
        assert status["world"] == WORLD
        assert status["replica"] == {
            "role": "standby", "node": "b", "owner": "a", "stream": "AOS-1", "position": 7,
            "lag": 2, "dead": 2, "reason": None, "reference": None,
        }  # fmt: skip
        with pytest.raises(Busy, match="has not read the journal yet"):
            await ask({"op": "manifest"})
        released = beat(8, released=True)
        standby.take(NodeView(role=Role.FOLLOWING, stream="AOS-2", end=end_at(9), owner=released))
        replica = (await ask({"op": "status"}))["replica"]
        assert (replica["owner"], replica["lag"]) == (None, 0)
        assert replica["stream"] == "AOS-2", "the node has joined again"
        assert await ask({"op": "stop"}) == {"v": 1, "stopping": True}

    assert played(scene) == ["stop"]


def test_other_requests_get_the_name_of_the_owner() -> None:  # CL-115
    async def scene(ask: Callable[..., Awaitable[Any]], standby: Standby) -> None:
        with pytest.raises(Busy, match="no node owns the world now"):
            await ask({"op": "send", "items": []})
        standby.take(FOLLOWING)
        for op in ("send", "apply", "control", "work", "nonsense", 7):
            with pytest.raises(Unavailable, match="expected a request to node a"):
                await ask({"op": op})

    played(scene)


def test_requests_are_passed_on_as_a_client_writes_them() -> None:  # CL-115
    """The modules of a manifest come with it, in front, and with no other request."""
    passed: list[list[dict[str, Any]]] = []

    async def pass_on(messages: bytes) -> bytes:
        requests = []
        while messages:
            size = LENGTH_BYTES + int.from_bytes(messages[:LENGTH_BYTES], "big")
            requests.append(unpack(messages[LENGTH_BYTES:size]))
            messages = messages[size:]
        passed.append(requests)
        return b"".join(pack({"number": number}) for number, _ in enumerate(requests))

    async def scene(ask: Callable[..., Awaitable[Any]], standby: Standby) -> None:
        assert (await ask({"op": "module", "wasm": b"one"}))["staged"] == 1
        assert (await ask({"op": "module", "wasm": b"two"}))["staged"] == 2
        assert (await ask({"op": "send", "items": [1]}))["number"] == 0
        assert (await ask({"op": "apply", "document": b"d"}))["number"] == 2
        assert (await ask({"op": "apply"}))["number"] == 0
        assert (await ask({"op": "module", "wasm": b"one"}))["staged"] == 1

    played(scene, pass_on)

    assert [[request["op"] for request in requests] for requests in passed] == [
        ["send"], ["module", "module", "apply"], ["apply"],
    ]  # fmt: skip
    assert [request.get("wasm") for request in passed[1]] == [b"one", b"two", None]


@pytest.mark.parametrize("problem", [Unavailable("away"), Busy("later"), BadUsage("no")])
def test_an_error_of_the_way_to_the_owner_is_the_answer(problem: AosError) -> None:  # CL-115
    async def raising(_: bytes) -> bytes:
        raise problem

    async def answering(_: bytes) -> bytes:
        return pack(error_fields(problem))

    async def scene(ask: Callable[..., Awaitable[Any]], standby: Standby) -> None:
        with pytest.raises(type(problem), match=str(problem)):
            await ask({"op": "send", "items": []})

    for pass_on in (raising, answering):
        played(scene, pass_on)


def test_an_answer_that_is_cut_short_is_an_error() -> None:  # CL-115
    async def cut(_: bytes) -> bytes:
        return pack({})[:-1]

    async def scene(ask: Callable[..., Awaitable[Any]], standby: Standby) -> None:
        with pytest.raises(Unavailable, match="the answer of the owner cannot be read"):
            await ask({"op": "send", "items": []})

    played(scene, cut)
