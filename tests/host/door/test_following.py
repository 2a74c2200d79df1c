"""Followers of a running world: they get the durable head, and can harm nothing (H-53a)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from aos.host.door.following import FOLLOWERS_MAX, Followers, LiveFigures
from aos.host.door.listener import CONNECTIONS_MAX
from aos.host.door.protocol import LENGTH_BYTES, pack, unpack
from aos.message_fields import Message
from tests.host.door.test_server import error, is_well
from tests.host.rig import TIMEOUT_S, Rig, add, eventually, running
from tests.host.served import Served, receive, served


def follow(world: Served, connection: socket.socket) -> Message:
    return world.ask(connection, op="follow")


def until(connection: socket.socket, **wanted: Any) -> Message:
    """The first message with these fields."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        message = receive(connection)
        if all(message.get(name) == value for name, value in wanted.items()):
            return message
        assert time.monotonic() < deadline, f"never {wanted}, at last {message}"


def test_a_follower_gets_the_head_and_figures_and_then_each_newer_head(tmp_path: Path) -> None:
    with served(tmp_path / "w") as world, world.connect() as connection:
        first = follow(world, connection)
        assert first["world"] == world.rig.world
        assert first["head"] == world.rig.store.head().seq
        assert LiveFigures.from_message(first["figures"]).seq == first["head"]

        world.rig.ask(add("a"))
        world.rig.quiet()

        head = world.rig.store.head().seq
        assert until(connection, head=head)["head"] == head
        while "figures" not in (last := receive(connection)):
            pass
        figures = LiveFigures.from_message(last["figures"])
        assert (figures.seq, figures.events, figures.steps, figures.cells) == (head, 1, 1, 1)


def test_no_head_is_announced_before_it_is_durable(tmp_path: Path) -> None:  # H-21
    with served(tmp_path / "w") as world, world.connect() as connection:
        world.rig.quiet()
        before = world.rig.store.head().seq
        world.rig.store.gate.clear()
        world.rig.store.entered.clear()
        answer = world.rig.submit(add("a"))
        assert world.rig.store.entered.wait(TIMEOUT_S)
        assert follow(world, connection)["head"] == before
        assert receive(connection)["head"] == before, "the beat of a second later"
        world.rig.store.gate.set()
        answer.result(TIMEOUT_S)
        world.rig.quiet()
        assert until(connection, head=world.rig.store.head().seq)


def test_a_follower_that_does_not_read_gets_few_messages_and_the_newest_head(
    tmp_path: Path,
) -> None:
    """The messages of the meantime are neither kept nor sent: only the socket's buffer is full."""
    with served(tmp_path / "w") as world, world.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        follow(world, connection)
        for _ in range(2000):
            world.server.followers.notify()
        world.rig.ask(*(add(str(number)) for number in range(300)))
        world.rig.quiet()
        head = world.rig.store.head().seq
        seen = 1
        while receive(connection)["head"] < head:
            seen += 1
        assert seen < 1000


def test_followers_are_told_that_the_world_stops_and_then_get_the_end(tmp_path: Path) -> None:
    with served(tmp_path / "w") as world:
        connection = world.connect()
        follow(world, connection)
    with connection:
        last = until(connection, stopping=True)
        assert last["head"] == world.rig.store.head().seq
        assert connection.recv(1) == b""


@pytest.mark.parametrize("sent", [b"", b"\0", pack({"op": "status"}), b"\xff" * 100_000])
def test_a_follower_that_says_more_or_goes_away_harms_only_itself(
    tmp_path: Path, sent: bytes
) -> None:
    with served(tmp_path / "w") as world, world.connect() as good:
        follow(world, good)
        for _ in range(2 * FOLLOWERS_MAX):
            with world.connect() as bad:
                assert "head" in follow(world, bad)
                with contextlib.suppress(OSError):
                    bad.sendall(sent)
                bad.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):
                    while bad.recv(4096):
                        pass
        is_well(world)
        world.rig.quiet()
        assert until(good, head=world.rig.store.head().seq)
        assert not world.reports


def test_followers_are_bounded_and_one_that_ends_makes_room(tmp_path: Path) -> None:
    with served(tmp_path / "w") as world, contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(world.connect()) for _ in range(FOLLOWERS_MAX)]
        for each in crowd:
            assert "head" in follow(world, each)
        with world.connect() as more:
            assert error(follow(world, more)) == (
                "busy",
                "4 clients follow this world (end one of them, and try again)",
            )
            assert more.recv(1) == b""
        is_well(world)
        crowd[0].close()

        def has_room() -> bool:
            with world.connect() as another:
                return "head" in follow(world, another)

        eventually(has_room, "room for another")


def test_a_follower_keeps_its_place_while_clients_come_and_go(tmp_path: Path) -> None:  # H-51b
    with served(tmp_path / "w") as world, world.connect() as connection:
        follow(world, connection)
        for _ in range(2 * CONNECTIONS_MAX):
            is_well(world)
        world.rig.quiet()
        assert until(connection, head=world.rig.store.head().seq)


def test_without_followers_nothing_is_done_for_them(tmp_path: Path) -> None:
    with served(tmp_path / "w", Rig()) as world:
        followers = world.server.followers
        with world.connect() as connection:
            follow(world, connection)
            eventually(lambda: bool(followers._news), "it follows")
        eventually(lambda: not followers._news, "it is forgotten")
        followers.notify()
        is_well(world)


def test_a_follower_of_a_replicated_world_hears_how_long_tasks_may_be_handed_out(
    tmp_path: Path,
) -> None:
    """CL-89."""
    with served(tmp_path / "w") as world, world.connect() as connection:
        assert "lease_end_ns" not in follow(world, connection)

    async def scene() -> None:
        ends = iter([5, 7])
        with running() as rig:
            followers = Followers(rig.engine, rig.world, lease_end_ns=lambda: next(ends), beat_s=0)
            stream = followers.stream()
            heard = [unpack((await anext(stream))[LENGTH_BYTES:]) for _ in range(2)]
            await stream.aclose()
        assert [message["lease_end_ns"] for message in heard] == [5, 7]

    asyncio.run(scene())
