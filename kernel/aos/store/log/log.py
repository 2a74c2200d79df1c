"""The interface of a log: messages in one order, which every reader sees (spec/log.md, LG-20 to
LG-26).

A log gives each message a position, one more than the last one's. Its order is all that decides
which entries count (``counting``). The precondition of ``append`` only tells a writer early that
others have written: nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from aos.errors import Damage, Refused, Unavailable
from aos.store.log.entry import EntryPart


class LogMessage(NamedTuple):
    """A message of the log. ``part`` is None if its headers are not those of a part."""

    position: int
    part: EntryPart | None


class LogUnreachable(Unavailable):
    """The log did not answer. It is unknown whether something was written (LG-24)."""


class LogEndsEarly(LogUnreachable):
    """The log ends before a message that was read. A server that lags catches up within seconds; a
    log that has lost its end never does (LG-35)."""


class AfterWrongPosition(Unavailable):
    """The log ended somewhere else than the writer expected, and refused the message (LG-23).
    Messages before it in the same call were written."""


class LogSealed(Refused):
    """The stream takes no more messages: the world went to another stream, or to none."""


class LogTrimmed(Damage):
    """The next message of a reader was trimmed: it starts again from a base (LG-16)."""


class Log(Protocol):
    """One stream of messages, at one of its servers. Methods may be called from one thread."""

    def append(self, parts: Sequence[EntryPart], after: int) -> list[int]:
        """Write messages, each expected behind the one before it and the first behind ``after``.
        Return their positions. They are durable on return.

        Raises:
            AfterWrongPosition: One of them was refused.
            LogUnreachable: Some or all of them have no answer.
        """

    def read(self, after: int) -> Iterator[LogMessage]:
        """Yield the messages behind position ``after`` up to the tail, in order and without a gap.

        Raises:
            LogUnreachable: The log does not answer.
            LogTrimmed: The message behind ``after`` was trimmed.
            Damage: A message behind ``after`` is missing.
        """

    def read_again(self, first: int, last: int) -> Iterator[LogMessage]:
        """As ``read``, the messages from ``first`` to ``last``, from another server if there is
        one: a server's copy may be damaged (LG-13)."""

    def tail(self) -> int:
        """Return the position of the last message; 0 before the first. Raises LogUnreachable."""

    def check_open(self) -> None:
        """Check that the log took messages when it was read last. Raises LogSealed."""

    def trim(self, position: int) -> None:
        """Remove the messages before ``position``. Raises LogUnreachable."""
