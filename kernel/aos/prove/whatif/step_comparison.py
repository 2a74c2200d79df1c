"""Compare the recorded result of a step with that of other code (spec/audit.md, A-82, A-83;
spec/shadow.md, SH-30 to SH-33).

Rule 1: the decisions of a workflow are compared: state, events, effects, status, annotation, fault.
Fuel, pages and raw output never differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from aos.core.journal.ports import BlobReader, Runner
from aos.core.journal.records import Emitted, Faulted, Intent, Slot, Step, slot, slot_bytes
from aos.core.state.cell import EventMail, Mail, ReceiptMail
from aos.core.state.state import State
from aos.manifest.effective import Effective
from aos.prove.replay.difference import FieldDifference, differences
from aos.prove.whatif.candidate import CandidateManifest
from aos.read.lens.lens import Manifests
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import HASH_BYTES, Hash
from aos.values.errors import ValueProblem

CLASSES: Final = (
    "state", "events", "effects", "status", "annotation", "fault", "migration", "misfit",
)  # fmt: skip
"""The parts of a step that may differ. ``migration``: the candidate's migration of a recorded state
fails. ``misfit``: a recorded key, state or event does not fit the candidate's schema (A-89b)."""


_CLASS_OF: Final = {
    "state": "state",
    "abandoned": "state",
    "events": "events",
    "intents": "effects",
    "status": "status",
    "ann": "annotation",
    "fault": "fault",
    "kind": "fault",
    "migration": "migration",
    "misfit": "misfit",
}

DIFFERENCES_KEPT: Final = 100
"""How many differing steps or cells a report shows one by one; the others are only counted."""

_HASH_TEXT: Final = re.compile("blake3:[0-9a-f]{64}")
_HASH_TEXT_BYTES: Final = re.compile(b"blake3:[0-9a-f]{64}")
_HASH_HEAD: Final = b"\x58\x20"
"""The CBOR head of a byte string of 32 bytes."""


def decision_differences(
    recomputed: Step | Faulted,
    expected: Step | Faulted,
    *,
    manifests: Manifests,
    read: BlobReader,
    blobs: Mapping[Hash, bytes],
) -> tuple[FieldDifference, ...]:
    """Return how the decisions of ``recomputed`` differ from the expected ones; nothing if they do
    not. The other arguments are those of ``differences``."""
    recomputed = _comparable(recomputed, expected)
    if recomputed == expected:
        return ()
    return differences(expected, recomputed, manifests=manifests, read=read, blobs=blobs)


def _comparable(recomputed: Step | Faulted, record: Step | Faulted) -> Step | Faulted:
    """Return ``recomputed`` with the parts that are not compared taken from the record."""
    if isinstance(recomputed, Faulted):
        output = record.output if isinstance(record, Faulted) else recomputed.output
        return replace(recomputed, fuel=record.fuel, pages=record.pages, output=output)
    if isinstance(record, Faulted):
        return recomputed
    intents = tuple(
        _comparable_intent(intent, recorded_intent)
        for intent, recorded_intent in zip(recomputed.intents, record.intents, strict=False)
    )
    return replace(
        recomputed,
        fuel=record.fuel,
        pages=record.pages,
        output=record.output,
        fits=record.fits,
        intents=intents + recomputed.intents[len(intents) :],
    )


def _comparable_intent(intent: Intent, recorded: Intent) -> Intent:
    # An intent's hash covers every part of it that is compared.
    intent = replace(intent, intent=recorded.intent)
    # The definition of an effect (its executor, its retries) is no decision of the workflow.
    return (
        replace(intent, effect_hash=recorded.effect_hash)
        if intent.effect == recorded.effect
        else intent
    )


def classes_of(field_differences: Iterable[FieldDifference]) -> tuple[str, ...]:
    """Return the classes of the fields that differ, in the order of ``CLASSES``."""
    classes = {
        _CLASS_OF[difference.field.partition("[")[0].partition(".")[0]]
        for difference in field_differences
    }
    return tuple(class_name for class_name in CLASSES if class_name in classes)


def on_text(mail: Mail) -> str:
    """Name the mail that a step ran on, for people (A-87)."""
    if isinstance(mail, EventMail):
        return mail.schema
    if isinstance(mail, ReceiptMail):
        return f"receipt of {mail.intent.effect.name}: {mail.receipt.status}"
    return f"stream frame of {mail.intent.effect.name}: {mail.frame.frame_kind}"


class Renames:
    """The hashes of the shadow's intents, each with the recorded one that it is paired with, where
    the two differ (SH-31).

    The hash of an intent covers the definition of its workflow, so another version asks for the
    same effect under another hash. A state that keeps such a hash is not different for that.
    """

    def __init__(self) -> None:
        self._recorded_by_shadow: dict[bytes, Hash] = {}

    def add(self, shadow: Hash, recorded: Hash) -> None:
        if shadow != recorded:
            self._recorded_by_shadow[shadow] = recorded

    def __bool__(self) -> bool:
        return bool(self._recorded_by_shadow)

    def text(self, text: str) -> str:
        return _HASH_TEXT.sub(self._of_text, text)

    def data(self, encoded: bytes) -> bytes:
        """Return CBOR with the recorded hashes, in the canonical order that they give; bytes that
        are no canonical CBOR, with the hashes replaced where they are."""
        try:
            return encode(self._value(decode_record(encoded)))
        except ValueProblem:
            return self._bytes(encoded)

    def _of_text(self, match: re.Match[str]) -> str:
        hash = self._recorded_by_shadow.get(bytes.fromhex(match[0].removeprefix("blake3:")))
        return match[0] if hash is None else f"blake3:{hash.hex()}"

    def _value(self, value: Value) -> Value:
        match value:
            case str():
                return self.text(value)
            case bytes():
                return self._bytes(value)
            case list():
                return [self._value(element) for element in value]
            case dict():
                return {
                    self.text(key) if isinstance(key, str) else key: self._value(member)
                    for key, member in value.items()
                }
            case _:
                return value

    def _bytes(self, data: bytes) -> bytes:
        if len(data) == HASH_BYTES:
            return self._recorded_by_shadow.get(data, data)
        data = _HASH_TEXT_BYTES.sub(lambda match: self.text(match[0].decode()).encode(), data)
        at = data.find(_HASH_HEAD)
        while at >= 0:
            begin = at + len(_HASH_HEAD)
            hash = self._recorded_by_shadow.get(data[begin : begin + HASH_BYTES])
            if hash is not None:
                data = data[:begin] + hash + data[begin + HASH_BYTES :]
            at = data.find(_HASH_HEAD, at + 1)
        return data


class ShadowComparison:
    """Compares a step of a shadow with its recorded counterpart (SH-30 to SH-33). ``recorded`` is
    the state that the journal is folded into, of which only the manifests are read.

    Two steps are compared as those of a candidate are, with one addition: an intent of
    the shadow is the same as the recorded one that it is paired with. Records, entries and causes
    are not compared: they only say where in a journal a step is.
    """

    def __init__(
        self,
        proposed: Effective,
        recorded: State,
        manifests: Manifests,
        *,
        runner: Runner,
        read: BlobReader,
    ) -> None:
        self.renames = Renames()
        self._recorded = recorded
        self._manifests = manifests
        self._read = read
        self._candidate = CandidateManifest(proposed, runner, read, manifests)

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
            return self._compared(recomputed, replace(record, under=under), self._manifests, {})
        form = self._candidate.recorded_as(self._recorded, record, under, recomputed)
        return form.problems + self._compared(
            recomputed, form.expected, form.manifests, dict(form.blobs)
        )

    def _compared(
        self,
        recomputed: Step | Faulted,
        expected: Step | Faulted,
        manifests: Manifests,
        blobs: dict[Hash, bytes],
    ) -> tuple[FieldDifference, ...]:
        expected = _without_kept(expected)
        recomputed = self._renamed(_at_recorded_place(recomputed, expected), blobs)
        return decision_differences(
            recomputed, expected, manifests=manifests, read=self._read, blobs=blobs
        )

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
        return slot(self.renames.data(slot_bytes(original, self._read)), blobs)

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


def _at_recorded_place(recomputed: Step | Faulted, expected: Step | Faulted) -> Step | Faulted:
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
