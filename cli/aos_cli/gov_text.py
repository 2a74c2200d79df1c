"""Print proposals and votes as text (spec/cli.md, C-142 and C-143)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aos.audit.lens.words import count, time_text
from aos.errors import either
from aos.shell_text import shell_text
from aos_cli.apply_blockers import GROUPS_SHOWN, group_text
from aos_cli.apply_flows import refusal_text
from aos_cli.apply_text import show_changes, show_fates
from aos_cli.options import DEFAULT_WORLD
from aos_cli.output import fields, line, note, table

Found = Mapping[str, Any]


def command(world: Path | str, *words: object) -> str:
    """A command line of ``aos gov`` for this world, or for the one of a node's URL."""
    where = [] if world == DEFAULT_WORLD else ["--world", str(world)]
    if isinstance(world, str):
        where = ["--node", world]
    return shell_text(["aos", "gov", *words, *where])


def show_list(rows: Sequence[Found]) -> None:
    """Print one line for each proposal."""
    table(
        ["proposal", "status", "by", "at", "mode", "approvals", "note"],
        [
            [
                str(each["proposal"]),
                each["status"],
                each["principal"] or "",
                _time(each["at_ns"]),
                each["mode"] or "",
                _approvals(each),
                each["note"] or "",
            ]
            for each in rows
        ],
        right=("proposal",),
    )
    note(count(len(rows), "proposal"))


def show_one(found: Found, world: Path | str) -> None:
    """Print a proposal with its votes, its changes and what it still needs."""
    fields(
        [
            ("proposal", str(found["proposal"])),
            ("status", found["status"]),
            *((name, text) for name, text in _head(found) if text),
        ]
    )
    for each in found["votes"]:
        line(f"{each['approver']}: {each['vote']}, in record {each['seq']}{_remarks(each)}")
    for each in found["reports"]:
        line(f"report {each['hash']}, of {count(each['records'] or 0, 'record')}")
    if found["changes"] is None:
        line("its changes are not kept")
    else:
        show_changes(found["changes"])
    if found["missing"] is not None:
        show_fates(found["fates"])
        obstacles = list(_obstacles(found, world))
        line("before it can be applied" if obstacles else "nothing blocks it", style="bold")
        for text in obstacles:
            line(f"  {text}")
        if not obstacles:
            line(f"next: {command(world, 'apply', found['proposal'])}")


def _head(found: Found) -> Iterator[tuple[str, str]]:
    yield "by", found["principal"] or ""
    yield "at", _time(found["at_ns"])
    yield "in the place of", found["base"] or ""
    yield "manifest", found["document"] or ""
    yield "patch", found["patch"] or ""
    yield "mode", found["mode"] or ""
    yield "leaves", ", ".join(found["leaves"] or ())
    yield "note", found["note"] or ""
    if found["quorum"] is not None:
        yield "quorum", f"{found['quorum']} of {', '.join(found['approvers'])}"


def _obstacles(found: Found, world: Path | str) -> Iterator[str]:
    """The obstacles that are left before the proposal can be applied."""
    missing = found["missing"]
    if missing["report"] and missing["approvals"]:
        yield (
            f"approvals name a shadow report of {count(found['shadow_records'], 'record')}, and "
            f"there is none yet ({command(world, 'shadow', found['proposal'], '--record')})"
        )
    if missing["approvals"]:
        vote = command(world, "approve", found["proposal"], "--key", "FILE")
        needed = count(missing["approvals"], "more approval")
        voters = either(missing["from"]) if missing["from"] else "no one"
        yield f"expected {needed}, of {voters} ({vote})"
    groups = found["groups"]
    yield from (group_text(each) for each in groups[:GROUPS_SHOWN])
    if len(groups) > GROUPS_SHOWN:
        yield f"and {len(groups) - GROUPS_SHOWN} more groups (--json lists them all)"
    if found["flows"]["diverge"]:
        yield refusal_text(found["flows"])


def _approvals(found: Found) -> str:
    if found["quorum"] is None or "votes" not in found:
        return ""
    given = [each for each in found["votes"] if each["vote"] == "approve"]
    return f"{len(given)} of {found['quorum']}"


def _remarks(vote: Found) -> str:
    seen = "" if vote["seen"] is None else f", has seen {vote['seen']}"
    return seen + ("" if vote["note"] is None else f": {vote['note']}")


def _time(ns: int | None) -> str:
    return "" if ns is None else time_text(ns)
