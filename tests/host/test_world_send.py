"""Two worlds in one folder, in this process: ``sys/world.send`` and what the target takes
(spec/world-send.md)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted, Duplicate, Refusal, Rule
from aos.core.journal.identity import world_id
from aos.core.journal.inputs import EventInput
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Event, Faulted, Receipt, Slot, Step
from aos.errors import BadUsage, Refused, Unavailable
from aos.host.delivery_queue import Pauses
from aos.host.door.deliveries import DeliverySender, WorldDelivery
from aos.host.door.line import Line
from aos.host.door.link import Link
from aos.host.door.protocol import read_answer
from aos.host.door.writer import open_writer
from aos.host.executors.task import Task
from aos.host.folder.folder import WorldFolder, open_folder
from aos.host.folder.making import init_world
from aos.host.folder.neighbours import Neighbours
from aos.host.process import RunSettings, run_world
from aos.host.stamps import now_ns
from aos.host.world_send import WorldSendExecutor, sender_of
from aos.manifest.names import WORLD_SEND
from aos.read.views.view import Running
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash, hash_text
from tests.cli.shell import here
from tests.cli.shell import run as command
from tests.host.puppet import DO, PUPPET, asks_for, do, manifest

T = TypeVar("T")
WAIT_S = 60.0


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(2 * WAIT_S):
            return await coroutine

    return asyncio.run(bounded())


def world_at(path: Path, **more: Any) -> WorldFolder:
    """A world of puppets that may send to other worlds; ``more`` is of its manifest."""
    init_world(path)
    with open_writer(path) as writer:
        applied = writer.apply(manifest(effects=(WORLD_SEND,), **more))
        assert isinstance(applied.answer, Admitted), applied.answer
    return open_folder(path)


@pytest.fixture
def worlds(tmp_path: Path) -> Path:
    for name in ("shop", "bank"):
        world_at(tmp_path / name)
    return tmp_path


def event(key: str) -> bytes:
    return encode({"key": key, "out": None, "trap": None})


def sends(to: str, *keys: str, schema: str = DO) -> bytes:
    """The output of a step that sends an event for each key."""
    requests = [{"to": to, "schema": schema, "value": event(key)} for key in keys]
    return asks_for(*((WORLD_SEND, request) for request in requests))


def puppet(key: str, out: bytes | None = None, submission_id: str | None = None) -> EventInput:
    item = do(key, out, submission_id)
    assert isinstance(item.value, bytes)
    return EventInput(schema=item.schema, value=item.value, submission_id=submission_id)


@dataclass
class Up:
    """A world that runs in this process."""

    folder: WorldFolder
    link: Link
    reports: list[str] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)


@contextlib.asynccontextmanager
async def up(path: Path, **options: Any) -> AsyncIterator[Up]:
    folder = open_folder(path)
    world = Up(folder, Link(folder))
    started = asyncio.Event()
    executors = options.pop("executors", None) or (
        lambda _read, _id: [
            WorldSendExecutor(folder, report=world.reports.append, pauses=Pauses(0.05, 0.2))
        ]
    )
    settings = RunSettings(
        executors=executors,
        handle_signals=False,
        report=world.reports.append,
        on_started=lambda _: started.set(),
        **{"has_neighbours": True, **options},
    )
    running = asyncio.create_task(run_world(path, settings))
    starting = asyncio.create_task(started.wait())
    await asyncio.wait({running, starting}, return_when=asyncio.FIRST_COMPLETED)
    starting.cancel()
    if running.done():
        running.result()
    try:
        yield world
    finally:
        with Line(folder) as line:
            await line.ask({"op": "stop"})
        await running
        await world.link.close()


class Catching(WorldSendExecutor):
    """Takes tasks and sends none, as a process that is killed before it can."""

    def __init__(self, folder: WorldFolder) -> None:
        super().__init__(folder)
        self.tasks: list[Task] = []

    def publish(self, tasks: Sequence[Task]) -> None:
        self.tasks += tasks

    async def has_tasks(self) -> bool:
        return bool(self.tasks)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await condition():  # noqa: ASYNC110  # other processes do it
            await asyncio.sleep(0.02)


def records(folder: WorldFolder, kind: type[T]) -> list[T]:
    store = folder.open_store(readonly=True)
    try:
        found = [from_bytes(data) for frame in store.frames() for data in frame.records]
    finally:
        store.close()
    return [record for record in found if isinstance(record, kind)]


def delivered(folder: WorldFolder) -> list[str]:
    """The keys of the events that other worlds have delivered, in the order of the journal."""
    return [
        fields(event.value)["key"]
        for event in records(folder, Event)
        if (event.submission_id or "").startswith("aos:")
    ]


def receipts(folder: WorldFolder) -> list[tuple[str, Any]]:
    return [(receipt.status, fields(receipt.payload)) for receipt in records(folder, Receipt)]


def fields(slot: Slot) -> Any:
    assert isinstance(slot, bytes), "short enough to be in its record"
    return decode_record(slot)


async def settled(world: Up, number: int) -> None:
    """Wait for receipts, which the steps of their cells take."""

    async def are_settled() -> bool:
        return len(receipts(world.folder)) >= number

    await until(are_settled)
    assert [fault.fault.message for fault in records(world.folder, Faulted)] == []


def test_an_event_reaches_a_neighbour_and_its_receipt_names_the_record(worlds: Path) -> None:
    async def story() -> None:
        async with up(worlds / "shop") as shop, up(worlds / "bank") as bank:
            [answer] = await shop.link.send([puppet("a", sends("bank", "x"))], None)
            assert isinstance(answer, Admitted)
            await settled(shop, 1)
            [(status, payload)] = receipts(shop.folder)
            [event] = [one for one in records(bank.folder, Event) if one.submission_id]
            assert status == "ok"
            assert payload == {
                "world": hash_text(bank.folder.world),
                "seq": event.seq,
                "duplicate": False,
            }
            assert event.submission_id is not None
            assert event.submission_id.startswith(f"aos:{hash_text(shop.folder.world)}:")

    run(story())


def test_the_events_of_a_cell_arrive_in_order(worlds: Path) -> None:
    """WS-32: also those that waited while the target was away."""
    keys = [f"k{number}" for number in range(30)]

    async def story() -> None:
        async with up(worlds / "shop") as shop:
            await shop.link.send([puppet("a", sends("bank", *keys))], None)
            await asyncio.sleep(0.3)
            async with up(worlds / "bank") as bank:
                await settled(shop, len(keys))
                assert delivered(bank.folder) == keys

    run(story())


def test_a_target_that_is_away_is_shown_and_gets_its_event_later(worlds: Path) -> None:
    """WS-33, WS-36: the effect stays open, ``aos effects`` has the reason."""

    async def story() -> None:
        async with up(worlds / "shop") as shop:
            await shop.link.send([puppet("a", sends("bank", "x"))], None)

            async def is_shown() -> bool:
                tasks = Running.of_answer(await shop.link.work()).tasks.values()
                return any(task.problem is not None for task in tasks)

            await until(is_shown)
            [task] = Running.of_answer(await shop.link.work()).tasks.values()
            assert task.phase == "backoff"
            assert "no process runs this world" in (task.problem or "")
            assert [line for line in shop.reports if "to bank waits" in line]
            assert receipts(shop.folder) == []
            async with up(worlds / "bank"):
                await settled(shop, 1)
            assert receipts(shop.folder)[0][0] == "ok"

    run(story())


@pytest.mark.parametrize(
    ("out", "code", "words"),
    [
        (sends("atlantis", "x"), "world_unknown", "no world is called atlantis"),
        (sends("../bank", "x"), "world_unknown", "not a name of a world"),
        (sends("node", "x"), "world_unknown", "not a name of a world"),
        (sends("shop", "x"), "world_unknown", "shop is the world itself"),
        (sends("bank", "x", schema="t/No@1"), "event_refused", "event_schema_is_unknown: "),
    ],
)
def test_an_event_that_cannot_be_admitted_is_told(
    worlds: Path, out: bytes, code: str, words: str
) -> None:
    """WS-31, WS-35."""

    async def story() -> None:
        async with up(worlds / "shop") as shop, up(worlds / "bank") as bank:
            await shop.link.send([puppet("a", out)], None)
            await settled(shop, 1)
            [(status, payload)] = receipts(shop.folder)
            assert status == "error"
            assert payload["code"] == code
            assert words in payload["message"]
            assert delivered(bank.folder) == []

    run(story())


def test_a_neighbour_sends_no_event_that_only_the_steps_of_the_world_emit(worlds: Path) -> None:
    """K-11, M-30b, WS-35"""
    routes = [{"event": DO, "workflow": "host/puppet@1", "key_field": "key"}]
    world_at(worlds / "vault", routing={"subscriptions": routes, "ingress": []})

    async def story() -> None:
        async with up(worlds / "shop") as shop, up(worlds / "vault") as vault:
            await shop.link.send([puppet("a", sends("vault", "x"))], None)
            await settled(shop, 1)
            [(status, payload)] = receipts(shop.folder)
            assert (status, payload["code"]) == ("error", "event_refused")
            assert "event_is_internal: host/Do@1 is not accepted from outside" in payload["message"]
            assert delivered(vault.folder) == []

    run(story())


def test_a_redelivery_is_a_duplicate(worlds: Path) -> None:
    """WS-20: as after a source that was killed between the admission and its receipt."""

    shop_path = worlds / "shop"
    catching = Catching(open_folder(shop_path))

    async def story() -> None:
        async with up(shop_path, executors=lambda _read, _id: [catching]) as shop:
            await shop.link.send([puppet("a", sends("bank", "x"))], None)
            await until(catching.has_tasks)
        [task] = catching.tasks
        async with up(worlds / "bank") as bank:
            delivery = WorldDelivery(
                idempotency_key=task.idempotency_key, opened_ns=task.opened_ns, schema=DO,
                value=event("x"),
            )  # fmt: skip
            admitted = await deliver(bank.folder, sender_of(shop.folder), delivery)
            assert isinstance(admitted, Admitted)
            async with up(shop_path) as again:
                await settled(again, 1)
            assert receipts(shop.folder) == [
                (
                    "ok",
                    {"world": hash_text(bank.folder.world), "seq": admitted.seq, "duplicate": True},
                )
            ]
            assert delivered(bank.folder) == ["x"]

    run(story())


def test_a_canceled_delivery_is_not_sent(worlds: Path) -> None:
    """WS-37: the first of a line as well as the next one."""
    key = open_folder(worlds / "shop").operator_key()

    async def story() -> None:
        async with up(worlds / "shop", operator_key=key) as shop:
            await shop.link.send([puppet("a", sends("bank", "x", "y", "z"))], None)

            async def are_open() -> bool:
                return len(Running.of_answer(await shop.link.work()).tasks) == 3

            await until(are_open)
            intents = list(Running.of_answer(await shop.link.work()).tasks)
            for intent in intents[:2]:
                answer = await shop.link.operate("cancel", intent=Hash(intent))
                assert isinstance(answer, Admitted), answer
            async with up(worlds / "bank") as bank:
                await settled(shop, 1)
                assert delivered(bank.folder) == ["z"]
            assert [status for status, _ in receipts(shop.folder)] == ["ok"]
            assert not [line for line in shop.reports if "refused" in line]

    run(story())


async def deliver(
    target: WorldFolder, sender: DeliverySender, *deliveries: WorldDelivery, **fields: Any
) -> Any:
    """Deliver as another process would; return the first answer."""
    request = {
        "op": "deliver",
        **sender.fields(target.world),
        "items": [sender.item(delivery, target.world) for delivery in deliveries],
        **fields,
    }
    with Line(target) as line:
        answer = await line.ask(request)
    return read_answer(answer["answers"][0])


def some_delivery(**fields: Any) -> WorldDelivery:
    ready = {"idempotency_key": "k", "opened_ns": now_ns(), "schema": DO, "value": event("x")}
    return WorldDelivery(**{**ready, **fields})


def test_a_forged_source_delivers_nothing(worlds: Path) -> None:
    """WS-11 to WS-13."""
    stranger_key = SigningKey(bytes([9]) * 32)
    nonce = b"n" * 32
    stranger = DeliverySender(
        world=world_id(nonce, bytes(stranger_key.verify_key)), nonce=nonce, key=stranger_key
    )

    async def story() -> None:
        shop = sender_of(open_folder(worlds / "shop"))
        async with up(worlds / "bank") as bank:
            delivery = some_delivery()
            [item] = [shop.item(delivery, bank.folder.world)]
            other_key = DeliverySender(world=shop.world, nonce=shop.nonce, key=stranger_key)
            for sender, fields, words in (
                (stranger, {}, "is no neighbour"),
                (other_key, {}, "the key is not that of world"),
                (other_key, {"key": bytes(shop.key.verify_key)}, "the signature is not that of"),
                (shop, {"world": shop.world}, "the delivery is for another world"),
                (shop, {"items": [{**item, "schema": "t/No@1"}]}, "the signature is not that of"),
                (shop, {"items": [{**item, "opened_ns": 1}]}, "the signature is not that of"),
                (shop, {"items": [{**item, "key": "other"}]}, "the signature is not that of"),
                (shop, {"items": [{**item, "value": event("z")}]}, "the signature is not that of"),
            ):
                with pytest.raises(Refused, match=words):
                    await deliver(bank.folder, sender, delivery, **fields)
            own = sender_of(bank.folder)
            with pytest.raises(Refused, match="is no neighbour"):
                await deliver(bank.folder, own, delivery)
            for item_fields, words in (
                ({"opened_ns": -1}, "opened_ns: expected 0"),
                ({"opened_ns": "1"}, "opened_ns: expected int"),
                ({"more": 1}, "more: expected one of"),
                ({"signature": b"short"}, "the signature is not that of"),
            ):
                with pytest.raises((BadUsage, Refused), match=words):
                    await deliver(bank.folder, shop, items=[{**item, **item_fields}])
            assert delivered(bank.folder) == []
            assert isinstance(await deliver(bank.folder, shop, delivery), Admitted)
            assert isinstance(await deliver(bank.folder, shop, delivery), Duplicate)

    run(story())


def test_a_world_without_neighbours_takes_no_delivery(worlds: Path) -> None:
    """WS-1."""

    async def story() -> None:
        async with up(worlds / "shop") as shop, up(worlds / "bank", has_neighbours=False) as bank:
            with pytest.raises(Refused, match=r"takes no deliveries.*--neighbours"):
                await deliver(bank.folder, sender_of(shop.folder), some_delivery())

    run(story())


def test_without_neighbours_the_effect_waits_and_the_option_is_named(worlds: Path) -> None:
    """WS-1: with a process that runs the world, and without one."""
    shop = worlds / "shop"

    async def story() -> str:
        async with up(shop, executors=lambda _read, _id: [], has_neighbours=False) as world:
            await world.link.send([puppet("a", sends("bank", "x"))], None)

            async def is_asked() -> bool:
                return bool(records(world.folder, Step))

            await until(is_asked)
            assert [line for line in world.reports if "(--neighbours)" in line]
            # A process of its own: this one has the store open for writing.
            shown = await asyncio.to_thread(
                command, "inspect", "cell", PUPPET, "a", "--world", shop
            )
            return shown.out

    assert "restart that process with --neighbours" in run(story())
    assert "aos run --neighbours" in here("inspect", "cell", PUPPET, "a", "--world", shop).out


def test_no_sender_can_use_the_id_of_a_delivery(worlds: Path) -> None:
    """WS-24: with and without a process that runs the world."""
    id = "aos:anything"

    async def story() -> None:
        async with up(worlds / "bank") as bank:
            answers = await bank.link.send([puppet("a", submission_id=id), puppet("b")], None)
            assert isinstance(answers[0], Refusal)
            assert answers[0].rule is Rule.SUBMISSION_ID_IS_INVALID
            assert "belong to events that other worlds deliver" in answers[0].message
            assert isinstance(answers[1], Admitted)

    run(story())
    with open_writer(worlds / "bank") as writer:
        [answer] = writer.send([do("a", submission_id=id)])
    assert isinstance(answer, Refusal)
    assert answer.rule is Rule.SUBMISSION_ID_IS_INVALID


def test_a_target_of_the_same_name_may_be_another_world(worlds: Path) -> None:
    """WS-2: the name is looked up for each request."""
    bank = open_folder(worlds / "bank")
    neighbours = Neighbours(open_folder(worlds / "shop"))
    assert neighbours.place_of("bank").world == bank.world
    assert neighbours.has(bank.world)

    (worlds / "bank").rename(worlds / "old-bank")
    new = world_at(worlds / "bank")

    assert neighbours.place_of("bank").world == new.world
    assert neighbours.has(new.world)
    assert neighbours.has(bank.world)
    with pytest.raises(BadUsage, match="no world is called mint"):
        neighbours.place_of("mint")


def test_the_folder_of_neighbours_that_cannot_be_read_is_reported(worlds: Path) -> None:
    neighbours = Neighbours(open_folder(worlds / "shop"))
    neighbours.path = worlds / "none"
    with pytest.raises(Unavailable, match="cannot be read"):
        neighbours.has(Hash(b"x" * 32))
