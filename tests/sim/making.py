"""Snapshots in the simulator: made as a host's child makes them, with everything that may come in
between, and held against what a fold from the genesis gives.

Layers are small here, so that a few cells are enough for all of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from aos.core.journal.record_codec import from_bytes
from aos.core.kernel import world_state
from aos.core.kernel_protocol import KernelProtocol
from aos.core.limits import Limits
from aos.core.snapshot.load import load, references
from aos.core.snapshot.take import Put, SnapshotLayers, take
from aos.core.state.fold import fold, fold_frame
from aos.core.state.state import State
from aos.host.folder.restore import restore
from aos.store.stored_world import empty_state
from aos.values.digests import Hash, content_hash
from tests.fastcore.paired_kernel import LedKernel, PairedKernel
from tests.sim import model_follow
from tests.sim.failure import SimFailure
from tests.sim.model import Given, Told
from tests.sim.view import view

if TYPE_CHECKING:
    from tests.sim.world import SimWorld

KEPT: Final = (0, 0, 1, 3)
"""Cells at rest in memory, of each workflow."""

DELTA_BYTES: Final = (0, 0, 150, 1000)


def small_limits(seed: int) -> Limits:
    """Limits that a few cells and events reach."""
    return Limits(
        delta_bytes=DELTA_BYTES[seed // 4 % 4],
        chunk=16,
        chunks_held=1,
        page_items=2,
        snapshot_format=1 + seed // 2 % 2,
    )


def fill(state: State, kept: int) -> None:
    """As an engine holds a state, with hardly any cell at rest in memory."""
    # ``keep`` leaves one at least.
    state.cells._resting_max = kept
    state.cells.spilling.is_on = True


def fill_kernel(kernel: KernelProtocol, kept: int) -> None:
    """As ``fill``, for any kernel of a process."""
    if isinstance(kernel, PairedKernel | LedKernel):
        kernel.keep_resting(kept)
    else:
        fill(world_state(kernel), kept)


@dataclass
class Making:
    """A snapshot in progress: the blobs not stored yet, the input that will announce it, and
    whether the core rebases onto it after that input."""

    given: Given
    blobs: list[tuple[Hash, bytes]] = field(default_factory=list)
    told: Told | None = None
    waits: bool = False
    """The snapshot's record is durable, and the core rebases onto it later."""


def begin(world: SimWorld, chance: random.Random) -> Making:
    """A child restores what is durable and takes it."""
    state = restore(world.store, world.id, limits=world.limits)
    if chance.random() < 0.7:
        fill(state, chance.randint(0, 3))
    blobs: dict[Hash, bytes] = {}
    taken = take(state, putting(blobs))
    world.values.update(blobs.items())
    if world.checks:
        world.model.blobs.update(blobs.items())
    if world.checks:
        check_taken(world, state, taken, blobs)
    given = {
        "at": taken.at, "frame": taken.frame, "document": taken.document, "size": taken.size,
    }  # fmt: skip
    return Making(given, list(blobs.items()))


def go_on(world: SimWorld, making: Making, chance: random.Random) -> None:
    """The next thing that a host does for it: a slice of its blobs, or its record, or the rebase.

    It is over when there is nothing left to do.
    """
    if making.blobs:
        count = chance.choice([1, 2, len(making.blobs), len(making.blobs)])
        world.store.put_blobs(dict(making.blobs[:count]))
        del making.blobs[:count]
    elif making.told is None:
        making.waits = chance.random() < 0.4
        making.told = world.submit("snapshot", making.given)
        if making.told is not None and making.told[0] != "admitted":
            world.making = None
    elif making.waits and is_durable(world, making):
        go_on_from(world, making)


def is_durable(world: SimWorld, making: Making) -> bool:
    row = world.store.snapshot_before()
    return row is not None and row.document == making.given["document"]


def told(world: SimWorld, given: Given) -> None:
    """Its record is durable."""
    making = world.making
    if making is not None and making.given == given and not making.waits:
        go_on_from(world, making)


def go_on_from(world: SimWorld, making: Making) -> None:
    state = world.state
    before = view(state, world.values) if world.checks else None
    world.kernel.rebase(Hash(making.given["document"]))
    world.making = None
    if before is not None:
        same("the state after a rebase", before, view(state, world.values))


def putting(blobs: dict[Hash, bytes]) -> Put:
    def put(data: bytes) -> Hash:
        hash = content_hash(data)
        blobs[hash] = data
        return hash

    return put


# Checks


def folded(world: SimWorld, at: int | None = None) -> State:
    """The state after record ``at``, or after the last one, from the genesis on: no snapshot."""
    store = world.store
    state = empty_state(store, limits=world.limits)
    for frame in store.frames(1, at):
        if at is None or frame.header.last <= at:
            fold_frame(state, frame, store.blob)
            continue
        for data in frame.records[: at + 1 - frame.header.first]:
            fold(state, from_bytes(data), store.blob)
    return state


def document_of(state: State) -> Hash:
    return take(state, content_hash).document


def check_taken(
    world: SimWorld, state: State, taken: SnapshotLayers, blobs: dict[Hash, bytes]
) -> None:
    """The snapshot of a child equals a fold from the genesis record, and loads completely."""
    whole = folded(world)
    expected = view(whole, world.values)
    same("the state that the snapshot was taken of", expected, view(state, world.values))
    if document_of(whole) != taken.document:
        raise SimFailure("snapshot", f"the document after record {taken.at} is another")
    if taken.size != len(blobs[taken.document]):
        raise SimFailure("snapshot", f"its size is {len(blobs[taken.document])}: {taken.size}")
    touched: set[Hash] = set()

    def read(hash: Hash) -> bytes:
        touched.add(hash)
        return blobs[hash] if hash in blobs else world.store.blob(hash)

    def find(name: str) -> int | None:
        row = world.store.submission(name)
        return None if row is None else row.seq

    loaded = load(taken.document, read, find=find, limits=world.limits)
    same("the state that the snapshot contains", expected, view(loaded, world.values))
    ids = dict(whole.submissions.items())
    same("its submissions", ids, {name: loaded.submissions.get(name) for name in ids})
    named = {hash for hash, _ in references(taken.document, read)}
    missing = touched - named - {each.manifest for each in whole.intents.values()}
    if missing:
        raise SimFailure("snapshot", f"needs what it does not name: {[h.hex() for h in missing]}")


def check_restart(world: SimWorld, state: State, when: str) -> None:
    """A restart from a snapshot comes to the same as a fold from the genesis."""
    whole = folded(world)
    same(f"the state {when}", view(whole, world.values), view(state, world.values))
    if document_of(whole) != document_of(state):
        raise SimFailure("snapshot", f"the document {when} is another")


def check_places(world: SimWorld, chance: random.Random) -> None:
    """The state after any record is the one that a fold up to there gives, and the model."""
    head = world.store.head()
    assert head is not None
    for at in sorted({chance.randint(1, head.seq) for _ in range(2)}):
        found = view(restore(world.store, world.id, at=at, limits=world.limits), world.values)
        same(
            f"the state at record {at}",
            view(folded(world, at), world.values),
            found,
        )
        model = model_follow.follow(world.records()[:at], world.modules.outcome, dict(world.values))
        model_follow.compare(f"state at record {at}", model_follow.view(model), found)


def same(what: str, expected: Any, found: Any) -> None:
    if expected != found:
        try:
            model_follow.compare(what, expected, found)
        except SimFailure as failure:
            raise SimFailure("snapshot", str(failure)) from None
