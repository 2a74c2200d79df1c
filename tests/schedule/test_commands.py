"""``aos schedule`` on a folder that a process runs and that none runs, and on a node; kills
(SC-30, SC-40; C-103 to C-105)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from aos.client import Client
from aos.errors import Refused
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.manifest.load import load
from tests.cli.shell import Result, here, start
from tests.node.test_node_process import started, wait_until
from tests.page.form_browser import made
from tests.schedule.stage import SWEEP, nodes, sweep
from tests.test_kill import wait_until_it_answers
from tests.tools import long_form

KILLS = 20 if long_form() else 4
EVENT = ("--event", SWEEP, "--value", '{"days": 3}', "--at-field", "id")


def make_world(path: Path, *schedules: dict[str, Any]) -> Path:
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(load({"m.air.json": json.dumps(nodes(*schedules)).encode()}))
    return path


@pytest.fixture
def world(tmp_path: Path) -> Path:
    return make_world(tmp_path / "world", sweep())


def schedule(*words: str, where: tuple[str | Path, ...]) -> Result:
    return here("schedule", *words, *where)


def answers(world: Path) -> bool:
    return here("schedule", "pause", "nightly", "--world", world, "--json").out.find('"failed"') > 0


@pytest.fixture
def running(world: Path) -> Iterator[Path]:
    process = start("run", "--world", world)
    try:
        wait_until(lambda: answers(world))
        yield world
    finally:
        process.kill()
        process.wait()


def check_commands(*where: str | Path) -> None:
    """Create, show, pause, resume, trigger and delete, and the refusals."""
    words = ("--cron", "30 2 * * 1", "--tz", "Europe/Berlin", *EVENT)
    made = schedule("create", "mine", *words, where=where)
    assert made.code == 0, made.err
    assert "when      30 2 * * 1 (Europe/Berlin)" in made.out
    assert len(re.findall(r"20\d\d-\d\d-\d\dT0[01]:30:00", made.out)) == 6

    again = schedule("create", "mine", "--every", "6h", *EVENT, where=where)
    assert (again.code, "there is a schedule mine already" in again.err) == (1, True)
    other = schedule("create", "mine", "--every", "6h", *EVENT, "--replace", where=where)
    assert (other.code, "every 6 h" in other.out) == (0, True)

    assert "state     paused" in schedule("pause", "mine", where=where).out
    assert "state     next" in schedule("resume", "mine", where=where).out
    shown = schedule("trigger", "mine", "--json", where=where).json
    assert (shown["runs"], shown["recent"][0]["kind"]) == (1, "triggered")
    listed = schedule("list", "--json", where=where).json["schedules"]
    assert [each["id"] for each in listed] == ["mine", "nightly"]
    assert "mine  every 6 h" in schedule("list", where=where).out
    assert schedule("show", "mine", "--json", where=where).json == shown

    for wrong, code, said in (
        (("create", "x", "--cron", "0 0 30 2 *", *EVENT), 2, "cron: "),
        (("create", "x", "--every", "1h", "--event", "a/B@1"), 2, "has no schema a/B@1"),
        (("create", "x"), 2, "expected either cron or every_ms"),
        (("create", "nightly", "--every", "1h", *EVENT, "--replace"), 1, "(change it there)"),
        (("delete", "nightly"), 1, "(change it there)"),
        (("pause", "nothing"), 1, "nothing"),
        (("show", "nothing"), 1, "there is no schedule 'nothing'"),
    ):
        refused = schedule(*wrong, where=where)
        assert (refused.code, said in refused.err) == (code, True), (wrong, refused)
    assert schedule("delete", "mine", where=where).out == "mine is deleted\n"
    assert len(schedule("list", "--json", where=where).json["schedules"]) == 1


def test_commands_on_a_world_that_a_process_runs(running: Path) -> None:
    check_commands("--world", running)


def test_a_token_schedules_only_the_events_that_it_may_send(world: Path, tmp_path: Path) -> None:
    """SC-40, N-131: on each way to define a schedule."""
    narrow = made(world, "narrow", "read", "operate", "send:aos/ScheduleSet@1")
    full = made(world, "full", "send:aos/ScheduleSet@1", f"send:{SWEEP}", "read")
    body = {"id": "mine", "every_ms": 3_600_000, "event": SWEEP, "value": {"days": 1}}
    body["at_field"] = "id"
    set_: dict[str, Any] = {
        "id": "mine", "when": {"$tag": "Every", "$value": {"interval": "1h"}}, "start": None,
        "end": None, "catchup": "1h", "overlap": {"$tag": "allow"}, "jitter": "0s",
        "paused": False, "by_manifest": False, "event": SWEEP, "value": {}, "at_field": "id",
    }  # fmt: skip
    raw = {"schema": "aos/ScheduleSet@1", "value": set_}
    batch = {"action": "send", "event": "aos/ScheduleSet@1", "value": set_, "workflow": "schedule"}
    with (
        started(world, tmp_path / "log") as node,
        httpx.Client(base_url=node.url, trust_env=False, timeout=60) as client,
    ):

        def ask(token: str, path: str, content: dict[str, Any]) -> tuple[int, Any]:
            headers = {"authorization": f"Bearer {token}"}
            found = client.post(path, json=content, headers=headers)
            return found.status_code, found.json()

        for path, content in (
            ("/v1/schedules/create", body), ("/v1/events", raw), ("/v1/batches", batch),
        ):  # fmt: skip
            status, problem = ask(narrow, path, content)
            assert (status, problem["rule"]) == (403, "token_does_not_allow"), path
            assert SWEEP in problem["detail"]
        _, many = ask(narrow, "/v1/events", {"items": [raw]})
        assert many["items"][0]["problem"]["rule"] == "token_does_not_allow"
        assert ask(full, "/v1/schedules/create", body)[0] == 200
        assert ask(full, "/v1/events", {**raw, "value": {**set_, "id": "odd"}})[0] == 422


def test_commands_on_a_node_and_its_clients(world: Path, tmp_path: Path) -> None:
    with started(world, tmp_path / "log") as node:
        check_commands("--node", node.url)
        with Client(node.url) as client:
            made = client.schedule(
                "create", id="mine", every_ms=3_600_000, event=SWEEP, value={"days": 1},
                at_field="id",
            )  # fmt: skip
            assert made["id"] == "mine"
            with pytest.raises(Refused):
                client.schedule("command", id="nightly", action="delete")
            client.schedule("command", id="mine", action="delete")


def test_commands_without_a_process_wait_for_one(world: Path) -> None:
    where = ("--world", world)

    made = schedule("create", "mine", "--every", "1h", *EVENT, where=where)
    assert (made.code, made.out) == (0, "record 3\n")
    assert "no process runs this world" in made.err
    assert schedule("list", "--json", where=where).json == {"schedules": []}

    assert here("run", "--until-waiting", *where).code == 0
    shown = schedule("list", "--json", where=where).json["schedules"]
    assert [each["id"] for each in shown] == ["mine", "nightly"]
    assert schedule("delete", "mine", "--json", where=where).json["answered"] is False
    assert here("run", "--until-waiting", *where).code == 0
    assert len(schedule("list", "--json", where=where).json["schedules"]) == 1
    assert here("replay", *where).code == 0


def test_a_world_without_the_package_has_no_schedules(tmp_path: Path) -> None:
    init_world(tmp_path / "world")
    where = ("--world", tmp_path / "world")

    for words in (("list",), ("show", "x"), ("create", "x", "--every", "1h", *EVENT)):
        refused = schedule(*words, where=where)
        assert refused.code == 2
        assert 'add "uses": ["aos/schedule@1"]' in refused.err
    wrong = schedule("create", "x", "--every", "1h", "--value", "{", where=where)
    assert (wrong.code, "--value" in wrong.err) == (2, True)


def test_each_second_is_an_event_once_over_many_kills(tmp_path: Path) -> None:
    """SC-3, SC-10: also those while no process ran."""
    world = make_world(tmp_path / "world", sweep(id="tick", every_ms=1_000))
    for kill in range(KILLS):
        process = start("run", "--world", world)
        wait_until_it_answers(world, process)
        time.sleep(0.8 + 0.31 * kill % 2)
        process.kill()
        process.wait()
        time.sleep(0.4)
    assert here("run", "--until-waiting", "--world", world).code == 0

    lines = here("inspect", "journal", "--kind", "step", "--json", "--world", world).lines
    due = [
        str(event["value"]["id"]).partition("@")[2]
        for each in lines
        for event in each["events"]
        if event["schema"] == SWEEP
    ]
    assert len(due) >= KILLS
    seconds = [int(each[-3:-1]) for each in due]
    assert len(set(due)) == len(due)
    assert {(b - a) % 60 for a, b in pairwise(seconds)} == {1}
    assert here("replay", "--world", world).code == 0
