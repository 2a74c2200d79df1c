"""The socket of a running world: what it answers, and that no client disturbs the world."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.journal.inputs import ControlInput
from aos.core.journal.records import Event, Manifest
from aos.errors import BadUsage
from aos.host.apply.commands import sign_control
from aos.host.door import protocol, server
from aos.host.door.listener import BACKLOG, CONNECTIONS_MAX, Handler, Listener
from aos.host.door.protocol import (
    LENGTH_BYTES,
    MESSAGE_BYTES_MAX,
    SEND_ITEMS_MAX,
    control_fields,
    length,
    pack,
    read_answer,
    read_control,
    read_events,
    unpack,
)
from aos.host.door.remote import ask_running
from aos.host.door.served_requests import Staging
from aos.host.door.writer import Item, open_writer
from aos.host.world.inbox import Bounds
from aos.store.errors import Deposed
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from tests.host.rig import ADD, COUNTER, MODULES, TIMEOUT_S, Rig, add, asking, eventually
from tests.host.served import Served, receive, served
from tests.host.world.test_engine import Turnstile
from tests.memory_world import OPERATOR, OPERATOR_KEY


def event(key: str = "a", **more: Any) -> Any:
    return {"schema": ADD, "value": encode({"key": key, "by": 1}), **more}


def is_well(world: Served) -> None:
    """The world takes an event over a new connection."""
    with world.connect() as connection:
        answer = world.ask(connection, op="send", items=[event()])
        assert isinstance(read_answer(answer["answers"][0]), Admitted)


def error(answer: dict[str, Any]) -> tuple[str, str]:
    return answer["error"]["kind"], answer["error"]["message"]


def test_a_batch_is_answered_item_by_item_in_order(tmp_path: Path) -> None:  # H-53
    with served(tmp_path / "w") as world, world.connect() as connection:
        items = [event(id="one"), {"schema": "t/None@1", "value": b"\xf6"}, event(id="one")]
        first = world.ask(connection, op="send", items=items)
        answers = [read_answer(each) for each in first["answers"]]
        assert [type(answer).__name__ for answer in answers] == ["Admitted", "Refusal", "Duplicate"]
        assert answers[2].seq == answers[0].seq  # type: ignore[union-attr]  # the types were just checked
        again = world.ask(connection, op="send", items=[])
        assert again["answers"] == []


def test_only_the_owner_may_connect_and_the_socket_goes_with_the_server(tmp_path: Path) -> None:
    """H-50"""
    with served(tmp_path / "w") as world:
        assert stat.S_IMODE((world.path / "aos.sock").stat().st_mode) == 0o600
        is_well(world)
    assert not (tmp_path / "w" / "aos.sock").exists()


def test_a_path_longer_than_a_socket_may_have_is_served_all_the_same(tmp_path: Path) -> None:
    """H-52"""
    path = tmp_path / ("x" * 120)
    with served(path) as world:
        is_well(world)


def test_events_spelt_for_another_manifest_are_not_taken(tmp_path: Path) -> None:  # H-56
    with served(tmp_path / "w") as world, world.connect() as connection:
        seq = world.rig.engine.stats().figures.seq
        answer = world.ask(connection, op="send", items=[event()], manifest=bytes(32))
        assert error(answer)[0] == "manifest_changed"
        assert world.rig.engine.stats().figures.seq == seq
        right = world.rig.loaded.effective.hash
        assert "answers" in world.ask(connection, op="send", items=[event()], manifest=right)


def test_the_status_tells_durable_facts(tmp_path: Path) -> None:  # H-21
    with served(tmp_path / "w") as world, world.connect() as connection:
        world.rig.ask(add("a"))
        world.rig.quiet()
        status = world.ask(connection, op="status")
        assert status["world"] == world.rig.world
        assert status["seq"] == world.rig.store.head().seq
        assert status["steps"] == status["events"] == 1
        assert status["serial"] == 1
        assert status["no_room"] is None


def test_a_client_may_ask_the_world_to_stop(tmp_path: Path) -> None:  # H-58
    with served(tmp_path / "w") as world, world.connect() as connection:
        assert world.ask(connection, op="stop")["stopping"] is True
        assert world.stops == ["asked"]


def test_a_busy_world_says_so_after_a_while(tmp_path: Path) -> None:  # H-57
    gate = Turnstile()
    rig = Rig(modules={**MODULES, COUNTER: gate}, bounds=Bounds(inputs=1))
    with served(tmp_path / "w", rig, busy_after_s=0.05) as world:
        rig.submit(add("a"))
        eventually(lambda: rig.engine.stats().queued == 0, "the core has it")
        rig.submit(add("a"))
        with world.connect() as connection:
            assert error(world.ask(connection, op="send", items=[event()]))[0] == "busy"
            gate.let.release(3)
            rig.quiet()
            is_well(world)


def test_a_request_waits_for_room_when_it_comes_soon(tmp_path: Path) -> None:  # H-57
    gate = Turnstile()
    rig = Rig(modules={**MODULES, COUNTER: gate}, bounds=Bounds(inputs=1))
    with (
        served(tmp_path / "w", rig, busy_after_s=TIMEOUT_S) as world,
        world.connect() as connection,
    ):
        rig.submit(add("a"))
        eventually(lambda: rig.engine.stats().queued == 0, "the core has it")
        rig.submit(add("a"))
        connection.sendall(pack({"op": "send", "items": [event()]}))
        gate.let.release(3)
        assert isinstance(read_answer(receive(connection)["answers"][0]), Admitted)


def test_requests_that_wait_for_room_get_it_in_the_order_in_which_they_came(
    tmp_path: Path,
) -> None:
    """H-57, N-52a: also those of a client that has ended."""
    gate = Turnstile()
    rig = Rig(modules={**MODULES, COUNTER: gate}, bounds=Bounds(inputs=1))
    with (
        served(tmp_path / "w", rig, busy_after_s=TIMEOUT_S) as world,
        contextlib.ExitStack() as stack,
    ):
        rig.submit(add("a"))
        eventually(lambda: rig.engine.stats().queued == 0, "the core has it")
        rig.submit(add("a"))
        clients = [stack.enter_context(world.connect()) for _ in range(12)]
        waiting = world.server._listener._busy
        for number, client in enumerate(clients):
            client.sendall(pack({"op": "send", "items": [event(id=f"order {number}")]}))
            eventually(lambda count=number + 1: len(waiting) == count, "it waits")  # type: ignore[misc]
            if number % 3 == 0:
                client.close()
        gate.let.release(2 + len(clients))
        eventually(lambda: not waiting, "all are answered")

        events = [record for record in rig.records() if isinstance(record, Event)]
        assert [record.submission_id for record in events if record.submission_id is not None] == [
            f"order {number}" for number in range(len(clients))
        ]


def test_a_request_that_waits_behind_another_is_busy_in_its_own_time(tmp_path: Path) -> None:
    """H-57: with the reason of the first one."""
    gate = Turnstile()
    rig = Rig(modules={**MODULES, COUNTER: gate}, bounds=Bounds(inputs=1))
    with served(tmp_path / "w", rig, busy_after_s=0.2) as world:
        rig.submit(add("a"))
        eventually(lambda: rig.engine.stats().queued == 0, "the core has it")
        rig.submit(add("a"))
        with world.connect() as first, world.connect() as second:
            for client in (first, second):
                client.sendall(pack({"op": "send", "items": [event()]}))
            problems = [error(receive(client)) for client in (first, second)]
        gate.let.release(2)

    assert problems[0] == problems[1]
    assert problems[0][0] == "busy"
    assert "1 inputs of" in problems[0][1]


def test_answers_under_way_are_given_before_the_connection_ends(tmp_path: Path) -> None:  # H-59
    with served(tmp_path / "w") as world:
        world.rig.quiet()
        world.rig.store.gate.clear()
        world.rig.store.entered.clear()
        connection, idle = world.connect(), world.connect()
        connection.sendall(pack({"op": "send", "items": [event()]}))
        assert world.rig.store.entered.wait(60)
        # The server is told to end while the answer waits for its commit.
        threading.Timer(0.1, world.rig.store.gate.set).start()
    with connection, idle:
        assert isinstance(read_answer(receive(connection)["answers"][0]), Admitted)
        assert connection.recv(1) == b""
        assert idle.recv(1) == b""


def test_a_command_is_given_over_the_socket(tmp_path: Path) -> None:  # H-53, H-59a
    with served(tmp_path / "w") as world, world.connect() as connection:
        world.rig.ask(asking("a"))
        [intent] = world.rig.opened(1)
        given = sign_control(
            "cancel", intent=intent.intent, world=world.rig.world, serial=0, operators=(OPERATOR,),
            key=OPERATOR_KEY,
        )  # fmt: skip
        fields: dict[str, Any] = control_fields(given)
        before = world.ask(connection, op="manifest")["controls"]
        answer = read_answer(world.ask(connection, op="control", **fields)["answer"])
        again = read_answer(world.ask(connection, op="control", **fields)["answer"])
        world.rig.quiet()
        assert isinstance(answer, Admitted)
        assert isinstance(again, Refusal)
        # CL-127: its record is found by its signature.
        found = world.ask(connection, op="find", signature=given.signature)["answer"]
        assert read_answer(found) == Admitted(seq=answer.seq)
        assert world.ask(connection, op="find", signature=bytes(64))["answer"] is None
        assert world.ask(connection, op="find", signature=b"")["error"]["kind"] == "usage"
        assert again.rule is Rule.CONTROL_SERIAL_IS_WRONG
        assert (before, world.ask(connection, op="status")["controls"]) == (0, 1)
        assert world.ask(connection, op="manifest")["controls"] == 1
    assert world.rig.kinds()[answer.seq - 1 : answer.seq + 1] == ["control", "kernel_receipt"]


def test_a_value_is_given_by_its_hash(tmp_path: Path) -> None:  # H-53, CL-185
    with served(tmp_path / "w") as world, world.connect() as connection:
        document = world.ask(connection, op="manifest")["document"]
        answer = world.ask(connection, op="blob", hash=content_hash(document))
        assert answer["blob"] == document
        assert world.ask(connection, op="blob", hash=bytes(32))["blob"] is None
        for other in (b"", bytes(33), "text", None):
            assert error(world.ask(connection, op="blob", hash=other))[0] == "usage"
        assert error(world.ask(connection, op="blob"))[0] == "usage"
        is_well(world)


def test_the_last_record_is_given_once_the_log_was_read(tmp_path: Path) -> None:
    """H-53, CL-129: a process that was deposed does not answer as the owner."""
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 2:
            raise Deposed("another process owns the world now")

    with (
        served(tmp_path / "w", check_owns=look) as world,
        world.connect() as connection,
    ):
        world.ask(connection, op="send", items=[event()])
        answer = world.ask(connection, op="head")
        assert (answer["head"], len(looks)) == (world.ask(connection, op="status")["seq"], 1)
        assert error(world.ask(connection, op="head"))[0] == "unavailable"


def test_an_embedded_world_gives_its_last_record_at_once(tmp_path: Path) -> None:  # H-53
    with served(tmp_path / "w") as world, world.connect() as connection:
        seq = world.ask(connection, op="status")["seq"]
        assert world.ask(connection, op="head")["head"] == seq


def test_a_value_that_is_too_large_for_a_message_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # CL-185
    monkeypatch.setattr(server, "BLOB_BYTES_MAX", 10)
    with served(tmp_path / "w") as world, world.connect() as connection:
        document = world.ask(connection, op="manifest")["document"]
        kind, message = error(world.ask(connection, op="blob", hash=content_hash(document)))
        assert kind == "refused"
        assert "at most 10 bytes" in message
        is_well(world)


def test_the_record_of_a_command_is_found_by_its_signature(tmp_path: Path) -> None:
    """CL-127: of an applied manifest, and of the end of an instance with its counts."""
    with served(tmp_path / "w") as world, world.connect() as connection:
        world.rig.ask(asking("a"))
        [intent] = world.rig.opened(1)
        given = sign_control(
            "end", cell=intent.cell, status="failed", world=world.rig.world, serial=0,
            operators=(OPERATOR,), key=OPERATOR_KEY,
        )  # fmt: skip
        fields: dict[str, Any] = control_fields(given)
        answer = read_answer(world.ask(connection, op="control", **fields)["answer"])
        world.rig.quiet()
        assert isinstance(answer, Admitted)
        found = world.ask(connection, op="find", signature=given.signature)["answer"]
        assert read_answer(found) == answer
        assert answer.abandoned == 1
        [manifest] = (record for record in world.rig.records() if isinstance(record, Manifest))
        found = world.ask(connection, op="find", signature=manifest.signature)["answer"]
        assert read_answer(found) == Admitted(seq=manifest.seq)


def test_an_unsigned_command_changes_nothing(tmp_path: Path) -> None:  # H-59a
    with served(tmp_path / "w") as world, world.connect() as connection:
        seq = world.rig.engine.stats().figures.seq
        rules = [
            world.ask(connection, op="control", **{**COMMAND, **more})["answer"]["rule"]
            for more in (
                {},
                {"principal": "nobody"},
                {"serial": 7},
                {"serial": -(2**63)},
                {"cell": ["t/counter@1", b"x" * 2000]},
                {"value": bytes(32)},
                {"action": "dance"},
            )
        ]
        assert rules == [
            "control_signature_is_wrong", "control_principal_is_unknown",
            "control_serial_is_wrong", "control_serial_is_wrong", "control_signature_is_wrong",
            "value_is_unknown", "control_signature_is_wrong",
        ]  # fmt: skip
        assert world.rig.engine.stats().figures.seq == seq
        is_well(world)


# Misuse


COMMAND: dict[str, Any] = {
    "action": "retry", "principal": "operator", "serial": 0, "signature": bytes(64),
}  # fmt: skip


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"op": 5},
        {"op": "unknown"},
        {"op": "send"},
        {"op": "send", "items": {}},
        {"op": "send", "items": [1]},
        {"op": "send", "items": [{"schema": ADD}]},
        {"op": "send", "items": [{"schema": ADD, "value": "text"}]},
        {"op": "send", "items": [{"schema": ADD, "value": b"", "id": 1}]},
        {"op": "send", "items": [{"schema": ADD, "value": b"", "more": 1}]},
        {"op": "send", "items": [event()] * (SEND_ITEMS_MAX + 1)},
        {"op": "module"},
        {"op": "module", "wasm": "text"},
        {"op": "apply", "document": b""},
        {"op": "apply", "document": b"", "principal": "x", "serial": "0", "signature": b""},
        {"op": "control"},
        {"op": "control", **COMMAND, "action": 1},
        {"op": "control", **COMMAND, "serial": b""},
        {"op": "control", **COMMAND, "cell": "t/counter@1"},
        {"op": "control", **COMMAND, "cell": ["t/counter@1"]},
        {"op": "control", **COMMAND, "cell": ["t/counter@1", "a"]},
        {"op": "control", **COMMAND, "intent": None},
        {"op": "control", **COMMAND, "intent": b""},
        {"op": "control", **COMMAND, "value": bytes(600)},
        {"op": "control", **COMMAND, "value": "blake3:"},
    ],
)
def test_a_request_that_makes_no_sense_is_answered_and_nothing_changes(
    tmp_path: Path, request_: dict[str, Any]
) -> None:
    """H-51"""
    with served(tmp_path / "w") as world, world.connect() as connection:
        seq = world.rig.engine.stats().figures.seq
        kind, message = error(world.ask(connection, **request_))
        assert kind == "usage"
        assert message
        assert world.rig.engine.stats().figures.seq == seq
        assert "answers" in world.ask(connection, op="send", items=[event()])


def test_an_unsigned_manifest_is_refused_without_a_look_at_its_modules(tmp_path: Path) -> None:
    """H-73"""
    with served(tmp_path / "w") as world, world.connect() as connection:
        assert world.ask(connection, op="module", wasm=b"no module")["staged"] == 1
        answer = world.ask(
            connection, op="apply", document=b"x", principal="operator", serial=1, signature=b""
        )
        assert answer["answer"]["rule"] == "manifest_signature_is_wrong"


def test_staged_modules_are_bounded(tmp_path: Path) -> None:  # H-51
    staging = Staging(modules_max=2, bytes_max=10)
    with served(tmp_path / "w", staging=staging) as world, world.connect() as connection:
        assert world.ask(connection, op="module", wasm=b"a")["staged"] == 1
        assert world.ask(connection, op="module", wasm=b"b")["staged"] == 2
        assert error(world.ask(connection, op="module", wasm=b"c"))[0] == "refused"
        with world.connect() as another:
            assert error(world.ask(another, op="module", wasm=bytes(11))) == (
                "refused",
                (
                    "a manifest may bring at most 2 modules of together 10 bytes, and this module "
                    "would be number 1 of together 11 bytes (use fewer or smaller modules)"
                ),
            )


def test_bytes_staged_by_all_connections_are_bounded_together(tmp_path: Path) -> None:  # H-51a
    staging = Staging(together_max=10)
    with served(tmp_path / "w", staging=staging) as world:
        one, two, three = (world.connect() for _ in range(3))
        with one, two, three:
            assert world.ask(one, op="module", wasm=bytes(4))["staged"] == 1
            assert world.ask(two, op="module", wasm=bytes(4))["staged"] == 1
            assert error(world.ask(three, op="module", wasm=bytes(4))) == (
                "busy",
                (
                    "a module of 4 bytes cannot be staged: all clients together may stage 10 "
                    "bytes, and 8 are staged (wait until another client has applied its manifest "
                    "or disconnected, and try again)"
                ),
            )
            assert world.ask(two, op="module", wasm=bytes(2))["staged"] == 2, "it kept its place"
            refused = world.ask(
                two, op="apply", document=b"x", principal="operator", serial=1, signature=b""
            )
            assert refused["answer"]["rule"] == "manifest_signature_is_wrong"
            assert world.ask(three, op="module", wasm=bytes(6))["staged"] == 1
            one.close()
            eventually(lambda: staging.bytes == 6, "the modules of one are released")
        eventually(lambda: staging.bytes == 0, "all are released")


def test_modules_that_are_staged_and_left_make_room_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-51a"""
    monkeypatch.setattr("aos.host.door.server.HOLDING_S", 0.05)
    staging = Staging(together_max=10)
    with served(tmp_path / "w", staging=staging) as world:
        with world.connect() as idle, world.connect() as left:
            assert "pid" in world.ask(idle, op="status")
            assert world.ask(left, op="module", wasm=bytes(10))["staged"] == 1
            assert left.recv(1) == b""
            assert "pid" in world.ask(idle, op="status")
        eventually(lambda: staging.bytes == 0, "its modules are released")


def test_large_messages_take_turns_and_all_of_them_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-51a"""
    monkeypatch.setattr("aos.host.door.listener.LARGE_BYTES", 100)
    monkeypatch.setattr("aos.host.door.listener.LARGE_MAX", 1)
    large = pack({"op": "module", "wasm": bytes(1000)})
    with served(tmp_path / "w") as world, world.connect() as half, world.connect() as whole:
        half.sendall(large[:-1])
        is_well(world)  # so the server is reading it
        whole.sendall(large)
        is_well(world)
        whole.setblocking(False)
        with pytest.raises(BlockingIOError):
            whole.recv(1)
        whole.settimeout(TIMEOUT_S)
        half.sendall(large[-1:])
        assert receive(half)["staged"] == 1
        assert receive(whole)["staged"] == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\0",
        b"\0\0\0",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\5" + b"\xff" * 5,
        b"\0\0\0\1\xf6",
        (MESSAGE_BYTES_MAX + 1).to_bytes(4, "big"),
        b"\xff\xff\xff\xff" + b"x" * 1000,
        b"\0\0\x10\0" + b"half of it",
    ],
)
def test_garbage_harms_only_its_own_connection(tmp_path: Path, sent: bytes) -> None:  # H-51
    with served(tmp_path / "w") as world:
        with world.connect() as bad, world.connect() as good:
            bad.sendall(sent)
            assert "answers" in world.ask(good, op="send", items=[event()])
            bad.shutdown(1)  # no more from here: the server must not wait for the other half
            with contextlib.suppress(ConnectionResetError):  # the server did not read all of it
                while bad.recv(4096):
                    pass
        is_well(world)
        assert not world.reports


def test_a_client_that_stops_in_the_middle_is_given_up(tmp_path: Path) -> None:  # H-51
    with served(tmp_path / "w", message_s=0.1) as world, world.connect() as slow:
        began = time.monotonic()
        slow.sendall(b"\0\0\0\x10half")
        assert slow.recv(1) == b""
        assert time.monotonic() - began > 0.05
        is_well(world)


def test_a_client_that_does_not_read_its_answers_is_given_up(tmp_path: Path) -> None:  # H-51
    with served(tmp_path / "w", message_s=0.2) as world, world.connect() as deaf:
        many = pack({"op": "send", "items": [{"schema": "x" * 2000, "value": b""}] * 1000})
        deaf.settimeout(TIMEOUT_S)
        with pytest.raises(ConnectionError):  # reset or broken, as it comes
            deaf.sendall(many * 20)
        is_well(world)


BROKEN_OFF: Final = {
    "at once": b"",
    "in the length": b"\0\0",
    "in the body": (1000).to_bytes(4, "big") + b"x" * 10,
    "before the answer": pack({"op": "status"}),
    "before the answer to an event": pack({"op": "send", "items": [event()]}),
    "with a module staged": pack({"op": "module", "wasm": bytes(1000)}),
}


@pytest.mark.parametrize("sent", BROKEN_OFF.values(), ids=BROKEN_OFF)
def test_after_many_connections_that_break_off_the_next_request_succeeds(
    tmp_path: Path, sent: bytes
) -> None:
    """H-51"""
    with served(tmp_path / "w") as world:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(CONNECTIONS_MAX + 4 * BACKLOG):
            with world.connect() as connection:
                connection.sendall(sent)

        assert ask_running(world.path, "status")["world"] == world.rig.world
        with open_writer(world.path) as writer:
            [answer] = writer.send([Item(schema=ADD, value={"key": "a", "by": 1})])
        assert isinstance(answer, Admitted)
        eventually(
            lambda: len(list(Path("/proc/self/fd").iterdir())) <= before, "no descriptor is left"
        )
        assert not world.reports


def test_the_connection_that_is_idle_longest_makes_room(tmp_path: Path) -> None:  # H-51b
    with served(tmp_path / "w") as world, contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(world.connect()) for _ in range(CONNECTIONS_MAX)]
        for each in (*crowd, crowd[0]):
            assert "pid" in world.ask(each, op="status")

        is_well(world)

        assert crowd[1].recv(1) == b"", "it has been idle longest"
        for each in (crowd[0], *crowd[2:]):
            assert "pid" in world.ask(each, op="status")


def test_a_client_whose_idle_connection_made_room_connects_again(tmp_path: Path) -> None:
    """H-51b, H-54"""
    with served(tmp_path / "w", connections_max=1) as world:
        with open_writer(world.path) as one, open_writer(world.path) as two:
            for number in range(1, 4):
                for writer in (one, two):
                    item = Item(schema=ADD, value={"key": "a", "by": number})
                    [answer] = writer.send([item])
                    assert isinstance(answer, Admitted)
        assert world.rig.engine.stats().figures.events == 6, "none was taken twice"


def test_a_connection_in_the_middle_of_a_request_keeps_its_place(tmp_path: Path) -> None:  # H-51b
    with served(tmp_path / "w", connections_max=2) as world:
        world.rig.quiet()
        world.rig.store.gate.clear()
        status = pack({"op": "status"})
        with world.connect() as answered, world.connect() as sending:
            sending.sendall(status[:-1])
            assert "pid" in world.ask(answered, op="status")  # so the server is reading the other
            answered.sendall(pack({"op": "send", "items": [event()]}))
            assert world.rig.store.entered.wait(TIMEOUT_S)
            with world.connect() as late:
                late.sendall(status)
                late.setblocking(False)
                with pytest.raises(BlockingIOError):
                    late.recv(1)
                late.settimeout(TIMEOUT_S)
                sending.sendall(status[-1:])
                assert "pid" in receive(sending)
                assert "pid" in receive(late), "the second has become idle and made room"
                world.rig.store.gate.set()
                assert isinstance(read_answer(receive(answered)["answers"][0]), Admitted)


def test_a_request_that_comes_while_its_connection_makes_room_is_answered(tmp_path: Path) -> None:
    """H-51b: the sender either gets an answer or knows that the request was not seen."""

    async def ping(body: bytes) -> bytes:
        return pack({"size": len(body)})

    async def talk() -> bytes:
        listener = Listener(lambda: nullcontext(Handler(ping)), report=print)
        listener.start(tmp_path / "s")
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        writer.write(pack({}))
        await reader.readexactly(length(await reader.readexactly(LENGTH_BYTES)))
        client: socket.socket = writer.get_extra_info("socket")
        # Both before the server's loop has its next turn.
        os.write(client.fileno(), pack({}))
        listener._make_room()
        with pytest.raises(BrokenPipeError):
            os.write(client.fileno(), pack({}))
        found = await asyncio.wait_for(reader.read(), TIMEOUT_S)
        writer.close()
        listener.close()
        await listener.finish()
        return found

    assert "size" in unpack(asyncio.run(talk())[LENGTH_BYTES:])


@pytest.mark.parametrize("is_accepted", [True, False])
def test_requests_of_a_client_that_has_ended_come_before_those_of_the_next_one(
    tmp_path: Path, is_accepted: bool
) -> None:
    """N-52a: also if the loop of the server was blocked from the first to the last of them."""
    order: list[object] = []

    async def note(body: bytes) -> bytes:
        order.append(unpack(body)["client"])
        return pack({})

    async def listen() -> None:
        listener = Listener(lambda: nullcontext(Handler(note)), report=print)
        listener.start(tmp_path / "s")
        clients = [socket.socket(socket.AF_UNIX) for _ in range(5)]
        *earlier, later = clients
        for client in earlier:
            client.connect(str(tmp_path / "s"))
        while is_accepted and len(listener._talks) < len(earlier):  # noqa: ASYNC110
            await asyncio.sleep(0)
        for client in earlier:
            client.sendall(pack({"client": "earlier", "bytes": bytes(100_000)}))
            client.close()
        later.connect(str(tmp_path / "s"))
        later.sendall(pack({"client": "later"}))
        async with asyncio.timeout(60):
            while len(order) < len(clients):  # noqa: ASYNC110  # the server answers meanwhile
                await asyncio.sleep(0.001)
        later.close()
        listener.close()
        await listener.finish()

    asyncio.run(listen())
    assert order == ["earlier"] * 4 + ["later"]


def test_a_process_without_descriptors_takes_clients_again_when_it_has_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-51"""
    lines: list[str] = []

    class Exhausted:
        """A listening socket whose first accept finds no descriptor."""

        def __init__(self, inner: socket.socket) -> None:
            self.inner = inner
            self.left = 1

        def accept(self) -> Any:
            if self.left:
                self.left -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return self.inner.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    async def ping(body: bytes) -> bytes:
        return pack({"size": len(body)})

    async def listen() -> Any:
        listener = Listener(lambda: nullcontext(Handler(ping)), report=lines.append)
        listener.start(tmp_path / "s")
        inner: Any = listener._socket
        asyncio.get_running_loop().remove_reader(inner)
        exhausted: Any = Exhausted(inner)
        listener._socket = exhausted
        asyncio.get_running_loop().add_reader(exhausted, listener._accept)
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        writer.write(pack({}))
        header = await asyncio.wait_for(reader.readexactly(4), TIMEOUT_S)
        answer = unpack(await reader.readexactly(length(header)))
        listener.close()
        await listener.finish()
        writer.close()
        return answer

    monkeypatch.setattr("aos.host.door.listener._PAUSE_S", 0.05)
    assert asyncio.run(listen())["size"] > 0
    assert lines == ["no more clients can connect for now: Too many open files"]


def test_a_bug_in_an_answer_ends_its_connection_and_is_reported(tmp_path: Path) -> None:  # H-51
    lines: list[str] = []

    async def broken(_: bytes) -> bytes:
        raise ZeroDivisionError("here")

    async def talk() -> bytes:
        listener = Listener(lambda: nullcontext(Handler(broken)), report=lines.append)
        listener.start(tmp_path / "s")
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        writer.write(pack({}))
        found = await asyncio.wait_for(reader.read(), TIMEOUT_S)
        writer.close()
        listener.close()
        await listener.finish()
        return found

    assert asyncio.run(talk()) == b""
    assert lines == ["a client's request met a bug: ZeroDivisionError('here')"]


# The words themselves


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_bad_usage(data: bytes) -> None:  # H-51
    with contextlib.suppress(BadUsage):
        assert isinstance(unpack(data), dict)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.binary(max_size=5)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(
    st.lists(
        VALUES | st.fixed_dictionaries({"schema": VALUES, "value": VALUES, "id": VALUES}),
        max_size=3,
    )
)
def test_any_items_are_events_or_bad_usage(items: list[Any]) -> None:  # H-51
    try:
        events = read_events(items)
    except BadUsage:
        return
    assert len(events) == len(items)


def test_a_message_has_a_version_and_a_bounded_length() -> None:  # H-51
    assert unpack(pack({"op": "x"})[4:]) == {"v": 1, "op": "x"}
    with pytest.raises(BadUsage, match="a map with v = 1"):
        unpack(encode({"v": 2}))
    with pytest.raises(BadUsage, match="not canonical CBOR"):
        unpack(b"\xbf\xff")
    assert length(MESSAGE_BYTES_MAX.to_bytes(4, "big")) == MESSAGE_BYTES_MAX
    with pytest.raises(BadUsage):
        length((MESSAGE_BYTES_MAX + 1).to_bytes(4, "big"))
    with pytest.raises(OverflowError):
        pack({"x": bytes(MESSAGE_BYTES_MAX)})


@pytest.mark.parametrize(
    "about",
    [
        {"action": "retry", "cell": ("t/counter@1", b"\x61a")},
        {"action": "skip", "cell": ("t/counter@1", b"")},
        {"action": "cancel", "intent": Hash(bytes(32))},
        {"action": "erase", "value": Hash(b"\x01" * 32)},
        {"action": "settle", "intent": Hash(bytes(32)), "status": "ok", "payload": b"\xa0"},
        {"action": "end", "cell": ("t/counter@1", b""), "status": "failed", "why": "a ghost"},
    ],
)
def test_a_command_survives_the_way_over_the_wire(about: dict[str, Any]) -> None:  # H-53
    given = ControlInput(principal="operator", serial=3, signature=bytes(64), **about)
    assert read_control(unpack(pack(control_fields(given))[4:])) == given


def test_an_answer_says_what_became_of_a_receipt() -> None:  # H-53
    for answer in (
        Admitted(seq=5, outcome="abandoned"),
        Admitted(seq=5, to=(("w", b""),)),
        Admitted(seq=5),
        Admitted(seq=5, dropped=3, abandoned=1),
    ):
        fields: Any = protocol.answer_fields(answer)
        assert read_answer(fields) == answer
        assert ("outcome" in fields) == (answer.outcome is not None)
        assert {"dropped", "abandoned"} & set(fields) == (
            {"dropped", "abandoned"} if answer.dropped else set()
        )


@pytest.mark.parametrize("wrong", [{"dropped": "3"}, {"abandoned": None}, {"outcome": "lost"}])
def test_an_answer_with_an_unknown_word_or_another_type_is_no_answer(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadUsage):
        read_answer({"seq": 5, "to": [], **wrong})


def test_cells_are_left_out_of_answers_that_would_be_too_long() -> None:  # H-53
    long = Admitted(seq=1, to=(("w", b"x" * (protocol.ANSWER_BYTES_MAX // 3)),))
    fields = protocol.answers_fields([long] * 5)
    found = [read_answer(each) for each in fields]
    assert [len(each.to) for each in found if isinstance(each, Admitted)] == [1, 1, 0, 0, 0]


def test_flows_that_have_ended_count_among_the_cells_of_an_answer() -> None:
    """H-53: by bytes and by number."""
    long = ("w", b"x" * (protocol.ANSWER_BYTES_MAX // 3))
    by_bytes = protocol.answers_fields([Admitted(seq=1, to=(long,), ended=(long,))] * 3)
    ended = tuple(("w", number.to_bytes(4, "big")) for number in range(500))
    many = [Admitted(seq=seq, to=(*ended, ("o", b"k")), ended=ended) for seq in range(1, 1025)]
    by_number: Any = protocol.answers_fields(many)

    kept = [read_answer(each) for each in by_bytes]
    assert [len(each.ended) for each in kept if isinstance(each, Admitted)] == [1, 0, 0]
    message = protocol.unpack(protocol.pack({"v": 1, "answers": by_number})[4:])
    assert message["answers"] == by_number
