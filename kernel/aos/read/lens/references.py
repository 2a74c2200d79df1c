"""List the values that a record refers to by content hash (spec/journal.md, J-15)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from aos.core.journal.records import Record, Ref


def references(record: Record) -> Iterator[tuple[str, Ref]]:
    """Yield each reference in a record with its place in it: ``state``, ``events[0].value``."""
    yield from _in_fields(record, "")


def _in_fields(holder: Any, under: str) -> Iterator[tuple[str, Ref]]:
    for field in dataclasses.fields(holder):
        yield from _in(getattr(holder, field.name), under + field.name)


def _in(value: object, path: str) -> Iterator[tuple[str, Ref]]:
    if isinstance(value, Ref):
        yield path, value
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _in(item, f"{path}[{index}]")
    elif dataclasses.is_dataclass(value):
        yield from _in_fields(value, f"{path}.")
