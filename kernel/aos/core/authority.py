"""(executors, key) -> whether it may sign (spec/kernel.md, K-14 and K-51).

Admission refuses what breaks these rules; verify looks for it in a journal that others wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from aos.manifest.effective import Executor
from aos.manifest.names import NODE

Executors: TypeAlias = Mapping[str, Executor] | None
"""As a manifest lists them; None where it has no list, and the world's own key signs for all."""


def may_sign(
    opened_under: Executors,
    in_force: Executors,
    *,
    executor: str,
    effect: str,
    key_id: bytes,
    world_key: bytes,
) -> bool:
    """Whether ``executor`` could sign for ``effect`` with this key when the intent was opened, and
    the key is not revoked by the manifest in force now."""
    if opened_under is None:
        could = executor == NODE and key_id == world_key
    else:
        named = opened_under.get(executor)
        could = named is not None and effect in named.effects and key_id == named.public_key
    return could and not any(key_id in each.revoked_keys for each in (in_force or {}).values())


def is_misnamed(executor: Executor, world_key: bytes) -> bool:
    """Whether the world's own key and the name ``node`` do not stand together."""
    return (executor.name == NODE) != (executor.public_key == world_key)
