"""Print the documents of ``aos flow`` as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aos.audit.lens.words import compact, key_text, short, span_text, time_text
from aos.audit.views.record_view import name_cell
from aos.flow.failure import failure_text
from aos_cli import inspect_text
from aos_cli.output import fields, is_terminal, line, note, table
from aos_cli.styled import Styled

Found = dict[str, Any]

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


def flows(found: Found, now_ns: int) -> None:
    """Print a list of flows: one row for each, with the paths that it waits at."""
    table(
        ["flow", "key", "status", "active", "waits at"],
        [
            [
                each["workflow"],
                key_text(each["key"]),
                _word(each["status"]),
                _ago(each["last_active_ns"], now_ns) if each["last_record"] else "never",
                ", ".join(wait["path"] for wait in each["waits"]),
            ]
            for each in found["flows"]
        ],
    )
    shown = len(found["flows"])
    if not found["total"]:
        note("no flows")
    elif found["next_offset"] is not None:
        note(f"{shown:,} of {found['total']:,} flows (the next: --offset {found['next_offset']})")
    if found["total"] > shown:
        note(", ".join(f"{number:,} {status}" for status, number in found["by_status"].items()))


def flow(found: Found, now_ns: int) -> None:
    """Print one flow: how it is, what it waits for, its values, and its operations as a tree."""
    pairs: list[tuple[str, str | Styled]] = [
        ("flow", name_cell(found["workflow"], found["key"])),
        ("status", _word(found["status"])),
    ]
    if found["started_ns"] is not None:
        pairs.append(("started", time_text(found["started_ns"])))
    if found["last_record"]:
        pairs.append(("last active", time_text(found["last_active_ns"])))
        pairs.append(("last record", str(found["last_record"])))
    if found["parent"] is not None:
        pairs.append(("called by", f"{compact(found['parent']['key'])} {found['parent']['path']}"))
    if found["version"]["is_pinned"]:
        pairs.append(("pinned", f"to the manifest of record {found['version']['record']}"))
    pairs += [("why", inspect_text.reason(each)) for each in found["reasons"]]
    fields(pairs)
    for name in ("input", "output", "view"):
        if found[name] is not None:
            inspect_text.section(name)
            inspect_text.value(found[name])
    if found["error"] is not None:
        inspect_text.section("error")
        for depth, text in _failures(found["error"], 0):
            line(f"  {'  ' * depth}{text}")
    if found["operations"]:
        inspect_text.section("operations")
        # Nothing of a flow that an operator ended is running, whatever its last state says.
        now = None if found["status"] == "closed" else now_ns
        _operations(found["operations"], now, with_record=found["with_history"])
    if found["compensations"]:
        inspect_text.section("compensations, the newest first")
        _compensations(found["compensations"])
    if found["inbox"]:
        inspect_text.section(f"inbox: {len(found['inbox']):,}")
        table(
            ["message", "value"],
            [[each["schema"], _shown(each["value"])] for each in found["inbox"]],
        )


def _failures(found: Found, depth: int) -> Iterator[tuple[int, str]]:
    yield depth, failure_text(found)
    for each in found["causes"]:
        yield from _failures(each, depth + 1)


def _operations(roots: list[Found], now_ns: int | None, *, with_record: bool) -> None:
    columns = ["operation", "kind", "state", "attempts", "took", "value"]
    rows = []
    for depth, each in _walk(roots, 0):
        row: list[str | Styled] = [
            _name(each, depth),
            each["kind"],
            _word(each["state"] or "ended"),
            str(each["attempts"] or ""),
            _took(each, now_ns),
            _value(each),
        ]
        if with_record:
            where = "" if each["is_kept"] else " (journal)"
            row.append(f"{each['record']}{', its receipt skipped' * each['is_skipped']}{where}")
        rows.append(row)
    table([*columns, *(["record"] if with_record else [])], rows, right=("attempts", "took"))


def _walk(roots: list[Found], depth: int) -> Iterator[tuple[int, Found]]:
    for each in roots:
        yield depth, each
        yield from _walk(each["children"], depth + 1)


def _name(found: Found, depth: int) -> str:
    """The last part of the path, indented, for people; the whole path for programs."""
    path: str = found["path"]
    return "  " * depth + path.rpartition("/")[2] if is_terminal() else path


def _took(found: Found, now_ns: int | None) -> str:
    if found["done_ns"] is not None:
        return span_text(found["done_ns"] - found["created_ns"])
    if now_ns is not None and found["state"] in ("pending", "running"):
        return f"since {span_text(max(0, now_ns - found['created_ns']))}"
    return ""


def _value(found: Found) -> str:
    if found["error"] is not None:
        return failure_text(found["error"])
    if found["value"] is None:
        waits_for = found["effect"] or ", ".join(found["schemas"])
        until = found["until_ns"]
        if found["state"] in ("pending", "running") and until is not None:
            return " ".join(filter(None, (waits_for, f"until {time_text(until)}")))
        return waits_for if found["state"] in ("pending", "running") else ""
    return _shown(found["value"])


def _shown(value: object) -> str:
    """A value in a table: cut on a terminal, whole for programs."""
    return short(value, VALUE_CHARACTERS) if is_terminal() else compact(value)


def _compensations(found: list[Found]) -> None:
    table(
        ["path", "effect", "state", "attempts", "params"],
        [
            [
                each["path"],
                each["effect"],
                _word(each["state"]),
                str(each["attempts"] or ""),
                failure_text(each["error"]) if each["error"] else _shown(each["params"]),
            ]
            for each in reversed(found)
        ],
        right=("attempts",),
    )


def mail(found: Found) -> str:
    """One entry of a mailbox, on one line."""
    where = "" if found["path"] is None else f" for {found['path']}"
    if found["kind"] == "event":
        return f"{found['schema']} (record {found['record']:,})"
    if found["kind"] == "stream":
        return f"a frame of {found['effect']}{where} (record {found['record']:,})"
    value = f": {compact(found['payload'])}" if found.get("payload") is not None else ""
    return (
        f"the receipt {found['status']} of {found['effect']}{where} (record {found['record']:,})"
        f"{value}"
    )


def _word(word: str) -> Styled:
    return Styled(word, style=STYLES.get(word, ""))


def _ago(ns: int, now_ns: int) -> str:
    return f"{span_text(max(0, now_ns - ns))} ago" if is_terminal() else time_text(ns)
