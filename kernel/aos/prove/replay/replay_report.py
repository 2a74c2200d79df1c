"""The result of a replay: no difference, or the first one, and the records that erased values left
undecided (spec/audit.md, A-13 to A-16a)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Final

from aos.core.journal.ports import BlobReader
from aos.errors import Damage, Erased, sentence
from aos.prove.replay.difference import FieldDifference
from aos.read.lens.words import name_cell, short
from aos.values.digests import Hash, hash_text

HINT: Final = (
    "the journal was altered, or what ran was not deterministic: "
    "`aos verify` tells whether its signatures and hashes still fit"
)

RECORDS_NAMED: Final = 20
"""How many records are listed for one value; the others are counted."""


class Divergence(Damage):
    """Replay computed something else than the journal records.

    Attributes:
        frame: First record of the frame.
        record: Sequence of the record; None if only the frame's header or the head differs.
        kind: Kind of the record.
        cell: (workflow, key as JSON), for a step, fault or receipt.
        differences: Every field that differs, recorded against recomputed; at least one.
    """

    def __init__(
        self,
        *,
        frame: int,
        record: int | None,
        kind: str | None,
        cell: tuple[str, object] | None,
        differences: tuple[FieldDifference, ...],
    ) -> None:
        self.frame = frame
        self.record = record
        self.kind = kind
        self.cell = cell
        self.differences = differences
        super().__init__(self._text())

    @property
    def field(self) -> str:
        """Return the first field that differs."""
        return self.differences[0].field

    def to_document(self) -> dict[str, object]:
        """Return the document of spec/audit.md, A-14."""
        cell = None if self.cell is None else {"workflow": self.cell[0], "key": self.cell[1]}
        return {
            "identical": False,
            "frame": self.frame,
            "record": self.record,
            "kind": self.kind,
            "cell": cell,
            "differences": [difference.to_document() for difference in self.differences],
            "message": str(self),
        }

    def _text(self) -> str:
        location = f"frame {self.frame}"
        if self.record is not None:
            location += f", record {self.record}"
        if self.kind is not None:
            of = "" if self.cell is None else f" of {name_cell(*self.cell)}"
            location += f" ({self.kind}{of})"
        name, recorded, recomputed = self.differences[0].first()
        other_count = len(self.differences) - 1
        return sentence(
            f"replay differs in {name}"
            + (f" and {other_count} other fields" if other_count else ""),
            location=location,
            expected=f"{short(recorded)} as recorded",
            actual=f"{short(recomputed)} recomputed",
            hint=HINT,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """A value that record ``by`` erased, and the earlier records that could not be decided again.

    ``records`` lists the first of them, ``unnamed`` counts the others.
    """

    value: Hash
    by: int
    records: tuple[int, ...]
    unnamed: int = 0

    def to_document(self) -> dict[str, object]:
        return {
            "value": hash_text(self.value),
            "by": self.by,
            "records": list(self.records),
            "unnamed": self.unnamed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """The number of records that were executed and compared without a difference.

    ``steps`` includes faults. Some results are copied from the record: ``environmental`` counts
    such faults, and ``fuel_taken`` the steps whose fuel was copied because another engine version
    ran them. ``erased`` counts records copied because a value that they need was erased;
    ``erasures`` lists the values and the records that erased them. ``snapshots`` counts those that
    were taken again with the same result; ``state_root`` is the root of a snapshot at the end.
    """

    world: Hash
    frames: int
    records: int
    events: int
    receipts: int
    kernel_receipts: int
    streams: int
    attempts: int
    controls: int
    snapshots: int
    manifests: int
    starts: int
    steps: int
    faults: int
    intents: int
    emitted: int
    environmental: int
    fuel_taken: int
    erased: int
    fuel: int
    seq: int
    frame: Hash
    log_root: Hash
    state_root: Hash
    seconds: float
    erasures: tuple[Erasure, ...] = ()
    identical: bool = True

    def to_document(self) -> dict[str, object]:
        """Return the document of spec/audit.md, A-15."""
        document: dict[str, object] = asdict(self)
        for name in ("world", "frame", "log_root", "state_root"):
            document[name] = hash_text(getattr(self, name))
        document["erasures"] = [erasure.to_document() for erasure in self.erasures]
        return document


@dataclass(slots=True)
class Erasures:
    """Reads blobs, and remembers the erased ones and the records that needed them (A-16a).

    Rule 1: a value counts as erased if its reader reports so and a later record of this journal
    erases it. The reader's report alone is not enough: the rows that it reads are no part of the
    chain.

    Rule 2: a record that needs such a value is accepted as it is, and listed in the report.
    """

    below: BlobReader
    erasures: list[Erasure] = field(default_factory=list)
    _missed: list[Hash] = field(default_factory=list)
    _seqs_by_value: dict[Hash, list[int]] = field(default_factory=dict)

    def read(self, hash: Hash, /) -> bytes:
        try:
            return self.below(hash)
        except Erased:
            self._missed.append(hash)
            raise

    def begin(self) -> None:
        """Begin the next record: forget the erased values that the last one read."""
        self._missed.clear()

    def take(self, seq: int) -> bool:
        """Return whether record ``seq`` read an erased value here, so that it could not be
        decided again; if so, note the record under that value."""
        for value in dict.fromkeys(self._missed):
            self._seqs_by_value.setdefault(value, []).append(seq)
        return bool(self._missed)

    def erased(self, value: Hash, by: int) -> None:
        """Note that record ``by`` erases ``value``: earlier records that needed it are excused."""
        seqs = self._seqs_by_value.pop(value, None)
        if seqs:
            first_seqs = tuple(seqs[:RECORDS_NAMED])
            self.erasures.append(
                Erasure(value=value, by=by, records=first_seqs, unnamed=len(seqs) - len(first_seqs))
            )

    def finish(self) -> None:
        """Check that a record erases each value that was read as erased.

        Raises:
            Damage: The store reports a value as erased, but no record after its use erases it.
        """
        for value, seqs in self._seqs_by_value.items():
            raise Damage(
                f"the value {hash_text(value)} is missing",
                location=f"record {seqs[0]}",
                expected="its bytes, or a record that erases it",
                actual="a row that says it was erased",
                hint="aos verify tells what else is missing; restore a backup",
            )
