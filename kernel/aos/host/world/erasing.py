"""What the host refuses to erase, which the core cannot know (spec/host.md, H-47e)."""

from __future__ import annotations

from aos.core.decide.answers import Refusal, Rule
from aos.store.snapshots import snapshot_with
from aos.store.store import Store
from aos.values.digests import Hash, hash_text


def unerasable(store: Store, value: Hash, *, is_there: bool) -> Refusal | None:
    """Nothing is erased that is not there: a slip of the hand would look like success. And no part
    of a snapshot that is kept, of which the core knows the newest only.

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
