"""Find where to begin verifying a journal whose first records were pruned (spec/audit.md, A-27b,
A-27c).

The cut names the frame that the first kept frame follows; the snapshot of the world at that place
holds the result of the pruned records. A later record of the same chain names that snapshot, and
the signed head vouches for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aos.core.journal.frame import Tip
from aos.core.journal.identity import world_id
from aos.core.journal.ports import BlobReader
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Fork, Genesis
from aos.core.snapshot.load import load
from aos.core.state.state import State
from aos.errors import Damage, sentence
from aos.store.cut import Cut
from aos.store.store import Store
from aos.values.digests import Hash, hash_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The journal continues after ``tip``, with the world in the snapshot ``document``.

    ``genesis`` is the record that this world began with. ``erased`` maps each value that a pruned
    record erased to that record, as the store's rows report.
    """

    tip: Tip
    document: Hash
    genesis: Genesis | Fork
    erased: Mapping[Hash, int] = field(default_factory=dict)

    def state(self, read: BlobReader) -> State:
        """Load the state of the snapshot.

        Raises:
            Damage: The snapshot cannot be read, or is not of this place and world.
        """
        state = load(self.document, read)
        odd = [
            name
            for name, actual, expected in (
                ("its place in the chain", state.tip, self.tip),
                ("the world's key", state.world_key, self.genesis.world_key),
                ("the operators", state.operators, self.genesis.operators),
            )
            if actual != expected
        ]
        if odd:
            raise Damage(
                sentence(
                    f"the snapshot {hash_text(self.document)} is not the one that the journal "
                    f"continues from: {', '.join(odd)}",
                    expected=f"the world after record {self.tip.seq}",
                    actual=f"one after record {state.tip.seq}",
                )
            )
        return state


def beginning(store: Store, cut: Cut) -> Beginning:
    """Return where ``store`` begins after ``cut``.

    Raises:
        Damage: The genesis in it, or a row of an erased value, cannot be read.
    """
    genesis = as_genesis(cut.genesis)
    return Beginning(
        tip=cut.tip(world_id(genesis.nonce, genesis.world_key)),
        document=cut.document,
        genesis=genesis,
        erased={value: row.seq for value, row in store.erasures() if row.seq <= cut.seq},
    )


def as_genesis(data: bytes) -> Genesis | Fork:
    """Read the record that a world begins with.

    Raises:
        Damage: The bytes are not a genesis or a fork.
    """
    record = from_bytes(data)
    if isinstance(record, Genesis | Fork):
        return record
    raise Damage(
        sentence(
            "the record that the journal begins with does not name a world",
            expected=f"{Genesis.KIND} or {Fork.KIND}",
            actual=record.KIND,
        )
    )
