"""Sign an operator's commands (spec/host.md, H-59a, H-59b)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nacl.signing import SigningKey

from aos.core.journal.inputs import RESUMING, ControlInput
from aos.core.journal.records import CellId, Principal
from aos.errors import Refused
from aos.manifest.keys import key_text
from aos.values.digests import Hash


def sign_control(
    action: str,
    *,
    cell: CellId | None = None,
    intent: Hash | None = None,
    value: Hash | None = None,
    status: str | None = None,
    payload: bytes | None = None,
    reason: str | None = None,
    world: Hash,
    serial: int,
    operators: Iterable[Principal],
    key: SigningKey,
) -> ControlInput:
    """Sign a command in the name of the operator who owns this key. ``serial`` is the number of
    control records so far. A retry or skip restamps the mail of the instance (K-101b).

    Raises:
        Refused: It is not the key of an operator.
    """
    unsigned = ControlInput(
        action=action,
        principal=principal_of(key, operators, action="command"),
        serial=serial,
        signature=b"",
        cell=cell,
        intent=intent,
        value=value,
        status=status,
        payload=payload,
        why=reason,
        restamp=True if action in RESUMING else None,
    )
    return replace(unsigned, signature=key.sign(unsigned.message(world)).signature)


def principal_of(key: SigningKey, operators: Iterable[Principal], *, action: str) -> str:
    """The name of the operator who owns this key.

    Raises:
        Refused: No operator owns it. ``action`` completes the text: "this key may not …".
    """
    public = bytes(key.verify_key)
    principals = tuple(operators)
    for principal in principals:
        if principal.key == public:
            return principal.name
    raise Refused(
        f"this key may not {action} this world",
        expected=" or ".join(
            f"{principal.name}'s {key_text(principal.key)}" for principal in principals
        ),
        actual=key_text(public),
    )
