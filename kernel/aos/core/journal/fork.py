"""The id and the signature of a fork: another world continues a journal (K-110 to K-116).

The earlier frames are the parent's, unchanged; the fork's own frames begin with the one whose first
record is the fork. The headers of frames name their own world.
"""

from __future__ import annotations

from aos.core.journal.identity import world_id
from aos.core.journal.inputs import fork_message
from aos.core.journal.records import Fork
from aos.core.journal.signing import is_signed
from aos.values.digests import Hash


def forked_world_id(record: Fork) -> Hash:
    """The id of the world that begins here."""
    return world_id(record.nonce, record.world_key)


def message_of(record: Fork) -> bytes:
    """The bytes that the key of the world that begins here signs."""
    return fork_message(
        parent=record.parent,
        at=record.at,
        frame=record.frame,
        nonce=record.nonce,
        world_key=record.world_key,
        operators=record.operators,
        open_work=record.open_work,
        erased=record.erased,
        cut=record.cut,
    )


def is_fork_signed(record: Fork) -> bool:
    """Whether the key of the world that begins here signed it."""
    return is_signed(message_of(record), record.signature, record.world_key)
