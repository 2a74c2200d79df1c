"""Numbers of cells that pass a condition, in all and by the value of a name (spec/search.md, SE-13
to SE-15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.audit.search.attributes import Attribute, Subject
from aos.audit.search.kinds import Comparable

GROUPS_MAX: Final = 1_000
"""Groups of one count. The others are summed."""

Group: TypeAlias = tuple[str, Comparable] | None
"""A value with the name of its type, because True is not 1; None for cells without a value."""


@dataclass(frozen=True, slots=True)
class CountedCells:
    """The number of cells, and the largest of their groups: each value, None for cells without
    one, and its number of cells. Of the groups that are left out, their number and the sum of
    theirs."""

    count: int
    groups: tuple[tuple[Comparable | None, int], ...] = ()
    other_groups: int = 0
    other_count: int = 0


def counted(subjects: Iterable[Subject], by: Attribute | None, most: int) -> CountedCells:
    """Count cells, by the values of an attribute if there is one. A cell with several values is in
    the group of each of them."""
    count, numbers = 0, Counter[Group]()
    for subject in subjects:
        count += 1
        if by is not None:
            values: set[Group] = {
                (type(each).__name__, each) for each in by.comparable(subject) if each is not None
            }
            numbers.update(values or {None})
    return ranked(count, numbers, most)


def ranked(count: int, numbers: Mapping[Group, int], most: int) -> CountedCells:
    """The counts with the largest ``most`` groups, equal ones in the order of their values."""
    groups = sorted(numbers.items(), key=lambda each: (-each[1], each[0] is None, each[0] or ()))
    shown, others = groups[:most], groups[most:]
    return CountedCells(
        count,
        tuple((None if group is None else group[1], number) for group, number in shown),
        len(others),
        sum(number for _, number in others),
    )
