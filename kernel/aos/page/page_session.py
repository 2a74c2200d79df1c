"""The session of a browser: a one-time token in a link becomes a cookie (spec/page.md, PG-24).

aos page prints   http://127.0.0.1:7470/open?token=…   valid once
the browser gets  Set-Cookie and a redirect to /        valid until the command ends
"""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Final

TOKEN_BYTES: Final = 32


class PageSession:
    """The token and the cookie of one run of the page. ``needs_token`` False lets everyone in."""

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

    def cookie(self) -> str:
        """Return the value of ``Set-Cookie``. No other site's pages can send this cookie."""
        return f"{self._name}={self._secret}; Path=/; HttpOnly; SameSite=Strict"

    def allows(self, header: str | None) -> bool:
        """Return whether a request with this ``Cookie`` header may see the page."""
        if not self.needs_token:
            return True
        try:
            found = SimpleCookie(header or "").get(self._name)
        except CookieError:
            return False
        return found is not None and _is_same(found.value, self._secret)


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())
