"""The manifests that a world has had, of which two are compared (spec/page.md, PG-91)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aos.audit.views.record_view import Document
from aos.core.journal.records import Manifest
from aos.page.page_world import PageWorld, if_readable

VERSIONS_MAX: Final = 100
"""The most manifests that are listed. The journal has all of them."""


async def compared_versions(
    world: PageWorld, document: Document, query: Mapping[str, Any]
) -> dict[str, object]:
    """Return what these pages show besides their document ``document``: ``versions``, whether these
    are all, the two that are ``compared``, and of each record that was ``query`` that of the
    manifest that was in force after it."""
    at = query.get("at")
    is_page_of_one = "since" not in query
    versions = await _versions(world, at if is_page_of_one else None)
    if is_page_of_one:
        earlier = versions[1]["seq"] if versions and len(versions) > 1 else None
        return {**_version_values(versions), "compared": (earlier, at and document["record"])}
    since, now = document["since"]["record"], document["now"]["record"]
    records = [(query["since"], since), *([] if at is None else [(at, now)])]
    return {**_version_values(versions), "compared": (since, now), "compared_records": records}


def _version_values(versions: list[Document] | None) -> dict[str, object]:
    is_all = versions is not None and len(versions) < VERSIONS_MAX
    return {"versions": versions, "versions_are_all": is_all}


async def _versions(world: PageWorld, at: int | None) -> list[Document] | None:
    """Return the records of the manifests up to record ``at``, or up to now, the newest first: the
    document of ``aos inspect journal --kind manifest``. None if it cannot be read now."""
    query: dict[str, Any] = {"kind": [Manifest.KIND], "limit": VERSIONS_MAX}
    if at is not None:
        query["to"] = at
    document = await if_readable(world.document("read_records", query))
    return None if document is None else document["records"][::-1]
