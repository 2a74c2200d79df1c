"""The page of a node: the same pages, read through the front (spec/page.md, PG-50 to PG-53).

    python -m aos.page.node_page

is the program of a node's front with the page at ``/``: ``aos.node.front`` with further paths.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from aos.core.state.state import State
from aos.errors import AosError
from aos.host.follower import Follower
from aos.node.application import App, serves_path
from aos.node.front import main
from aos.node.problems import text_for_clients
from aos.node.reading import BY_NAME as READ_REQUESTS
from aos.node.routes import ROUTES
from aos.node.services import Services
from aos.node.tokens import OWNER
from aos.page.node_parts import NodeParts, forms_of
from aos.page.page_app import LIVE, PageApp, Receive, Scope, Send
from aos.page.page_calls import api_document
from aos.page.page_forms import FormTokens, PageForms
from aos.page.page_session import NodeSession
from aos.page.page_world import PageWorld
from aos.page.page_worlds import SLUG_DIGITS, PageWorlds
from aos.private_memory import keep_memory_private
from aos.read.views.record_view import Document

OPERATION: Final = "page"
"""The operation of metrics that counts the requests of the page."""

LIVE_OPERATION: Final = "page_live"
"""The operation that counts its streams, which last long."""

_API: Final = {route.operation: route for route in ROUTES}


class NodePage:
    """An ASGI application: the API where it has a path, and the page everywhere else."""

    def __init__(self, app: App, services: Services) -> None:
        self._app = app
        tokens = FormTokens()
        session = NodeSession(services, tokens)
        forms = PageForms(forms_of(services), tokens, services.bodies, session.browser_of)
        self._page = PageApp(
            _NodeWorlds(services), session, hidden=services.folder.path,
            node=NodeParts(services, forms),
            root="" if services.mount is None else services.mount.prefix,
        )  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if serves_path(path) or scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, sent, began = 499, 0, time.perf_counter()

        async def counted(message: MutableMapping[str, Any]) -> None:
            nonlocal status, sent
            status = message.get("status", status)
            sent += len(message.get("body", b""))
            await send(message)

        self._app.requests += 1  # a front that stops answers them, too
        try:
            await self._page(scope, receive, counted)
        finally:
            self._app.requests -= 1
            seconds = time.perf_counter() - began
            operation = LIVE_OPERATION if path.endswith(LIVE) else OPERATION
            self._app.state.counters.answered(operation, status, seconds)
            self._app.log.write(
                method=scope["method"],
                path=path,
                status=status,
                seconds=seconds,
                received=0,
                sent=sent,
                token=_name_of(scope),
                peer=(scope.get("client") or ("", 0))[0],
            )


def _name_of(scope: Scope) -> str | None:
    """The name of the token that sent a form. Requests that only read are logged without it."""
    visit = scope.get("visit")
    return visit.caller.name if visit is not None and scope["method"] == "POST" else None


class _NodeWorlds(PageWorlds):
    """The one world of a node."""

    def __init__(self, services: Services) -> None:
        super().__init__(())
        self._folder = services.folder.path
        world = _NodeWorld(services)
        self._worlds[world.slug] = world

    def sentence(self, error: AosError) -> str:
        return text_for_clients(error, self._folder)

    def _find_replaced(self) -> None:
        """A node holds the lock of its world, which stays where it is."""


class _NodeWorld(PageWorld):
    """The world of a node, read through the services of its front."""

    def __init__(self, services: Services) -> None:
        folder, mount = services.folder, services.mount
        slug = folder.world.hex()[:SLUG_DIGITS] if mount is None else mount.name
        super().__init__(folder, user_path=folder.path, slug=slug)
        self._services = services
        self._readers = services.readers
        self._index = services.index

    @property
    def name(self) -> str:
        """That of the world at its router; else that of its folder."""
        mount = self._services.mount
        return super().name if mount is None else mount.name

    @property
    def label(self) -> str:
        return self.name

    @property
    def known_state(self) -> State | None:
        return self._services.follower.state

    def world_option(self, address: str) -> tuple[str, str]:
        mount = self._services.mount
        return "--node", address.rstrip("/") + ("" if mount is None else mount.prefix)

    async def list_document(self, operation: str, query: Mapping[str, Any]) -> Document:
        """Make a list as the API does: one in this process would delay the API."""
        return await self.document(operation, query)

    async def document(self, operation: str, query: Mapping[str, Any]) -> Document:
        """As ``PageWorld``; of what only a front knows, the document of its API."""
        request = READ_REQUESTS.get(operation)
        if request is not None and request.document is not None:
            return await super().document(operation, query)
        return await api_document(self._services, _API[operation], OWNER, query=query)

    def index(self) -> Document | None:
        """As ``PageWorld``, without the path of the world's folder (PG-51)."""
        document = super().index()
        if document is None or document["problem"] is None:
            return document
        problem = AosError(document["problem"])
        return {**document, "problem": text_for_clients(problem, self.user_path)}

    async def minutes(self) -> Document | None:
        """A small journal is not read in this process, either."""
        return None if self.index_folder is None else await super().minutes()

    async def _open_follower(self) -> Follower:
        return self._services.follower

    async def _ask_process(self, op: str) -> Mapping[str, Any] | None:
        link = self._services.link
        try:
            return await (link.work() if op == "work" else link.status())
        except AosError:
            return None

    async def _with_process(self, document: Document, *, is_past: bool) -> Document:
        return {**await super()._with_process(document, is_past=is_past), "path": None}


def with_page(app: App, services: Services) -> NodePage:
    """Return the application of a front with the page."""
    return NodePage(app, services)


if __name__ == "__main__":
    keep_memory_private()
    sys.exit(main(with_page))
