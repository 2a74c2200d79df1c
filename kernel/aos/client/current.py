"""The durable state of a world and its instances now, kept current from its journal while another
process runs it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from aos.errors import BadUsage, Damage, Erased, Unavailable, excerpt, sentence
from aos.host.folder.reader import WorldReader, open_reader
from aos.host.stamps import now_ns
from aos.read.lens.lookup import find_cell
from aos.read.views import cell_view
from aos.read.views.record_view import Document
from aos.read.views.view import View

POLL_S: Final = 0.02
"""Seconds between two looks at the end of the journal."""

T = TypeVar("T")

_ENDED_STATUSES = ("completed", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An instance of a workflow, as a service sees it after record ``seq`` of the world.

    ``status`` is that of ``aos inspect cell`` (spec/guides/statuses.md). ``key`` and ``state`` are
    JSON values, decoded by the schemas of the workflow: the forms that ``send`` takes. ``state`` is
    None before the first step. ``queued`` counts the events and receipts that the instance has not
    handled yet. ``fault`` is the message of the fault that stopped it. ``reasons`` say why it does
    not advance, one sentence each.
    """

    workflow: str
    key: object
    status: str
    state: Any
    queued: int
    fault: str | None
    reasons: tuple[str, ...]
    seq: int

    @property
    def has_ended(self) -> bool:
        """Whether it is completed or failed, and no event waits for it. A fault ends it in any
        case, because events wait behind a fault."""
        return self.status in _ENDED_STATUSES and (self.fault is not None or not self.queued)

    @classmethod
    def of(cls, document: Document, *, seq: int) -> Self:
        """Read the document of ``aos inspect cell``, made after record ``seq``."""
        fault = document["fault"]
        reasons: list[Mapping[str, str]] = document["reasons"]
        return cls(
            workflow=document["workflow"],
            key=document["key"],
            status=document["status"],
            state=document["state"],
            queued=document["mailbox"] + document["mail_uncounted"],
            fault=None if fault is None else f"{fault['kind']}: {fault['message']}",
            reasons=tuple(reason["text"] for reason in reasons),
            seq=seq,
        )


Ended = Callable[[Instance], bool]


class WaitTimedOut(Unavailable):
    """The instance did not get there in time. ``instance`` is its last view; None if there is no
    such instance."""

    def __init__(self, message: str, instance: Instance | None) -> None:
        super().__init__(message)
        self.instance = instance


class CurrentState:
    """Reads a world at its durable end. It takes no lock and needs no process that runs the world.

    It folds the records that became durable since the last look.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reader: WorldReader | None = None
        self._view: View | None = None

    def seq(self) -> int:
        """Return the last durable record."""
        head = self._open_reader().store.head()
        assert head is not None, "a world has a genesis"
        return head.seq

    def instance(self, workflow: str, key: object) -> Instance | None:
        """Return an instance; see ``WorldClient.instance``."""
        return self._read(lambda view: _read_instance(view, workflow, key))

    def wait(self, workflow: str, key: object, until: Ended, timeout_s: float) -> Instance:
        """Wait for an instance; see ``WorldClient.wait``."""
        deadline = time.monotonic() + timeout_s
        while True:
            seen_seq = self.seq()
            instance = self.instance(workflow, key)
            if instance is not None and until(instance):
                return instance
            while True:
                if time.monotonic() >= deadline:
                    raise WaitTimedOut(too_late(workflow, key, instance, timeout_s), instance)
                time.sleep(POLL_S)
                if self.seq() > seen_seq:
                    break

    def _read(self, take: Callable[[View], T]) -> T:
        try:
            return take(self._refreshed())
        except Erased:
            raise
        except Damage:
            # The snapshot that this reader began at may have been removed meanwhile: begin again at
            # the newest. If it was damage, it is found again.
            self.close()
            return take(self._refreshed())

    def _refreshed(self) -> View:
        reader = self._open_reader()
        serial = reader.state.serial
        reader.refresh()
        if self._view is None or reader.state.serial != serial:
            self._view = View(reader.state, reader.store)
        self._view.now_ns = now_ns()
        return self._view

    def _open_reader(self) -> WorldReader:
        if self._reader is None:
            self._reader = open_reader(self._path)
        return self._reader

    def close(self) -> None:
        """Close the store. The next look opens it again."""
        reader, self._reader, self._view = self._reader, None, None
        if reader is not None:
            reader.close()


def reached(
    until: str | Collection[str] | Callable[[Instance], bool] | None,
) -> Callable[[Instance], bool]:
    """The condition of a wait: a status, several, a function; by default that it has ended."""
    if until is None:
        return lambda instance: instance.has_ended
    if callable(until):
        return until
    statuses = (until,) if isinstance(until, str) else tuple(until)
    return lambda instance: instance.status in statuses


def key_words(key: object) -> str | None:
    """Return a key as ``aos inspect cell`` takes it; None for None.

    Raises:
        BadUsage: It is no JSON value.
    """
    if key is None:
        return None
    try:
        return json.dumps(key, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as problem:
        raise BadUsage("key", expected="a JSON value", actual=excerpt(repr(key))) from problem


def _read_instance(view: View, workflow: str, key: object) -> Instance | None:
    words = key_words(key)
    id = find_cell(view.state, workflow, words)
    if view.state.cells.get(id) is None:
        return None
    return Instance.of(cell_view.cell(view, workflow, words), seq=view.state.next_seq - 1)


def too_late(workflow: str, key: object, instance: Instance | None, timeout_s: float) -> str:
    """The message of ``WaitTimedOut``."""
    cell_text = workflow if key is None else f"{workflow} {key}"
    if instance is None:
        return sentence(
            f"no such instance after {timeout_s:g} s",
            location=cell_text,
            hint="no event has reached it, or its module deleted it",
        )
    return sentence(
        f"still {instance.status} after {timeout_s:g} s",
        location=cell_text,
        hint="; ".join(instance.reasons),
    )
