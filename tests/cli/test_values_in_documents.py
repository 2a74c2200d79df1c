"""Times and durations inside recorded values are shown as ``aos send`` accepts them (A-3, C-5)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.manifest.load import load
from tests.cli.shell import here
from tests.schedule.stage import nodes

PLAN: Final = "report"
START: Final[dict[str, Any]] = {
    "instance": "i-1", "schedule": None, "type": PLAN, "version": 1, "mode": "standard",
    "wait_timeouts": True, "context": {},
    "steps": [{"type": "MAKE", "max_attempts": 2, "backoff": "1m30s", "lease": "2h"}],
}  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One instance of a plan, whose state has times and durations."""
    path = tmp_path_factory.mktemp("values") / "world"
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(load({"m.air.json": json.dumps(nodes()).encode()}))
    assert here("send", "aos/LinearStart@1", json.dumps(START), "--world", path).code == 0
    assert here("run", "--until-waiting", "--world", path).code == 0
    return path


def document(world: Path, *words: str) -> Any:
    found = here(*words, "--json", "--world", world)
    assert found.code == 0, found
    return (
        [json.loads(each) for each in found.out.splitlines()]
        if words[1] == "journal"
        else found.json
    )


def ns_in(value: object) -> list[str]:
    """The names of what looks like a time in ns."""
    if isinstance(value, list):
        return [name for each in value for name in ns_in(each)]
    if not isinstance(value, dict):
        return []
    large = [name for name, each in value.items() if type(each) is int and each > 10**9]
    return large + [name for each in value.values() for name in ns_in(each)]


def test_a_state_an_event_and_a_trace_have_texts(world: Path) -> None:
    """A-3: numbers of ns are in keys that end in ``_ns`` alone."""
    cell = document(world, "inspect", "cell", "aos/linear@1", "i-1")
    [step] = cell["state"]["steps"]
    assert (step["backoff"], step["lease"]) == ("1m30s", "2h")
    assert cell["state"]["created_at"].endswith("Z")
    assert step["next_run_at"] == cell["state"]["created_at"]
    for words in (
        ("inspect", "cell", "aos/linear@1", "i-1"),
        ("inspect", "cells", "--workflow", "aos/linear@1", "--state"),
        ("inspect", "journal"),
        ("inspect", "record", "1"),
        ("trace", "aos/linear@1", "i-1"),
    ):
        found = document(world, *words)
        assert [name for name in ns_in(found) if not name.endswith("_ns")] == [], words


def test_a_value_that_was_shown_can_be_sent_again(world: Path) -> None:
    """C-5"""
    [event, *_] = [
        each for each in document(world, "inspect", "journal") if each["kind"] == "event"
    ]
    again = event["value"] | {"instance": "i-2"}
    assert again["steps"] == START["steps"]
    assert here("send", "aos/LinearStart@1", json.dumps(again), "--world", world).code == 0
