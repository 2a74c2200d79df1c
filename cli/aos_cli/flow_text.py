"""Print the documents of ``aos flow`` as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aos.flow.failure import failure_text
from aos.read.lens.words import compact, key_text, name_cell, short, span_text, time_text
from aos_cli import inspect_text
from aos_cli.output import fields, is_terminal, line, list_table, note, table
from aos_cli.styled import Styled

Document = dict[str, Any]

STYLES: Final = {
    "completed": "green",
    "done": "green",
    "failed": "red",
    "exhausted": "red",
    "stuck": "red",
    "faulted": "red",
    "canceled": "yellow",
    "rolling_back": "yellow",
    "parked": "yellow",
    "running": "cyan",
    "sleeping": "cyan",
    "pending": "dim",
    "closed": "dim",
}

VALUE_CHARACTERS: Final = 60


def flows(document: Document, now_ns: int) -> None:
    """Print a list of flows: one row for each, with the paths that it waits at."""
    list_table(
        ["flow", "key", "status", "active", "waits at"],
        document["flows"],
        lambda row: [
            row["workflow"],
            key_text(row["key"]),
            _word(row["status"]),
            _ago(row["last_active_ns"], now_ns) if row["last_record"] else "never",
            ", ".join(wait["path"] for wait in row["waits"]),
        ],
    )
    rows_shown = len(document["flows"])
    if not document["total"]:
        note("no flows")
    elif document["next_offset"] is not None:
        note(
            f"{rows_shown:,} of {document['total']:,} flows (the next: --offset "
            f"{document['next_offset']})"
        )
    if document["total"] > rows_shown:
        note(", ".join(f"{number:,} {status}" for status, number in document["by_status"].items()))


def flow(document: Document, now_ns: int) -> None:
    """Print one flow: how it is, what it waits for, its values, and its operations as a tree."""
    pairs: list[tuple[str, str | Styled]] = [
        ("flow", name_cell(document["workflow"], document["key"])),
        ("status", _word(document["status"])),
    ]
    if document["started_ns"] is not None:
        pairs.append(("started", time_text(document["started_ns"])))
    if document["last_record"]:
        pairs.append(("last active", time_text(document["last_active_ns"])))
        pairs.append(("last record", str(document["last_record"])))
    if document["parent"] is not None:
        pairs.append(
            ("called by", f"{compact(document['parent']['key'])} {document['parent']['path']}")
        )
    if document["version"]["is_pinned"]:
        pairs.append(("pinned", f"to the manifest of record {document['version']['record']}"))
    pairs += [("why", inspect_text.reason(reason)) for reason in document["reasons"]]
    fields(pairs)
    for name in ("input", "output", "view"):
        if document[name] is not None:
            inspect_text.section(name)
            inspect_text.value(document[name])
    if document["error"] is not None:
        inspect_text.section("error")
        for depth, text in _failures(document["error"], 0):
            line(f"  {'  ' * depth}{text}")
    if document["operations"]:
        inspect_text.section("operations")
        # Nothing of a flow that an operator ended is running, whatever its last state says.
        now = None if document["status"] == "closed" else now_ns
        _operations(document["operations"], now, with_record=document["with_history"])
    if document["compensations"]:
        inspect_text.section("compensations, the newest first")
        _compensations(document["compensations"])
    if document["inbox"]:
        inspect_text.section(f"inbox: {len(document['inbox']):,}")
        table(
            ["message", "value"],
            [[message["schema"], _value_text(message["value"])] for message in document["inbox"]],
        )


def _failures(failure: Document, depth: int) -> Iterator[tuple[int, str]]:
    yield depth, failure_text(failure)
    for cause in failure["causes"]:
        yield from _failures(cause, depth + 1)


def _operations(roots: list[Document], now_ns: int | None, *, with_record: bool) -> None:
    columns = ["operation", "kind", "state", "attempts", "took", "value"]
    rows = []
    for depth, operation in _walk(roots, 0):
        row: list[str | Styled] = [
            _name(operation, depth),
            operation["kind"],
            _word(operation["state"] or "ended"),
            str(operation["attempts"] or ""),
            _duration_text(operation, now_ns),
            _value(operation),
        ]
        if with_record:
            source_text = "" if operation["is_kept"] else " (journal)"
            skipped_text = ", its receipt skipped" if operation["is_skipped"] else ""
            row.append(f"{operation['record']}{skipped_text}{source_text}")
        rows.append(row)
    table(
        [*columns, *(["record"] if with_record else [])], rows, right_aligned=("attempts", "took")
    )


def _walk(roots: list[Document], depth: int) -> Iterator[tuple[int, Document]]:
    for root in roots:
        yield depth, root
        yield from _walk(root["children"], depth + 1)


def _name(operation: Document, depth: int) -> str:
    """The last part of the path, indented, for people; the whole path for programs."""
    path: str = operation["path"]
    return "  " * depth + path.rpartition("/")[2] if is_terminal() else path


def _duration_text(operation: Document, now_ns: int | None) -> str:
    if operation["done_ns"] is not None:
        return span_text(operation["done_ns"] - operation["created_ns"])
    if now_ns is not None and operation["state"] in ("pending", "running"):
        return f"since {span_text(max(0, now_ns - operation['created_ns']))}"
    return ""


def _value(operation: Document) -> str:
    if operation["error"] is not None:
        return failure_text(operation["error"])
    if operation["value"] is None:
        waits_for = operation["effect"] or ", ".join(operation["schemas"])
        until = operation["until_ns"]
        if operation["state"] in ("pending", "running") and until is not None:
            return " ".join(filter(None, (waits_for, f"until {time_text(until)}")))
        return waits_for if operation["state"] in ("pending", "running") else ""
    return _value_text(operation["value"])


def _value_text(value: object) -> str:
    """A value in a table: cut on a terminal, whole for programs."""
    return short(value, VALUE_CHARACTERS) if is_terminal() else compact(value)


def _compensations(compensations: list[Document]) -> None:
    table(
        ["path", "effect", "state", "attempts", "params"],
        [
            [
                compensation["path"],
                compensation["effect"],
                _word(compensation["state"]),
                str(compensation["attempts"] or ""),
                failure_text(compensation["error"])
                if compensation["error"]
                else _value_text(compensation["params"]),
            ]
            for compensation in reversed(compensations)
        ],
        right_aligned=("attempts",),
    )


def mail(entry: Document) -> str:
    """One entry of a mailbox, on one line."""
    path_text = "" if entry["path"] is None else f" for {entry['path']}"
    if entry["kind"] == "event":
        return f"{entry['schema']} (record {entry['record']:,})"
    if entry["kind"] == "stream":
        return f"a frame of {entry['effect']}{path_text} (record {entry['record']:,})"
    value = f": {compact(entry['payload'])}" if entry.get("payload") is not None else ""
    return (
        f"the receipt {entry['status']} of {entry['effect']}{path_text} (record "
        f"{entry['record']:,}){value}"
    )


def _word(word: str) -> Styled:
    return Styled(word, style=STYLES.get(word, ""))


def _ago(ns: int, now_ns: int) -> str:
    return f"{span_text(max(0, now_ns - ns))} ago" if is_terminal() else time_text(ns)
