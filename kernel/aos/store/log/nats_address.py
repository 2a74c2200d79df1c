"""The address of a replicated world, and the access to its servers (spec/cluster.md, CL-1 to CL-5).

    nats://10.0.0.1,10.0.0.2:4223,10.0.0.3/shop        tls://…/shop refuses servers without TLS

The address has no secrets, so that it can be in command lines, logs and beats. Credentials are in a
file that the environment or an option names.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from aos.errors import BadUsage
from aos.store.log.bucket import KEY, RESERVED
from aos.store.plain_files import open_named

CREDENTIALS_VARIABLE: Final = "AOS_NATS_CREDS"
AUTHORITIES_VARIABLE: Final = "AOS_NATS_CA"
CERTIFICATE_VARIABLE: Final = "AOS_NATS_CERT"
CERTIFICATE_KEY_VARIABLE: Final = "AOS_NATS_KEY"
"""Variables with the paths of files (CL-3)."""

SCHEMES: Final = ("nats", "tls")
DEFAULT_PORT: Final = 4222
CREDENTIALS_BYTES_MAX: Final = 64 * 1024

_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_FORM: Final = "nats://HOST[:PORT][,HOST[:PORT]…]/NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsAddress:
    """Servers as ``host:port``, and the name of a world; empty for that of servers alone.
    ``is_tls``: a server without TLS is refused. One that requires TLS gets it in any case."""

    servers: tuple[str, ...]
    name: str
    is_tls: bool = False

    @classmethod
    def parse(cls, text: str, *, needs_name: bool = True) -> Self:
        """Read an address; without ``needs_name``, that of servers too.

        Raises:
            BadUsage: It has another form, or a user or password.
        """
        scheme, mark, remainder = text.partition("://")
        hosts, slash, name = remainder.partition("/")
        is_named = bool(slash) if needs_name else bool(name)
        if "@" in text:
            # Before anything repeats the text: it has a secret.
            raise BadUsage(
                "the address of a replicated world has a user or a password, which others could "
                "read in logs and lists of processes",
                expected=_FORM,
                hint=f"put the credentials into a file, and name it in {CREDENTIALS_VARIABLE}",
            )
        if not mark or scheme not in SCHEMES or (needs_name and not is_named):
            raise BadUsage("not the address of a replicated world", expected=_FORM, actual=text)
        if is_named and not KEY.fullmatch(name):
            raise BadUsage(
                "not a name of a world",
                location=text,
                expected="letters, digits, _ and -, with dots between them",
                actual=repr(name),
            )
        if name == RESERVED or name.startswith(f"{RESERVED}."):
            raise BadUsage(
                "not a name of a world",
                location=text,
                expected=f"another name: those that begin with {RESERVED} are keys of AOS itself",
                actual=name,
            )
        servers = tuple(_server(part, text) for part in hosts.split(","))
        return cls(servers=servers, name=name, is_tls=scheme == "tls")

    @property
    def text(self) -> str:
        """The address, as ``parse`` reads it."""
        name = f"/{self.name}" if self.name else ""
        return f"{'tls' if self.is_tls else 'nats'}://{','.join(self.servers)}{name}"

    def of_server(self, server: str) -> Self:
        """The address of one of the servers."""
        return replace(self, servers=(server,))


def _server(part: str, text: str) -> str:
    match = _SERVER.fullmatch(part)
    port = DEFAULT_PORT if match is None or match[2] is None else int(match[2])
    if match is None or not 0 < port < 65536:
        raise BadUsage("not a server", location=text, expected="HOST or HOST:PORT", actual=part)
    return f"{match[1]}:{port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsAccess:
    """The credentials of a program for the servers, and the certificates that it trusts.

    ``credentials`` is the text of a file of credentials (a token and a seed), or a seed alone;
    ``authorities`` a file with the certificates that sign those of the servers, None for those of
    the system; ``certificate`` and ``certificate_key`` are files with the program's own.
    """

    credentials: str | None = field(default=None, repr=False)
    authorities: Path | None = None
    certificate: Path | None = None
    certificate_key: Path | None = None

    @classmethod
    def read(cls, credentials: Path | None = None, environ: Mapping[str, str] = os.environ) -> Self:
        """Read the file of credentials and the variables of the environment (CL-3).

        Raises:
            BadUsage: A file cannot be read, or is not of its kind.
        """

        def path(name: str) -> Path | None:
            return Path(environ[name]) if environ.get(name) else None

        credentials = credentials or path(CREDENTIALS_VARIABLE)
        access = cls(
            credentials=None if credentials is None else _credentials_text(credentials),
            authorities=path(AUTHORITIES_VARIABLE),
            certificate=path(CERTIFICATE_VARIABLE),
            certificate_key=path(CERTIFICATE_KEY_VARIABLE),
        )
        access.tls_context()
        return access

    def tls_context(self) -> ssl.SSLContext:
        """How to speak TLS with a server. Raises: BadUsage: A file is no certificate or key."""
        try:
            context = ssl.create_default_context(
                cafile=None if self.authorities is None else str(self.authorities)
            )
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.certificate_key)
        except (OSError, ssl.SSLError) as problem:
            raise BadUsage(
                f"a certificate cannot be used: {problem}",
                expected="files in PEM",
                hint=f"see {AUTHORITIES_VARIABLE}, {CERTIFICATE_VARIABLE} and "
                f"{CERTIFICATE_KEY_VARIABLE}",
            ) from problem
        return context


def _credentials_text(path: Path) -> str:
    try:
        with os.fdopen(open_named(path), "rb") as file:
            text = file.read(CREDENTIALS_BYTES_MAX).decode("ascii")
    except (OSError, UnicodeDecodeError) as problem:
        raise BadUsage(f"the credentials cannot be read: {problem}", location=str(path)) from None
    is_token_file = "BEGIN NATS USER JWT" in text and "BEGIN USER NKEY SEED" in text
    if not is_token_file and not re.fullmatch(r"SU[A-Z2-7]{56}", text.strip()):
        raise BadUsage(
            "not a file of credentials",
            location=str(path),
            expected="a token and a seed, as nsc writes them, or the seed of a user (SU…)",
        )
    return text if is_token_file else text.strip()
