"""Pair the intents of a shadow with recorded ones (spec/shadow.md, SH-20).

Two intents are a pair if the cell, the effect, the params and the requested key are the same: the
first that the shadow opened with the first that the journal recorded, and so on. Either may come
first.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from itertools import islice
from typing import Final, TypeAlias

from aos.audit.lens.manifests import IS_MANIFEST
from aos.core.journal.frame import Frame
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Manifest, Step, slot_hash
from aos.core.state.cell import OpenIntent
from aos.values.cbor import encode
from aos.values.digests import Hash

_IS_STEP: Final = encode("kind") + encode(Step.KIND)

IntentKey: TypeAlias = tuple[CellId, str, Hash, str | bytes | None]
"""(cell, effect, hash of the params, requested key)."""


def recorded_keys(frames: Iterable[Frame], first: int, last: int) -> Counter[IntentKey]:
    """Count the intents that records after ``first`` open, up to ``last`` or the next manifest.

    Raises:
        Damage: A record cannot be read.
    """
    keys: Counter[IntentKey] = Counter()
    for frame in frames:
        for data in frame.records:
            record = from_bytes(data) if _IS_STEP in data or IS_MANIFEST in data else None
            if isinstance(record, Manifest) and record.seq > first:
                return keys
            if isinstance(record, Step) and first < record.seq <= last:
                keys.update(
                    (record.cell, intent.effect, slot_hash(intent.params), intent.key)
                    for intent in record.intents
                )
    return keys


class IntentPairs:
    """``recorded`` is the recorded intent of each of the shadow's, ``shadow`` the reverse."""

    def __init__(
        self, open_before: Iterable[OpenIntent], to_come: Counter[IntentKey] | None = None
    ) -> None:
        """``to_come`` are the intents that the journal opens later, if they are known."""
        self._to_come = Counter() if to_come is None else to_come
        self.recorded: dict[Hash, Hash] = {}
        self.shadow: dict[Hash, Hash] = {}
        self._recorded_alone: dict[IntentKey, deque[Hash]] = {}
        self._shadow_alone: dict[IntentKey, deque[Hash]] = {}
        for intent in open_before:
            self._pair(intent.intent, intent.intent)

    def opened_recorded(self, intent: OpenIntent) -> Hash | None:
        """Note an intent of the journal; return the shadow's that was waiting for it."""
        key = _key(intent)
        self._to_come[key] -= 1
        shadow = _first(self._shadow_alone, key)
        if shadow is None:
            self._recorded_alone.setdefault(key, deque()).append(intent.intent)
        else:
            self._pair(shadow, intent.intent)
        return shadow

    def opened_shadow(self, intent: OpenIntent) -> Hash | None:
        """Note an intent of the shadow; return the recorded one that was waiting for it."""
        key = _key(intent)
        recorded = _first(self._recorded_alone, key)
        if recorded is None:
            self._shadow_alone.setdefault(key, deque()).append(intent.intent)
        else:
            self._pair(intent.intent, recorded)
        return recorded

    def is_to_come(self, intent: OpenIntent) -> bool:
        """Whether the journal opens the counterpart of an intent of the shadow later."""
        key = _key(intent)
        alone = self._shadow_alone.get(key)
        return alone is not None and intent.intent in islice(alone, max(0, self._to_come[key]))

    def settled_alone(self, intent: OpenIntent) -> None:
        """Let no recorded intent be paired with this one any more: it got another answer."""
        key = _key(intent)
        alone = self._shadow_alone.get(key)
        if alone is not None and intent.intent in alone:
            alone.remove(intent.intent)
            if not alone:
                del self._shadow_alone[key]

    def forget(self, shadow: Hash) -> None:
        """Both intents of a pair are settled."""
        self.shadow.pop(self.recorded.pop(shadow), None)

    def _pair(self, shadow: Hash, recorded: Hash) -> None:
        self.recorded[shadow] = recorded
        self.shadow[recorded] = shadow


def _key(intent: OpenIntent) -> IntentKey:
    return intent.cell, intent.effect.name, intent.params_hash, intent.key


def _first(alone: dict[IntentKey, deque[Hash]], key: IntentKey) -> Hash | None:
    waiting = alone.get(key)
    if waiting is None:
        return None
    intent = waiting.popleft()
    if not waiting:
        del alone[key]
    return intent
