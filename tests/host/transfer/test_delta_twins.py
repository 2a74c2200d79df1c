"""A world with deltas next to its twin, which has the same journal and only whole states: both
read, export, collect, prune, rebuild and fork to the same bytes (ST-90 to ST-95)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from aos.errors import Refused
from aos.host.apply.manifest_files import load_manifest_files
from aos.host.door.writer import Item, open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.host.retention.gc import collect_world
from aos.host.retention.pruning import prune_world
from aos.host.retention.rebuilding import rebuild_world
from aos.host.transfer.adopting import adopt_world
from aos.host.transfer.exporting import export_world
from aos.host.transfer.forking import fork_world
from aos.host.transfer.importing import import_world
from aos.store import lmdb_deltas
from aos.store.lock import WorldLock
from aos.values.cbor import encode
from aos.values.digests import Hash
from tests.cli.shell import in_silence
from tests.host.transfer.test_bundle import erase, frames
from tests.host.transfer.test_delta_states import KEEPER, deltas, is_sound, states
from tests.run_seed import seeds
from tests.tools import long_form

WORLDS: Final = 12 if long_form() else 1
CELLS: Final = ("a", "b")


@contextmanager
def whole_states() -> Iterator[None]:
    """Within it, a store keeps no new delta."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lmdb_deltas, "delta_of", lambda *_: None)
        yield


class Written:
    """A world of the keeper, whose states are the notes that it got."""

    def __init__(self, world: Path, chance: Random) -> None:
        self.world = world
        self.chance = chance
        self.notes = dict.fromkeys(CELLS, "")
        self.count = 0
        self.gone: set[Hash] = set()
        init_world(world)
        with open_writer(world) as writer:
            writer.apply(load_manifest_files(KEEPER))

    def write(self, count: int) -> None:
        """Send notes, each near the one before it or new, and run the world."""
        with open_writer(self.world) as writer:
            for _ in range(count):
                self.count += 1
                cell = self.chance.choice(CELLS)
                self.notes[cell] = self.note(self.notes[cell])
                value = encode({"key": cell, "item": self.count, "note": self.notes[cell]})
                list(writer.send([Item(schema="bench/Keep@1", value=value)]))
        assert in_silence("run", "--until-idle", "--world", self.world) == 0

    def note(self, before: str) -> str:
        chance = self.chance
        if not before or chance.random() < 1 / 8:
            return chance.randbytes(chance.choice((500, 1200, 3000, 20_000))).hex()
        if chance.random() < 1 / 8:
            return self.notes[chance.choice(CELLS)] or before
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(before))
            before = before[:at] + f"<{self.count}>" + before[at + chance.randint(0, 9) :]
        return before

    def erase(self) -> None:
        """Erase a state that no cell has any more."""
        used = states(self.world)[-40:]
        past = [each for each in used[:-8] if each not in {*used[-8:], *self.gone}]
        if past:
            gone = self.chance.choice(past)
            erase(self.world, gone)
            self.gone.add(gone)

    def snapshot(self) -> None:
        assert in_silence("snapshot", "--world", self.world) == 0


def compacted(world: Path) -> None:
    with WorldLock(world), open_folder(world).open_store() as store:
        store.compact()


def collected(world: Path) -> None:
    collect_world(world, keep=1)


def pruned(world: Path) -> None:
    prune_world(world)
    collect_world(world, keep=1)


def rebuilt(world: Path) -> None:
    assert not any(rebuild_world(world).changed.values())


UPKEEP: Final = (compacted, collected, rebuilt, pruned)


def history(world: Path, chance: Random) -> Written:
    """A world after random notes, erasures, compactions and snapshots, the last one at its end."""
    written = Written(world, chance)
    for _ in range(chance.randint(1, 3)):
        written.write(chance.randint(5, 30))
        match chance.choice(["erase", "snapshot", "compact"]):
            case "erase":
                written.erase()
            case "snapshot":
                written.snapshot()
            case _:
                compacted(world)
    written.write(12)
    written.erase()
    written.snapshot()
    return written


def twin_of(world: Path, place: Path) -> Path:
    """A world with the same journal and whole states only, by an export and an import."""
    export_world(world, place / "bundle")
    with whole_states():
        import_world(place / "bundle", place / "twin")
    assert deltas(place / "twin") == []
    export_world(place / "twin", place / "again")
    assert (place / "again").read_bytes() == (place / "bundle").read_bytes()
    adopt_world(place / "twin", keys=world / "keys")
    return place / "twin"


def contents(world: Path) -> dict[str, object]:
    """All that a store keeps of a journal, pruned or not."""
    with open_folder(world).open_store(readonly=True) as store:
        cut = store.cut()
        return {
            "head": store.head(),
            "frames": list(store.frames(1 if cut is None else cut.seq + 1)),
            "blobs": {each: store.blob(each) for each in store.blob_hashes()},
            "submissions": list(store.submissions()),
            "erased": [(value, row.seq) for value, row in store.erasures()],
            "snapshots": list(store.snapshots()),
        }


def assert_same(world: Path, twin: Path) -> None:
    """Both have the same contents, except that the bases of deltas are kept, too."""
    one, other = contents(world), contents(twin)
    blobs: Any = one.pop("blobs")
    plain: Any = other.pop("blobs")
    assert one == other
    assert plain.items() <= blobs.items()
    with open_folder(world).open_store(readonly=True) as store:
        rows = [store.delta(each) for each in blobs]
    assert blobs.keys() - plain.keys() <= {row.base for row in rows if row is not None}
    is_sound(world)
    is_sound(twin)


def check_fork(world: Path, twin: Path, at: int) -> None:
    """A fork at this record has the same states from either, or is refused for the same reason."""
    forks, refusals = [], []
    for source in (world, twin):
        fork = source.with_suffix(".fork")
        try:
            fork_world(source, fork, at=at)
        except Refused as refusal:
            refusals.append(str(refusal).replace(str(source), ""))
        else:
            forks.append(fork)
            is_sound(fork)
    assert len({*refusals}) == (0 if forks else 1)
    if forks:
        one, other = ({*states(fork)} & {*blobs_of(fork)} for fork in forks)
        assert one == other


def blobs_of(world: Path) -> dict[Hash, bytes]:
    with open_folder(world).open_store(readonly=True) as store:
        return {each: store.blob(each) for each in store.blob_hashes()}


def test_a_world_with_deltas_and_its_twin_of_whole_states_stay_the_same(tmp_path: Path) -> None:
    """ST-90 to ST-95: after writing, erasing, collecting, pruning, rebuilding and forking."""
    kept = 0
    for seed in seeds(WORLDS):
        chance = Random(seed)
        place = tmp_path / str(seed)
        place.mkdir()
        world = history(place / "world", chance).world
        kept += len(deltas(world))
        twin = twin_of(world, place)
        assert_same(world, twin)
        check_fork(world, twin, chance.randint(3, frames(world)[-1].header.last))
        for upkeep in chance.sample(UPKEEP, 2):
            upkeep(world)
            with whole_states():
                upkeep(twin)
            assert_same(world, twin)
    assert kept > WORLDS
