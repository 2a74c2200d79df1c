"""Lists of a node with an index: its process is killed, cut off, or not ready (SE-20, SE-24)."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from aos.manifest.names import LINEAR
from aos.node.kept_index import KeptIndex
from aos.node.problems import Problem
from tests.cli.shell import here
from tests.copies import copied
from tests.node.test_node_process import Started, command_line, started, wait_until
from tests.read.where.test_lists import check, world
from tests.running_process import is_running

__all__ = ["world"]

PROCESS = b"aos.node.kept_index"
SETTINGS = """
[search."aos/schedule@1"]
every = "set.when.Every.interval"
count = "runs"

[search."aos/linear@1"]
customer = "context.customer"
"""
WHERE = {"workflow": "aos/schedule", "where": "every > 2m order by every desc"}


@pytest.fixture
def indexed(world: Path, tmp_path: Path) -> Path:
    path = copied(world, tmp_path / "indexed")
    (path / "node.toml").write_text(SETTINGS)
    return path


def pids(node: Started) -> list[int]:
    """The processes of the index: children of the fronts."""
    found = []
    for front in node.fronts():
        for each in Path(f"/proc/{front}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # the thread has ended
                pids = each.read_text().split()
                found += [int(pid) for pid in pids if PROCESS in command_line(int(pid))]
    return found


def listed(node: Started, **query: str) -> list[Any] | None:
    """The keys of a list; None while the index is not ready."""
    with httpx.Client(base_url=node.url, trust_env=False, verify=False, timeout=60) as client:
        answer = client.get("/v1/cells", params=query or WHERE)
    if answer.status_code == 503:
        problem = answer.json()
        assert problem["rule"] == "index_is_building", problem
        assert answer.headers["retry-after"] == "1"
        return None
    assert answer.status_code == 200, answer.text
    return [each["key"] for each in answer.json()["cells"]]


def test_lists_of_a_node_with_an_index_are_those_of_a_folder(indexed: Path, tmp_path: Path) -> None:
    """SE-9, SE-20, SE-21, BA-2: names of node.toml, in the folder too."""
    with started(indexed, tmp_path / "log") as node:
        wait_until(lambda: listed(node) is not None)
        for where in (("--node", node.url), ("--world", indexed)):
            check(*where)
            words = ("--workflow", "aos/schedule", "--json", "--where", "every > 2m and count = 0")
            rows = here("inspect", "cells", *words, *where).json["cells"]
            assert [each["key"] for each in rows] == ["c", "d", "e"]
            rows = here("inspect", "intents", *words, *where).json["intents"]
            assert [each["key"] for each in rows] == ["c", "d", "e"], "SE-11"
            found = here("linear", "list", "--json", "--where", "customer = c-1", *where).json
            assert [each["instance"] for each in found["instances"]] == ["i-1"]
            more = ("--where", "every > 2m", "--group-by", "count", "--json")
            counts = here("inspect", "cells", "--workflow", "aos/schedule", *more, *where).json
            assert (counts["count"], counts["groups"]) == (3, [{"value": 0, "count": 3}])
            counts = here("linear", "list", "--group-by", "customer", "--json", *where).json
            assert [each["value"] for each in counts["groups"]] == ["c-0", "c-1"], "SE-16"
            for filters in ({"--status": "RUNNING"}, {"--plan": "report", "--step": "MAKE"}):
                given = [word for pair in filters.items() for word in pair]
                assert here("linear", "list", "--json", *given, *where).json["total"] == 3
        event = ("aos/SchedulePause@1", '{"id": {"$cell": "key"}}')
        longer = ("--workflow", "aos/schedule", "--where", "every > 2m")
        asked = here("batch", "send", *event, *longer, "--dry-run", "--json", "--world", indexed)
        assert [each["key"] for each in asked.json["first"]] == ["c", "d", "e"], asked
        # A condition that the index does not have is answered by reading the cells.
        assert listed(node, workflow="aos/schedule", where='set.event != "x"', limit="2") == [
            "a", "b",
        ]  # fmt: skip
        assert listed(node, workflow="aos/schedule", waits_for="timer") == ["a", "b", "c", "d", "e"]
    index = indexed / "node" / "index" / "values.db"
    assert index.stat().st_mode & 0o077 == 0


def test_a_path_that_the_states_do_not_have_is_an_error_of_the_start(indexed: Path) -> None:
    """SE-21: with all such paths; a workflow that a later manifest may have is none."""
    more = '\n[search."aos/later@1"]\nx = "y"\n'
    (indexed / "node.toml").write_text(
        SETTINGS.replace('count = "runs"', 'count = "run"\nother = "set.no"') + more
    )

    refused = here("node", "--listen", "127.0.0.1:0", "--world", indexed)

    assert (refused.code, refused.out) == (2, ""), refused
    for part in ("node.toml: ", 'search."aos/schedule@1".count', 'search."aos/schedule@1".other'):
        assert part in refused.err
    assert "aos/later@1" not in refused.err


def test_a_condition_that_does_not_fit_is_400_with_its_column(
    indexed: Path, tmp_path: Path
) -> None:
    """SE-12: in each list, with and without the index."""
    with (
        started(indexed, tmp_path / "log") as node,
        httpx.Client(base_url=node.url, trust_env=False, verify=False, timeout=60) as client,
    ):
        wait_until(lambda: listed(node) is not None)
        for where in ("every > x", "evry > 2m", "every >", "(", "set.event < 1 2"):
            for path, workflow in (
                ("/v1/cells", "aos/schedule"),
                ("/v1/intents", "aos/schedule"),
                ("/v1/faults", "aos/schedule"),
                ("/v1/linear/instances", None),
                ("/v1/cells/count", "aos/schedule"),
                ("/v1/linear/instances/count", None),
            ):
                query = {"where": where} | ({} if workflow is None else {"workflow": workflow})
                answer = client.get(path, params=query)
                document = answer.json()
                assert (answer.status_code, document["rule"]) == (400, "where_is_invalid"), document
                assert "where, column " in document["detail"]
        for path, query in (
            ("/v1/cells/count", {"workflow": "aos/schedule", "group_by": "evry"}),
            ("/v1/cells/count", {"group_by": "every"}),
            ("/v1/linear/instances/count", {"group_by": "a b"}),
        ):
            answer = client.get(path, params=query)
            document = answer.json()
            assert (answer.status_code, document["rule"]) == (400, "group_by_is_invalid"), document
            assert "group by, column " in document["detail"]
        paged = client.get("/v1/cells/count", params={"limit": 3})
        assert (paged.status_code, paged.json()["rule"]) == (400, "query_is_invalid"), paged.text
        ordered = client.get("/v1/cells/count", params={"where": "order by key"}).json()
        assert (ordered["status"], ordered["rule"]) == (400, "where_is_invalid"), "SE-16"
        unknown = client.get("/v1/cells", params={"workflow": "aos/none", "where": "key = a"})
        assert unknown.status_code == 404


def test_a_killed_index_comes_back_and_is_exact(indexed: Path, tmp_path: Path) -> None:
    """SE-24"""
    with started(indexed, tmp_path / "log") as node:
        wait_until(lambda: listed(node) == ["e", "d", "c"])
        for n in range(3):
            [pid] = pids(node)
            words = (
                "--every",
                f"{n + 10}m",
                "--event",
                "shop/Sweep@1",
                "--value",
                '{"id": "x", "days": 1}',
            )
            created = here("schedule", "create", f"new-{n}", *words, "--node", node.url)
            assert created.code == 0, created.err
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: pids(node) not in ([], [pid]))
            wait_until(lambda: listed(node) is not None)
            assert listed(node) == [*(f"new-{m}" for m in range(n, -1, -1)), "e", "d", "c"]
        assert "it is started again" in (tmp_path / "log").read_text()


def test_a_front_with_an_index_ends_and_leaves_no_process(indexed: Path, tmp_path: Path) -> None:
    """SE-24"""
    with started(indexed, tmp_path / "log") as node:
        wait_until(lambda: bool(pids(node)))
        before = pids(node)
        [front] = node.fronts()
        os.kill(front, signal.SIGKILL)
        wait_until(lambda: pids(node) not in ([], before))
        wait_until(lambda: not any(map(is_running, before)))
        wait_until(lambda: listed(node) == ["e", "d", "c"])


def test_settings_change_by_a_signal(indexed: Path, tmp_path: Path) -> None:
    """SE-21: a new name is filled in without a restart of the world."""
    with started(indexed, tmp_path / "log") as node:
        wait_until(lambda: listed(node) is not None)
        (indexed / "node.toml").write_text(SETTINGS.replace("count =", "number ="))
        node.process.send_signal(signal.SIGHUP)
        query = {"workflow": "aos/schedule", "where": "number = 0 and key > c"}
        until_s = time.monotonic() + 60
        with httpx.Client(base_url=node.url, trust_env=False, verify=False, timeout=60) as client:
            while (answer := client.get("/v1/cells", params=query)).status_code != 200:
                assert time.monotonic() < until_s, answer.text
                time.sleep(0.1)
        assert [each["key"] for each in answer.json()["cells"]] == ["d", "e"]


def test_before_it_is_ready_it_says_how_far_it_is(tmp_path: Path) -> None:
    """SE-24"""
    index = KeptIndex(tmp_path, lambda: 1, print, index_folder=tmp_path, settings={LINEAR: {}})
    with pytest.raises(Problem) as found:
        index.check_values(LINEAR)

    assert (found.value.status, found.value.rule) == (503, "index_is_building")
