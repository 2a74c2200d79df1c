"""A collection removes unneeded blobs, and nothing else (spec/state.md, RT-10 to RT-24)."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aos.core.decide.answers import Admitted
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Snapshot, slot_bytes
from aos.core.snapshot.load import references
from aos.core.snapshot.take import take
from aos.errors import Damage
from aos.host.executors.blob import put
from aos.host.folder.reader import open_reader
from aos.host.retention.gc import Collected, collect_world
from aos.host.retention.marking import NAMED, PUT, RECORD, SNAPSHOT, mark
from aos.host.retention.pruning import is_terminal, prune_world
from aos.prove.replay.replay import replay
from aos.prove.verify.roots import recorded_snapshots
from aos.prove.verify.verify import verify_store
from aos.read.views.cell_view import cell as cell_document
from aos.read.views.intent_view import intents
from aos.read.views.view import View
from aos.store.lmdb_store import LmdbStore
from aos.store.rows import Forget
from aos.store.store import first_kept
from aos.store.stored_world import open_stored
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash, content_hash, hash_text
from aos.values.sha256 import sha256_text, true_name
from tests.host.vault import DO, VAULT, Vault, make, write
from tests.memory_world import PythonRunner
from tests.tools import long_form


def stored(folder: Path) -> set[Hash]:
    with LmdbStore.open(folder / "store", readonly=True) as store:
        return set(store.blob_hashes())


def blob(name: str, size: int = 3000) -> bytes:
    return (name.encode() * size)[:size]


# Blobs that are removed or stay, one by one


@pytest.fixture
def world() -> Vault:
    return Vault()


def test_an_unreferenced_blob_is_removed(world: Vault, tmp_path: Path) -> None:
    """RT-10, RT-24."""
    orphan = world.put(blob("orphan"))
    world.do("a", "pad", blob("pad"))
    folder = make(world, tmp_path / "w")

    found = collect_world(folder)

    assert orphan not in stored(folder)
    assert (found.removed.blobs, found.removed.bytes, found.spared) == (1, 3000, 0)
    assert found.is_compacted
    assert collect_world(folder).removed.blobs == 0


def test_a_dry_run_says_the_same_and_takes_nothing(world: Vault, tmp_path: Path) -> None:
    """RT-16: also while another process holds the world."""
    world.put(blob("orphan"))
    world.do("a", "put", blob("data"))
    world.snapshot()
    world.run()
    folder = make(world, tmp_path / "w")
    before = stored(folder)

    dry = collect_world(folder, is_dry=True)

    assert stored(folder) == before
    assert (dry.is_dry, dry.removed.blobs, dry.is_compacted) == (True, 1, None)
    assert dry.kept_by_reason[RECORD].blobs > 0
    assert dry.kept_by_reason[SNAPSHOT].blobs > 0
    assert dry.kept_by_reason[NAMED].blobs == 2, "the blob and its edge"
    assert sum(amount.blobs for amount in dry.kept_by_reason.values()) + dry.removed.blobs == len(
        before
    )
    real = collect_world(folder)
    assert (real.removed, real.kept_by_reason, real.seq) == (
        dry.removed,
        dry.kept_by_reason,
        dry.seq,
    )


def test_the_maps_of_open_work_stay(world: Vault, tmp_path: Path) -> None:
    """RT-12, SN-15: the world starts from the snapshot, and its cells still wait."""
    for n in range(70):
        world.send(DO, {"id": f"w{n}", "what": "put", "data": blob(f"d{n}"), "ref": None})
    world.run()
    taken = world.kernel.snapshot(world.put, format=2)
    assert isinstance(world.kernel.admit(taken, world.stamp()), Admitted)
    world.run()
    orphan = world.put(blob("orphan"))
    folder = make(world, tmp_path / "w")
    with open_reader(folder) as reader:
        needed = dict(references(taken.document, reader.store.blob))
    assert "a node of a map of open work" in needed.values()

    collect_world(folder)

    left = stored(folder)
    assert orphan not in left
    assert needed.keys() <= left
    with open_reader(folder) as reader:
        state = reader.state
        assert state.cells.rests_waiting
        assert [intent.intent for intent in state.intents.values()] == [
            intent.intent for intent in world.open()
        ]
        assert verify_store(reader.store).is_sound


def test_a_blob_named_by_a_hash_field_stays_and_one_named_in_text_does_not(
    world: Vault, tmp_path: Path
) -> None:
    """RT-12: references are found by type, not by the form of a text."""
    named, told = world.put(blob("named")), world.put(blob("told"))
    for id in ("a", "b"):
        world.do(id, "pad", b"x")
    world.snapshot()
    world.run()
    folder = make(world, tmp_path / "w")
    assert {named, told} <= stored(folder)

    world.do("a", "hold", ref=named)
    write(world, folder)
    collect_world(folder)

    assert named in stored(folder)
    assert told not in stored(folder)


def test_a_named_blob_of_self_described_cbor_keeps_those_that_it_names(
    world: Vault, tmp_path: Path
) -> None:
    """RT-13a: by either hash, through any number of them, at any position and of any form; a blob
    without the tag names none."""
    tag = b"\xd9\xd9\xf7"
    names = {name: world.put(blob(name)) for name in ("hash", "sha256", "far", "told", "orphan")}
    world.put(true_name(blob("sha256")).to_bytes())
    far = world.put(tag + encode({"entries": [{"hash": hash_text(names["far"])}]}))
    near = tag + encode({hash_text(names["hash"]): None, "a": sha256_text(blob("sha256"))})
    near += hash_text(far).encode()  # the bytes need not be CBOR
    plain = world.put(encode({"hash": hash_text(names["told"])}))
    unnamed = world.put(tag + encode([hash_text(names["orphan"])]))
    nowhere = world.put(tag + encode([hash_text(content_hash(b"nowhere")), sha256_text(b"none")]))
    for ref in (world.put(near), plain, nowhere):
        world.do("a", "hold", ref=ref)
    folder = make(world, tmp_path / "w")

    collect_world(folder)

    kept = {name for name, hash in names.items() if hash in stored(folder)}
    assert kept == {"hash", "sha256", "far"}
    assert true_name(blob("sha256")).hash in stored(folder)
    assert unnamed not in stored(folder)


def test_a_blob_of_self_described_cbor_that_is_gone_names_nothing(
    world: Vault, tmp_path: Path
) -> None:
    """RT-13a: and does not end the marking, because a named hash may be unknown here."""
    named = world.put(blob("named"))
    node = world.put(b"\xd9\xd9\xf7" + encode([hash_text(named)]))
    world.do("a", "hold", ref=node)
    folder = make(world, tmp_path / "w")
    with LmdbStore.open(folder / "store") as store:
        store.forget(Forget(blobs=[node]))

    collect_world(folder)

    assert named not in stored(folder)


def pruned_at_newest(world: Vault, folder: Path) -> None:
    world.snapshot()
    world.run()
    write(world, folder)
    prune_world(folder)


def test_a_blob_that_an_instance_put_stays_until_it_is_over(world: Vault, tmp_path: Path) -> None:
    """RT-14: also where the record that told it was pruned, and its state names nothing."""
    for id in ("done", "works", "failed", "gone"):
        world.do(id, "put", blob(id))
        world.do(id, "drop")
    world.do("failed", "fail")
    folder = make(world, tmp_path / "w")
    pruned_at_newest(world, folder)
    found = collect_world(folder, keep=1)
    everything = {content_hash(blob(id)) for id in ("done", "works", "failed", "gone")}
    assert everything <= stored(folder)
    assert found.kept_by_reason[PUT].blobs == 8, "each blob, and its edge"

    world.do("done", "finish")
    world.do("gone", "delete")
    write(world, folder)
    assert everything <= stored(folder)
    found = collect_world(folder, keep=1)

    assert everything & stored(folder) == {content_hash(blob(id)) for id in ("works", "failed")}
    assert found.puts_gone == 4
    assert found.kept_by_reason[PUT].blobs == 4


def test_a_blob_that_an_operator_named_stays_before_and_after_its_receipt(
    world: Vault, tmp_path: Path
) -> None:
    """K-108, RT-12, RT-14: its receipt is owed when a frame ends, then delivered, then pruned."""
    world.send(DO, {"id": "a", "what": "put", "data": blob("lost"), "ref": None})
    world.run()
    (intent,) = world.open()
    told, blobs = put(blob("stated"), None, [])
    for data in blobs.values():
        world.put(data)
    named = set(blobs)
    world.control("settle", intent=intent.intent, status="ok", payload=encode(told))
    world.seal()
    assert world.state.owed
    folder = make(world, tmp_path / "w")

    with LmdbStore.open(folder / "store", readonly=True) as store:
        assert named <= mark(store, keep=1, base=0).live.keys()
    world.run()
    world.do("a", "drop")
    pruned_at_newest(world, folder)
    collect_world(folder, keep=1)
    assert named <= stored(folder)

    world.control("end", cell=(VAULT, encode("a")), status="completed")
    world.run()
    write(world, folder)
    collect_world(folder, keep=1)
    assert not named & stored(folder)


def test_an_edge_keeps_what_its_blob_refers_to(world: Vault, tmp_path: Path) -> None:
    """RT-13: through any number of edges."""
    far = world.put(blob("far"))
    world.do("a", "put", blob("middle"), ref=far)
    middle_edge = next(each for each in world.puts() if each != content_hash(blob("middle")))
    world.do("b", "put", blob("near"), ref=middle_edge)
    for id in ("a", "b"):
        world.do(id, "drop")
    world.do("a", "finish")
    folder = make(world, tmp_path / "w")
    pruned_at_newest(world, folder)

    collect_world(folder, keep=1)
    kept = {far, content_hash(blob("middle")), content_hash(blob("near"))}
    assert kept <= stored(folder)
    world.do("b", "finish")
    write(world, folder)
    collect_world(folder, keep=1)

    assert not kept & stored(folder)


def test_only_the_newest_snapshots_stay(world: Vault, tmp_path: Path) -> None:
    """RT-11."""
    for round in range(5):
        for id in "abcdef":
            world.do(id, "pad", f"{id}{round}".encode())
        world.snapshot()
        world.run()
    folder = make(world, tmp_path / "w")
    ats = [each.at for each in world.records() if isinstance(each, Snapshot)]

    first = collect_world(folder, keep=3)
    assert (first.snapshots_kept, first.snapshots_gone) == (tuple(ats[2:]), tuple(ats[:2]))
    assert first.removed.blobs > 10
    second = collect_world(folder, keep=1)
    assert second.snapshots_kept == (ats[-1],)
    check(world, folder)


def test_a_snapshot_that_a_pruned_journal_begins_with_stays(world: Vault, tmp_path: Path) -> None:
    """RT-11."""
    world.do("a", "pad", blob("one"))
    folder = make(world, tmp_path / "w")
    pruned_at_newest(world, folder)
    for round in range(3):
        world.do("a", "pad", blob(str(round)))
        world.snapshot()
        world.run()
    write(world, folder)

    found = collect_world(folder, keep=1)

    assert len(found.snapshots_kept) == 2
    check(world, folder)


def test_a_needed_blob_that_cannot_be_read_keeps_everything(world: Vault, tmp_path: Path) -> None:
    """RT-15."""
    world.put(blob("orphan"))
    world.do("a", "pad", blob("pad"))
    folder = make(world, tmp_path / "w")
    with LmdbStore.open(folder / "store") as store:
        state = next(
            hash for hash, data in world.blobs.items() if blob("pad") in data and len(data) < 3200
            and store.has_blob(hash)
        )  # fmt: skip
        for hash, data in world.blobs.items():
            if blob("pad") in data:
                store.forget(Forget(blobs=[hash]))
    before = stored(folder)

    with pytest.raises(Damage, match="is missing"):
        collect_world(folder)

    assert stored(folder) == before
    assert state not in before


# After any history


def check(world: Vault, folder: Path) -> None:
    """Assert that all readable values are there and unchanged (RT-10)."""
    with LmdbStore.open(folder / "store", readonly=True) as store:
        report = verify_store(store)
        assert report.findings == ()
        first = first_kept(store)
        frames = list(store.frames(first))
        recorded = dict(recorded_snapshots(frames))
        for row in store.snapshots():
            after = [each for each in frames if each.header.first > row.at]
            again = replay(
                after, store.blob, PythonRunner(dict(world.runner.modules)),
                head=store.head(), snapshots=recorded, start=partial(open_stored, store, row),
            )  # fmt: skip
            assert again.seq == world.state.tip.seq
        if first == 1:
            replay(frames, store.blob, PythonRunner(dict(world.runner.modules)), head=store.head())
        told = world.puts()
        for hash, cell in told.items():
            if not is_terminal(world.state.cells.get(cell)):
                assert store.has_blob(hash), "an instance that is not over was told of it"
    with open_reader(folder) as reader:
        assert take(reader.state, content_hash).document == (
            take(world.state, content_hash).document
        )
        view = View(reader.state, reader.store)
        documents: list[Any] = [intents(view, status=None, limit=10_000)]
        documents += [
            cell_document(view, VAULT, json.dumps(decode_record(each.id[1])))
            for each in reader.state.cells.values()
        ]
        assert "$unreadable" not in json.dumps(documents, default=str)
        last = reader.seq
    for seq in range(max(first, 2) - 1, last + 1):
        with open_reader(folder, at=seq) as reader:
            for each in reader.state.cells.values():
                if each.state is not None:
                    slot_bytes(each.state, reader.store.blob)


def reachable(world: Vault, folder: Path, found: Collected) -> set[Hash]:
    """By looking for the bytes of hashes, and their text, in everything that is needed: more than
    by types, and found in another way."""
    with LmdbStore.open(folder / "store", readonly=True) as store:
        blobs = {hash: world.blobs[hash] for hash in store.blob_hashes()}
        texts = [
            data
            for frame in store.frames(first_kept(store))
            for data in frame.records
            if not isinstance(from_bytes(data), Snapshot)
        ]
        deltas = {hash: delta for hash in blobs if (delta := store.delta(hash)) is not None}
        kept = {row.document for row in store.snapshots()}
        roots = kept | set(world.state.pinned)
        roots |= {
            row.blob for row in store.puts() if not is_terminal(world.state.cells.get(row.cell))
        }
    assert len(found.snapshots_kept) == len(kept)
    old = {each.document.hash for each in world.records() if isinstance(each, Snapshot)} - kept
    reached = {hash for hash in roots if hash in blobs}
    waiting = texts + [blobs[hash] for hash in reached]
    while waiting:
        text = waiting.pop()
        for hash in blobs.keys() - reached - old:
            if text.find(hash) >= 0 or hash_text(hash).encode() in text:
                reached.add(hash)
                waiting.append(blobs[hash])
    for hash in list(reached):
        delta = deltas.get(hash)
        while delta is not None:
            reached.add(delta.base)
            delta = deltas.get(delta.base)
    return reached


IDS = ("a", "b", "c")
BLOBS = [blob(name, size) for name, size in (("p", 40), ("q", 1500), ("r", 5000))]

operations = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(IDS), st.sampled_from(BLOBS), st.booleans()),
    st.tuples(st.just("hold"), st.sampled_from(IDS), st.sampled_from(BLOBS)),
    st.tuples(st.sampled_from(["drop", "finish", "delete", "fail"]), st.sampled_from(IDS)),
    st.tuples(st.just("pad"), st.sampled_from(IDS), st.sampled_from([b"", *BLOBS])),
    st.tuples(st.just("orphan"), st.binary(min_size=1, max_size=4)),
    st.tuples(st.just("snapshot")),
    st.tuples(st.just("prune")),
    st.tuples(st.just("gc"), st.integers(1, 3)),
)


def act(world: Vault, folder: Path, operation: tuple[Any, ...]) -> None:
    what, *rest = operation
    match what:
        case "put":
            id, data, is_edge = rest
            refs = sorted(world.puts())
            world.do(id, "put", data, ref=refs[0] if is_edge and refs else None)
        case "hold":
            id, data = rest
            world.do(id, "hold", ref=content_hash(data))
        case "pad":
            world.do(rest[0], "pad", rest[1])
        case "orphan":
            world.put(rest[0] * 50)
        case "snapshot":
            world.snapshot()
            world.run()
        case "prune":
            if any(isinstance(each, Snapshot) for each in world.records()):
                write(world, folder)
                prune_world(folder)
        case "gc":
            write(world, folder)
            found = collect_world(folder, keep=rest[0])
            check(world, folder)
            assert stored(folder) <= reachable(world, folder, found)
        case _:
            world.do(rest[0], what)


@settings(
    max_examples=150 if long_form() else 5,  # one takes a second where the machine is busy
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(operations, min_size=4, max_size=14))
def test_after_any_history_what_is_needed_stays_and_everything_else_goes(
    history: list[tuple[Any, ...]],
) -> None:
    """RT-10 to RT-16."""
    world = Vault()
    with TemporaryDirectory() as place:
        folder = make(world, Path(place) / "w")
        for operation in [*history, ("snapshot",), ("gc", 2), ("prune",), ("gc", 1)]:
            act(world, folder, operation)
