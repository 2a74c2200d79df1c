"""The parts of the page that only a node has (spec/page.md, PG-60 to PG-70): further pages, forms
and buttons, each for callers that may use it."""

from __future__ import annotations

from aos.core.journal.inputs import RETRY, SKIP, UNPIN
from aos.node.access import check_scope
from aos.node.services import Services
from aos.node.tokens import OPERATE, SEND
from aos.page.command_forms import CancelForm, CellForm, RunAgainForm
from aos.page.page_buttons import PageButtons
from aos.page.page_forms import PageForm, PageForms, Visit
from aos.page.page_links import PageLinks
from aos.page.page_table import NAVIGATION, NODE_NAVIGATION, NODE_PAGES, Page
from aos.page.send_form import SendForm, SendLinks, routed


def forms_of(services: Services) -> tuple[PageForm, ...]:
    """Return the forms of a node's page."""
    return (
        *(CellForm(services, action) for action in (RETRY, SKIP, UNPIN)),
        CancelForm(services),
        RunAgainForm(services),
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

    def navigation(self, visit: Visit) -> list[tuple[str, str]]:
        """Return the entries of the navigation that a caller may open."""
        return [
            *NAVIGATION,
            *(
                (title, path)
                for title, path, scope in NODE_NAVIGATION
                if visit.caller.allows(scope)
            ),
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
        return SendLinks(links, routed(manifest, visit.caller))
