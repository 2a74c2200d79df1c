"""The key of an executor that signs its own receipts (X-48)."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nacl.signing import SigningKey

from aos.core.inputs import receipt_message
from aos.errors import BadUsage
from aos.values.digests import Hash, content_hash

_SEED: Final = re.compile(r"[0-9a-fA-F]{64}")
_FILE_BYTES_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs as ``name``."""

    name: str
    key: SigningKey

    @property
    def public_key(self) -> bytes:
        return bytes(self.key.verify_key)

    def sign(
        self,
        *,
        world: Hash,
        intent: Hash,
        effect: str,
        attempt: int,
        status: str,
        payload: bytes,
        started_ns: int,
        finished_ns: int,
        cost_cents: int | None,
    ) -> bytes:
        message = receipt_message(
            world=world,
            intent=intent,
            effect=effect,
            executor=self.name,
            key_id=self.public_key,
            attempt=attempt,
            status=status,
            payload=content_hash(payload),
            started_ns=started_ns,
            finished_ns=finished_ns,
            cost_cents=cost_cents,
        )
        return self.key.sign(message).signature


def read_key(name: str, path: Path) -> Signer:
    """Read an Ed25519 seed: 64 hex digits in a file that only its owner may read.

    Raises:
        BadUsage: The file is missing, open to others, or holds something else (which is not shown).
    """
    where = f"executors {name!r}: key_file {path}"
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(path.stat().st_mode)
            text = file.read(_FILE_BYTES_MAX).decode("ascii", "replace").strip()
    except OSError as error:
        raise BadUsage(f"{where}: cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise BadUsage(
            f"{where}: expected mode 0600, found {mode:04o}: others may read it (chmod 600 {path})"
        )
    if not _SEED.fullmatch(text):
        raise BadUsage(f"{where}: expected an Ed25519 seed of 64 hex digits")
    return Signer(name, SigningKey(bytes.fromhex(text)))
