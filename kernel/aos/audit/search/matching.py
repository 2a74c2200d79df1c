"""A condition with a meaning: which cells it selects, and their order (spec/search.md, SE-5 to
SE-8)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aos.audit.search.attributes import Attribute, Names, Subject
from aos.audit.search.kinds import Comparable
from aos.audit.search.where import (
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
        found = self.attribute.comparable(subject)
        if self.operator == NOT_EQUAL:
            return not any(_is_equal(each, self.values[0]) for each in found if each is not None)
        return any(self._passes(each) for each in found if each is not None)

    def _passes(self, found: Comparable) -> bool:
        if self.operator in (EQUAL, IN):
            return any(_is_equal(found, each) for each in self.values)
        wanted = self.values[0]
        if type(found) is not type(wanted):
            return False
        if self.operator == PREFIX:
            return isinstance(found, str) and found.startswith(wanted)
        return _COMPARE[self.operator](found, wanted)


@dataclass(frozen=True, slots=True)
class CombinedCondition:
    """Conditions of which all (``and``), any (``or``) or none (``not``) must hold."""

    word: str
    parts: tuple[Condition | CombinedCondition, ...]

    def has(self, subject: Subject) -> bool:
        """Whether a cell passes."""
        found = (each.has(subject) for each in self.parts)
        if self.word == AND:
            return all(found)
        return any(found) == (self.word == OR)


Selector: TypeAlias = Condition | CombinedCondition


def single(selectors: Iterable[Selector]) -> Iterator[Condition]:
    """Yield each condition, also those inside of others."""
    for each in selectors:
        if isinstance(each, CombinedCondition):
            yield from single(each.parts)
        else:
            yield each


def _is_equal(one: Comparable, two: Comparable) -> bool:
    return type(one) is type(two) and bool(one == two)  # True is not 1


class Search:
    """A condition for the cells that ``names`` knows; ``more`` are further terms.

    ``conditions`` are its parts, of which all must hold. ``order`` is the attribute of its order,
    None without one.

    Raises:
        WhereInvalid: The text is no condition, or does not fit the names.
    """

    def __init__(self, text: str | None, names: Names, more: Sequence[Term] = ()) -> None:
        where = ParsedWhere(()) if text is None else parse(text)
        self.conditions = tuple(_selector(part, names) for part in (*where.terms, *more))
        self.order = None if where.order is None else names.attribute(where.order)
        if where.order is not None and self.order is not None and not self.order.kind.is_ordered:
            raise WhereInvalid(f"{where.order.word} has no order", where.order.column)
        self.is_descending = where.is_descending
        self._order_name = where.order

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
        return all(each.has(subject) for each in self.conditions)

    def place(self, subject: Subject) -> Place:
        """The place of a cell in its order; equal without one."""
        if self.order is None:
            return NO_PLACE
        found = [each for each in self.order.comparable(subject) if each is not None]
        if not found:
            return NO_PLACE
        best = max if self.is_descending else min
        value = best(found, key=lambda each: (type(each).__name__, each))
        return Place(value, is_descending=self.is_descending)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a cell is in an order. A cell without a value comes last."""

    value: Comparable | None
    is_descending: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and _is_equal(self.value, other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Place) -> bool:
        if self.value is None or other.value is None:
            return other.value is None and self.value is not None
        one, two = self.value, other.value
        if type(one) is not type(two):
            one, two = type(one).__name__, type(two).__name__
        return bool(two < one) if self.is_descending else bool(one < two)


NO_PLACE: Final = Place(None, is_descending=False)


def _selector(part: WherePart, names: Names) -> Selector:
    if isinstance(part, Term):
        return _condition(part, names)
    return CombinedCondition(part.word, tuple(_selector(each, names) for each in part.parts))


def _condition(term: Term, names: Names) -> Condition:
    attribute = names.attribute(term.name)
    kind = attribute.kind
    [*literals] = term.literals
    if any(each.is_word and each.word == "null" for each in literals):
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
    return Condition(attribute, term.operator, tuple(kind.read(each) for each in literals))
