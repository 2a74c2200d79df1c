"""A snapshot holds the whole world, costs in proportion to changes, and is checked on load (SN-1 to
SN-9a)."""

from __future__ import annotations

import dataclasses
import enum
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

import cbor2
import pytest
from blake3 import blake3

from aos.core.decide.answers import Admitted, Duplicate, Refusal, Rule
from aos.core.journal.frame import Tip
from aos.core.journal.inputs import SnapshotInput
from aos.core.journal.records import Ref, Snapshot, slot_hash
from aos.core.kernel import open_kernel, world_state
from aos.core.limits import Limits
from aos.core.snapshot.load import layers, load, parts, references
from aos.core.snapshot.shape import ITEMS
from aos.core.snapshot.take import SnapshotLayers, rebase, take
from aos.core.state.cell import Cell
from aos.core.state.cells import Cells
from aos.core.state.entry import pack_keys
from aos.core.state.eras import Eras
from aos.core.state.fold import fold_frame
from aos.core.state.state import State
from aos.core.state.submissions import Submissions
from aos.errors import AosError, Damage
from aos.manifest.effective import Effective
from aos.values.cbor import Value, decode_record
from aos.values.digests import Hash, content_hash
from aos.values.schema import Schema
from tests.core.busy import COPY, busy, is_busy, manifest, tell
from tests.core.desk import DESK, cell_id
from tests.core.journal.test_records import JUNK, altered, at, places
from tests.memory_world import MemoryWorld, Module
from tests.run_seed import in_turns
from tests.tools import long_form

Blobs = dict[Hash, bytes]


@cache
def world() -> MemoryWorld:
    """Return a shared busy world; tests must not change it."""
    return busy()


def taken(
    state: State, known: Mapping[Hash, bytes] | None = None, *, format: int = 1
) -> tuple[SnapshotLayers, Blobs]:
    """``test_waiting_cells`` has the tests of format 2."""
    blobs: Blobs = dict(known or {})

    def put(data: bytes) -> Hash:
        blobs[content_hash(data)] = data
        return content_hash(data)

    return take(state, put, format=format), blobs


@cache
def snapped() -> tuple[SnapshotLayers, Blobs]:
    """The snapshot of ``world()`` and every blob that there is."""
    return taken(world().state, world().blobs)


def reader(blobs: Mapping[Hash, bytes]) -> Callable[[Hash], bytes]:
    def read(hash: Hash) -> bytes:
        if hash not in blobs:
            raise Damage(f"blob blake3:{hash.hex()} is missing")
        return blobs[hash]

    return read


def folded(world: MemoryWorld, *, keep: int | None = None) -> State:
    """From the genesis on, with or without cells in memory."""
    read = world.read
    state = empty(world, read)
    if keep is not None:
        state.cells.keep(keep)
    for frame in world.frames:
        fold_frame(state, frame, read)
    return state


def empty(world: MemoryWorld, read: Callable[[Hash], bytes]) -> State:
    window = Submissions(read=read, find=world.places.get)
    return State(tip=Tip(world=world.state.world), cells=Cells(read), submissions=window)


# A state as plain values


def plain(value: Any) -> Any:
    """Everything that a reader can see of it. Where it is kept does not count."""
    match value:
        case Cells():
            counts = {
                name: (each.count, each.undeclared, dict(+each.declared))
                for name, each in value.shelves.items()
                if each.count
            }
            return counts, [plain(each) for each in value.values()]
        case Submissions():
            return [(name, plain(each)) for name, each in value.items()]
        case Eras():
            return [plain(each) for each in value.all]
        case Effective():
            return value.hash
        case Schema():
            return value.name
        case State():
            shown = {each.name: getattr(value, each.name) for each in dataclasses.fields(State)}
            shown["intents"] = list(value.intents.in_order())
            for name in ("attempts", "streams", "halts"):
                shown[name] = dict(sorted(getattr(value, name).items()))
            for intent, attempt in shown["intents"]:
                if attempt is not None:
                    shown["attempts"][intent.intent] = attempt
            shown["attempts"] = dict(sorted(shown["attempts"].items()))
            return plain(shown)
        case Cell():
            shown = {each.name: getattr(value, each.name) for each in dataclasses.fields(Cell)}
            del shown["changed"], shown["stepped_under"]
            state = shown.pop("state")
            return plain(shown), None if state is None else slot_hash(state)
        case enum.Enum():
            return value.name
        case dict():
            return [(plain(key), plain(each)) for key, each in value.items()]
        case list() | tuple() | deque():
            return [plain(each) for each in value]
        case set() | frozenset():
            return sorted(map(plain, value))
        case _ if dataclasses.is_dataclass(value):
            return type(value).__name__, [
                (each.name, plain(getattr(value, each.name))) for each in dataclasses.fields(value)
            ]
        case _:
            return value


def groups(state: State) -> list[list[int]]:
    """Which of the mails and debts have one root in common, by their places."""
    roots = [mail.root for cell in ordered(state) for mail in cell.mailbox]
    roots += [owed.root for owed in state.owed]
    return [[i for i, other in enumerate(roots) if other is root] for root in roots]


def ordered(state: State) -> list[Cell]:
    return sorted(state.cells.active.values(), key=lambda cell: cell.id)


# Round trip


def test_everything_comes_back() -> None:
    """SN-5, SN-6."""
    is_busy(world())
    document, blobs = snapped()[0].document, snapped()[1]

    loaded = load(document, reader(blobs), find=world().places.get)

    assert plain(loaded) == plain(world().state)
    assert groups(loaded) == groups(world().state)
    for name, event in world().state.submissions.items():
        assert loaded.submissions.get(name) == event
    assert loaded.submissions.get("another") is None


def test_a_restored_state_is_taken_as_it_was() -> None:
    loaded = load(snapped()[0].document, reader(snapped()[1]))

    again, _ = taken(loaded)

    assert again.document == snapped()[0].document
    assert again.size == snapped()[0].size


def test_a_state_and_its_snapshot_continue_alike() -> None:
    """From the state and from its snapshot the same inputs make the same frames."""
    one, other = busy(), busy()
    found, blobs = taken(other.state, other.blobs)
    other.blobs = blobs
    other.restart(found.document)
    other.kernel.spill(resting_max=1)

    for each in (one, other):
        go_on(each)

    assert [each.to_bytes() for each in one.frames] == [each.to_bytes() for each in other.frames]
    assert taken(one.state)[0].document == taken(other.state)[0].document


def go_on(world: MemoryWorld) -> None:
    """Everything that is open ends, and everybody is told something."""
    world.run()
    assert isinstance(world.control("retry", cell=cell_id("b")), Admitted)
    world.run()
    assert isinstance(world.control("skip", cell=cell_id("b")), Admitted)
    late = list(world.state.abandoned.values())
    for intent in [*world.open(), *late]:
        world.settle(intent, {"ref": "paid"})
    world.run()
    for key in ("a", "b", "c", "d", "e", "f", "h", "j", "j-2", "new"):
        tell(world, key, note="delete" if key in "de" else "said", run=True)
    oldest = next(iter(world.state.submissions))
    again = world.send("t/Tell@1", {"key": "c", "asks": [], "note": ""}, oldest)
    assert isinstance(again, Refusal)
    assert again.rule is Rule.SUBMISSION_ID_IS_TAKEN
    world.run()


def test_a_world_without_a_manifest_has_a_snapshot() -> None:
    """Where an index has no root. Its record is the second of the world."""
    kernel = open_kernel(world=world().state.world, read=world().read)
    kernel.follow(world().frames[0])
    first = world_state(kernel)

    found, blobs = taken(first, world().blobs)

    assert plain(load(found.document, reader(blobs))) == plain(first)
    assert list(blobs.keys() - world().blobs.keys()) == [found.document]
    assert kernel.admit(given_of(found), world().stamp()) == Admitted(seq=2)


# One root


@pytest.mark.parametrize("keep", [None, 1, 3])
def test_the_same_records_give_the_same_bytes(keep: int | None) -> None:
    """SN-7: for any number of cells in memory."""
    assert taken(folded(world(), keep=keep))[0].document == snapped()[0].document


def test_the_same_records_give_the_same_bytes_whatever_snapshots_there_were() -> None:
    """SN-7: taken every few frames, each from the one before, by states that were loaded."""
    blobs = dict(world().blobs)

    def put(data: bytes) -> Hash:
        blobs[content_hash(data)] = data
        return content_hash(data)

    for every in (1, 2, 5):
        state = empty(world(), reader(blobs))
        state.cells.spilling.is_on = True
        for number, frame in enumerate(world().frames):
            fold_frame(state, frame, reader(blobs))
            if number % every == 0:
                found = take(state, put)
                if number % 2:
                    rebase(state, layers(found.document, reader(blobs)))
                else:
                    state = load(found.document, reader(blobs), find=world().places.get)
                    state.cells.keep(1)
        assert taken(state)[0].document == snapped()[0].document
        assert plain(state) == plain(world().state)


def test_two_worlds_that_differ_in_one_record_have_other_roots() -> None:
    other = busy()
    other.send("t/Tell@1", {"key": "a", "asks": [], "note": ""})
    other.seal()

    assert taken(other.state)[0].document != snapped()[0].document


def test_a_rebase_changes_nothing_that_a_reader_sees() -> None:
    other = busy()
    other.blobs = dict(snapped()[1])
    state = other.state
    before = plain(state)

    rebase(state, layers(snapped()[0].document, other.read))
    state.cells.tidy()

    assert state.cells.shelves[COPY].delta == OrderedDict()
    assert plain(state) == before


def test_a_snapshot_in_the_middle_of_a_frame_is_a_bug() -> None:
    other = busy()
    other.send("t/Tell@1", {"key": "a", "asks": [], "note": ""})

    with pytest.raises(AssertionError, match="in the middle of a frame"):
        take(other.state, content_hash)


# Cost


def many(count: int, *, limits: Limits) -> MemoryWorld:
    modules: dict[str, Module] = {DESK: lambda _: {"state": b"\x80"}, COPY: lambda _: EMPTY}
    found = MemoryWorld(manifest(1), modules, limits=limits)
    for number in range(count):
        tell(found, f"{number}", run=number % 50 == 49)
    found.run()
    return found


EMPTY: Final = {"state": b"\x81\x61a"}


def test_a_snapshot_costs_what_changed() -> None:
    """SN-8: blobs that are put for k cells of n, and their bytes."""
    found = many(1200, limits=Limits(chunk=256))
    first, found.blobs = taken(found.state, found.blobs)
    found.kernel.rebase(first.document)
    costs = {}
    for touched in (0, 1, 10):
        for number in range(touched):
            tell(found, f"{number * 37}")
        found.run()
        before = set(found.blobs)
        new, found.blobs = taken(found.state, found.blobs)
        found.kernel.rebase(new.document)
        written = found.blobs.keys() - before
        costs[touched] = (len(written), sum(len(found.blobs[each]) for each in written))

    assert costs[0][0] == 0
    # Of two workflows: leaves and two interior nodes above; a chunk or two; the document.
    assert costs[1][0] <= 10
    assert costs[10][0] <= 10 * 4 + 10
    # A leaf of a world of this size has some 64 entries of 150 bytes.
    assert costs[10][1] <= 10 * 2 * 64 * 200 + 60_000
    assert costs[1][1] * 3 < costs[10][1] + 120_000


def test_pages_are_full_before_the_next_begins() -> None:
    found, blobs = taken(replace(world().state, limits=Limits(page_items=3)), world().blobs)
    work = fields_of(found.document, blobs)["work"]

    for name, pages in work.items():
        sizes = [len(cbor2.loads(blobs[page])) for page in pages]
        assert sizes[:-1] == [3] * (len(sizes) - 1), name
        assert all(0 < size <= 3 for size in sizes), name
    assert plain(load(found.document, reader(blobs))) == plain(world().state)


def test_pages_end_when_they_are_long() -> None:
    found, blobs = taken(replace(world().state, limits=Limits(page_bytes=200)), world().blobs)

    pages = fields_of(found.document, blobs)["work"]["intents"]

    assert len(pages) > 1
    assert plain(load(found.document, reader(blobs))) == plain(world().state)


# Blobs that a snapshot needs


def test_references_are_what_is_read_and_no_more() -> None:
    """SN-9a."""
    document, blobs = snapped()[0].document, snapped()[1]
    touched: set[Hash] = set()

    def read(hash: Hash) -> bytes:
        touched.add(hash)
        return blobs[hash]

    named = {hash for hash, _ in references(document, reader(blobs))}
    state = load(document, read, find=world().places.get)
    list(state.cells.values())
    list(state.submissions.items())
    touched |= values_of(state) | set(state.pinned)
    # A cell in memory is also in its page and in the index, but no read touches these for it.
    asked = [pack_keys(cell.keys) for cell in state.cells.active.values() if cell.state is not None]
    touched |= {content_hash(keys) for keys in asked if keys is not None}

    assert named == touched
    assert named <= blobs.keys()
    kept = {hash: blobs[hash] for hash in named}
    assert plain(load(document, reader(kept), find=world().places.get)) == plain(world().state)


def values_of(state: State) -> set[Hash]:
    """Every value that a cell, mail or an open intent holds outside of it."""
    slots: list[Any] = [cell.state for cell in state.cells.values()]
    intents = [*state.intents.values(), *state.abandoned.values()]
    for cell in state.cells.active.values():
        for mail in cell.mailbox:
            for name in ("value", "receipt", "frame"):
                held = getattr(mail, name, None)
                slots.append(getattr(held, "payload", held))
            intents += [mail.intent] if hasattr(mail, "intent") else []
    slots += [each.params for each in intents]
    named = {each.hash for each in slots if isinstance(each, Ref)}
    return named | {each.manifest for each in intents}


def test_parts_are_what_is_no_value() -> None:
    """SN-9a: parts are the snapshot's own blobs, which no command may erase."""
    document, blobs = snapped()[0].document, snapped()[1]
    every = dict(references(document, reader(blobs)))

    found = set(parts(document, reader(blobs)))

    assert document in found
    assert found <= every.keys()
    assert {every[each] for each in found} == {
        "the document of a snapshot", "a chunk of the dedup window", "a page of open work",
        "a node of an index",
    }  # fmt: skip
    rest = {every[each] for each in every.keys() - found}
    assert not rest & {every[each] for each in found}


def test_references_leave_out_what_is_known() -> None:
    """Of two snapshots the second has few nodes that the first has not."""
    other = busy()
    first, blobs = taken(other.state, other.blobs)
    assert isinstance(other.attempt(other.open()[-2], 5), Admitted)
    other.seal()
    second, blobs = taken(other.state, {**blobs, **other.blobs})
    known = {hash for hash, _ in references(first.document, reader(blobs))}

    every = [hash for hash, _ in references(second.document, reader(blobs))]
    new = [hash for hash, _ in references(second.document, reader(blobs), known.__contains__)]

    assert set(new) | known >= set(every)
    assert len(new) < len(every)


# The formats, a second time (SN-5, SN-6): cbor2 and blake3 alone


def fields_of(document: Hash, blobs: Mapping[Hash, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = cbor2.loads(blobs[document])
    return found


def test_the_document_is_as_the_specification_says() -> None:
    state = world().state
    document, blobs = snapped()[0].document, snapped()[1]
    found = fields_of(document, blobs)
    work = found.pop("work")
    mark = state.snapshot

    assert found.pop("cells") == {
        name: [
            index.root, index.count, state.cells.shelves[name].count,
            *(sum(c.declared == status for c in state.cells.of(name))
              for status in ("completed", "failed")),
        ]
        for name, index in snapped()[0].cells.items()
    }  # fmt: skip
    assert mark is None
    assert found == {
        "format": 1, "world": state.world, "seq": state.tip.seq, "frame": state.tip.frame,
        "log": [len(world().frames), list(state.tip.log.peaks)], "clock_ns": state.clock_ns,
        "world_key": state.world_key, "operators": [["operator", state.operators[0].key]],
        "semantics": state.semantics, "serial": 3, "controls": state.controls, "revoked": [],
        "pinned": sorted(state.pinned), "manifest": state.effective.hash,
        "manifest_seq": state.manifest_seq, "snapshot": None,
        "eras": [[each.seq, each.manifest, []] for each in state.eras.all],
        "submissions": [
            [0, chunk_of(state), len(state.submissions)],
        ],
    }  # fmt: skip
    assert set(work) == set(ITEMS)
    items = {name: [each for page in pages for each in cbor2.loads(blobs[page])]
             for name, pages in work.items()}  # fmt: skip
    assert items["ring"] == [list(id) for id in state.ring]
    assert items["attempts"] == [[i, n] for i, n in sorted(state.attempts.items())]
    assert items["halts"] == [
        [intent, "parked", 2, halt.seq, halt.since_ns, "exception", None]
        for intent, halt in state.halts.items()
    ]
    assert items["world_keys"] == [list(each) for each in state.world_keys.items()]
    assert [each[0] for each in items["intents"]] == list(state.intents)
    assert [each[0] for each in items["abandoned"]] == list(state.abandoned)
    assert [tuple(each[0]) for each in items["cells"]] == sorted(
        cell.id for cell in state.cells.unrested()
    )
    assert items["roots"] == sorted(items["roots"])
    for blob in [document, *(page for pages in work.values() for page in pages)]:
        assert cbor2.dumps(cbor2.loads(blobs[blob]), canonical=True) == blobs[blob]


def chunk_of(state: State) -> bytes:
    rows = [[row.seq, name, row.payload, row.at_ns] for name, row in state.submissions.items()]
    return blake3(cbor2.dumps(rows, canonical=True)).digest()


# Records


def given_of(layers: SnapshotLayers) -> SnapshotInput:
    return SnapshotInput(
        at=layers.at, frame=layers.frame, document=layers.document, size=layers.size
    )


def test_a_snapshot_is_journaled_once_and_in_order() -> None:
    """SN-2, SN-3."""
    other = busy()
    first, _ = taken(other.state)
    given = given_of(first)
    place = other.state.next_seq
    assert other.kernel.admit(given, other.stamp()) == Admitted(seq=place)
    assert other.kernel.admit(given, other.stamp()) == Duplicate(seq=place)
    record = other.seal()[-1]

    assert isinstance(record, Snapshot)
    assert (record.at, record.frame) == (first.at, first.frame)
    assert record.document == Ref(first.document, first.size)
    assert other.sealed[-1].snapshots == (other.state.snapshot,)
    for wrong in (
        {"at": first.at, "document": content_hash(b"another")},
        {"at": first.at - 1}, {"at": 0}, {"at": other.state.next_seq},
    ):  # fmt: skip
        answer = other.kernel.admit(dataclasses.replace(given, **wrong), other.stamp())
        assert isinstance(answer, Refusal)
        assert answer.rule is Rule.SNAPSHOT_IS_OLD
    assert other.kernel.pending_records == 0


@pytest.mark.parametrize("place", [0, 10, 11, 40])
def test_a_snapshot_out_of_order_cannot_follow(place: int) -> None:
    """SN-3: the last was taken after record 10, and this is record 11."""
    state = folded(world())
    state.snapshot = snapshot_mark(10)
    state.next_seq = 11
    record = Snapshot(
        seq=11, stamp=world().stamp(), at=place, frame=Hash(bytes(32)),
        document=Ref(Hash(bytes(32)), 1),
    )  # fmt: skip
    from aos.core.state.fold import fold

    with pytest.raises(Damage, match="record 11 is a snapshot after record"):
        fold(state, record, world().read)


def snapshot_mark(at: int) -> Any:
    from aos.core.state.state import Mark

    return Mark(seq=at, at=at, document=Hash(bytes(32)))


# Damage


def own(document: Hash, blobs: Mapping[Hash, bytes]) -> list[Hash]:
    """Return the hashes of the snapshot's own blobs, sorted."""
    return sorted(set(parts(document, reader(blobs))))


def read_whole(document: Hash, blobs: Mapping[Hash, bytes]) -> State:
    """Load it and read everything that is in it."""
    read = reader(blobs)
    state = load(document, read, find=world().places.get)
    list(state.cells.values())
    for name, _ in list(state.submissions.items()):
        state.submissions.get(name)
    list(references(document, read))
    layers(document, read)
    return state


def test_a_part_that_is_missing_is_damage() -> None:
    document, blobs = snapped()[0].document, snapped()[1]
    for part in own(document, blobs):
        rest = {hash: data for hash, data in blobs.items() if hash != part}
        with pytest.raises(Damage, match=part.hex()[:20]):
            read_whole(document, rest)


def test_a_snapshot_of_a_newer_release_says_so() -> None:
    document, blobs = snapped()[0].document, dict(snapped()[1])
    newer = cbor2.dumps({**fields_of(document, blobs), "format": 3}, canonical=True)
    blobs[content_hash(newer)] = newer

    for reads in (load, layers):
        with pytest.raises(Damage) as caught:
            reads(content_hash(newer), reader(blobs))
        assert str(caught.value) == (
            "the snapshot is of format 3: expected 1 or 2 (a newer release wrote it)"
        )


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xf6", b"\xa0", b"\xa1\x66format\x61x", b"\x9f"])
def test_bytes_that_are_no_document_are_damage(data: bytes) -> None:
    with pytest.raises(Damage, match="snapshot"):
        load(content_hash(data), reader({content_hash(data): data}))


ABSENT: Final = object()
"""The value of a field that a forged document leaves out."""


def forged(
    document: Hash, blobs: Mapping[Hash, bytes], part: Hash, new: bytes
) -> tuple[Hash, Blobs]:
    """Return the snapshot with other bytes for one part and all hashes above it rebuilt."""
    more = {**blobs, content_hash(new): new}
    if part == document:
        return content_hash(new), more
    whole = blobs[document].replace(part, content_hash(new))
    more[content_hash(whole)] = whole
    return content_hash(whole), more


def damaged_or_read(document: Hash, blobs: Blobs) -> State | None:
    """Damage or a state. Nothing else may happen."""
    try:
        return read_whole(document, blobs)
    except Damage:
        return None


def pages() -> list[tuple[str, Hash]]:
    found = fields_of(snapped()[0].document, snapped()[1])["work"]
    return [(name, Hash(page)) for name, listed in found.items() for page in listed]


MORE: Final[tuple[Value, ...]] = (
    ["text", b""], [bytes(32), 5], 2**32, "completed", "event", "receipt_invalid",
)  # fmt: skip
SOME: Final = (*JUNK, *MORE)


STEP: Final = 1 if long_form() else 7
"""Of so many forgeries one is tried."""


def junked(part: Hash) -> Iterator[bytes]:
    """The part with junk in each place in turn."""
    whole = decode_record(snapped()[1][part])
    number = 0
    for path in places(whole):
        before = at(whole, path)
        for junk in SOME:
            number += 1
            if number % STEP == 0 and junk != before:
                yield cbor2.dumps(altered(whole, path, junk), canonical=True)


@pytest.mark.long
def test_a_crafted_document_is_damage_or_read() -> None:
    document, blobs = snapped()[0].document, snapped()[1]
    before = plain(world().state)
    read = 0
    with quick_manifests():
        for new in junked(document):
            found = damaged_or_read(*forged(document, blobs, document, new))
            read += found is not None
            assert found is None or plain(found) != before or new != blobs[document]
    # Other clocks, serials and keys are as good as these.
    assert 0 < read * STEP < 400


@pytest.mark.long
@pytest.mark.parametrize(
    "page", in_turns(2, [pytest.param(page, id=name) for name, page in pages()])
)
def test_a_crafted_page_is_damage_or_read(page: Hash) -> None:
    document, blobs = snapped()[0].document, snapped()[1]
    with quick_manifests():
        for new in junked(page):
            damaged_or_read(*forged(document, blobs, page, new))


@pytest.mark.long
def test_a_part_with_a_bit_turned_over_is_damage_or_read() -> None:
    document, blobs = snapped()[0].document, snapped()[1]
    with quick_manifests():
        for number, part in enumerate(own(document, blobs)):
            data = blobs[part]
            for bit in range(number, 8 * len(data), 101 * STEP):
                new = bytearray(data)
                new[bit // 8] ^= 1 << bit % 8
                damaged_or_read(*forged(document, blobs, part, bytes(new)))
            with pytest.raises(Damage):
                read_whole(*forged(document, blobs, part, data[:-1]))


def quick_manifests() -> Any:
    """Reading a manifest takes longer than all the rest."""
    from tests.sim.ends import manifests_read_once

    return manifests_read_once()


def test_work_that_does_not_agree_with_itself_is_damage() -> None:
    """Each of these is well-formed by itself."""
    document, blobs = snapped()[0].document, snapped()[1]
    found = fields_of(document, blobs)
    work = {**found["work"]}
    for name, says in {
        "ring": "ring", "intents": "intents", "cells": "intents", "abandoned": "attempts",
    }.items():  # fmt: skip
        new = cbor2.dumps({**found, "work": {**work, name: []}}, canonical=True)
        with pytest.raises(Damage, match=f"the snapshot's {says} does not agree|ring does not"):
            load(*reread(forged(document, blobs, document, new)))
    counts = {name: [root, n, total + 1, *more] for name, (root, n, total, *more) in
              found["cells"].items()}  # fmt: skip
    new = cbor2.dumps({**found, "cells": counts}, canonical=True)
    with pytest.raises(Damage, match="the snapshot's cells does not agree with the rest of it"):
        load(*reread(forged(document, blobs, document, new)))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"world": ABSENT, "seq": ABSENT, "work": ABSENT}, "the snapshot has no world"),
        ({"format": True}, "the snapshot's document is none that is written"),
        ({"submissions": [[1, bytes(32), 1], [1, bytes(32), 1]]}, "the snapshot's submissions is"),
        ({"submissions": [[1, bytes(32), 0]]}, "the snapshot's submissions is"),
        ({"submissions": [[1, bytes(32), 2**64 - 1], [2, bytes(32), 2]]}, "submissions is none"),
        ({"seq": 2**63}, "the snapshot's seq is none that is written"),
        ({"seq": 2**64 - 1}, "the snapshot's seq is none that is written"),
        ({"log": [2**63, [bytes(32)]]}, "the snapshot's log is none that is written"),
    ],
)
def test_a_document_of_another_shape_is_damage(change: dict[str, Any], text: str) -> None:
    """Whatever reads it states the same problem, the first in the order of the fields (SN-5)."""
    document, blobs = snapped()[0].document, snapped()[1]
    fields = {"format": 1, **fields_of(document, blobs), **change}
    new = cbor2.dumps({k: v for k, v in fields.items() if v is not ABSENT}, canonical=True)

    with pytest.raises(Damage, match=text):
        load(*reread(forged(document, blobs, document, new)))


def test_an_intent_of_an_unknown_effect_is_damage() -> None:
    document, blobs = snapped()[0].document, snapped()[1]
    [page, *_] = fields_of(document, blobs)["work"]["intents"]
    intents = decode_record(blobs[page])
    assert isinstance(intents, list)
    assert isinstance(intents[0], list)
    intents[0][7] = "com.acme/unknown"

    with pytest.raises(Damage, match=r"^the snapshot is none that is written$"):
        load(*reread(forged(document, blobs, page, cbor2.dumps(intents, canonical=True))))


def reread(given: tuple[Hash, Blobs]) -> tuple[Hash, Callable[[Hash], bytes]]:
    return given[0], reader(given[1])


def test_an_index_with_another_count_is_damage() -> None:
    document, blobs = snapped()[0].document, snapped()[1]
    found = fields_of(document, blobs)
    cells = {name: [root, n + 1, total + 1, *more] for name, (root, n, total, *more) in
             found["cells"].items()}  # fmt: skip
    new = cbor2.dumps({**found, "cells": cells}, canonical=True)
    state = load(*reread(forged(document, blobs, document, new)))

    with pytest.raises(AosError):
        list(state.cells.values())


def test_a_reader_that_is_no_snapshots_is_passed_on() -> None:
    """An error of the store is raised unchanged."""

    def read(hash: Hash) -> bytes:
        raise Damage("the disk is gone")

    for reads in (load, layers, lambda *given: list(references(*given))):
        with pytest.raises(Damage, match="the disk is gone"):
            reads(snapped()[0].document, read)


# Erasing (K-104)


def test_values_that_a_snapshot_needs_cannot_be_erased() -> None:
    other = busy()
    assert isinstance(other.snapshot(), Admitted)
    other.seal()
    mark = other.state.snapshot
    assert mark is not None
    kept = {
        content_hash(pack_keys(cell.keys) or b"")
        for cell in other.state.cells.values()
        if cell.keys and cell.state is not None
    }
    states = {slot_hash(cell.state) for cell in other.state.cells.values() if cell.state}
    for value in sorted({*parts(mark.document, other.read), *kept, *states}):
        answer = other.control("erase", value=value)
        assert isinstance(answer, Refusal)
        assert answer.rule is Rule.VALUE_IS_IN_USE
    assert other.kernel.pending_records == 0


def test_an_earlier_state_of_a_cell_can_be_erased_and_the_snapshot_still_loads() -> None:
    """Only views of the world at that time read this state."""
    other = busy()
    assert isinstance(other.snapshot(), Admitted)
    state = other.state.cells[cell_id("d")].state
    assert isinstance(state, Ref)
    other.run()
    tell(other, "d", note="another", run=True)
    assert isinstance(other.control("erase", value=state.hash), Admitted)
    other.seal()
    del other.blobs[state.hash]
    mark = other.state.snapshot
    assert mark is not None

    again = load(mark.document, other.read, find=other.places.get)
    for frame in other.frames:
        if frame.header.first > mark.at:
            fold_frame(again, frame, other.read)

    assert plain(again) == plain(other.state)
    assert taken(again)[0].document == taken(other.state)[0].document
