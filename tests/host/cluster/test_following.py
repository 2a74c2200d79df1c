"""A node that follows has what counts, and continues after a kill at any point (spec/cluster.md,
CL-60 to CL-68)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.merkle import Tree
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Record, Start
from aos.core.snapshot.load import parts
from aos.errors import Damage, Erased
from aos.host.cluster import following
from aos.host.cluster.following import EntryIntake, NeedsBase, open_world
from aos.store.cut import Cut
from aos.store.errors import NoRoom
from aos.store.lmdb_store import LmdbStore
from aos.store.log.log import LogUnreachable
from aos.store.log.logged_store import LoggedStore
from aos.store.log.memory_log import MemoryLog, SharedStream
from aos.store.rows import Forget, SnapshotRow
from aos.store.stored_world import snapshot_with
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash
from tests.core.desk import cell_id, pay
from tests.host.cluster.owner_process import (
    LOADED,
    MODULE,
    PART_BYTES,
    WORLD,
    Chance,
    OwnerProcess,
    begin,
    counting_draws,
)
from tests.memory_world import WORLD_KEY

STREAM = "shop-1"
LONG = "long " * 400


class Standby:
    """The folder of a node that follows, and its process."""

    def __init__(
        self,
        folder: Path,
        stream: SharedStream,
        fetch: Callable[[Hash], bytes | None] | None = None,
    ) -> None:
        self.folder = folder
        self.log = MemoryLog(stream)
        self.fetch = fetch or following.no_others
        self.store = LoggedStore.create(folder)
        self.store.begin(STREAM)
        self._open()

    def _open(self) -> None:
        world = open_world(self.store, WORLD)
        self.store.connect(
            self.log, stream=STREAM, tip=world.tip, key=WORLD_KEY, part_bytes=PART_BYTES
        )
        self.intake = EntryIntake(world, self.store, fetch=self.fetch)

    def restart(self) -> None:
        """As after a kill: nothing but the folder is left."""
        self.close()
        self.store = LoggedStore.open(self.folder)
        self._open()

    def close(self) -> None:
        self.intake.world.thread.close()
        self.store.close()

    def snapshot_document(self) -> Hash:
        """The document of a snapshot that this node would take now: equal if the states are."""
        kernel = self.intake.world.kernel
        return self.intake.world.thread.call(lambda: kernel.snapshot(content_hash).document)


@pytest.fixture
def stream() -> SharedStream:
    return SharedStream()


@contextlib.contextmanager
def owning(folder: Path, stream: SharedStream) -> Iterator[OwnerProcess]:
    """The owner of a world that has its genesis."""
    store = LoggedStore.create(folder)
    world = begin(store, MemoryLog(stream), STREAM)
    yield OwnerProcess(world, store, Chance(counting_draws("owner")))
    world.thread.close()
    store.close()


@pytest.fixture
def owner(tmp_path: Path, stream: SharedStream) -> Iterator[OwnerProcess]:
    with owning(tmp_path / "owner", stream) as process:
        process.start()
        assert isinstance(process.apply(), Admitted)
        process.write()
        yield process


@pytest.fixture
def standby(tmp_path: Path, stream: SharedStream) -> Iterator[Standby]:
    node = Standby(tmp_path / "standby", stream)
    yield node
    node.close()


def rows_of(store: LmdbStore) -> dict[str, object]:
    """Everything that a journal makes in a store."""
    return {
        "head": store.head(),
        "frames": [frame.to_bytes() for frame in store.frames()],
        "intents": list(store.intents()),
        "submissions": list(store.submissions()),
        "snapshots": list(store.snapshots()),
        "erasures": list(store.erasures()),
        "names": list(store.names()),
        "note": store.note(2),
    }


def check_equal(owner: OwnerProcess, standby: Standby) -> None:
    """Check that both have the same journal, rows, values and state."""
    assert rows_of(standby.store) == rows_of(owner.store)
    assert set(owner.store.blob_hashes()) <= set(standby.store.blob_hashes())
    document = owner.world.thread.call(lambda: owner.world.kernel.snapshot(content_hash).document)
    assert standby.snapshot_document() == document


def live(owner: OwnerProcess) -> Hash:
    """Write what a world writes: several frames in an entry, values outside of records, intents,
    receipts, a snapshot, an erasure. Return the erased value."""
    for number in range(3):
        owner.tell(f"k{number}", pay("x"), note=LONG + str(number), submission=f"s{number}")
        owner.run()
    owner.commit()
    intents = [work.intent for work in owner.world.kernel.open_intents()]
    owner.snapshot()
    owner.admit(owner.receipt(intents[0], {"ref": "paid"}))
    owner.write()
    owner.snapshot()
    value = content_hash(tell_value("k0", LONG + "0"))
    assert isinstance(owner.erase(value), Admitted)
    owner.write()
    owner.tell("k9", note="after")
    owner.write()
    return value


def tell_value(key: str, note: str) -> bytes:
    ask: Value = pay("x")
    return encode({"key": key, "asks": [ask], "note": note})


def test_a_node_that_follows_has_the_journal_the_rows_the_values_and_the_state(
    owner: OwnerProcess, standby: Standby
) -> None:  # CL-60, CL-61
    standby.intake.advance()
    value = live(owner)

    assert standby.intake.advance() > 5

    check_equal(owner, standby)
    with pytest.raises(Erased):
        standby.store.blob(value)
    assert standby.store.place == owner.store.place


def test_a_node_that_begins_late_has_the_same(owner: OwnerProcess, standby: Standby) -> None:
    live(owner)
    standby.intake.advance()
    check_equal(owner, standby)
    standby.restart()
    assert standby.intake.advance() == 0
    check_equal(owner, standby)


def test_a_value_that_comes_and_is_erased_in_one_entry_is_gone(
    owner: OwnerProcess, standby: Standby
) -> None:  # CL-61
    """Unless it comes again after that."""
    values = [tell_value(key, LONG) for key in ("gone", "back")]
    for again in (False, True):
        for key in ("gone", "back"):
            if key == "back" or not again:
                owner.tell(key, pay("x"), note=LONG)
        owner.run()
        for value in values if not again else []:
            assert isinstance(owner.erase(content_hash(value)), Admitted)
        owner.seal()
    owner.commit()
    owner.write()

    standby.intake.advance()
    check_equal(owner, standby)
    assert [standby.store.has_blob(content_hash(value)) for value in values] == [False, True]


def test_the_kernel_continues_from_each_snapshot(owner: OwnerProcess, standby: Standby) -> None:
    """CL-62: so its memory does not grow with the journal."""
    standby.intake.advance()
    live(owner)
    standby.intake.advance()
    newest = owner.store.snapshot_before()
    assert newest is not None
    assert standby.intake.world.kernel.base == newest.at


def test_a_snapshot_that_is_older_than_the_kernel_brings_no_removed_cell_back(
    owner: OwnerProcess, standby: Standby
) -> None:  # CL-62
    """It was taken before the node was started again, and is announced after that."""
    owner.tell("gone", note="x")
    owner.write()
    blobs: dict[Hash, bytes] = {}

    def put(data: bytes) -> Hash:
        blobs[content_hash(data)] = data
        return content_hash(data)

    kernel = owner.world.kernel
    taken = owner.world.thread.call(lambda: kernel.snapshot(put))
    owner.store.put_blobs(blobs)
    owner.tell("gone", note="delete")
    owner.write()
    standby.intake.advance()
    standby.restart()
    assert isinstance(owner.admit(taken), Admitted)
    owner.write()

    standby.intake.advance()

    check_equal(owner, standby)
    assert standby.intake.world.kernel.cell(cell_id("gone")) is None


@pytest.mark.parametrize("is_written", [False, True])
def test_a_node_that_is_killed_at_any_write_continues(
    tmp_path: Path,
    stream: SharedStream,
    owner: OwnerProcess,
    is_written: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # CL-63
    """Killed before, or right after, each transaction."""
    live(owner)
    standby = Standby(tmp_path / "killed", stream)
    writes = kills = 0
    kill_at = 1

    def killing(method: Callable[..., None]) -> Callable[..., None]:
        def write(*arguments: object, **more: object) -> None:
            nonlocal writes
            writes += 1
            if is_written or writes != kill_at:
                method(*arguments, **more)
            if writes == kill_at:
                raise KeyboardInterrupt

        return write

    for name in ("append", "put_blobs"):
        monkeypatch.setattr(LmdbStore, name, killing(getattr(LmdbStore, name)))
    while True:
        writes = 0
        try:
            standby.intake.advance()
            break
        except KeyboardInterrupt:
            kills += 1
            kill_at = 1 + kills % 2  # the next kill is of the first or of the second write
            standby.restart()
    assert kills > 5
    check_equal(owner, standby)
    standby.close()


def test_an_entry_that_finds_no_room_is_stored_by_the_next_call(
    owner: OwnerProcess, standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:  # CL-63
    live(owner)

    def full(*_: object, **__: object) -> None:
        raise NoRoom("the disk is full", needed_bytes=1, free=0)

    for name in ("append", "put_blobs"):
        for _ in range(3):
            with monkeypatch.context() as patch:
                patch.setattr(LmdbStore, name, full)
                with pytest.raises(NoRoom):
                    standby.intake.advance()
    standby.intake.advance()
    check_equal(owner, standby)


def test_a_log_that_is_away_changes_nothing(owner: OwnerProcess, standby: Standby) -> None:
    live(owner)
    standby.log.is_away = True
    with pytest.raises(LogUnreachable):
        standby.intake.advance()
    standby.log.is_away = False
    standby.intake.advance()
    check_equal(owner, standby)


def without(store: LmdbStore, *blobs: Hash) -> None:
    store.forget(Forget(blobs=blobs))


def fetching(source: LmdbStore, answers: list[bool]) -> Callable[[Hash], bytes | None]:
    """Asks one other node, which answers if the last of ``answers`` says so."""
    return lambda value: source.blob(value) if answers[-1] else None


def check_fetched(owner: OwnerProcess, standby: Standby, answers: list[bool]) -> None:
    """Check that nothing of an entry is taken before everything that it names is here."""
    before = rows_of(standby.store)
    for _ in range(2):
        with pytest.raises(NeedsBase, match="the owner did not give it"):
            standby.intake.advance()
    assert rows_of(standby.store) == before
    answers.append(True)
    standby.intake.advance()
    check_equal(owner, standby)


def test_a_module_that_only_the_owner_has_is_fetched_before_its_manifest_is_taken(
    tmp_path: Path, stream: SharedStream
) -> None:  # CL-64
    """The store of the owner had it, so the entry of the manifest does not bring it."""
    answers = [False]
    with owning(tmp_path / "owner", stream) as owner:
        owner.start()
        owner.write()
        owner.store.put_blobs(LOADED.modules)
        standby = Standby(tmp_path / "standby", stream, fetching(owner.store, answers))
        standby.intake.advance()
        without(standby.store, MODULE)
        assert isinstance(owner.apply(brings_module=False), Admitted)
        owner.write()

        check_fetched(owner, standby, answers)
        assert standby.store.has_blob(MODULE)
        standby.close()


def test_a_part_of_a_snapshot_that_only_the_owner_has_is_fetched(
    tmp_path: Path, stream: SharedStream, owner: OwnerProcess
) -> None:  # CL-64
    """The store of the owner had it from the snapshot before, so it was not written again."""
    answers = [False]
    standby = Standby(tmp_path / "lacking", stream, fetching(owner.store, answers))
    live(owner)
    first = owner.snapshot()
    owner.start()
    owner.write()
    standby.intake.advance()
    owner.snapshot()
    second = owner.store.snapshot_before()
    assert second is not None
    shared = set(parts(first.document, owner.store.blob)) & set(
        parts(second.document, owner.store.blob)
    )
    without(standby.store, min(shared))
    standby.intake.removed_blobs()

    check_fetched(owner, standby, answers)
    assert all(map(standby.store.has_blob, shared))
    standby.close()


def test_another_node_that_answers_with_other_bytes_is_not_believed(
    tmp_path: Path, stream: SharedStream
) -> None:  # CL-64
    with owning(tmp_path / "owner", stream) as owner:
        owner.start()
        owner.write()
        owner.store.put_blobs(LOADED.modules)
        standby = Standby(tmp_path / "standby", stream, lambda _: b"other bytes")
        standby.intake.advance()
        without(standby.store, MODULE)
        owner.apply(brings_module=False)
        owner.write()
        with pytest.raises(NeedsBase):
            standby.intake.advance()
        standby.close()


def erased_in_a_kept_snapshot(owner: OwnerProcess, standby: Standby) -> tuple[Hash, SnapshotRow]:
    """A value that is a part of a snapshot that only the standby keeps: a page of it."""
    live(owner)
    old = owner.snapshot()
    owner.tell("k1", note=LONG)
    owner.write()
    new = owner.snapshot()
    standby.intake.advance()
    removed = [row.at for row in owner.store.snapshots() if row.at != new.at]
    value = next(
        part
        for part in parts(old.document, owner.store.blob)
        if part not in set(parts(new.document, owner.store.blob)) and part != old.document
    )
    owner.store.forget(Forget(snapshots=tuple(removed)))
    assert isinstance(owner.erase(value), Admitted)
    owner.write()
    return value, old


def test_an_erasure_drops_the_snapshots_that_only_this_node_keeps(
    owner: OwnerProcess, standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:  # CL-65
    value, old = erased_in_a_kept_snapshot(owner, standby)
    assert old.at in [row.at for row in standby.store.snapshots()]

    def full(*_: object, **__: object) -> None:
        raise NoRoom("the disk is full", needed_bytes=1, free=0)

    with monkeypatch.context() as patch:
        patch.setattr(LmdbStore, "append", full)
        with pytest.raises(NoRoom):
            standby.intake.advance()
    assert old.at in [row.at for row in standby.store.snapshots()], "in the same transaction"
    standby.intake.advance()

    assert snapshot_with(standby.store, value) is None
    assert old.at not in [row.at for row in standby.store.snapshots()]
    with pytest.raises(Erased):
        standby.store.blob(value)
    standby.restart()
    assert standby.store.head() == owner.store.head()


def test_a_journal_that_begins_with_such_a_snapshot_is_made_again_from_a_base(
    owner: OwnerProcess, standby: Standby
) -> None:  # CL-65
    _, old = erased_in_a_kept_snapshot(owner, standby)
    frame = standby.store.frame_at(old.at)
    assert frame is not None
    tip = standby.store.head()
    assert tip is not None
    standby.store.set_cut(
        Cut(
            seq=old.at, frame=frame.hash, log=Tree(), document=old.document,
            genesis=b"genesis", archives=(),
        )
    )  # fmt: skip

    with pytest.raises(NeedsBase, match="begins"):
        standby.intake.advance()

    assert standby.store.head() == tip


def test_a_frame_that_is_not_as_its_records_say_is_damage(
    owner: OwnerProcess, standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:  # CL-61
    live(owner)
    monkeypatch.setattr(following, "from_bytes", lambda data: altered(from_bytes(data)))
    with pytest.raises(Damage, match="does not follow the one before it, or was altered"):
        standby.intake.advance()
    head = standby.store.head()
    assert head is not None
    assert head.seq == 1, "the genesis, and nothing of the next entry"


def altered(record: Record) -> Record:
    if isinstance(record, Start):
        return replace(record, host=(("kernel", "another"),))
    return record
