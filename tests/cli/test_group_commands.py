"""Commands on the folder of a group (spec/groups.md, GR-56 on)."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.errors import AosError
from aos.host.apply.manifest_files import load_manifest_files
from aos.host.door.remote import ask_running
from aos.host.door.writer import open_writer
from aos.host.folder.group import GroupFolder, open_group
from aos.host.folder.group_making import GroupPlan, init_group
from aos.host.folder.reader import open_reader
from aos.host.transfer.adopting import adopt_world
from aos.manifest.effective import Effective
from aos.manifest.placement import Shard
from aos.manifest.shards import shard_of_key, with_shard
from aos.store.lock import WorldLock
from aos.values.cbor import encode
from tests.cli.shell import here, run, start
from tests.core.governed import block
from tests.host import puppet
from tests.host.rig import seeded
from tests.memory_world import route
from tests.run_seed import rotated
from tests.running_process import is_running

TIMEOUT_S = 90.0
NAMES = ("000", "001", "002")


def write(folder: Path, **manifest: Any) -> Path:
    folder.mkdir(parents=True)
    for name, content in puppet.files(**manifest).items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="session")
def group_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("group")
    init_group(folder / "group", GroupPlan(shards=3), sources=seeded())
    manifest = write(folder / "manifest")
    assert here("apply", manifest, "--world", folder / "group").code == 0
    return folder / "group"


@pytest.fixture
def group(group_template: Path, tmp_path: Path) -> GroupFolder:
    """A group with the puppet's manifest in force."""
    path = tmp_path / "group"
    shutil.copytree(group_template, path)
    for name in NAMES:
        adopt_world(path / name)
    return open_group(path)


def manifests(group: GroupFolder) -> list[Effective | None]:
    in_force = []
    for name in group.names:
        with open_reader(group.path / name) as reader:
            in_force.append(reader.manifest)
    return in_force


def lines_of(path: Path, keys: int) -> Path:
    events = [{"schema": puppet.DO, "value": {"key": f"k-{key}"}} for key in range(keys)]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def eventually(holds: Callable[[], Any], reason: str) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < until, reason
        time.sleep(0.05)


# aos apply


def test_a_manifest_gets_to_every_shard_as_its_own(group: GroupFolder, tmp_path: Path) -> None:
    """GR-65: also one that only some shards have"""
    assert [manifest and manifest.shard for manifest in manifests(group)] == [
        Shard(0, 3), Shard(1, 3), Shard(2, 3),
    ]  # fmt: skip
    second = write(tmp_path / "second", version=2)

    tried = here("apply", second, "--dry-run", "--world", group.path)
    applied = here("apply", second, "--world", group.path)
    again = here("apply", second, "--world", group.path, "--json")

    assert "nothing was changed; all 3 shards can have it" in tried.out
    assert tried.code == applied.code == again.code == 0
    assert applied.out.splitlines()[-1] == "all 3 shards have it"
    assert Counter(line.split()[1] for line in applied.out.splitlines()[:-1]) == {"applied": 3}
    assert [(row["shard"], row["in_force"], row["applied"]) for row in again.json["shards"]] == [
        (name, True, False) for name in NAMES
    ]


def test_a_command_that_is_killed_between_two_shards_is_finished_by_the_same_command(
    group: GroupFolder, tmp_path: Path
) -> None:
    """GR-66, GR-67"""
    second = write(tmp_path / "second", version=2, routing={"subscriptions": []})
    before = manifests(group)
    with WorldLock(group.shard_path(1)):  # it waits for shard 001
        process = start("apply", second, "--world", group.path)
        eventually(lambda: manifests(group)[0] != before[0], "the first shard has it")
        process.send_signal(signal.SIGKILL)
        process.wait()

    assert manifests(group)[1:] == before[1:]
    tried = here("apply", second, "--dry-run", "--world", group.path)
    assert "the manifests of the group differ: 000 have it, 001, 002 do not" in tried.err
    sent = here("send", "host/None@1", "{}", "--world", group.path)
    assert sent.code == 1, "shard 0 has the manifest by which the event was routed"
    finished = here("apply", second, "--world", group.path)
    assert finished.code == 0
    assert finished.out.splitlines() == [
        "000: already in force",
        *(line for line in finished.out.splitlines() if "applied as record" in line),
        "all 3 shards have it",
    ]
    assert {manifest and manifest.manifest_hash for manifest in manifests(group)} != {
        manifest and manifest.manifest_hash for manifest in before
    }


def test_while_manifests_differ_a_refusal_of_a_shard_is_busy(
    group: GroupFolder, tmp_path: Path
) -> None:
    """GR-69: only shard 1 has a manifest that takes no event of this schema."""
    second = write(
        tmp_path / "second",
        routing={"subscriptions": [route(puppet.DO, puppet.PUPPET, "key")], "ingress": []},
    )
    other = next(key for key in map(str, range(100)) if shard_of(key) == 1)
    first = next(key for key in map(str, range(100)) if shard_of(key) == 0)
    with open_writer(group.shard_path(1)) as writer:
        loaded = load_manifest_files(second)
        effective = with_shard(loaded.effective, 1, 3)
        assert isinstance(
            writer.apply(dataclasses.replace(loaded, effective=effective)).answer, Admitted
        )

    refused = here("send", puppet.DO, json.dumps({"key": other}), "--world", group.path)
    admitted = here("send", puppet.DO, json.dumps({"key": first}), "--world", group.path)

    assert refused.code == 4
    assert "the manifests of this group's shards differ" in refused.err
    assert admitted.code == 0


def test_a_shard_in_the_way_keeps_the_manifest_from_all(group: GroupFolder, tmp_path: Path) -> None:
    """GR-65"""
    key = next(key for key in map(str, range(100)) if shard_of(key) == 2)
    event = {"key": key, "out": base64.b64encode(puppet.asks("hello")).decode()}
    assert here("send", puppet.DO, json.dumps(event), "--world", group.path).code == 0
    assert here("run", "--until-waiting", "--world", group.shard_path(2)).code == 0
    before = manifests(group)

    applied = here("apply", write(tmp_path / "second", version=2), "--world", group.path)

    assert applied.code == 1
    assert "shard 002" in applied.out
    assert "shard 000" not in applied.out
    assert "nothing was changed" in applied.out
    assert manifests(group) == before


def test_a_manifest_that_a_group_cannot_have_is_refused(group: GroupFolder, tmp_path: Path) -> None:
    """GR-30, GR-33, GR-68"""
    before = manifests(group)
    governed = write(tmp_path / "governed", governance=block("ann", quorum=1))
    scoped = write(tmp_path / "scoped")
    nodes = json.loads((scoped / "m.air.json").read_text())
    for node in nodes:
        if node.get("name") == puppet.ECHO:
            node["idempotency_scope"] = "world"
    (scoped / "m.air.json").write_text(json.dumps(nodes))

    for manifest, reason in (
        (governed, "manifest/governance: expected none, because a group is not governed"),
        (scoped, "host/echo@1/idempotency_scope: "),
    ):
        applied = here("apply", manifest, "--world", group.path)
        assert applied.code == 1
        assert "a group cannot have this manifest" in applied.err
        assert reason in applied.err
    assert manifests(group) == before


def test_a_shard_takes_no_manifest_of_its_own(group: GroupFolder, tmp_path: Path) -> None:
    """GR-72"""
    second = write(tmp_path / "second", version=2)
    for words in (("apply",), ("apply", "--dry-run"), ("gov", "propose")):
        refused = here(*words, second, "--world", group.shard_path(1))
        assert refused.code == 1
        assert "expected the manifest of shard 1 of 3, found a world in no group" in refused.err
        assert f"aos apply PATH --world {group.path}" in refused.err


# aos send


def shard_of(key: str) -> int:
    return shard_of_key(encode(key), 3)


def test_events_go_to_the_shards_of_their_keys(group: GroupFolder, tmp_path: Path) -> None:
    """GR-68"""
    lines = lines_of(tmp_path / "events", keys=40)
    by_shard = Counter(f"00{shard_of(f'k-{key}')}" for key in range(40))

    sent = here("send", "--jsonl", lines, "--world", group.path)
    again = here("send", "--jsonl", lines, "--json", "--world", group.path)
    one = here("send", puppet.DO, '{"key": "k-1"}', "--id", "once", "--world", group.path)
    twice = here("send", puppet.DO, '{"key": "k-1"}', "--id", "once", "--world", group.path)

    shards = ", ".join(f"{name}: {by_shard[name]}" for name in NAMES)
    assert sent.out == f"40 admitted (by shard: {shards})\n"
    assert [row["shard"] for row in again.lines] == [
        f"00{shard_of(f'k-{key}')}" for key in range(40)
    ]
    assert {row["answer"] for row in again.lines} == {"admitted"}
    assert one.out.startswith(f"00{shard_of('k-1')}:")
    assert one.out.rstrip().endswith("→ host/puppet@1 k-1")
    assert twice.out.rstrip().endswith("sent before")


def test_an_event_that_is_not_valid_is_refused_by_shard_0(group: GroupFolder) -> None:
    """GR-23, GR-68"""
    refused = here("send", puppet.DO, '{"word": 3}', "--world", group.path)
    unknown = here("send", "host/None@1", "{}", "--world", group.path)

    assert refused.code == unknown.code == 1
    assert refused.err.startswith("aos: 000: host/Do@1: ")
    assert unknown.err.startswith("aos: 000: ")


def test_an_event_for_workflows_in_each_shard_goes_to_every_shard(tmp_path: Path) -> None:
    """GR-22, GR-68"""
    routing = {
        "subscriptions": [route(puppet.DO, puppet.PUPPET, "key")],
        "shards": [{"workflow": puppet.PUPPET, "shard": "each"}],
    }
    init_group(tmp_path / "group", GroupPlan(shards=2))
    manifest = write(tmp_path / "manifest", routing=routing)
    assert here("apply", manifest, "--world", tmp_path / "group").code == 0

    sent = here("send", puppet.DO, '{"key": "a"}', "--world", tmp_path / "group")
    as_json = here("send", puppet.DO, '{"key": "a"}', "--json", "--world", tmp_path / "group")

    assert [line[:4] for line in sent.out.splitlines()] == ["000:", "001:"]
    [row] = as_json.lines
    assert row["answer"] == "admitted"
    assert [(part["shard"], part["answer"]) for part in row["shards"]] == [
        ("000", "admitted"), ("001", "admitted"),
    ]  # fmt: skip


# aos run


def cells(group: GroupFolder) -> int:
    return sum(_cells(group.path / name) for name in group.names)


def _cells(world: Path) -> int:
    with open_reader(world) as reader:
        return len(reader.state.cells)


def test_a_run_runs_every_shard_and_ends_when_all_are_idle(
    group: GroupFolder, tmp_path: Path
) -> None:
    """GR-60, GR-61"""
    assert here("send", "--jsonl", lines_of(tmp_path / "l", 30), "--world", group.path).code == 0

    ran = run("run", "--until-idle", "--world", group.path)
    again = run("run", "--until-idle", "--json", "--world", group.path)

    assert ran.code == again.code == 0
    assert [line[:14] for line in ran.out.splitlines()] == [f"{name}: idle at r" for name in NAMES]
    assert [row["shard"] for row in again.json["shards"]] == list(NAMES)
    assert sum(row["cells"] for row in again.json["shards"]) == 30


def processes_of(group: GroupFolder) -> dict[str, int]:
    """The pids of the processes that run the shards, of those that answer."""
    pids = {}
    for name in group.names:
        with contextlib.suppress(AosError, ValueError):
            ask_running(group.path / name, "status")
            pids[name] = json.loads((group.path / name / "lock").read_text())["pid"]
    return pids


def test_a_shard_that_is_killed_is_started_again_and_the_others_stay(group: GroupFolder) -> None:
    """GR-62, GR-63: and all end in order if the process of the group is killed"""
    process = start("run", "--world", group.path, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: len(processes_of(group)) == 3, "all shards run")
        first = processes_of(group)
        second = here("run", "--until-idle", "--world", group.path)
        alone = here("run", "--until-idle", "--world", group.shard_path(0))
        os.kill(first["001"], signal.SIGKILL)
        eventually(lambda: processes_of(group).get("001") not in (None, first["001"]), "restarted")

        assert second.code == alone.code == 4
        assert "another node hosts these worlds" in second.err
        assert "the world is written by pid" in alone.err
        sent = here("send", puppet.DO, '{"key": "ada"}', "--world", group.path)
        assert sent.code == 0
        now = processes_of(group)
        assert [now[name] == first[name] for name in NAMES] == [True, False, True]
    finally:
        process.kill()
        process.wait()
    eventually(lambda: not processes_of(group), "the shards have ended")
    eventually(lambda: not any(map(is_running, now.values())), "their processes have ended")
    assert here("verify", "--world", group.shard_path(1)).code == 0


def test_a_group_with_a_shard_that_cannot_be_started_stops_in_order(group: GroupFolder) -> None:
    """GR-62"""
    data = group.shard_path(2) / "store" / "data.mdb"
    data.write_bytes(b"\0" * 8192)

    ran = run("run", "--until-idle", "--world", group.path)

    assert ran.code == 3
    assert "aos: the shard 002 does not run (exit code 3" in ran.err


def test_a_group_without_one_of_its_shards_does_not_run(group: GroupFolder) -> None:
    """GR-53"""
    shutil.rmtree(group.shard_path(1))

    for words in (
        ("run",),
        ("send", puppet.DO, '{"key": "k-0"}'),
        ("send", puppet.DO, '{"key": "k-1"}'),
    ):
        refused = here(*words, "--world", group.path)
        if words[0] == "run" or refused.code:
            assert refused.code == 4
            assert "001: a shard of the group is missing: it has 3" in refused.err
    assert cells(dataclasses.replace(group, worlds=group.worlds[:1])) == 0


def test_a_signal_ends_a_run_in_order(group: GroupFolder) -> None:
    """GR-61"""
    process = start("run", "--world", group.path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: len(processes_of(group)) == 3, "all shards run")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert [line[:16] for line in out.decode().splitlines()] == [
        f"{name}: stopped at " for name in NAMES
    ]


# Reading


@pytest.mark.parametrize("command", [("run", "--until-idle"), ("node",)])
def test_a_root_in_the_folder_of_a_group_is_refused(
    group: GroupFolder, command: tuple[str, ...]
) -> None:
    """AG-60: effects of one shard read no keys of another."""
    started = here(*command, "--host-root", group.path / NAMES[1], "--world", group.path)
    assert (started.code, "expected a folder apart from the world" in started.err) == (2, True)


@pytest.fixture(scope="session")
def group_lived_in(group_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group to look at: 12 cells that have counted; one that waits for an effect, one that has
    failed."""
    path = tmp_path_factory.mktemp("lived-in") / "group"
    shutil.copytree(group_template, path)
    for name in NAMES:
        adopt_world(path / name)
    events = [{"schema": puppet.DO, "value": {"key": f"k-{key}"}} for key in range(12)]
    asking = base64.b64encode(puppet.asks("hello")).decode()
    events.append({"schema": puppet.DO, "value": {"key": "wait", "out": asking}})
    events.append({"schema": puppet.DO, "value": {"key": "trap", "trap": True}})
    lines = path.parent / "lines"
    lines.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert here("send", "--jsonl", lines, "--world", path).code == 0
    for name in NAMES:
        assert here("run", "--until-waiting", "--world", path / name).code == 0
    return path


def documents(world: Path, *words: str) -> Any:
    shown = here(*words, "--json", "--world", world)
    assert shown.code == 0, shown.err
    return shown.json


KEYS = sorted(f"k-{key}" for key in range(12))


@pytest.mark.long
@pytest.mark.parametrize("order", ["key", "age", "activity", "mail"])
@pytest.mark.parametrize("limit", rotated([1, 5, 20]))
def test_a_list_of_cells_has_those_of_all_shards_in_its_order(
    order: str, limit: int, group_lived_in: Path
) -> None:
    """GR-81: the pages together are the whole list, by offset and by place"""
    words = ("inspect", "cells", "--sort", order)
    whole = documents(group_lived_in, *words)
    alone = [
        {"shard": name, **row}
        for name in NAMES
        for row in documents(group_lived_in / name, *words)["cells"]
    ]

    def place(row: Any) -> Any:
        ranks = {"key": 0, "age": row["last_active_ns"], "activity": -row["last_active_ns"]}
        return ranks.get(order, -row["mailbox"]), row["workflow"], bytes.fromhex(row["key_cbor"])

    assert whole["cells"] == sorted(alone, key=place)
    assert whole["total"] == whole["looked_at"] == len(alone) == 14
    assert whole["next_offset"] is whole["next_after"] is None
    by_offset: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        page = documents(group_lived_in, *words, "--limit", str(limit), "--offset", str(offset))
        by_offset += page["cells"]
        offset = page["next_offset"]
    by_place: list[Any] = []
    after: tuple[str, ...] = ()
    while True:
        page = documents(group_lived_in, *words, "--limit", str(limit), *after)
        by_place += page["cells"]
        if page["next_after"] is None:
            break
        after = ("--after", page["next_after"])
    assert by_offset == by_place == whole["cells"]


def test_counts_are_those_of_all_shards(group_lived_in: Path) -> None:
    """GR-82"""
    counts = documents(group_lived_in, "inspect", "cells", "--count", "--group-by", "status")
    filtered = documents(group_lived_in, "inspect", "cells", "--count", "--where", 'key ^= "k-"')

    assert counts["count"] == 14
    assert sum(part["count"] for part in counts["groups"]) == 14
    assert {part["value"] for part in counts["groups"]} >= {"failed", "waiting"}
    assert filtered["count"] == 12


def test_one_thing_is_found_in_its_shard(group_lived_in: Path) -> None:
    """GR-83"""
    shard = f"00{shard_of('wait')}"
    [row] = documents(group_lived_in, "inspect", "intents")["intents"]

    cell = documents(group_lived_in, "inspect", "cell", "puppet", "wait")
    intent = documents(group_lived_in, "inspect", "intent", row["intent"])
    trace = documents(group_lived_in, "trace", "puppet", "wait")
    drawn = here("trace", "puppet", "wait", "--world", group_lived_in)
    [fault] = documents(group_lived_in, "inspect", "faults")["faults"]

    assert row["shard"] == cell["shard"] == intent["shard"] == trace["shard"] == shard
    assert fault["shard"] == f"00{shard_of('trap')}"
    alone = documents(group_lived_in / shard, "inspect", "cell", "puppet", "wait")
    assert set(cell) == {"shard", *alone}
    assert cell["last_record"] == alone["last_record"]
    assert "asks host/echo@1" in drawn.out
    assert f"shard\t{shard}" in here("inspect", "cell", "puppet", "wait", "-w", group_lived_in).out
    listed = here("inspect", "cells", "--world", group_lived_in).out.splitlines()
    assert listed[0].startswith("shard\tworkflow\tkey")
    assert len(listed) == 15
    absent = here("trace", "puppet", "none", "--world", group_lived_in)
    assert "is absent" in absent.out
    unknown = here("inspect", "cell", "puppet", "none", "--world", group_lived_in)
    assert unknown.code == 2
    assert "there is no such cell" in unknown.err


def test_the_world_of_a_group_is_a_table_of_its_shards(
    group_lived_in: Path, tmp_path: Path
) -> None:
    """GR-84: and says that manifests differ"""
    rows = documents(group_lived_in, "inspect", "world")["shards"]
    assert [row["shard"] for row in rows] == list(NAMES)
    assert sum(row["cells"]["waiting"] for row in rows) >= 1
    assert "differ" not in here("inspect", "world", "--world", group_lived_in).err

    path = tmp_path / "group"
    shutil.copytree(group_lived_in, path)
    adopt_world(path / "001")
    loaded = load_manifest_files(write(tmp_path / "second", version=2))
    with open_writer(path / "001") as writer:
        effective = with_shard(loaded.effective, 1, 3)
        writer.apply(dataclasses.replace(loaded, effective=effective), mode="pin")
    shown = here("inspect", "world", "--world", path)
    assert "the manifests of the shards differ" in shown.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("inspect", "cells", "--at", "3"), "at: each shard of a group numbers its own records"),
        (("inspect", "record", "3"), "seq: each shard of a group numbers its own records"),
        (("inspect", "journal"), "found a group of worlds (name one of them: --world "),
        (("inspect", "cells", "--where", 'status = "waiting" order by key'), "does not order its"),
        (("inspect", "cells", "--limit", "9000", "--offset", "2000"), "at most 10000 together"),
        (("trace", "3"), "the shards 000, 001, 002 have it (name one of them: --world DIR/000"),
        (("clock",), "a group has no such document"),
        (("snapshot",), "found a group of worlds"),
        (("gov", "list"), "a group has no such document"),
        (("fork", "copy", "--at", "1"), "found a group of worlds"),
        (("inspect", "cells", "--workflow", "none"), "none"),
    ],
)  # fmt: skip
def test_a_group_says_in_words_what_it_cannot_answer(
    words: tuple[str, ...], reason: str, group_lived_in: Path, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    """GR-54, GR-85"""
    monkeypatch.chdir(tmp_path)
    refused = here(*words, "--world", group_lived_in)

    assert refused.code in (1, 2)
    assert reason in refused.err


def test_a_history_is_checked_in_each_shard(group: GroupFolder, tmp_path: Path) -> None:
    """GR-87: also in those after one that is damaged"""
    verified = here("verify", "--json", "--world", group.path)
    replayed = here("replay", "--json", "--world", group.path)
    exported = here("export", tmp_path / "copy.aos", "--world", group.path)

    assert verified.code == replayed.code == exported.code == 0
    for document in (verified.json, replayed.json):
        assert [row["shard"] for row in document["shards"]] == list(NAMES)
    assert all(row["sound"] for row in verified.json["shards"])
    for name in NAMES:
        assert here("verify", tmp_path / f"copy.{name}.aos").code == 0

    (group.shard_path(1) / "store" / "data.mdb").write_bytes(b"\0" * 8192)
    damaged = here("verify", "--json", "--world", group.path)
    assert damaged.code == 3
    assert [row["sound"] for row in damaged.json["shards"]] == [True, False, True]
    alone = here("verify", "--checkpoint", tmp_path / "none", "--world", group.path)
    assert "--checkpoint: expected a world, found a group" in alone.err


def test_commands_about_cells_and_effects_go_to_their_shards(
    group_lived_in: Path, tmp_path: Path
) -> None:
    """GR-88, GR-89"""
    path = tmp_path / "group"
    shutil.copytree(group_lived_in, path)
    for name in NAMES:
        adopt_world(path / name)
    [intent] = documents(path, "inspect", "intents")["intents"]
    here_in = ("--world", path)

    settled = here("effects", "settle", intent["intent"], "--ok", '{"word": "hi"}', *here_in)
    retried = here("cells", "retry", "puppet", "trap", "--skip", *here_in)
    ended = here("cells", "end", "puppet", "k-0", "k-1", "k-2", "k-3", "--json", *here_in)
    removed = here("cells", "remove", "puppet", "--pattern", "k-*", *here_in)
    all_failed = here("cells", "retry", "--all-failed", "--json", *here_in)
    unknown = here("cells", "end", "none", "k-0", *here_in)

    assert settled.code == retried.code == removed.code == all_failed.code == 0
    assert not documents(path, "inspect", "intents")["intents"]
    assert not documents(path, "inspect", "faults")["faults"]
    assert ended.code == 0
    shards = {f"00{shard_of(f'k-{key}')}" for key in range(4)}
    assert {row["shard"] for row in ended.json["shards"]} == shards
    assert sum(row["admitted"] for row in ended.json["shards"]) == 4
    keys = {row["key"] for row in documents(path, "inspect", "cells")["cells"]}
    assert keys == {"wait"}, "the trapped one has taken no event"
    assert [row["shard"] for row in all_failed.json["shards"]] == list(NAMES)
    assert unknown.code == 2


@pytest.mark.parametrize("name", [".", "000"])
def test_a_node_serves_shards_without_neighbours(group: GroupFolder, name: str) -> None:  # WS-1
    refused = here("node", "--neighbours", "--world", group.path / name)
    assert refused.code == 2
    assert "--neighbours: aos node serves the shards of a group without" in refused.err
