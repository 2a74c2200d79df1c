"""Functions that a node runs: in local workers (spec/node.md, N-9), or for its own process."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.cli.shell import here, start
from tests.cookbook.worlds import executors
from tests.copies import copied
from tests.node.nodes import WAIT_S, event, unread_claim
from tests.node.test_node_process import Started, started, wait_until
from tests.run_seed import rotated
from tests.running_process import is_running

AGENCIES = executors("saga", "agencies")


def workers(node: Started) -> list[int]:
    return node.children(b"aos.node.worker.local_worker")


def settled(client: httpx.Client, id: str) -> str:
    """Book a trip, and wait for its end."""
    answer = client.post("/v1/events", json=event(id), params={"wait": "settled"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["to"][0]["status"])


def test_a_local_worker_is_started_again_and_ends_with_it(template: Path, tmp_path: Path) -> None:
    path = copied(template, tmp_path / "trips")
    log = tmp_path / "log"
    with (
        started(path, log, "--worker", AGENCIES) as node,
        httpx.Client(base_url=node.url, timeout=WAIT_S) as client,
    ):
        assert settled(client, "b-1") == "completed"
        [first] = workers(node)
        os.kill(first, signal.SIGKILL)
        assert settled(client, "b-2") == "completed"
        [second] = workers(node)
        assert second != first
        assert f"the worker {AGENCIES} died (signal 9); it is started again" in log.read_text()

        node.process.kill()
        wait_until(lambda: not is_running(second))


def test_a_task_that_its_worker_never_read_is_given_out_again_at_once(
    template: Path, tmp_path: Path
) -> None:
    """N-52a, over TCP: the dead client may have read it, so this is the next attempt."""
    path = copied(template, tmp_path / "trips")
    with (
        started(path, tmp_path / "log") as node,
        httpx.Client(base_url=node.url, timeout=WAIT_S) as client,
    ):
        hour = {"lease_ms": 3_600_000}
        dead = {"worker": "dead", "claim": "c-1", "wait_ms": 60_000, **hour}
        unread_claim(node.url, dead, lambda: client.post("/v1/events", json=event("n-1")))
        body = {"worker": "alive", "claim": "c-2", "wait_ms": 50_000}
        [task] = client.post("/v1/work/claim", json=body).json()["tasks"]
        assert task["epoch"] == 2


def test_a_function_that_runs_ends_before_its_node_does(template: Path, tmp_path: Path) -> None:
    path = copied(template, tmp_path / "trips")
    began, functions = tmp_path / "began", tmp_path / "slow.py"
    functions.write_text(
        "import asyncio, pathlib\n"
        "from aos.worker import effect\n\n\n"
        "@effect('trip/book@1')\n"
        "async def book(params, ctx):\n"
        f"    pathlib.Path({str(began)!r}).touch()\n"
        "    await asyncio.sleep(1.5)\n"
        "    return {'reference': 'slow'}\n"
    )
    with (
        started(path, tmp_path / "log", "--worker", f"{functions}:book") as node,
        httpx.Client(base_url=node.url, timeout=WAIT_S) as client,
    ):
        assert client.post("/v1/events", json=event("b-3")).status_code == 200
        wait_until(began.exists)
        node.process.terminate()
        assert node.process.wait(WAIT_S) == 0

    rows = here("inspect", "intents", "--status", "settled", "--json", "--world", path).json
    assert [(each["effect"], each["receipt_status"]) for each in rows["intents"]] == [
        ("trip/book@1", "ok")
    ]


def test_the_first_node_of_a_world_begins_its_open_tasks_with_attempt_one(
    template: Path, tmp_path: Path
) -> None:
    """N-56: no worker can have had them."""
    path, log = copied(template, tmp_path / "trips"), tmp_path / "log"
    value = json.dumps({"trip_id": "f-1", "city": "Lisbon"})
    assert here("send", "trip/Requested@1", value, "--world", path).code == 0
    assert here("run", "--until-idle", "--world", path).code == 0

    def claimed(claim: str) -> list[int]:
        with started(path, log) as node:
            body = {"worker": "w", "claim": claim, "wait_ms": 60_000}
            answer = httpx.post(f"{node.url}/v1/work/claim", json=body, timeout=WAIT_S)
            return [each["epoch"] for each in answer.json()["tasks"]]

    assert claimed("c-1") == [1], log.read_text()
    shutil.rmtree(path / "node")
    assert claimed("c-2") == [2]


def test_functions_that_cannot_be_imported_end_the_node(template: Path, tmp_path: Path) -> None:
    path = copied(template, tmp_path / "trips")
    log = tmp_path / "log"
    with started(path, log, "--worker", "nothing.py:nobody") as node:
        assert node.process.wait(WAIT_S) == 2

    text = log.read_text()
    assert "aos: worker nothing.py:nobody: " in text
    assert "aos: the worker nothing.py:nobody cannot be started; its message is above" in text


def test_the_limits_of_a_node_hold_for_functions_of_its_own_process(
    template: Path, tmp_path: Path
) -> None:
    """N-65a: a task that its rate delays is begun when its time has come."""
    path = copied(template, tmp_path / "trips")
    (path / "node.toml").write_text('[effects."trip/book@1"]\nconcurrency = 1\nrate = "20/s"\n')
    with (
        started(path, tmp_path / "log", "--executors", AGENCIES) as node,
        httpx.Client(base_url=node.url, timeout=WAIT_S) as client,
    ):
        items = {"items": [event(f"l-{number}") for number in range(3)]}
        answer = client.post("/v1/events", json=items, params={"wait": "settled"})
    assert [each["to"][0]["status"] for each in answer.json()["items"]] == ["completed"] * 3
    rows = here("inspect", "intents", "--status", "settled", "--json", "--world", path).json
    booked = [each for each in rows["intents"] if each["effect"] == "trip/book@1"]
    times = []
    for each in booked:
        found = here("inspect", "intent", each["intent"], "--json", "--world", path).json["receipt"]
        times.append((found["started_ns"], found["finished_ns"]))
    times.sort()
    assert len(times) == 9
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(times))


HUNG = """
import asyncio, time
from aos.worker import effect


@effect("trip/book@1", timeout_s=0.2, concurrency=1)
def plain(params, ctx):
    time.sleep(3600)


@effect("trip/book@1", timeout_s=0.2, concurrency=1)
async def with_thread(params, ctx):
    try:
        await asyncio.to_thread(time.sleep, 3600)
    finally:
        time.sleep(2)
"""


def test_a_local_worker_whose_function_hangs_is_started_again(
    template: Path, tmp_path: Path
) -> None:
    """W-6."""
    path, log = copied(template, tmp_path / "trips"), tmp_path / "log"
    (tmp_path / "hung.py").write_text(HUNG)
    with (
        started(path, log, "--worker", f"{tmp_path / 'hung.py'}:plain") as node,
        httpx.Client(base_url=node.url, timeout=WAIT_S) as client,
    ):
        assert client.post("/v1/events", json=event("h-1")).status_code == 200
        wait_until(lambda: "died (exit code 4)" in log.read_text())
        assert "all 1 slots of trip/book@1 are held by calls" in log.read_text()


@pytest.mark.long
@pytest.mark.parametrize("name", rotated(["plain", "with_thread"]))
def test_a_worker_whose_function_hangs_ends_with_exit_code_4(
    template: Path, tmp_path: Path, name: str
) -> None:
    """W-6: also if the function hangs in a thread that it has begun itself."""
    path = copied(template, tmp_path / "trips")
    (tmp_path / "hung.py").write_text(HUNG)
    with (
        started(path, tmp_path / "log") as node,
        httpx.Client(base_url=node.url, timeout=WAIT_S) as client,
    ):
        assert client.post("/v1/events", json=event("h-1")).status_code == 200
        words = ("worker", "--node", path, f"{tmp_path / 'hung.py'}:{name}")
        with start(*words, stderr=subprocess.PIPE) as worker:
            try:
                _, errors = worker.communicate(timeout=WAIT_S)
            finally:
                worker.kill()
        assert worker.returncode == 4, errors
