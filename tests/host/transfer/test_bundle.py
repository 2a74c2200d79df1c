"""Worlds into files and out of them again (spec/bundle.md, B-1 to B-45)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import Frame
from aos.core.journal.inputs import ERASE, SKIP
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import Control, Event, Ref
from aos.core.snapshot.load import load
from aos.core.state.state import State
from aos.errors import BadUsage, Damage, Refused, Unavailable
from aos.host.door.writer import open_writer
from aos.host.folder.folder import WORLD_FILE, open_folder
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.host.transfer import exporting, importing
from aos.host.transfer.exporting import export_world
from aos.host.transfer.importing import import_world
from aos.prove.replay.replay_store import replay_bundle, verify_bundle
from aos.prove.verify.findings import FindingKind, VerifyReport
from aos.prove.verify.verify_world import verify_world
from aos.store.bundle.items import BundleHeader, ErasedValue
from aos.store.bundle.reader import open_bundle
from aos.store.bundle.writer import BundleWriter
from aos.store.lmdb_store import LmdbStore
from aos.store.store import Store
from aos.values.digests import Hash, content_hash, hash_text
from tests.cli.shell import in_silence
from tests.host.puppet import asks, do

ROOT = Path(__file__).parents[3]


def send(world: Path, *events: tuple[str, bytes | None]) -> list[int]:
    """Send events one by one, each with a frame of its own; return their records."""
    found = []
    with open_writer(world) as writer:
        for key, out in events:
            [answer] = writer.send([do(key, out)])
            assert isinstance(answer, Admitted)
            found.append(answer.seq)
    return found


def value_of(world: Path, seq: int) -> Hash:
    """The value of an event that lies outside its record."""
    with open_folder(world).open_store(readonly=True) as store:
        frame = store.frame_at(seq)
        assert frame is not None
        record = from_bytes(frame.records[seq - frame.header.first])
    assert isinstance(record, Event)
    assert isinstance(record.value, Ref)
    return record.value.hash


def erase(world: Path, value: Hash) -> int:
    with open_writer(world) as writer:
        answer = writer.control(ERASE, value=value)
    assert isinstance(answer, Admitted)
    return answer.seq


def run_out(world: Path) -> None:
    """Run the world until it is idle, and let go of what made its cells fail: nothing needs the
    values of events any more."""
    assert in_silence("run", "--until-idle", "--world", world) == 0
    with open_reader(world) as reader:
        failed = [cell.id for cell in reader.state.cells.values() if cell.fault is not None]
    with open_writer(world) as writer:
        for cell in failed:
            assert isinstance(writer.control(SKIP, cell=cell), Admitted)


def contents(store: Store) -> dict[str, object]:
    """The contents of a store, except those outside the journal."""
    return {
        "head": store.head(),
        "frames": list(store.frames()),
        "blobs": {each: store.blob(each) for each in store.blob_hashes()},
        "intents": list(store.intents()),
        "submissions": list(store.submissions()),
        "erased": [(value, row.seq) for value, row in store.erasures()],
        "snapshots": list(store.snapshots()),
    }


def world_contents(world: Path) -> dict[str, object]:
    with open_folder(world).open_store(readonly=True) as store:
        return contents(store)


def kinds(report: VerifyReport) -> set[FindingKind]:
    return {each.kind for each in report.findings}


def replayed(file: Path) -> int:
    with open_bundle(file) as bundle:
        return replay_bundle(bundle).seq


@pytest.fixture
def lived_in(world: Path) -> Path:
    """A world with cells, values outside its records, an open effect and a submission id."""
    send(world, ("a", None), ("b", b"x" * 3000), ("c", b"x" * 3000), ("d", asks("hello")))
    with open_writer(world) as writer:
        list(writer.send([do("e", submission_id="first")]))
    run_out(world)
    return world


def test_a_world_goes_into_a_file_and_comes_back_the_same(lived_in: Path, tmp_path: Path) -> None:
    """B-1, B-40, B-41"""
    exported = export_world(lived_in, tmp_path / "b")
    imported = import_world(tmp_path / "b", tmp_path / "w")

    assert world_contents(tmp_path / "w") == world_contents(lived_in)
    report = verify_bundle(tmp_path / "b")
    assert report.is_sound, report.findings
    assert verify_world(tmp_path / "w").is_sound
    assert replayed(tmp_path / "b") == report.seq == exported.seq == imported.seq
    source = open_folder(lived_in)
    assert imported.folder == open_folder(tmp_path / "w")
    assert (imported.folder.world, imported.folder.executors) == (source.world, source.executors)
    assert imported.folder.created == source.created
    assert imported.open_intents == 1
    assert list((tmp_path / "w" / "keys").iterdir()) == []
    # An export of the import is the same file.
    export_world(tmp_path / "w", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_part_ends_with_the_frame_that_holds_the_record(lived_in: Path, tmp_path: Path) -> None:
    """B-3, B-4"""
    [*_, last] = [frame.header for frame in frames(lived_in)]
    for to in range(1, last.last + 1):
        made = export_world(lived_in, tmp_path / "b", to=to, force=True)
        [end] = [each.header.last for each in frames(lived_in) if each.header.first <= to][-1:]
        assert made.seq == end
        assert verify_bundle(tmp_path / "b").is_sound
    imported = import_world(tmp_path / "b", tmp_path / "w")
    assert imported.seq == last.last


def frames(world: Path) -> list[Frame]:
    with open_folder(world).open_store(readonly=True) as store:
        return list(store.frames())


def test_a_part_has_nothing_of_what_came_later(world: Path, tmp_path: Path) -> None:  # B-2
    first, _ = send(world, ("a", b"early" * 400), ("b", b"later" * 400))
    export_world(world, tmp_path / "b", to=first)
    assert b"early" * 400 in (tmp_path / "b").read_bytes()
    assert b"later" not in (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("to", [0, 10_000])
def test_a_record_that_is_not_there_is_said(world: Path, tmp_path: Path, to: int) -> None:
    """B-3"""
    with pytest.raises(BadUsage, match=f"record {to}: there is no such record: expected 1 to 2"):
        export_world(world, tmp_path / "b", to=to)
    assert list(tmp_path.glob("b*")) == []


def test_a_part_needs_the_worlds_own_key(lived_in: Path, tmp_path: Path) -> None:  # B-5
    other = init_world(tmp_path / "other")
    key = lived_in / "keys" / "world.key"
    key.unlink()
    with pytest.raises(Refused, match=r"needs the world's key.*or leave out --to"):
        export_world(lived_in, tmp_path / "b", to=1)
    assert list(tmp_path.glob("b*")) == []
    shutil.copy(other.path / "keys" / "world.key", key)
    with pytest.raises(Refused, match=r"this is not the world's key; nothing was written"):
        export_world(lived_in, tmp_path / "b", to=1)
    assert list(tmp_path.glob("b*")) == []
    # The whole journal has a head that is signed already.
    export_world(lived_in, tmp_path / "b")
    assert verify_bundle(tmp_path / "b").is_sound
    last = frames(lived_in)[-1].header.last
    assert export_world(lived_in, tmp_path / "b", to=last, force=True).seq == last


def test_values_that_others_name_come_too(world: Path, tmp_path: Path) -> None:  # B-2
    """A value names another by its hash, which names another: however long that is."""
    chain = [b"the end of the chain " * 100]
    for _ in range(3000):
        chain.append(f"next: {hash_text(content_hash(chain[-1]))} {'.' * 1000}".encode())
    other = b"nobody names this one " * 100
    with open_folder(world).open_store() as store:
        store.put_blobs({content_hash(each): each for each in (*chain, other)})
    send(world, ("a", chain[-1]))

    export_world(world, tmp_path / "b")
    import_world(tmp_path / "b", tmp_path / "w")

    with open_folder(tmp_path / "w").open_store(readonly=True) as store:
        assert all(store.blob(content_hash(each)) == each for each in chain[:-1])
        assert not store.has_blob(content_hash(other))


def test_an_erased_value_is_listed_and_its_command_is_in_the_journal(
    world: Path, tmp_path: Path
) -> None:
    """B-6, B-51"""
    [seq] = send(world, ("a", b"secret" * 300))
    run_out(world)
    value = value_of(world, seq)
    by = erase(world, value)

    made = export_world(world, tmp_path / "b")

    assert made.erased == 1
    assert b"secret" not in (tmp_path / "b").read_bytes()
    report = verify_bundle(tmp_path / "b")
    assert report.is_sound, report.findings
    assert report.erased == 1
    with open_bundle(tmp_path / "b") as bundle:
        assert [(each.value, each.by) for each in replay_bundle(bundle).erasures] == [(value, by)]
    import_world(tmp_path / "b", tmp_path / "w")
    assert world_contents(tmp_path / "w") == world_contents(world)
    assert verify_world(tmp_path / "w").is_sound


def test_a_value_that_came_again_after_it_was_erased_comes_again(
    world: Path, tmp_path: Path
) -> None:
    """B-6, B-42"""
    [first] = send(world, ("a", b"again" * 300))
    run_out(world)
    value = value_of(world, first)
    erase(world, value)
    send(world, ("a", b"again" * 300))
    run_out(world)
    for name in ("once", "twice"):
        export_world(world, tmp_path / name)
        import_world(tmp_path / name, tmp_path / f"w-{name}")
        assert world_contents(tmp_path / f"w-{name}") == world_contents(world)
        assert verify_bundle(tmp_path / name).is_sound
        assert verify_world(tmp_path / f"w-{name}").is_sound
        if name == "once":
            erase(world, value)


def erased_later(world: Path, tmp_path: Path) -> tuple[Path, int]:
    """A part whose journal needs a value that was erased after its end."""
    [seq] = send(world, ("a", b"secret" * 300))
    run_out(world)
    by = erase(world, value_of(world, seq))
    export_world(world, tmp_path / "b", to=by - 1)
    return tmp_path / "b", by


def test_a_value_that_was_erased_after_the_end_is_excused_by_the_operators_command(
    world: Path, tmp_path: Path
) -> None:
    """B-7, B-52"""
    file, by = erased_later(world, tmp_path)
    report = verify_bundle(file)
    assert report.is_sound, report.findings
    assert (report.erased, report.seq) == (1, by - 1)
    with open_bundle(file) as bundle:
        assert [each.by for each in replay_bundle(bundle).erasures] == [by]
    with pytest.raises(Refused, match=f"was erased by record {by}, after the bundle's end"):
        import_world(file, tmp_path / "w")
    assert not (tmp_path / "w").exists()


def test_a_command_that_no_operator_signed_excuses_nothing(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-52. The file is rebuilt around the forged command, so that all its hashes are valid."""

    def forged(*, value: Hash, seq: int, record: bytes) -> ErasedValue:
        given = from_bytes(record)
        assert isinstance(given, Control)
        other = replace(given, signature=bytes(64))
        return ErasedValue(value=value, seq=seq, record=to_bytes(other))

    monkeypatch.setattr(exporting, "ErasedValue", forged)
    file, _ = erased_later(world, tmp_path)
    assert kinds(verify_bundle(file)) == {FindingKind.SIGNATURE_WRONG}
    with open_bundle(file) as bundle, pytest.raises(Damage, match="no operator of this world"):
        replay_bundle(bundle)


WRITES = """
import sys
from pathlib import Path
from aos.host.door.writer import open_writer
from tests.host.puppet import do
with open_writer(Path(sys.argv[1])) as writer:
    while True:
        *_, last = writer.send([do(f"k{number}", b"v" * 1500) for number in range(5)])
        print(last.seq, flush=True)
"""


def test_a_world_is_exported_while_it_is_written(world: Path, tmp_path: Path) -> None:  # B-8
    with subprocess.Popen(
        [sys.executable, "-c", WRITES, str(world)], stdout=subprocess.PIPE, env=environment(),
        cwd=ROOT,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        try:
            ends = [0]
            for number in range(5):
                while int(child.stdout.readline()) <= ends[-1]:
                    pass  # written before the last export
                ends.append(export_world(world, tmp_path / f"b{number}").seq)
        finally:
            child.kill()
    assert ends == sorted(set(ends))
    for number in range(5):
        report = verify_bundle(tmp_path / f"b{number}")
        assert report.is_sound, report.findings
        assert report.seq == ends[number + 1]


def test_a_value_that_is_erased_while_it_is_exported_moves_the_end(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-7, B-8"""
    seqs = send(world, ("a", b"one" * 500), ("b", b"two" * 500))
    run_out(world)
    one, two = (value_of(world, seq) for seq in seqs)
    blob = LmdbStore.blob
    by: list[int] = []

    def erasing(store: LmdbStore, hash: Hash) -> bytes:
        if hash == one and not by:
            by.append(0)
            by.append(in_another_process(world, two))
        return blob(store, hash)

    monkeypatch.setattr(LmdbStore, "blob", erasing)
    made = export_world(world, tmp_path / "b")

    assert by[1] == made.seq
    report = verify_bundle(tmp_path / "b")
    assert report.is_sound, report.findings
    import_world(tmp_path / "b", tmp_path / "w")
    assert world_contents(tmp_path / "w") == world_contents(world)


ERASES = """
import sys
from pathlib import Path
from tests.host.transfer.test_bundle import erase
print(erase(Path(sys.argv[1]), bytes.fromhex(sys.argv[2])))
"""


def in_another_process(world: Path, value: Hash) -> int:
    """Erase a value; a process that has the store open for reading cannot."""
    done = subprocess.run(
        [sys.executable, "-c", ERASES, str(world), value.hex()], env=environment(), cwd=ROOT,
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return int(done.stdout)


def environment() -> dict[str, str]:
    paths = [ROOT / "kernel", ROOT / "cli", ROOT]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}


def kill_half_way(program: str, *words: str | Path) -> None:
    """Run a program until it prints ``half``, and kill it there."""
    command = [sys.executable, "-c", program, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), cwd=ROOT) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == b"half\n"
        finally:
            child.send_signal(signal.SIGKILL)


def test_memory_does_not_grow_with_the_values(world: Path, tmp_path: Path) -> None:  # B-9
    random = Random(1)
    values = [random.randbytes(1 << 20) for _ in range(24)]
    with open_folder(world).open_store() as store:
        for each in values:
            store.put_blobs({content_hash(each): each})
    names = " ".join(hash_text(content_hash(each)) for each in values)
    send(world, ("a", names.encode()))
    size = len(values[0]) * len(values)
    del values

    def peak(work: Callable[[], object]) -> int:
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(lambda: export_world(world, tmp_path / "b")) < size // 3
    assert (tmp_path / "b").stat().st_size > size
    assert peak(lambda: import_world(tmp_path / "b", tmp_path / "w")) < size * 2 // 3
    assert peak(lambda: verify_bundle(tmp_path / "b")) < size // 3


# Damaged bundles


def test_a_damaged_world_is_not_exported(lived_in: Path, tmp_path: Path) -> None:  # B-1
    store = open_folder(lived_in).open_store(readonly=True)
    missing = next(store.blob_hashes())
    store.close()
    blob = LmdbStore.blob

    def without(store: LmdbStore, hash: Hash) -> bytes:
        if hash == missing:
            raise Damage("it is missing")
        return blob(store, hash)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LmdbStore, "blob", without)
        with pytest.raises(Damage, match="it is missing"):
            export_world(lived_in, tmp_path / "b")
    assert list(tmp_path.glob("b*")) == []


def test_any_altered_byte_is_found_and_nothing_is_imported(lived_in: Path, tmp_path: Path) -> None:
    """B-32, B-44, B-50. A sample of the bytes; the format's own tests take each."""
    export_world(lived_in, tmp_path / "b")
    whole = (tmp_path / "b").read_bytes()
    data = bytearray(whole)
    random = Random(5)
    (tmp_path / "w").mkdir()
    for _ in range(40):
        at = random.randrange(20, len(data))
        data[at] ^= 1 << random.randrange(8)
        (tmp_path / "b").write_bytes(data)
        report = verify_bundle(tmp_path / "b")
        assert FindingKind.BUNDLE_DAMAGED in kinds(report)
        with pytest.raises(Damage):
            import_world(tmp_path / "b", tmp_path / "w")
        assert list((tmp_path / "w").iterdir()) == []
        with pytest.raises(Damage):
            replayed(tmp_path / "b")
        data[at] = whole[at]


def test_an_altered_record_is_named(lived_in: Path, tmp_path: Path) -> None:  # B-50
    export_world(lived_in, tmp_path / "b")
    data = bytearray((tmp_path / "b").read_bytes())
    [frame] = [each for each in frames(lived_in) if each.header.first == 3]
    at = data.index(frame.records[0])
    data[at + data[at:].index(b"entropy") + 20] ^= 4
    (tmp_path / "b").write_bytes(data)

    report = verify_bundle(tmp_path / "b")

    assert kinds(report) == {FindingKind.BUNDLE_DAMAGED, FindingKind.RECORD_ALTERED}
    assert [each.record for each in report.findings if each.kind is FindingKind.RECORD_ALTERED] == [
        3
    ]


def test_a_file_that_is_cut_short_is_a_finding(lived_in: Path, tmp_path: Path) -> None:  # B-50
    export_world(lived_in, tmp_path / "b")
    os.truncate(tmp_path / "b", (tmp_path / "b").stat().st_size // 2)
    report = verify_bundle(tmp_path / "b")
    assert [each.kind for each in report.findings] == [FindingKind.BUNDLE_DAMAGED]
    with pytest.raises(Damage, match="cut short"):
        import_world(tmp_path / "b", tmp_path / "w")
    assert not (tmp_path / "w").exists()


def forging(monkeypatch: pytest.MonkeyPatch, source: Path, file: Path, **fields: object) -> None:
    """Export with a header that says something else than the journal, all hashes right."""
    monkeypatch.setattr(
        exporting, "BundleHeader", lambda **given: BundleHeader(**{**given, **fields})
    )
    export_world(source, file)
    monkeypatch.undo()


@pytest.mark.parametrize("field", ["world", "world_key", "operators"])
def test_a_header_that_says_other_than_the_genesis_is_found(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    """B-13, B-44"""
    forging(
        monkeypatch, world, tmp_path / "b", **{field: () if field == "operators" else b"x" * 32}
    )
    assert kinds(verify_bundle(tmp_path / "b")) == {FindingKind.BUNDLE_DAMAGED}
    with pytest.raises(Damage, match="the header does not say what the genesis says"):
        import_world(tmp_path / "b", tmp_path / "w")
    assert list((tmp_path / "w").iterdir()) == []


def test_a_head_that_the_worlds_key_did_not_sign_is_refused(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-44"""
    signed = exporting._signed
    monkeypatch.setattr(
        exporting, "_signed", lambda *given: replace(signed(*given), signature=bytes(64))
    )
    export_world(world, tmp_path / "b")
    assert kinds(verify_bundle(tmp_path / "b")) == {FindingKind.HEAD_WRONG}
    with pytest.raises(Damage, match="the head is not signed by the world's key"):
        import_world(tmp_path / "b", tmp_path / "w")
    assert list((tmp_path / "w").iterdir()) == []


def test_frames_that_do_not_follow_are_refused(
    lived_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-44"""
    frame, seen = BundleWriter.frame, []

    def without_the_third(writer: BundleWriter, data: bytes) -> None:
        seen.append(data)
        if len(seen) != 3:
            frame(writer, data)

    monkeypatch.setattr(BundleWriter, "frame", without_the_third)
    export_world(lived_in, tmp_path / "b")
    assert FindingKind.FRAME_MISSING in kinds(verify_bundle(tmp_path / "b"))
    with pytest.raises(Damage):
        import_world(tmp_path / "b", tmp_path / "w")
    assert list((tmp_path / "w").iterdir()) == []


# Importing


def test_a_folder_with_anything_in_it_is_refused(world: Path, tmp_path: Path) -> None:  # B-43
    export_world(world, tmp_path / "b")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "mine").touch()
    with pytest.raises(Refused, match="expected an empty or new folder"):
        import_world(tmp_path / "b", tmp_path / "w")
    with pytest.raises(Refused, match="there is a world already"):
        import_world(tmp_path / "b", world)


def test_a_failure_on_the_way_leaves_nothing(
    lived_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-43"""
    export_world(lived_in, tmp_path / "b")
    monkeypatch.setattr(importing, "GROUP_FRAMES", 1)
    appends = 0
    append = LmdbStore.append

    def full(store: LmdbStore, *given: object, **more: object) -> None:
        nonlocal appends
        appends += 1
        if appends == 3:
            raise OSError(28, "No space left on device")
        append(store, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(LmdbStore, "append", full)
    with pytest.raises(Unavailable, match="No space left on device"):
        import_world(tmp_path / "b", tmp_path / "w")
    assert list((tmp_path / "w").iterdir()) == []
    monkeypatch.undo()
    import_world(tmp_path / "b", tmp_path / "w")


KILLED = """
import sys, time
from pathlib import Path
from aos.host.transfer import importing
from aos.store.lmdb_store import LmdbStore
append, seen = LmdbStore.append, []
def slow(store, *given, **more):
    append(store, *given, **more)
    seen.append(1)
    if len(seen) == int(sys.argv[3]):
        print("half", flush=True)
        time.sleep(60)
LmdbStore.append = slow
importing.GROUP_FRAMES = 1
importing.import_world(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.mark.parametrize("appends", [1, 3])
def test_a_killed_import_leaves_a_folder_that_the_next_one_finishes(
    lived_in: Path, tmp_path: Path, appends: int
) -> None:
    """B-43"""
    export_world(lived_in, tmp_path / "b")
    kill_half_way(KILLED, tmp_path / "b", tmp_path / "w", str(appends))
    assert not (tmp_path / "w" / WORLD_FILE).exists()
    with pytest.raises(BadUsage, match="this world is not finished"):
        open_reader(tmp_path / "w")
    assert import_world(tmp_path / "b", tmp_path / "w").seq > 0
    open_reader(tmp_path / "w").close()


def test_every_size_of_a_group_gives_the_same_world(
    lived_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-41"""
    export_world(lived_in, tmp_path / "b")
    for most in (1, 2, 3, 1000):
        monkeypatch.setattr(importing, "GROUP_FRAMES", most)
        import_world(tmp_path / "b", tmp_path / f"w{most}")
        assert world_contents(tmp_path / f"w{most}") == world_contents(lived_in)


def test_a_new_world_goes_through_too(tmp_path: Path) -> None:  # B-1
    init_world(tmp_path / "new")
    export_world(tmp_path / "new", tmp_path / "b")
    import_world(tmp_path / "b", tmp_path / "w")
    assert verify_world(tmp_path / "w").is_sound


def test_snapshots_come_too(lived_in: Path, tmp_path: Path) -> None:  # B-2
    for key in ("f", "g"):
        assert in_silence("snapshot", "--world", lived_in) == 0
        send(lived_in, (key, None))
    assert in_silence("run", "--until-idle", "--world", lived_in) == 0
    export_world(lived_in, tmp_path / "b")
    import_world(tmp_path / "b", tmp_path / "w")

    expected = world_contents(lived_in)
    assert len(list_of(expected["snapshots"])) == 2
    assert world_contents(tmp_path / "w") == expected
    assert verify_bundle(tmp_path / "b").is_sound
    assert verify_world(tmp_path / "w").is_sound
    assert replayed(tmp_path / "b")
    with open_reader(tmp_path / "w") as one, open_reader(lived_in) as other:
        assert one.state.snapshot == other.state.snapshot is not None
        assert {cell.id: cell.state for cell in one.state.cells.values()} == {
            cell.id: cell.state for cell in other.state.cells.values()
        }


def test_a_snapshot_with_a_manifest_that_no_record_has_is_refused(
    lived_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-46"""
    assert in_silence("snapshot", "--world", lived_in) == 0
    export_world(lived_in, tmp_path / "b")

    def forged(*arguments: Any, **options: Any) -> State:
        state = load(*arguments, **options)
        state.pinned.add(Hash(bytes(32)))
        return state

    monkeypatch.setattr(importing, "load", forged)

    with pytest.raises(Damage, match="has a manifest that no record puts in force"):
        import_world(tmp_path / "b", tmp_path / "w")
    assert list((tmp_path / "w").iterdir()) == []


def list_of(found: object) -> list[object]:
    assert isinstance(found, list)
    return found
