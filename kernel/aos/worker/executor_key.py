"""The key of an executor that signs its own receipts (X-48)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nacl.signing import SigningKey

from aos.core.journal.merkle import node
from aos.core.journal.records import Batch
from aos.core.journal.statements import batch_message, receipt_leaf
from aos.errors import BadUsage
from aos.shell_text import shell_word
from aos.store.plain_files import open_named
from aos.values.digests import Hash

TOGETHER_MAX: Final = 16
"""Maximum number of receipts that share a signature. Each receipt journals its Merkle path, which
must be built and verified: beyond this number the longer paths cost more than signatures save."""

_SEED: Final = re.compile(r"[0-9a-fA-F]{64}")
_FILE_BYTES_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Signed:
    """The signature of one receipt: over ``message``, the receipt's own or that of its batch."""

    signature: bytes
    message: bytes
    batch: Batch | None = None


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs receipts and stream frames as the executor ``name``. ``public_key`` has 32 bytes."""

    name: str
    key: SigningKey

    @property
    def public_key(self) -> bytes:
        return bytes(self.key.verify_key)

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature of ``message``: 64 bytes, the same for the same message."""
        return self.key.sign(message).signature

    def sign_receipts(self, world: Hash, messages: Sequence[bytes]) -> list[Signed]:
        """Sign messages of ``receipt_message``, several with one signature (J-40); a single one is
        signed directly."""
        signed: list[Signed] = []
        for start in range(0, len(messages), TOGETHER_MAX):
            signed += self._sign_together(world, messages[start : start + TOGETHER_MAX])
        return signed

    def _sign_together(self, world: Hash, messages: Sequence[bytes]) -> list[Signed]:
        if len(messages) == 1:
            return [Signed(self.sign(messages[0]), messages[0])]
        root, paths = tree([receipt_leaf(message) for message in messages])
        size = len(paths)
        message = batch_message(
            world=world, executor=self.name, key_id=self.public_key, root=root, size=size
        )
        signature = self.sign(message)
        return [
            Signed(signature, message, Batch(index=index, size=size, path=path))
            for index, path in enumerate(paths)
        ]


def tree(leaves: Sequence[Hash]) -> tuple[Hash, list[tuple[Hash, ...]]]:
    """Return the root over ``leaves`` and the path of each leaf (J-20, J-23), in O(n log n).

    It is built level by level: neighbors are joined, and an odd last node moves up unchanged. The
    result equals the recursive definition, which splits at the largest power of two.
    """
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        above = [node(below[at], below[at + 1]) for at in range(0, len(below) - 1, 2)]
        levels.append(above + below[2 * len(above) :])
    return levels[-1][0], [_path(levels, index) for index in range(len(leaves))]


def _path(levels: Sequence[Sequence[Hash]], index: int) -> tuple[Hash, ...]:
    path = []
    for level in levels:
        beside = index ^ 1
        if beside < len(level):
            path.append(level[beside])
        index >>= 1
    return tuple(path)


def read_key(name: str, path: Path) -> Signer:
    """Read an Ed25519 seed: 64 hex digits in a file that only its owner may read.

    Raises:
        BadUsage: The file is missing, readable by others, or holds something else (not quoted).
    """
    subject = f"executors {name!r}: key_file {path}"
    try:
        with os.fdopen(open_named(path), "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(_FILE_BYTES_MAX).decode("ascii", "replace").strip()
    except OSError as error:
        raise BadUsage(f"{subject}: cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise BadUsage(
            f"{subject}: expected mode 0600, found {mode:04o}: others may read it (chmod 600 "
            f"{shell_word(path)})"
        )
    if not _SEED.fullmatch(text):
        raise BadUsage(f"{subject}: expected an Ed25519 seed of 64 hex digits")
    return Signer(name, SigningKey(bytes.fromhex(text)))
