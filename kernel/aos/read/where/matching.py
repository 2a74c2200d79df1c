"""Decide which cells a condition selects, and in which order, from their states or with an index
(spec/search.md, SE-5 to SE-8, SE-20)."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from aos.core.journal.records import CellId
from aos.core.state.cell import Cell
from aos.read.where.attributes import Attribute, Comparable, Names, Subject
from aos.read.where.condition import (
    AND,
    EQUAL,
    IN,
    NOT_EQUAL,
    OR,
    ORDERED,
    PREFIX,
    ParsedWhere,
    Term,
    WhereInvalid,
    WherePart,
    parse,
)
from aos.read.where.counting import CountedCells

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """One term. ``is_null``: it asks for cells without a value (``= null``), or with one."""

    attribute: Attribute
    operator: str
    values: tuple[Comparable, ...]
    is_null: bool = False

    def has(self, subject: Subject) -> bool:
        """Whether a cell passes."""
        leaves = self.attribute.leaves(subject)
        if self.is_null:
            return (next(leaves, None) is None) == (self.operator == EQUAL)
        values = self.attribute.comparable(subject)
        if self.operator == NOT_EQUAL:
            return all(self.passes(value) for value in values if value is not None)
        return any(self.passes(value) for value in values if value is not None)

    def passes(self, value: Comparable) -> bool:
        """Whether one value passes, which ``is_null`` asks nothing of."""
        if self.operator == NOT_EQUAL:
            return not _is_equal(value, self.values[0])
        if self.operator in (EQUAL, IN):
            return any(_is_equal(value, literal) for literal in self.values)
        bound = self.values[0]
        if type(value) is not type(bound):
            return False
        if self.operator == PREFIX:
            return isinstance(value, str) and value.startswith(bound)
        return _COMPARE[self.operator](value, bound)


@dataclass(frozen=True, slots=True)
class CombinedCondition:
    """Conditions of which all (``and``), any (``or``) or none (``not``) must hold."""

    word: str
    parts: tuple[Condition | CombinedCondition, ...]

    def has(self, subject: Subject) -> bool:
        """Whether a cell passes."""
        results = (part.has(subject) for part in self.parts)
        if self.word == AND:
            return all(results)
        return any(results) == (self.word == OR)


Selector: TypeAlias = Condition | CombinedCondition


def single(selectors: Iterable[Selector]) -> Iterator[Condition]:
    """Yield each condition, also those inside of others."""
    for selector in selectors:
        if isinstance(selector, CombinedCondition):
            yield from single(selector.parts)
        else:
            yield selector


def _is_equal(first: Comparable, second: Comparable) -> bool:
    return type(first) is type(second) and bool(first == second)  # True is not 1


class Search:
    """A condition for the cells that ``names`` knows; ``extra_terms`` are further terms.

    ``conditions`` are its parts, of which all must hold. ``order`` is the attribute of its order,
    None without one.

    Raises:
        WhereInvalid: The text is no condition, or does not fit the names.
    """

    def __init__(self, text: str | None, names: Names, extra_terms: Sequence[Term] = ()) -> None:
        parsed = ParsedWhere(()) if text is None else parse(text)
        self.conditions = tuple(_selector(part, names) for part in (*parsed.terms, *extra_terms))
        self.order = None if parsed.order is None else names.attribute(parsed.order)
        if parsed.order is not None and self.order is not None and not self.order.kind.is_ordered:
            raise WhereInvalid(f"{parsed.order.word} has no order", parsed.order.column)
        self.is_descending = parsed.is_descending
        self._order_name = parsed.order

    def must_have_no_order(self) -> None:
        """Raise WhereInvalid for an order."""
        if self._order_name is not None:
            raise WhereInvalid("a count has no order: leave out order by", self._order_name.column)

    @property
    def is_ordered(self) -> bool:
        """Whether it has an order of its own."""
        return self.order is not None

    def has(self, subject: Subject) -> bool:
        """Whether a cell passes every term."""
        return all(condition.has(subject) for condition in self.conditions)

    def rank_of(self, subject: Subject) -> Rank:
        """The place of a cell in its order; equal without one."""
        if self.order is None:
            return NO_RANK
        values = [
            candidate for candidate in self.order.comparable(subject) if candidate is not None
        ]
        if not values:
            return NO_RANK
        best = max if self.is_descending else min
        value = best(values, key=lambda candidate: (type(candidate).__name__, candidate))
        return Rank(value, is_descending=self.is_descending)


@dataclass(frozen=True, slots=True, eq=False)
class Rank:
    """Where a cell is in an order. A cell without a value comes last."""

    value: Comparable | None
    is_descending: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rank) and _is_equal(self.value, other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Rank) -> bool:
        if self.value is None or other.value is None:
            return other.value is None and self.value is not None
        first, second = self.value, other.value
        if type(first) is not type(second):
            first, second = type(first).__name__, type(second).__name__
        return bool(second < first) if self.is_descending else bool(first < second)


NO_RANK: Final = Rank(None, is_descending=False)


def _selector(part: WherePart, names: Names) -> Selector:
    if isinstance(part, Term):
        return _condition(part, names)
    return CombinedCondition(part.word, tuple(_selector(inner, names) for inner in part.parts))


def _condition(term: Term, names: Names) -> Condition:
    attribute = names.attribute(term.name)
    kind = attribute.kind
    [*literals] = term.literals
    if any(literal.is_word and literal.word == "null" for literal in literals):
        if term.operator not in (EQUAL, NOT_EQUAL):
            raise WhereInvalid("null: expected = or != before it", literals[0].column)
        return Condition(attribute, term.operator, (), is_null=True)
    if (term.operator in ORDERED and not kind.is_ordered) or (
        term.operator == PREFIX and not kind.is_text
    ):
        raise WhereInvalid(
            f"{term.name.word} is a {kind.name}: it has no {term.operator}", term.name.column
        )
    if term.operator == PREFIX:
        return Condition(attribute, PREFIX, (literals[0].word,))
    return Condition(attribute, term.operator, tuple(kind.read(literal) for literal in literals))


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
    """An index of cells, exact at the state that it is used with. It gives pages and numbers of
    cells, in the place of reading every cell (SE-20)."""

    def page(self, query: CellQuery, *, limit: int, offset: int) -> CellPage | None:
        """A page of cells; None if the query names something that is not indexed."""

    def at_rest(self, ids: Sequence[CellId]) -> Mapping[CellId, Cell]:
        """Those of some cells that a list shows without reading the store: all that its rows need,
        without idempotency keys. For cells that the state has in its base alone."""
        ...

    def count(self, query: CellQuery, by: Attribute | None, limit: int) -> CountedCells | None:
        """The number of all cells of the query, and by the values of an attribute at most ``limit``
        groups; None if one of them is not indexed."""
