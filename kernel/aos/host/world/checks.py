"""Checks of an input made just before the kernel's own (H-30, H-47d, H-47e, L-52).

The kernel decides from its state alone. These checks also read the store: for receipts of intents
that are settled already, modules whose bytes the world lacks, and values that a snapshot needs.
And they know the packages, of which the kernel knows nothing.
Everything runs on the core's thread, except ``durable``. An erasure is refused for reasons that the
core cannot know (``unerasable``; spec/host.md, H-47e).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aos.core.decide.answers import Answer, Duplicate, Refusal, Rule
from aos.core.journal.governing import GovernanceInput
from aos.core.journal.inputs import (
    ControlInput,
    EventInput,
    Input,
    ManifestInput,
    ReceiptInput,
    SnapshotInput,
)
from aos.core.journal.records import KernelReceipt
from aos.core.kernel_protocol import KernelProtocol
from aos.core.pending import Settled, receipt_digest
from aos.errors import Damage
from aos.host.package_checks import GUARDED, refused_command, refused_event
from aos.host.schedules import refused_manifest
from aos.host.world.collecting import Arrivals
from aos.host.world.deliveries import Deliveries, DeliveryInput, refused_sender
from aos.host.world.unit import Overlay
from aos.manifest.effective import Effective
from aos.manifest.judging import judge
from aos.manifest.schedules import SCHEDULE
from aos.store.store import Store
from aos.store.stored_world import snapshot_with
from aos.values.digests import Hash, hash_text


class Checks:
    """Answers inputs that the kernel need not, or cannot, decide."""

    def __init__(
        self,
        kernel: KernelProtocol,
        store: Store,
        overlay: Overlay,
        arrivals: Arrivals,
        deliveries: Deliveries,
    ) -> None:
        self._kernel = kernel
        self._store = store
        self._deliveries = deliveries
        self._overlay = overlay
        self._arrivals = arrivals
        self._settling: dict[Hash, tuple[int, ReceiptInput | KernelReceipt]] = {}
        self._erased_by = 0

    def answer(self, input: Input, blobs: Mapping[Hash, bytes]) -> Answer | None:
        """The answer to an input that the kernel must not see; None for all others."""
        if isinstance(input, EventInput):
            return self._answered_event(input)
        if isinstance(input, ManifestInput):
            return self._refused_manifest(input, blobs)
        if isinstance(input, GovernanceInput):
            return self._lacks_proposed(input, blobs)
        if isinstance(input, ControlInput):
            kernel = self._kernel
            return self._unerasable(input) or refused_command(
                kernel.manifest, input, kernel.cell, self._overlay.read
            )
        if isinstance(input, SnapshotInput):
            return self._lacks_part(input)
        return None

    def _answered_event(self, event: EventInput) -> Answer | None:
        manifest = self._kernel.manifest
        answer: Answer | None
        if isinstance(event, DeliveryInput):
            answer = self._deliveries.earlier(event, manifest)
        else:
            answer = refused_sender(event)
        if answer is None and event.schema in GUARDED:
            return refused_event(manifest, event)
        return answer

    def settling(self, receipt: ReceiptInput | KernelReceipt, seq: int) -> None:
        """Record ``seq`` settles an intent. The store knows of it only once it is durable."""
        self._settling[receipt.intent] = (seq, receipt)

    def erased(self, by: int) -> None:
        """Record ``by`` erases a value."""
        self._erased_by = by

    def durable(self, settled: Iterable[Settled]) -> None:
        """The store knows these from now on. Called on the committer's thread."""
        for settled_intent in settled:
            self._settling.pop(settled_intent.intent, None)

    def settled_already(self, receipt: ReceiptInput) -> Duplicate | Refusal | None:
        """Compare a receipt whose intent the kernel does not have with the one that settled it
        (H-30). None if there is none."""
        if (settling := self._settling.get(receipt.intent)) is not None:
            seq, settled = settling
            is_same = receipt_digest(settled) == receipt_digest(receipt)
        else:
            row = self._store.intent(receipt.intent)
            if row is None or row.settled_seq is None:
                return None
            seq = row.settled_seq
            is_same = row.receipt_digest == receipt_digest(receipt)
        if is_same:
            return Duplicate(seq=seq)
        message = (
            f"intent {hash_text(receipt.intent)}: record {seq} settled it with another receipt"
        )
        return Refusal(rule=Rule.RECEIPT_INTENT_IS_SETTLED, message=message)

    def _refused_manifest(
        self, manifest_input: ManifestInput, blobs: Mapping[Hash, bytes]
    ) -> Refusal | None:
        try:
            new = judge(manifest_input.document)
        except Damage:
            return None  # the kernel's refusal says what is wrong with the document
        return self._lacks_module(new, blobs, Rule.MANIFEST_IS_INVALID) or refused_manifest(
            self._kernel.cells_of(SCHEDULE), new, self._overlay.read
        )

    def _lacks_proposed(
        self, governance_input: GovernanceInput, blobs: Mapping[Hash, bytes]
    ) -> Refusal | None:
        """Refuse a proposal whose modules are missing, so that an approved one can be applied."""
        if governance_input.document is None:
            return None
        try:
            new = judge(governance_input.document)
        except Damage:
            return None  # the kernel's refusal says what is wrong with the document
        return self._lacks_module(new, blobs, Rule.PROPOSAL_IS_INVALID)

    def _lacks_module(
        self, new: Effective, blobs: Mapping[Hash, bytes], rule: Rule
    ) -> Refusal | None:
        """Refuse a manifest with a module whose bytes are missing: its first step would stop the
        world (H-72)."""
        for module in new.modules.values():
            if module.hash not in blobs and not self._arrivals.is_needed(module.hash, self._has):
                return Refusal(
                    rule=rule,
                    message=f"module {module.name}: its bytes ({hash_text(module.hash)}) were not "
                    "given and the world does not hold them",
                )
        return None

    def _has(self, value: Hash) -> bool:
        """Whether the core can read a value, durable or not."""
        if self._overlay.has(value):
            return True
        return not self._overlay.is_erased(value) and self._store.has_blob(value)

    def _lacks_part(self, snapshot: SnapshotInput) -> Refusal | None:
        """Refuse a snapshot that is older than the last erasure: its parts may be gone (H-47d)."""
        if snapshot.at >= self._erased_by:
            return None
        return Refusal(
            rule=Rule.SNAPSHOT_IS_OLD,
            message=f"the snapshot after record {snapshot.at} may lack what record "
            f"{self._erased_by} erased meanwhile (make it again)",
        )

    def _unerasable(self, control: ControlInput) -> Refusal | None:
        """Refuse to erase a value that is absent or part of a snapshot (H-47e)."""
        value = control.value
        if value is None:
            return None
        return unerasable(self._store, value, is_there=self._has(value))


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
