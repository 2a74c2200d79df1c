"""The page of a node: the same pages, read through the front (spec/page.md, PG-50 to PG-53)."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from aos.audit.views.record_view import Document
from aos.errors import AosError
from aos.host.follower import Follower
from aos.node.access import Door, caller_of
from aos.node.application import App
from aos.node.bodies import KIB, receive_body
from aos.node.log_files import PREFIX as LOG_PREFIX
from aos.node.problems import Problem, text_for_clients
from aos.node.routes import BY_PATH
from aos.node.services import Services
from aos.node.tokens import READ, Token
from aos.page.page_app import HTML, PageApp, Receive, Scope, Send
from aos.page.page_session import TOKEN_BYTES, cookie_of
from aos.page.page_text import render
from aos.page.page_world import PageWorld
from aos.page.page_worlds import SLUG_DIGITS, PageWorlds

SESSIONS_MAX: Final = 256
"""Browsers that can have the page open; the one that opened it first has to open it again."""

FORM_BYTES_MAX: Final = 4 * KIB
OPERATION: Final = "page"
"""The operation of metrics that counts the requests of the page."""

_COOKIE: Final = "aos_node_page"
_FORM_COOKIE: Final = "aos_node_form"


class NodePage:
    """An ASGI application: the API where it has a path, and the page everywhere else."""

    def __init__(self, app: App, services: Services) -> None:
        self._app = app
        self._page = PageApp(
            _NodeWorlds(services), NodeSession(services), hidden=services.folder.path
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path in BY_PATH or path.startswith(("/v1/", LOG_PREFIX)) or scope["type"] != "http":
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
            self._app.state.counters.answered(OPERATION, status, seconds)
            self._app.log.write(
                method=scope["method"],
                path=path,
                status=status,
                seconds=seconds,
                received=0,
                sent=sent,
                token=None,
                peer=(scope.get("client") or ("", 0))[0],
            )


class NodeSession:
    """The sessions of browsers: a token of the node, entered once, for a cookie. The token is
    looked up at each request, so that a session ends with it."""

    methods: tuple[str, ...] = ("GET", "HEAD", "POST")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._secrets: OrderedDict[str, str] = OrderedDict()

    def check(self, scope: MutableMapping[str, Any], cookie: str | None) -> None:
        """Check that a request may read: on the node's own socket and, while there are no tokens,
        on loopback without a cookie.

        Raises:
            Problem: There is no session (401), its token may not read (403) or is too fast (429).
        """
        door, now_ns = Door(*scope["server"]), time.time_ns()
        caller = caller_of(door, {}, self._services.tokens, now_ns=now_ns)
        if caller is None:
            secret = self._secrets.get(cookie_of(cookie, _COOKIE) or "")
            caller = None if secret is None else self._token(secret)
        if caller is None:
            raise Problem(
                401, "session_is_missing",
                "this browser has not opened the page: enter a token of the node at /open (make "
                "one: aos token create NAME --scope read)",
            )  # fmt: skip
        if not caller.allows(READ):
            raise Problem(403, "token_does_not_allow", f"{caller.name}: the scope read is missing")
        self._services.rates.check(caller)
        self._services.rates.use(caller)

    def _token(self, secret: str) -> Token | None:
        return self._services.tokens.now().find(secret, now_ns=time.time_ns())

    async def opened(self, request: Request) -> Response:
        """Show the form, or take it: the token becomes a cookie by a redirect.

        Raises:
            Problem: The form is not this page's (403), or the token is invalid (401).
        """
        if request.method != "POST":
            return self._form(request)
        body = await receive_body(
            request.receive, most=FORM_BYTES_MAX, declared=None, take=lambda _: None
        )
        given = parse_qs(body.decode("ascii", errors="replace"))
        [form], [secret] = given.get("form", [""])[:1], given.get("token", [""])[:1]
        expected = cookie_of(request.headers.get("cookie"), _FORM_COOKIE)
        is_own = request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
        if not (is_own and expected and secrets.compare_digest(form.encode(), expected.encode())):
            raise Problem(403, "form_is_foreign", "the form is not of this page (open /open again)")
        if self._token(secret.strip()) is None:
            raise Problem(
                401, "token_is_invalid",
                "the token is not valid: unknown, expired or revoked (make one: aos token create)",
            )  # fmt: skip
        session = secrets.token_urlsafe(TOKEN_BYTES)
        self._secrets[session] = secret.strip()
        if len(self._secrets) > SESSIONS_MAX:
            self._secrets.popitem(last=False)
        answer = RedirectResponse("/", status_code=303)
        answer.headers["set-cookie"] = _cookie(request, _COOKIE, session)
        return answer

    @staticmethod
    def _form(request: Request) -> Response:
        form = secrets.token_urlsafe(TOKEN_BYTES)
        values = {"title": "Open", "form": form, "world": None, "links": None, "at": None}
        answer = Response(render("open", values), media_type=HTML)
        answer.headers["set-cookie"] = _cookie(request, _FORM_COOKIE, form)
        return answer


def _cookie(request: Request, name: str, value: str) -> str:
    secure = "; Secure" if request.url.scheme == "https" else ""
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}"


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
        folder = services.folder
        super().__init__(folder, given=folder.path, slug=folder.world.hex()[:SLUG_DIGITS])
        self._services = services
        self._readers = services.readers

    @property
    def shown(self) -> str:
        return self.name

    def place(self, address: str) -> tuple[str, str]:
        return "--node", address.rstrip("/")

    async def listed(self, operation: str, query: Mapping[str, Any]) -> Document:
        """Make a list as the API does: one in this process would delay the API."""
        return await self.document(operation, query)

    async def _opened(self) -> Follower:
        return self._services.follower

    async def _asked(self, op: str) -> Mapping[str, Any] | None:
        link = self._services.link
        try:
            return await (link.work() if op == "work" else link.status())
        except AosError:
            return None

    async def _with_process(self, found: Document, *, is_past: bool) -> Document:
        return {**await super()._with_process(found, is_past=is_past), "path": None}


def mounted(app: App, services: Services) -> NodePage:
    """Return the application of a front with the page."""
    return NodePage(app, services)
