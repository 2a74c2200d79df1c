"""Every bit of a small journal on disk, turned over: verify finds it and names where it is (A-20).

The journal has a record of every kind. The long form turns every bit over; otherwise every so many,
spread over everything.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, get_args

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import NO_FRAME, Frame, Head
from aos.core.journal.inputs import StartInput
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Record
from aos.errors import Damage
from aos.manifest.effective import Effective
from aos.prove.verify.findings import FindingKind, VerifyReport
from aos.prove.verify.verify import verify_store
from aos.store.lmdb_store import LmdbStore
from aos.values.cbor import Value
from aos.values.digests import Hash, hash_text
from tests.core.desk import ONCE, cancel, cell_id, desks, pay, timer, wish
from tests.core.governed import block, manifest, propose
from tests.memory_world import WORLD_KEY, MemoryWorld
from tests.tools import long_form

STRIDE: Final = 1 if long_form() else 1_009
"""Bits from one that is turned over to the next: a prime, so that all places in a byte come."""

BLOB_STRIDE: Final = 1 if long_form() else 397
VERIFIED_STRIDE: Final = 997
"""Of the bits in blobs, those after which the whole journal is verified and not the blob read."""

LONG: Final = "n" * 1100
"""Too long to be inlined in a record."""

MEMORY: Final = Path("/dev/shm")
"""Where a commit costs nothing, if there is such a place."""


@cache
def world() -> MemoryWorld:
    """Asked, told of progress, cancelled, failed, proposed a manifest, kept in a snapshot, tried
    again, settled: in many small frames, where looking for a bit takes least."""
    world = desks(governance=block("ann", quorum=1))
    world.blobs.update(world.loaded.modules)
    world.kernel.admit(StartInput(host=(("kernel", "0"),)), world.stamp())
    asks = [pay("p"), wish(ONCE, {"n": 1}, "o"), timer(world, "t")]
    tell(world, {"key": "a", "asks": asks, "note": LONG}, "submission-1")
    paid, once, _ = world.open()
    world.stream(paid, 0)
    world.attempt(once, 1)
    run(world)
    tell(world, {"key": "a", "asks": [cancel(ref="t")], "note": ""})
    new = manifest(block("ann", quorum=1), 2)
    propose(world, new)
    world.blobs.update(new.modules)
    tell(world, {"key": "b", "asks": [], "note": "fail"})
    assert isinstance(world.snapshot(), Admitted)
    world.settle(paid, {"ref": LONG})
    run(world)
    world.control("retry", cell=cell_id("b"))
    run(world)
    world.fork()
    run(world)
    return world


def tell(world: MemoryWorld, said: Value, submission_id: str | None = None) -> None:
    world.send("t/Tell@1", said, submission_id)
    run(world)


def run(world: MemoryWorld) -> None:
    """Seal one frame for the inputs and one for each step."""
    world.seal()
    while world.step() is not None:
        world.seal()


def test_the_journal_has_a_record_of_every_kind() -> None:
    found = {type(each) for each in world().records()}

    assert found == set(get_args(Record))


class Disk:
    """The journal in an LMDB store, one bit of which can be turned over."""

    def __init__(self, store: LmdbStore) -> None:
        self.store = store
        self._tables = store._environment.tables
        self._turned: tuple[str, bytes, bytes] | None = None

    def value(self, table: str, key: bytes) -> bytes:
        found = self.store._environment.read(lambda txn: txn.get(key, db=self._tables[table]))
        assert isinstance(found, bytes)
        return bytes(found)

    def keys(self, table: str) -> list[bytes]:
        return self.store._environment.read(
            lambda txn: [bytes(key) for key, _ in txn.cursor(db=self._tables[table])]
        )

    def turn(self, table: str, key: bytes, bit: int) -> None:
        """Turn a bit over, and the one before it back."""
        with self.store._environment.write(1 << 16) as txn:
            if self._turned is not None:
                before, at, was = self._turned
                txn.put(at, was, db=self._tables[before])
            whole = txn.get(key, db=self._tables[table])
            assert isinstance(whole, bytes)
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            txn.put(key, bytes(changed), db=self._tables[table])
        self._turned = (table, key, whole)

    def turn_back(self) -> None:
        assert self._turned is not None
        table, key, whole = self._turned
        with self.store._environment.write(1 << 16) as txn:
            txn.put(key, whole, db=self._tables[table])
        self._turned = None


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    # Reading the manifest is most of the time, and it is the same one each time.
    monkeypatch.setattr(
        Effective, "from_document", staticmethod(lru_cache(maxsize=4)(Effective.from_document))
    )
    with folder(tmp_path) as place, LmdbStore.create(place / "store") as store:
        expected = NO_FRAME
        store.put_blobs(world().blobs)
        for sealed in world().sealed:
            head = Head.of(sealed.tip).signed(WORLD_KEY)
            store.append([sealed], head, expected=expected)
            expected = sealed.frame.hash
        disk = Disk(store)
        assert verify_store(store).is_sound
        yield disk
        disk.turn_back()
        assert verify_store(store).is_sound


@contextmanager
def folder(otherwise: Path) -> Iterator[Path]:
    if not MEMORY.is_dir():
        yield otherwise
        return
    with tempfile.TemporaryDirectory(prefix="aos-bits-", dir=MEMORY) as place:
        yield Path(place)


def bits(size: int, *, stride: int = STRIDE, begin: int = 0) -> range:
    return range(begin % stride, 8 * size, stride)


def frames() -> list[Frame]:
    return world().frames


def contents(frame: Frame) -> dict[int, str | int]:
    """Which byte of a stored frame is content of its salt, or of the record with that sequence.
    The others are the header's, or say how long something is."""
    data = frame.to_bytes()
    found: dict[int, str | int] = {}
    for seq, record in enumerate(frame.records, frame.header.first):
        at = data.index(record)
        found |= dict.fromkeys(range(at, at + len(record)), seq)
    at = data.index(frame.salt)
    return found | dict.fromkeys(range(at, at + len(frame.salt)), "salt")


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(frames())))
def test_each_bit_of_a_frame_is_found_and_its_frame_and_record_named(
    disk: Disk, number: int
) -> None:
    """A-21 to A-23."""
    frame = frames()[number]
    first = frame.header.first
    key = disk.keys("frames")[number]
    where = contents(frame)

    for bit in bits(len(disk.value("frames", key)), begin=number * 47):
        disk.turn("frames", key, bit)
        report = verify_store(disk.store)
        place = where.get(bit // 8)
        assert not report.is_sound, bit
        assert report.findings[0].frame == first, (bit, shown(report))
        if isinstance(place, int):
            named = [(each.kind, each.record) for each in report.findings]
            assert named == [(FindingKind.RECORD_ALTERED, place)], (bit, shown(report))
        elif place == "salt":
            assert [each.kind for each in report.findings] == [FindingKind.FRAME_ALTERED], bit
            assert "in its salt" in report.findings[0].message


def shown(report: VerifyReport) -> list[str]:
    return [str(each) for each in report.findings]


@pytest.mark.long
def test_each_bit_of_the_head_is_found(disk: Disk) -> None:
    """A-27."""
    for bit in bits(len(disk.value("system", b"head")), stride=1 if long_form() else 211):
        disk.turn("system", b"head", bit)
        report = verify_store(disk.store)
        # A head that names a frame too many makes that one be missed as well.
        wrong = [each for each in report.findings if each.kind is FindingKind.HEAD_WRONG]
        assert wrong, (bit, shown(report))
        assert all((each.frame, each.record) == (None, None) for each in wrong)


@pytest.mark.long
def test_each_bit_of_a_blob_is_found_and_the_record_named_that_needs_it(disk: Disk) -> None:
    """A-24. Each flipped bit makes the blob unreadable. At intervals the whole store is verified.

    For a blob that only a snapshot needs, the finding names the snapshot."""
    number = 0
    for key in disk.keys("blobs"):
        blob = Hash(key)
        for bit in bits(len(disk.value("blobs", key)), stride=BLOB_STRIDE):
            disk.turn("blobs", key, bit)
            with pytest.raises(Damage, match=hash_text(blob)[:20]):
                disk.store.blob(blob)
            number += 1
            if number * BLOB_STRIDE % VERIFIED_STRIDE < BLOB_STRIDE:
                is_named(disk, blob)
        is_named(disk, blob)


def is_named(disk: Disk, blob: Hash) -> None:
    report = verify_store(disk.store)
    kinds = (FindingKind.BLOB_DAMAGED, FindingKind.SNAPSHOT_WRONG)
    damaged = [each for each in report.findings if each.kind in kinds]
    assert damaged, shown(report)
    assert all(each.record is not None for each in damaged if each.kind is FindingKind.BLOB_DAMAGED)
    assert any(blob.hex()[:16] in each.message for each in damaged), shown(report)


@pytest.mark.long
@pytest.mark.parametrize("table", ["intents", "submissions", "snapshots"])
def test_each_bit_of_a_derived_row_is_found(disk: Disk, table: str) -> None:
    """A-26."""
    assert disk.keys(table)
    for key in disk.keys(table):
        for bit in bits(len(disk.value(table, key)), stride=1 if long_form() else 101):
            disk.turn(table, key, bit)
            report = verify_store(disk.store)
            assert not report.is_sound, (bit, table)
            kinds = {each.kind for each in report.findings}
            # A row that names another document makes the newest snapshot unreadable as well.
            also = {FindingKind.SNAPSHOT_WRONG} if table == "snapshots" else set()
            assert kinds & {FindingKind.DERIVED_DIFFERS, FindingKind.STORE_UNREADABLE}, shown(
                report
            )
            assert kinds - also <= {FindingKind.DERIVED_DIFFERS, FindingKind.STORE_UNREADABLE}, (
                shown(report)
            )


def test_a_record_is_where_the_frame_says() -> None:
    """The other tests rely on this to find the record that a byte belongs to."""
    for frame in frames():
        where = contents(frame)
        data = frame.to_bytes()
        for seq, record in enumerate(frame.records, frame.header.first):
            assert bytes(data[at] for at in where if where[at] == seq) == record
            assert from_bytes(record).seq == seq
        assert set(where) < set(range(len(data)))
