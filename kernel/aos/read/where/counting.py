"""Numbers of cells that pass a condition, in all and by the value of a name (spec/search.md, SE-13
to SE-15)."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias, TypeVar

from aos.read.lens.lens import LISTED_BYTES
from aos.read.where.attributes import Attribute, Comparable, Subject
from aos.read.where.condition import GroupByInvalid
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
