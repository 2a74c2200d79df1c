"""For how long a log has ended before a message that was read (spec/cluster.md, CL-18, CL-85).

A server that lags catches up within seconds; a log that has lost its end never does.
"""

from __future__ import annotations

from typing import Final

GAP_NS: Final = 1_000_000_000
"""Of a longer time between two answers, only so much counts: this process was suspended, or did not
ask."""


class EarlyEnd:
    """Counts the time in which a log has answered, again and again, that it ends early. Time in
    which it did not answer proves nothing, and does not count.

    ``span_ns`` is that time; 0 if the log shows its end, or has not answered twice.
    """

    def __init__(self) -> None:
        self.span_ns = 0
        self._answered_ns: int | None = None

    def note_early(self, now_ns: int) -> None:
        """Note that the log has answered, and ends early."""
        if self._answered_ns is not None:
            self.span_ns += min(now_ns - self._answered_ns, GAP_NS)
        self._answered_ns = now_ns

    def note_unanswered(self) -> None:
        """Note that the log did not answer."""
        self._answered_ns = None

    def clear(self) -> None:
        """Note that the log shows its end."""
        self.span_ns, self._answered_ns = 0, None
