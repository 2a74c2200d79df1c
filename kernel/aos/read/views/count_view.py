"""The documents of ``aos inspect cells --count`` and ``aos linear list --count``
(spec/search.md, SE-13 to SE-16)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aos.read.views.cell_selection import CellSelection, subject
from aos.read.views.linear_view import (
    linear_names,
    linear_query,
    linear_search,
    linear_subjects,
)
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.read.where.attributes import Attribute, Comparable, Names, Subject
from aos.read.where.condition import GroupByInvalid, WhereInvalid, parse_name
from aos.read.where.matching import GROUPS_MAX, CellQuery, CountedCells, LargeValue, counted
from aos.values.digests import hash_text


def cell_counts(
    view: View, selection: CellSelection | None = None, *, group_by: str | None = None
) -> Document:
    """Count the cells of a selection, and by the values of ``group_by``.

    Raises:
        BadUsage: A filter or ``group_by`` names nothing that is known, there are too many
            different values, or the condition has an order.
    """
    selected = (selection or CellSelection()).resolved(view.state)
    if selected.search is not None:
        selected.search.must_have_no_order()
    by = None if group_by is None else _attribute(group_by, selected.names(view.state))

    def subjects() -> Iterable[Subject]:
        for cell in selected.candidates(view.state):
            view.check_time()
            if selected.has(view, cell):
                yield subject(view, cell)

    counts = _counts(view, selected.query(view.now_ns), by, subjects())
    return _document(counts, group_by, by)


def linear_counts(
    view: View,
    *,
    status: str | None = None,
    plan: str | None = None,
    step: str | None = None,
    where: str | None = None,
    aliases: Mapping[str, Mapping[str, str]] | None = None,
    group_by: str | None = None,
) -> Document:
    """Count linear instances, with the filters of ``linear_view.instances``.

    Raises:
        BadUsage: As ``cell_counts``.
        Refused: The manifest in force has no linear workflows.
    """
    names = linear_names(view, aliases)
    search = linear_search(names, status=status, plan=plan, step=step, where=where)
    search.must_have_no_order()
    by = None if group_by is None else _attribute(group_by, names)
    counts = _counts(view, linear_query(search), by, linear_subjects(view, search))
    return _document(counts, group_by, by)


def _attribute(group_by: str, names: Names) -> Attribute:
    try:
        return names.attribute(parse_name(group_by))
    except WhereInvalid as problem:
        raise GroupByInvalid(problem.message, problem.column) from None


def _counts(
    view: View, query: CellQuery | None, by: Attribute | None, subjects: Iterable[Subject]
) -> CountedCells:
    """From the index of the view if it has all that is asked for, else from the cells."""
    if view.finder is not None and query is not None:
        from_index = view.finder.count(query, by, GROUPS_MAX)
        if from_index is not None:
            return from_index
    return counted(subjects, by, GROUPS_MAX, view.check_time)


def _document(counts: CountedCells, group_by: str | None, by: Attribute | None) -> Document:
    return {
        "count": counts.count,
        "group_by": group_by,
        "groups": [
            {"value": None if by is None else _value(by, value), "count": number}
            for value, number in counts.groups
        ],
        "other_groups": counts.other_groups,
        "other_count": counts.other_count,
    }


def _value(by: Attribute, value: Comparable | LargeValue | None) -> object:
    """A value as JSON."""
    if value is None:
        return None
    if isinstance(value, LargeValue):
        return {"$large": hash_text(value.hash), "size": value.size}
    return by.kind.to_json(value)
