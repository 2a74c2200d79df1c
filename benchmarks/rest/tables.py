"""Figures of a world at rest -> tables, aims, and why they are what they are. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.aims import Aim
from benchmarks.figures import median, ratio
from benchmarks.markdown import NOTHING, about, table

Json = Mapping[str, Any]

MIB: Final = 2**20

MEMORY_MIB: Final = 600
RATE_RATIO: Final = 0.5
PAUSE_RATIO: Final = 2.0
RESTART_S: Final = 2.0
PIN_S: Final = 1.0
EVENTS: Final = 1_000_000

SHAPE: Final = """\
A state of some 300 bytes is a blob of its own, by its hash; an entry of some 150 more says which
cell has it; up to 64 entries, or as many as share four digits of their key's hash, are a leaf of
the workflow's index. So a cell that changed costs its state, its leaf (some 15 entries in a
world of a million cells) and a share of the nodes above it; cells that share a leaf share its
cost, so that a tenth of the cells costs less than a hundred times a thousandth. The file has
whole pages of 4 KiB: a leaf takes one to four, and a state of 300 bytes is one of some ten in a
page. Older snapshots keep their nodes and states until `aos gc`; the journal keeps every event
and step until `aos journal prune`.

In memory are the cells that have work, the last 4,096 that came to rest, the packed entries of
others that changed since the snapshot, and up to 4,096 decoded nodes of each index: nothing that
grows with the number of cells. A step in a large world has additional costs: one more node on
the way, and a leaf and a state to read from the file (which the machine's memory holds here), to
hash and to compare. The snapshot's process holds as much: the changes since the last one.

A snapshot folds the records since the last one, then reads and writes the nodes on the way to each
change. Its writes share the committer with the world's frames, in slices as long as a group of
frames takes: an event waits for one of them at most. A restart reads the snapshot's document and
folds the records after it; 50,000 records after a snapshot the next one begins."""


# Tables


def rest_tables(rest: Json) -> str:
    parts = [about(rest), SHAPE]
    parts += ["### Made", _made(rest["made"]), _disk(rest)]
    parts += ["### Random cells, one step each", _rounds(rest)]
    parts += ["### Snapshots", _snapshots(rest["snapshots"]), _steady(rest["steady"])]
    parts += ["### Restart, reads, replay", _restarts(rest), _reads(rest["since"], rest["replay"])]
    if "pin" in rest:
        parts += ["### A manifest pinned while instances wait", _pin(rest["pin"])]
    if rest["commands"]:
        parts += ["### Made smaller", _commands(rest["commands"])]
    return "\n\n".join(parts)


def _made(made: Sequence[Json]) -> str:
    head = (
        "cells", "made /s", "snapshots meanwhile", "store MiB", "bytes a cell",
        "memory at most MiB", "of the snapshot's process",
    )  # fmt: skip
    return table(
        head,
        [
            (
                f"{each['cells']:,}",
                f"{each['cells'] / each['seconds']:,.0f}",
                str(each["snapshots"]),
                _mib(each["store_bytes"]),
                f"{each['store_bytes'] / each['cells']:,.0f}",
                f"{each['own_mib']:,.0f}",
                f"{each['snapshot_mib']:,.0f}",
            )
            for each in made
        ],
    )


def _disk(rest: Json) -> str:
    found, cells = rest["disk"], rest["options"]["cells"]
    parts = (
        ("the file", found["file"]),
        ("journal: frames", found["frames"]),
        ("blobs: states, nodes, what older snapshots had", found["blobs"]),
        (f"nodes of the newest index, {found['node_count']:,} of them", found["nodes"]),
    )
    return table(
        (f"{cells:,} cells on the disk", "MiB", "bytes a cell"),
        [(what, _mib(size), f"{size / cells:,.0f}") for what, size in parts],
    )


def _rounds(rest: Json) -> str:
    head = (
        "cells", "rate /s, by rounds", "processor µs a step, the same", "memory at most MiB",
        "accepted p50, p99 ms",
    )  # fmt: skip
    rows = []
    for name, cells in (("small", rest["options"]["small"]), ("large", rest["options"]["cells"])):
        rounds = [each[name] for each in rest["rounds"]]
        last = rounds[-1]["accept_ms"]
        rows.append(
            (
                f"{cells:,}",
                ", ".join(f"{each['rate']:,.0f}" for each in rounds),
                ", ".join(f"{each['cpu_us']:.0f}" for each in rounds),
                f"{max(each['own_mib'] for each in rounds):,.0f}",
                NOTHING if last is None else f"{last['p50']:.1f}, {last['p99']:.1f}",
            )
        )
    return table(head, rows)


def _snapshots(snapshots: Sequence[Json]) -> str:
    head = (
        "cells that changed", "records since", "seconds", "ms a changed cell", "blobs", "MiB",
        "bytes a changed cell", "memory of its process MiB",
    )  # fmt: skip
    return table(
        head,
        [
            (
                f"{each['changed']:,}",
                f"{each['records']:,}",
                f"{each['seconds']:.2f}",
                f"{each['seconds'] / each['changed'] * 1e3:.2f}",
                f"{each['blobs']:,}",
                f"{each['bytes'] / MIB:,.1f}",
                f"{each['bytes'] / each['changed']:,.0f}",
                f"{each['snapshot_mib']:,.0f}",
            )
            for each in snapshots
        ],
    )


def _steady(steady: Json) -> str:
    head = (
        f"{steady['rate']:,.0f} events a second", "seconds", "accepted p50 ms", "p99 ms", "worst ms"
    )  # fmt: skip
    return table(
        head,
        [
            (
                what,
                f"{each['seconds']:.1f}",
                f"{each['accept_ms']['p50']:.2f}",
                f"{each['accept_ms']['p99']:.2f}",
                f"{each['worst_ms']:.1f}",
            )
            for what, each in (
                ("no snapshot in the making", steady["without"]),
                ("one in the making", steady["beside"]),
            )
        ],
    )


def _restarts(rest: Json) -> str:
    since = rest["since"]
    listed = (
        ("right after a snapshot", 0, rest["rounds"][0]["large"]["start"]),
        ("some time after one", since["records_since"], since["start"]),
    )
    head = ("restart", "records in all", "since the snapshot", "seconds", "memory MiB")
    return table(
        head,
        [
            (
                what,
                f"{start['records']:,}",
                f"{records:,}",
                f"{start['seconds']:.2f}",
                f"{start['rss_anon_mib']:,.0f}",
            )
            for what, records, start in listed
        ],
    )


def _reads(since: Json, replay: Json) -> str:
    reads, commands = since["reads"], since["commands"]
    rows = [
        (
            "a random cell, by a reader that is open",
            f"p50 {reads['ms']['p50']:.2f} ms, p99 {reads['ms']['p99']:.2f} ms",
            f"{reads['rss_anon_mib']:,.0f}",
        ),
        (
            f"opening that reader, {since['records_since']:,} records after the snapshot",
            f"{reads['open_s']:.2f} s",
            NOTHING,
        ),
        (
            "`aos inspect cell`, from its start to its end",
            f"{commands['seconds']:.2f} s",
            f"{commands['rss_anon_mib']:,.0f}",
        ),
        (
            f"`aos replay --from snapshot`: {replay['records']:,} records executed again",
            f"{replay['seconds']:.1f} s, {replay['records'] / replay['seconds']:,.0f}/s",
            f"{replay['rss_anon_mib']:,.0f}",
        ),
    ]
    return table(("while the world runs", "time", "memory MiB"), rows)


def _pin(pin: Json) -> str:
    head = ("`aos apply --mode pin`", "instances that wait", "seconds", "of the process's CPU")
    return table(
        head,
        [("while the world runs", f"{pin['waiting']:,}", f"{pin['seconds']:.2f}",
          f"{pin['cpu_s']:.2f}")],
    )  # fmt: skip


def _commands(commands: Sequence[Json]) -> str:
    return table(
        ("command", "seconds", "store before MiB", "after MiB"),
        [
            (
                f"`{each['command']}`",
                f"{each['seconds']:.1f}",
                _mib(each["bytes_before"]),
                _mib(each["bytes_after"]),
            )
            for each in commands
        ],
    )


def _mib(size: int) -> str:
    return f"{size / MIB:,.0f}"


# Aims


def rest_aims(rest: Json | None) -> list[Aim]:
    """The aims for a million cells; for a smaller world no aim counts as met."""
    is_enough = rest is not None and rest["options"]["cells"] >= EVENTS
    found = rest if is_enough else None
    return [
        _memory(found), _rate(found), _cost(found), _pause(found), _restart(found), *_pinned(found)
    ]  # fmt: skip


def _pinned(rest: Json | None) -> list[Aim]:
    """None for figures of a run before this was measured."""
    if rest is None or "pin" not in rest:
        return []
    waiting = f"{rest['pin']['waiting']:,}"
    return [_aim(f"a manifest pinned while {waiting} instances wait", f"less than {PIN_S:g} s",
        rest["pin"]["cpu_s"], words=lambda x: f"{x:.2f} s of CPU",
        is_met=lambda x: x < PIN_S)]  # fmt: skip


def _memory(rest: Json | None) -> Aim:
    most = None if rest is None else max(each["large"]["own_mib"] for each in rest["rounds"])
    return _aim("memory while random cells take steps", f"at most {MEMORY_MIB} MiB", most,
        words=lambda x: f"{x:,.0f} MiB", is_met=lambda x: x <= MEMORY_MIB)  # fmt: skip


def _rate(rest: Json | None) -> Aim:
    rates = {} if rest is None else {
        name: median([each[name]["rate"] for each in rest["rounds"]]) for name in ("small", "large")
    }  # fmt: skip
    return _aim("random steps, against a world of 10,000 cells", f"at least {RATE_RATIO:g} times",
        ratio(rates.get("large"), rates.get("small")),
        words=lambda x: f"{x:.2f} times: {rates['large']:,.0f}/s and {rates['small']:,.0f}/s",
        is_met=lambda x: x >= RATE_RATIO)  # fmt: skip


def _cost(rest: Json | None) -> Aim:
    """How much dearer a changed cell is in the largest snapshot than in the one before it."""
    worst = None
    if rest is not None:
        before, last = rest["snapshots"][-2:]
        worst = max(
            (last[name] / last["changed"]) / (before[name] / before["changed"])
            for name in ("seconds", "bytes")
        )
    return _aim("a snapshot's time and bytes for each cell that changed, 10 % of them against 1 %",
        "at most 1 times", worst, words=lambda x: f"{x:.2f} times",
        is_met=lambda x: x <= 1)  # fmt: skip


def _pause(rest: Json | None) -> Aim:
    p99 = {} if rest is None else {
        name: rest["steady"][name]["accept_ms"]["p99"] for name in ("without", "beside")
    }  # fmt: skip
    return _aim("p99 until an event is durable while a snapshot is made, against without",
        f"at most {PAUSE_RATIO:g} times", ratio(p99.get("beside"), p99.get("without")),
        words=lambda x: f"{x:.2f} times: {p99['beside']:.1f} ms and {p99['without']:.1f} ms",
        is_met=lambda x: x <= PAUSE_RATIO)  # fmt: skip


def _restart(rest: Json | None) -> Aim:
    seconds = None if rest is None else rest["since"]["start"]["seconds"]
    records = 0 if rest is None else rest["since"]["records_since"]
    return _aim("restart of a million cells, as far from a snapshot as can be",
        f"less than {RESTART_S:g} s", seconds,
        words=lambda x: f"{x:.1f} s, {records:,} records after the snapshot",
        is_met=lambda x: x < RESTART_S)  # fmt: skip


def _aim(what: str, aim: str, value: float | None, *, words: Any, is_met: Any) -> Aim:
    return Aim(
        what=what,
        aim=aim,
        found="not measured" if value is None else words(value),
        is_met=None if value is None else is_met(value),
    )
