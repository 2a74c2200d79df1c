"""Secrets with their values, in the process that uses them (X-67 to X-69, X-75).

The node sends them with a task, over the process's socket; they are kept for that task only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aos.manifest.hosts import HostPort, read_place
from aos.values.cbor import Value, decode_record, encode

UNAVAILABLE: Final = "secret_unavailable"
MISMATCH: Final = "secret_mismatch"
HOST_DENIED: Final = "secret_host_denied"
WORKFLOW_DENIED: Final = "secret_workflow_denied"

VALUE_BYTES_MIN: Final = 4
"""A shorter value would occur in responses by chance, so redaction could not remove it."""

VALUE_BYTES_MAX: Final = 32 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretValue:
    """A secret with its value. ``hosts`` is None if it may be sent to every allowed host."""

    name: str
    value: bytes = field(repr=False)
    hosts: tuple[HostPort, ...] | None

    def may_go_to(self, host: str, port: int) -> bool:
        """Whether ``hosts`` permit this target (X-68). The list of allowed hosts applies in
        addition. ``host`` is spelled as ``read_host`` returns it."""
        return self.hosts is None or any(host_port.covers(host, port) for host_port in self.hosts)


def texts_of(secrets: Iterable[SecretValue]) -> dict[tuple[str, int], str]:
    """The values by alias and version, as a function gets them. The node sends UTF-8 alone."""
    texts = {}
    for secret in secrets:
        alias, _, version = secret.name.rpartition("@")
        texts[alias, int(version)] = secret.value.decode()
    return texts


def to_wire(secrets: Iterable[SecretValue]) -> bytes:
    """Encode the secrets of a task, for ``from_wire``."""
    rows: list[Value] = []
    for secret in secrets:
        hosts: Value = (
            None if secret.hosts is None else [str(host_port) for host_port in secret.hosts]
        )
        rows.append({"name": secret.name, "value": secret.value, "hosts": hosts})
    return encode(rows)


def from_wire(data: bytes) -> Mapping[str, SecretValue]:
    """Decode secrets, by name. Only the node writes these bytes, so they are not validated."""
    rows: Any = decode_record(data)
    return {
        row["name"]: SecretValue(
            name=row["name"],
            value=row["value"],
            hosts=None if row["hosts"] is None else tuple(map(read_place, row["hosts"])),
        )
        for row in rows
    }
