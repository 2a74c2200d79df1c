"""Whether a signature is valid, and whether its key may sign (spec/kernel.md, K-14 and K-51).

Admission refuses inputs that break these rules; verify checks the journals of others for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

from aos.manifest.effective import Executor
from aos.manifest.governance import GovernanceBlock
from aos.manifest.names import NODE

Executors: TypeAlias = Mapping[str, Executor] | None
"""As a manifest lists them; None if it has no list: the world's own key signs for all."""


def may_sign(
    opened_under: Executors,
    revoked: AbstractSet[bytes],
    *,
    executor: str,
    effect: str,
    key_id: bytes,
    world_key: bytes,
) -> bool:
    """Whether ``executor`` could sign for ``effect`` with this key when the intent was opened, and
    no later manifest has revoked the key."""
    if opened_under is None:
        could = executor == NODE and key_id == world_key
    else:
        signer = opened_under.get(executor)
        # In a forked world the manifest names the parent's key for the node (K-114).
        key = world_key if executor == NODE else signer.public_key if signer is not None else b""
        could = signer is not None and effect in signer.effects and key_id == key
    return could and key_id not in revoked


def revoked_by(executors: Executors) -> frozenset[bytes]:
    """The keys that a manifest revokes: for good (K-106)."""
    return frozenset(
        key for executor in (executors or {}).values() for key in executor.revoked_keys
    )


def back_from_revocation(
    executors: Executors, revoked: AbstractSet[bytes]
) -> tuple[str, bytes] | None:
    """The executor and key, if a manifest lists a key, current or retired, that was revoked."""
    for executor in (executors or {}).values():
        for key in (executor.public_key, *sorted(executor.retired_keys)):
            if key in revoked:
                return executor.name, key
    return None


def is_misnamed(executor: Executor, world_key: bytes) -> bool:
    """Whether an executor has only one of the two: the world's own key and the name ``node``."""
    return (executor.name == NODE) != (executor.public_key == world_key)


def approver_with_used_key(
    governance: GovernanceBlock | None, revoked: AbstractSet[bytes], world_key: bytes
) -> tuple[str, str] | None:
    """The approver whose key has another owner, and that owner: the world, or an executor whose key
    an earlier manifest revoked (GV-1). ``meaning`` checks the executors of the same manifest."""
    for approver in () if governance is None else governance.approvers:
        if approver.public_key == world_key:
            return approver.name, "the world's own key"
        if approver.public_key in revoked:
            return approver.name, "a key that an earlier manifest revoked"
    return None


SIGNATURE_BYTES: Final = 64

PUBLIC_KEY_BYTES: Final = 32


def is_signed(message: bytes, signature: bytes, public_key: bytes) -> bool:
    """Whether ``signature`` is this key's over ``message``.

    Keys of small order and keys or signatures that are not in canonical form sign nothing.
    """
    if len(signature) != SIGNATURE_BYTES or len(public_key) != PUBLIC_KEY_BYTES:
        return False
    try:
        crypto_sign_open(signature + message, public_key)
    except (BadSignatureError, ValueError):
        return False
    return True
