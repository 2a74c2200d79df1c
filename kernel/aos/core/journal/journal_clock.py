"""The journal clock after a record (spec/kernel.md, K-4, K-109b).

It is the highest stamp so far, until an operator's command ``clock`` sets it back to the stamp of
that command.
"""

from __future__ import annotations

from typing import Final

from aos.core.journal.inputs import CLOCK
from aos.core.journal.records import Control, Faulted, KernelReceipt, Record, Step

CLOCK_AHEAD_NS: Final = 60 * 10**9
"""The journal clock is ahead of a machine when it is ahead by more than this."""


def clock_after(clock_ns: int, record: Record) -> int:
    """Return the journal clock after ``record``, before which it was ``clock_ns``."""
    if isinstance(record, Step | Faulted | KernelReceipt):
        return clock_ns
    if isinstance(record, Control) and record.action == CLOCK:
        return record.stamp.ns
    return max(clock_ns, record.stamp.ns)
