"""The certificates of a connection to a node (spec/cli.md, C-92a)."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final, TypeAlias

import httpx

from aos.errors import BadUsage, sentence

CA_VARIABLE: Final = "AOS_NODE_CA"
CERT_VARIABLE: Final = "AOS_NODE_CERT"
KEY_VARIABLE: Final = "AOS_NODE_KEY"

Certificate: TypeAlias = tuple[Path | str, Path | str]
"""The files of a certificate and of its key (PEM)."""


def tls_context(
    authorities: Path | str | None = None, certificate: Certificate | None = None
) -> ssl.SSLContext:
    """Return the context of a client that trusts ``authorities`` and shows ``certificate``; by
    default those of the environment, else the authorities of the package certifi, and none.

    Raises:
        BadUsage: A file is missing or is no PEM file, or a certificate has no key.
    """
    trusted = authorities or os.environ.get(CA_VARIABLE) or None
    context = httpx.create_ssl_context(trust_env=False)
    if trusted is not None:
        try:
            context = ssl.create_default_context(cafile=str(trusted))
        except OSError as error:
            raise _unreadable(CA_VARIABLE, trusted, error) from error
    cert, key = certificate or (os.environ.get(CERT_VARIABLE), os.environ.get(KEY_VARIABLE))
    if cert:
        if not key:
            raise BadUsage(f"{CERT_VARIABLE} is set: expected {KEY_VARIABLE}, too")
        try:
            # A password would be asked for on the terminal.
            context.load_cert_chain(str(cert), str(key), password="")
        except OSError as error:
            raise _unreadable(CERT_VARIABLE, f"{cert}, {key}", error) from error
    return context


def _unreadable(name: str, files: Path | str, error: OSError) -> BadUsage:
    reason = error.strerror or str(error)
    return BadUsage(
        sentence(f"{files} cannot be used", location=name, expected="a PEM file", actual=reason)
    )
