"""How a client reaches a node: the address, the certificates (spec/cli.md, C-92a), the bounds of an
answer (spec/worker.md, W-4b), and the problem documents of a node as the errors of ``aos.errors``
(spec/node-api.md, N-120).
"""

from __future__ import annotations

import json
import os
import re
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import httpx

from aos.core.decide.answers import Refusal, Rule
from aos.errors import AosError, BadUsage, Damage, Erased, Pruned, Refused, Unavailable
from aos.retry_after import retry_after_s

C = TypeVar("C")

SOCKET: Final = Path("node") / "http.sock"
"""The socket of a node in its world's folder. It needs no token."""

CA_VARIABLE: Final = "AOS_NODE_CA"
CERT_VARIABLE: Final = "AOS_NODE_CERT"
KEY_VARIABLE: Final = "AOS_NODE_KEY"

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
"""The longest body of an answer that a client keeps, in bytes."""

Certificate: TypeAlias = tuple[Path | str, Path | str]
"""The files of a certificate and of its key (PEM)."""

_RULES: Final = {rule.value: rule for rule in Rule}
_ERRORS: Final[dict[str, type[AosError]]] = {
    "record_was_pruned": Pruned,
    "value_was_erased": Erased,
    "world_is_damaged": Damage,
}


def without_user(text: str) -> str:
    """Addresses as messages show them: without user and password (spec/cli.md, C-92)."""
    return re.sub("://[^,?#]*@", "://…@", text)


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """``base`` is the URL of the node; with ``socket`` it is reached through that socket."""

    base: str
    socket: Path | None = None

    @property
    def label(self) -> str:
        """The address as messages name it."""
        return without_user(self.base) if self.socket is None else str(self.socket)

    @property
    def is_served(self) -> bool:
        """Whether the socket exists; True of a URL."""
        return self.socket is None or self.socket.exists()

    @classmethod
    def read(cls, text: str) -> NodeAddress:
        """Read ``http://…``, ``https://…`` or the path of a world's folder.

        Raises:
            BadUsage: It is a URL of another kind.
        """
        if text.startswith(("http://", "https://")):
            return cls(text.rstrip("/"))
        if "://" in text:
            raise BadUsage(
                f"node {without_user(text)!r}: expected a URL with http:// or https://, or the "
                "folder of a world"
            )
        return cls("http://node", Path(text) / SOCKET)


@dataclass(frozen=True, slots=True)
class NodeSite(Generic[C]):
    """One node of a world: its address, and the client that sends requests there."""

    address: NodeAddress
    http: C


class AddressList(Generic[C]):
    """The nodes of one world, of which a program uses one at a time (CL-212).

    ``text`` has one address, or several with commas between them, as ``NodeAddress.read`` takes
    them. ``connect`` makes the client of each.

    Raises:
        BadUsage: As ``NodeAddress.read`` and ``connect``.
    """

    def __init__(self, text: str, connect: Callable[[NodeAddress], C]) -> None:
        is_one = "," not in text or Path(text).exists()
        words = [text] if is_one else [word.strip() for word in text.split(",")]
        if len(words) > 1 and "" in words:
            raise BadUsage(
                "node: an address is empty",
                expected="addresses with one comma between two of them",
                actual=repr(without_user(text)),
            )
        addresses = list(dict.fromkeys(map(NodeAddress.read, words)))
        self.sites: Sequence[NodeSite[C]] = [
            NodeSite(address, connect(address)) for address in addresses
        ]
        self._index = 0

    @property
    def current(self) -> NodeSite[C]:
        """The node in use."""
        return self.sites[self._index]

    def leave(self, site: NodeSite[C]) -> None:
        """Use the next node from now on, unless that has happened already."""
        if self.current is site:
            self._index = (self._index + 1) % len(self.sites)

    def tries(self) -> Iterator[NodeSite[C]]:
        """Yield the node in use, as often as there are nodes. The caller leaves one that fails."""
        for _ in self.sites:
            yield self.current


def tls_of(
    address: NodeAddress,
    authorities: Path | str | None = None,
    certificate: Certificate | None = None,
) -> ssl.SSLContext | Literal[False]:
    """Return ``verify`` of the client of a node: a context that trusts ``authorities`` and shows
    ``certificate``; by default those of the environment, else the authorities of the package
    certifi, and none. False if the address has no TLS: to read all authorities takes longer than a
    short command.

    Raises:
        BadUsage: A file is missing or is no PEM file, or a certificate has no key.
    """
    if not address.base.startswith("https://"):
        return False
    trusted = authorities or os.environ.get(CA_VARIABLE) or None
    if trusted is None:
        context = httpx.create_ssl_context(trust_env=False)
    else:
        try:
            context = ssl.create_default_context(cafile=str(trusted))
        except OSError as error:
            raise _unusable_file(CA_VARIABLE, trusted, error) from error
    cert, key = certificate or (os.environ.get(CERT_VARIABLE), os.environ.get(KEY_VARIABLE))
    if cert:
        if not key:
            raise BadUsage(f"{CERT_VARIABLE} is set: expected {KEY_VARIABLE}, too")
        try:
            # A password would be asked for on the terminal.
            context.load_cert_chain(str(cert), str(key), password="")
        except OSError as error:
            raise _unusable_file(CERT_VARIABLE, f"{cert}, {key}", error) from error
    return context


def _unusable_file(name: str, files: Path | str, error: OSError) -> BadUsage:
    reason = error.strerror or str(error)
    return BadUsage(f"{files} cannot be used", location=name, expected="a PEM file", actual=reason)


class AnswerParts:
    """The parts of a body, until ``seconds`` from now are over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until_s = time.monotonic() + seconds
        self._body = bytearray()

    def take(self, part: bytes) -> None:
        """Add a part.

        Raises:
            httpx.ReadTimeout: It comes too late.
            Unavailable: The body is too long.
        """
        if time.monotonic() > self._until_s:
            raise httpx.ReadTimeout(f"there is no whole answer after {self._seconds:g} s")
        self._body += part
        if len(self._body) > ANSWER_BYTES_MAX:
            raise Unavailable(f"the node sent an answer of more than {ANSWER_BYTES_MAX:,} bytes")

    def body(self) -> bytes:
        """Return the body."""
        return bytes(self._body)


class NodeUnavailable(Unavailable):
    """The node did not answer, or cannot answer now. ``pause_s`` is how long it asks to wait."""

    def __init__(self, text: str, pause_s: float = 0.0, *, is_unsent: bool = False) -> None:
        super().__init__(text)
        self.pause_s = pause_s
        self.is_unsent = is_unsent


class NoSuchInstance(BadUsage):
    """The world has the workflow, but no instance with this key."""


def read_json(content: bytes) -> Any:
    """Return the JSON of a body; None if it has none, as the error page of a proxy."""
    try:
        return json.loads(content)
    except ValueError:
        return None


def refusal_of(problem: object, *, may_be_busy: bool = False) -> Refusal | None:
    """Return the refusal of a problem document; None if it is about something else, or if the world
    is only busy and not ``may_be_busy``."""
    if not isinstance(problem, dict):
        return None
    rule = _RULES.get(problem.get("rule", ""))
    if rule is None or (rule is Rule.WORLD_IS_BUSY and not may_be_busy):
        return None
    return Refusal(rule=rule, message=problem.get("detail", ""))


def error_of(status: int, problem: object, *, retry_after: str = "") -> AosError:
    """Return the error of an answer that is no success.

    Its text is the sentence that the node gives, which is that of the command line.
    """
    fields = problem if isinstance(problem, dict) else {}
    rule = str(fields.get("rule", ""))
    text = str(fields.get("detail") or f"the node answered {status} without a reason")
    if rule in _ERRORS:
        return _ERRORS[rule](text)
    if rule == Rule.CELL_IS_UNKNOWN.value:
        return NoSuchInstance(text)
    match status:
        case 403 if rule == "command_is_not_signed":
            return Refused(text)
        case 401 | 403:
            return Refused(f"{text} (set AOS_TOKEN to a token that allows this: aos token create)")
        case 409 | 410:
            return Refused(text)
        case 408 | 429:
            return NodeUnavailable(text, retry_after_s(retry_after))
        case _ if status >= 500:
            is_unsent = fields.get("admitted") == "no"
            return NodeUnavailable(text, retry_after_s(retry_after), is_unsent=is_unsent)
    return BadUsage(text)
