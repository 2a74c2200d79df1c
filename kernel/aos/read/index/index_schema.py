"""The tables of an index (spec/index.md, IX-10 to IX-23).

    index.db     which records, cells and intents there are, and in which order: no value of a state
    values.db    the values of the attributes that ``node.toml`` names, of a node's index alone

A place is the record and the position of an event or intent in it, as one number. A name is the
number of a name of a workflow, of an effect, or of the reasons of a cell. A reader that lacks the
newest records has the same tables in memory, called ``new_…``; views with the names of the tables
join both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aos.core.journal.records import EntryId
from aos.core.journal.vocabulary import STATUSES

FORMAT: Final = 6
"""Counts changes of the tables: an index of another format is rebuilt."""

VALUES: Final = "attributes"
"""The name under which a connection has ``values.db``."""

NS_MAX: Final = 2**63 - 1
MINUTE_NS: Final = 60 * 10**9

INTENT_STATUSES: Final = ("open", "abandoned", *STATUSES)
"""The status of an intent is its position here. ``abandoned`` is the status of an intent that no
cell waits for, until its receipt comes."""

_POSITION_BITS: Final = 24

TEXT: Final = (
    "CASE WHEN {key} < x'60' THEN NULL WHEN {key} < x'78' THEN substr({key}, 2) "
    "WHEN {key} < x'79' THEN substr({key}, 3) WHEN {key} < x'7a' THEN substr({key}, 4) END"
)
"""The UTF-8 of a cell's key that is a text in CBOR; NULL of another key."""

APPENDED: Final = {
    "names": "(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    "touches": "(cell INTEGER, record INTEGER, inputs INTEGER, PRIMARY KEY (cell, record)) "
    "WITHOUT ROWID",
    "takes": "(entry INTEGER, record INTEGER, PRIMARY KEY (entry, record)) WITHOUT ROWID",
    "abouts": "(place INTEGER, record INTEGER, PRIMARY KEY (place, record)) WITHOUT ROWID",
    "versions": "(record INTEGER PRIMARY KEY, document BLOB NOT NULL)",
    "migrations": "(workflow INTEGER, record INTEGER, PRIMARY KEY (workflow, record)) "
    "WITHOUT ROWID",
}
"""Tables whose rows never change."""

OF_STATE: Final = (
    "status", "last_active", "reasons", "last_record", "state", "state_size", "code", "version",
)  # fmt: skip
"""The columns of a cell that follow from a state, and are replaced."""

CHANGED: Final = {
    "cells": "(number INTEGER PRIMARY KEY, workflow INTEGER NOT NULL, key BLOB NOT NULL, "
    "status INTEGER, last_active INTEGER, reasons INTEGER, last_record INTEGER, state BLOB, "
    "state_size INTEGER, code INTEGER, version INTEGER)",
    "intents": "(place INTEGER PRIMARY KEY, hash BLOB NOT NULL, effect INTEGER NOT NULL, "
    "status INTEGER NOT NULL, settled INTEGER)",
}
"""Tables whose rows are replaced, by their first column."""

COUNTS: Final = {
    "cell_counts": ("workflow", "status", "reasons"),
    "intent_counts": ("status", "effect"),
    "minutes": ("minute", "kind"),
}
"""Numbers of cells, intents and records, by these columns."""

OF_LOOKUPS: Final = {
    "cells_by_name": "UNIQUE INDEX {prefix}cells_by_name ON {table}cells (workflow, key)",
    "intents_by_hash": "UNIQUE INDEX {prefix}intents_by_hash ON {table}intents (hash)",
}
"""The tables that find a cell and an intent by its name: needed while records are written."""

OF_LISTS: Final = {
    "cells_by_key": "INDEX {prefix}cells_by_key ON {table}cells (workflow, status, key) "
    "WHERE status IS NOT NULL",
    "cells_by_activity": "INDEX {prefix}cells_by_activity ON {table}cells "
    "(workflow, status, last_active, key) WHERE status IS NOT NULL",
    "cells_by_text": "INDEX {prefix}cells_by_text ON {table}cells "
    f"(workflow, {TEXT.format(key='key')})",
    "intents_by_status": "INDEX {prefix}intents_by_status ON {table}intents (status, effect)",
    "intents_by_receipt": "INDEX {prefix}intents_by_receipt ON {table}intents "
    "(status, effect, settled) WHERE settled IS NOT NULL",
}
"""The orders of lists: built once all records are written (IX-9)."""

HEAD: Final = (
    "head (id INTEGER PRIMARY KEY CHECK (id = 1), format INTEGER NOT NULL, world BLOB NOT NULL, "
    "base INTEGER NOT NULL, record INTEGER NOT NULL, frame BLOB NOT NULL, clock_ns TEXT NOT NULL, "
    "cells_at INTEGER, has_lists INTEGER NOT NULL)"
)
STALE: Final = "stale (number INTEGER PRIMARY KEY)"

OF_VALUES: Final = {
    "head": "(id INTEGER PRIMARY KEY CHECK (id = 1), record INTEGER NOT NULL, frame BLOB NOT NULL)",
    "workflows": "(workflow INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, "
    "signature BLOB NOT NULL, filled_to BLOB, cells INTEGER NOT NULL)",
    "attributes": "(workflow INTEGER, attribute INTEGER, path TEXT NOT NULL, "
    "kind TEXT NOT NULL, PRIMARY KEY (workflow, attribute)) WITHOUT ROWID",
}
LEAVES: Final = (
    "(cell INTEGER, attribute INTEGER, value BLOB, PRIMARY KEY (cell, attribute, value)) "
    "WITHOUT ROWID"
)


def place_of(position: EntryId) -> int:
    """The number of a record and the position of an event or intent in it."""
    return position[0] << _POSITION_BITS | position[1]


def index_tables() -> Iterator[str]:
    """The statements that make an empty ``index.db``."""
    yield f"CREATE TABLE {HEAD}"
    yield f"CREATE TABLE {STALE}"
    for name, columns in (APPENDED | CHANGED).items():
        yield f"CREATE TABLE {name} {columns}"
    for name, parts in COUNTS.items():
        yield f"CREATE TABLE {name} {_counted(parts)}"
    yield f"CREATE {OF_LOOKUPS['intents_by_hash'].format(prefix='', table='')}"


def values_tables() -> Iterator[str]:
    """The statements that make an empty ``values.db``."""
    for name, columns in OF_VALUES.items():
        yield f"CREATE TABLE {VALUES}.{name} {columns}"


def leaves_table(workflow: int) -> str:
    """The statement that makes the table of the values of a workflow, by cell."""
    return f"CREATE TABLE {VALUES}.leaves{workflow} {LEAVES}"


def leaves_by_value(workflow: int) -> str:
    """The statement that sorts them by value, too."""
    return (
        f"CREATE INDEX {VALUES}.leaves{workflow}_by_value ON leaves{workflow} "
        "(attribute, value, cell)"
    )


def tables_above() -> Iterator[str]:
    """The statements that make tables in memory above those of a file, and views of both."""
    for name, columns in (APPENDED | CHANGED).items():
        yield f"CREATE TEMP TABLE new_{name} {columns}"
    for index in (OF_LOOKUPS | OF_LISTS).values():
        yield f"CREATE {index.format(prefix='temp.new_', table='new_')}"
    for name in APPENDED:
        yield (
            f"CREATE TEMP VIEW {name} AS SELECT * FROM main.{name} "
            f"UNION ALL SELECT * FROM temp.new_{name}"
        )
    for name, columns in CHANGED.items():
        key = columns[1:].split()[0]
        yield (
            f"CREATE TEMP VIEW {name} AS SELECT * FROM main.{name} WHERE {key} NOT IN "
            f"(SELECT {key} FROM temp.new_{name}) UNION ALL SELECT * FROM temp.new_{name}"
        )
    for name, parts in COUNTS.items():
        yield f"CREATE TEMP TABLE new_{name} {_counted(parts)}"
        columns = ", ".join(parts)
        yield (
            f"CREATE TEMP VIEW {name} AS SELECT {columns}, SUM(count) AS count FROM "
            f"(SELECT * FROM main.{name} UNION ALL SELECT * FROM temp.new_{name}) "
            f"GROUP BY {columns}"
        )
    yield "CREATE TEMP TABLE new_subjects (cell INTEGER PRIMARY KEY)"


def leaves_above(workflow: int) -> Iterator[str]:
    """The same for the values of a workflow."""
    yield f"CREATE TEMP TABLE new_leaves{workflow} {LEAVES}"
    yield (
        f"CREATE INDEX temp.new_leaves{workflow}_by_value ON new_leaves{workflow} "
        "(attribute, value, cell)"
    )
    yield (
        f"CREATE TEMP VIEW leaves{workflow} AS SELECT cell, attribute, value "
        f"FROM {VALUES}.leaves{workflow} WHERE cell NOT IN (SELECT cell FROM temp.new_subjects) "
        f"UNION ALL SELECT cell, attribute, value FROM temp.new_leaves{workflow}"
    )


def _counted(parts: tuple[str, ...]) -> str:
    columns = ", ".join(f"{part} INTEGER" for part in parts)
    return f"({columns}, count INTEGER, PRIMARY KEY ({', '.join(parts)})) WITHOUT ROWID"
