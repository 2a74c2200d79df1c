"""The open intents of a world, over the layers of its cells (spec/state.md, SN-14, SN-16).

    loaded   those of cells that are in memory
    packed   those of packed cells: of each only its cell
    base     those of all other cells that only wait: the maps of the last snapshot

An intent leaves memory with its cell and comes back with it. So whether one is open is decided by
its cell: ``packed`` and ``base`` only say where to look. Nothing else depends on the layers.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Collection, ItemsView, Iterator, MutableMapping, ValuesView
from typing import TYPE_CHECKING, NamedTuple, TypeVar, overload

from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId
from aos.core.state.cell import Cell, Halt, OpenIntent, StreamState
from aos.core.state.cell_index import CellIndex
from aos.core.state.eras import KEPT_MAX, ManifestOf
from aos.core.state.timer_order import TimerOrder
from aos.core.state.work_item import Work, read_opened, timer_key
from aos.errors import Damage
from aos.manifest.effective import Effective
from aos.manifest.names import TIMER
from aos.values.digests import Hash

if TYPE_CHECKING:
    from aos.core.state.cells import Cells

T = TypeVar("T")


class _Opened(NamedTuple):
    """Where an intent is in the order of opening: by record, then by its number in it."""

    seq: int
    number: int
    intent: Hash
    cell: CellId | None = None
    """Its cell, if that is not in memory."""


class OpenIntents(MutableMapping[Hash, OpenIntent]):
    """Open intents by hash, in the order of opening: by record, then by index.

    Reading one loads its cell, unless it is read by an iteration. Nothing may be set or deleted
    during one. Raises Damage if a part of the snapshot cannot be read.
    """

    __slots__ = (
        "_cells", "_manifests", "_oldest", "_order", "_read", "attempts", "base", "counts", "halts",
        "loaded", "manifest_of", "packed", "streams", "timers",
    )  # fmt: skip

    def __init__(self, cells: Cells, read: BlobReader, manifest_of: ManifestOf) -> None:
        self._cells = cells
        self._read = read
        self._oldest: dict[str, Hash] = {}
        """For some effects, the intent that was the oldest one when it was looked for."""
        self.manifest_of = manifest_of
        self._manifests: OrderedDict[Hash, Effective] = OrderedDict()
        """Some manifests that were in force, decoded."""
        self.loaded: dict[Hash, OpenIntent] = {}
        self.packed: dict[Hash, CellId] = {}
        self.base: dict[str, CellIndex] = {}
        """For each effect, the intents of waiting cells in the last snapshot."""
        self.timers = CellIndex(None, 0, read)
        """The timers among them, by the time at which they are due."""
        self._order = TimerOrder()
        """All timers that are loaded or packed."""
        self.counts: Counter[str] = Counter()
        """For each effect, the number of its open intents."""
        self.attempts: dict[Hash, int] = {}
        """The last journaled attempt of each loaded or abandoned intent that has one."""
        self.halts: dict[Hash, Halt] = {}
        self.streams: dict[Hash, StreamState] = {}

    def read_with(self, read: BlobReader) -> None:
        """Read all blobs with ``read`` from now on."""
        self._read = read
        self.rebase(self.base, self.timers)

    def rebase(self, base: dict[str, CellIndex], timers: CellIndex) -> None:
        """Use the maps of another snapshot."""
        self.base = {
            effect: CellIndex(index.root, index.count, self._read) for effect, index in base.items()
        }
        self.timers = CellIndex(timers.root, timers.count, self._read)
        self._order.keep(self._is_above)

    def manifest(self, hash: Hash) -> Effective:
        """Return a manifest that was in force. Raises: Damage: It cannot be read."""
        effective = self._manifests.get(hash)
        if effective is None:
            effective = self.manifest_of(self._read(hash))
            self.keep(hash, effective)
        return effective

    def keep(self, hash: Hash, effective: Effective) -> None:
        """Keep a manifest decoded, until it is the oldest of too many."""
        self._manifests[hash] = effective
        if len(self._manifests) > KEPT_MAX:
            self._manifests.popitem(last=False)

    # One intent

    def __getitem__(self, intent: Hash) -> OpenIntent:
        open_intent = self.get(intent)
        if open_intent is None:
            raise KeyError(intent)
        return open_intent

    @overload
    def get(self, intent: Hash, default: None = None, /) -> OpenIntent | None: ...
    @overload
    def get(self, intent: Hash, default: OpenIntent, /) -> OpenIntent: ...
    @overload
    def get(self, intent: Hash, default: T, /) -> OpenIntent | T: ...
    def get(self, intent: Hash, default: object = None, /) -> object:
        open_intent = self.loaded.get(intent)
        if open_intent is None:
            id = self._cell_of(intent)
            if id is not None and self._cells.get(id) is not None:
                open_intent = self.loaded.get(intent)
        return default if open_intent is None else open_intent

    def __contains__(self, intent: object) -> bool:
        return intent in self.loaded or (
            isinstance(intent, bytes) and self.get(Hash(intent)) is not None
        )

    def __setitem__(self, intent: Hash, open_intent: OpenIntent) -> None:
        if intent not in self.loaded:
            self.counts[open_intent.effect.name] += 1
        self._add(open_intent)

    def __delitem__(self, intent: Hash) -> None:
        if intent not in self:
            raise KeyError(intent)
        ended = self.loaded.pop(intent)
        self.counts[ended.effect.name] -= 1
        self._order.remove(intent)

    def _add(self, open_intent: OpenIntent) -> None:
        self.loaded[open_intent.intent] = open_intent
        if open_intent.effect.name == TIMER:
            self._order.add(open_intent.intent)

    def _is_above(self, intent: Hash) -> bool:
        """Whether an intent is of a cell in a layer above the base."""
        return intent in self.loaded or intent in self.packed

    def last_attempt(self, intent: Hash) -> int | None:
        """The last journaled attempt of an intent; None if there is none. Loads nothing."""
        attempt = self.attempts.get(intent)
        if attempt is not None or intent in self.loaded or not (self.packed or self.base):
            return attempt
        work = self._peek(intent)
        return None if work is None else work[1]

    def _cell_of(self, intent: Hash) -> CellId | None:
        """The cell that an intent was of when its cell left memory last."""
        id = self.packed.get(intent)
        if id is None:
            for _, index in sorted(self.base.items()):
                entry = index.get(intent)
                if entry is not None:
                    return read_opened(entry)[0]
        return id

    def _peek(self, intent: Hash, id: CellId | None = None) -> tuple[OpenIntent, int | None] | None:
        open_intent = self.loaded.get(intent)
        if open_intent is not None:
            return open_intent, self.attempts.get(intent)
        id = id or self._cell_of(intent)
        work = [] if id is None else self._cells.work_at_rest(id)
        return next((opened for opened in work if opened[0].intent == intent), None)

    # All intents

    def __len__(self) -> int:
        return self.counts.total()

    def values(self) -> ValuesView[OpenIntent]:
        return _Values(self)

    def items(self) -> ItemsView[Hash, OpenIntent]:
        return _Items(self)

    def __iter__(self) -> Iterator[Hash]:
        for open_intent, _ in self.in_order():
            yield open_intent.intent

    def in_order(self, *, but: str | None = None) -> Iterator[tuple[OpenIntent, int | None]]:
        """All open intents in the order of opening, ``but`` those of one effect, each with its last
        journaled attempt. Decodes those that are not loaded one by one, and keeps none."""
        effects = [effect for effect in +self.counts if effect != but]
        for _, _, intent, id in sorted(self._opened(effects)):
            work = self._peek(intent, id)
            if work is None:
                raise Damage("an intent of the snapshot is open, and its cell does not wait for it")
            yield work

    def oldest(self, effect: str) -> OpenIntent | None:
        """The first of the open intents of an effect. Looks at all of them if the last answer is
        open no more."""
        last_answer = self._oldest.get(effect)
        oldest = None if last_answer is None else self._peek(last_answer)
        if oldest is None and self.counts[effect]:
            self._oldest[effect] = first = min(self._opened([effect])).intent
            oldest = self._peek(first)
        return None if oldest is None else oldest[0]

    def _opened(self, effects: Collection[str]) -> Iterator[_Opened]:
        for open_intent in self.loaded.values():
            if open_intent.effect.name in effects:
                yield _opened(open_intent)
        for id in dict.fromkeys(self.packed.values()):
            for open_intent, _ in self._cells.work_at_rest(id):
                if open_intent.effect.name in effects:
                    yield _opened(open_intent, id)
        for effect in effects:
            index = self.base.get(effect)
            for intent, entry in () if index is None else index.items():
                id, seq, number = read_opened(entry)
                if not self._cells.hides_base(id):
                    yield _Opened(seq, number, intent, id)

    def timers_after(self, after: Hash | None) -> Iterator[tuple[Hash, OpenIntent, int | None]]:
        """Yield the open timers whose key in ``timers`` is greater than ``after``, by that key,
        each with its last journaled attempt (SN-16). Loads nothing."""
        above = self._order.after(after, self._is_above, self._timer_key)
        for key, intent, id in heapq.merge(
            ((key, intent, None) for key, intent in above), self._base_timers(after)
        ):
            work = self._peek(intent, id)
            if work is None:
                raise Damage("a timer of the snapshot is set, and its cell does not wait for it")
            yield key, *work

    def _timer_key(self, timer: Hash) -> Hash:
        work = self._peek(timer)
        key = None if work is None else timer_key(work[0], self._read)
        assert key is not None, "a timer above the base is open, and has a key"
        return key

    def _base_timers(self, after: Hash | None) -> Iterator[tuple[Hash, Hash, CellId]]:
        opened = self.base.get(TIMER)
        for key, entry in self.timers.items(after):
            place = None if opened is None else opened.get(Hash(entry))
            if place is None:
                raise Damage("a timer of the snapshot is none of its open intents")
            id = read_opened(place)[0]
            if not self._cells.hides_base(id):
                yield key, Hash(entry), id

    def of(self, cell: Cell) -> list[OpenIntent]:
        """The open intents of a cell, in the order of opening. Loads nothing."""
        if all(intent in self.loaded for intent in cell.inflight):
            return [self.loaded[intent] for intent in cell.inflight]
        return [open_intent for open_intent, _ in self._cells.work_at_rest(cell.id)]

    # For the layers

    def load(self, cell: Cell, work: Work) -> None:
        """A cell comes into memory with its open work."""
        for open_intent, attempt in work:
            intent = open_intent.intent
            cell.inflight[intent] = None
            self._add(open_intent)
            if attempt is not None:
                self.attempts[intent] = attempt

    def unload(self, cell: Cell) -> Work:
        """The intents of a cell leave memory with it."""
        return [
            (self.loaded.pop(intent), self.attempts.pop(intent, None)) for intent in cell.inflight
        ]


class _Values(ValuesView[OpenIntent]):
    """The values of ``OpenIntents``, which an iteration does not load."""

    _mapping: OpenIntents

    def __iter__(self) -> Iterator[OpenIntent]:
        for open_intent, _ in self._mapping.in_order():
            yield open_intent


class _Items(ItemsView[Hash, OpenIntent]):
    """As ``_Values``, with their hashes."""

    _mapping: OpenIntents

    def __iter__(self) -> Iterator[tuple[Hash, OpenIntent]]:
        for open_intent, _ in self._mapping.in_order():
            yield open_intent.intent, open_intent


def _opened(open_intent: OpenIntent, id: CellId | None = None) -> _Opened:
    return _Opened(open_intent.seq, open_intent.index, open_intent.intent, id)
