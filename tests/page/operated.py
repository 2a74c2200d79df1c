"""A world with everything that only the page of a node shows: cells that failed for several
reasons, tasks at a worker, held and parked, and schedules."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import httpx

from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.node.leases.schemas import LEASE_MS_MAX
from tests.cli.shell import here, in_silence
from tests.host import puppet
from tests.node.nodes import WAIT_S

FAILED: Final = tuple(f"f-{n}" for n in range(6))
OTHER: Final = ("g-0", "g-1")
"""They have failed by faults of the same kind as ``FAILED``, with another message."""

TRAPPED: Final = ("t-0", "t-1")
SLOW: Final = ("s-0", "s-1")
WORKER: Final = "<b>ann</b>"
HOSTILE: Final = "<img src=x onerror=alert(1)>/b.json"
"""The id of a schedule."""

SCHEDULES: Final = (
    {"id": "nightly", "cron": "30 2 * * *", "event": puppet.DO, "value": {"key": "tick"}},
    {
        "id": HOSTILE, "every_ms": 3_600_000, "event": puppet.DO, "value": {"key": "tick"},
        "paused": True,
    },
)  # fmt: skip


def operated_world(path: Path) -> Path:
    """Make the world. Its cells fail again in the same way when they are retried."""
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(puppet.manifest(uses=["aos/schedule@1"], schedules=list(SCHEDULES)))
        list(
            writer.send(
                [
                    *(puppet.do(key, b"\xff") for key in FAILED),
                    *(puppet.do(key, b"\x01") for key in OTHER),
                    *(puppet.trap(key) for key in TRAPPED),
                    *(puppet.do(key, b"") for key in SLOW),
                    puppet.do("w", puppet.asks("one", "two", "three")),
                ]
            )
        )
    assert in_silence("run", "--until-waiting", "--world", path) == 0
    return path


def work_on(url: str, secret: str) -> list[str]:
    """Claim three tasks of a node as a worker: one stays leased, one is held, one is parked. Return
    their hashes in this order."""
    headers = {"authorization": f"Bearer {secret}"}
    with httpx.Client(
        base_url=url, headers=headers, timeout=WAIT_S, trust_env=False, verify=False
    ) as client:

        def ask(path: str, **body: Any) -> Any:
            answer = client.post(f"/v1/work/{path}", json={"worker": WORKER, **body})
            assert answer.status_code == 200, answer.text
            return answer.json()

        effects = [{"name": puppet.ECHO, "attempts": 1}]
        claim = {"claim": "c", "max": 3, "wait_ms": 50_000, "lease_ms": LEASE_MS_MAX}
        tasks = ask("claim", effects=effects, **claim)["tasks"]
        assert len(tasks) == 3
        now = time.time_ns()
        results = [
            {
                "task": each["task"], "epoch": each["epoch"], "status": status,
                "payload": {"code": "no_key", "message": "<i>no key</i>", "retryable": False},
                "started_ns": now, "finished_ns": now,
            }
            for each, status in zip(tasks[1:], ("held", "parked"), strict=True)
        ]  # fmt: skip
        answers = ask("results", results=results)["answers"]
        assert [each["answer"] for each in answers] == ["held", "parked"], answers
        return [each["task"] for each in tasks]


def trigger(path: Path) -> None:
    """Let the schedule ``nightly`` run once, of a world that a node runs."""
    assert here("schedule", "trigger", "nightly", "--world", path).code == 0
