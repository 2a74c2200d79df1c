"""The tokens of a node, and the requests that each of them allows
(spec/node-api.md, N-130 to N-136).

    DIR/node/tokens.json    0600: name, BLAKE3 of the secret, scopes, dates of each token

A world that a router serves next to others takes the tokens of a second file, too, which is the
same for all of these worlds (N-134a).

Rule 1: a secret is shown once, when it is made. The file holds only its hash.

Rule 2: a file that cannot be read makes each of its tokens invalid. It never opens the node.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hmac
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol, Self

from aos.errors import AosError, BadUsage, Damage, Refused, Unavailable
from aos.node.rates import BURST_MAX, EXAMPLES, interval_of
from aos.shell_text import shell_word
from aos.store.plain_files import PlainFolder
from aos.values.digests import Hash, content_hash, hash_text, parse_hash
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json

NODE: Final = "node"
"""The folder of the node in a world's folder."""

TOKENS: Final = "tokens.json"
_LOCK: Final = "tokens.lock"
_FORMAT: Final = 1
_FILE_BYTES_MAX: Final = 4 * 1024 * 1024

SECRET_BYTES: Final = 32
SECRET_PREFIX: Final = "aos_"  # noqa: S105  # the part that all secrets share
"""So that a secret is recognized where it should not be."""

TOKENS_MAX: Final = 1_000
SCOPES_MAX: Final = 64

SEND: Final = "send"
READ: Final = "read"
WORK: Final = "work"
OPERATE: Final = "operate"
VERBS: Final = (SEND, READ, WORK, OPERATE)
_NAMED: Final = (SEND, WORK)
"""Verbs that may be limited to names: of event schemas, and of effects."""

SHARED_PREFIX: Final = "*/"
"""Begins the name of a token for all worlds, so that no token of one world has the same name: rates
and leases belong to names."""

LOOK_S: Final = 0.25
"""Seconds for which the files are not looked at again. A revoked token is out within a second."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class TokenFolder(Protocol):
    """A folder with tokens: that of a world, or that of many worlds."""

    @property
    def path(self) -> Path: ...
    def open_plain(self) -> PlainFolder:
        """Open it. Raises OSError."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One permission of a token: a verb, and for ``send`` and ``work`` the names that it may use.

    ``name`` None allows all names; with ``is_prefix``, those that begin with ``name``.
    """

    verb: str
    name: str | None = None
    is_prefix: bool = False

    @classmethod
    def read(cls, text: str) -> Self:
        """Read ``VERB``, ``VERB:NAME`` or ``VERB:PREFIX*``.

        Raises:
            BadUsage: There is no such verb, or the verb takes no name.
        """
        verb, colon, name = text.partition(":")
        if verb not in VERBS or (colon and (verb not in _NAMED or not name)):
            raise BadUsage(
                "not a scope",
                expected="send[:SCHEMA], read, work[:EFFECT] or operate; SCHEMA and EFFECT may "
                "end with *",
                actual=repr(text),
            )
        if not colon:
            return cls(verb)
        return cls(verb, name.removesuffix("*"), name.endswith("*"))

    @property
    def text(self) -> str:
        """The scope as ``read`` takes it."""
        if self.name is None:
            return self.verb
        return f"{self.verb}:{self.name}{'*' if self.is_prefix else ''}"

    def allows(self, verb: str, name: str | None) -> bool:
        """Return whether this scope allows ``verb`` for ``name``; without a name, for any name."""
        if verb != self.verb:
            return False
        if self.name is None or name is None:
            return True
        return name.startswith(self.name) if self.is_prefix else name == self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token without its secret. ``digest`` is the BLAKE3 of the secret's text; None if the
    caller needs no token. ``rate`` bounds its requests, such as ``50/s``, with ``burst`` of them at
    once."""

    name: str
    scopes: tuple[Scope, ...]
    digest: Hash | None = None
    created_ns: int = 0
    expires_ns: int | None = None
    rate: str | None = None
    burst: int = 1

    def allows(self, verb: str, name: str | None = None) -> bool:
        """Return whether a scope of this token allows ``verb`` for ``name``."""
        return any(scope.allows(verb, name) for scope in self.scopes)

    def is_expired(self, now_ns: int) -> bool:
        """Return whether its date has passed."""
        return self.expires_ns is not None and self.expires_ns <= now_ns

    def to_document(self) -> dict[str, Any]:
        """The document of ``aos token list --json``."""
        return {
            "name": self.name,
            "scopes": [scope.text for scope in self.scopes],
            "created_ns": self.created_ns,
            "expires_ns": self.expires_ns,
            "rate": self.rate,
            "burst": self.burst,
        }


OWNER: Final = Token(name="owner", scopes=tuple(map(Scope, VERBS)))
"""The caller on the node's own socket: only the owner of the folder can open it."""

LOCAL: Final = Token(name="local", scopes=(Scope(SEND), Scope(READ), Scope(WORK)))
"""The caller on a loopback address of a node without tokens."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a world, by name."""

    by_name: dict[str, Token]

    def __len__(self) -> int:
        return len(self.by_name)

    def find(self, secret: str, *, now_ns: int) -> Token | None:
        """Return the valid token with this secret. Every digest is compared, in constant time."""
        digest = content_hash(secret.encode("utf-8", "surrogatepass"))
        matching = None
        for token in self.by_name.values():
            if token.digest is None or not hmac.compare_digest(token.digest, digest):
                continue
            if matching is None and not token.is_expired(now_ns):
                matching = token
        return matching

    def has(self, token: Token, *, now_ns: int) -> bool:
        """Return whether this token is still the valid one of its name."""
        return self.by_name.get(token.name) == token and not token.is_expired(now_ns)


def load(folder: TokenFolder) -> Tokens:
    """Read the tokens of a world; none if no token was ever made.

    Raises:
        Damage: The file is not one of ours, or no plain file.
        Refused: Others than its owner may read it.
        Unavailable: It cannot be read.
    """
    with folder.open_plain() as world:
        try:
            with world.inner(NODE) as node:
                return _read(node, TOKENS)
        except FileNotFoundError:
            return Tokens({})


def load_shared(path: Path) -> Tokens:
    """Read the tokens for all worlds (N-134a). Their names begin with ``SHARED_PREFIX``.

    Raises:
        Damage, Refused, Unavailable: As ``load``.
        OSError: It cannot be read.
    """
    try:
        with PlainFolder.at_user_path(path.parent) as parent:
            stored = _read(parent, path.name)
    except FileNotFoundError:
        return Tokens({})
    tokens = [
        replace(token, name=f"{SHARED_PREFIX}{token.name}") for token in stored.by_name.values()
    ]
    return Tokens({token.name: token for token in tokens})


def create(
    folder: TokenFolder,
    name: str,
    scopes: tuple[Scope, ...],
    *,
    secret: bytes,
    now_ns: int,
    expires_ns: int | None = None,
    rate: str | None = None,
    burst: int = 1,
) -> str:
    """Make a token and return its secret, which cannot be read again.

    Args:
        secret: 32 random bytes.
        expires_ns: When the token becomes invalid, in ns since 1970; by default never.
        rate: Its requests, such as ``50/s``; by default without a limit. ``burst`` is how many of
            them may come at once.

    Raises:
        BadUsage: The name, the scopes, the rate or the burst is not valid.
        Refused: There is a token of this name, or there are too many.
        Damage: As ``load``. Nothing has changed.
    """
    if not _NAME.fullmatch(name):
        raise BadUsage(
            "not a name of a token",
            expected="1 to 64 letters, digits, dots, dashes and underscores",
            actual=repr(name),
        )
    if not 0 < len(scopes) <= SCOPES_MAX:
        raise BadUsage("scopes of a token", expected=f"1 to {SCOPES_MAX}", actual=str(len(scopes)))
    if rate is not None and interval_of(rate) is None:
        raise BadUsage("rate of a token", expected=EXAMPLES, actual=repr(rate))
    if not 1 <= burst <= BURST_MAX:
        raise BadUsage("burst of a token", expected=f"1 to {BURST_MAX:,}", actual=f"{burst:,}")
    assert len(secret) == SECRET_BYTES, "a secret has 32 bytes"
    text = SECRET_PREFIX + base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
    token = Token(
        name=name,
        scopes=scopes,
        digest=content_hash(text.encode()),
        created_ns=now_ns,
        expires_ns=expires_ns,
        rate=rate,
        burst=burst,
    )
    with _changing(folder) as tokens:
        if name in tokens:
            raise Refused(
                f"there is a token called {name} already",
                hint=f"choose another name, or remove it first: aos token revoke {name}",
            )
        if len(tokens) >= TOKENS_MAX:
            raise Refused(f"a world has at most {TOKENS_MAX} tokens (revoke those not in use)")
        tokens[name] = token
    return text


def revoke(folder: TokenFolder, name: str) -> None:
    """Remove a token. A running node refuses it within a second, and ends its streams.

    Raises:
        BadUsage: There is no token of this name.
        Damage: As ``load``. Nothing has changed.
    """
    with _changing(folder) as tokens:
        if name not in tokens:
            raise BadUsage(
                f"no token is called {name!r}",
                expected="one of " + ", ".join(sorted(tokens)) if tokens else None,
                hint="aos token list",
            )
        del tokens[name]


class LiveTokens:
    """The tokens of a running node: a file is read again when it has changed. ``shared`` is the
    file of the tokens for all worlds, if there is one."""

    def __init__(
        self,
        folder: TokenFolder,
        clock: Callable[[], float],
        report: Callable[[str], None],
        *,
        shared: Path | None = None,
    ) -> None:
        self._clock = clock
        self._looked_at: float | None = None
        self._files = [
            _LiveFile(
                folder.path / NODE / TOKENS, lambda: load(folder), "no token is valid", report
            )
        ]
        if shared is not None:
            self._files.append(
                _LiveFile(
                    shared, lambda: load_shared(shared), "no token for all worlds is valid", report
                )
            )
        self._tokens = Tokens({})
        self.exist = False
        """Whether a file of tokens exists: then TCP needs a token, also if every one was
        revoked."""

    def now(self) -> Tokens:
        """Return the tokens as of at most ``LOOK_S`` seconds ago."""
        at = self._clock()
        if self._looked_at is None or at - self._looked_at >= LOOK_S:
            self._looked_at = at
            have_changed = [file.look() for file in self._files]
            if any(have_changed):
                self.exist = any(file.exists for file in self._files)
                self._tokens = Tokens(
                    {name: token for file in self._files for name, token in file.tokens.items()}
                )
        return self._tokens


class _LiveFile:
    """One file of tokens. If it cannot be read, it has none, but exists (Rule 2); then the report
    begins with ``subject``."""

    def __init__(
        self,
        path: Path,
        read: Callable[[], Tokens],
        words: str,
        report: Callable[[str], None],
    ) -> None:
        self._path = path
        self._read = read
        self._words = words
        self._report = report
        self._mark: tuple[int, ...] | None = None
        self.tokens: dict[str, Token] = {}

    @property
    def exists(self) -> bool:
        """Whether something had the name of the file at the last look."""
        return self._mark is not None

    def look(self) -> bool:
        """Read the file if it has changed since the last look; return whether it has."""
        mark = self._marked()
        if mark == self._mark:
            return False
        self._mark = mark
        try:
            self.tokens = self._read().by_name
        except (AosError, OSError) as problem:
            self.tokens = {}
            self._report(f"{self._words}: {problem}")
        return True

    def _marked(self) -> tuple[int, ...] | None:
        """Numbers that change with the file; None if there is none."""
        try:
            file_stat = os.lstat(self._path)
        except FileNotFoundError:
            return None
        except OSError as error:  # there may be one, which cannot be read
            return (error.errno or 0,)
        return file_stat.st_ino, file_stat.st_mtime_ns, file_stat.st_size, file_stat.st_mode


@contextlib.contextmanager
def _changing(folder: TokenFolder) -> Iterator[dict[str, Token]]:
    """The tokens, to be changed. They are durable after the block; one process changes at a time.

    Raises:
        Unavailable: They cannot be written. Nothing has changed.
    """
    try:
        with folder.open_plain() as world, world.inner(NODE, make=True) as node:
            lock = node.open(_LOCK, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                tokens = dict(_read(node, TOKENS).by_name)
                yield tokens
                _write(node, tokens)
            finally:
                os.close(lock)
    except OSError as error:
        raise Unavailable(
            f"{folder.path / NODE / TOKENS}: the tokens cannot be written: {error.strerror}; "
            "nothing was changed"
        ) from error


def _read(folder: PlainFolder, name: str) -> Tokens:
    path = folder.path / name
    file_stat = folder.check_file(name)
    if file_stat is None:
        return Tokens({})
    if stat.S_IMODE(file_stat.st_mode) & 0o077:
        raise Refused(
            "others may read or change the tokens",
            location=str(path),
            expected="mode 0600",
            actual=f"mode {stat.S_IMODE(file_stat.st_mode):04o}",
            hint=f"chmod 600 {shell_word(path)}",
        )
    try:
        document: Any = parse_json(
            folder.read(name, _FILE_BYTES_MAX).decode(), max_bytes=_FILE_BYTES_MAX
        )
        if document["version"] != _FORMAT:
            raise ValueError(f"version {document['version']!r}")
        tokens = [_token(fields) for fields in document["tokens"]]
    except (ValueProblem, ValueError, KeyError, TypeError, AttributeError, BadUsage) as problem:
        raise Damage(
            f"the file of tokens cannot be read: {problem}",
            location=str(path),
            hint="restore a backup, or remove it and make the tokens again",
        ) from problem
    return Tokens({token.name: token for token in tokens})


def _token(fields: dict[str, Any]) -> Token:
    """Raises ValueError, KeyError, TypeError, ValueProblem or BadUsage for anything that
    ``_write`` does not write."""
    name, expires_ns, created_ns = fields["name"], fields["expires_ns"], fields["created_ns"]
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise ValueError(f"name {name!r}")
    if not (isinstance(created_ns, int) and isinstance(expires_ns, int | None)):
        raise TypeError("times are whole numbers")
    rate, burst = fields.get("rate"), fields.get("burst", 1)
    if not ((rate is None or interval_of(rate)) and type(burst) is int and burst >= 1):
        raise ValueError(f"rate {rate!r}, burst {burst!r}")
    return Token(
        name=name,
        scopes=tuple(map(Scope.read, fields["scopes"])),
        digest=parse_hash(fields["digest"]),
        created_ns=created_ns,
        expires_ns=expires_ns,
        rate=rate,
        burst=burst,
    )


def _write(node: PlainFolder, tokens: dict[str, Token]) -> None:
    """Replace the file. It is durable on return. Raises OSError."""
    document = {
        "version": _FORMAT,
        "tokens": [
            {**token.to_document(), "digest": hash_text(token.digest)}
            for token in tokens.values()
            if token.digest is not None
        ],
    }
    node.put(TOKENS, f"{json.dumps(document, indent=1)}\n".encode())


def bearer(header: bytes) -> str | None:
    """Return the secret of an ``Authorization`` header; None if it is of another scheme."""
    scheme, _, credentials = header.partition(b" ")
    if scheme.lower() != b"bearer":
        return None
    with contextlib.suppress(UnicodeDecodeError):
        return credentials.strip().decode("ascii")
    return None
