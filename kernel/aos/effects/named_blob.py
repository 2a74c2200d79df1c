"""The SHA-256 name of a blob in a result, and the document of the name (spec/agentos.md, AG-30)."""

from __future__ import annotations

from aos.values.sha256 import SHA256_PREFIX, true_name, true_sha256


def name_and_document(data: bytes) -> tuple[str, bytes] | None:
    """Return (name, document) of a blob. Both go out with a result: the name in it, the document
    among its blobs. None for the few blobs that have no true name."""
    digest = true_sha256(data)
    return (SHA256_PREFIX + digest.hex(), true_name(data).to_bytes()) if digest else None
