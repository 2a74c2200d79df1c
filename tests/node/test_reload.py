"""On SIGHUP a node reads its settings again (spec/node.md, N-6a)."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx

from tests.copies import copied
from tests.node.nodes import WAIT_S, event
from tests.node.test_node_process import started, wait_until

HOUR_MS = 3_600_000
LIMIT = '[effects."trip/book@1"]\nconcurrency = {}\n'


def claimed_later(url: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Claim as a worker does: 503 means that the new front is not ready yet."""
    while True:
        answer = httpx.post(f"{url}/v1/work/claim", json=body, timeout=WAIT_S)
        if answer.status_code != 503:
            return list(answer.json()["tasks"])
        time.sleep(0.1)


def test_changed_settings_hold_without_a_stop_and_leases_stay(
    template: Path, tmp_path: Path
) -> None:
    path, log = copied(template, tmp_path / "trips"), tmp_path / "log"
    settings = path / "node.toml"
    settings.write_text(LIMIT.format(1))
    body = {"worker": "w", "max": 9, "lease_ms": HOUR_MS, "effects": [{"name": "trip/book@1"}]}
    with (
        started(path, log) as node,
        httpx.Client(base_url=node.url, timeout=WAIT_S) as client,
    ):
        items = {"items": [event(f"r-{number}") for number in range(3)]}
        assert client.post("/v1/events", json=items).status_code == 200
        claimed = client.post("/v1/work/claim", json={**body, "claim": "1", "wait_ms": 30_000})
        [task] = claimed.json()["tasks"]
        [first] = node.fronts()

        settings.write_text("[effects]\nunknown = 1\n")
        os.kill(node.process.pid, signal.SIGHUP)
        wait_until(lambda: "the settings in use stay" in log.read_text())
        assert client.get("/readyz").status_code == 200
        assert node.fronts() == [first]

        settings.write_text(LIMIT.format(2))
        os.kill(node.process.pid, signal.SIGHUP)
        wait_until(lambda: node.fronts() not in ([], [first]))
        [second] = node.fronts()
        more = claimed_later(node.url, {**body, "claim": "2", "wait_ms": 30_000})
        assert len(more) == 1, "one of two places is taken by the lease from before"
        beat = httpx.post(
            f"{node.url}/v1/work/heartbeat",
            json={"worker": "w", "leases": [{"task": task["task"], "epoch": task["epoch"]}]},
            timeout=WAIT_S,
        ).json()
        assert [each["answer"] for each in beat["answers"]] == ["leased"]

        os.kill(node.process.pid, signal.SIGHUP)
        wait_until(lambda: httpx.get(f"{node.url}/readyz", timeout=WAIT_S).status_code == 200)
        assert node.fronts() == [second], "nothing has changed"
    text = log.read_text()
    assert text.count("another front continues with them") == 1
    assert "died" not in text
    assert "did you mean" in text or "expected" in text
