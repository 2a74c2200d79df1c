"""Compare a step of a shadow with its recorded counterpart (spec/shadow.md, SH-30 to SH-33).

Two steps are compared as ``replay --against`` compares them, with one addition: an intent of the
shadow is the same as the recorded one that it is paired with. Records, entries and causes are not
compared: they only say where in a journal a step is.
"""

from __future__ import annotations

from dataclasses import replace

from aos.audit.lens.lens import ALL_BYTES, Lens
from aos.audit.lens.manifests import Manifests
from aos.audit.replay.against import comparable
from aos.audit.replay.candidate_manifest import CandidateManifest
from aos.audit.replay.difference import FieldDifference, differences
from aos.audit.shadow.overlay import BlobOverlay
from aos.audit.shadow.renaming import Renames
from aos.core.journal.ports import Runner
from aos.core.journal.records import (
    Emitted,
    Faulted,
    Intent,
    Slot,
    Step,
    slot,
    slot_bytes,
)
from aos.core.state.state import State
from aos.manifest.effective import Effective
from aos.values.digests import Hash


class Comparing:
    """Compares steps. ``recorded`` is the state that the journal is folded into, of which only the
    manifests are read."""

    def __init__(
        self,
        proposed: Effective,
        recorded: State,
        manifests: Manifests,
        *,
        runner: Runner,
        overlay: BlobOverlay,
    ) -> None:
        self.renames = Renames()
        self._recorded = recorded
        self._manifests = manifests
        self._overlay = overlay
        self._candidate = CandidateManifest(proposed, runner, overlay.read, manifests)

    def differences(
        self, recomputed: Step | Faulted, record: Step | Faulted, under: int
    ) -> tuple[FieldDifference, ...]:
        """Return how ``recomputed`` differs from ``record``, which ran under the manifest of record
        ``under``; nothing if it does not.

        Raises:
            Erased: A value that the comparison needs was erased.
        """
        if _decide_alike(recomputed, record):
            return ()
        if recomputed.under is not None:
            # Both ran under an earlier manifest, so both have its schemas.
            expected: Step | Faulted = _without_kept(replace(record, under=under))
            return self._compared(_placed(recomputed, expected), expected, self._manifests, {})
        form = self._candidate.recorded_as(self._recorded, record, under, recomputed)
        expected = _without_kept(form.expected)
        field_differences = self._compared(
            _placed(recomputed, expected), expected, form.manifests, dict(form.blobs)
        )
        return form.problems + field_differences

    def _compared(
        self,
        recomputed: Step | Faulted,
        expected: Step | Faulted,
        manifests: Manifests,
        blobs: dict[Hash, bytes],
    ) -> tuple[FieldDifference, ...]:
        def read(hash: Hash, /) -> bytes:
            blob = blobs.get(hash)
            return self._overlay.read(hash) if blob is None else blob

        recomputed = comparable(self._renamed(recomputed, blobs), expected)
        if recomputed == expected:
            return ()
        return differences(expected, recomputed, Lens(manifests, read, value_bytes_max=ALL_BYTES))

    def _renamed(self, recomputed: Step | Faulted, blobs: dict[Hash, bytes]) -> Step | Faulted:
        if not self.renames or isinstance(recomputed, Faulted):
            return recomputed

        def value(original: Slot | None) -> Slot | None:
            return None if original is None else self._renamed_slot(original, blobs)

        return replace(
            recomputed,
            state=value(recomputed.state),
            ann=value(recomputed.ann),
            events=tuple(self._renamed_event(event, blobs) for event in recomputed.events),
            intents=tuple(self._renamed_intent(intent, blobs) for intent in recomputed.intents),
        )

    def _renamed_slot(self, original: Slot, blobs: dict[Hash, bytes]) -> Slot:
        return slot(self.renames.data(slot_bytes(original, self._overlay.read)), blobs)

    def _renamed_event(self, event: Emitted, blobs: dict[Hash, bytes]) -> Emitted:
        return replace(event, value=self._renamed_slot(event.value, blobs))

    def _renamed_intent(self, intent: Intent, blobs: dict[Hash, bytes]) -> Intent:
        key, ref = intent.key, intent.issuer_ref
        return replace(
            intent,
            params=self._renamed_slot(intent.params, blobs),
            key=self.renames.text(key) if isinstance(key, str) else key,
            issuer_ref=None if ref is None else self.renames.text(ref),
        )


def _decide_alike(recomputed: Step | Faulted, record: Step | Faulted) -> bool:
    """Whether the two are equal as they are, which most are."""
    if isinstance(recomputed, Faulted) or isinstance(record, Faulted):
        return (
            isinstance(recomputed, Faulted)
            and isinstance(record, Faulted)
            and (recomputed.fault == record.fault)
        )
    return (
        recomputed.state == record.state
        and recomputed.status == record.status
        and recomputed.ann == record.ann
        and len(recomputed.events) == len(record.events)
        and len(recomputed.intents) == len(record.intents)
        and all(
            event is twin
            or (event.schema, event.value, event.to, event.overloaded, event.unknown)
            == (twin.schema, twin.value, twin.to, twin.overloaded, twin.unknown)
            for event, twin in zip(recomputed.events, record.events, strict=True)
        )
        and all(
            (intent.effect, intent.params, intent.key, intent.issuer_ref)
            == (twin.effect, twin.params, twin.key, twin.issuer_ref)
            for intent, twin in zip(recomputed.intents, record.intents, strict=True)
        )
    )


def _placed(recomputed: Step | Faulted, expected: Step | Faulted) -> Step | Faulted:
    """``recomputed`` at the place of the recorded step."""
    recomputed = replace(
        recomputed,
        seq=expected.seq,
        entry=expected.entry,
        root=expected.root,
        depth=expected.depth,
        under=expected.under,
    )
    if isinstance(recomputed, Step) and isinstance(expected, Step):
        recomputed = replace(recomputed, abandoned=expected.abandoned)
    return _without_kept(recomputed)


def _without_kept(step: Step | Faulted) -> Step | Faulted:
    if isinstance(step, Faulted):
        return step
    return replace(step, events=tuple(replace(event, kept=()) for event in step.events))
