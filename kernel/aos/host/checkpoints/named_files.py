"""Files that a user names: read with a limit, written whole or not at all (PF-29); and the keys in
such files, which belong to no world: of approvers and of witnesses (H-2, spec/proofs.md, PF-16).
"""

from __future__ import annotations

import os
from pathlib import Path

from nacl.signing import SigningKey

from aos.errors import BadUsage, Damage, Refused, excerpt
from aos.host.folder.folder import SEED_BYTES, key_file
from aos.host.stamps import Sources
from aos.prove.headerlog.signed_note import COSIGNATURE, NoteKey, is_name
from aos.store.part_file import FileTaken, write_file
from aos.store.plain_files import open_named


def read_named(file: Path, bytes_max: int) -> bytes:
    """The content of a file of at most ``bytes_max`` bytes.

    Raises:
        BadUsage: There is no such file, or it is no regular file.
        Damage: It is longer.
    """
    try:
        with os.fdopen(open_named(file), "rb") as open_file:
            data = open_file.read(bytes_max + 1)
    except OSError as problem:
        raise BadUsage(f"{file}: the file cannot be read: {problem.strerror}") from problem
    if len(data) > bytes_max:
        raise Damage(f"{file}: the file is too large: expected at most {bytes_max} bytes")
    return data


def write_named(file: Path, data: bytes) -> None:
    """Write a file durably, in place of one that has its name.

    Raises:
        Unavailable: It cannot be written. The old file is as it was.
    """
    write_file(file, data, mode=0o644, force=True)


def new_key(file: Path, sources: Sources | None = None) -> SigningKey:
    """Make a key in a new file, mode 0600.

    Raises:
        Refused: The file exists. It is as it was.
        Unavailable: It cannot be written.
    """
    key = SigningKey((sources or Sources()).random(SEED_BYTES))
    try:
        write_file(file, key_file(key))
    except FileTaken:
        raise Refused(f"{file}: the file exists, and a key is never replaced") from None
    return key


def witness_name(public_key: bytes) -> str:
    """The name of a witness that was given none."""
    return f"aos-witness/{public_key.hex()[:16]}"


def as_witness(public_key: bytes, name: str | None) -> NoteKey:
    """The verifier key of a witness.

    Raises:
        BadUsage: No witness may have this name.
    """
    key_name = witness_name(public_key) if name is None else name
    if not is_name(key_name):
        raise BadUsage(
            f"--name {excerpt(key_name)!r}: expected 1 to 255 bytes without blanks, control "
            "characters and '+', such as witness.example/w1"
        )
    return NoteKey(name=key_name, kind=COSIGNATURE, public=public_key)
