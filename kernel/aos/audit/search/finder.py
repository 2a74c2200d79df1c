"""Pages and numbers of cells from an index, in the place of reading every cell (spec/search.md,
SE-20)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from aos.audit.search.attributes import Attribute
from aos.audit.search.counting import CountedCells
from aos.audit.search.matching import Selector
from aos.core.journal.records import CellId


@dataclass(frozen=True, slots=True, kw_only=True)
class CellQuery:
    """The cells of ``workflow``, or of all workflows, that pass all ``conditions``, in the order of
    an attribute, cells without a value last; equal ones by workflow and key, or with ``by_text``
    by the text of the key. With ``after_position``, those that come after this place and cell."""

    workflow: str | None
    conditions: Sequence[Selector]
    order: Attribute | None = None
    is_descending: bool = False
    by_text: bool = False
    after_position: tuple[int, CellId] | None = None


@dataclass(frozen=True, slots=True)
class CellPage:
    """Cells in order; of all that pass the conditions, their number and the reasons that they wait
    for."""

    cells: Sequence[CellId]
    total: int
    reasons: Counter[str]


class CellFinder(Protocol):
    """An index of cells, exact at the state that it is used with."""

    def page(self, query: CellQuery, *, limit: int, offset: int) -> CellPage | None:
        """A page of cells; None if the query names something that is not indexed."""
        ...

    def count(self, query: CellQuery, by: Attribute | None, limit: int) -> CountedCells | None:
        """The number of all cells of the query, and by the values of an attribute at most ``limit``
        groups; None if one of them is not indexed."""
        ...
