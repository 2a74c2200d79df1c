"""Figures of the page and its index -> tables and aims. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from benchmarks.aims import NOT_MEASURED, Aim
from benchmarks.figures import median
from benchmarks.markdown import about, table

Json = Mapping[str, Any]

P95_MS: Final = 200
FLAT: Final = 3.0
FLAT_MS: Final = 10
"""Below this, a page of the large world is flat whatever the small one takes."""

FILL_RATIO: Final = 0.5
RECORD_BYTES: Final = 200
MEMORY_MIB: Final = 300
RATE_RATIO: Final = 0.9
LIST_KIB: Final = 200
STATIC_KIB: Final = 60
IN_FLIGHT: Final = (1, 64)

SHAPE: Final = """\
Lists, timelines and traces come from the index of the world (`spec/index.md`), so they take as long
in a world of a million cells as in one of ten thousand. The time of a page is that of its whole
request, one after the other over one connection: the page's process, a reader process, and the
template."""


def page_tables(page: Json) -> str:
    """Return the tables of a run."""
    fold, fill = page["fold"], page["fill"]
    small, large = (page["pages"][size] for size in ("small", "large"))
    rows = [
        [
            each["page"],
            f"{before['p50_ms']:.1f}, {before['p95_ms']:.1f}",
            f"{each['p50_ms']:.1f}, {each['p95_ms']:.1f}",
            f"{each['bytes'] / 1024:.0f}",
            str(each["refused"] + before["refused"]),
        ]
        for before, each in zip(small["pages"], large["pages"], strict=True)
    ]
    columns = [
        "page", f"{small['cells']:,} cells: p50, p95 ms", f"{large['cells']:,} cells: p50, p95 ms",
        "KiB at most", "not 200",
    ]  # fmt: skip
    made = [
        ["fold", f"{fold['records']:,}", f"{fold['rate']:,.0f}", "", ""],
        [
            "index", f"{fill['records']:,}", f"{fill['rate']:,.0f}",
            f"{fill['bytes'] / fill['records']:.0f}", f"{fill['own_mib']:.0f}",
        ],
    ]  # fmt: skip
    commands = [
        [each["command"], f"{each['indexed_s']:.2f}", f"{each['plain_s']:.2f}"]
        for each in page["commands"]
    ]
    running = [
        [str(each["in_flight"]), f"{each['without']:,.0f}", f"{each['with']:,.0f}"]
        for each in page["running"]
    ]
    return "\n\n".join(
        [
            about(page),
            SHAPE,
            "### The index",
            table(["", "records", "records/s of CPU", "bytes a record", "memory, MiB"], made),
            "### Pages",
            table(columns, rows),
            "### Commands",
            table(["command", "with the index, s", "without it, s"], commands),
            "### A running world, and readers who look at a page a second each",
            table(["in flight", "events/s without", "with readers"], running),
        ]
    )


def page_aims(page: Json | None) -> list[Aim]:
    """Return the aims of a run, or of none."""
    return [
        _slowest(page),
        _flat(page),
        _aim(page, "the index of a world: rate against that of a fold", "at least 0.5 times",
             lambda found: found["fill"]["rate"] / found["fold"]["rate"],
             lambda each: each >= FILL_RATIO, "{:.2f} times"),
        _aim(page, "the index of a world: bytes a record", f"at most {RECORD_BYTES}",
             lambda found: found["fill"]["bytes"] / found["fill"]["records"],
             lambda each: each <= RECORD_BYTES, "{:.0f}"),
        _aim(page, "the index of a world: memory of the process that fills it",
             f"at most {MEMORY_MIB} MiB", lambda found: found["fill"]["own_mib"],
             lambda each: each <= MEMORY_MIB, "{:.0f} MiB"),
        *(
            _aim(page, f"a running world with ten readers, {number} in flight: rate against that "
                 "without them", f"at least {RATE_RATIO} times", _rate(number),
                 lambda each: each >= RATE_RATIO, "{:.2f} times")
            for number in IN_FLIGHT
        ),
        _aim(page, "the page: HTML of a list", f"at most {LIST_KIB} KiB", _list_kib,
             lambda each: each <= LIST_KIB, "{:.0f} KiB"),
        _aim(page, "the page: style and script", f"at most {STATIC_KIB} KiB",
             lambda found: found["pages"]["large"]["static"] / 1024,
             lambda each: each <= STATIC_KIB, "{:.0f} KiB"),
    ]  # fmt: skip


def _aim(  # noqa: PLR0917
    page: Json | None, what: str, aim: str, read: Any, is_met: Any, words: str
) -> Aim:
    if page is None:
        return Aim(what=what, aim=aim, found=NOT_MEASURED, is_met=None)
    found = read(page)
    return Aim(what=what, aim=aim, found=words.format(found), is_met=is_met(found))


def _slowest(page: Json | None) -> Aim:
    what = "each kind of page of a world of a million cells: p95"
    aim = f"below {P95_MS} ms"
    if page is None:
        return Aim(what=what, aim=aim, found=NOT_MEASURED, is_met=None)
    pages = page["pages"]["large"]["pages"]
    worst = max(pages, key=lambda each: each["p95_ms"])
    refused = sum(each["refused"] for each in pages)
    found = f"{worst['p95_ms']:.0f} ms at most ({worst['page']})"
    if refused:
        found += f"; {refused} pages were refused"
    return Aim(what=what, aim=aim, found=found, is_met=worst["p95_ms"] < P95_MS and not refused)


def _flat(page: Json | None) -> Aim:
    what = "each kind of page: p95 against that of a world with a hundredth of the cells"
    aim = f"at most {FLAT:.0f} times, or {FLAT_MS} ms"
    if page is None:
        return Aim(what=what, aim=aim, found=NOT_MEASURED, is_met=None)
    pairs = zip(page["pages"]["small"]["pages"], page["pages"]["large"]["pages"], strict=True)
    ratios = [
        (each["p95_ms"] / before["p95_ms"], each["page"])
        for before, each in pairs
        if each["p95_ms"] > FLAT_MS
    ]
    worst, name = max(ratios, default=(0.0, "none"))
    return Aim(what=what, aim=aim, found=f"{worst:.1f} times ({name})", is_met=worst <= FLAT)


def _rate(number: int) -> Any:
    def read(page: Json) -> float:
        rows = [each for each in page["running"] if each["in_flight"] == number]
        return median([each["with"] / each["without"] for each in rows])

    return read


def _list_kib(page: Json) -> float:
    pages = page["pages"]["large"]["pages"]
    size: int = max(each["bytes"] for each in pages if each["page"].startswith("cells"))
    return size / 1024
