"""Which kernel wrote a journal, and which decides it again by default: the other one (spec/core.md,
CR-32)."""

from __future__ import annotations

from dataclasses import dataclass

from aos.core.journal.records import Start
from aos.errors import AosError
from aos.fastcore.core_kind import CoreKind, core_named
from aos.prove.verify.journal_source import records_of_kinds
from aos.read.lens.record_finding import last_start
from aos.store.bundle.reader import Bundle
from aos.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCores:
    """The kernel that decides a journal again, and the name of the one that wrote it."""

    core: CoreKind
    written_by: str

    def to_document(self) -> dict[str, object]:
        return {"core": self.core.value, "written_by": self.written_by}


def second_core(written_by: str) -> CoreKind:
    """The kernel for a second opinion on records that the kernel of this name wrote."""
    return CoreKind.PYTHON if written_by == CoreKind.FAST.value else CoreKind.FAST


def core_of_store(store: Store) -> str:
    """The kernel that the last ``start`` record of a store names: the reference if there is no such
    record, or if it cannot be read, which replay then reports as damage."""
    try:
        head = store.head()
        start = None if head is None else last_start(store, head.seq)
    except AosError:
        return core_named(())
    return core_named(() if start is None else start.host)


def core_of_bundle(bundle: Bundle) -> str:
    """As ``core_of_store``, for the journal in a bundle."""
    host: tuple[tuple[str, str], ...] = ()
    try:
        for start in records_of_kinds(bundle.frames(), Start):
            assert isinstance(start, Start)
            host = start.host
    except AosError:
        return core_named(())
    return core_named(host)
