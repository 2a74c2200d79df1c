"""Events to a world that another thread serves on a real socket."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from aos.core.journal.records import Event, slot_bytes
from aos.effects.portal import VARIABLE, open_destinations, portal, read_worlds, send
from aos.errors import BadUsage
from aos.host.door.protocol import error_fields, pack
from aos.host.errors import Busy, Stopping
from aos.values.cbor import decode_record, encode
from aos.values.sha256 import parse_sha256
from aos.worker import EffectFailed, NotConfigured
from aos.worker.load_executors import load
from tests.effects.builtin_effects import INTENT, WORLD, context, params_of, receipt_of
from tests.host.rig import ADD, Rig
from tests.host.served import Served, exactly, make_folder, served
from tests.memory_world import air, route, schema, workflow

HERE: Final = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
OTHER: Final = "6fa459ea-ee8a-3ca4-894e-db77e160355e"
BOX: Final = "t/Box@1"


def given(**changes: Any) -> dict[str, Any]:
    """Params that add 2 to the counter ``a``."""
    return {
        "dest_universe": None,
        "dest_world": HERE,
        "mode": "typed",
        "schema": ADD,
        "value_cbor": encode({"key": "a", "by": 2}),
        "inbox": None,
        "payload_cbor": None,
        "headers": None,
        "correlation_id": None,
        **changes,
    }


def in_box(**changes: Any) -> dict[str, Any]:
    return given(
        mode="inbox", schema=None, value_cbor=None, inbox=BOX, payload_cbor=b"\x01", **changes
    )


def sending(
    worlds: str, *params: dict[str, Any], intents: tuple[str, ...] = (INTENT,)
) -> list[Any]:
    """The receipts of some sends of one process, one after the other."""

    async def body() -> list[Any]:
        async with open_destinations() as destinations:
            return [
                await send(
                    params_of("sys/portal.send@1", each),
                    context("sys/portal.send@1", resource=destinations, intent=intent),
                )
                for each in params
                for intent in intents
            ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, worlds)
        results = asyncio.run(body())
    return [receipt_of("sys/portal.send@1", each) for each in results]


def failing(worlds: str, params: dict[str, Any]) -> EffectFailed:
    with pytest.raises(EffectFailed) as failed:
        sending(worlds, params)
    return failed.value


def events(world: Served) -> list[Event]:
    return [each for each in world.rig.records() if isinstance(each, Event)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "w") as found:
        yield found


def test_an_event_is_durable_in_the_other_world(world: Served) -> None:
    """AG-85, AG-87."""
    [receipt] = sending(f"{HERE}={world.path}", given())

    [event] = events(world)
    assert event.schema == ADD
    assert receipt["status"] == "ok"
    assert receipt["dest_world"] == HERE
    assert decode_record(receipt["enqueued_seq"]) == event.seq
    assert parse_sha256(receipt["message_id"]) is not None
    assert event.submission_id == f"portal:{receipt['message_id']}"


def test_a_second_attempt_is_the_same_event_and_another_intent_is_another(world: Served) -> None:
    """AG-85: the id of a message is that of its intent, in its world."""
    first, again, other = sending(
        f"{HERE}={world.path}", given(), intents=(INTENT, INTENT, "blake3:" + 64 * "2")
    )

    assert first == again
    assert other["message_id"] != first["message_id"]
    assert len(events(world)) == 2


def test_an_inbox_gets_the_message_with_its_origin(tmp_path: Path) -> None:
    """AG-88."""
    text: dict[str, object] = {"text": {}}
    box = {
        "message_id": text,
        "from_world": text,
        "payload": {"bytes": {}},
        "headers": {"map": {"key": text, "value": text}},
        "correlation_id": {"option": text},
    }
    nodes = [schema(BOX, {"record": box}), workflow("t/box@1", state=BOX, event=BOX)]
    rig = Rig(loaded=air(nodes, [route(BOX, "t/box@1")]), modules={"t/box@1": lambda _: {}})
    with served(tmp_path / "w", rig) as world:
        worlds = f"{HERE}={world.path}"
        [receipt] = sending(worlds, in_box(headers={"kind": "bill"}, correlation_id="c-1"))
        sending(worlds, in_box(), intents=("blake3:" + 64 * "2",))
        first, second = (
            decode_record(slot_bytes(each.value, rig.store.blob)) for each in events(world)
        )

    assert first == {
        "message_id": receipt["message_id"],
        "from_world": WORLD,
        "payload": b"\x01",
        "headers": {"kind": "bill"},
        "correlation_id": "c-1",
    }
    assert isinstance(second, dict)
    assert (second["headers"], second["correlation_id"]) == ({}, None)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"mode": "mail"}, "mode"),
        ({"schema": None}, "schema"),
        ({"value_cbor": None}, "value_cbor"),
        ({"inbox": "t/Box@1"}, "inbox"),
        ({"payload_cbor": b"\x01"}, "payload_cbor"),
        ({"headers": {}}, "headers"),
        ({"mode": "inbox"}, "schema"),
    ],
)
def test_params_have_the_fields_of_their_mode(
    world: Served, changes: dict[str, Any], field: str
) -> None:
    """AG-87, AG-88: nothing is sent."""
    failure = failing(f"{HERE}={world.path}", given(**changes))

    assert (failure.code, failure.retryable) == ("portal_bad_request", False)
    assert failure.message.startswith(f"{field}: ")
    assert events(world) == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"schema": "t/Unknown@1"}, "event_schema_is_unknown"),
        ({"schema": "sys/TimerFired@1"}, "event_schema_is_unknown"),
        ({"value_cbor": encode({"key": "a"})}, "event_is_invalid"),
        ({"value_cbor": b"\xff"}, "event_is_invalid"),
        ({"value_cbor": b""}, "event_is_invalid"),
    ],
)
def test_a_refusal_of_the_other_world_is_an_error_with_its_rule(
    world: Served, changes: dict[str, Any], rule: str
) -> None:
    """AG-89."""
    failure = failing(f"{HERE}={world.path}", given(**changes))

    assert (failure.code, failure.retryable) == ("portal_rejected", False)
    assert rule in failure.message
    assert events(world) == []


def test_an_id_that_another_event_has_is_rejected(world: Served) -> None:
    """AG-89: after a restore, the same intent may carry another event."""
    sending(f"{HERE}={world.path}", given())

    failure = failing(f"{HERE}={world.path}", given(value_cbor=encode({"key": "a", "by": 3})))

    assert failure.code == "portal_rejected"
    assert "submission_id_is_taken" in failure.message
    assert len(events(world)) == 1


def test_a_world_that_does_not_run_may_run_later(tmp_path: Path, world: Served) -> None:
    """AG-89: its store is never opened here."""
    resting = make_folder(tmp_path / "resting", world.rig.world)

    failure = failing(f"{OTHER}={resting} {HERE}={world.path}", given(dest_world=OTHER))

    assert (failure.code, failure.retryable) == ("portal_not_running", True)
    assert str(resting) not in failure.message
    assert sorted(each.name for each in resting.iterdir()) == ["keys", "world.json"]


@pytest.mark.parametrize(
    ("worlds", "code"),
    [
        ("", "portal_not_configured"),
        (f"{OTHER}=/tmp", "portal_not_configured"),
        (f"{OTHER}/{HERE}=/tmp", "portal_not_configured"),
        (f"{HERE}=/nowhere/at/all", "portal_world_unusable"),
        (f"{HERE}=/etc", "portal_world_unusable"),
    ],
)
def test_an_unknown_world_holds_the_effect(worlds: str, code: str) -> None:
    """AG-86."""
    with pytest.raises(NotConfigured) as held:
        sending(worlds, given())

    assert held.value.code == code
    assert HERE in held.value.message


def test_a_name_may_have_a_universe(world: Served) -> None:
    """AG-86: then it is another name."""
    [receipt] = sending(f"{OTHER}/{HERE}={world.path}", given(dest_universe=OTHER))

    assert receipt["status"] == "ok"


@pytest.mark.parametrize(
    "pair",
    ["x", "x=/tmp", f"{HERE}=", f"{HERE}", f"{HERE}/=/tmp", f"{HERE}/{HERE}/{HERE}=/tmp", "=/tmp"],
)
def test_a_malformed_pair_is_named_by_its_place(pair: str) -> None:
    """AG-86."""
    with pytest.raises(BadUsage, match=f"{VARIABLE}: pair 2: expected UUID=FOLDER"):
        read_worlds(f"{OTHER}=/tmp {pair}")


def test_a_world_has_one_folder_and_names_are_spelled_in_lower_case() -> None:
    """AG-86."""
    assert read_worlds(f"{HERE.upper()}=/tmp") == {HERE: Path("/tmp")}
    with pytest.raises(BadUsage, match="is there twice"):
        read_worlds(f"{HERE}=/tmp {HERE.upper()}=/etc")


def answering(path: Path, answer: Callable[[], bytes | None]) -> threading.Thread:
    """A process that answers one request with these bytes, or goes away."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path / "aos.sock"))
    listener.listen()

    def serve() -> None:
        with listener:
            connection, _ = listener.accept()
            with connection:
                exactly(connection, int.from_bytes(exactly(connection, 4), "big"))
                data = answer()
                if data is not None:
                    connection.sendall(data)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("answer", "code", "retryable"),
    [
        (lambda: None, "portal_unanswered", True),
        (lambda: pack(error_fields(Busy("no room"))), "portal_busy", True),
        (lambda: pack(error_fields(Stopping("bye"))), "portal_unanswered", True),
        (lambda: pack({"answers": [{"odd": 1}]}), "portal_rejected", False),
        (lambda: b"\xff\xff\xff\xff", "portal_rejected", False),
    ],
)
def test_a_world_that_goes_away_may_have_taken_the_event(
    tmp_path: Path, world: Served, answer: Callable[[], bytes | None], code: str, retryable: bool
) -> None:
    """AG-89."""
    folder = make_folder(tmp_path / "v", world.rig.world)
    thread = answering(folder, answer)

    failure = failing(f"{HERE}={folder}", given())

    thread.join(60)
    assert (failure.code, failure.retryable) == (code, retryable)


def test_the_executors_are_loaded_by_name() -> None:
    """AG-50."""
    assert load("portal") is portal
