"""A world whose modules speak the AgentOS SDK's form, run once with the real executors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agentos.world import write_folder
from tests.cli.conftest import aos, plain
from tests.cli.shell import in_silence

__all__ = ["aos", "plain"]

SENT = (
    ("agentos/CounterEvent@1", {"Start": {"target": 2}}),
    ("agentos/CounterEvent@1", {"Tick": None}),
    ("agentos/CounterEvent@1", {"Tick": None}),
    ("agentos/ClockEvent@1", {"Start": {"deliver_at_ns": 1000}}),
    ("agentos/EchoEvent@1", {"Start": {"data": "aGVsbG8="}}),
    ("agentos/Open@1", {"id": "abc", "data": "d29ybGQ="}),
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("agentos"))


@pytest.fixture(scope="session")
def ran(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The world after all that was sent to it. Tests that write take a copy."""
    world = tmp_path_factory.mktemp("ran") / "world"
    where = ("--world", str(world))
    assert in_silence("init", world) == 0
    assert in_silence("apply", folder, "--abi", "agentos", *where) == 0
    for schema, value in SENT:
        assert in_silence("send", schema, json.dumps(value), *where) == 0
    assert in_silence("run", "--until-idle", *where) == 0
    return world
