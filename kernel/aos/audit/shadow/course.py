"""The state of a shadow in progress: two states, pairs, and open work (spec/shadow.md, SH-3).

The other parts of a shadow share one ``Course`` and change it through its methods.
"""

from __future__ import annotations

from collections import Counter, deque

from aos.audit.shadow.intent_pairs import IntentKey, IntentPairs
from aos.audit.shadow.mail_pairs import MailPairs
from aos.audit.shadow.overlay import BlobOverlay
from aos.audit.shadow.renaming import Renames
from aos.audit.shadow.shadow_state import ShadowState
from aos.audit.shadow.tally import ShadowTally
from aos.core.journal.records import (
    CellId,
    Control,
    Faulted,
    KernelReceipt,
    Receipt,
    Record,
    Step,
)
from aos.core.state.cell import OpenIntent
from aos.core.state.fold import fold
from aos.core.state.state import State
from aos.values.digests import Hash


class Course:
    """The recorded state is folded on, the shadow's is decided.

    Attributes:
        recorded: The state of the journal.
        state: The state of the shadow; ``writing`` changes it.
        unanswered: Intents of the shadow that may have no recorded answer to come.
        early_receipts: Recorded intents whose receipt came before the shadow asked.
        loose: Cells whose mail the journal may not run.
        touched: All cells that a record of either changed.
    """

    def __init__(
        self,
        recorded: State,
        writing: ShadowState,
        overlay: BlobOverlay,
        renames: Renames,
        to_come: Counter[IntentKey] | None,
    ) -> None:
        self.recorded = recorded
        self.writing = writing
        self.state = writing.state
        self.read = overlay.read
        self.tally = ShadowTally()
        open_before = [*self.state.intents.values(), *self.state.abandoned.values()]
        self.intents = IntentPairs(open_before, to_come)
        self.mail = MailPairs()
        self.unanswered: deque[Hash] = deque(self.state.intents)
        self.early_receipts: dict[Hash, Receipt] = {}
        self.loose: dict[CellId, None] = {}
        self.touched: dict[CellId, None] = {}
        self._renames = renames

    @property
    def at(self) -> int:
        """The record of the journal that the shadow has reached."""
        return self.recorded.next_seq - 1

    def fold(self, record: Record) -> None:
        """Fold a record of the journal."""
        fold(self.recorded, record, self.read)
        if isinstance(record, Step):
            for intent in record.intents:
                shadow = self.intents.opened_recorded(self.recorded.intents[intent.intent])
                if shadow is not None:
                    self._paired(shadow)
            if record.abandoned:
                self._ended(record.abandoned)
        elif isinstance(record, KernelReceipt):
            self._ended((record.intent, *record.abandoned))
        elif isinstance(record, Receipt | Control) and record.abandoned:
            self._ended(record.abandoned)

    def _paired(self, shadow: Hash) -> None:
        self._renames.add(shadow, self.intents.recorded[shadow])
        self.unanswered.append(shadow)

    def _ended(self, recorded: tuple[Hash, ...]) -> None:
        """Intents ended without a receipt of an executor. Those that the shadow still has open are
        alone now."""
        for intent in recorded:
            shadow = self.intents.shadow.get(intent)
            if shadow is not None:
                self.unanswered.append(shadow)

    def is_alone(self, shadow: Hash) -> bool:
        """Whether no recorded receipt can come for an open intent of the shadow."""
        recorded = self.intents.recorded.get(shadow)
        if recorded is None:
            return True
        is_open = recorded in self.recorded.intents
        return not is_open and recorded not in self.early_receipts

    def note_end(self, intent: OpenIntent) -> None:
        """An intent of the shadow was cancelled or abandoned: a recorded receipt that is still to
        come is for a live one (SH-20)."""
        if intent.intent not in self.intents.recorded:
            self.intents.settled_alone(intent)

    def append(self, record: Record) -> None:
        """Fold a record that was not decided here."""
        if isinstance(record, Step | Faulted):
            self.state.ring.remove(record.cell)
            self.state.ring.appendleft(record.cell)
        self.writing.append(record, {})
        self.note_record(record)

    def note_record(self, record: Record) -> None:
        """Note what a record of the shadow opened, ended and reached."""
        self.tally.shadow.take(record)
        if isinstance(record, Step):
            for intent_ref in record.intents:
                intent = self.state.intents[intent_ref.intent]
                if self.intents.opened_shadow(intent) is not None:
                    self._paired(intent.intent)
                else:
                    self.unanswered.append(intent.intent)
        for intent_ref in getattr(record, "abandoned", ()):
            abandoned = self.state.abandoned.get(intent_ref)
            if abandoned is not None:
                self.note_end(abandoned)
        for id in self.writing.touched:
            self.loose[id] = None
            self.touched[id] = None
        self.writing.touched.clear()
