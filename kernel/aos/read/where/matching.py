"""Decide which cells a condition selects, and in which order, from their states or with an index
(spec/search.md, SE-5 to SE-8, SE-20), and count them, in all and by the value of a name (SE-13 to
SE-15).
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from aos.core.journal.records import CellId
from aos.core.state.cell import Cell
from aos.read.lens.lens import LISTED_BYTES
from aos.read.where.attributes import Attribute, Comparable, Names, Subject
from aos.read.where.condition import (
    AND,
    EQUAL,
    IN,
    NOT_EQUAL,
    OR,
    ORDERED,
    PREFIX,
    GroupByInvalid,
    ParsedWhere,
    Term,
    WhereInvalid,
    WherePart,
    parse,
)
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash

GROUPS_MAX: Final = 1_000
"""Groups of one count. The others are summed."""

VALUES_MAX: Final = 100_000
"""Different values that one count may find (SE-15a)."""

VALUES_MIB_MAX: Final = 64
"""MiB of them together."""

BATCH_ITEMS: Final = 4_096
"""Values between two checks of these bounds and of the time."""

SMALL_MAX: Final = LISTED_BYTES // 8
"""Characters or bytes that are never too many for a list, whatever their encoding."""

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class LargeValue:
    """A text or bytes too long for a list: the hash of its encoding, and its bytes (SE-14)."""

    hash: Hash
    size: int


Group: TypeAlias = tuple[str, Comparable | LargeValue] | None
"""A value with the name of its type, because True is not 1; None for cells without a value."""

GroupKey = TypeVar("GroupKey")


@dataclass(frozen=True, slots=True)
class CountedCells:
    """The number of cells, and the largest of their groups: each value, None for cells without
    one, and its number of cells. Of the groups that are left out, their number and the sum of
    theirs."""

    count: int
    groups: tuple[tuple[Comparable | LargeValue | None, int], ...] = ()
    other_groups: int = 0
    other_count: int = 0


def counted(
    subjects: Iterable[Subject],
    by: Attribute | None,
    limit: int,
    check_time: Callable[[], None] = lambda: None,
) -> CountedCells:
    """Count cells, by the values of an attribute if there is one. A cell with several values is in
    the group of each of them.

    Raises:
        GroupByInvalid: There are too many different values.
    """
    count = 0

    def groups() -> Iterator[Group]:
        nonlocal count
        for subject in subjects:
            count += 1
            if by is not None:
                values = {group_of(value) for value in by.comparable(subject) if value is not None}
                yield from values or (None,)

    numbers = numbers_of(groups(), _bytes_of, check_time)
    return ranked(count, numbers, limit)


def group_of(value: Comparable) -> Group:
    """The group of a value; of one that is too long for a list, by its hash and size."""
    kind = type(value).__name__
    if isinstance(value, str | bytes) and len(value) > SMALL_MAX:
        data = encode(value)
        if len(data) > LISTED_BYTES:
            return kind, LargeValue(content_hash(data), len(data))
    return kind, value


def numbers_of(
    keys: Iterable[GroupKey], bytes_of: Callable[[GroupKey], int], check_time: Callable[[], None]
) -> Counter[GroupKey]:
    """How often each key of a group comes. ``bytes_of`` is the size of its value.

    Raises:
        GroupByInvalid: There are too many different ones (SE-15a).
    """
    numbers, size, remaining = Counter[GroupKey](), 0, iter(keys)
    while batch := list(islice(remaining, BATCH_ITEMS)):
        old_count = len(numbers)
        numbers.update(batch)
        check_time()
        size += sum(map(bytes_of, islice(reversed(numbers), len(numbers) - old_count)))
        if len(numbers) > VALUES_MAX or size > VALUES_MIB_MAX << 20:
            raise GroupByInvalid(
                f"expected at most {VALUES_MAX:,} different values, of at most {VALUES_MIB_MAX} "
                "MiB together, found more: narrow the condition, or group by another name",
                1,
            )
    return numbers


def _bytes_of(group: Group) -> int:
    value = None if group is None else group[1]
    return len(value) if isinstance(value, str | bytes) else 0


def ranked(count: int, numbers: Mapping[Group, int], limit: int) -> CountedCells:
    """The counts with the largest ``limit`` groups, equal ones in the order of their values."""
    shown_groups = heapq.nsmallest(limit, numbers.items(), key=_sort_key)
    return CountedCells(
        count,
        tuple((None if group is None else group[1], number) for group, number in shown_groups),
        len(numbers) - len(shown_groups),
        sum(numbers.values()) - sum(number for _, number in shown_groups),
    )


def _sort_key(sized: tuple[Group, int]) -> tuple[int, int, Group | tuple[()]]:
    group, number = sized
    if group is None:
        return -number, 2, ()
    return -number, isinstance(group[1], LargeValue), group


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
