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

Document = Mapping[str, Any]


def command(world: Path | str, *words: object) -> str:
    """A command line of ``aos gov`` for this world, or for the one of a node's URL."""
    world_options = [] if world == DEFAULT_WORLD else ["--world", str(world)]
    if isinstance(world, str):
        world_options = ["--node", world]
    return shell_text(["aos", "gov", *words, *world_options])


def show_list(rows: Sequence[Document]) -> None:
    """Print one line for each proposal."""
    table(
        ["proposal", "status", "by", "at", "mode", "approvals", "note"],
        [
            [
                str(row["proposal"]),
                row["status"],
                row["principal"] or "",
                _time(row["at_ns"]),
                row["mode"] or "",
                _approvals(row),
                row["note"] or "",
            ]
            for row in rows
        ],
        right_aligned=("proposal",),
    )
    note(count(len(rows), "proposal"))


def show_one(proposal: Document, world: Path | str) -> None:
    """Print a proposal with its votes, its changes and what it still needs."""
    fields(
        [
            ("proposal", str(proposal["proposal"])),
            ("status", proposal["status"]),
            *((name, text) for name, text in _head(proposal) if text),
        ]
    )
    for row in proposal["votes"]:
        line(f"{row['approver']}: {row['vote']}, in record {row['seq']}{_remarks(row)}")
    for row in proposal["reports"]:
        line(f"report {row['hash']}, of {count(row['records'] or 0, 'record')}")
    if proposal["changes"] is None:
        line("its changes are not kept")
    else:
        show_changes(proposal["changes"])
    if proposal["missing"] is not None:
        show_fates(proposal["fates"])
        obstacles = list(_obstacles(proposal, world))
        line("before it can be applied" if obstacles else "nothing blocks it", style="bold")
        for text in obstacles:
            line(f"  {text}")
        if not obstacles:
            line(f"next: {command(world, 'apply', proposal['proposal'])}")


def _head(proposal: Document) -> Iterator[tuple[str, str]]:
    yield "by", proposal["principal"] or ""
    yield "at", _time(proposal["at_ns"])
    yield "in the place of", proposal["base"] or ""
    yield "manifest", proposal["document"] or ""
    yield "patch", proposal["patch"] or ""
    yield "mode", proposal["mode"] or ""
    yield "leaves", ", ".join(proposal["leaves"] or ())
    yield "note", proposal["note"] or ""
    if proposal["quorum"] is not None:
        yield "quorum", f"{proposal['quorum']} of {', '.join(proposal['approvers'])}"


def _obstacles(proposal: Document, world: Path | str) -> Iterator[str]:
    """The obstacles that are left before the proposal can be applied."""
    missing = proposal["missing"]
    if missing["report"] and missing["approvals"]:
        yield (
            f"approvals name a shadow report of {count(proposal['shadow_records'], 'record')}, and "
            f"there is none yet ({command(world, 'shadow', proposal['proposal'], '--record')})"
        )
    if missing["approvals"]:
        vote = command(world, "approve", proposal["proposal"], "--key", "FILE")
        approvals_text = count(missing["approvals"], "more approval")
        voters = either(missing["from"]) if missing["from"] else "no one"
        yield f"expected {approvals_text}, of {voters} ({vote})"
    groups = proposal["groups"]
    yield from (group_text(group) for group in groups[:GROUPS_SHOWN])
    if len(groups) > GROUPS_SHOWN:
        yield f"and {len(groups) - GROUPS_SHOWN} more groups (--json lists them all)"
    if proposal["flows"]["diverge"]:
        yield refusal_text(proposal["flows"])


def _approvals(proposal: Document) -> str:
    if proposal["quorum"] is None or "votes" not in proposal:
        return ""
    approvals = [vote for vote in proposal["votes"] if vote["vote"] == "approve"]
    return f"{len(approvals)} of {proposal['quorum']}"


def _remarks(vote: Document) -> str:
    report_text = "" if vote["seen"] is None else f", has seen {vote['seen']}"
    return report_text + ("" if vote["note"] is None else f": {vote['note']}")


def _time(ns: int | None) -> str:
    return "" if ns is None else time_text(ns)
