"""Operators end and remove cells of the packages: instances of plans, business keys, and schedules
(L-52, L-53, SC-25)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.host.world import checks
from aos.manifest.load import load
from tests.cli.shell import Result, here
from tests.node.test_node_process import WAIT_S, started
from tests.schedule.stage import SWEEP, nodes

PLAN: Final = "report"
INSTANCE, KEY, SCHEDULE = "aos/linear@1", "aos/linear.bizkey@1", "aos/schedule@1"
OWN: Final = "cell_has_own_command"
EVENT: Final = {"id": "x", "days": 1}
OWNED: Final = {"id": "own", "every_ms": 60_000, "event": SWEEP, "value": EVENT}


def make_world(path: Path) -> Path:
    """A world with the schedule ``own`` of its manifest."""
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(load({"m.air.json": json.dumps(nodes(OWNED)).encode()}))
    return path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Instances i-1 to i-5 run, i-1 to i-3 with a business key; the schedule mine is a user's."""
    path = make_world(tmp_path_factory.mktemp("ended") / "world")
    for number in range(1, 6):
        key = ("--biz-key", f"k-{number}") if number < 4 else ()
        aos(path, "linear", "start", PLAN, "--id", f"i-{number}", *key)
    event = ("--event", SWEEP, "--value", json.dumps(EVENT))
    aos(path, "schedule", "create", "mine", "--every", "1h", *event)
    run(path)
    return path


def aos(world: Path, *words: str, code: int = 0) -> Result:
    found = here(*words, "--world", world)
    assert found.code == code, found
    return found


def run(world: Path) -> None:
    aos(world, "run", "--until-waiting")


def document(world: Path, instance: str) -> Any:
    return aos(world, "linear", "show", instance, "--json").json


def cells(world: Path, workflow: str) -> list[str]:
    return [
        str(each["key"])
        for each in aos(world, "inspect", "cells", "--workflow", workflow, "--json").json["cells"]
    ]


def test_a_running_instance_is_canceled_and_not_ended(world: Path) -> None:
    """L-52: the refusal names the command, which frees the business key."""
    for action in ("end", "remove"):
        found = aos(world, "cells", action, INSTANCE, "i-1", code=1)
        assert "(aos linear cancel i-1)" in found.err
    assert document(world, "i-1")["status"] == "RUNNING"

    aos(world, "linear", "cancel", "i-1", "--reason", "ordered twice")
    run(world)
    assert document(world, "i-1")["status"] == "CANCELED"
    assert "k-1" not in cells(world, KEY)
    aos(world, "linear", "start", PLAN, "--id", "i-1b", "--biz-key", "k-1")
    run(world)
    assert document(world, "i-1b")["status"] == "RUNNING"


def test_an_instance_that_has_ended_keeps_its_status_and_can_be_removed(world: Path) -> None:
    """L-52"""
    aos(world, "linear", "cancel", "i-2")
    run(world)
    for status in ("completed", "failed"):
        found = aos(world, "cells", "end", INSTANCE, "i-2", "--as", status, code=1)
        assert "has ended: CANCELED" in found.err
    aos(world, "cells", "remove", INSTANCE, "i-2")
    assert "i-2" not in cells(world, INSTANCE)
    aos(world, "linear", "start", PLAN, "--id", "i-2", "--biz-key", "k-2")
    run(world)
    assert document(world, "i-2")["status"] == "RUNNING"


def test_an_instance_that_has_not_begun_is_not_removed(world: Path) -> None:
    """L-52, L-53: its start waits in its mailbox, and the business key is reserved for it."""
    aos(world, "linear", "start", PLAN, "--id", "i-6")
    found = aos(world, "cells", "remove", INSTANCE, "i-6", code=1)
    assert "(aos linear cancel i-6)" in found.err
    run(world)
    assert document(world, "i-6")["status"] == "RUNNING"


def test_the_cell_of_a_business_key_is_removed_only_when_no_instance_runs(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L-53: a running instance keeps its key, and a key without one is freed."""
    for action in ("end", "remove"):
        found = aos(world, "cells", action, KEY, "k-3", code=1)
        assert "(aos linear cancel i-3)" in found.err
    with monkeypatch.context() as earlier:
        earlier.setattr(checks, "refused_command", lambda *_: None)
        aos(world, "cells", "remove", INSTANCE, "i-3")
    assert "k-3" in cells(world, KEY), "an earlier release leaked the key so"

    found = aos(world, "cells", "end", KEY, "k-3", code=1)
    assert f"(aos cells remove {KEY} k-3)" in found.err
    aos(world, "cells", "remove", KEY, "k-3")
    aos(world, "linear", "start", PLAN, "--id", "i-3", "--biz-key", "k-3")
    run(world)
    assert document(world, "i-3")["status"] == "RUNNING"


def test_a_schedule_is_deleted_and_not_ended(world: Path) -> None:
    """SC-25: ended it would stay without a next time; removal is its deletion."""
    found = aos(world, "cells", "end", SCHEDULE, "mine", code=1)
    assert "(aos schedule delete mine)" in found.err
    shown = aos(world, "schedule", "show", "mine", "--json").json
    assert len(shown["next"]) == 5

    aos(world, "cells", "remove", SCHEDULE, "mine")
    assert cells(world, SCHEDULE) == ["own"]


def test_a_schedule_of_the_manifest_is_neither_ended_nor_removed(world: Path) -> None:
    """SC-25, SC-32"""
    for action in ("end", "remove"):
        found = aos(world, "cells", action, SCHEDULE, "own", code=1)
        assert "a changed manifest removes it (aos schedule pause own)" in found.err


def test_a_dry_run_names_the_command_of_the_package(world: Path) -> None:
    """C-26b"""
    found = aos(world, "cells", "end", INSTANCE, "--all", "--dry-run")
    assert "aos linear cancel INSTANCE" in found.err
    assert (
        "aos schedule delete ID"
        in aos(world, "cells", "remove", SCHEDULE, "--all", "--dry-run").err
    )


def test_ids_that_look_like_options_are_named_so_that_the_command_reads_them(world: Path) -> None:
    """L-52"""
    aos(world, "linear", "start", PLAN, "--id", "-x y")
    run(world)
    found = aos(world, "cells", "end", INSTANCE, '"-x y"', code=1)
    assert "(aos linear cancel -- '-x y')" in found.err


@pytest.fixture
def api(tmp_path: Path) -> Iterator[httpx.Client]:
    path = make_world(tmp_path / "world")
    key = path / "keys" / "operator.key"
    scopes = ("--scope", "operate", "--scope", "send:aos/*")
    token = aos(path, "token", "create", "tests", *scopes, "--json").json["token"]
    with (
        started(path, tmp_path / "log", "--operator-key", str(key)) as node,
        httpx.Client(
            base_url=node.url, timeout=WAIT_S, trust_env=False,
            headers={"Authorization": f"Bearer {token}"},
        ) as client,
    ):  # fmt: skip
        yield client


def test_a_node_refuses_with_the_command_of_the_package(api: httpx.Client) -> None:
    """L-52, SC-25, N-118"""
    start = api.post("/v1/linear/start", json={"instance": "i", "plan": PLAN, "biz_key": "k"})
    assert start.status_code == 200, start.text
    for workflow, key in ((INSTANCE, "i"), (KEY, "k"), (SCHEDULE, "own")):
        for body in ({"action": "end", "status": "completed"}, {"action": "remove"}):
            answer = api.post("/v1/commands", json=body | {"workflow": workflow, "key": key})
            assert (answer.status_code, answer.json()["rule"]) == (409, OWN), answer.text
    assert api.post("/v1/linear/cancel", json={"instance": "i"}).status_code == 200
    removed = api.post("/v1/commands", json={"action": "remove", "workflow": INSTANCE, "key": "i"})
    assert removed.status_code == 200, removed.text
    again = api.post("/v1/linear/start", json={"instance": "i", "plan": PLAN, "biz_key": "k"})
    assert again.status_code == 200, again.text
