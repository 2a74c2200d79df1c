"""The session of a browser: a one-time token in a link becomes a cookie (spec/page.md, PG-24).

aos page prints   http://127.0.0.1:7470/open?token=…   valid once
the browser gets  Set-Cookie and a redirect to /        valid until the command ends
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from aos.node.problems import Problem
from aos.node.sessions import STREAM, Session
from aos.node.tokens import Token

TOKEN_BYTES: Final = 32


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


def _is_same(actual: str, expected: str) -> bool:
    return hmac.compare_digest(actual.encode(errors="replace"), expected.encode())
