"""Bases of a replicated world: made from a node's store, named in the registration, and the log
trimmed to the newest one (spec/cluster.md, CL-130 to CL-137).

    rows ──▶ stream of the base ──▶ read again ──▶ registration ──▶ log is trimmed ──▶ older bases
                                                                                       are removed

Each step can be repeated. A process that is killed between two of them leaves what the next making
of a base finishes: nothing is trimmed before the registration names a base that was read to its
end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from nacl.signing import SigningKey

from aos.errors import AosError, Damage, Refused
from aos.host.cluster.registration import (
    BaseRef,
    RegistrationEntry,
    WorldRegistration,
    check_in_servers,
    registered,
)
from aos.store.lmdb_store import LOG_PLACE, LmdbStore
from aos.store.log.base_stream import Advance, BaseEnd, BaseReader, last_entry, write_base
from aos.store.log.bucket import Bucket, BucketConflict
from aos.store.log.log import LogTrimmed
from aos.store.log.logged_store import LogPlace, check_place
from aos.store.log.patience import patiently
from aos.store.log.world_streams import WorldStreams, new_base_name

BASE_BYTES: Final = 1 << 30
"""A node makes a base when the log has so many bytes (CL-136)."""

ABANDONED_NS: Final = 10 * 60 * 1_000_000_000
"""A base that is not whole, and to which nothing was written for so long, has no maker any more."""

Change = Callable[[WorldRegistration], WorldRegistration | None]
"""Returns the registration in the place of another one, unsigned; None if that one may stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldServers:
    """The servers of worlds: the buckets ``AOS`` and ``AOS_BEATS``, and the streams."""

    worlds: Bucket
    beats: Bucket
    streams: WorldStreams


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeBase:
    """The newest base; ``is_new`` is whether this making has written it. ``removed`` are the
    streams of older ones."""

    base: BaseRef
    is_new: bool
    removed: tuple[str, ...] = ()


def needs_base(
    streams: WorldStreams,
    registration: WorldRegistration,
    position: int,
    *,
    log_bytes: int | None = None,
) -> bool:
    """Whether the log has ``log_bytes`` bytes (default: ``BASE_BYTES``), and a node whose store has
    it to ``position`` can make a later base.

    Raises:
        LogUnreachable, Damage: As ``WorldStreams.size_bytes``.
    """
    base = registration.base
    is_newer = base is None or position > base.end.position
    return is_newer and streams.size_bytes(registration.stream) >= (log_bytes or BASE_BYTES)


def make_base(
    servers: WorldServers,
    name: str,
    store: LmdbStore,
    key: SigningKey,
    *,
    advance: Advance = lambda _: None,
) -> MadeBase:
    """Make a base of the world ``name`` from the store of one of its nodes, unless there is one
    that is as new, and finish what an earlier making has left. The node may run meanwhile.

    Raises:
        Refused: The store is not one of this world, or of an earlier log of it, or the world was
            taken out of the servers.
        Damage: The store is damaged, or the log has lost what the store took from it (CL-134).
        Unavailable: The servers do not answer, or have no room. Repeat it.
    """
    world_key = key.verify_key.encode()
    registration = patiently(lambda: registered(servers.worlds, name, world_key)).registration
    check_in_servers(registration)
    place = check_stream(store, registration)
    base = registration.base
    lost = base if base is not None and not _is_whole(servers.streams, base, world_key) else None
    least = base.end.position if base is not None else -1
    is_new = place.position > least or (lost is not None and place.position == least)
    if is_new:
        _check_log(servers.streams, place, location=store.location)
        written = write_stream(servers.streams, store, key, advance=advance)
        registration = _named(servers, registration, written, key, lost=lost)
        is_new = registration.base == written
    elif lost is not None:
        raise Refused(
            "the newest base is no longer whole, and this folder is older than it",
            location=store.location,
            expected=f"a store at position {least} of the log, or behind it",
            actual=f"one at {place.position}",
            hint="make the base on another node",
        )
    removed = finish_base(servers.streams, registration, world_key)
    assert registration.base is not None, "a base is named"
    return MadeBase(base=registration.base, is_new=is_new, removed=removed)


def check_stream(store: LmdbStore, registration: WorldRegistration) -> LogPlace:
    """Return the place of a node's store in the log of the world.

    Raises:
        Refused: The store has no log, or is of another one.
    """
    data = store.meta_get(LOG_PLACE)
    place = None if data is None else LogPlace.from_bytes(data)
    if place is None or place.stream != registration.stream:
        raise Refused(
            "this folder is not of the log of the world",
            location=store.location,
            expected=f"the stream {registration.stream}",
            actual="an embedded world" if place is None else f"the stream {place.stream}",
            hint="use the folder of another node, or make this one again: aos join",
        )
    return place


def _check_log(streams: WorldStreams, place: LogPlace, *, location: str) -> None:
    """Check that the log has what a store took from it, or a later base. A trim to a position that
    the log has lost would let the next message have that position."""
    log = patiently(lambda: streams.log(place.stream))
    try:
        patiently(lambda: check_place(log, place, location=location))
    except LogTrimmed:
        return  # another node has made a later base: this one is not named


def write_stream(
    streams: WorldStreams,
    store: LmdbStore,
    key: SigningKey,
    *,
    place: LogPlace | None = None,
    advance: Advance = lambda _: None,
) -> BaseRef:
    """Write the rows of a store as a base into a new stream, and read it again; ``place`` is as for
    ``write_base``. No registration names it yet. After an exception, the stream is removed if the
    servers answer.

    Raises:
        Damage: The store is damaged, or the stream is not what was written.
        Unavailable: The servers do not answer, or have no room.
    """
    head = store.head()
    if head is None:
        raise Refused("the store has no journal yet", location=store.location)
    stream = new_base_name(head.world)
    try:
        patiently(lambda: streams.make(stream))
        log = patiently(lambda: streams.log(stream))
        part_bytes = patiently(streams.part_bytes)
        end = write_base(
            store.all_rows(), log, key, part_bytes=part_bytes, place=place, advance=advance
        )
        # The log is trimmed to it: it must be whole for others, too.
        if BaseReader(log, key.verify_key.encode()).check() != end:
            raise Damage("the stream of a base has another end", location=f"stream {stream}")
    except BaseException:
        with contextlib.suppress(AosError):
            streams.remove(stream)
        raise
    return BaseRef(stream=stream, end=end.end)


def change_registration(
    worlds: Bucket, name: str, key: SigningKey, change: Change
) -> WorldRegistration:
    """Change the registration of a world by compare-and-set; return the one that is there then.

    Raises:
        Refused, Damage, BucketUnreachable: As ``registered``, and what ``change`` raises.
    """

    def attempt() -> WorldRegistration:
        while True:
            entry: RegistrationEntry = registered(worlds, name, key.verify_key.encode())
            changed = change(entry.registration)
            if changed is None:
                return entry.registration
            signed = changed.signed(key)
            with contextlib.suppress(BucketConflict):
                worlds.replace(name, signed.to_bytes(), entry.revision)
                return signed

    return patiently(attempt)


def _named(
    servers: WorldServers,
    former: WorldRegistration,
    base: BaseRef,
    key: SigningKey,
    *,
    lost: BaseRef | None = None,
) -> WorldRegistration:
    """Let the registration name a base, unless one that is as late is there (CL-134). One that is
    ``lost`` is no longer whole."""

    def change(registration: WorldRegistration) -> WorldRegistration | None:
        if registration.stream != former.stream:
            raise Refused(
                "the world went to another log while this base was made",
                location=registration.name,
                expected=f"the stream {former.stream}",
                actual=f"the stream {registration.stream}",
            )
        former_base = registration.base
        is_lost = former_base is not None and former_base == lost
        if former_base is not None and former_base.end.position + (not is_lost) > base.end.position:
            return None
        return replace(registration, base=base)

    try:
        return change_registration(servers.worlds, former.name, key, change)
    except Refused:
        with contextlib.suppress(AosError):
            servers.streams.remove(base.stream)
        raise


def finish_base(
    streams: WorldStreams, registration: WorldRegistration, world_key: bytes
) -> tuple[str, ...]:
    """Trim the log to the base that the registration names, and then remove older bases and those
    that no process finishes any more; return their streams.

    Raises:
        LogUnreachable: The servers do not answer for some time.
    """
    base = registration.base
    if base is None:
        return ()
    position = base.end.position
    log = patiently(lambda: streams.log(registration.stream))
    patiently(lambda: log.trim(position))
    removed: list[str] = []
    for age in patiently(lambda: streams.bases(registration.world)):
        if age.name == base.stream:
            continue
        end = _end_of(streams, age.name, world_key)
        if is_leftover(end, age.idle_ns, registration):
            patiently(partial(streams.remove, age.name))
            removed.append(age.name)
    return tuple(removed)


def is_leftover(end: BaseEnd | None, idle_ns: int, registration: WorldRegistration) -> bool:
    """Whether a base that the registration does not name may be removed. ``end`` is that of a whole
    one. Its maker may be about to name a later one, or be writing one that is not whole."""
    base = registration.base
    if base is None:
        return False
    if end is not None and end.place.stream == registration.stream:
        return end.place.position <= base.end.position or idle_ns >= ABANDONED_NS
    return idle_ns >= ABANDONED_NS


def _is_whole(streams: WorldStreams, base: BaseRef, world_key: bytes) -> bool:
    """Whether the first and the last message of a base are there. It was read before it was named,
    so anything else is the work of an operator of the servers."""
    end = _end_of(streams, base.stream, world_key)
    return end is not None and patiently(lambda: streams.first(base.stream)) == 1


def _end_of(streams: WorldStreams, stream: str, world_key: bytes) -> BaseEnd | None:
    """The end of a base, if it is whole."""

    def read() -> BaseEnd | None:
        try:
            return last_entry(streams.log(stream), world_key)
        except (Damage, Refused):  # it is none, or was removed meanwhile
            return None

    return patiently(read)


def open_erasure(streams: WorldStreams, registration: WorldRegistration, seq: int) -> str | None:
    """Why the servers may still have a value that record ``seq`` has erased; None if they have it
    no more: there is a base behind that record, and nothing older (CL-137).

    Raises:
        LogUnreachable: The servers do not answer.
    """
    base = registration.base
    if base is None or base.end.seq < seq:
        return f"no base has record {seq} yet: aos cluster base makes one"
    if streams.first(registration.stream) < base.end.position:
        return "the log is not trimmed to the base yet: aos cluster base finishes it"
    other_bases = [age.name for age in streams.bases(registration.world) if age.name != base.stream]
    return f"another base is still there: {', '.join(other_bases)}" if other_bases else None
