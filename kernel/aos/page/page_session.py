"""The session of a browser: a one-time token in a link becomes a cookie (spec/page.md, PG-24).

    aos page prints   http://127.0.0.1:7470/open?token=…   valid once
    the browser gets  Set-Cookie and a redirect to /        valid until the command ends

On a node, a token of the node, entered once, becomes the cookie (PG-52); at a router, it is the
cookie of one world (PG-135).
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from aos.node.access import Door, caller_of
from aos.node.problems import Problem
from aos.node.services import Services
from aos.node.sessions import STREAM, Session
from aos.node.tokens import READ, Token
from aos.page.page_app import HTML, OPEN
from aos.page.page_forms import FORM, FORM_BYTES_MAX, FormTokens, Visit, read_form
from aos.page.page_text import render

TOKEN_BYTES: Final = 32

SESSIONS_MAX: Final = 256
"""Browsers that can have the page open; the one that opened it first has to open it again."""

_COOKIE: Final = "aos_node_page"
_FORM_COOKIE: Final = "aos_node_form"
"""Names a browser that has no session, for its forms."""

_PORTS: Final = {"http": "80", "https": "443"}

_RANDOM: Final = re.compile(r"[A-Za-z0-9_-]{43}")


class PageSession:
    """The token and the cookie of one run of the page. ``needs_token`` False lets everyone in."""

    methods: tuple[str, ...] = ("GET", "HEAD")
    """The methods of ``/open``."""

    def __init__(self, port: int, *, needs_token: bool = True) -> None:
        self.needs_token = needs_token
        self._name = f"aos_page_{port}"  # browsers send the cookies of a host to all its ports
        self._secret = secrets.token_urlsafe(TOKEN_BYTES)
        self._token: str | None = secrets.token_urlsafe(TOKEN_BYTES) if needs_token else None

    @property
    def token(self) -> str | None:
        """The one-time token; None once it was used, or if none is needed."""
        return self._token

    def use(self, token: str) -> bool:
        """Use up the one-time token. Return whether ``token`` was this token."""
        if self._token is None or not _is_same(token, self._token):
            return False
        self._token = None
        return True

    def check(self, _scope: MutableMapping[str, Any], cookie: str | None) -> None:
        """Check that a request with this ``Cookie`` header may see the page.

        Raises:
            Problem: It may not (401).
        """
        if not self.allows(cookie):
            raise Problem(
                401, "session_is_missing",
                "this browser has not opened the page: open the link that aos page has printed; "
                "it is valid once (start aos page again for another one)",
            )  # fmt: skip

    @contextmanager
    def stream_session(self, _scope: MutableMapping[str, Any]) -> Iterator[Session]:
        """The session of a stream, which lasts as long as the command."""
        yield Session(Token(name="browser", scopes=()), STREAM)

    async def open_session(self, request: Request) -> Response:
        """Answer the one-time link with a cookie and a redirect.

        Raises:
            Problem: The token is another one, or was used (401).
        """
        [token] = parse_qs(request.url.query).get("token", [""])[:1]
        if not self.use(token):
            raise Problem(
                401, "token_is_invalid",
                "this link was used already, or is not the one that aos page has printed (start "
                "aos page again for another one)",
            )  # fmt: skip
        answer = RedirectResponse("/", status_code=303)
        answer.headers["set-cookie"] = self.cookie()
        return answer

    def cookie(self) -> str:
        """Return the value of ``Set-Cookie``. No other site's pages can send this cookie."""
        return f"{self._name}={self._secret}; Path=/; HttpOnly; SameSite=Strict"

    def allows(self, header: str | None) -> bool:
        """Return whether a request with this ``Cookie`` header may see the page."""
        if not self.needs_token:
            return True
        cookie = cookie_of(header, self._name)
        return cookie is not None and _is_same(cookie, self._secret)


def cookie_of(header: str | None, name: str) -> str | None:
    """Return a cookie of a ``Cookie`` header; None if it has none of this name, or is malformed."""
    try:
        morsel = SimpleCookie(header or "").get(name)
    except CookieError:
        return None
    return None if morsel is None else morsel.value


def nearest_cookie_of(header: str | None, name: str) -> str | None:
    """Return a cookie as ``cookie_of``; of several with this name that of the longest path, which
    browsers send first (RFC 6265, 5.4). An earlier node at the same port may have left one that is
    for all paths."""
    for pair in (header or "").split(";"):
        cookie_name, equals, value = pair.partition("=")
        if equals and cookie_name.strip() == name:
            return value.strip()
    return None


def _is_same(actual: str, expected: str) -> bool:
    return hmac.compare_digest(actual.encode(errors="replace"), expected.encode())


class NodeSession:
    """The sessions of browsers. The token is looked up at each request, so that a session ends with
    it."""

    methods: tuple[str, ...] = ("GET", "HEAD", "POST")

    def __init__(self, services: Services, forms: FormTokens) -> None:
        self._services = services
        self._forms = forms
        self._root = "" if services.mount is None else services.mount.prefix
        self._secrets: OrderedDict[str, str] = OrderedDict()

    def check(self, scope: MutableMapping[str, Any], cookie: str | None) -> Visit:
        """Return who makes a request that may read: on the node's own socket and, while there are
        no tokens, on loopback without a cookie.

        Raises:
            Problem: There is no session (401), its token may not read (403) or is too fast (429).
        """
        door, now_ns = Door(*scope["server"]), time.time_ns()
        caller, session = caller_of(door, {}, self._services.tokens, now_ns=now_ns), None
        if caller is None:
            session = self._cookie_of(cookie, _COOKIE, scope)
            secret = self._secrets.get(session or "")
            caller = None if secret is None else self._token(secret)
        if caller is None:
            raise Problem(
                401, "session_is_missing",
                f"this browser has not opened the page: enter a token of the node at {self._root}"
                f"{OPEN} (make one: aos token create NAME --scope read)",
            )  # fmt: skip
        if not caller.allows(READ):
            raise Problem(403, "token_does_not_allow", f"{caller.name}: the scope read is missing")
        self._services.rates.check(caller)
        self._services.rates.use(caller)
        return Visit(caller, session)

    @contextmanager
    def stream_session(self, scope: MutableMapping[str, Any]) -> Iterator[Session]:
        """The session of a stream. It is one of the streams of the node, and ends with its token.

        Raises:
            Problem: The node has too many streams (429), or it stops (503).
        """
        with self._services.sessions.hold(scope["visit"].caller, STREAM) as session:
            yield session

    def _token(self, secret: str) -> Token | None:
        return self._services.tokens.now().find(secret, now_ns=time.time_ns())

    def browser_of(self, request: Request) -> tuple[str, str | None]:
        """Return what names a browser: its session; without one a cookie of its own, and the value
        of ``Set-Cookie`` if it does not have it yet."""
        visit = request.scope.get("visit")
        if visit is not None and visit.session is not None:
            return visit.session, None
        cookie = self._cookie_of(request.headers.get("cookie"), _FORM_COOKIE, request.scope)
        if cookie is not None and _RANDOM.fullmatch(cookie):
            return cookie, None
        new = secrets.token_urlsafe(TOKEN_BYTES)
        return new, self._cookie(request, _FORM_COOKIE, new)

    async def open_session(self, request: Request) -> Response:
        """Show the form, or take it: the token becomes a cookie by a redirect.

        Raises:
            Problem: The form is not this page's (403), or the token is invalid (401).
        """
        browser, cookie = self.browser_of(request)
        if request.method != "POST":
            return self._form(browser, cookie)
        fields = await read_form(request, bytes_max=FORM_BYTES_MAX, room=self._services.bodies)
        self._forms.check(fields.get(FORM, ""), OPEN, browser)
        secret = fields.get("token", "").strip()
        if self._token(secret) is None:
            raise Problem(
                401, "token_is_invalid",
                "the token is not valid: unknown, expired or revoked (make one: aos token create)",
            )  # fmt: skip
        session = secrets.token_urlsafe(TOKEN_BYTES)
        self._secrets[session] = secret
        if len(self._secrets) > SESSIONS_MAX:
            self._secrets.popitem(last=False)
        answer = RedirectResponse(f"{self._root}/", status_code=303)
        answer.headers["set-cookie"] = self._cookie(request, _COOKIE, session)
        return answer

    def _form(self, browser: str, cookie: str | None) -> Response:
        form = self._forms.make(OPEN, browser)
        values = {
            "title": "Open", "form": form, "world": None, "links": None, "at": None,
            "root": self._root,
        }  # fmt: skip
        answer = Response(render("open", values), media_type=HTML)
        if cookie is not None:
            answer.headers["set-cookie"] = cookie
        return answer

    def _cookie_of(
        self, header: str | None, name: str, scope: MutableMapping[str, Any]
    ) -> str | None:
        """Return this node's cookie of a ``Cookie`` header; None if it has none."""
        full = _cookie_name(name, scope)
        return nearest_cookie_of(header, full) if self._root else cookie_of(header, full)

    def _cookie(self, request: Request, name: str, value: str) -> str:
        """Return the value of ``Set-Cookie``; the cookie is sent to no other world."""
        secure = "; Secure" if request.url.scheme == "https" else ""
        full = _cookie_name(name, request.scope)
        return f"{full}={value}; Path={self._root}/; HttpOnly; SameSite=Strict{secure}"


def _cookie_name(name: str, scope: MutableMapping[str, Any]) -> str:
    """Return the name of a cookie of this node. A browser sends the cookies of a host to all its
    ports, so the name has the port that the browser asks."""
    host = next((value for field, value in scope["headers"] if field == b"host"), b"")
    port = host.decode("latin-1").rpartition(":")[2]
    is_port = port.isascii() and port.isdigit()
    return f"{name}_{port if is_port else _PORTS.get(scope['scheme'], '')}"
