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
        self, made: Step | Faulted, record: Step | Faulted, under: int
    ) -> tuple[FieldDifference, ...]:
        """Return how ``made`` differs from ``record``, which ran under the manifest of record
        ``under``; nothing if it does not.

        Raises:
            Erased: A value that the comparison needs was erased.
        """
        if _decide_alike(made, record):
            return ()
        if made.under is not None:
            # Both ran under an earlier manifest, so both have its schemas.
            expected: Step | Faulted = _without_kept(replace(record, under=under))
            return self._compared(_placed(made, expected), expected, self._manifests, {})
        form = self._candidate.recorded_as(self._recorded, record, under, made)
        expected = _without_kept(form.expected)
        found = self._compared(_placed(made, expected), expected, form.manifests, dict(form.blobs))
        return form.problems + found

    def _compared(
        self,
        made: Step | Faulted,
        expected: Step | Faulted,
        manifests: Manifests,
        blobs: dict[Hash, bytes],
    ) -> tuple[FieldDifference, ...]:
        def read(hash: Hash, /) -> bytes:
            found = blobs.get(hash)
            return self._overlay.read(hash) if found is None else found

        made = comparable(self._renamed(made, blobs), expected)
        if made == expected:
            return ()
        return differences(expected, made, Lens(manifests, read, most=ALL_BYTES))

    def _renamed(self, made: Step | Faulted, blobs: dict[Hash, bytes]) -> Step | Faulted:
        if not self.renames or isinstance(made, Faulted):
            return made

        def value(held: Slot | None) -> Slot | None:
            return None if held is None else self._renamed_slot(held, blobs)

        return replace(
            made,
            state=value(made.state),
            ann=value(made.ann),
            events=tuple(self._renamed_event(each, blobs) for each in made.events),
            intents=tuple(self._renamed_intent(each, blobs) for each in made.intents),
        )

    def _renamed_slot(self, held: Slot, blobs: dict[Hash, bytes]) -> Slot:
        return slot(self.renames.data(slot_bytes(held, self._overlay.read)), blobs)

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


def _decide_alike(made: Step | Faulted, record: Step | Faulted) -> bool:
    """Whether the two are equal as they are, which most are."""
    if isinstance(made, Faulted) or isinstance(record, Faulted):
        return (
            isinstance(made, Faulted)
            and isinstance(record, Faulted)
            and (made.fault == record.fault)
        )
    return (
        made.state == record.state
        and made.status == record.status
        and made.ann == record.ann
        and len(made.events) == len(record.events)
        and len(made.intents) == len(record.intents)
        and all(
            ours is theirs
            or (ours.schema, ours.value, ours.to, ours.overloaded, ours.unknown)
            == (theirs.schema, theirs.value, theirs.to, theirs.overloaded, theirs.unknown)
            for ours, theirs in zip(made.events, record.events, strict=True)
        )
        and all(
            (ours.effect, ours.params, ours.key, ours.issuer_ref)
            == (theirs.effect, theirs.params, theirs.key, theirs.issuer_ref)
            for ours, theirs in zip(made.intents, record.intents, strict=True)
        )
    )


def _placed(made: Step | Faulted, expected: Step | Faulted) -> Step | Faulted:
    """``made`` at the place of the recorded step."""
    made = replace(
        made,
        seq=expected.seq,
        entry=expected.entry,
        root=expected.root,
        depth=expected.depth,
        under=expected.under,
    )
    if isinstance(made, Step) and isinstance(expected, Step):
        made = replace(made, abandoned=expected.abandoned)
    return _without_kept(made)


def _without_kept(step: Step | Faulted) -> Step | Faulted:
    if isinstance(step, Faulted):
        return step
    return replace(step, events=tuple(replace(each, kept=()) for each in step.events))
