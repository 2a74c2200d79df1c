"""The pictures and further documents that a page shows next to the document that it is the view of.

cell        its timeline and last step, from its trace; the flow or the linear instance that it is
proposal    the shadow report over most records, and the patch
manifest    its graph, and the manifests before it
journal     the times of records that have no stamp
world       the records of each minute of the last hour, as bars
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aos.core.journal.records import Manifest
from aos.errors import AosError, Pruned
from aos.node.problems import Problem
from aos.node.reading import ListTime
from aos.page.cell_timeline import cell_step, cell_timeline
from aos.page.page_graphs import manifest_graph, trace_graph
from aos.page.page_links import PageLinks
from aos.page.page_table import cell_parts
from aos.page.page_world import PageWorld, if_readable
from aos.read.lens.words import as_json
from aos.read.views.journal_view import MINUTE_NS, MINUTES
from aos.read.views.record_view import Document
from aos.read.views.view import View

VERSIONS_MAX: Final = 100
"""The most manifests that are listed. The journal has all of them."""

PATCH_BYTES_MAX: Final = 64 * 1024
"""A longer patch is not shown; its bytes can be downloaded."""

BAR_WIDTH: Final = 10
HEIGHT: Final = 60
LEAST: Final = 2
"""Height of a bar with few records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPage:
    """A page with its document ``document``. ``query`` is that of the document, ``page_query`` that
    of the request, ``path`` the segments of its address."""

    world: PageWorld
    template: str
    query: Mapping[str, Any]
    page_query: Mapping[str, Any]
    path: Mapping[str, str]
    document: Document
    links: PageLinks


@dataclass(frozen=True, slots=True)
class MinuteBar:
    """The bar of one minute; the minute begins at ``at_ns``."""

    x: int
    y: int
    height: int
    at_ns: int
    records: int


@dataclass(frozen=True, slots=True)
class MinutesPicture:
    """The bars of the last hour. Its last minute is that of the latest record."""

    bars: tuple[MinuteBar, ...]
    records_max: int
    total: int
    width: int = MINUTES * BAR_WIDTH
    height: int = HEIGHT
    bar_width: int = BAR_WIDTH - 2


async def additions(page: ShownPage) -> dict[str, object]:
    """Return the further values of a page. A document that cannot be read now is left out."""
    world, document = page.world, page.document
    match page.template:
        case "cell":
            return {**await _trace_parts(page), **await cell_parts(world, page.query, page.path)}
        case "trace" if "workflow" in page.query:
            return {"timeline": cell_timeline(document), "graph": None}
        case "trace":
            return {"timeline": None, "graph": trace_graph(document["roots"], page.links)}
        case "steps":
            return {"step": cell_step(document, page.page_query.get("step"))}
        case "manifest":
            versions = await compared_versions(world, document, page.page_query)
            return {"graph": manifest_graph(document, page.links), **versions}
        case "difference":
            return await compared_versions(world, document, page.page_query)
        case "proposal":
            return await proposal_parts(world, document)
        case "journal":
            seqs = [record["seq"] for record in document["records"] if "at_ns" not in record]
            stamps = await if_readable(world.read(lambda view: stamps_before(view, seqs)))
            return {"stamps": stamps or {}}
        case "world":
            minutes = None if "at" in page.query else await world.minutes()
            return {"minutes": None if minutes is None else minutes_picture(minutes["minutes"])}
    return {}


async def _trace_parts(page: ShownPage) -> dict[str, object]:
    """The timeline and the last step of a cell as it is now."""
    trace = None
    if "at" not in page.query:
        trace = await if_readable(page.world.document("read_trace", page.query))
    if trace is None:
        return {"timeline": None, "last": None}
    return {"timeline": cell_timeline(trace), "last": cell_step(trace, None)}


async def compared_versions(
    world: PageWorld, document: Document, query: Mapping[str, Any]
) -> dict[str, object]:
    """Return the further values of a page that compares manifests (PG-91): ``versions``, the
    manifests that the world has had, whether these are all, the two that are ``compared``, and of
    each record that was ``query`` that of the manifest that was in force after it. ``document`` is
    that of the page."""
    at = query.get("at")
    is_page_of_one = "since" not in query
    versions = await _manifest_versions(world, at if is_page_of_one else None)
    if is_page_of_one:
        earlier = versions[1]["seq"] if versions and len(versions) > 1 else None
        return {**_version_values(versions), "compared": (earlier, at and document["record"])}
    since, now = document["since"]["record"], document["now"]["record"]
    records = [(query["since"], since), *([] if at is None else [(at, now)])]
    return {**_version_values(versions), "compared": (since, now), "compared_records": records}


def _version_values(versions: list[Document] | None) -> dict[str, object]:
    is_all = versions is not None and len(versions) < VERSIONS_MAX
    return {"versions": versions, "versions_are_all": is_all}


async def _manifest_versions(world: PageWorld, at: int | None) -> list[Document] | None:
    """Return the records of the manifests up to record ``at``, or up to now, the newest first: the
    document of ``aos inspect journal --kind manifest``. None if it cannot be read now."""
    query: dict[str, Any] = {"kind": [Manifest.KIND], "limit": VERSIONS_MAX}
    if at is not None:
        query["to"] = at
    document = await if_readable(world.document("read_records", query))
    return None if document is None else document["records"][::-1]


async def proposal_parts(world: PageWorld, proposal: Document) -> dict[str, object]:
    """Return the ``report`` over most records, or the ``report_problem`` for which it cannot be
    shown, and the ``patch``; each is None if there is none (PG-92)."""
    report = problem = None
    reports = [candidate for candidate in proposal["reports"] if candidate["records"] is not None]
    if reports:
        widest = max(reports, key=lambda candidate: (candidate["records"], candidate["seq"]))
        query = {"proposal": proposal["proposal"], "report": widest["hash"]}
        try:
            report = await world.document("read_proposal", query)
        except (AosError, Problem) as error:
            problem = str(error)
    return {
        "report": report,
        "report_problem": problem,
        "patch": await _shown_patch(world, proposal),
    }


async def _shown_patch(world: PageWorld, proposal: Document) -> Any:
    if proposal["patch"] is None:
        return None
    data = await if_readable(world.bytes_of(proposal["patch"]))  # it may be erased, or collected
    return None if data is None or len(data) > PATCH_BYTES_MAX else as_json(None, data)


def stamps_before(view: View, seqs: Iterable[int]) -> dict[int, int]:
    """Return the time of each of these records, in ns, as far as the time of a list reaches and the
    journal goes back (PG-131).

    The time of a record that has no stamp of its own, such as a step, is that of the last record
    before it that has one.
    """
    limit = ListTime()
    ns_by_seq: dict[int, int] = {}
    last_seq, last_ns = 0, None
    try:
        for seq in sorted(seqs):
            ns = _stamp_before(view, seq, last_seq, limit)
            last_seq, last_ns = seq, last_ns if ns is None else ns
            if last_ns is not None:
                ns_by_seq[seq] = last_ns
    except (Problem, Pruned):
        pass  # the other rows stay without a time
    return ns_by_seq


def _stamp_before(view: View, seq: int, earlier_seq: int, limit: ListTime) -> int | None:
    """The stamp of the last record before ``seq`` and after ``earlier_seq`` that has one."""
    for candidate_seq in range(seq - 1, earlier_seq, -1):
        limit.check()
        stamp = getattr(view.records.at(candidate_seq), "stamp", None)
        if stamp is not None:
            ns: int = stamp.ns
            return ns
    return None


def minutes_picture(minutes: Sequence[Mapping[str, Any]]) -> MinutesPicture | None:
    """Return the records of each minute of the last hour as bars (PG-104); None if the document has
    no minutes. Pure."""
    if not minutes:
        return None
    records_max = max(row["records"] for row in minutes)
    first_ns = minutes[-1]["at_ns"] - (MINUTES - 1) * MINUTE_NS
    bars = []
    for minute in minutes:
        height = max(LEAST, HEIGHT * minute["records"] // records_max)
        x = (minute["at_ns"] - first_ns) // MINUTE_NS * BAR_WIDTH
        bars.append(MinuteBar(x, HEIGHT - height, height, minute["at_ns"], minute["records"]))
    return MinutesPicture(tuple(bars), records_max, sum(row["records"] for row in minutes))
