"""Find the records that a proof of an intent or a cell shows (spec/proofs.md, PF-34 to PF-37).

A store has rows that name them. In a bundle every record is looked at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from aos.audit.proofs.sources import Source
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import KernelReceipt, Manifest, Receipt, Record, Step
from aos.errors import BadUsage, Damage, sentence
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash, hash_text

_MANIFEST: Final = encode("kind") + encode(Manifest.KIND)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentRecords:
    """The step that asked for an effect, the receipt that settled it, and the manifest record that
    was in force at the step; None where there is none, or it is not needed."""

    request: int
    settled: int | None
    manifest: int | None


def record_at(source: Source, seq: int) -> Record:
    """A record. Raises as ``Source.frame_at``."""
    frame = source.frame_at(seq)
    return from_bytes(frame.records[seq - frame.header.first])


def intent_records(source: Source, intent: Hash, *, bare: bool) -> IntentRecords:
    """Find the records of an intent. With ``bare``, the manifest is not looked for.

    Raises:
        BadUsage: The journal has no such intent.
        Pruned: A record was pruned, and is in no archive that was named.
        Damage: The journal cannot be read.
    """
    row = None if source.store is None else source.store.intent(intent)
    if row is not None:
        request, settled = row.opened_seq, row.settled_seq
    else:
        request, settled = _scanned(source, intent)
    signed = settled is not None and isinstance(record_at(source, settled), Receipt)
    manifest = manifest_before(source, request) if signed and not bare else None
    return IntentRecords(request=request, settled=settled, manifest=manifest)


def _scanned(source: Source, intent: Hash) -> tuple[int, int | None]:
    request = settled = None
    for record in _records_with(source, intent, source.begins()[0] + 1, source.head().seq):
        if isinstance(record, Step) and any(
            candidate.intent == intent for candidate in record.intents
        ):
            request = record.seq
        elif isinstance(record, Receipt | KernelReceipt) and record.intent == intent:
            settled = record.seq
    if request is None:
        raise BadUsage(
            sentence(
                "the journal has no record that asked for this effect",
                location=hash_text(intent),
                hint="of a pruned journal, name the archives too: --archive FILE",
            )
        )
    return request, settled


def manifest_before(source: Source, seq: int) -> int:
    """The manifest record in force at record ``seq``.

    It begins with the newest snapshot before, so that few records are read.

    Raises:
        Pruned: The record was pruned, and is in no archive that was named.
        Damage: No manifest came before.
    """
    manifest_seq, first = 0, source.begins()[0] + 1
    row = None if source.store is None else source.store.snapshot_before(seq)
    if row is not None:
        document: Any = decode_record(source.blob(row.document))
        manifest_seq, first = document["manifest_seq"], row.at + 1
    elif first > 1:
        cut = source.cut()
        if cut is not None:
            document = decode_record(source.blob(cut.document))
            manifest_seq = document["manifest_seq"]
    for record in _records_with(source, _MANIFEST, first, seq):
        if isinstance(record, Manifest) and record.seq < seq:
            manifest_seq = record.seq
    if not manifest_seq:
        raise Damage(f"no manifest came before record {seq} (aos verify)")
    return manifest_seq


def _records_with(source: Source, part: bytes, first: int, last: int) -> Iterator[Record]:
    """The records from ``first`` to ``last`` whose bytes contain ``part``."""
    if first > last:
        return
    for frame in source.frames(first, last):
        for data in frame.records:
            if part in data:
                yield from_bytes(data)


def find_intent(source: Source, digits: str) -> Hash:
    """The intent whose hash begins with these hex digits.

    Raises:
        BadUsage: There is none, or several.
    """
    if len(digits) == 64:
        return Hash(bytes.fromhex(digits))
    if source.store is None:
        hashes = {
            intent.intent
            for frame in source.frames(source.begins()[0] + 1, source.head().seq)
            for record in map(from_bytes, frame.records)
            if isinstance(record, Step)
            for intent in record.intents
        }
    else:
        hashes = {hash for hash, _ in source.store.intents()}
    matches = sorted(intent_hash for intent_hash in hashes if intent_hash.hex().startswith(digits))
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise BadUsage(f"no intent of this world begins with {digits}")
    raise BadUsage(f"{len(matches)} intents begin with {digits}: name more digits")
