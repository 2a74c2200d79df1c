"""Refuse erasures for reasons that the core cannot know (spec/host.md, H-47e)."""

from __future__ import annotations

from aos.core.decide.answers import Refusal, Rule
from aos.store.store import Store
from aos.store.stored_world import snapshot_with
from aos.values.digests import Hash, hash_text


def unerasable(store: Store, value: Hash, *, is_there: bool) -> Refusal | None:
    """Refuse to erase a value that is absent or part of a snapshot that the world keeps.

    Erasing an absent value, perhaps a typing error, would look like success. Of the snapshots, the
    core knows only the newest.

    Raises:
        Damage: A snapshot cannot be read.
    """
    if not is_there:
        return Refusal(
            rule=Rule.VALUE_IS_UNKNOWN,
            message=f"value {hash_text(value)}: the world holds no such bytes (only values of "
            "more than 1,024 bytes lie outside their records)",
        )
    row = snapshot_with(store, value)
    if row is None:
        return None
    return Refusal(
        rule=Rule.VALUE_IS_IN_USE,
        message=f"value {hash_text(value)} is a part of the snapshot after record {row.at} "
        "(it can be erased once a newer one is kept instead: aos snapshot, aos gc)",
    )
