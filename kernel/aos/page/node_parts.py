"""The parts of the page that only a node has (spec/page.md, PG-60 to PG-70): further pages, forms
and buttons, each for callers that may use it.

/w/ID/batch/nightly-retry ──▶ read_batch {"id": "nightly-retry"} ──▶ batch.html
                              aos batch show nightly-retry
"""

from __future__ import annotations

from typing import Final

from aos.core.journal.inputs import RETRY, SKIP, UNPIN
from aos.manifest.schedules import SCHEDULE
from aos.node.access import check_scope
from aos.node.services import Services
from aos.node.tokens import OPERATE, READ, SEND
from aos.page.batch_forms import BulkForm, StopForm
from aos.page.command_forms import CancelForm, CellForm, RunAgainForm
from aos.page.page_buttons import PageButtons
from aos.page.page_forms import PageForm, PageForms, Visit
from aos.page.page_links import PageLinks, read_id_segment
from aos.page.page_table import Page, Path, TargetQuery, has_workflow, one_word
from aos.page.page_world import PageWorld
from aos.page.send_form import SendForm, SendLinks
from aos.read.views.view import View

SCHEDULES: Final = "/schedules"

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
)  # fmt: skip
"""The pages that only a node has: tasks, schedules, batches (PG-65)."""

NODE_NAVIGATION: Final[tuple[tuple[str, str, str], ...]] = (
    ("Tasks", "/tasks", OPERATE),
    ("Schedules", SCHEDULES, READ),
    ("Batches", "/batches", READ),
    ("Send an event", "/send", SEND),
)
"""Their entries of the navigation, with the scope of a caller who may open them. That of the
schedules is left out if the manifest in force has none."""


def forms_of(services: Services) -> tuple[PageForm, ...]:
    """Return the forms of a node's page."""
    return (
        *(CellForm(services, action) for action in (RETRY, SKIP, UNPIN)),
        CancelForm(services),
        RunAgainForm(services),
        *(BulkForm(services, action) for action in (RETRY, SKIP)),
        StopForm(services),
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

    async def additions(self, page: Page, world: PageWorld) -> dict[str, object]:
        """Return what a page shows in addition to its document: with the tasks, why effects are
        held or parked, also those of the process that runs the world, which are no tasks."""
        if page.template != "tasks":
            return {}
        query = {"parked": True, "limit": HALTED_SHOWN, "offset": 0}
        return {"halted": await world.document("read_intents", query)}

    def navigation(self, visit: Visit) -> list[tuple[str, str]]:
        """Return the entries of the navigation that only a node has and a caller may open."""
        return [
            (title, path)
            for title, path, scope in NODE_NAVIGATION
            if visit.caller.allows(scope)
            and (path != SCHEDULES or has_workflow(self._services.follower.state, SCHEDULE))
        ]

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
