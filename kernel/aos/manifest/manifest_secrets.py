"""The declaration of a secret in a manifest: its source and its permitted uses, never its value.

A params value names a secret by ``sys/SecretRef@1 {alias, version}``: the secret
``<alias>@<version>`` (spec/manifest.md, M-53 to M-57).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from aos.manifest.hosts import HostPort, read_place
from aos.values.digests import Hash, parse_hash
from aos.values.errors import ValueProblem

SECRET_REF: Final = "sys/SecretRef@1"  # noqa: S105  # the name of a schema

_ENV: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_KEY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@-]{0,255}")


@dataclass(frozen=True, slots=True)
class Binding:
    """Where the node finds the value: an environment variable, or a key of its secrets file."""

    source: Literal["env", "file"]
    key: str

    def __str__(self) -> str:
        return f"{self.source}:{self.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """One secret. ``hosts`` and ``workflows`` are None if it is not limited.

    ``expected_digest`` is the content hash of the value's bytes.
    """

    name: str
    hash: Hash
    binding: Binding
    expected_digest: Hash | None
    hosts: tuple[HostPort, ...] | None
    workflows: frozenset[str] | None

    def may_be_used_by(self, workflow: str) -> bool:
        return self.workflows is None or workflow in self.workflows


def secret_name(alias: str, version: int) -> str:
    """The name of the definition that a reference refers to."""
    return f"{alias}@{version}"


def is_key(text: str) -> bool:
    """Whether this is a valid key of a secrets file."""
    return _KEY.fullmatch(text) is not None


def read_binding(text: str) -> Binding:
    """Read ``env:NAME`` or ``file:KEY``. Raises ValueProblem."""
    source, _, key = text.partition(":")
    if source == "env" and _ENV.fullmatch(key):
        return Binding("env", key)
    if source == "file" and is_key(key):
        return Binding("file", key)
    raise ValueProblem(
        "expected env:NAME with the name of an environment variable, or file:KEY with letters, "
        f"digits and . _ / @ -, found {text[:80]!a}"
    )


def secret_of(node: Mapping[str, Any], hash: Hash) -> Secret:
    """The typed view of a canonical node, which has no findings and this hash."""
    digest, hosts, workflows = (
        node.get(field) for field in ("expected_digest", "hosts", "workflows")
    )
    return Secret(
        name=node["name"],
        hash=hash,
        binding=read_binding(node["binding_id"]),
        expected_digest=None if digest is None else parse_hash(digest),
        hosts=None if hosts is None else tuple(map(read_place, hosts)),
        workflows=None if workflows is None else frozenset(workflows),
    )
