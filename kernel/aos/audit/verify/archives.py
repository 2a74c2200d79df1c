"""Order archives of pruned records, and verify a world together with them (spec/audit.md,
A-27c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aos.audit.verify.beginning import Beginning, as_genesis
from aos.core.journal.frame import Tip
from aos.core.journal.identity import world_id
from aos.core.journal.ports import BlobReader
from aos.errors import BadUsage, Damage, sentence
from aos.store.bundle.reader import Bundle
from aos.store.cut import Cut
from aos.values.digests import Hash


class _Blobs(Protocol):
    def blob(self, hash: Hash, /) -> bytes: ...


def archives_to(cut: Cut | None, archives: Sequence[Bundle]) -> list[Bundle]:
    """Return the archives in their order.

    Raises:
        BadUsage: They do not lead to ``cut`` without a gap.
        Damage: The head of an archive cannot be read.
    """
    ordered = sorted(archives, key=_follows)
    expected: int | None = None
    for archive in ordered:
        if expected is not None and _follows(archive) != expected:
            raise _gap(archive, expected)
        expected = archive.head().seq
    if ordered and (cut is None or expected != cut.seq):
        raise BadUsage(
            sentence(
                "the archives do not lead to where the world begins",
                location=str(ordered[-1].path),
                expected="a world that was pruned" if cut is None else f"records to {cut.seq}",
                actual=f"records to {expected}",
                hint="name the archives between too: --archive FILE, once for each",
            )
        )
    return ordered


def beginning_of(archive: Bundle) -> Beginning | None:
    """Return the place and snapshot that an archive continues from; None if it begins at the
    genesis.

    Raises:
        Damage: Its genesis cannot be read.
    """
    start = archive.header.after
    if start is None:
        return None
    genesis = as_genesis(start.genesis)
    world = world_id(genesis.nonce, genesis.world_key)
    return Beginning(
        tip=Tip(world=world, seq=start.seq, frame=start.frame, log=start.log),
        document=start.document,
        genesis=genesis,
    )


def reading(sources: Sequence[_Blobs]) -> BlobReader:
    """Return a reader that takes a blob from the first of ``sources`` that has it unaltered. If
    none has it, the reader raises the ``Damage`` of the first place."""
    if len(sources) == 1:
        return sources[0].blob

    def read(hash: Hash, /) -> bytes:
        first: Damage | None = None
        for source in sources:
            try:
                return source.blob(hash)
            except Damage as problem:
                first = first or problem
        assert first is not None, "nowhere to read from"
        raise first

    return read


def _follows(archive: Bundle) -> int:
    """Return the last record before an archive."""
    start = archive.header.after
    return 0 if start is None else start.seq


def _gap(archive: Bundle, expected: int) -> BadUsage:
    return BadUsage(
        sentence(
            "the archives do not follow one another",
            location=str(archive.path),
            expected=f"records from {expected + 1} on",
            actual=f"from {_follows(archive) + 1} on",
            hint="name the archives between too, and none twice",
        )
    )
