"""Where a pruned journal begins now (spec/state.md, RT-1 to RT-4).

cut = canonical array [format, seq, frame, log size, log peaks, document, genesis, is_done,
      archives]
archive = [first, last, name]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aos.core.journal.frame import Tip
from aos.core.journal.merkle import Tree
from aos.errors import Damage, Pruned
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import HASH_BYTES, Hash
from aos.values.errors import ValueProblem

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Archive:
    """A file that holds the frames of records ``first`` to ``last``. ``name`` is where it was put;
    it may have been moved since."""

    first: int
    last: int
    name: str

    def value(self) -> Value:
        """Return its element of the cut's field ``archives``."""
        return [self.first, self.last, self.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Records 2 to ``seq`` were pruned. The records kept follow ``frame``, the hash of the last
    pruned frame, and ``log``, the tree over the roots of all frames up to it.

    ``document`` is the snapshot of the world after record ``seq``: the state follows from it and
    the later records. ``genesis`` are the bytes of the record that the world began with: its
    genesis, or the fork that made it. ``is_done`` is False while the store still has some of the
    pruned frames, which it no longer returns.
    """

    seq: int
    frame: Hash
    log: Tree
    document: Hash
    genesis: bytes
    archives: tuple[Archive, ...]
    is_done: bool = False

    def tip(self, world: Hash) -> Tip:
        """The tip that the first frame kept follows."""
        return Tip(world=world, seq=self.seq, frame=self.frame, log=self.log)

    def to_bytes(self) -> bytes:
        """Return the row ``cut`` of the table ``system`` (ST-10), as drawn at the top of this
        file."""
        return encode(
            [
                FORMAT, self.seq, self.frame, self.log.size, list(self.log.peaks), self.document,
                self.genesis, self.is_done, [archive.value() for archive in self.archives],
            ]
        )  # fmt: skip

    @classmethod
    def from_bytes(cls, data: bytes) -> Cut:
        """Raises: Damage."""
        try:
            value = decode_record(data)
        except ValueProblem as problem:
            raise Damage(f"it is not canonical CBOR: {problem}") from problem
        match value:
            case [
                1, int(seq), bytes(frame), int(size), list(peaks), bytes(document),
                bytes(genesis), bool(done), list(archives),
            ] if (
                seq > 0
                and _are_hashes([frame, document, *peaks])
                and len(peaks) == size.bit_count()
            ):  # fmt: skip
                return cls(
                    seq=seq,
                    frame=Hash(frame),
                    log=Tree(size, tuple(Hash(peak) for peak in peaks if isinstance(peak, bytes))),
                    document=Hash(document),
                    genesis=genesis,
                    archives=tuple(map(_archive, archives)),
                    is_done=done,
                )
        raise Damage("it is none that is written")


def pruned(cut: Cut, seq: int) -> Pruned:
    """Return the error for a read of record ``seq``, which was pruned."""
    archive = next(
        (candidate for candidate in cut.archives if candidate.first <= seq <= candidate.last), None
    )
    hint = None
    if archive is not None:
        hint = (
            f"it is in the archive {archive.name}, with records {archive.first} to {archive.last}"
        )
    return Pruned(f"record {seq} was pruned", expected=f"a record after {cut.seq}", hint=hint)


def _are_hashes(values: list[Value]) -> bool:
    return all(isinstance(value, bytes) and len(value) == HASH_BYTES for value in values)


def _archive(value: Value) -> Archive:
    match value:
        case [int(first), int(last), str(name)]:
            return Archive(first, last, name)
    raise Damage("it names an archive that is none")
