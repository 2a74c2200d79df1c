"""The parts of the page that only a node has (spec/page.md, PG-60 to PG-70): further pages, forms
and buttons, each for callers that may use it.

/w/ID/batch/nightly-retry ──▶ read_batch {"id": "nightly-retry"} ──▶ batch.html
                              aos batch show nightly-retry
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from aos.core.journal.inputs import RETRY, SKIP, UNPIN
from aos.errors import AosError
from aos.manifest.schedules import SCHEDULE
from aos.node.access import check_scope
from aos.node.problems import text_for_clients
from aos.node.services import Services
from aos.node.tokens import OPERATE, READ, SEND
from aos.page.batch_forms import BulkForm, StopForm
from aos.page.cluster_forms import CLUSTER, DrainForm, MoveForm, UndoMoveForm
from aos.page.command_forms import CancelForm, CellForm, RunAgainForm
from aos.page.page_buttons import PageButtons
from aos.page.page_forms import PageForm, PageForms, Visit
from aos.page.page_links import PageLinks, read_id_segment
from aos.page.page_table import Page, Path, TargetQuery, has_workflow, one_word
from aos.page.page_world import PageWorld
from aos.page.send_form import SendForm, SendLinks
from aos.read.views.view import View

SCHEDULES: Final = "/schedules"

CHECK_S: Final = 3.0
"""Seconds for which the page of a cluster waits for the findings of a check."""

HALTED_SHOWN: Final = 100
"""Held and parked effects that the page of tasks shows."""


def _schedule_target(_view: View, path: Path) -> TargetQuery:
    return {"id": read_id_segment(path["key"], "schedule")}


NODE_PAGES: Final[tuple[Page, ...]] = (
    Page(
        template="tasks", title="Tasks", path="/tasks", operation="list_tasks",
        command=("tasks", "list"),
    ),
    Page(
        template="schedules", title="Schedules", path=SCHEDULES, operation="read_schedules",
    ),
    Page(
        template="schedule", title="Schedule", path="/schedule/{key}",
        operation="read_schedule", target=_schedule_target,
    ),
    Page(
        template="batches", title="Batches", path="/batches", operation="read_batches",
    ),
    Page(
        template="batch", title="Batch", path="/batch/{word}", operation="read_batch",
        target=one_word("id"),
    ),
    Page(
        template="cluster", title="Cluster", path=CLUSTER, operation="read_cluster",
    ),
)  # fmt: skip
"""The pages that only a node has: tasks, schedules, batches (PG-65), the cluster (CL-320)."""

NODE_NAVIGATION: Final[tuple[tuple[str, str, str], ...]] = (
    ("Tasks", "/tasks", OPERATE),
    ("Schedules", SCHEDULES, READ),
    ("Batches", "/batches", READ),
    ("Cluster", CLUSTER, READ),
    ("Send an event", "/send", SEND),
)
"""Their entries of the navigation, with the scope of a caller who may open them. That of the
schedules is left out if the manifest in force has none, that of the cluster if the world is
embedded."""


def forms_of(services: Services) -> tuple[PageForm, ...]:
    """Return the forms of a node's page."""
    return (
        *(CellForm(services, action) for action in (RETRY, SKIP, UNPIN)),
        CancelForm(services),
        RunAgainForm(services),
        *(BulkForm(services, action) for action in (RETRY, SKIP)),
        StopForm(services),
        MoveForm(services),
        UndoMoveForm(services),
        DrainForm(services),
        SendForm(services),
    )


class NodeParts:
    """These parts. ``pages`` are further rows of the table of pages."""

    pages: tuple[Page, ...] = NODE_PAGES

    def __init__(self, services: Services, forms: PageForms) -> None:
        self._services = services
        self.forms = forms

    def check(self, page: Page, visit: Visit) -> None:
        """Check that a caller may see a page. Raises: Problem: The scope is missing (403)."""
        check_scope(visit.caller, page.route)

    def check_query(self, page: Page, visit: Visit, query: Mapping[str, Any]) -> None:
        """Check that a caller may ask for this: those that may operate the world see the others of
        its servers, too (CL-322). Raises as ``check``."""
        if page.template == "cluster" and query.get("all", False):
            check_scope(visit.caller, replace(page.route, scope=OPERATE))

    async def additions(
        self, page: Page, world: PageWorld, world_option: Sequence[str]
    ) -> dict[str, object]:
        """Return what a page shows in addition to its document: with the tasks, why effects are
        held or parked, also those of the process that runs the world, which are no tasks; with the
        cluster, the findings of a check."""
        if page.template == "cluster" and self._services.is_replica:
            return {
                **await _check_parts(world),
                "check_command": ["aos", "cluster", "check", *world_option],
            }
        if page.template != "tasks":
            return {}
        query = {"parked": True, "limit": HALTED_SHOWN, "offset": 0}
        return {"halted": await world.document("read_intents", query)}

    def navigation(self, visit: Visit) -> list[tuple[str, str]]:
        """Return the entries of the navigation that only a node has and a caller may open."""
        return [
            (title, path)
            for title, path, scope in NODE_NAVIGATION
            if visit.caller.allows(scope) and self._has(path)
        ]

    def _has(self, path: str) -> bool:
        """Return whether the world has what a page is about."""
        match path:
            case "/schedules":
                return has_workflow(self._services.follower.state, SCHEDULE)
            case "/cluster":
                return self._services.is_replica
        return True

    def buttons(self, visit: Visit, links: PageLinks) -> PageButtons | None:
        """Return the buttons of a page; None for a caller who may not operate."""
        if not visit.caller.allows(OPERATE):
            return None
        return PageButtons(links, signs=self._services.has_operator_key)

    def sender(self, visit: Visit, links: PageLinks) -> SendLinks | None:
        """Return the links to forms of events; None for a caller who may not send."""
        if not visit.caller.allows(SEND):
            return None
        manifest = self._services.follower.state.manifest
        return SendLinks(links, manifest, visit.caller)


async def _check_parts(world: PageWorld) -> dict[str, object]:
    """The findings of a check, if it ends soon; else it runs on for the next request."""
    try:
        async with asyncio.timeout(CHECK_S):
            check = await world.document("read_cluster_check", {})
    except TimeoutError:
        return {"check": None, "check_problem": "The check is still in progress."}
    except AosError as problem:
        return {"check": None, "check_problem": text_for_clients(problem, world.user_path)}
    return {"check": check, "check_problem": None}
