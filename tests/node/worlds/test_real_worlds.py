"""Real worlds behind one address: rest, timers, crashes and tokens (spec/worlds.md)."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from aos.core.decide.answers import Admitted
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.node.node_settings import read_settings
from aos.node.tokens import Scope, create
from aos.node.worlds.worlds_folder import WorldsFolder
from aos.values.spelling import base64_text
from aos_cli.commands.node import MOUNTED
from aos_cli.node_run import NodeRun
from tests.host.puppet import DO, ECHO, PUPPET, asks_for, manifest
from tests.node.worlds.hosts import WAIT_S, Host, run

TIMER = "sys/timer.set@1"
RUN = NodeRun(
    operator_key=None, executors=(), workers=(), allow_http=(), secrets=None, host_root=None,
    snapshot_records=0, cell_cache_size=100, core=None,
)  # fmt: skip


def real_host(tmp_path: Path, *names: str) -> Host:
    """A folder with worlds of puppets that may set timers."""
    path = tmp_path / "worlds"
    path.mkdir()
    for name in names:
        WorldsFolder(path).create(name)
        with open_writer(path / name) as writer:
            applied = writer.apply(manifest(effects=(TIMER, ECHO)))
            assert isinstance(applied.answer, Admitted), applied.answer
    return Host(path)


def real(**options: Any) -> dict[str, Any]:
    return {"command": MOUNTED, "options": RUN.document(), **options}


async def send(client: httpx.AsyncClient, world: str, key: str, out: bytes | None = None) -> None:
    value = {"key": key, "out": None if out is None else base64_text(out), "trap": None}
    event = {"schema": DO, "value": value}
    answer = await client.post(f"/w/{world}/v1/events", json=event)
    assert answer.status_code == 200, answer.text


def timer(in_s: float) -> bytes:
    due_ns = time.time_ns() + int(in_s * 1e9)
    return asks_for((TIMER, {"deliver_at_ns": due_ns, "key": None}))


async def events_of(client: httpx.AsyncClient, world: str, kind: str) -> int:
    records = (await client.get(f"/w/{world}/v1/records?kind={kind}&limit=200")).json()
    return len(records["records"])


def test_a_world_rests_until_its_timer_and_fires_it(tmp_path: Path) -> None:
    made = real_host(tmp_path, "shop")

    async def story() -> None:
        async with made.hosting(**real(idle_s=0.5)), made.http() as client:
            assert (await client.get("/w/shop/v1/world")).status_code == 200
            timers = 0
            for in_s in (12.0, 50.0):  # on a busy machine, the first may fire before it rests
                await send(client, "shop", f"a{timers}", timer(in_s))
                timers += 1
                await made.until_phase("shop", "asleep")
                if await made.wake_ns("shop") is not None:
                    break
            else:
                pytest.fail("the world did not rest before its timer")
            # No one uses it: its time starts it, and the timer settles before it rests again.
            async with asyncio.timeout(2 * WAIT_S):
                while (  # noqa: ASYNC110  # another process does it
                    await made.phase("shop") != "asleep" or await made.wake_ns("shop")
                ):
                    await asyncio.sleep(0.05)
            assert await events_of(client, "shop", "receipt") == timers

    run(story())


def test_a_world_with_an_open_effect_does_not_rest(tmp_path: Path) -> None:
    made = real_host(tmp_path, "shop")
    out = asks_for((ECHO, {"word": "hi"}))

    async def story() -> None:
        async with made.hosting(**real(idle_s=0.2)), made.http() as client:
            await send(client, "shop", "a", out)
            for _ in range(20):
                await asyncio.sleep(0.2)
                assert await made.phase("shop") != "asleep"

    run(story())


def test_killed_processes_lose_and_double_nothing(tmp_path: Path) -> None:
    made = real_host(tmp_path, "shop", "bank")

    async def sent(client: httpx.AsyncClient, number: int) -> None:
        """Send one event to each world until it is answered."""
        for world in ("shop", "bank"):
            value = {"key": f"k{number % 3}", "out": None, "trap": None}
            event = {"schema": DO, "value": value, "submission_id": f"e-{number}"}
            async with asyncio.timeout(WAIT_S):
                while True:
                    try:
                        answer = await client.post(f"/w/{world}/v1/events", json=event)
                    except httpx.TransportError:
                        continue
                    if answer.status_code == 200:
                        break
                    assert answer.status_code == 503, answer.text
                    await asyncio.sleep(0.1)

    async def story() -> None:
        async with made.hosting(**real()), made.http() as client:
            for number in range(40):
                if number % 10 == 5:
                    async with made.own() as own:
                        rows = (await own.get("/v1/worlds")).json()["worlds"]
                    for row in rows:
                        os.kill(row["pid"], signal.SIGKILL)
                await sent(client, number)
            for world in ("shop", "bank"):
                assert await events_of(client, world, "event") == 40
                cells = (await client.get(f"/w/{world}/v1/cells?workflow={PUPPET}")).json()
                assert cells["total"] == 3

    run(story())


def test_a_token_of_one_world_opens_no_other(tmp_path: Path) -> None:
    made = real_host(tmp_path, "shop", "bank")
    secrets = {
        name: create(
            open_folder(made.path / name), "t", (Scope("read"),), secret=os.urandom(32), now_ns=1
        )
        for name in ("shop", "bank")
    }

    async def story() -> None:
        async with made.hosting(**real()), made.http() as client:
            for name, other in (("shop", "bank"), ("bank", "shop")):
                path = f"/w/{name}/v1/world"
                for secret, status in ((secrets[name], 200), (secrets[other], 401)):
                    headers = {"authorization": f"Bearer {secret}"}
                    assert (await client.get(path, headers=headers)).status_code == status
                assert (await client.get(path)).status_code == 401

    run(story())


def test_node_toml_names_what_runs_a_world(tmp_path: Path) -> None:
    made = real_host(tmp_path, "shop", "bank")
    effects = "\n".join(
        (
            "from aos.effects import Effects",
            "shop = Effects()",
            f"@shop.effect({ECHO!r})",
            "def echo(ctx, params):",
            "    return params",
        )
    )
    (made.path / "shop" / "effects.py").write_text(effects)
    (made.path / "shop" / "node.toml").write_text('[run]\nexecutors = ["effects.py:shop"]\n')
    executors = read_settings(made.path / "shop").run.executors
    assert executors == (f"{made.path / 'shop' / 'effects.py'}:shop",)
