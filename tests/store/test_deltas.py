"""A store with deltas reads as one of whole blobs (spec/store.md, ST-90 to ST-95)."""

from __future__ import annotations

import errno
import random
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import lmdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aos.errors import Damage, Erased
from aos.store import environment
from aos.store.delta import CHAIN_MAX, DELTA_BYTES
from aos.store.derived import differences
from aos.store.errors import CommitFailed, NoRoom
from aos.store.first_look import structure_problems
from aos.store.lmdb_store import LmdbStore
from aos.store.packs import PACKED_BYTES
from aos.store.rows import Forget
from aos.values.digests import Hash, content_hash, hash_text
from tests.store.children import end, line, spawn
from tests.store.delta_writer import group
from tests.store.faulty import FaultyEnvironment, error
from tests.store.journal import Journal, derived_rows, put
from tests.store.test_lmdb_store import alter, without
from tests.tools import long_form


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)  # test data


def changed(state: bytes, seed: int) -> bytes:
    """The state after one more step: a little in front differs, and a little is added."""
    return b"%08d" % seed + state[8:] + noise(seed, 40)


def step(store: LmdbStore, journal: Journal, state: bytes, replaces: bytes | None = None) -> Hash:
    journal.step(state=state, replaces=replaces)
    journal.seal()
    put(store, journal)
    return content_hash(state)


def chain(store: LmdbStore, steps: int, size: int = 5000) -> tuple[Journal, list[bytes]]:
    """A journal of steps of one cell, and its states."""
    journal = Journal()
    journal.genesis()
    put(store, journal)
    states = [noise(0, size)]
    step(store, journal, states[0])
    for n in range(1, steps):
        states.append(changed(states[-1], n))
        step(store, journal, states[-1], states[-2])
    return journal, states


def chain_of(store: LmdbStore, state: bytes) -> int:
    delta = store.delta(content_hash(state))
    return 0 if delta is None else delta.chain


def assert_reads(store: LmdbStore, states: list[bytes]) -> None:
    for state in states:
        assert store.blob(content_hash(state)) == state


# Which states become deltas


def test_a_state_is_kept_as_a_delta_on_the_one_before_up_to_a_chain_of_31(folder: Path) -> None:
    """ST-90."""
    with LmdbStore.create(folder) as store:
        _, states = chain(store, 70)

        assert [chain_of(store, each) for each in states] == [n % 32 for n in range(70)]
        assert CHAIN_MAX == 31
        assert_reads(store, states)
    with LmdbStore.open(folder, readonly=True) as store:
        assert_reads(store, states[::-1])
        assert sorted(store.blob_sizes()) == sorted((content_hash(s), len(s)) for s in states)
        assert [store.blob_size(content_hash(s)) for s in states] == [len(s) for s in states]
        assert store.first_bytes(content_hash(states[5]), 20) == states[5][:20]


@pytest.mark.parametrize("size", [DELTA_BYTES - 100, PACKED_BYTES])
def test_small_and_packed_states_stay_whole(folder: Path, size: int) -> None:
    """ST-90: neither is a base, either."""
    with LmdbStore.create(folder) as store:
        journal, states = chain(store, 2, size)
        near = states[-1] + noise(7, 200) if size < PACKED_BYTES else states[-1][:-5000]
        step(store, journal, near, states[-1])

        assert [chain_of(store, each) for each in [*states, near]] == [0, 0, 0]
        assert_reads(store, [*states, near])


def test_a_state_stays_whole_if_its_base_is_not_there(folder: Path) -> None:
    """ST-90: it never was, or the same frame erases it."""
    with LmdbStore.create(folder) as store:
        journal, states = chain(store, 1)
        step(store, journal, changed(states[0], 1), b"absent")
        journal.step(state=changed(states[0], 2), replaces=states[0])
        journal.erase(content_hash(states[0]))
        journal.seal()
        put(store, journal)

        assert [chain_of(store, changed(states[0], n)) for n in (1, 2)] == [0, 0]
        assert_reads(store, [changed(states[0], 1), changed(states[0], 2)])


def test_a_state_may_have_a_base_in_its_own_frame(folder: Path) -> None:
    with LmdbStore.create(folder) as store:
        journal, states = chain(store, 1)
        for n in range(1, 5):
            states.append(changed(states[-1], n))
            journal.step(state=states[-1], replaces=states[-2])
        journal.seal()
        put(store, journal)

        assert [chain_of(store, each) for each in states] == [0, 1, 2, 3, 4]
        assert_reads(store, states)


# Erasing, forgetting


def test_deltas_on_an_erased_state_are_written_whole_first(folder: Path) -> None:
    """ST-93: and no bytes of the erased state remain after compacting."""
    with LmdbStore.create(folder) as store:
        journal, states = chain(store, 6)
        other = changed(states[2], 77)
        step(store, journal, other, states[2])
        gone = states[2]
        journal.erase(content_hash(gone))
        journal.seal()
        put(store, journal)

        assert [chain_of(store, each) for each in (*states, other)] == [0, 1, 0, 0, 4, 5, 0]
        with pytest.raises(Erased):
            store.blob(content_hash(gone))
        row = store.erased(content_hash(gone))
        assert row is not None
        assert row.size == len(gone)
        assert_reads(store, [*states[:2], *states[3:], other])
        store.compact()
        assert_reads(store, [*states[:2], *states[3:], other])
        assert list(differences(store, derived_rows(store.frames()))) == []


def test_a_base_is_not_forgotten_before_its_deltas(folder: Path) -> None:
    """ST-92."""
    with LmdbStore.create(folder) as store:
        _, states = chain(store, 5)
        hashes = [content_hash(each) for each in states]

        assert store.forget(Forget(blobs=hashes[:2])) == 0
        assert_reads(store, states)
        assert store.forget(Forget(blobs=[hashes[0], hashes[3], hashes[4]])) == 2
        assert_reads(store, states[:3])
        assert store.forget(Forget(blobs=sorted(hashes[:3]))) == 3
        assert list(store.blob_hashes()) == []


# Formats, damage, room


def test_only_a_store_with_deltas_has_the_newer_format(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST-94: an earlier release opens one without, and refuses one with deltas."""
    with LmdbStore.create(folder) as store:
        journal, states = chain(store, 1)
    with monkeypatch.context() as earlier:
        earlier.setattr(environment, "FORMATS", (environment.FORMAT,))
        LmdbStore.open(folder, readonly=True).close()
    without(folder, "deltas", "bases")
    with LmdbStore.open(folder) as store:
        step(store, journal, changed(states[0], 1), states[0])

    monkeypatch.setattr(environment, "FORMATS", (environment.FORMAT,))
    with pytest.raises(Damage, match=r"expected 1, found '2' \(a newer release"):
        LmdbStore.open(folder)


def test_a_reader_that_began_before_the_first_delta_reads_it(folder: Path) -> None:
    """ST-10a: the tables that a writer makes."""
    with LmdbStore.create(folder) as store:
        journal, states = chain(store, 1)
    without(folder, "deltas", "bases")
    child = spawn("delta_writer", str(folder), "reader")
    assert line(child.stdout) == "open"
    with LmdbStore.open(folder) as store:
        state = changed(states[0], 1)
        step(store, journal, state, states[0])
    assert child.stdin is not None
    child.stdin.write(content_hash(state).hex() + "\n")
    child.stdin.flush()

    assert line(child.stdout) == str(len(state))
    end(child)


def damaged(folder: Path, table: str, key: bytes, change: Callable[[bytes], bytes | None]) -> str:
    """The error of a reader of the last of three states after this damage."""
    with LmdbStore.create(folder) as store:
        _, states = chain(store, 3)
    alter(folder, table, key or content_hash(states[0]), change)
    with LmdbStore.open(folder) as store:
        with pytest.raises(Damage) as caught:
            store.blob(content_hash(states[2]))
        assert store.first_bytes(content_hash(states[2]), 4) in {None, states[2][:4]}
    said = str(caught.value)
    assert said.startswith(f"{folder}: blob {hash_text(content_hash(states[2]))}")
    return said


LAST = content_hash(changed(changed(noise(0, 5000), 1), 2))
MIDDLE = content_hash(changed(noise(0, 5000), 1))


@pytest.mark.parametrize(
    ("table", "key", "change", "said"),
    [
        ("blobs", b"", lambda _: None, "its base blake3:"),
        ("blobs", b"", lambda old: old[:-9] + bytes(9), "is altered"),
        ("deltas", MIDDLE, lambda _: None, "its base blake3:"),
        ("deltas", LAST, lambda old: old[:20], "a delta's row: expected 41 bytes"),
        ("deltas", LAST, lambda old: old[:-1], "ends within a part|is altered"),
        ("deltas", LAST, lambda old: old[:40] + b"\x01" + old[41:], "a longer chain"),
    ],
)
def test_a_delta_that_cannot_be_rebuilt_is_damage_that_names_it(
    folder: Path, table: str, key: bytes, change: Callable[[bytes], bytes | None], said: str
) -> None:
    """ST-91."""
    assert re.search(said, damaged(folder, table, key, change))


def test_the_room_for_states_that_become_whole_is_told(folder: Path) -> None:
    """ST-4: the error says about how many bytes the commit needs."""
    with LmdbStore.create(folder) as store:
        journal, states = chain(store, 2, 100_000)
        faulty = FaultyEnvironment.under(store)
        faulty.fail_next(error(lmdb.DiskError, "no space", errno.ENOSPC))
        journal.erase(content_hash(states[0]))
        journal.seal()
        with pytest.raises(NoRoom) as caught:
            put(store, journal)

        assert caught.value.needed_bytes > len(states[1])
        put(store, journal)
        assert_reads(store, states[1:])


# Kill


def test_a_killed_writer_leaves_states_that_all_read(tmp_path: Path) -> None:
    """ST-3, ST-91."""
    folder, last = tmp_path / "store", 0
    chance = random.Random(5)  # moments of kills
    for _ in range(12 if long_form() else 3):
        child = spawn("delta_writer", str(folder))
        assert line(child.stdout) == f"open {last}"
        for _ in range(chance.randrange(1, 40)):
            line(child.stdout)
        end(child)
        with LmdbStore.open(folder, readonly=True) as store:
            head = store.head()
            assert head is not None
            journal = Journal()
            states: dict[Hash, bytes | None] = {}
            while journal.tip.seq < head.seq:
                group(journal, states)
            assert head == journal.head()
            for hash, state in states.items():
                if state is None:
                    assert store.erased(hash) is not None
                else:
                    assert store.blob(hash) == state
            last = head.seq
    assert last > 20


# Any history

CELLS = 3
SIZES = (1500, 2100, 5000, 48_000)

operations = st.one_of(
    st.tuples(st.just("step"), st.integers(0, CELLS - 1), st.integers(1, 9)),
    st.tuples(st.just("steps"), st.integers(0, CELLS - 1), st.integers(2, 40)),
    st.tuples(st.just("new"), st.integers(0, CELLS - 1), st.sampled_from(SIZES)),
    st.tuples(st.just("copy"), st.integers(0, CELLS - 1), st.integers(0, CELLS - 1)),
    st.tuples(st.just("back"), st.integers(0, CELLS - 1), st.integers(0, 99)),
    st.tuples(st.just("put"), st.integers(0, 99)),
    st.tuples(st.just("erase"), st.integers(0, 99)),
    st.tuples(st.just("forget"), st.sets(st.integers(0, 99), max_size=60)),
    st.tuples(st.just("crash"), st.sampled_from(["put", "commit"]), st.integers(0, 12)),
    st.tuples(st.sampled_from(["compact", "reopen", "export"])),
)


class Pair:
    """A store, and what it must read as: a dictionary."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = LmdbStore.create(folder)
        self.journal = Journal()
        self.journal.genesis()
        put(self.store, self.journal)
        self.blobs: dict[Hash, bytes] = {}
        self.erased: dict[Hash, int] = {}
        self.states = [b""] * CELLS
        self.past: list[bytes] = []
        self.seed = 0
        self.crash: tuple[str, int] | None = None

    def do(self, operation: tuple[object, ...]) -> None:
        match operation:
            case ("step", int(cell), int(places)):
                self.step(cell, self.grown(cell, places))
            case ("steps", int(cell), int(count)):
                for _ in range(count):
                    self.step(cell, self.grown(cell, 1))
            case ("new", int(cell), int(size)):
                self.seed += 1
                self.step(cell, noise(self.seed, size))
            case ("copy", int(cell), int(other)):
                self.step(cell, self.states[other])
            case ("back", int(cell), int(at)) if self.past:
                self.step(cell, self.past[at % len(self.past)])
            case ("put", int(at)) if self.past:
                data = self.past[at % len(self.past)]
                self.store.put_blobs({content_hash(data): data})
                self.keep(data)
            case ("erase", int(at)) if self.past:
                self.erase(self.past[at % len(self.past)])
            case ("forget", set(places)) if self.past:
                self.forget([content_hash(self.past[at % len(self.past)]) for at in places])
            case ("crash", str(where), int(after)):
                self.crash = where, after
            case ("compact",):
                self.store.compact()
            case ("reopen",):
                self.reopen()
            case ("export",):
                self.export()
            case _:
                pass

    def grown(self, cell: int, places: int) -> bytes:
        """The state of a cell after a step that changes it in so many places."""
        self.seed += 1
        state = bytearray(self.states[cell] or noise(self.seed, 3000))
        for n in range(places):
            at = self.seed * 7919 * (n + 1) % len(state)
            state[at : at + 3 * n] = b"%d" % self.seed
        return bytes(state) + noise(self.seed, 30)

    def step(self, cell: int, state: bytes) -> None:
        before = self.states[cell]
        self.journal.step(state=state, replaces=before or None)
        self.commit()
        if len(state) > 1024:
            self.keep(state)
            self.past.append(state)
        self.states[cell] = state

    def erase(self, data: bytes) -> None:
        value = content_hash(data)
        size = len(self.blobs.pop(value, b"")) or self.erased.get(value, 0)
        self.erased[value] = size
        self.journal.erase(value)
        self.commit()

    def keep(self, data: bytes) -> None:
        self.blobs[content_hash(data)] = data
        self.erased.pop(content_hash(data), None)

    def forget(self, hashes: list[Hash]) -> None:
        gone = self.store.forget(Forget(blobs=hashes))
        stay = [each for each in hashes if self.store.has_blob(each)]
        assert gone == len(hashes) - len(stay)
        bases = {delta.base for each in self.blobs if (delta := self.store.delta(each)) is not None}
        assert set(stay) <= bases, "nothing but a base stays"
        for each in set(hashes) - set(stay):
            self.blobs.pop(each, None)

    def commit(self) -> None:
        """Append the frame; if a crash is due, only after a first attempt has failed."""
        sealed = self.journal.seal()
        follows = sealed.frame.header.prev
        if self.crash is not None:
            where, after = self.crash
            self.crash = None
            raw = self.store._environment._raw
            faulty = FaultyEnvironment.under(self.store)
            faulty.fail_next(error(lmdb.Error, "broken", errno.EIO), where=where, after=after)
            try:
                self.store.append([sealed], self.journal.head(), expected=follows)
            except CommitFailed:
                self.store._environment._raw = raw
                self.reopen()
            else:
                self.store._environment._raw = raw
                return
            self.check(is_last_erased=True)
        self.store.append([sealed], self.journal.head(), expected=follows)

    def reopen(self) -> None:
        self.store.close()
        self.store = LmdbStore.open(self.folder)

    def export(self) -> None:
        """Every blob goes into another store, as an import puts it."""
        with (
            TemporaryDirectory() as place,
            LmdbStore.create(Path(place) / "store") as other,
        ):
            other.put_blobs({each: self.store.blob(each) for each in self.store.blob_hashes()})
            assert list(other.blob_sizes()) == list(self.store.blob_sizes())
            assert all(other.blob(each) == data for each, data in self.blobs.items())

    def check(self, *, is_last_erased: bool = False) -> None:
        """``is_last_erased``: the last erasure may not be durable yet."""
        found = {hash: self.store.blob(hash) for hash in self.store.blob_hashes()}
        if not is_last_erased:
            assert found == self.blobs
            assert {hash: row.size for hash, row in self.store.erasures()} == self.erased
            assert list(self.store.blob_sizes()) == sorted(
                (hash, len(data)) for hash, data in self.blobs.items()
            )
        assert self.blobs.items() <= found.items()
        for hash, data in self.blobs.items():
            assert self.store.has_blob(hash)
            assert self.store.first_bytes(hash, 32) == data[:32]
            assert chain_of(self.store, data) <= CHAIN_MAX


@settings(
    max_examples=600 if long_form() else 12, suppress_health_check=list(HealthCheck), deadline=None
)
@given(st.lists(operations, min_size=5, max_size=25))
def test_after_any_history_it_reads_as_a_store_of_whole_blobs(
    history: list[tuple[object, ...]],
) -> None:
    """ST-90 to ST-93."""
    with TemporaryDirectory() as place:
        folder = Path(place) / "store"
        pair = Pair(folder)
        for operation in history:
            pair.do(operation)
            pair.check()
        pair.reopen()
        pair.check()
        everything = list(pair.blobs)
        assert pair.store.forget(Forget(blobs=everything)) == len(everything)
        assert list(pair.store.blob_hashes()) == []
        pair.store.close()
        assert structure_problems(folder) == []
        assert rows_left(folder) == {"deltas": 0, "bases": 0}


def rows_left(folder: Path) -> dict[str, int]:
    with lmdb.open(str(folder), readonly=True, max_dbs=20) as raw:
        found = {}
        for name in ("deltas", "bases"):
            table = raw.open_db(name.encode(), create=False)
            with raw.begin() as txn:
                found[name] = txn.stat(table)["entries"]
        return found
