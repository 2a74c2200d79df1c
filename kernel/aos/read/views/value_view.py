"""The document of ``aos inspect value``: one value that is stored outside its records (A-68)."""

from __future__ import annotations

import re
from typing import Final

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Control
from aos.errors import BadUsage
from aos.read.lens.ports import first_kept
from aos.read.lens.references import references
from aos.read.views.record_view import Document, cell_document
from aos.read.views.view import View
from aos.values.digests import Hash, hash_text
from aos.values.sha256 import SHA256_PREFIX, parse_sha256

RECORDS_SHOWN: Final = 100

_HASH: Final = re.compile(r"(?:blake3:)?([0-9a-f]{64})")


def read_value_hash(word: str) -> Hash:
    """Return the content hash of a value, with or without ``blake3:``. A prefix is not accepted,
    because an erase command must name the whole hash.

    Raises:
        BadUsage: The word is not a content hash.
    """
    match = _HASH.fullmatch(word)
    if match is None:
        raise BadUsage(
            "not the hash of a value",
            location=repr(word),
            expected="blake3: and 64 lower-case hex digits",
            hint="aos inspect record SEQ names the values of a record",
        )
    return Hash(bytes.fromhex(match[1]))


def value_bytes(view: View, word: str) -> bytes:
    """Return the bytes of a value that is stored outside its records, or that another value names.

    Raises:
        BadUsage: The word is no hash, or this world has no such value.
        Erased: The value was erased.
        Damage: The bytes cannot be read, or do not have this hash.
    """
    value_hash = _content_hash(view, word)
    if not view.journal.has_blob(value_hash) and view.journal.erased(value_hash) is None:
        raise _unknown(value_hash)
    return view.journal.blob(value_hash)


def value(view: View, word: str) -> Document:
    """Return where a value is stored, its size, and the record that erased it (A-68).

    Raises:
        BadUsage: The word is no hash, or the world has never stored the value outside of a record.
    """
    value_hash = _content_hash(view, word)
    reference_rows, erased_by, size = _records_with(view, value_hash)
    row = view.journal.erased(value_hash)
    is_there = view.journal.has_blob(value_hash)
    if not reference_rows and not erased_by and not is_there:
        raise _unknown(value_hash)
    return {
        "value": hash_text(value_hash),
        "size": size if size is not None else row.size if row else None,
        "is_there": is_there,
        "erased_by": erased_by,
        "records": reference_rows[:RECORDS_SHOWN],
        "total": len(reference_rows),
    }


def _content_hash(view: View, word: str) -> Hash:
    """Return the content hash of the value that a word names: its content hash, or the SHA-256 name
    of a blob (AG-30).

    Raises:
        BadUsage: The word is neither, or no blob of this world has this SHA-256 name.
    """
    if not word.startswith(SHA256_PREFIX):
        return read_value_hash(word)
    name = parse_sha256(word)
    if name is None:
        raise BadUsage(
            "not the name of a blob",
            location=repr(word),
            expected="sha256: and 64 lower-case hex digits",
        )
    blob_hash = view.journal.hash_by_sha256(name)
    if blob_hash is None:
        raise BadUsage(
            "no blob of this world has this name",
            location=word,
            hint="only the blobs that modules of the AgentOS SDK use have SHA-256 names",
        )
    return blob_hash


def _unknown(value_hash: Hash) -> BadUsage:
    return BadUsage(
        "the world holds no such value",
        location=hash_text(value_hash),
        hint="only values of more than 1,024 bytes lie outside their records",
    )


def _records_with(view: View, value_hash: Hash) -> tuple[list[Document], list[int], int | None]:
    """Return the places that refer to a value, the records that erase it, and its size."""
    reference_rows: list[Document] = []
    erased_by: list[int] = []
    size = None
    for frame in view.journal.frames(first_kept(view.journal), view.state.next_seq - 1):
        for data in frame.records:
            # Searching for the bytes costs a fraction of decoding.
            record = from_bytes(data) if data.find(value_hash) >= 0 else None
            if record is None:
                continue
            if isinstance(record, Control) and record.value == value_hash:
                erased_by.append(record.seq)
            cell: CellId | None = getattr(record, "cell", None)
            for path, ref in references(record):
                if ref.hash != value_hash:
                    continue
                size = ref.size
                reference_rows.append(
                    {
                        "record": record.seq,
                        "kind": record.KIND,
                        "where": path,
                        "cell": None
                        if cell is None
                        else cell_document(cell, view.lens, seq=record.seq),
                    }
                )
    return reference_rows, erased_by, size
