"""inspect, trace, replay and verify on a world that has lived (C-10, C-30 to C-41)."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.prove.replay.difference import DifferingPlace, FieldDifference
from aos.prove.replay.replay_report import Divergence
from aos.read.trace.trace import NODES_MAX
from aos_cli import inspect_text
from aos_cli.commands import replay as replay_command
from aos_cli.output import print_json
from tests.cli.shell import Aos
from tests.host import puppet
from tests.run_core import run_core

ROW = [
    "workflow", "key", "key_cbor", "status", "is_idle", "declared", "fault", "in_flight", "mailbox",
    "mail_uncounted", "last_record", "last_active_ns", "state_size",
    "version", "waits_for",
]  # fmt: skip


def rows(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_inspect_world(aos: Aos, lived_in: Path) -> None:
    """C-31"""
    text = aos("inspect", "world", world=lived_in)
    document = aos("inspect", "world", "--json", world=lived_in).json

    said = dict(rows(text.out))
    assert said["cells"] == "4: 2 idle, 1 waiting, 1 failed"
    assert said["effects"] == "1 open"
    assert said["mail"] == "0 queued, 1 behind faults"
    assert said["process"] == "no process runs this world (aos run)"
    assert list(document) == [
        "path", "world", "world_key", "operators", "semantics", "created_ns", "journal",
        "manifest", "versions", "cells", "intents", "mail", "submissions", "at", "snapshot",
        "ancestors", "last_start", "process",
        "origin",
    ]  # fmt: skip
    assert document["process"] is None
    assert document["path"] == str(lived_in)


def test_inspect_manifest(aos: Aos, lived_in: Path) -> None:
    """C-32"""
    text = aos("inspect", "manifest", world=lived_in).out
    one = aos("inspect", "manifest", "host/Word@1", world=lived_in).out
    document = aos("inspect", "manifest", "--json", world=lived_in).json

    assert ["host/Do@1", "host/puppet@1", "key"] in rows(text)
    assert ["host/echo@1", "test", "1", "30 s"] in rows(text)
    assert "the world's own key signs for every effect" in text
    assert json.loads(one)["type"] == {"record": {"word": {"text": {}}}}
    assert [each["name"] for each in document["workflows"]] == ["host/puppet@1"]


def test_inspect_cells(aos: Aos, lived_in: Path) -> None:
    """C-30, C-33"""
    text = aos("inspect", "cells", world=lived_in)
    failed = aos("inspect", "cells", "--status", "failed", world=lived_in)
    begin = aos("inspect", "cells", "--workflow", "pup", "--key-prefix", "b", world=lived_in)
    two = aos("inspect", "cells", "--limit", "2", "--offset", "1", world=lived_in)
    none = aos("inspect", "cells", "--key-prefix", "zz", world=lived_in)
    document = aos("inspect", "cells", "--limit", "1", "--json", world=lived_in).json

    header, *cells = rows(text.out)
    assert header == [
        "workflow", "key", "status", "effects", "mail", "record", "last active", "version",
        "fault", "waits for",
    ]  # fmt: skip
    assert {len(cell[7]) for cell in cells} == {8}
    assert [(cell[1], cell[2], cell[8]) for cell in cells] == [
        ("ada", "idle", ""), ("bad", "failed", "output_malformed"), ("bob", "idle", ""),
        ("wait", "waiting", ""),
    ]  # fmt: skip
    assert text.err == ""
    assert [cell[1] for cell in rows(failed.out)[1:]] == ["bad"]
    assert begin.code == 2
    assert [cell[1] for cell in rows(two.out)[1:]] == ["bad", "bob"]
    assert two.err == (
        "2 of 4 cells (the next: --offset 3)\n"
        "4 cells looked at: 2 event, 1 fault output_malformed, 1 host/echo@1\n"
    )
    assert (none.code, none.err) == (0, "no cells\n4 cells looked at\n")
    assert list(document) == [
        "cells", "total", "offset", "next_offset", "next_after", "by_reason", "looked_at",
    ]  # fmt: skip
    assert list(document["cells"][0]) == ROW


def test_inspect_cells_by_what_they_wait_for(aos: Aos, lived_in: Path) -> None:
    """C-33"""
    waits = aos("inspect", "cells", "--waits-for", "echo", "--state", world=lived_in)
    fault = aos("inspect", "cells", "--fault", "output_malformed", world=lived_in)
    old = aos("inspect", "cells", "--older-than", "1000d", "--sort", "age", world=lived_in)
    pinned = aos("inspect", "cells", "--pinned", "--json", world=lived_in).json
    wrong = aos("inspect", "cells", "--older-than", "yesterday", world=lived_in)

    header, row = rows(waits.out)
    assert header[-2:] == ["waits for", "state"]
    assert (row[1], row[-2:]) == ("wait", ["host/echo@1", "1"])
    assert waits.err == "2 cells looked at: 1 host/echo@1\n"
    assert [each[1] for each in rows(fault.out)[1:]] == ["bad"]
    assert old.err == "no cells\n4 cells looked at\n"
    assert (pinned["cells"], pinned["looked_at"]) == ([], 4)
    assert wrong.code == 2
    assert "expected a duration such as 90s, 5m or 2d, found 'yesterday'" in wrong.err


def test_the_history_of_a_cell_is_that_of_this_cell(aos: Aos, tmp_path: Path) -> None:
    """C-34: the command has the key so that it is read as this key."""
    world = tmp_path / "world"
    init_world(world)
    keys = ("x", '"x"', "--help")
    with open_writer(world) as writer:
        writer.apply(puppet.manifest())
        list(writer.send([puppet.do(key) for key in keys]))

    for key in keys:
        found = aos("inspect", "cell", "--world", world, "--", "puppet", json.dumps(key))
        words = shlex.split(found.err.partition("aos trace ")[2])
        traced = aos("trace", *words, "--json", world=world)
        assert traced.code == 0, traced.err
        assert traced.json["roots"][0]["value"]["key"] == key


def test_inspect_cell(aos: Aos, lived_in: Path) -> None:
    """C-34"""
    waits = aos("inspect", "cell", "puppet", "wait", world=lived_in)
    failed = aos("inspect", "cell", "host/puppet@1", '"bad"', world=lived_in)
    document = aos("inspect", "cell", "puppet", "ada", "--json", world=lived_in).json

    assert waits.code == 0
    said = dict(row for row in rows(waits.out) if len(row) == 2)
    assert said["cell"] == "host/puppet@1 wait"
    assert said["status"] == "waiting"
    assert "no answer for" in said["why"]
    assert "aos run --executors MODULE:ATTRIBUTE" in said["why"]
    assert "\nstate\n  1\n" in waits.out
    assert waits.err == "its history: aos trace host/puppet@1 wait\n"
    assert "failed: fault output_malformed at record 12" in failed.out
    assert (
        "; then aos cells retry host/puppet@1 bad (or, to skip the entry that failed: "
        in failed.out
    )
    assert ["mail", "1 kept"] in rows(failed.out)
    assert ["7", "host/Do@1", '{"key":"bad","out":"/w==","trap":null}'] in rows(failed.out)
    assert list(document)[: len(ROW)] == ROW
    assert document["state"] == 2
    assert [each["kind"] for each in document["reasons"]] == ["idle"]


def test_inspect_intents_and_one_of_them(aos: Aos, lived_in: Path) -> None:
    """C-35, C-36"""
    text = aos("inspect", "intents", "--effect", "host/echo", world=lived_in).out
    [row] = aos("inspect", "intents", "--json", world=lived_in).json["intents"]
    settled = aos("inspect", "intents", "--status", "settled", world=lived_in)
    every = aos("inspect", "intents", "--status", "all", "--json", world=lived_in).json
    one = aos("inspect", "intent", row["intent"][7:17], world=lived_in).out
    document = aos("inspect", "intent", row["intent"], "--json", world=lived_in).json

    assert rows(text)[1][:5] == [
        row["intent"], "host/echo@1", "host/puppet@1 wait", "open", "11",
    ]  # fmt: skip
    assert (settled.code, settled.err) == (0, "no intents\n")
    assert every["total"] == 1
    said = dict(each for each in rows(one) if len(each) == 2)
    assert said["asked for by"] == "host/puppet@1 wait, record 11"
    assert said["idempotency key"] == row["intent"]
    assert one.endswith('\nparams\n  {"word": "hello"}\n')
    assert document["receipt"] is None
    assert document["reason"]["kind"] == "effect"


def test_a_settled_intent_shows_its_receipt(aos: Aos, settled: Path) -> None:
    """C-36"""
    [row] = aos("inspect", "intents", "--status", "all", "--json", world=settled).json["intents"]
    found = aos("inspect", "intent", row["intent"], world=settled)

    by_status = aos("inspect", "intents", "--status", "ok", world=settled)
    none = aos("inspect", "intents", "--status", "timeout", world=settled)
    by_code = aos("inspect", "intents", "--code", "declined", "--json", world=settled).json
    wrong = aos("inspect", "intents", "--status", "broken", world=settled)

    assert [each[3] for each in rows(by_status.out)[1:]] == ["settled ok"]
    assert none.err == "no intents\n1 receipt looked at\n"
    assert (by_code["total"], by_code["looked_at"]) == (0, 1)
    assert wrong.err == (
        "aos: no intent status is 'broken': expected one of open, abandoned, settled, ok, error, "
        "timeout, canceled, all\n"
    )
    said = dict(each for each in rows(found.out) if len(each) == 2)
    assert said["status"] == "settled ok"
    assert said["receipt"].startswith("ok, attempt 1, took ")
    assert said["signed by"].startswith("node, ed25519:")
    assert found.out.endswith('\nanswer\n  {"word": "hello"}\n')


def test_inspect_faults(aos: Aos, lived_in: Path) -> None:
    """C-37"""
    found = aos("inspect", "faults", "--workflow", "puppet", world=lived_in)
    other = aos("inspect", "faults", "--kind", "trap", world=lived_in)
    document = aos("inspect", "faults", "--json", world=lived_in).json

    assert rows(found.out)[1][:3] == ["12", "host/puppet@1 bad", "output_malformed"]
    assert found.err.startswith("output_malformed ▸ fix its module")
    assert (other.code, other.err) == (0, "no faults\n")
    assert document["faults"][0]["record"] == 12


def test_inspect_journal(aos: Aos, lived_in: Path) -> None:
    """C-38"""
    newest = aos("inspect", "journal", "--limit", "2", world=lived_in)
    part = aos("inspect", "journal", "--from", "3", "--to", "4", world=lived_in)
    first = aos("inspect", "journal", "--from", "2", "--limit", "2", world=lived_in)
    kinds = aos("inspect", "journal", "--kind", "fault", "--kind", "start", world=lived_in)
    cell = aos("inspect", "journal", "--workflow", "puppet", "--key", "ada", world=lived_in)
    lines = aos("inspect", "journal", "--from", "1", "--json", world=lived_in).lines

    def seqs(text: str) -> list[int]:
        return [int(row[0]) for row in rows(text)]

    assert seqs(newest.out) == [12, 13]
    assert part.out == (
        '3\tevent\thost/Do@1 {"key":"ada","out":null,"trap":null} → host/puppet@1 ada '
        "(submission first)\n"
        '4\tevent\thost/Do@1 {"key":"bob","out":null,"trap":null} → host/puppet@1 bob\n'
    )
    assert seqs(first.out) == [2, 3]
    assert seqs(kinds.out) == [8, 12]
    assert seqs(cell.out) == [3, 5, 9, 13]
    assert [each["seq"] for each in lines] == list(range(1, 14))
    assert all("summary" in each for each in lines)


def test_inspect_record_shows_all_of_one(aos: Aos, lived_in: Path) -> None:
    """C-38"""
    text = aos("inspect", "record", "11", world=lived_in).out
    document = aos("inspect", "record", "11", "--json", world=lived_in).json

    assert json.loads(text) == document
    assert document["intents"][0]["params"] == {"word": "hello"}
    assert document["values"] == []


def test_inspect_value(aos: Aos, lived_in: Path) -> None:
    """C-38a"""
    [manifest] = aos("inspect", "record", "2", "--json", world=lived_in).json["values"]
    text = aos("inspect", "value", manifest["value"], world=lived_in)
    document = aos("inspect", "value", manifest["value"], "--json", world=lived_in).json

    assert text.code == 0
    assert ["size", f"{manifest['size']:,} bytes"] in rows(text.out)
    assert ["2", "manifest", "document", ""] in rows(text.out)
    assert (document["is_there"], document["erased_by"], document["total"]) == (True, [], 1)


def test_trace_shows_what_follows_and_why_it_waits(aos: Aos, lived_in: Path) -> None:
    """C-39"""
    record = aos("trace", "6", world=lived_in).out.splitlines()
    cell = aos("trace", "puppet", "bad", world=lived_in).out
    [row] = aos("inspect", "intents", "--json", world=lived_in).json["intents"]
    intent = aos("trace", row["intent"], "--json", world=lived_in).json

    assert record[0].startswith("event 6: host/Do@1 ")
    assert record[0].endswith("  ◀")
    assert record[1] == "└─ step 11: host/puppet@1 wait → waiting"
    assert record[2].startswith('   └─ asks host/echo@1 {"word":"hello"} · blake3:')
    assert record[3] == "host/puppet@1 wait is waiting"
    assert (
        "▸ run the world with an executor named test that has a function for host/echo@1: aos run"
        in record[4]
    )
    assert "host/puppet@1 bad is failed\n└─ failed: fault output_malformed" in cell
    assert "▸ fix its module" in cell
    assert list(intent) == ["target", "roots", "earlier", "cases"]
    assert intent["target"] == f"intent {row['intent']}"


@pytest.mark.parametrize("indent", [None, 2])
def test_a_trace_as_deep_as_its_bound_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, indent: int | None
) -> None:
    """C-39: deeper than Python takes by itself."""
    document: dict[str, object] = {"children": []}
    for _ in range(NODES_MAX):
        document = {"children": [document]}
    monkeypatch.setattr(sys.stdout, "isatty", lambda: indent is not None)

    print_json(document)

    assert capsys.readouterr().out.count("children") == NODES_MAX + 1


# replay and verify


def test_replay_counts_what_was_the_same(aos: Aos, settled: Path) -> None:
    """C-40"""
    core = run_core().value
    text = aos("replay", world=settled)
    document = aos("replay", "--json", world=settled).json
    referee = aos("replay", "--engine", "pulley", "--json", world=settled).json

    assert text.code == 0
    assert text.out.splitlines()[0] == (
        f"replay: byte-identical to record {document['seq']} (core {core}, written by {core})"
    )
    assert "  6 steps executed again, 1 fault among them" in text.out
    assert "  1 effect asked for again, 1 receipt checked again" in text.out
    assert document["identical"] is True
    assert referee | {"seconds": 0} == document | {"seconds": 0}


def test_a_divergence_is_exit_3_and_shown_decoded(
    aos: Aos, lived_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-40"""
    core = run_core().value

    def diverge(*_: object, **__: object) -> None:
        place = DifferingPlace(path="$.qty", recorded=2, recomputed=3)
        found = FieldDifference(
            field="state", recorded={"qty": 2}, recomputed={"qty": 3}, places=(place,)
        )
        raise Divergence(
            frame=9, record=11, kind="step", cell=("host/puppet@1", "wait"), differences=(found,)
        )

    monkeypatch.setattr(replay_command, "replay_store", diverge)

    text = aos("replay", world=lived_in)
    document = aos("replay", "--json", world=lived_in)

    assert (text.code, document.code) == (3, 3)
    assert text.err.startswith(
        "aos: frame 9, record 11 (step of host/puppet@1 wait): replay differs in state.qty: "
        "expected 2 as recorded, found 3 recomputed"
    )
    assert text.out == (
        f"replay: differs (core {core}, written by {core})\n"
        "state\n  $.qty\n    recorded    2\n    recomputed  3\n"
    )
    assert document.json["identical"] is False
    assert document.json["record"] == 11


def test_ctrl_c_waits_for_the_replay_to_let_go_of_the_store(
    aos: Aos, lived_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-40: the store would be closed under a thread that still reads it."""
    ended: list[str] = []

    def slow(*_: object, on_progress: Callable[[int], None], **__: object) -> None:
        def body() -> None:
            try:
                while True:
                    on_progress(1)
                    time.sleep(0.01)
            except InterruptedError:
                ended.append("ended")

        threading.Thread(target=body).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(replay_command, "replay_store", slow)

    assert aos("replay", world=lived_in).code == 130
    assert ended == ["ended"]


def test_verify_counts_what_was_checked(aos: Aos, lived_in: Path) -> None:
    """C-41"""
    text = aos("verify", world=lived_in)
    document = aos("verify", "--json", world=lived_in).json

    assert text.code == 0
    assert text.out.splitlines()[0] == "verify: sound to record 13"
    assert document["sound"] is True
    assert document["findings"] == []


def test_findings_of_verify_are_listed_with_exit_3(
    aos: Aos, lived_in: Path, tmp_path: Path
) -> None:
    """C-41"""
    world = tmp_path / "w"
    shutil.copytree(lived_in, world)
    with open_folder(world).open_store(readonly=True) as store:
        frame = store.frame_at(11)
    assert frame is not None
    record = frame.records[11 - frame.header.first]
    data = (world / "store" / "data.mdb").read_bytes()
    altered = data.replace(record, record.replace(b"hello", b"hallo"))
    assert altered != data
    (world / "store" / "data.mdb").write_bytes(altered)

    text = aos("verify", world=world)
    document = aos("verify", "--json", world=world)

    assert (text.code, document.code) == (3, 3)
    assert text.err.splitlines()[-1].startswith("aos: the world is damaged: ")
    assert "record 11" in text.out
    assert document.json["sound"] is False


def test_the_store_of_another_world_is_damage(
    aos: Aos, lived_in: Path, world: Path, tmp_path: Path
) -> None:
    """C-41"""
    other = tmp_path / "other"
    aos("init", other)
    shutil.rmtree(other / "store")
    shutil.copytree(lived_in / "store", other / "store")

    for command in ("verify", "inspect world"):
        found = aos(*command.split(), world=other)
        assert found.code == 3
        assert "the store holds another world" in found.err
        assert "world.json and store/ belong together" in found.err


# How values are shown


def test_json_uses_as_few_lines_as_fit() -> None:
    value = {"a": [1, 2], "b": {"c": "x" * 30, "d": []}}

    assert inspect_text.pretty(value, 80) == [json.dumps(value)]
    assert inspect_text.pretty(value, 40) == [
        "{", '  "a": [1, 2],', '  "b": {', f'    "c": "{"x" * 30}",', '    "d": []', "  }", "}",
    ]  # fmt: skip
    assert json.loads("\n".join(inspect_text.pretty(value, 10))) == value
