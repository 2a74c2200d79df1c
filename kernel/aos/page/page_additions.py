"""The pictures and further documents that a page shows next to the document that it is the view of.

cell        its timeline and last step, from its trace; the flow or the linear instance that it is
proposal    the shadow report over most records, and the patch
manifest    its graph, and the manifests before it
journal     the times of records that have no stamp
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aos.audit.views.record_view import Document
from aos.page.cell_steps import cell_step
from aos.page.cell_timeline import cell_timeline
from aos.page.journal_stamps import stamps_before
from aos.page.manifest_versions import compared_versions
from aos.page.minutes_picture import minutes_picture
from aos.page.page_graphs import manifest_graph, trace_graph
from aos.page.page_links import PageLinks
from aos.page.page_world import PageWorld, if_readable
from aos.page.proposal_parts import proposal_parts
from aos.page.world_parts import cell_parts


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


async def additions(page: ShownPage) -> dict[str, object]:
    """Return the further values of a page. A document that cannot be read now is left out."""
    world, document = page.world, page.document
    match page.template:
        case "cell":
            return {**await _of_trace(page), **await cell_parts(world, page.query, page.path)}
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


async def _of_trace(page: ShownPage) -> dict[str, object]:
    """The timeline and the last step of a cell as it is now."""
    trace = None
    if "at" not in page.query:
        trace = await if_readable(page.world.document("read_trace", page.query))
    if trace is None:
        return {"timeline": None, "last": None}
    return {"timeline": cell_timeline(trace), "last": cell_step(trace, None)}
