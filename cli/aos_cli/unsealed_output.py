"""``--unseal``: show documents with the plaintexts of their sealed values (spec/cli.md, C-34a)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from aos_cli.options import option

if TYPE_CHECKING:
    from aos.read.views.record_view import Document

Unseal = Annotated[
    Path | None, option("KEYRING", "Show the plaintexts of sealed values that this keyring opens.")
]


def unsealed_with(path: Path | None, document: Document) -> Document:
    """The document with the sealed values opened that the keyring at ``path`` opens; the document
    itself without one.

    Raises:
        BadUsage: The keyring cannot be read.
    """
    if path is None:
        return document
    # Few documents are opened, and only they need the keys.
    from aos.sealing.keyring import Keyring  # noqa: PLC0415
    from aos.sealing.sealed_events import unsealed  # noqa: PLC0415

    unsealed_document: Document = unsealed(Keyring.read(path), document)
    return unsealed_document
