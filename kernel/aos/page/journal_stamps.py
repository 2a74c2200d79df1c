"""The time of a record that has no stamp of its own, such as a step: that of the last record before
it that has one (spec/page.md, PG-131)."""

from __future__ import annotations

from collections.abc import Iterable

from aos.audit.views.view import View
from aos.errors import Pruned
from aos.node.list_time import ListTime
from aos.node.problems import Problem


def stamps_before(view: View, seqs: Iterable[int]) -> dict[int, int]:
    """Return the time of each of these records, in ns, as far as the time of a list reaches and the
    journal goes back."""
    limit = ListTime()
    ns_by_seq: dict[int, int] = {}
    last_seq, last_ns = 0, None
    try:
        for seq in sorted(seqs):
            ns = _stamp(view, seq, last_seq, limit)
            last_seq, last_ns = seq, last_ns if ns is None else ns
            if last_ns is not None:
                ns_by_seq[seq] = last_ns
    except (Problem, Pruned):
        pass  # the other rows stay without a time
    return ns_by_seq


def _stamp(view: View, seq: int, earlier_seq: int, limit: ListTime) -> int | None:
    """The stamp of the last record before ``seq`` and after ``earlier_seq`` that has one."""
    for candidate_seq in range(seq - 1, earlier_seq, -1):
        limit.check()
        stamp = getattr(view.records.at(candidate_seq), "stamp", None)
        if stamp is not None:
            ns: int = stamp.ns
            return ns
    return None
