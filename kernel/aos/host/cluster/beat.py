"""The beats of nodes, as values of a bucket (spec/cluster.md, CL-70 to CL-73). Pure.

    beat = canonical array ["aos/beat/1", world, node, instance, inbox, position, seq, frame,
        released, release, to, signature]

The key of the world signs the array without the signature. So a program that can only publish
cannot make a node believe that the log has lost its end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aos.core.journal.signing import SIGNATURE_BYTES
from aos.host.cluster.signed_value import SignedValue, value_in
from aos.store.log.logged_store import LogEnd
from aos.values.cbor import Value, is_nat
from aos.values.digests import HASH_BYTES, Hash

FORM: Final = "aos/beat/1"
INSTANCE_BYTES: Final = 16
NODE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The form of the name of a node: it is a part of a key of the bucket."""

INBOX_BYTES_MAX: Final = 256
RELEASE: Final = re.compile(r"[A-Za-z0-9.+-]{0,64}")
"""The form of the name of a release of AOS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat(SignedValue):
    """A sign of life of the process ``instance`` of a node. ``inbox`` is the subject at which it
    takes requests. Its store has the log to ``end``. ``released``: it has stopped owning the world,
    which another node may own now. ``release`` is that of its program. ``to`` is the node to which
    this owner hands over the world, or has; None for any node."""

    world: Hash
    node: str
    instance: bytes
    inbox: str
    end: LogEnd
    released: bool = False
    release: str = ""
    to: str | None = None

    def _fields(self) -> list[Value]:
        end = self.end
        return [
            FORM, self.world, self.node, self.instance, self.inbox, end.position, end.seq,
            end.frame, self.released, self.release, self.to,
        ]  # fmt: skip


def read_beat(data: bytes, world: Hash, world_key: bytes | None) -> Beat | None:
    """Read a beat of ``world``; None if the bytes are none, or its key has not signed them. Without
    ``world_key``, the signature is not checked."""
    beat = unchecked_beat(data, world)
    if beat is None or world_key is None or beat.is_of(world_key):
        return beat
    return None


def unchecked_beat(data: bytes, world: Hash) -> Beat | None:
    """Read a beat of ``world`` that any key may have signed; None if the bytes are none."""
    match value_in(data):
        case [
            str(form), bytes(of_world), str(node), bytes(instance), str(inbox), position, seq,
            bytes(frame), bool(released), str(release), str() | None as to, bytes(signature),
        ] if (
            (form, of_world) == (FORM, world)
            and NODE.fullmatch(node)
            and len(instance) == INSTANCE_BYTES
            and len(inbox.encode(errors="replace")) <= INBOX_BYTES_MAX
            and is_nat(position)
            and is_nat(seq)
            and len(frame) == HASH_BYTES
            and RELEASE.fullmatch(release)
            and (to is None or NODE.fullmatch(to))
            and len(signature) == SIGNATURE_BYTES
        ):  # fmt: skip
            return Beat(
                world=world,
                node=node,
                instance=instance,
                inbox=inbox,
                end=LogEnd(position=position, seq=seq, frame=Hash(frame)),
                released=released,
                release=release,
                to=to,
                signature=signature,
            )
    return None
