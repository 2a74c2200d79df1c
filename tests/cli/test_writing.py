"""init, apply, send and run, in this process (C-20 to C-25)."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Blocker, Refusal, Rule
from aos.errors import Unavailable
from aos.host.apply.dry_run import groups
from aos.host.door.writer import Item, Writer, open_writer
from aos.host.folder.making import init_world
from aos.values.cbor import encode
from aos_cli import run_process
from aos_cli.commands import send
from tests.cli.shell import ROOT, Aos
from tests.copies import copied
from tests.host import puppet
from tests.host.puppet import do
from tests.host.upgrades import migrating_files, version

CANCEL = "shop/OrderCancelRequested@1"


def line(key: str, **more: object) -> str:
    return json.dumps({"schema": puppet.DO, "value": {"key": key}, **more}) + "\n"


# init


def test_init_makes_a_world_and_says_what_comes_next(aos: Aos, tmp_path: Path) -> None:
    """C-20"""
    world = tmp_path / "a world"

    found = aos("init", world, "--executor", "payments")

    lines = found.out.splitlines()
    assert found.code == 0
    assert lines[0] == f"new world in {world}"
    assert lines[-1] == f"next: aos apply PATH --world '{world}'"
    assert (world / "keys" / "executors" / "payments.key").exists()


def test_init_as_json(aos: Aos, tmp_path: Path) -> None:
    """C-20"""
    found = aos("init", tmp_path / "w", "--operator", "ops", "--executor", "shop", "--json")

    document = found.json
    assert list(document) == ["world", "path", "created", "operator", "executors"]
    assert document["operator"] == "ops"
    assert [each["name"] for each in document["executors"]] == ["shop"]
    assert document["executors"][0]["public_key"].startswith("ed25519:")


def test_init_leaves_a_folder_alone_that_holds_anything(aos: Aos, tmp_path: Path) -> None:
    """C-20"""
    (tmp_path / "letter.txt").write_text("dear")

    found = aos("init", tmp_path)

    assert found.code == 1
    assert found.err == (
        f"aos: {tmp_path}: expected an empty or new folder, found 'letter.txt'; "
        "nothing was changed\n"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["letter.txt"]


# apply


def test_apply_shows_what_changes_with_authority_apart(
    aos: Aos, manifest: Path, tmp_path: Path
) -> None:
    """C-21"""
    world = tmp_path / "w"
    aos("init", world)

    dry = aos("apply", manifest, "--dry-run", world=world)
    applied = aos("apply", manifest, world=world)
    again = aos("apply", manifest, world=world)

    sections = ["definitions", "routes", "authority: permissions and keys"]
    assert [each for each in dry.out.splitlines() if not each.startswith(" ")][:-1] == sections
    assert dry.out.endswith("it could be applied now (this was a dry run: nothing has changed)\n")
    assert "  + workflow host/puppet@1 may emit host/echo@1\n" in applied.out
    assert "\napplied as record 2\n  blake3:" in applied.out
    assert again.out.startswith("nothing changes\nalready in force\n  blake3:")
    assert (dry.code, applied.code, again.code) == (0, 0, 0)


def test_many_definitions_of_a_kind_that_are_all_new_are_one_line(aos: Aos, tmp_path: Path) -> None:
    """C-21"""
    world = tmp_path / "w"
    aos("init", world)

    text = aos("apply", ROOT / "manifests" / "orders", "--dry-run", world=world).out.splitlines()

    [schemas] = [each for each in text if "schema" in each]
    assert schemas.startswith("  + ")
    assert schemas.endswith(" schemas (--json lists them)")
    assert "  + workflow shop/ledger@1" in text
    assert "  + workflow shop/order@1 may emit shop/card.charge@1" in text


def test_apply_as_json(aos: Aos, manifest: Path, tmp_path: Path) -> None:
    """C-21"""
    world = tmp_path / "w"
    aos("init", world)

    first = aos("apply", manifest, "--json", world=world).json
    again = aos("apply", manifest, "--json", world=world).json

    keys = [
        "manifest", "applied", "in_force", "seq", "changes", "blockers", "groups", "ways_out",
        "states", "refused", "fates", "flows", "open_events",
    ]  # fmt: skip
    assert list(first) == list(again) == keys
    assert list(first["changes"]) == [
        "definitions", "routes", "routes_reordered", "placements", "limits", "plans", "schedules",
        "authority",
    ]  # fmt: skip
    assert (first["applied"], first["in_force"], first["seq"]) == (True, True, 2)
    assert (again["applied"], again["in_force"], again["seq"]) == (False, True, None)
    assert first["refused"] is again["refused"] is None
    assert "+ schema host/Do@1" in first["changes"]["definitions"]


def test_apply_is_refused_with_a_list_of_all_blockers(
    aos: Aos, lived_in: Path, tmp_path: Path
) -> None:
    """C-21"""
    world = copied(lived_in, tmp_path / "world")
    other = tmp_path / "other"
    other.mkdir()
    for name, data in puppet.files(version=2).items():
        (other / name).write_bytes(data)

    dry = aos("apply", other, "--dry-run", world=world)
    applied = aos("apply", other, world=world)
    document = aos("apply", other, "--json", world=world).json

    assert (dry.code, applied.code) == (1, 1)
    assert "  ~ workflow host/puppet@1: limits\n" in dry.out
    assert "  ~ host/puppet@1 effects: 63 -> 62\n" in dry.out
    assert dry.err.splitlines()[0] == ("aos: it could not be applied now: 2 blockers")
    assert dry.err.splitlines()[1:] == applied.err.splitlines()[1:]
    assert applied.err.startswith("aos: refused: the world is not quiescent: 2 blockers")
    assert "  host/puppet@1 wait: intent_is_open, host/echo@1 of record 11\n" in applied.err
    assert document["refused"]["rule"] == "world_is_not_quiescent"
    assert document["blockers"][1]["cell"] == {"workflow": "host/puppet@1", "key": "wait"}
    assert document["groups"][1] == {
        "workflow": "host/puppet@1",
        "kind": "intent_is_open",
        "count": 1,
        "examples": [{"workflow": "host/puppet@1", "key": "wait"}],
        "detail": "host/echo@1 of record 11",
    }
    assert document["in_force"] is False

    way = ["aos", "apply", str(other), "--mode", "pin", "--world", str(world)]
    assert f"would work now: {shlex.join(way)}  (instances in flight" in applied.err
    assert document["ways_out"] == {
        "modes": [{"mode": "pin", "command": way}],
        "in_place": ["host/puppet@1"],
        "to_migrate": [],
        "migrations": [],
    }
    assert aos(*way[1:5], world=world).code == 0


def test_a_dry_run_shows_states_before_and_after_their_migration(aos: Aos, tmp_path: Path) -> None:
    """C-21: those that fail first."""
    world = tmp_path / "w"
    init_world(world)
    with open_writer(world) as writer:
        writer.apply(version(1))
        list(writer.send([do("0"), *[do("1")] * 7]))
    aos("run", "--until-idle", world=world)
    other = tmp_path / "other"
    other.mkdir()
    for name, data in migrating_files().items():
        (other / name).write_bytes(data)
    words = ("apply", other, "--mode", "migrate")

    text = aos(*words, "--dry-run", "--show", "2", world=world).out
    document = aos(*words, "--dry-run", "--show", "2", "--json", world=world).json

    first, second = document["states"]
    assert (first["cell"]["key"], first["before"], first["fault"]["kind"]) == ("1", 7, "trap")
    assert (second["after"], second["fault"]) == ([2 * second["before"]], None)
    assert second["changed"] == [{"path": "$", "before": 1, "after": [2]}]
    assert "  host/puppet@1 1\n    before   7\n    fails    trap: " in text
    assert "    before   1\n    after    [2]\n    changed  $: 1 -> [2]\n" in text
    refused = aos(*words, "--show", "2", world=world)
    assert refused.err == "aos: --show: expected --dry-run and --mode migrate with it\n"


def test_a_refused_apply_groups_what_many_instances_have_in_common() -> None:
    found = [
        Blocker(kind="cell_does_not_fit", cell=("t/w@1", encode(n)), detail=f"its state {n}")
        for n in range(5000)
    ]
    (group,) = groups([*found, *found])
    assert (group.count, len(group.examples)) == (10_000, 3)
    assert group.examples[0] == ("t/w@1", encode(0))
    assert group.detail == "its state 0"


def other_files(folder: Path, **more: Any) -> Path:
    """The puppet's manifest with another limit."""
    folder.mkdir()
    for name, data in puppet.files(version=2, **more).items():
        (folder / name).write_bytes(data)
    return folder


def test_apply_pins_what_is_in_flight(aos: Aos, lived_in: Path, tmp_path: Path) -> None:
    """C-21"""
    other = other_files(tmp_path / "other")
    world = tmp_path / "world"
    copied(lived_in, world)

    dry = aos("apply", other, "--dry-run", "--mode", "pin", world=world)
    as_json = aos("apply", other, "--dry-run", "--mode", "pin", "--json", world=world).json
    wrong = aos("apply", other, "--mode", "later", world=world)
    applied = aos("apply", other, "--mode", "pin", world=world)

    assert (dry.code, applied.code, wrong.code) == (0, 0, 2)
    assert wrong.err.startswith("aos: --mode: expected strict, pin or migrate")
    assert (
        "  host/puppet@1: 2 at rest (continue on the new version), 1 in flight (finish on their "
        "version), 1 failed (use the new version when retried)\n" in dry.out
    )
    assert as_json["fates"] == {"host/puppet@1": {"goes_on": 2, "pinned": 1, "failed": 1}}
    cells = aos("inspect", "cells", world=world).out
    assert [line.split("\t")[7][8:] for line in cells.splitlines()[1:]] == ["", "", "", " pinned"]
    said = aos("inspect", "world", world=world).out
    assert "pinned to\trecord 2: 1 cell\n" in said
    assert "in force\t" in aos("inspect", "manifest", world=world).out
    one = aos("inspect", "cell", "puppet", "wait", world=world).out
    assert "pinned\tto the manifest of record 2, blake3:" in one
    bad = aos("cells", "unpin", world=world)
    first = aos("cells", "unpin", "puppet", "wait", world=world)
    again = aos("cells", "unpin", "puppet", "wait", world=world)
    rest = aos("cells", "unpin", "--all-pinned", world=world)
    assert (bad.code, first.code, again.code, rest.code) == (2, 0, 1, 0)
    assert "host/puppet@1 wait resumes under the manifest in force (record " in first.out
    assert "is not pinned: it runs under the manifest in force" in again.err
    assert rest.out == "no cell is pinned\n"


def test_apply_leaves_cells_only_when_it_is_told_to(aos: Aos, world: Path, tmp_path: Path) -> None:
    """C-21"""
    aos("send", puppet.DO, '{"key": "a"}', world=world)
    aos("run", "--until-idle", world=world)
    other = other_files(tmp_path / "other")
    text = (other / "m.air.json").read_text().replace("host/puppet@1", "host/other@1")
    (other / "m.air.json").write_text(text)

    refused = aos("apply", other, world=world)
    dry = aos("apply", other, "--dry-run", "--leave-cells", world=world)
    left = aos("apply", other, "--leave-cells", world=world)

    assert (refused.code, dry.code, left.code) == (1, 0, 0)
    assert "workflow_has_cells, it is removed, and has 1 cell" in refused.err
    assert "host/puppet@1: 1 kept without a workflow" in dry.out
    assert "workflow is gone" in aos("inspect", "cells", world=world).out


def key_text(number: int) -> str:
    return f"ed25519:{bytes(SigningKey(bytes([number]) * 32).verify_key).hex()}"


def signing(folder: Path, number: int, **more: object) -> Path:
    """The puppet's manifest with an executor that signs with another key."""
    executor = {"name": "test", "public_key": key_text(number), "effects": [puppet.ECHO], **more}
    folder.mkdir()
    for name, data in puppet.files(executors=[executor]).items():
        (folder / name).write_bytes(data)
    return folder


def test_apply_says_what_becomes_of_keys(aos: Aos, world: Path, tmp_path: Path) -> None:
    """C-21, K-106"""
    aos("apply", signing(tmp_path / "first", 1), world=world)

    replaced = aos("apply", signing(tmp_path / "replaced", 2), "--dry-run", world=world)
    revoked = aos("apply", signing(tmp_path / "next", 2, revoked_keys=[key_text(1)]), world=world)
    silent = aos("apply", signing(tmp_path / "silent", 2), world=world)

    assert (
        f"  ~ executor test is given another key; {key_text(1)} is neither retired nor revoked "
        "(list it in retired_keys, or in revoked_keys if it may have leaked)\n"
    ) in replaced.out
    assert f"  + executor test revokes {key_text(1)} for good\n" in revoked.out
    assert f"  ~ executor test no longer names {key_text(1)}, which stays revoked\n" in silent.out
    for each in (replaced, revoked, silent):
        assert "authority: permissions and keys\n" in each.out


def test_apply_refuses_a_key_that_was_revoked(aos: Aos, world: Path, tmp_path: Path) -> None:
    """C-21, K-106: a dry run too."""
    aos("apply", signing(tmp_path / "first", 1), world=world)
    aos("apply", signing(tmp_path / "next", 2, revoked_keys=[key_text(1)]), world=world)
    aos("apply", signing(tmp_path / "silent", 2), world=world)
    back = signing(tmp_path / "back", 1)

    dry = aos("apply", back, "--dry-run", world=world)
    applied = aos("apply", back, world=world)

    why = (
        f"executors: test has {key_text(1)}, which an earlier manifest revoked: expected another "
        "key\n"
    )
    assert dry == (1, "", f"aos: {why}")
    assert (applied.code, applied.err) == (1, f"aos: refused: {why}")


def test_a_dry_run_refuses_a_node_with_another_key(aos: Aos, world: Path, tmp_path: Path) -> None:
    """C-21, K-14"""
    node = signing(tmp_path / "node", 1, name="node", effects=[puppet.ECHO])
    nodes = json.loads((node / "m.air.json").read_text())
    for each in nodes:
        if each["$kind"] == "defeffect":
            each["impl"] = {"executor": "node"}
    (node / "m.air.json").write_text(json.dumps(nodes))

    dry = aos("apply", node, "--dry-run", world=world)
    applied = aos("apply", node, world=world)

    assert (dry.code, applied.code) == (1, 1)
    assert dry.err.startswith(
        "aos: executors: node must have this world's own key and no other may: expected ed25519:"
    )
    assert applied.err == dry.err.replace("aos: ", "aos: refused: ")


# send


def test_an_event_is_answered_with_its_record_and_the_cells_that_it_reached(
    aos: Aos, world: Path
) -> None:
    """C-22, C-23"""
    first = aos("send", puppet.DO, '{"key": "ada"}', "--id", "x", world=world)
    again = aos("send", puppet.DO, '{"key": "ada"}', "--id", "x", world=world)
    other = aos("send", puppet.DO, '{"key": "bob"}', "--id", "x", world=world)
    unrouted = aos("send", "host/Word@1", '{"word": "hi"}', world=world)

    assert first == (0, "3  → host/puppet@1 ada\n", "")
    assert again == (0, "3  sent before\n", "")
    assert (other.code, other.out) == (1, "")
    assert "is record 3, which is another event" in other.err
    assert unrouted == (0, "4  reached no cell: no workflow subscribes to it\n", "")


def test_many_events_are_counted_and_a_refused_one_stops_no_other(
    aos: Aos, world: Path, tmp_path: Path
) -> None:
    """C-22, C-23"""
    file = tmp_path / "events.jsonl"
    bad = json.dumps({"schema": puppet.DO, "value": {}}) + "\n"
    file.write_text(line("a", submission_id="1") + "\n" + bad + line("b") + line("c"))

    found = aos("send", "--jsonl", file, world=world)
    again = aos("send", "--jsonl", file, "--json", world=world)

    assert found.code == 1
    assert found.out == "3 admitted, 1 refused (records 3 to 5)\n"
    assert found.err == "aos: event 2: host/Do@1: $.key: missing: expected text\n"
    assert again.code == 1
    assert again.lines == [
        {"number": 1, "answer": "duplicate", "seq": 3},
        {
            "number": 2, "answer": "refused", "rule": "event_is_invalid",
            "message": "host/Do@1: $.key: missing: expected text",
        },
        {
            "number": 3, "answer": "admitted", "seq": 6,
            "to": [{"workflow": "host/puppet@1", "key": "b"}],
        },
        {
            "number": 4, "answer": "admitted", "seq": 7,
            "to": [{"workflow": "host/puppet@1", "key": "c"}],
        },
    ]  # fmt: skip


BROKEN = [
    ("nonsense\n", '$: expected a JSON value, found "nonsense" at line 1, column 1'),
    ("[]\n", "expected an object {schema, value, submission_id?}"),
    ('{"schema": "a/B@1"}\n', "expected {schema, value, submission_id?}, found no value in it"),
    ('{"value": 1}\n', "expected {schema, value, submission_id?}, found no schema (a text) in it"),
    (
        '{"schema": "a/B@1", "value": 1, "id": "x"}\n',
        'expected {schema, value, submission_id?}, found "id" in it',
    ),
    (
        '{"schema": "a/B@1", "value": 1, "submission_id": 1}\n',
        "submission_id: expected text",
    ),
]


@pytest.mark.parametrize(("broken", "error"), BROKEN, ids=lambda given: given[:30])
def test_an_invalid_line_ends_the_reading_and_the_lines_before_it_are_sent(
    aos: Aos, world: Path, tmp_path: Path, broken: str, error: str
) -> None:
    """C-24"""
    file = tmp_path / "events.jsonl"
    file.write_text(line("a") + line("b") + broken + line("c"))

    found = aos("send", "--jsonl", file, world=world)

    assert found == (2, "2 admitted (records 3 to 4)\n", f"aos: {file}:3: {error}\n")


def test_bytes_that_are_no_text_are_told_with_their_line(
    aos: Aos, world: Path, tmp_path: Path
) -> None:
    """C-24"""
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n" + line("a").encode() + b'{"schema": "\xff"}')

    found = aos("send", "--jsonl", file, world=world)

    assert found.code == 2
    assert found.err == f"aos: {file}:3: expected UTF-8, found another byte at 12\n"


@pytest.mark.parametrize("chunk", [64, 1 << 16])
@pytest.mark.parametrize("rest", [filler + end for filler in " x\t" for end in ("", "\n")])
def test_a_line_that_is_too_long_is_refused_before_it_is_looked_at(
    aos: Aos, world: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, rest: str
) -> None:
    """C-24"""
    monkeypatch.setattr(send, "LINE_BYTES_MAX", 1000)
    monkeypatch.setattr(send, "CHUNK_BYTES", chunk)
    file = world.parent / "events.jsonl"
    fits = line("b").rstrip().ljust(1000) + "\n"
    file.write_text(line("a") + fits + rest[0] * 1000 + rest + line("c")[: 100 * (len(rest) - 1)])

    found = aos("send", "--jsonl", file, world=world)

    assert (found.code, found.out) == (2, "2 admitted (records 3 to 4)\n")
    assert re.fullmatch(
        rf"aos: {file}:3: expected at most 1,000 bytes in a line, found at least 1,0[0-9]+ "
        r"\(this line and the lines after it were not sent\)\n",
        found.err,
    )


def test_no_more_of_an_endless_line_is_read_than_a_line_may_have(
    aos: Aos, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-24"""

    class Endless:
        """A pipe that gives blanks for ever."""

        given = 0

        def read1(self, size: int) -> bytes:
            self.given += size
            return b" " * size

        def seekable(self) -> bool:
            return False

    blanks = Endless()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=blanks, isatty=lambda: False))

    found = aos("send", "-", world=world)

    assert (found.code, found.out) == (2, "0 admitted\n")
    assert "stdin:1: expected at most 20,971,520 bytes in a line" in found.err
    assert blanks.given <= send.LINE_BYTES_MAX + send.CHUNK_BYTES


LONG = "x" * 3_000_000


@pytest.mark.parametrize(
    "given",
    [
        {LONG: 1},
        {"schema": LONG, "value": 1},
        {"schema": puppet.DO, "value": {LONG: 1}},
        {"schema": puppet.DO, "value": {"key": {LONG: 1}}},
        {"schema": puppet.DO, "value": LONG},
        {"schema": puppet.DO, "value": {"key": "a"}, "submission_id": LONG},
        {"schema": puppet.DO, "value": {"key": "a"}, "submission_id": "\ud800" + LONG},
    ],
    ids=["field", "schema", "key", "inner key", "value", "id", "surrogate"],
)
def test_quoted_text_in_a_message_is_bounded(
    aos: Aos, world: Path, given: dict[str, object]
) -> None:
    """C-24a"""
    file = world.parent / "events.jsonl"
    file.write_text(json.dumps(given))

    found = aos("send", "--jsonl", file, world=world)

    assert found.code in {1, 2}
    assert all(len(each.encode()) <= 4096 for each in found.err.splitlines())


def test_a_single_event_that_is_too_long_is_refused(
    aos: Aos, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-24"""
    monkeypatch.setattr(send, "LINE_BYTES_MAX", 1000)

    found = aos("send", puppet.DO, " " * 1001, world=world)

    error = "JSON: $: too large: expected at most 1000 bytes of JSON, found at least 1001"
    assert found == (2, "", f"aos: {error}\n")


def test_lines_from_a_pipe_are_sent_before_more_arrive(
    aos: Aos, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-24"""
    reading, writing = os.pipe()
    answered = threading.Event()
    groups: list[int] = []
    send = Writer.send

    def counting(self: Writer, items: Any, **more: Any) -> Iterator[Any]:
        items = list(items)
        yield from send(self, items, **more)
        groups.append(len(items))
        answered.set()

    def produce() -> None:
        os.write(writing, (line("a") + line("b")).encode())
        assert answered.wait(90)
        os.write(writing, line("c").encode()[:-1])
        os.close(writing)

    monkeypatch.setattr(Writer, "send", counting)
    with os.fdopen(reading, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        producer = threading.Thread(target=produce)
        producer.start()
        found = aos("send", "-", world=world)
        producer.join()

    assert found == (0, "3 admitted (records 3 to 5)\n", "")
    assert groups == [2, 1]


def test_acknowledged_lines_are_reported_when_the_rest_fails(
    aos: Aos, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-24"""
    file = tmp_path / "events.jsonl"
    file.write_text(line("a") + line("b"))
    send = Writer.send

    def failing(self: Writer, items: Any, **more: Any) -> Iterator[Any]:
        first: Item = next(iter(items))
        yield from send(self, [first], **more)
        raise Unavailable("the world went away")

    monkeypatch.setattr(Writer, "send", failing)

    found = aos("send", "--jsonl", file, world=world)

    assert found == (
        4, "before that: 1 admitted (record 3)\n", "aos: the world went away\n",
    )  # fmt: skip


def test_a_closed_stdin_is_told(aos: Aos, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    found = aos("send", "-", world=world)

    assert found == (2, "", "aos: stdin is closed: expected JSON lines on it\n")


def test_refusals_for_one_reason_are_one_line_with_a_count(
    aos: Aos, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-23"""
    events = b'{"schema": "a/B@1", "value": 1}\n' * 12 + b'{"schema": "a/C@1", "value": 1}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(events)))

    found = aos("send", "-", world=world)

    assert (found.code, found.out) == (1, "0 admitted, 13 refused\n")
    first, other, more = found.err.splitlines()
    assert first.startswith('aos: event 1: event schema "a/B@1" is not in the manifest in force')
    assert other.startswith('aos: event 13: event schema "a/C@1" is not in the manifest in force')
    assert more == (
        "and 11 more for the same reason as event 1, up to event 12 (--json lists them all)"
    )


def test_ten_reasons_of_refusals_are_told_and_the_others_counted(
    aos: Aos, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-23"""
    lines = "".join(f'{{"schema": "a/B@{n}", "value": 1}}\n' for n in range(1, 14))
    stdin = io.TextIOWrapper(io.BytesIO(lines.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)

    found = aos("send", "-", world=world)

    assert (found.code, found.out) == (1, "0 admitted, 13 refused\n")
    assert len(found.err.splitlines()) == 11
    assert found.err.endswith("and 3 more were refused (--json lists them all)\n")


def test_only_a_busy_world_is_exit_4(
    aos: Aos, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-23"""
    refusal = Refusal(rule=Rule.WORLD_IS_BUSY, message="too much")

    monkeypatch.setattr(Writer, "send", lambda *_, **__: iter([refusal]))

    assert aos("send", puppet.DO, '{"key": "a"}', world=world) == (4, "", "aos: too much\n")


# run


def test_run_until_idle_reports_its_work_and_who_each_effect_waits_for(
    aos: Aos, world: Path
) -> None:
    """C-25"""
    with open_writer(world) as writer:
        list(writer.send([puppet.do("a", puppet.asks("x", "y")), puppet.do("b", b"?")]))

    found = aos("run", "--until-idle", world=world)

    assert found.code == 0
    assert found.out == (
        "idle at record 7: 2 steps, 0 receipts, 1 fault (aos inspect faults), 2 effects open\n"
        "  2 wait for host/echo@1, which no executor here runs (add --executors "
        "MODULE:ATTRIBUTE with a function for it)\n"
    )
    first, *rest = found.err.splitlines()
    assert first == f"running {world} from record 4 (Ctrl-C stops it)"
    assert any("effect host/echo@1 is waiting for an executor" in each for each in rest)
    assert any(each.startswith("host/puppet@1 b failed at record 7: ") for each in rest)


def test_run_says_what_its_executor_gave_up(aos: Aos, world: Path, tmp_path: Path) -> None:
    """C-25, X-57"""
    (tmp_path / "ends.py").write_text(
        "import os\n"
        "from aos.worker import effect\n"
        '@effect("host/echo@1")\n'
        "def ends(params, ctx):\n"
        "    os._exit(3)\n"
    )
    with open_writer(world) as writer:
        list(writer.send([puppet.do("a", puppet.asks("x"))]))

    found = aos("run", "--until-idle", "--executors", f"{tmp_path}/ends.py:ends", world=world)

    assert found.code == 0
    assert found.out.splitlines()[1] == (
        "  1 parked: host/echo@1: executor_died (aos inspect intents --parked)"
    )


def test_a_run_that_is_stopped_while_it_reads_the_journal_ends_well(
    aos: Aos, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-25"""

    def interrupted(*_: object) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        return "reading"

    monkeypatch.setattr(run_process, "_reading_text", interrupted)
    monkeypatch.setattr(run_process, "PLAIN_EVERY_S", 0.0)

    found = aos("run", world=world)

    assert found == (0, "", "reading\nstopped; everything acknowledged is durable\n")


def test_run_carries_out_effects_of_python_and_ends_idle(
    aos: Aos, lived_in: Path, echoes: str, tmp_path: Path
) -> None:
    """C-25"""
    world = tmp_path / "w"
    copied(lived_in, world)

    found = aos("run", "--until-idle", "--executors", echoes, "--json", world=world)

    assert found.code == 0
    assert list(found.json) == [
        "idle", "late", "seq", "cells", "events", "steps", "receipts", "faults", "open_intents",
        "open",
        "waiting", "halted", "refused",
    ]  # fmt: skip
    assert found.json["idle"] is True
    assert (found.json["receipts"], found.json["open_intents"]) == (1, 0)
    assert (found.json["waiting"], found.json["refused"]) == ({}, {})
    assert "1 open effect published again" in found.err
    assert "[echoes] echoing hello" in found.err


def test_a_refused_event_for_an_unknown_instance_names_instances_with_keys_like_it(
    aos: Aos, tmp_path: Path
) -> None:
    """C-24b, K-42a: the demo's cancellation creates no order."""
    world = tmp_path / "w"
    aos("init", world)
    aos("apply", ROOT / "manifests/orders", world=world)
    order = {"customer_id": "c", "items": [], "patience": "1m"}
    for number in (1, 2, 17):
        placed = json.dumps({"order_id": f"ord-{number:05}", **order})
        assert aos("send", "shop/OrderPlaced@1", placed, world=world).code == 0

    def cancel(id: str, *more: str) -> Any:
        event = json.dumps({"order_id": id})
        return aos("send", CANCEL, event, *more, world=world)

    refusal = (
        f'aos: shop/order@1 "ord-0017" does not exist, and {CANCEL} is only for instances that do '
        "(check the key; the route says creates: false)"
    )
    near, far, spelled = cancel("ord-0017"), cancel("x"), cancel("x", "--json")

    assert (near.code, far.code, spelled.code) == (1, 1, 1)
    assert near.err.splitlines() == [
        refusal,
        "instances with a key like it: ord-00017, ord-00001, ord-00002",
        "instances of this workflow: aos inspect cells --workflow shop/order@1",
    ]
    assert len(far.err.splitlines()) == 2
    assert spelled.json["rule"] == "instance_is_unknown"
    assert cancel("ord-00017").code == 0


def test_a_run_that_is_not_idle_in_time_lists_what_it_waited_for(
    aos: Aos, world: Path, tmp_path: Path
) -> None:
    """C-25a"""
    file = tmp_path / "slow.py"
    file.write_text(
        "import asyncio\n"
        "from aos.worker import Executors, effect\n"
        '@effect("host/echo@1")\n'
        "async def echo(params, ctx):\n"
        "    await asyncio.sleep(60)\n"
        'slow = Executors("slow", [echo])\n'
    )
    with open_writer(world) as writer:
        list(writer.send([puppet.do("wait", puppet.asks("hello"))]))
    assert aos("run", "--until-waiting", world=world).code == 0  # the effect is open
    words = ("run", "--until-idle", "--executors", f"{file}:slow")

    late = aos(*words, "--max-wait", "10s", world=world)
    document = aos(*words, "--max-wait", "1s", "--json", world=world)
    alone = aos("run", "--max-wait", "1s", world=world)

    assert (late.code, document.code, alone.code) == (4, 4, 2)
    first, second = late.out.splitlines()
    assert first.startswith("not idle after 10 s (--max-wait), stopped at record ")
    assert re.fullmatch(r"  1 open: host/echo@1, the oldest for \d+(\.\d)? (s|ms)", second)
    assert re.search(
        r"^waits for 1 host/echo@1; gives up at \S+Z \(--max-wait\)$", late.err, re.MULTILINE
    )
    assert (document.json["idle"], document.json["late"]) == (False, True)
    [left] = document.json["open"]
    assert (left["effect"], left["number"], left["due_ns"]) == ("host/echo@1", 1, None)
    assert alone.err == (
        "aos: --max-wait needs --until-idle or --until-waiting: it limits their wait\n"
    )
