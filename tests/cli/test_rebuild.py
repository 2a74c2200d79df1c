"""`aos rebuild` writes derived rows again, from a journal that verifies (C-41b, H-78, ST-34)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Event, Ref
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.store.derived import TABLES
from aos.store.lock import WorldLock
from aos.store.rows import Forget
from tests.cli.shell import Aos, in_silence
from tests.copies import copied
from tests.host import puppet


@pytest.fixture(scope="module")
def whole(settled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world with rows in every table: intents, a submission, a snapshot, an erased value."""
    path = copied(settled, tmp_path_factory.mktemp("whole") / "world")
    with open_writer(path) as writer:
        list(writer.send([puppet.do("long", puppet.asks("x" * 2000))]))
    assert in_silence("run", "--until-idle", "--world", path) == 0
    with open_folder(path).open_store(readonly=True) as store:
        records = [from_bytes(data) for frame in store.frames() for data in frame.records]
    *_, event = (each for each in records if isinstance(each, Event))
    assert isinstance(event.value, Ref), "long enough to be stored outside its record"
    value = event.value.hash
    assert in_silence("erase", f"blake3:{value.hex()}", "--yes", "--world", path) == 0
    assert in_silence("snapshot", "--world", path) == 0
    return path


@pytest.fixture
def world(whole: Path, tmp_path: Path) -> Path:
    return copied(whole, tmp_path / "world")


def tables_of(path: Path) -> dict[str, dict[bytes, bytes]]:
    with open_folder(path).open_store(readonly=True) as store:
        return {name: dict(store._rows.scan(name)) for name in TABLES}


def put(path: Path, table: str, rows: dict[bytes, bytes]) -> None:
    with open_folder(path).open_store() as store:
        store.replace_rows({table: rows})


@pytest.mark.parametrize("table", TABLES)
def test_rows_that_are_gone_altered_or_too_many_are_made_again(
    aos: Aos, world: Path, table: str
) -> None:
    before = tables_of(world)
    right = before[table]
    key = next(iter(right))
    # The journal does not have the size of an erased value: it comes from the row, or is 0.
    lost = {**before, table: {key: data[:8] + bytes(8) for key, data in right.items()}}
    wrong: list[tuple[dict[bytes, bytes], object, int]] = [
        ({}, lost if table == "erased" else before, len(right))
    ]
    if table != "erased":
        altered = bytes([right[key][0] ^ 1]) + right[key][1:]
        wrong += [({**right, key: altered}, before, 1), ({**right, key: b"short"}, before, 1)]
    wrong.append(({**right, b"\xff" * 32: right[key]}, before, 1))
    if table == "erased":
        wrong.reverse()  # the last one loses the size

    for rows, expected, changed in wrong:
        put(world, table, rows)

        found = aos("rebuild", "--json", world=world)

        assert found.code == 0, found.err
        assert tables_of(world) == expected
        assert found.json["changed"] == {**dict.fromkeys(TABLES, 0), table: changed}
    assert aos("verify", world=world).code == 0
    again = aos("rebuild", world=world)
    assert again.out.startswith("rebuild: ")
    assert again.out.endswith(", 0 changed\n")


def test_a_run_and_verify_that_meet_damaged_rows_name_the_command(
    aos: Aos, lived_in: Path, echoes: str, tmp_path: Path
) -> None:
    world = copied(lived_in, tmp_path / "world")
    put(world, "intents", {})

    ran = aos("run", "--until-idle", "--executors", echoes, world=world)
    verified = aos("verify", world=world)
    rebuilt = aos("rebuild", world=world)
    ran_again = aos("run", "--until-idle", "--executors", echoes, world=world)

    assert (ran.code, verified.code, rebuilt.code, ran_again.code) == (3, 3, 0, 0)
    assert "aos rebuild makes them again from the journal" in ran.err
    assert (
        "the journal itself is sound: aos rebuild makes the derived rows again from it"
        in verified.err
    )
    assert rebuilt.out.splitlines()[1] == "  intents: 1 of 1"


@pytest.mark.parametrize("command", [("replay",), ("export", "copy.aos")])
def test_replay_and_export_without_the_row_of_an_erased_value_name_the_command(
    aos: Aos, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    put(world, "erased", {})

    refused = aos(*command, world=world)

    assert refused.code == 3
    assert "aos rebuild" in refused.err
    assert aos("rebuild", world=world).code == 0
    assert aos(*command, world=world).code == 0


def test_a_journal_that_does_not_verify_is_refused_and_nothing_is_written(
    aos: Aos, world: Path
) -> None:
    with open_folder(world).open_store() as store:
        module = max(store.blob_sizes(), key=lambda each: each[1])[0]
        store.forget(Forget(blobs=[module]))
    put(world, "intents", {})
    before = tables_of(world)

    refused = aos("rebuild", world=world)

    assert refused.code == 3
    assert "the journal does not verify, so that no rows can be made from it" in refused.err
    assert tables_of(world) == before


def test_a_world_that_a_process_runs_is_not_rebuilt(aos: Aos, world: Path) -> None:
    with WorldLock(world, runs=True):
        assert aos("rebuild", world=world).code == 4


def test_a_pruned_world_is_rebuilt_from_its_snapshot(aos: Aos, world: Path) -> None:
    assert aos("journal", "prune", "--before", "newest", world=world).code == 0
    before = tables_of(world)
    for table in ("intents", "submissions", "snapshots"):
        put(world, table, {})

    assert aos("rebuild", world=world).code == 0

    assert tables_of(world) == before
    assert aos("verify", world=world).code == 0
