"""How a group answers a read request, from the documents of its shards (spec/groups.md, GR-80 to
GR-86).

    {"000": {"cells": […], "total": 2}, "001": {"cells": […], "total": 1}}
        ──▶ {"cells": [{"shard": "000", …}, …], "total": 3, …}

Each read request says once how its documents are merged: the command line reads the folders of the
shards, the router of a node asks their fronts, and both merge by the same rules.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from aos.errors import BadUsage, Refused
from aos.read.views.record_view import Document
from aos.read.views.view import LIMIT_MAX

GroupQuery: TypeAlias = Mapping[str, Any]
"""The parameters of a request by name, with all defaults."""

Answers: TypeAlias = Mapping[str, Document | BadUsage]
"""The document of each shard by its name, in order; or why the shard has none."""

RowKey: TypeAlias = Callable[[Document], Any]
"""The place of a row in a list: the least comes first."""

SHARD: Final = "shard"
_OF_ONE_SHARD: Final = ("at", "from", "to", "seq", "since")
"""Parameters that are records, which each shard numbers on its own."""


class Across(Protocol):
    """How the documents of one read request are merged."""

    def asked(self, query: GroupQuery) -> GroupQuery:
        """The query for each shard. Raises: BadUsage: A group cannot answer it."""

    def merged(self, query: GroupQuery, answers: Answers) -> Document:
        """The document of the group. Raises: BadUsage, Refused: No shard has it, or several."""


def check_asked(query: GroupQuery, across: Across | None) -> Across:
    """Return how a group answers a query.

    Raises:
        BadUsage: It names a record, or only a single world answers it.
    """
    for name in _OF_ONE_SHARD:
        if query.get(name) is not None:
            raise BadUsage(
                f"{name}: each shard of a group numbers its own records",
                hint="name a shard: --world DIR/000, or /w/000/ of the node",
            )
    if across is None:
        raise BadUsage(
            "a group has no such document, because each shard has its own",
            hint="name a shard: --world DIR/000, or /w/000/ of the node",
        )
    return across


@dataclass(frozen=True, slots=True)
class MergedRows:
    """A list: the rows of all shards, each with its ``shard``.

    ``order`` gives the place of a row by the query; None: the rows of each shard in turn. ``total``
    and each number of ``sums`` are added, and so are the numbers in ``counts``. ``place`` makes
    the ``next_after`` of a row, if the list can be continued after one.
    """

    rows: str
    order: Callable[[GroupQuery], RowKey | None] = lambda _: None
    sums: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    place: Callable[[GroupQuery, Document], str] | None = None

    def asked(self, query: GroupQuery) -> GroupQuery:
        """See ``Across``: each shard may have all rows up to the end of the page."""
        if query.get("where") is not None and _is_ordered(query["where"]):
            raise BadUsage(
                "where: a group does not order its rows by a condition",
                hint="leave out 'order by', or name a shard",
            )
        if "limit" not in query:
            return query
        end = query["limit"] + query["offset"]
        if end > LIMIT_MAX:
            raise BadUsage(
                "limit and offset: a group lists its first rows",
                expected=f"at most {LIMIT_MAX} together",
                actual=str(end),
                hint="continue with after, if the list has it, or name a shard",
            )
        return {**query, "limit": end, "offset": 0}

    def merged(self, query: GroupQuery, answers: Answers) -> Document:
        """See ``Across``. A shard without an answer, such as one that does not know the workflow,
        has no rows; if no shard has an answer, that of the first is raised."""
        documents = _documents(answers)
        lists = [
            [{SHARD: name, **row} for row in document[self.rows]]
            for name, document in documents.items()
        ]
        place = self.order(query)
        rows = [row for part in lists for row in part]
        if place is not None:
            rows = list(heapq.merge(*lists, key=place))
        first = next(iter(documents.values()))
        if "limit" not in query:
            return {**first, self.rows: rows}
        begin = query["offset"]
        page = rows[begin : begin + query["limit"]]
        merged: Document = {**first, self.rows: page, **self._numbers(list(documents.values()))}
        if "offset" not in first:
            return merged
        end = begin + len(page)
        has_next = end < len(rows) or any(
            document["next_offset"] is not None for document in documents.values()
        )
        merged |= {"offset": begin, "next_offset": end if has_next and page else None}
        if self.place is not None:
            merged["next_after"] = self.place(query, page[-1]) if has_next and page else None
        return merged

    def _numbers(self, documents: Sequence[Document]) -> Document:
        """The sums of the counts that the documents have."""
        return {
            name: sum(document[name] for document in documents)
            for name in ("total", *self.sums)
            if all(name in document for document in documents)
        } | {name: _added(document[name] for document in documents) for name in self.counts}


def _is_ordered(condition: str) -> bool:
    # Few lists have a condition.
    from aos.read.where.condition import WhereInvalid, parse  # noqa: PLC0415

    try:
        return parse(condition).order is not None
    except WhereInvalid:
        return False  # the shards refuse it


def _added(counts: Any) -> dict[str, int]:
    added: dict[str, int] = {}
    for numbers in counts:
        for name, number in numbers.items():
            added[name] = added.get(name, 0) + number
    return dict(sorted(added.items()))


@dataclass(frozen=True, slots=True)
class Summed:
    """Counts: the sums of all shards, and of the groups with one value."""

    def asked(self, query: GroupQuery) -> GroupQuery:
        """See ``Across``."""
        return query

    def merged(self, _query: GroupQuery, answers: Answers) -> Document:
        """See ``Across``. Groups that a shard does not name stay in ``other_groups`` and
        ``other_count``, so these are upper bounds if several shards have some."""
        documents = list(_documents(answers).values())
        numbers: dict[str, Document] = {}
        for document in documents:
            for group in document["groups"]:
                same = numbers.setdefault(repr(group["value"]), {**group, "count": 0})
                same["count"] += group["count"]
        sums = {
            name: sum(document[name] for document in documents)
            for name in ("count", "other_groups", "other_count")
        }
        groups = sorted(numbers.values(), key=lambda group: -int(group["count"]))
        return {**documents[0], **sums, "groups": groups}


@dataclass(frozen=True, slots=True)
class OneOf:
    """A single thing: the document of the shard that has it, with its ``shard``. ``is_empty`` is
    whether a document says that nothing is there."""

    is_empty: Callable[[Document], bool] = lambda _: False

    def asked(self, query: GroupQuery) -> GroupQuery:
        """See ``Across``."""
        return query

    def merged(self, _query: GroupQuery, answers: Answers) -> Document:
        """See ``Across``. A thing that several shards have, such as a cell of a workflow that is in
        each shard, is refused."""
        documents = _documents(answers)
        full = {name: row for name, row in documents.items() if not self.is_empty(row)}
        if not full:
            return next(iter(documents.values()))
        if len(full) > 1:
            raise Refused(
                f"the shards {', '.join(full)} have it",
                hint=f"name one of them: --world DIR/{next(iter(full))}, or "
                f"/w/{next(iter(full))}/ of the node",
            )
        [(name, document)] = full.items()
        return {SHARD: name, **document}


@dataclass(frozen=True, slots=True)
class Same:
    """A document that all shards have in common, such as the manifest: that of shard 0, which is
    the first to get a new one."""

    def asked(self, query: GroupQuery) -> GroupQuery:
        """See ``Across``."""
        return query

    def merged(self, _query: GroupQuery, answers: Answers) -> Document:
        """See ``Across``."""
        return next(iter(_documents(answers).values()))


@dataclass(frozen=True, slots=True)
class ByShard:
    """The documents themselves: ``{"shards": [{"shard": name, …}]}``."""

    def asked(self, query: GroupQuery) -> GroupQuery:
        """See ``Across``."""
        return query

    def merged(self, _query: GroupQuery, answers: Answers) -> Document:
        """See ``Across``."""
        documents = _documents(answers)
        return {"shards": [{SHARD: name, **document} for name, document in documents.items()]}


def _documents(answers: Answers) -> dict[str, Document]:
    """The answers that are documents. Raises: BadUsage: There is none; the problem of the first."""
    documents = {
        name: answer for name, answer in answers.items() if not isinstance(answer, BadUsage)
    }
    if not documents:
        raise next(answer for answer in answers.values() if isinstance(answer, BadUsage))
    return documents


def by_field(*names: str) -> Callable[[GroupQuery], RowKey]:
    """The order by fields of the rows, in which null comes last."""
    return lambda _: lambda row: tuple((row[name] is None, row[name]) for name in names)


def intent_order(query: GroupQuery) -> RowKey | None:
    """The order of open intents, that of their opening; others have those of each shard in turn."""
    is_open = query.get("status") in (None, "open") and query.get("code") is None
    return by_field("opened_ns", SHARD, "record", "index")(query) if is_open else None
