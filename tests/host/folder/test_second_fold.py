"""The second kernel folds for readers, and every answer is the reference's (spec/core.md, CR-38,
CR-39)."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import MIGRATE
from aos.core.snapshot.load import layers
from aos.core.snapshot.take import FORMATS, take
from aos.core.state.cell import Cell, OpenIntent
from aos.core.state.state import State
from aos.errors import AosError, Damage
from aos.fastcore import buffer, compiled_core, core_choice
from aos.fastcore.buffer import CoreCode
from aos.fastcore.compiled_core import live_code
from aos.fastcore.core_kind import CORE_VARIABLE, CoreKind
from aos.fastcore.errors import CoreDefect
from aos.fastcore.fold_core import RESERVE_BYTES, CoreOperation, FoldCore, TakenBytes
from aos.host.folder import second_fold
from aos.host.folder.folder import WorldFolder, open_folder
from aos.host.folder.reader import WorldReader, open_reader
from aos.host.folder.restore import catch_up, restore
from aos.host.folder.second_fold import SecondFold
from aos.host.world import snapshot_child
from aos.read.operations.operation import Query, ReadOperation
from aos.read.operations.table import OPERATIONS
from aos.read.views.view import View
from aos.sandbox.cache import standard_cache
from aos.sandbox.caps import MIB
from aos.store.memory_store import MemoryStore
from aos.store.store import Store, head_of
from aos.testing.play import _played
from aos.testing.scenario import parse
from aos.values.cbor import decode_record
from aos.values.digests import Hash, content_hash
from tests.core.cases import CASE, case, cases, pay, tell
from tests.core.decide.test_migrate import migrating, to_counted
from tests.fake_clock import set_machine_clock
from tests.host.folder.test_reader import append
from tests.memory_world import MemoryWorld
from tests.modules.guests import ROOT
from tests.read.index.histories import History
from tests.run_seed import rotated
from tests.store.test_lmdb_store import alter

NOW_NS = 1_900_000_000_000_000_000

STORIES = sorted((ROOT / "manifests").rglob("*.scenario.toml"))
"""Worlds of orders, sagas, flows, plans, approvals, agents."""


@pytest.fixture(autouse=True)
def second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second kernel folds every journal, also a short one."""
    monkeypatch.setenv(CORE_VARIABLE, CoreKind.FAST.value)
    set_machine_clock(monkeypatch, NOW_NS)
    # As in a process that has folded before: without the line that the core is compiled.
    code()


def code() -> CoreCode:
    return live_code(standard_cache(outside=ROOT), lambda _: None)


def by_second(
    store: Store, at: int | None = None, note: Callable[[str], None] = pytest.fail
) -> State:
    fold = SecondFold(outside=Path(), note=note)
    return restore(store, head_of(store).world, at=at, second=fold)


def by_reference(store: Store, at: int | None = None) -> State:
    return restore(store, head_of(store).world, at=at)


def cells_of(state: State, store: Store) -> list[tuple[Any, ...]]:
    """All cells with the bytes of their states, in the order of a listing."""

    def shown(cell: Cell) -> tuple[Any, ...]:
        data = cell.state
        if data is not None and not isinstance(data, bytes):
            data = store.blob(data.hash)
        mail = [(each.entry, each.root.seq, each.depth) for each in cell.mailbox]
        return (
            cell.id, cell.status, cell.declared, cell.fault, cell.fault_seq, cell.last_seq,
            cell.last_active_ns, cell.version, cell.is_kept, cell.in_ring, cell.mail_uncounted,
            list(cell.keys.items()), list(cell.inflight), mail, data,
        )  # fmt: skip

    return [shown(cell) for cell in state.cells.values()]


def document_of(state: State) -> Hash:
    return take(state, content_hash).document


def documents_of(state: State) -> list[Hash]:
    """In both formats."""
    return [take(state, content_hash, format=format).document for format in FORMATS]


def store_of(story: Path) -> Store:
    failure, world = _played(replace(parse(story.read_bytes(), story), crashes=False), 0)
    assert failure is None
    assert world is not None
    return world._desk.store


# Every read request


def queries(operation: ReadOperation, state: State, last: int) -> Iterator[Query]:
    """The queries that the world of ``state`` has something for."""
    cells: list[Query] = [
        {"workflow": id[0], "key": plain} for id in state.cells if (plain := _plain_key(id[1]))
    ]
    for_names: dict[str, list[Query]] = {
        "read_cell": cells,
        "read_flow": [{"flow": cell["workflow"], "key": cell["key"]} for cell in cells],
        "read_linear_instance": [{"instance": cell["key"]} for cell in cells],
        "read_schedule": [{"id": cell["key"]} for cell in cells],
        "read_trace": [*cells, *({"seq": seq} for seq in range(1, last + 1, 7))],
        "read_intent": [{"intent": hash.hex()} for hash in state.intents],
        "read_record": [{"seq": seq} for seq in range(1, last + 1, 5)],
        "read_cells": [
            {},
            {"state": True},
            {"sort": "activity", "limit": 2},
            {"status": "waiting"},
        ],
        "read_intents": [{}, {"status": "all"}],
        "read_value": [],
        "read_proposal": [{"proposal": seq} for seq in state.proposals.open],
    }
    for query in for_names.get(operation.name, [{}]):
        yield query
        if operation.has("at"):
            yield from ({**query, "at": seq} for seq in (1, last // 2))


def _plain_key(key: bytes) -> str | None:
    value = decode_record(key)
    return value if isinstance(value, str) else None


def answer(operation: ReadOperation, query: Query, state: State, store: Store) -> object:
    """The document, or the error's class and words."""
    words = dict(query)
    at = words.pop("at", None)
    view = View(state, store, now_ns=NOW_NS if at is None else None, is_past=at is not None)
    try:
        return operation.read(view, words)
    except AosError as problem:
        return type(problem), str(problem)


@pytest.mark.rotated(3)
@pytest.mark.parametrize("story", STORIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_read_request_of_a_world_has_the_same_answer(story: Path) -> None:
    """CR-38."""
    check_every_read_request(store_of(story))


def check_every_read_request(store: Store) -> None:
    last = head_of(store).seq
    states = {at: (by_second(store, at), by_reference(store, at)) for at in (None, 1, last // 2)}
    answers = 0
    for operation in OPERATIONS:
        if operation.document is None:
            continue
        for query in queries(operation, states[None][1], last):
            second, reference = states[query.get("at")]
            expected = answer(operation, query, reference, store)
            assert answer(operation, query, second, store) == expected, (operation.name, query)
            answers += 1
    assert answers > 20


def test_the_stories_have_orders_flows_and_plans() -> None:
    assert {path.parent.name for path in STORIES} >= {"saga", "billing", "flow_saga", "linear"}


@pytest.mark.parametrize("seed", [1, 2])
def test_every_read_request_of_a_random_world_has_the_same_answer(
    seed: int, tmp_path: Path
) -> None:
    """CR-38: of worlds with faults, retries, cancels and keys of every length."""
    history = History(tmp_path / "world", f"second {seed}")
    history.grow(80)
    with open_folder(history.path).open_store(readonly=True) as store:
        check_every_read_request(store)


# States


@pytest.mark.parametrize("resting_max", [1, 4096])
def test_a_state_is_that_of_the_reference_at_every_frame_and_goes_on_like_it(
    resting_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-38, SN-10: cells in each layer, deleted ones, with and without a snapshot."""
    monkeypatch.setattr(second_fold, "RESTING_MAX", resting_max)
    world, store = cases(), MemoryStore()
    for turn in range(3):
        for id in ("a", "b", "c", "d"):
            tell(world, id)
        tell(world, "b", note="forget")
        if turn < 2:
            snapshot = world.kernel.snapshot(world.put)
            tell(world, "c", note="forget")
            world.kernel.admit(snapshot, world.stamp())
            world.run()
    store.put_blobs(world.blobs)
    append(store, world)
    last = head_of(store).seq
    ends = [frame.header.last for frame in store.frames()]
    reference_end = document_of(by_reference(store))

    for at in range(1, last + 1):
        second, reference = by_second(store, at), by_reference(store, at)
        assert cells_of(second, store) == cells_of(reference, store), at
        assert len(second.submissions) == len(reference.submissions)
        assert list(second.submissions.items()) == list(reference.submissions.items())
        if at in ends:
            assert document_of(second) == document_of(reference), at
            catch_up(second, store, head_of(store))
            assert document_of(second) == reference_end


@pytest.mark.long
@pytest.mark.parametrize("formats", rotated([(2, 2), (1, 2), (2, 1)]))
@pytest.mark.parametrize("resting_max", [1, 4096])
def test_cells_that_wait_at_rest_are_in_the_exported_state(
    resting_max: int, formats: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-38, SN-14, SN-15: before and after snapshots of each format, and after a migration."""
    monkeypatch.setattr(second_fold, "RESTING_MAX", resting_max)
    world, store = cases(), MemoryStore()
    for turn in range(3):
        for id in ("a", "b", "c", "d"):
            tell(world, f"{id}{turn}", 2)
        if turn:
            pay(world, f"a{turn - 1}")
            tell(world, f"b{turn - 1}", 1)
            tell(world, f"c{turn - 1}", note="fail")
            world.attempt(open_of(world, f"d{turn - 1}"), 2)
        world.run()
        if turn < 2:
            snapshot = world.kernel.snapshot(world.put, format=formats[turn])
            pay(world, f"d{turn}")
            world.kernel.admit(snapshot, world.stamp())
            world.run()
    assert isinstance(world.apply(to_counted(), {CASE: migrating()}, mode=MIGRATE), Admitted)
    world.run()
    pay(world, "b1")
    tell(world, "new", 1)
    store.put_blobs(world.blobs)
    append(store, world)
    reference_end = documents_of(by_reference(store))

    for frame in store.frames():
        at = frame.header.last
        second, reference = by_second(store, at), by_reference(store, at)
        assert second.cells.rests_waiting == reference.cells.rests_waiting
        counts = +second.intents.counts
        assert counts == +reference.intents.counts
        assert list(second.intents.items()) == list(reference.intents.items())
        for intent in reference.intents:
            assert second.intents.last_attempt(intent) == reference.intents.last_attempt(intent)
        assert +second.cells.statuses(CASE) == +reference.cells.statuses(CASE)
        assert second.cells.unrested_count(None) == reference.cells.unrested_count(None)
        assert cells_of(second, store) == cells_of(reference, store), at
        assert documents_of(second) == documents_of(reference), at
        loaded = [second.intents[intent] for intent in reference.intents]
        assert loaded == list(reference.intents.values())
        catch_up(second, store, head_of(store))
        assert documents_of(second) == reference_end


def open_of(world: MemoryWorld, id: str) -> OpenIntent:
    return next(intent for intent in world.open() if intent.cell == case(id))


def test_an_export_reads_no_open_work_of_cells_at_rest() -> None:
    """CR-38: it takes as long as there are changes."""
    world, store = cases(), MemoryStore()
    for number in range(70):
        tell(world, f"k{number}", 1)
    world.kernel.admit(world.kernel.snapshot(world.put, format=2), world.stamp())
    world.run()
    tell(world, "new", 1)
    store.put_blobs(world.blobs)
    append(store, world)
    read: set[Hash] = set()
    blob = store.blob

    def noted(wanted: Hash) -> bytes:
        read.add(wanted)
        return blob(wanted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "blob", noted)
        state = by_second(store)

    work = layers(state.snapshot.document, blob).work if state.snapshot else None
    assert work is not None
    nodes = {node for index in work.all() for node in index.nodes()}
    assert len(nodes) > 30
    # The fold looks whether the new intent is there.
    assert len(nodes & read) <= 2
    assert len(state.intents) == 71
    assert not state.intents.loaded
    assert document_of(state) == document_of(by_reference(store))


@pytest.mark.parametrize("format", [1, 2])
def test_the_second_kernel_takes_a_snapshot_of_either_format_after_one_of_either(
    format: int,
) -> None:
    """CR-40, H-47f."""
    world, store = cases(), MemoryStore()
    for number in range(5):
        tell(world, f"k{number}", 1)
    world.kernel.admit(world.kernel.snapshot(world.put, format=format), world.stamp())
    world.run()
    tell(world, "new", 1)
    store.put_blobs(world.blobs)
    append(store, world)
    expected = documents_of(by_reference(store))
    row, last = store.snapshot_before(), head_of(store).seq

    for asked in (None, *FORMATS):
        taken = SecondFold(outside=Path()).snapshot(store, row, last, content_hash, format=asked)
        assert taken is not None
        assert taken.document == expected[(asked or 2) - 1]


@pytest.mark.parametrize("is_deleted_before_the_reader_begins", [False, True])
def test_a_reader_continues_from_a_snapshot_that_was_taken_before_a_deletion(
    is_deleted_before_the_reader_begins: bool,
) -> None:
    """SN-13, as with the reference: the cell does not come back."""
    world, store = cases(), MemoryStore()
    for id in ("a", "b"):
        tell(world, id)
    append(store, world)
    folder = WorldFolder.__new__(WorldFolder)
    early = WorldReader(folder, store, by_second(store))
    snapshot = world.kernel.snapshot(world.put)
    store.put_blobs(world.blobs)
    tell(world, "a", note="forget")
    append(store, world)
    late = WorldReader(folder, store, by_second(store))
    world.kernel.admit(snapshot, world.stamp())
    world.run()
    append(store, world)

    reader = late if is_deleted_before_the_reader_begins else early
    reader.refresh()

    assert reader.state.cells.at == snapshot.at
    assert [cell.id for cell in reader.state.cells.values()] == [case("b")]
    assert document_of(reader.state) == document_of(by_reference(store))
    assert len(reader.state.submissions) == len(world.state.submissions)


# Which kernel folds


@pytest.fixture
def told() -> Store:
    world, store = cases(), MemoryStore()
    for number in range(4):
        tell(world, f"k{number}")
    append(store, world)
    return store


@contextmanager
def folds() -> Iterator[list[str]]:
    """What each operation of a core was, while this is open."""
    asked: list[str] = []
    ask = FoldCore.ask

    def noted(self: FoldCore, operation: CoreOperation, request: bytes = b"") -> bytes:
        asked.append(operation.name)
        return ask(self, operation, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FoldCore, "ask", noted)
        yield asked


def test_the_environment_names_the_kernel_that_folds_for_a_reader(
    told: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-38."""
    with folds() as operations:
        by_second(told)
    assert operations[0] == "INIT"
    assert operations[-1] == "EXPORT"

    monkeypatch.setenv(CORE_VARIABLE, "python")
    with folds() as operations:
        by_second(told)
    assert operations == []


def test_by_default_the_reference_folds_few_records(
    told: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-38: and the second kernel more of them, if its compiled code is in the cache."""
    monkeypatch.delenv(CORE_VARIABLE)
    with folds() as operations:
        by_second(told)
    assert operations == []

    monkeypatch.setattr(core_choice, "SHORT_FOLD_RECORDS", head_of(told).seq - 1)
    monkeypatch.setattr(compiled_core, "cached_code", lambda _: code())
    with folds() as operations:
        by_second(told)
    assert operations[-1] == "EXPORT"


def test_the_reference_folds_while_a_child_compiles_the_second_kernel(
    told: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-38, CR-34."""
    monkeypatch.delenv(CORE_VARIABLE)
    monkeypatch.setattr(core_choice, "SHORT_FOLD_RECORDS", 0)
    children: list[object] = []
    monkeypatch.setattr(compiled_core, "cached_code", lambda _: None)
    monkeypatch.setattr(compiled_core, "compile_in_child", children.append)

    with folds() as operations:
        state = by_second(told)

    assert operations == []
    assert len(children) == 1
    assert document_of(state) == document_of(by_reference(told))


# Damage, defects, full memory


@pytest.mark.parametrize("harm", ["altered", "cut short", "missing"])
def test_a_damaged_frame_is_the_same_damage_for_every_reader(harm: str, tmp_path: Path) -> None:
    """CR-39, H-41."""
    history = History(tmp_path / "world", "damaged")
    history.grow(30)
    changes: dict[str, Callable[[bytes], bytes | None]] = {
        "altered": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        "cut short": lambda data: data[:-1],
        "missing": lambda _: None,
    }
    with open_folder(history.path).open_store(readonly=True) as store:
        first = list(store.frames())[3].header.first
    alter(history.path / "store", "frames", first.to_bytes(8, "big"), changes[harm])

    assert words_of_damage(history.path, "fast") == words_of_damage(history.path, "python")


def test_a_head_of_another_end_is_the_same_damage_for_every_reader(tmp_path: Path) -> None:
    """CR-39, H-41: and a head that the world's key did not sign."""
    history = History(tmp_path / "world", "head")
    history.grow(10)
    with open_folder(history.path).open_store(readonly=True) as store:
        head = head_of(store)
    for wrong in (replace(head, frame=Hash(bytes(32))), replace(head, signature=bytes(64))):
        alter(history.path / "store", "system", b"head", replaced_by(wrong.to_bytes()))
        assert words_of_damage(history.path, "fast") == words_of_damage(history.path, "python")


def test_a_missing_value_is_the_same_damage_for_every_reader(told: Store) -> None:
    """CR-39: the fold reads manifests."""
    state = by_reference(told)
    assert state.manifest is not None
    hash = state.manifest.hash

    class Lacking(MemoryStore):
        def blob(self, wanted: Hash) -> bytes:
            if wanted == hash:
                raise Damage(f"blob {wanted.hex()} is missing")
            return told.blob(wanted)

        def __getattribute__(self, name: str) -> Any:
            own = ("blob", "__class__", "__dict__")
            return object.__getattribute__(self, name) if name in own else getattr(told, name)

    words = []
    for fold in (by_second, by_reference):
        with pytest.raises(Damage) as damage:
            fold(Lacking())
        words.append(str(damage.value))
    assert words[0] == words[1]


def replaced_by(data: bytes) -> Callable[[bytes], bytes | None]:
    return lambda _: data


def words_of_damage(path: Path, core: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CORE_VARIABLE, core)
        with pytest.raises(Damage) as damage:
            open_reader(path, note=pytest.fail)
    return str(damage.value)


@pytest.mark.parametrize("operation", ["INIT", "OPEN", "FOLD_FRAME", "EXPORT"])
def test_a_defect_of_the_core_is_one_line_and_the_reference_reads(
    operation: str, told: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-39."""
    ask = FoldCore.ask

    def failing(self: FoldCore, asked: CoreOperation, request: bytes = b"") -> bytes:
        if asked.name == operation:
            raise CoreDefect(f"operation {operation.lower()} of the core: a test")
        return ask(self, asked, request)

    monkeypatch.setattr(FoldCore, "ask", failing)
    notes: list[str] = []

    state = by_second(told, note=notes.append)

    assert document_of(state) == document_of(by_reference(told))
    (note,) = notes
    assert note.startswith(f"operation {operation.lower()} of the core: a test (a defect")
    assert note.endswith("the kernel in Python reads this world)")


def test_a_core_that_is_full_is_one_line_and_the_reference_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CR-39, CR-37."""
    world, store = cases(), MemoryStore()
    for number in range(300):
        tell(world, f"k{number}")
    append(store, world)
    monkeypatch.setattr(buffer, "memory_bytes_of", lambda: RESERVE_BYTES + MIB // 5)
    notes: list[str] = []

    state = by_second(store, note=notes.append)

    assert document_of(state) == document_of(by_reference(store))
    (note,) = notes
    assert "its memory is full" in note
    assert note.endswith("(the kernel in Python reads this world; a larger value makes room)")
    assert "AOS_CORE_MEMORY_MIB" in note


def test_a_fold_that_no_one_waits_for_ends_at_its_next_frame(told: Store) -> None:
    """CR-38: as when Ctrl-C ends the wait."""

    def interrupt(_: int, __: int) -> None:
        raise KeyboardInterrupt

    fold = SecondFold(outside=Path())
    with folds() as operations, pytest.raises(KeyboardInterrupt):
        restore(told, head_of(told).world, progress=interrupt, second=fold)
    assert operations.count("FOLD_FRAME") == 1


# Snapshots


@pytest.mark.parametrize("core", CoreKind)
def test_a_snapshot_is_the_same_bytes_by_either_kernel(core: CoreKind, tmp_path: Path) -> None:
    """CR-40, SN-1: the child of a world that runs on the second kernel takes it by that one."""
    history = History(tmp_path / "world", "snapshot")
    history.grow(40)
    with open_reader(history.path) as reader:
        blobs: dict[Hash, bytes] = {}

        def put(data: bytes) -> Hash:
            blobs[content_hash(data)] = data
            return content_hash(data)

        expected = take(reader.state, put)
        cells = len(reader.state.cells)

    out = io.BytesIO()
    with folds() as operations:
        snapshot_child.snapshot(history.path, out, core)

    assert ("TAKE" in operations) == (core is CoreKind.FAST)
    sent = messages(out.getvalue())
    fields = decode_record(sent.pop(snapshot_child.DONE)[0])
    assert fields == {
        "at": expected.at, "frame": expected.frame, "document": expected.document,
        "size": expected.size, "cells": cells,
    }  # fmt: skip
    sent_blobs = {Hash(body[:32]): body[32:] for body in sent.pop(snapshot_child.BLOB)}
    assert sent_blobs == blobs
    assert not sent


def test_a_snapshot_needs_memory_for_the_changed_cells_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CR-40: neither for the earlier states of these cells, nor for the blobs that were put."""
    world, store = cases(), MemoryStore()
    cells, note = 300, "n" * 180
    state_bytes = [0]
    for _ in range(5):
        for number in range(cells):
            tell(world, f"k{number}", note=note)
        state_bytes.append(state_bytes[-1] + cells * len(note))
    append(store, world)
    take_bytes = FoldCore.take
    memory: list[tuple[int, int]] = []
    python_bytes: list[int] = []
    sizes: list[int] = []

    def measured(core: FoldCore, put: Callable[[bytes], Hash], format: int | None) -> TakenBytes:
        memory.append(core.memory())
        tracemalloc.start()
        try:
            snapshot = take_bytes(core, put, format)
            python_bytes.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        memory.append(core.memory())
        return snapshot

    def put(data: bytes) -> Hash:
        sizes.append(len(data))
        return content_hash(data)

    monkeypatch.setattr(FoldCore, "take", measured)
    fold = SecondFold(outside=Path(), note=pytest.fail)
    assert fold.snapshot(store, None, head_of(store).seq, put) is not None

    (folded_bytes, before), (_, after) = memory
    assert folded_bytes < sum(state_bytes), "earlier states have left the memory"
    assert after - before < sum(sizes) / 2
    assert python_bytes[0] < sum(sizes) / 4


def messages(data: bytes) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    while data:
        size = int.from_bytes(data[1 : 1 + snapshot_child.LENGTH_BYTES], "big")
        end = 1 + snapshot_child.LENGTH_BYTES + size
        found.setdefault(data[:1], []).append(data[end - size : end])
        data = data[end:]
    return found
