"""Compare the journal in the folder of a node with the log at the servers (spec/cluster.md, CL-275
to CL-278). It writes nothing, and the node may run meanwhile.

    log, from its first position ──▶ frames that count ──▶ the same bytes in the folder?
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from aos.core.journal.frame import Frame, Tip, follow
from aos.errors import Damage, Refused
from aos.host.cluster.base import WorldServers, check_stream
from aos.host.cluster.registration import WorldRegistration, check_in_servers, registered
from aos.store.lmdb_store import LmdbStore
from aos.store.log.counting import EntryCounter
from aos.store.log.entry import EntryPart, FramesEntry, read_entry
from aos.store.log.log import Log, LogEndsEarly, LogTrimmed, LogUnreachable
from aos.store.log.logged_store import LogPlace
from aos.store.log.patience import Patience, patiently
from aos.store.store import head_of
from aos.values.digests import Hash, content_hash

SHOWN_AGAIN_S: Final = 5.0
"""How long a log may end before the place of the folder: a server that lags catches up."""


@dataclass(slots=True)
class LogComparison:
    """The log, as far as it was compared with a folder.

    The messages behind position ``begin`` were read: ``entries`` that count, with ``frames``
    frames, and ``dead`` messages. ``last`` is the position of the last entry that counts, and
    ``seq`` the last record there. ``local_position`` and ``local_seq`` are the end of the folder.
    ``problem`` is the first difference, or why the log cannot be read on; None without one.
    """

    stream: str
    begin: int = 0
    last: int = 0
    seq: int = 0
    entries: int = 0
    frames: int = 0
    dead: int = 0
    dead_reason: str | None = None
    local_position: int = 0
    local_seq: int = 0
    problem: Damage | None = None

    @property
    def behind_messages(self) -> int:
        """How many messages of the log the folder lacks."""
        return max(0, self.last - self.local_position)

    @property
    def behind_records(self) -> int:
        """How many records of the log the folder lacks."""
        return max(0, self.seq - self.local_seq)

    def to_document(self) -> dict[str, Any]:
        """The document of ``aos verify --servers --json``."""
        return {
            "equal": self.problem is None,
            "problem": None if self.problem is None else str(self.problem),
            "stream": self.stream,
            "begin": self.begin,
            "last": self.last,
            "seq": self.seq,
            "entries": self.entries,
            "frames": self.frames,
            "dead_messages": self.dead,
            "dead_reason": self.dead_reason,
            "local_position": self.local_position,
            "local_seq": self.local_seq,
            "behind_messages": self.behind_messages,
            "behind_records": self.behind_records,
        }


def compare_with_log(
    servers: WorldServers, name: str, store: LmdbStore, world_key: bytes
) -> LogComparison:
    """Compare the journal of a node's store with the log of the world ``name``.

    Raises:
        Refused: The store is of an earlier log, or the world was taken out of the servers.
        Unavailable: The servers do not answer.
    """
    while True:
        registration = patiently(lambda: registered(servers.worlds, name, world_key)).registration
        check_in_servers(registration)
        comparison = LogComparison(stream=registration.stream)
        try:
            _compare(comparison, servers, registration, store, world_key)
        except LogTrimmed as problem:
            newest = patiently(lambda: registered(servers.worlds, name, world_key)).registration
            if newest != registration:
                continue  # a newer base was made meanwhile, and the log trimmed to it
            comparison.problem = problem
        except Damage as problem:
            comparison.problem = problem
        log_place = check_stream(store, registration)
        comparison.local_position, comparison.local_seq = log_place.position, head_of(store).seq
        return comparison


def _compare(
    comparison: LogComparison,
    servers: WorldServers,
    registration: WorldRegistration,
    store: LmdbStore,
    world_key: bytes,
) -> None:
    """Fill ``comparison``. Raises: Damage: The first difference."""
    log_place, head_seq = check_stream(store, registration), head_of(store).seq
    log = patiently(lambda: servers.streams.log(registration.stream))
    _wait_for(log, log_place, head_seq, store)
    first = patiently(lambda: servers.streams.first(registration.stream))
    beginning = _beginning(log, first, registration, store, world_key)
    if beginning is None:
        return
    comparison.begin, tip = beginning
    comparison.last, comparison.seq = comparison.begin, tip.seq

    def frame_at(seq: int) -> Hash | None:
        frame = store.frame_at(seq)
        return frame.hash if frame is not None and frame.header.last == seq else None

    counter = EntryCounter(
        tip=tip, world_key=world_key, position=comparison.begin, log=log, frame_at=frame_at
    )
    patience = Patience()
    while True:
        try:
            for counted in counter.counted():
                patience.renew()
                comparison.entries += 1
                comparison.last, comparison.seq = counted.last, counted.tip.seq
                if isinstance(counted.entry, FramesEntry):
                    comparison.frames += len(counted.entry.frames)
                    for frame in counted.entry.frames:
                        _check_frame(frame, counted.last, store)
        except LogUnreachable as problem:
            patience.wait(problem)
        else:
            break
        finally:
            comparison.dead, comparison.dead_reason = counter.dead, counter.reason
    if counter.tip.seq < head_seq:
        raise Damage(
            f"the folder has records that do not count in the log, from record "
            f"{counter.tip.seq + 1} on",
            location=store.location,
            expected=f"a log with record {head_seq}",
            actual=f"one that ends with record {counter.tip.seq}",
            hint="start no node before the folders of all nodes were compared with the log; then "
            "aos cluster restore, from the folder with the longest journal that is sound",
        )


def _wait_for(log: Log, log_place: LogPlace, seq: int, store: LmdbStore) -> None:
    """Wait until the log shows what the store took from it. Raises: Damage: It has lost that."""
    until_s = time.monotonic() + SHOWN_AGAIN_S

    def tail() -> int:
        try:
            return log.tail()
        except LogEndsEarly:
            return 0

    while (end := patiently(tail)) < log_place.position:
        if time.monotonic() >= until_s:
            raise Damage(
                f"the log has lost what this folder has, up to record {seq}",
                location=store.location,
                expected=f"a log that continues to position {log_place.position}",
                actual=f"one that ends at {end}",
                hint="start no node: aos cluster restore makes another log, from the folder with "
                "the most records",
            )
        time.sleep(0.1)


def _beginning(
    log: Log, first: int, registration: WorldRegistration, store: LmdbStore, world_key: bytes
) -> tuple[int, Tip] | None:
    """From where the log is compared: a position, and the end of the journal there. None if the log
    has nothing behind the records that were pruned here."""
    base = registration.base
    if base is None and first > 1:
        raise Damage(
            "messages were removed from the log, and no base has their records",
            location=f"stream {registration.stream}",
            expected="the message at position 1",
            actual=f"{first} as the first one",
            hint="make a base from the folder with the most records: aos cluster base",
        )
    position, seq = (0, 0) if base is None else (base.end.position, base.end.seq)
    cut = store.cut()
    if cut is not None and cut.seq > seq:
        entry = patiently(lambda: _first_behind(log, position, cut.seq, world_key))
        if entry is None:
            return None
        position, seq = entry
    if seq > head_of(store).seq:
        raise Refused(
            "this folder is behind the beginning of the log",
            location=store.location,
            expected=f"record {seq}",
            actual=f"record {head_of(store).seq} as the last one",
            hint="start its node, which joins again: aos run; then compare again",
        )
    tip = _tip_at(store, seq)
    if base is not None and seq == base.end.seq and tip.frame != base.end.frame:
        raise _differs(seq, position, store, "the base of the world has another frame there")
    return position, tip


def _first_behind(log: Log, position: int, seq: int, world_key: bytes) -> tuple[int, int] | None:
    """The first whole entry of the world's key whose frames follow record ``seq`` or a later one:
    the position before it, and the record before its frames. Such an entry counts: an owner writes
    on a frame that counts, and the first entry on it is the one."""
    parts: list[EntryPart] = []
    for message in log.read(position):
        part = message.part
        if part is not None and parts and part.entry != parts[0].entry:
            parts = []
        if part is None or part.number != len(parts) + 1:
            parts = []
            continue
        parts.append(part)
        if len(parts) < part.total:
            continue
        data, parts = b"".join(part.data for part in parts), []
        if content_hash(data) != part.entry:
            continue
        try:
            entry = read_entry(data)
        except Damage:
            continue
        if isinstance(entry, FramesEntry) and entry.head.is_signed_by(world_key):
            last_before = entry.frames[0].header.first - 1
            if last_before >= seq:
                return message.position - part.total, last_before
    return None


def _tip_at(store: LmdbStore, seq: int) -> Tip:
    """The end of the journal with record ``seq``, from the frames that the store has."""
    cut, world = store.cut(), head_of(store).world
    if cut is not None:
        tip, first = cut.tip(world), cut.seq + 1
    else:
        frame = store.frame_at(1)
        tip, first = Tip(world=world if frame is None else frame.header.world), 1
    if tip.seq < seq:
        for frame in store.frames(first, seq):
            tip = follow(tip, frame)
    if tip.seq != seq:
        raise _differs(seq, 0, store, "no frame of the folder ends with this record")
    return tip


def _check_frame(frame: Frame, position: int, store: LmdbStore) -> None:
    """Check that a frame of the log, if the folder has come as far, is there to the byte."""
    last = frame.header.last
    if last > head_of(store).seq:
        return
    try:
        local = store.frame_at(last)
    except Damage as problem:
        raise _differs(frame.header.first, position, store, str(problem)) from problem
    if local is None:
        raise _differs(frame.header.first, position, store, "the folder lacks this frame")
    if local.to_bytes() == frame.to_bytes():
        return
    if local.header != frame.header:
        raise _differs(frame.header.first, position, store, "another frame is in the folder")
    pairs = zip(local.records, frame.records, strict=False)
    differing = next((index for index, (left, right) in enumerate(pairs) if left != right), 0)
    raise _differs(
        frame.header.first + differing, position, store, "the folder has other bytes there"
    )


def _differs(seq: int, position: int, store: LmdbStore, actual: str) -> Damage:
    at_position = f", at position {position} of the log" if position else ""
    return Damage(
        f"the folder differs from the log in record {seq}{at_position}",
        location=store.location,
        actual=actual,
        hint="stop this node and run aos verify on the folders of all nodes; if only this one is "
        "damaged, move its folder away and make the node again: aos join",
    )
