"""The help that the core needs from its host: runs of modules, verified signatures, blobs.

The core itself calls only ``Verify`` and ``BlobReader``, and ``Find`` of ``state.submissions``. A
decision that needs more returns a ``Call`` or a ``Keep``, and continues with what its host answers
(spec/core.md, CR-3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from aos.core.journal.faults import Fault
from aos.values.digests import Hash


class Call(NamedTuple):
    """One run of a module's entrypoint on a fresh instance. Limits are bytes and fuel units."""

    module: Hash
    entrypoint: str
    input: bytes
    fuel: int
    memory_bytes: int
    output_bytes: int


class Ran(NamedTuple):
    """How a run ended: ``output``, or ``fault``, never both.

    ``fuel`` is what was consumed, ``pages`` the peak of 64 KiB memory pages. ``engine_text`` is the
    engine's own wording of a fault, for people; it is never journaled.
    """

    output: bytes | None
    fault: Fault | None
    fuel: int
    pages: int
    engine_text: str | None = None


@dataclass(frozen=True, slots=True)
class Keep:
    """Blobs of a migration that its host must make durable before the migration continues."""

    blobs: Mapping[Hash, bytes]


class Runner(Protocol):
    """A deterministic function from a call to how it ended."""

    def run(self, call: Call) -> Ran: ...


class Verify(Protocol):
    """Whether ``signature`` is the key's over ``message``: ``signing.is_signed``, or a cache of
    its answers."""

    def __call__(self, message: bytes, signature: bytes, public_key: bytes, /) -> bool: ...


class BlobReader(Protocol):
    def __call__(self, hash: Hash, /) -> bytes:
        """Return the blob with this content hash.

        Raises:
            Damage: It is missing or altered.
        """
        ...
