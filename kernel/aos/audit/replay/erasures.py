"""Track the values that replay cannot read because they were erased (spec/audit.md, A-16a).

Rule 1: a value counts as erased if its reader reports so and a later record of this journal erases
it. The reader's report alone is not enough: the rows that it reads are no part of the chain.

Rule 2: a record that needs such a value is accepted as it is, and listed in the report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from aos.core.journal.ports import BlobReader
from aos.errors import Damage, Erased, sentence
from aos.values.digests import Hash, hash_text

RECORDS_NAMED: Final = 20
"""How many records are listed for one value; the others are counted."""


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


@dataclass(slots=True)
class Erasures:
    """Reads blobs, and remembers the erased ones and the records that needed them."""

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
                sentence(
                    f"the value {hash_text(value)} is missing",
                    location=f"record {seqs[0]}",
                    expected="its bytes, or a record that erases it",
                    actual="a row that says it was erased",
                    hint="aos verify tells what else is missing; restore a backup",
                )
            )
