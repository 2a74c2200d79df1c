"""Print the refusals of many events: one line for each reason, with a count (C-23)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aos_cli.output import note

REASONS_SHOWN: Final = 10
"""How many different reasons are printed. Refusals for others are only counted."""


@dataclass(slots=True)
class _Alike:
    """Refusals for one reason: the number of the first event and of the last, and how many came
    after the first."""

    first: int
    last: int
    repeats: int = 0


class Refusals:
    """Prints the first refusal for each reason immediately, the counts of the others at the end."""

    def __init__(self) -> None:
        self._alike: dict[str, _Alike] = {}
        self._hidden = 0

    def add(self, number: int, message: str) -> None:
        alike = self._alike.get(message)
        if alike is not None:
            alike.repeats += 1
            alike.last = number
        elif len(self._alike) == REASONS_SHOWN:
            self._hidden += 1
        else:
            self._alike[message] = _Alike(first=number, last=number)
            note(f"aos: event {number}: {message}", style="red")

    def finish(self) -> None:
        for alike in self._alike.values():
            if alike.repeats:
                note(
                    f"and {alike.repeats:,} more for the same reason as event {alike.first}, up to "
                    f"event {alike.last:,} (--json lists them all)",
                    style="red",
                )
        if self._hidden:
            note(f"and {self._hidden:,} more were refused (--json lists them all)", style="red")
