"""Cells that only wait leave memory with their open work and come back with it (SN-14, SN-15).

Each scenario plays in two worlds with the same inputs: in one, waiting cells rest, hardly a cell is
in memory, and the layers change all the time; in the other, none rests. Answers and frames must be
the same. Both kernels run each world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import cbor2
import pytest

from aos.core.decide.answers import Admitted, Refusal
from aos.core.journal.frame import Tip
from aos.core.journal.inputs import MIGRATE, PIN
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import slot_bytes
from aos.core.limits import Limits
from aos.core.snapshot.load import in_format_of, load, parts, references
from aos.core.snapshot.take import rebase, take
from aos.core.state.cell_index import CellIndex
from aos.core.state.fold import fold_frame
from aos.core.state.state import State, empty
from aos.errors import Damage
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash, content_hash
from tests.core.busy import busy
from tests.core.busy import tell as desk_tell
from tests.core.cases import CASE, case, cases, nodes, pay, tell
from tests.core.decide.test_migrate import migrating, to_counted
from tests.core.desk import PAY, timer, wish
from tests.core.snapshot.test_snapshot import plain
from tests.fastcore.paired_kernel import paired
from tests.memory_world import MemoryWorld, air, route

PAPER: Final = Limits(snapshot_format=1, page_items=2)
RESTING: Final = Limits(snapshot_format=2, delta_bytes=0, page_items=2)


@pytest.fixture(autouse=True)
def both_kernels() -> Iterator[None]:
    with paired() as pairs:
        yield
    assert any(pair.calls for pair in pairs)


def two_worlds() -> list[MemoryWorld]:
    """The same world twice: no cell rests while it waits; all do."""
    worlds = [cases(), cases()]
    for world, limits in zip(worlds, (PAPER, RESTING), strict=True):
        world.seal()
        world.limits = limits
        world.restart()
    worlds[1].kernel.spill(resting_max=1)
    return worlds


def rest(world: MemoryWorld) -> None:
    """Continue from a snapshot, without a record of it; forget what it has."""
    world.seal()
    if world.limits is RESTING:
        world.kernel.rebase(world.kernel.snapshot(world.put).document)
        world.state.cells.tidy()


def intents_of(world: MemoryWorld, id: str) -> list[Any]:
    return [intent for intent in world.open() if intent.cell == case(id)]


def same(act: Callable[[MemoryWorld], Any]) -> MemoryWorld:
    """Play in both worlds; return the one whose cells rest."""
    plain_world, resting_world = two_worlds()
    assert act(plain_world) == act(resting_world)
    for world in (plain_world, resting_world):
        world.run()
    assert resting_world.frames == plain_world.frames
    for format in (1, 2):
        documents = [
            take(state, world.put, format=format).document
            for world in (plain_world, resting_world)
            for state in (world.state, refolded(world))
        ]
        assert len(set(documents)) == 1
    assert seen(resting_world.state) == seen(plain_world.state)
    return resting_world


def shown(world: MemoryWorld, id: str) -> tuple[str, Any]:
    """The status and the state of a cell, as both kernels give it."""
    found = world.kernel.cell(case(id))
    assert found is not None
    assert found.state is not None
    return found.status, decode_record(slot_bytes(found.state, world.read))


def refolded(world: MemoryWorld) -> State:
    """The state from the genesis on."""
    tip = Tip(world=world.frames[0].header.world)
    state = empty(tip, world.read, find=world.places.get, limits=world.limits)
    for frame in world.frames:
        fold_frame(state, frame, world.read)
    return state


def seen(state: State) -> Any:
    """Everything that a reader can see of it, but its limits."""
    return [pair for pair in plain(state) if pair[0] != "limits"]


# Where the work is


def test_a_waiting_cell_leaves_memory_and_comes_back_with_its_receipt() -> None:
    def act(world: MemoryWorld) -> Any:
        for n in range(6):
            tell(world, f"c{n}", 2)
        rest(world)
        for n in range(6, 9):
            tell(world, f"c{n}", 1)
        if world.limits is RESTING:
            intents = world.state.intents
            assert len(intents) == 15
            assert len(intents.loaded) < 6
            assert sum(index.count for index in intents.base.values()) == 12
            assert not world.state.cells.active
        first, second = intents_of(world, "c0")
        answers = [world.settle(first, {"ref": "r"})]
        world.run()
        rest(world)
        answers.append(world.settle(second, {"ref": "s"}))
        world.run()
        return answers, shown(world, "c0")[1], world.settle(second, {"ref": "s"})

    world = same(act)
    assert len(world.state.intents) == 13
    assert +world.state.cells.statuses(CASE) == {"waiting": 8, "running": 1}


def test_the_open_intents_are_in_the_order_of_opening_whatever_layer_they_are_in() -> None:
    def act(world: MemoryWorld) -> Any:
        for n in range(4):
            tell(world, f"z{9 - n}", 3)
            if n % 2:
                rest(world)
        pay(world, "z8")
        tell(world, "a", 1)
        listed = [progress.intent.intent for progress in world.kernel.open_intents()]
        assert listed == list(world.state.intents)
        places = [(intent.seq, intent.index) for intent in world.open()]
        assert places == sorted(places)
        return listed

    same(act)


def test_attempts_leave_memory_with_their_intents() -> None:
    def act(world: MemoryWorld) -> Any:
        for id in ("a", "b"):
            tell(world, id, 2)
        (first, _), (other, _) = intents_of(world, "a"), intents_of(world, "b")
        answers = [world.attempt(first, 3)]
        rest(world)
        tell(world, "c", 1)
        answers += [world.attempt(first, 3), world.attempt(first, 4), world.attempt(other, 2)]
        rest(world)
        progress = world.kernel.progress_of(first.intent)
        assert progress is not None
        tell(world, "d", 1)
        numbers = [each.attempt for each in world.kernel.open_intents()]
        return answers, progress.attempt, numbers, world.state.attempt(first)

    same(act)


def test_streams_and_halts_keep_a_cell_in_memory() -> None:
    def act(world: MemoryWorld) -> Any:
        for id in ("parked", "streams", "rests"):
            tell(world, id, 1)
        rest(world)
        (parked,), (streams,) = intents_of(world, "parked"), intents_of(world, "streams")
        answers: list[Any] = [world.attempt(parked, 2)]
        answers.append(world.attempt(parked, 2, "parked", code="exception"))
        answers.append(world.stream(streams, 0))
        world.run()
        rest(world)
        if world.limits is RESTING:
            assert case("parked") in world.state.cells.active
        answers.append(world.attempt(parked, 3))
        pay(world, "parked")
        pay(world, "streams")
        rest(world)
        return answers, [shown(world, id)[0] for id in ("parked", "streams", "rests")]

    same(act)


# Records that reach a cell while it rests


def test_commands_reach_resting_cells() -> None:
    def act(world: MemoryWorld) -> Any:
        ids = ("cancel", "settle", "end", "remove", "unpin", "event")
        for id in ids:
            tell(world, id, 2)
        rest(world)
        answers = [
            world.control("cancel", intent=intents_of(world, "cancel")[0].intent),
            world.control(
                "settle", intent=intents_of(world, "settle")[1].intent, status="ok",
                payload=encode({"ref": "by hand"}),
            ),
            world.control("end", cell=case("end"), status="completed"),
            world.control("remove", cell=case("remove")),
            world.control("unpin", cell=case("unpin")),
        ]  # fmt: skip
        world.run()
        rest(world)
        tell(world, "event", note="again")
        rest(world)
        late = [intent for intent in world.state.abandoned.values() if intent.cell == case("end")]
        answers.append(world.settle(late[0], {"ref": "late"}))
        world.run()
        return answers, [progress.intent.cell for progress in world.kernel.open_intents()]

    same(act)


def test_a_fault_and_a_retry_of_a_resting_cell() -> None:
    def act(world: MemoryWorld) -> Any:
        tell(world, "a", 2)
        tell(world, "b", 1)
        rest(world)
        tell(world, "a", note="fail")
        rest(world)
        answers = [world.control("skip", cell=case("a"))]
        world.run()
        rest(world)
        pay(world, "a")
        return answers, shown(world, "a")[0], shown(world, "a")[1]

    same(act)


def test_a_strict_manifest_names_resting_cells_as_blockers() -> None:
    def act(world: MemoryWorld) -> Any:
        for n in range(5):
            tell(world, f"c{n}", 1)
            if n == 2:
                rest(world)
        pay(world, "c1")
        answer = world.apply(air(nodes(), [route("c/Go@1", CASE, "id")], version=2))
        assert isinstance(answer, Refusal)
        return answer

    same(act)


def test_resting_cells_are_pinned_and_unpinned() -> None:
    def act(world: MemoryWorld) -> Any:
        for n in range(3):
            tell(world, f"c{n}", 1)
        rest(world)
        new = air(nodes(), [route("c/Go@1", CASE, "id")], version=2)
        module = world.runner.modules[world.effective.workflows[CASE].module.hash]
        answers = [world.apply(new, {CASE: module}, mode=PIN)]
        world.run()
        rest(world)
        pay(world, "c0")
        answers.append(world.control("unpin", cell=case("c1")))
        rest(world)
        return answers, [one.version for one in world.state.cells.values()]

    same(act)


@pytest.mark.parametrize("rests_before", [False, True])
def test_a_migration_converts_resting_cells_and_keeps_their_work(rests_before: bool) -> None:
    def act(world: MemoryWorld) -> Any:
        for n in range(6):
            tell(world, f"c{n}", 1)
        if rests_before:
            rest(world)
        # One that waited in the last snapshot does not wait any more; another waits again.
        pay(world, "c0")
        pay(world, "c1")
        tell(world, "c1", 1)
        tell(world, "idle")
        before = None
        world.seal()
        if world.limits is RESTING and rests_before:
            before = world.kernel.snapshot(world.put).document
        answer = world.apply(to_counted(), {CASE: migrating()}, mode=MIGRATE)
        world.run()
        if before is not None:
            # A snapshot from before the migration becomes the base after it (SN-13).
            world.kernel.rebase(before)
        tell(world, "later", 1)
        states = {}
        for n in range(6):
            states[n] = shown(world, f"c{n}")
        for n in range(2, 4):
            pay(world, f"c{n}")
        rest(world)
        pay(world, "c4")
        return answer, states, [intent.cell for intent in world.open()]

    same(act)


@pytest.mark.parametrize("rests_before", [False, True])
def test_work_that_ended_between_a_snapshot_and_a_migration_stays_ended(rests_before: bool) -> None:
    """The snapshot becomes the base after the migration, as one does that takes long (SN-13)."""

    def act(world: MemoryWorld) -> Any:
        if rests_before:
            tell(world, "c3", 1)
            rest(world)
        for n in range(3):
            tell(world, f"c{n}", 1)
        world.seal()
        document = world.kernel.snapshot(world.put).document
        pay(world, "c0")
        pay(world, "c1")
        tell(world, "c1", 1)
        world.apply(to_counted(), {CASE: migrating()}, mode=MIGRATE)
        world.run()
        if world.limits is RESTING:
            world.kernel.rebase(document)
        listed = [progress.intent.cell for progress in world.kernel.open_intents()]
        rest(world)
        return listed, [shown(world, f"c{n}") for n in range(3)]

    same(act)


def test_a_fork_cancels_the_work_of_resting_cells() -> None:
    def act(world: MemoryWorld) -> Any:
        for n in range(4):
            tell(world, f"c{n}", 1)
            if n == 1:
                rest(world)
        record = world.fork()
        return to_bytes(record), len(world.open())

    same(act)


# Formats


def test_a_snapshot_of_either_format_continues_one_of_the_other() -> None:
    """SN-14: with a base of format 1, a cell that waits is active."""
    _, world = two_worlds()
    for n in range(5):
        tell(world, f"c{n}", 1)
    whole = seen(world.state)
    for format, rests in ((1, False), (2, True), (1, False), (2, True), (2, True)):
        layers = take(world.state, world.put, format=format)
        rebase(world.state, layers)
        world.state.cells.tidy()
        assert world.state.cells.rests_waiting is rests
        assert bool(world.state.cells.active) is not rests
        assert seen(world.state) == whole
        loaded = load(layers.document, world.read, find=world.places.get, limits=world.limits)
        assert seen(loaded) == whole
        for other in (1, 2):
            expected = take(world.state, world.put, format=other).document
            assert take(loaded, world.put, format=other).document == expected


def test_a_snapshot_is_taken_again_in_the_format_of_the_recorded_one() -> None:
    """A-12a."""
    world = busy()
    documents = [take(world.state, world.put, format=number).document for number in (1, 2)]
    taken: list[int] = []

    def again(number: int) -> Hash:
        taken.append(number)
        return documents[number - 1]

    for recorded in documents:
        assert in_format_of(recorded, world.read, again) == recorded
    assert taken == [1, 2]

    def lost(hash: Hash) -> bytes:
        raise Damage("it is lost")

    assert in_format_of(documents[1], lost, again) == documents[1]
    other = content_hash(b"another")
    assert in_format_of(other, lost, again) != other


def test_the_maps_are_as_the_specification_says() -> None:
    """SN-5, SN-15: with cbor2 alone, in a world where everything is open that can be."""
    state, blobs = busy_state()
    fields = cbor2.loads(blobs[take(state, putting(blobs), format=2).document])
    waiting = [one for one in state.cells.unrested() if state.cells.may_wait(one)]
    assert waiting

    def entries(root: bytes | None, count: int, *_: int) -> dict[Hash, bytes]:
        index = CellIndex(None if root is None else Hash(root), count, blobs.__getitem__)
        return dict(index.items())

    assert fields["format"] == 2
    assert set(fields["waiting"]) == {one.id[0] for one in waiting}
    for name, row in fields["waiting"].items():
        mine = [one for one in waiting if one.id[0] == name]
        assert row[2] == sum(one.declared is None for one in mine)
        assert entries(*row) == {
            content_hash(one.id[1]): cbor2.dumps(
                [
                    [intent_row(state, intent), state.intents.last_attempt(intent)]
                    for intent in one.inflight
                ],
                canonical=True,
            )
            for one in mine
        }
    intents = [state.intents[intent] for one in waiting for intent in one.inflight]
    assert set(fields["open"]) == {intent.effect.name for intent in intents}
    for effect, row in fields["open"].items():
        assert entries(*row) == {
            intent.intent: cbor2.dumps(
                [list(intent.cell), intent.seq, intent.index], canonical=True
            )
            for intent in intents
            if intent.effect.name == effect
        }
    timers = {}
    for intent in intents:
        if intent.effect.name == "sys/timer.set@1":
            assert isinstance(intent.params, bytes)
            due = cbor2.loads(intent.params)["deliver_at_ns"].to_bytes(8, "big")
            timers[due + intent.intent[:24]] = intent.intent
    assert entries(*fields["timers"]) == timers
    paged = {row[0] for page in fields["work"]["intents"] for row in cbor2.loads(blobs[Hash(page)])}
    assert paged == set(state.intents) - {intent.intent for intent in intents}


def test_parts_and_references_have_the_nodes_of_the_maps() -> None:
    state, blobs = busy_state()
    document = take(state, putting(blobs), format=2).document
    every = dict(references(document, blobs.__getitem__))
    nodes_of_maps = {hash for hash, subject in every.items() if "map of open work" in subject}

    assert nodes_of_maps
    assert nodes_of_maps <= set(parts(document, blobs.__getitem__))
    assert {intent.manifest for intent in state.intents.values()} <= every.keys()


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("timers", lambda row: [row[0], row[1] + 1], "waiting does not agree"),
        ("open", lambda rows: {**rows, "no/such@1": [next(iter(rows.values()))[0], 1]}, None),
        ("open", lambda _: {}, "does not agree"),
        ("waiting", lambda _: {}, None),
        ("waiting", lambda rows: {n: [r, c, c + 9] for n, (r, c, _) in rows.items()}, "waiting"),
        ("waiting", lambda rows: {n: [r, 0, 0] for n, (r, _, _) in rows.items()}, "none that is"),
        ("waiting", lambda _: None, "none that is written"),
    ],
)
def test_a_forged_map_is_damage(name: str, change: Any, problem: str | None) -> None:
    """SN-9: when it is loaded, or when the map is read."""
    state, blobs = busy_state()
    fields = cbor2.loads(blobs[take(state, putting(blobs), format=2).document])
    fields[name] = change(fields[name])
    document = putting(blobs)(cbor2.dumps(fields, canonical=True))

    with pytest.raises(Damage) as raised:
        read_whole(document, blobs)
    assert problem is None or problem in str(raised.value)


def read_whole(document: Hash, blobs: dict[Hash, bytes]) -> None:
    """Read all open work of a snapshot, and whatever its cells wait for."""
    loaded = load(document, blobs.__getitem__)
    listed = list(loaded.intents.values())
    waiting = [intent for one in loaded.cells.unrested() for intent in one.inflight]
    if len(listed) != len(loaded.intents) or len(waiting) != len(listed):
        raise Damage("an intent is lost")


def test_work_that_is_none_that_is_written_is_damage() -> None:
    state, blobs = busy_state()
    fields = cbor2.loads(blobs[take(state, putting(blobs), format=2).document])
    (name, (root, count, undeclared)), *_ = fields["waiting"].items()
    index = CellIndex(Hash(root), count, blobs.__getitem__)
    (key_hash, data), *_ = index.items()
    rows: Any = decode_record(data)
    forgeries: list[Any] = [[], [[*rows[0], 1]], [[rows[0][0], 0]], [[rows[0][0][:-1], None]], 5]
    for forged in forgeries:
        new = index.updated({key_hash: encode(forged)}, putting(blobs))
        waiting = {**fields["waiting"], name: [new.root, new.count, undeclared]}
        document = putting(blobs)(cbor2.dumps({**fields, "waiting": waiting}, canonical=True))
        loaded = load(document, blobs.__getitem__)
        with pytest.raises(Damage, match="none that is written"):
            list(loaded.cells.values())


def busy_state() -> tuple[State, dict[Hash, bytes]]:
    """The busy world with more cells that only wait, also for timers."""
    world = busy()
    world.run()
    for n in range(3):
        asks = [timer(world, f"t{n}"), wish(PAY, {"n": n})]
        desk_tell(world, f"sleeps {n}", *asks, run=True)
    desk_tell(world, "mail", wish(PAY, {"n": 9}))
    world.seal()
    return world.state, dict(world.blobs)


def putting(blobs: dict[Hash, bytes]) -> Callable[[bytes], Hash]:
    def put(data: bytes) -> Hash:
        blobs[content_hash(data)] = data
        return content_hash(data)

    return put


def intent_row(state: State, hash: Hash) -> list[Any]:
    intent = state.intents[hash]
    params = intent.params
    return [
        intent.intent, list(intent.cell), intent.workflow_hash, intent.seq, intent.index,
        intent.opened_ns, intent.manifest, intent.effect.name,
        params if isinstance(params, bytes) else [params.hash, params.size], intent.params_hash,
        intent.key, intent.idempotency_key, intent.issuer_ref,
    ]  # fmt: skip


def test_every_intent_of_a_busy_world_is_admitted_after_a_load() -> None:
    world = busy()
    world.restart(world.kernel.snapshot(world.put, format=2).document)
    assert world.state.cells.rests_waiting
    for intent in list(world.open()):
        if not any(owed.intent == intent.intent for owed in world.state.owed):
            progress = world.kernel.progress_of(intent.intent)
            assert progress is not None
    world.run()
    assert isinstance(world.snapshot(), Admitted)
