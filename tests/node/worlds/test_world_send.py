"""Events between worlds that one node serves, whose processes are killed (spec/world-send.md)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from aos.core.decide.answers import Admitted
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Event, Receipt
from aos.host.door.writer import open_writer
from aos.host.folder.folder import WorldFolder, open_folder
from aos.manifest.names import WORLD_SEND
from aos.node.worlds.worlds_folder import WorldsFolder
from aos.values.cbor import decode_record, encode
from aos.values.spelling import base64_text
from tests.host.puppet import DO, PUPPET, asks_for, manifest
from tests.node.worlds.hosts import WAIT_S, Host, run
from tests.node.worlds.test_real_worlds import real
from tests.tools import long_form

EVENTS = 200 if long_form() else 60
CELLS = 8


def sending_host(tmp_path: Path, *names: str) -> Host:
    path = tmp_path / "worlds"
    path.mkdir()
    for name in names:
        WorldsFolder(path).create(name)
        with open_writer(path / name) as writer:
            applied = writer.apply(manifest(effects=(WORLD_SEND,)))
            assert isinstance(applied.answer, Admitted), applied.answer
    return Host(path)


async def send(client: httpx.AsyncClient, number: int) -> None:
    """Have a cell of the shop send an event to the bank; send the order until it is answered."""
    sent = encode({"key": f"n{number}", "out": None, "trap": None})
    out = asks_for((WORLD_SEND, {"to": "bank", "schema": DO, "value": sent}))
    value = {"key": f"c{number % CELLS}", "out": base64_text(out), "trap": None}
    order = {"schema": DO, "value": value, "submission_id": f"order-{number}"}
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = await client.post("/w/shop/v1/events", json=order)
                if answer.status_code == 200:
                    return
                assert answer.status_code == 503, answer.text
            await asyncio.sleep(0.1)


def records(folder: WorldFolder) -> list[Any]:
    store = folder.open_store(readonly=True)
    try:
        return [from_bytes(data) for frame in store.frames() for data in frame.records]
    finally:
        store.close()


def delivered(folder: WorldFolder) -> list[int]:
    """The numbers of the events that were delivered, in the order of the journal."""
    return [
        _number(event)
        for event in records(folder)
        if isinstance(event, Event) and (event.submission_id or "").startswith("aos:")
    ]


def _number(event: Event) -> int:
    assert isinstance(event.value, bytes)
    fields: Any = decode_record(event.value)
    return int(fields["key"][1:])


def settled(folder: WorldFolder) -> list[str]:
    return [record.status for record in records(folder) if isinstance(record, Receipt)]


async def kill(host: Host, *names: str) -> None:
    async with host.own() as own:
        rows = (await own.get("/v1/worlds")).json()["worlds"]
    for row in rows:
        if row["name"] in names and row["pid"] is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(row["pid"], signal.SIGKILL)


def test_killed_worlds_deliver_each_event_once(tmp_path: Path) -> None:
    """WS-20, WS-32, WS-33: source and target are killed again and again."""
    host = sending_host(tmp_path, "shop", "bank")
    shop, bank = open_folder(host.path / "shop"), open_folder(host.path / "bank")

    async def killing() -> None:
        victims = (("bank",), ("shop",), ("shop", "bank"), ("bank",), ("shop",))
        for names in victims if long_form() else victims[:3]:
            await asyncio.sleep(1.0)
            await kill(host, *names)

    async def story() -> None:
        async with host.hosting(**real()), host.http() as client:
            killer = asyncio.create_task(killing())
            for number in range(EVENTS):
                await send(client, number)
            await killer
            async with asyncio.timeout(2 * WAIT_S):
                while len(settled(shop)) < EVENTS:  # noqa: ASYNC110  # other processes do it
                    await asyncio.sleep(0.2)

    run(story())
    assert Counter(settled(shop)) == {"ok": EVENTS}
    numbers = delivered(bank)
    assert sorted(numbers) == list(range(EVENTS))
    for cell in range(CELLS):
        assert [number for number in numbers if number % CELLS == cell] == list(
            range(cell, EVENTS, CELLS)
        )


def test_a_target_that_sleeps_is_started_and_a_stopped_one_is_not(tmp_path: Path) -> None:
    """WS-34, WS-36, WS-38."""
    host = sending_host(tmp_path, "shop", "bank")
    bank = open_folder(host.path / "bank")

    async def story() -> None:
        async with host.hosting(**real(idle_s=0.5)), host.http() as client, host.own() as own:
            await host.until_phase("bank", "asleep")
            await send(client, 1)
            async with asyncio.timeout(WAIT_S):
                while delivered(bank) != [1]:  # noqa: ASYNC110  # other processes do it
                    await asyncio.sleep(0.1)

            assert (await own.post("/v1/worlds/stop", json={"name": "bank"})).status_code == 200
            await send(client, 2)
            async with asyncio.timeout(WAIT_S):
                while True:
                    cell = await client.get(f"/w/shop/v1/cell?workflow={PUPPET}&key=c2")
                    if "was stopped (aos world start bank)" in cell.text:
                        break
                    await asyncio.sleep(0.2)
            assert delivered(bank) == [1]
            assert await host.phase("shop") == "running"
            assert await host.phase("bank") == "stopped"
            assert (await own.post("/v1/worlds/start", json={"name": "bank"})).status_code == 200
            async with asyncio.timeout(2 * WAIT_S):
                while delivered(bank) != [1, 2]:  # noqa: ASYNC110  # other processes do it
                    await asyncio.sleep(0.1)

    run(story())
