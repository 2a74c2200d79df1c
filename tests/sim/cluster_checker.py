"""The promises of a cluster, checked from the log, the folders, and what the outside was told
(spec/cluster.md, CL-142)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from aos.core.journal.frame import Frame, Tip
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Event, Receipt, Record, Start
from aos.core.snapshot.take import take
from aos.errors import AosError, Damage
from aos.host.folder.restore import restore
from aos.store.lmdb_store import LmdbStore
from aos.store.log.counting import EntryCounter
from aos.store.log.entry import FramesEntry
from aos.store.log.memory_log import MemoryLog
from aos.values.digests import Hash, content_hash
from tests.host.cluster.owner_process import WORLD
from tests.memory_world import WORLD_KEY
from tests.sim.failure import SimFailure

if TYPE_CHECKING:
    from tests.sim.cluster import ClusterSim
    from tests.sim.cluster_node import SimNode


@dataclass
class Chain:
    """The journal that counts for a reader of the whole log."""

    frames: list[Frame] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    @property
    def hashes(self) -> list[Hash]:
        return [frame.hash for frame in self.frames]


def read_chain(sim: ClusterSim) -> Chain:
    """Read the log from its beginning, also what was trimmed."""
    chain = Chain()
    ends: dict[int, Hash] = {}
    counter = EntryCounter(
        tip=Tip(world=WORLD), world_key=bytes(WORLD_KEY.verify_key), position=0,
        log=MemoryLog(replace(sim.stream, first=1)), frame_at=ends.get,
    )  # fmt: skip
    for counted in counter.counted():
        if isinstance(counted.entry, FramesEntry):
            for frame in counted.entry.frames:
                ends[frame.header.last] = frame.hash
                chain.frames.append(frame)
                chain.records += map(from_bytes, frame.records)
    return chain


def check(sim: ClusterSim) -> dict[str, int]:
    """Check all promises; return figures of the run. Raises SimFailure."""
    if sim.lost_position is not None:
        return _check_lost(sim)
    for node in sim.nodes:
        if node.damage is not None:
            raise SimFailure("damage", f"{node.name}: {node.damage}")
    try:
        chain = read_chain(sim)
    except Damage as problem:
        raise SimFailure("chain", str(problem)) from problem
    _check_told(sim, chain)
    _check_runs(sim)
    documents = {node.name: _check_node(node, chain) for node in sim.nodes}
    if len(set(documents.values())) != 1:
        raise SimFailure("states", f"the nodes have different states: {documents}")
    owners = [node.name for node in sim.nodes if node.host is not None]
    if len(owners) != 1:
        raise SimFailure("owner", f"one node owns the world once everything works: {owners}")
    if not any(name.startswith("probe") for name, _ in sim.history.acknowledged):
        raise SimFailure("owner", "no event is acknowledged once everything works")
    if sim.bases is not None:
        sim.bases.check(chain, sim.folder / "joined")
    return {
        "bases": 0 if sim.bases is None else sim.bases.bases,
        "joins": 0 if sim.bases is None else sim.bases.joins,
        "records": len(chain.records),
        "acknowledged": len(sim.history.acknowledged),
        "takeovers": len(sim.history.owners),
        "tasks": len(sim.history.runs),
        "ends lost": 0,
        "processes on the second kernel": sim.history.fast_processes,
    }


def _check_told(sim: ClusterSim, chain: Chain) -> None:
    """Check that everything the outside was told counts, once."""
    counts = Counter(record.submission_id for record in chain.records if isinstance(record, Event))
    for name, seq in sim.history.acknowledged:
        record = chain.records[seq - 1] if seq <= len(chain.records) else None
        if not isinstance(record, Event) or record.submission_id != name:
            raise SimFailure("acknowledged", f"{name} was acknowledged as record {seq}: {record!r}")
        if counts[name] != 1:
            raise SimFailure("once", f"{name} is in the journal {counts[name]} times")
    hashes = set(chain.hashes)
    for seq, frame in sim.history.published:
        if frame not in hashes:
            raise SimFailure("published", f"the frame of record {seq} was published, and is dead")
    settled = Counter(record.intent for record in chain.records if isinstance(record, Receipt))
    for intent, count in settled.items():
        if count != 1:
            raise SimFailure("settled", f"{intent.hex()[:8]} is settled {count} times")
    starts = [record for record in chain.records if isinstance(record, Start)]
    for name, seq in sim.history.owners:
        start = chain.records[seq - 1] if seq <= len(chain.records) else None
        if not isinstance(start, Start) or dict(start.host).get("node") != name:
            raise SimFailure("start", f"{name} owned the world, and record {seq} is no start of it")
    if len(starts) < len(sim.history.owners):
        raise SimFailure("start", "a node owned the world without a start record")


def _check_runs(sim: ClusterSim) -> None:
    once = Counter(intent for intent, _, is_once in sim.history.runs if is_once)
    for intent, count in once.items():
        if count > 1:
            raise SimFailure("at_most_once", f"{intent.hex()[:8]} ran {count} times")


def _check_node(node: SimNode, chain: Chain) -> Hash:
    """Check that a node has the whole chain, and that its kernel, of either kind, has the state of
    it; return a digest of that state, folded again by the reference."""
    name, store = node.name, node.store
    assert store is not None
    hashes = [frame.hash for frame in store.frames()]
    if hashes != chain.hashes[: len(hashes)]:
        raise SimFailure("prefix", f"{name} has another history than the log")
    if len(hashes) != len(chain.hashes):
        raise SimFailure("lag", f"{name} has {len(hashes)} of {len(chain.hashes)} frames")
    try:
        state = restore(store, WORLD)
    except AosError as problem:
        raise SimFailure("restore", f"{name}: {problem}") from problem
    document = take(state, content_hash).document
    if node.root() != document:
        raise SimFailure("root", f"the kernel of {name} has another state than its journal")
    rows = [*store.intents(), *((row.submission_id, row.seq) for row in store.submissions())]
    return content_hash(document + repr(rows).encode())


def _check_lost(sim: ClusterSim) -> dict[str, int]:
    """The log lost acknowledged messages: nodes stop, and everything that was ever acknowledged is
    in the longest journal of a node. So nothing was acknowledged on another history."""
    damaged = [node.name for node in sim.nodes if node.damage is not None]
    if not damaged:
        raise SimFailure("lost", "the log has lost its end, and no node says so")
    journals = [_journal_of(node.folder, node.store) for node in sim.nodes if not node.needs_join]
    longest = max(journals, key=len)
    for name, seq in sim.history.acknowledged:
        record = longest[seq - 1] if seq <= len(longest) else None
        if not isinstance(record, Event) or record.submission_id != name:
            raise SimFailure("lost", f"{name}, acknowledged as record {seq}, is in no long journal")
    return {
        "acknowledged": len(sim.history.acknowledged),
        "takeovers": len(sim.history.owners),
        "ends lost": 1,
    }


def _journal_of(folder: Path, store: LmdbStore | None) -> list[Record]:
    """The records in the folder of a node, also of one that has stopped."""
    if store is None:
        with LmdbStore.open(folder, readonly=True, looks=False) as stopped:
            return _journal_of(folder, stopped)
    return [from_bytes(data) for frame in store.frames() for data in frame.records]
