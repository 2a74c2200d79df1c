"""A log in memory, for tests and the simulator: it can lose, delay and double what is written, lose
its end, and serve each reader another history (spec/log.md, LG-40).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from aos.store.log.entry import EntryPart
from aos.store.log.log import (
    AfterWrongPosition,
    LogMessage,
    LogSealed,
    LogTrimmed,
    LogUnreachable,
)


class Fate(enum.Enum):
    """The fate of one message that a writer sends."""

    ANSWERED = "answered"
    UNANSWERED = "unanswered"
    """It is written, and its answer is lost."""
    LOST = "lost"
    LATE = "late"
    """It has no answer, and is written when ``arrive`` is called."""
    DOUBLED = "doubled"
    """It is written twice; the answer names the first."""


@dataclass(slots=True)
class SharedStream:
    """The stream that all servers of a log have. ``checks`` is whether it compares the position
    that a writer expects; nothing may depend on it."""

    checks: bool = True
    messages: list[EntryPart | None] = field(default_factory=list)
    first: int = 1
    """The position of the first message that was not trimmed."""
    late: list[tuple[EntryPart, int]] = field(default_factory=list)
    is_sealed: bool = False

    @property
    def tail(self) -> int:
        """The position of the last message."""
        return len(self.messages)

    def check_open(self) -> None:
        """Raises: LogSealed: It takes no more messages."""
        if self.is_sealed:
            raise LogSealed("the stream is sealed: it takes no more messages")

    def write(self, part: EntryPart | None, after: int) -> int:
        """Write one message. Raises AfterWrongPosition, LogSealed."""
        self.check_open()
        if self.checks and after != self.tail:
            raise AfterWrongPosition(f"the log ends at {self.tail}, and not at {after}")
        self.messages.append(part)
        return self.tail

    def publish(self, part: EntryPart | None) -> None:
        """Write a message of someone who expects nothing."""
        if not self.is_sealed:
            self.messages.append(part)

    def arrive(self, index: int = 0) -> None:
        """Let a late message arrive, if there is one."""
        if self.late:
            part, after = self.late.pop(index % len(self.late))
            if not self.checks or after == self.tail:
                self.publish(part)

    def lose_end(self, position: int) -> None:
        """Lose the messages behind a position, as servers do whose disks have lied."""
        del self.messages[position:]


class MemoryLog:
    """One server's view of the stream, as ``Log``. ``fate`` decides about each message; ``damaged``
    replaces messages, by position, in this view alone; ``lag`` hides as many at the end."""

    def __init__(
        self,
        stream: SharedStream,
        fate: Callable[[], Fate] = lambda: Fate.ANSWERED,
        *,
        other: MemoryLog | None = None,
    ) -> None:
        self.stream = stream
        self.damaged: dict[int, EntryPart | None] = {}
        self.lag = 0
        self.is_away = False
        self._is_disconnected = False
        self._fate = fate
        self._other = other

    def append(self, parts: Sequence[EntryPart], after: int) -> list[int]:
        """As ``Log.append``."""
        self._reach()
        positions, is_answered = [], True
        for index, part in enumerate(parts):
            # Parts are sent without waiting for the answers to those before.
            expected = after + index
            match self._fate():
                case Fate.LOST:
                    is_answered = False
                case Fate.LATE:
                    self.stream.late.append((part, expected))
                    is_answered = False
                case Fate.UNANSWERED:
                    self.stream.write(part, expected)
                    is_answered = False
                case Fate.DOUBLED:
                    positions.append(self.stream.write(part, expected))
                    if not self.stream.checks:
                        self.stream.publish(part)
                case Fate.ANSWERED:
                    positions.append(self.stream.write(part, expected))
        if not is_answered:
            raise LogUnreachable("the log does not answer")
        return positions

    def read(self, after: int) -> Iterator[LogMessage]:
        """As ``Log.read``."""
        self._reach()
        if after + 1 < self.stream.first:
            raise LogTrimmed(
                "the log was trimmed behind this reader",
                expected=f"the message at position {after + 1}",
                actual=f"{self.stream.first} as the first one",
            )
        for position in range(after + 1, self.tail() + 1):
            yield LogMessage(
                position, self.damaged.get(position, self.stream.messages[position - 1])
            )

    def read_again(self, first: int, last: int) -> Iterator[LogMessage]:
        """As ``Log.read_again``: from ``other``, if there is one."""
        source = self._other or self
        for message in source.read(first - 1):
            if message.position > last:
                return
            yield message

    def tail(self) -> int:
        """As ``Log.tail``."""
        self._reach()
        return max(0, self.stream.tail - self.lag)

    def check_open(self) -> None:
        """As ``Log.check_open``."""
        self.stream.check_open()

    def trim(self, position: int) -> None:
        """As ``Log.trim``."""
        self._reach()
        self.stream.first = max(self.stream.first, position)

    def disconnect(self) -> None:
        """Lose the connection: the next request has no answer."""
        self._is_disconnected = True

    def _reach(self) -> None:
        is_disconnected, self._is_disconnected = self._is_disconnected, False
        if self.is_away or is_disconnected:
            raise LogUnreachable("the log does not answer")
