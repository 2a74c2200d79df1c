"""Figures -> ``RESULTS.md`` and its chart: ``python -m benchmarks.report``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.aims import AOS, Aim, aims, of_core, peer_figure, points_of
from benchmarks.audit.tables import audit_aims, audit_tables
from benchmarks.chart import Panel, Series, svg
from benchmarks.cluster.tables import cluster_aims, cluster_tables
from benchmarks.cores import CORE_WORDS, REFERENCE, SECOND
from benchmarks.figures import ratio
from benchmarks.flow.tables import flow_aims, flow_tables
from benchmarks.gateway.tables import gateway_aims, gateway_tables
from benchmarks.linear.tables import linear_aims, linear_tables
from benchmarks.markdown import NOTHING, about, spread, table, times
from benchmarks.node.tables import node_aims, node_tables
from benchmarks.page.tables import page_aims, page_tables
from benchmarks.rest.tables import rest_aims, rest_tables
from benchmarks.sdk.tables import sdk_aims, sdk_tables

Json = Mapping[str, Any]

HERE: Final = Path(__file__).resolve().parent
BENCH: Final = HERE / "results" / "bench.json"
PEERS: Final = HERE / "results" / "peers.json"
REST: Final = HERE / "results" / "rest.json"
SDK: Final = HERE / "results" / "sdk.json"
FLOW: Final = HERE / "results" / "flow.json"
NODE: Final = HERE / "results" / "node.json"
AUDIT: Final = HERE / "results" / "audit.json"
PAGE: Final = HERE / "results" / "page.json"
GATEWAY: Final = HERE / "results" / "gateway.json"
LINEAR: Final = HERE / "results" / "linear.json"
CLUSTER: Final = HERE / "results" / "cluster.json"
CHART: Final = HERE / "results" / "rates.svg"
NOTES: Final = HERE / "NOTES.md"
RESULTS: Final = HERE / "RESULTS.md"

TITLES: Final = {
    "counter": "A keyed counter",
    "steps": "Three effects in a row",
    "orders": "The order process",
}
ABOUT: Final = (
    "Written by `python -m benchmarks.report` from `results/*.json`, which `make bench`, "
    "`make bench-peers`, `make bench-rest`, `make bench-sdk`, "
    "`make bench-flow`, `make bench-node`, `make bench-gateway`, `make bench-audit`, "
    "`make bench-linear`, `make bench-page` and `make bench-cluster` write. "
    "`README.md` explains the measurements. Compare figures within one run: machines differ and "
    "are shared."
)
WHOLE: Final = (
    "\\* Not every caller finished an item in the window: figures are of the whole load, its first "
    "and its last item included."
)
PEER_POINTS: Final = (("fresh", 1), ("fresh", 16), ("fresh", 64), ("line", 64))
LINE_MAX: Final = 240
_DIVISION: Final = "÷"


def keep(
    found: Json,
    tables: Callable[[Json], str],
    *,
    path: Path,
    is_whole: bool,
    out: Path | None,
) -> None:
    """Print the tables of a run's figures, and write the figures to ``out``. Without it, write
    those of a whole run to ``path``, and ``RESULTS.md`` again."""
    # As it is in the file, where a tuple is a list.
    written = json.dumps(found, indent=1)
    print(kernels_tables(json.loads(written), tables))
    target = out or (path if is_whole else None)
    if target is None:
        return
    target.parent.mkdir(exist_ok=True)
    target.write_text(written + "\n")
    if target == path:
        write()


def write() -> None:
    """Write ``RESULTS.md`` and its chart from the figures that are there."""
    bench, peers = _read(BENCH), _read(PEERS)
    CHART.parent.mkdir(exist_ok=True)
    CHART.write_text(svg(panels(bench, peers)))
    found = render(
        bench,
        peers,
        NOTES.read_text(),
        rest=_read(REST),
        sdk=_read(SDK),
        flow=_read(FLOW),
        node=_read(NODE),
        gateway=_read(GATEWAY),
        audit=_read(AUDIT),
        linear=_read(LINEAR),
        page=_read(PAGE),
        cluster=_read(CLUSTER),
    )
    RESULTS.write_text(found)


def kernels_tables(figures: Json, tables: Callable[[Json], str]) -> str:
    """The tables of a run and, if it measured the reference kernel too, those of that below."""
    reference = figures.get("reference")
    if reference is None:
        return tables(figures)
    lower = tables(reference).replace("\n### ", "\n#### ")
    return f"{tables(figures)}\n\n### The same with the reference kernel\n\n{lower}"


def _read(path: Path) -> Json | None:
    if not path.exists():
        return None
    found: Json = json.loads(path.read_text())
    return found


def render(
    bench: Json | None,
    peers: Json | None,
    notes: str,
    *,
    rest: Json | None = None,
    sdk: Json | None = None,
    flow: Json | None = None,
    node: Json | None = None,
    gateway: Json | None = None,
    audit: Json | None = None,
    linear: Json | None = None,
    page: Json | None = None,
    cluster: Json | None = None,
) -> str:
    parts = [
        "# Results",
        ABOUT,
        "![Rates](results/rates.svg)",
        "## Aims",
        _aims(
            [
                *aims(bench, peers),
                *rest_aims(rest),
                *sdk_aims(sdk),
                *flow_aims(flow),
                *node_aims(node),
                *gateway_aims(gateway),
                *audit_aims(audit),
                *linear_aims(linear),
                *page_aims(page),
                *cluster_aims(cluster),
            ]
        ),
        notes.strip(),
    ]
    if peers is not None:
        parts += ["## Compared with other systems", peer_tables(peers)]
    if bench is not None:
        parts += ["## The kernel", bench_tables(bench)]
    if rest is not None:
        parts += ["## State at rest", kernels_tables(rest, rest_tables)]
    if sdk is not None:
        parts += ["## SDKs", sdk_tables(sdk)]
    if flow is not None:
        parts += ["## Flows", kernels_tables(flow, flow_tables)]
    if node is not None:
        parts += ["## A node over HTTP", kernels_tables(node, node_tables)]
    if gateway is not None:
        parts += ["## The gateway", gateway_tables(gateway)]
    if audit is not None:
        parts += ["## Audits", audit_tables(audit)]
    if linear is not None:
        parts += ["## Linear plans and search", kernels_tables(linear, linear_tables)]
    if page is not None:
        parts += ["## The page", page_tables(page)]
    if cluster is not None:
        parts += ["## Several machines", cluster_tables(cluster)]
    return "\n\n".join(part for part in parts if part) + "\n"


# Ours


def bench_tables(bench: Json) -> str:
    parts = [about(bench)]
    for workload, title in TITLES.items():
        worlds = [each for each in bench["worlds"] if each["workload"] == workload]
        if worlds:
            parts += [f"### {title}", _points(worlds)]
    parts += ["### Worlds", _worlds(bench["worlds"])]
    if bench["journals"]:
        parts += ["### Restart and replay", _journals(bench["journals"], bench["restarts"])]
    if compared := _cores(bench["worlds"]):
        parts += ["### The two kernels", compared]
    return "\n\n".join(parts)


def _points(worlds: Sequence[Json]) -> str:
    head = (
        "kernel", "cells", "load", "in flight", "rate /s", "floor /s", f"floor {_DIVISION} rate",
        "accepted p50, p99 ms", "finished p50, p99 ms", "bytes an item", "steps", "commits",
        "floor: step µs, commit ms",
    )  # fmt: skip
    rows = []
    for world in worlds:
        for point in world["points"]:
            floor = point["floor"]
            rows.append(
                (
                    CORE_WORDS[world["core"]],
                    f"{world['size']:,}",
                    _load_words(point),
                    str(point["in_flight"]),
                    f"{point['rate']:,.0f}{'*' if point['is_whole'] else ''}",
                    f"{floor['rate']:,.0f}",
                    times(ratio(floor["rate"], point["rate"])),
                    spread(point["accept_ms"]),
                    spread(point["finish_ms"]),
                    f"{point['bytes_per_item']:,.0f}",
                    f"{point['steps'] / point['all_items']:.1f}",
                    f"{point['commits'] / point['all_items']:.2f}",
                    f"{floor['step_us']:.0f}, {floor['commit_ms']:.2f}",
                )
            )
    drawn = table(head, rows)
    if not any(point["is_whole"] for world in worlds for point in world["points"]):
        return drawn
    return f"{drawn}\n\n{WHOLE}"


def _worlds(worlds: Sequence[Json]) -> str:
    head = (
        "workload", "kernel", "cells", "made /s", "records", "restart s", "records read /s",
        "memory after the start MiB", "after the load MiB", "store MiB",
    )  # fmt: skip
    rows = []
    for world in worlds:
        start, end = world["start"], world["end"]
        rows.append(
            (
                world["workload"],
                CORE_WORDS[world["core"]],
                f"{world['size']:,}",
                f"{world['make']['cells'] / world['make']['seconds']:,.0f}",
                f"{start['records']:,}",
                f"{start['seconds']:.2f}",
                f"{start['records'] / start['seconds']:,.0f}",
                f"{start['rss_anon_mib']:,.0f}",
                f"{end['rss_anon_mib']:,.0f}",
                f"{end['store_bytes'] / 2**20:,.0f}",
            )
        )
    return table(head, rows)


def _cores(worlds: Sequence[Json]) -> str:
    """Both kernels at the same points; nothing where a run had one of them."""
    head = (
        "workload", "cells", "load", "in flight", f"rate: second kernel {_DIVISION} reference",
        "finished p50", "finished p99",
    )  # fmt: skip
    references = {
        (world["workload"], world["size"], *_load_key(point)): point
        for world in of_core(worlds, REFERENCE)
        for point in world["points"]
    }
    rows = []
    for world in of_core(worlds, SECOND):
        for point in world["points"]:
            reference = references.get((world["workload"], world["size"], *_load_key(point)))
            if reference is None:
                continue
            ours, theirs = (figures["finish_ms"] or {} for figures in (point, reference))
            rows.append(
                (
                    world["workload"],
                    f"{world['size']:,}",
                    _load_words(point),
                    str(point["in_flight"]),
                    times(ratio(point["rate"], reference["rate"])),
                    times(ratio(ours.get("p50"), theirs.get("p50"))),
                    times(ratio(ours.get("p99"), theirs.get("p99"))),
                )
            )
    return table(head, rows) if rows else ""


def _load_key(point: Json) -> tuple[str, int]:
    return _load_words(point), point["in_flight"]


def _load_words(point: Json) -> str:
    return f"{point['cells']}, busy thread" if point["is_busy"] else str(point["cells"])


def _journals(journals: Sequence[Json], restarts: Sequence[Json]) -> str:
    head = (
        "workload", "kernel", "items", "records", "live items /s", "replay items /s",
        f"replay {_DIVISION} live", "replay steps /s", "restart s", "bytes a record",
    )  # fmt: skip
    rows = []
    for each in journals:
        live, replay, items = each["live"], each["replay"], each["items"]
        again = items / replay["seconds"]
        rows.append(
            (
                each["workload"],
                CORE_WORDS[each["core"]],
                f"{items:,}",
                f"{replay['records']:,}",
                f"{live['rate']:,.0f}",
                f"{again:,.0f}",
                times(ratio(again, live["rate"])),
                f"{replay['steps'] / replay['seconds']:,.0f}",
                f"{each['start']['seconds']:.2f}",
                f"{live['bytes_per_record']:,.0f}",
            )
        )
    parts = [table(head, rows)]
    for restart in restarts:
        start, live = restart["start"], restart["live"]
        parts.append(
            f"After {restart['events']:,} events in batches of 512 ({live['rate']:,.0f}/s, "
            f"{start['cells']:,} cells, {start['store_bytes'] / 2**20:,.0f} MiB of store) a "
            f"restart on the {CORE_WORDS[restart['core']]} took {start['seconds']:.2f} s and "
            f"{start['rss_anon_mib']:,.0f} MiB of memory."
        )
    return "\n\n".join(parts)


# Compared with other systems


def peer_tables(peers: Json) -> str:
    systems = list(dict.fromkeys(turn["system"] for turn in peers["turns"]))
    parts = [about(peers), _peer_rates(peers, systems), _peer_ratios(peers, systems)]
    parts.append(_side_by_side(peers))
    if peers["missing"]:
        rows = [(name, _line(why)) for name, why in peers["missing"].items()]
        parts.append(table(("not measured", "why"), rows))
    return "\n\n".join(part for part in parts if part)


def _side_by_side(peers: Json) -> str:
    """A cell of ours can have several runs in parallel; a key of the other systems cannot."""
    rate, p50 = (peer_figure(peers, AOS, "hot", 64, name) for name in ("rate", "p50"))
    if not rate or not p50:
        return ""
    return (
        "One hot key takes one run at a time, and the others wait: all systems can do this. A cell "
        f"of AOS can also have several runs in parallel: {rate:,.0f}/s with 64 in flight, p50 "
        f"{p50:.1f} ms."
    )


def _peer_rates(peers: Json, systems: Sequence[str]) -> str:
    head = ("three effects", *(f"{_load(*each)}: rate /s; p50, p99 ms" for each in PEER_POINTS))
    rows = []
    for system in systems:
        cells = []
        for kind, in_flight in PEER_POINTS:
            rate, p50, p99 = (
                peer_figure(peers, system, kind, in_flight, name) for name in ("rate", "p50", "p99")
            )
            cells.append(
                NOTHING if not rate or not p50 or not p99 else f"{rate:,.0f}; {p50:.1f}, {p99:.1f}"
            )
        rows.append((system, *cells))
    return table(head, rows)


def _peer_ratios(peers: Json, systems: Sequence[str]) -> str:
    head = ("AOS against", *(f"{_load(*each)}: rate; p50" for each in PEER_POINTS))
    rows = []
    for system in systems:
        if system == AOS:
            continue
        cells = []
        for kind, in_flight in PEER_POINTS:
            rate, p50 = (
                ratio(
                    peer_figure(peers, AOS, kind, in_flight, name),
                    peer_figure(peers, system, kind, in_flight, name),
                )
                for name in ("rate", "p50")
            )
            cells.append(f"{times(rate)}; {times(p50)}")
        rows.append((system, *cells))
    return table(head, rows)


def _load(kind: str, in_flight: int) -> str:
    return f"one hot key, {in_flight}" if kind == "line" else f"{in_flight} in flight"


# The chart


def panels(bench: Json | None, peers: Json | None) -> list[Panel]:
    found = []
    if peers is not None:
        systems = list(dict.fromkeys(turn["system"] for turn in peers["turns"]))
        found.append(
            Panel(
                title="Three effects in a row: finished a second",
                groups=tuple(_load(*each) for each in PEER_POINTS),
                series=tuple(
                    Series(
                        name=system,
                        values=tuple(
                            peer_figure(peers, system, kind, number, "rate")
                            for kind, number in PEER_POINTS
                        ),
                    )
                    for system in systems
                ),
            )
        )
    worlds = [] if bench is None else of_core(bench["worlds"], SECOND)
    for workload in ("counter", "steps"):
        points = points_of(worlds, workload, cells="many", is_busy=False)
        if points:
            found.append(
                Panel(
                    title=f"{TITLES[workload]}: finished a second, and the floor of the same run",
                    groups=tuple(f"{each['in_flight']} in flight" for each in points),
                    series=(
                        Series(name=AOS, values=tuple(each["rate"] for each in points)),
                        Series(
                            name="bare WASM calls and LMDB commits",
                            values=tuple(each["floor"]["rate"] for each in points),
                        ),
                    ),
                )
            )
    return found


# Words


def _aims(found: Sequence[Aim]) -> str:
    words = {True: "yes", False: "no", None: NOTHING}
    rows = [(each.what, each.aim, each.found, words[each.is_met]) for each in found]
    return table(("what", "aim", "found", "met"), rows)


def _line(text: str) -> str:
    """A cell of a table: one line, not too long."""
    words = " ".join(text.split()).replace("|", "/")
    return words if len(words) <= LINE_MAX else words[: LINE_MAX - 1] + "…"


if __name__ == "__main__":
    write()
