"""The addresses of pages (spec/page.md, PG-5): a name is two segments, a key base64url of its CBOR.

/w/0f3a…/cell/shop/order@1/Y28tMQ        the cell "o-1" of shop/order@1
/w/0f3a…/cell/shop/totals@1/-            the only cell of a workflow without keys
"""

from __future__ import annotations

import base64
import binascii
from typing import Final
from urllib.parse import quote, urlencode

from aos.core.state.state import State
from aos.errors import BadUsage
from aos.manifest.names import LINEAR
from aos.read.lens.lookup import find_cell
from aos.read.lens.words import compact
from aos.read.views.flow_reading import flow_names
from aos.values.cbor import decode_record, encode
from aos.values.errors import ValueProblem

NO_KEY: Final = "-"


def key_segment(key: bytes) -> str:
    """Return the canonical CBOR of a key as a segment of a path."""
    return base64.urlsafe_b64encode(key).decode().rstrip("=") if key else NO_KEY


def read_key_segment(segment: str) -> bytes:
    """Read a segment of a path as the CBOR of a key; empty for none.

    Raises:
        BadUsage: It is not base64url.
    """
    if segment == NO_KEY:
        return b""
    try:
        data = base64.b64decode(segment + "=" * (-len(segment) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        data = b""
    if not data or key_segment(data) != segment:
        raise BadUsage(
            f"the key in the address: expected base64url of its CBOR, or -, found {segment[:60]!r}"
        )
    return data


def read_id_segment(segment: str, noun: str) -> str:
    """Read a segment of a path as the CBOR of an id, of a linear instance or a schedule.

    Raises:
        BadUsage: It is none.
    """
    data = read_key_segment(segment)
    try:
        decoded = decode_record(data)
    except ValueProblem:
        decoded = None
    if not isinstance(decoded, str):
        raise BadUsage(
            f"the {noun} in the address: expected base64url of the CBOR of its id, found "
            f"{segment[:60]!r}"
        )
    return decoded


class PageLinks:
    """Makes the addresses of one world's pages. ``base`` is ``/w/ID``; ``at`` is the record as of
    which the page is, which links to other pages of the same time keep."""

    def __init__(self, base: str, state: State | None, at: int | None = None) -> None:
        self.base = base
        self.state = state
        self._at = at
        self._flows: list[str] | None = None

    def to(self, path: str, **query: object) -> str:
        """Return an address below the world's; query fields that are None are left out."""
        parameters = {
            name: value for name, value in query.items() if value not in (None, "", False)
        }
        return self.base + path + (f"?{urlencode(parameters, doseq=True)}" if parameters else "")

    def cell(self, workflow: str, key: object) -> str | None:
        """Return the address of a cell whose key is shown as JSON; None if no page has it."""
        return self._of_cell("/cell", workflow, key, at=self._at)

    def cell_now(self, workflow: str, key: object) -> str | None:
        """Return the address of a cell as it is now, also on a page of the past."""
        return self._of_cell("/cell", workflow, key)

    def timeline(self, workflow: str, key: object) -> str | None:
        """Return the address of the trace of a cell."""
        return self._of_cell("/trace", workflow, key)

    def steps(self, workflow: str, key: object) -> str | None:
        """Return the address of the steps of a cell, one by one."""
        return self._of_cell("/steps", workflow, key)

    def flow(self, workflow: str, key: object, **query: object) -> str | None:
        """Return the address of an instance of a flow."""
        return self._of_cell("/flow", workflow, key, at=self._at, **query)

    def linear(self, instance: str) -> str:
        """Return the address of a linear instance."""
        return self.to(f"/linear/{key_segment(encode(instance))}", at=self._at)

    def part_list(self, workflow: str) -> tuple[str, str] | None:
        """Return the word for the instances of a workflow and the address of their list, if they
        are flows or linear instances; else None."""
        if workflow == LINEAR:
            return "linear", self.to("/linear", at=self._at)
        if self._is_flow(workflow):
            return "flow", self.to("/flows", flow=workflow, at=self._at)
        return None

    def part_of(self, workflow: str, key_cbor: str) -> tuple[str, str] | None:
        """Return the same word for a cell, and the address of the page that shows it so."""
        segment, name = key_segment(bytes.fromhex(key_cbor)), _segments(workflow)
        if workflow == LINEAR:
            return "linear", self.to(f"/linear/{segment}", at=self._at)
        if name is not None and self._is_flow(workflow):
            return "flow", self.to(f"/flow/{name}/{segment}", at=self._at)
        return None

    def _is_flow(self, workflow: str) -> bool:
        if self._flows is None:
            self._flows = [] if self.state is None else flow_names(self.state)
        return workflow in self._flows

    def _of_cell(self, page: str, workflow: str, key: object, **query: object) -> str | None:
        name = _segments(workflow)
        if self.state is None or name is None:
            return None
        try:
            _, data = find_cell(self.state, workflow, None if key is None else compact(key))
        except BadUsage:
            return None
        return self.to(f"{page}/{name}/{key_segment(data)}", **query)

    def cell_cbor(self, workflow: str, key_cbor: str) -> str | None:
        """Return the address of a cell whose key is known as CBOR in hex."""
        name = _segments(workflow)
        if name is None:
            return None
        return self.to(f"/cell/{name}/{key_segment(bytes.fromhex(key_cbor))}", at=self._at)

    def definition(self, name: str) -> str | None:
        """Return the address of a definition of the manifest; None if the name has no two parts."""
        segments = _segments(name)
        return None if segments is None else self.to(f"/manifest/{segments}", at=self._at)

    def record(self, seq: int) -> str:
        """Return the address of a record."""
        return self.to(f"/record/{seq}")

    def trace(self, word: object) -> str:
        """Return the address of the trace of a record or an intent."""
        return self.to(f"/trace/{_digits(word)}")

    def intent(self, hash: str) -> str:
        """Return the address of an intent."""
        return self.to(f"/intent/{_digits(hash)}")

    def schedule(self, id: str) -> str:
        """Return the address of a schedule."""
        return self.to(f"/schedule/{key_segment(encode(id))}")

    def batch(self, id: str) -> str:
        """Return the address of a batch."""
        return self.to(f"/batch/{quote(id, safe='')}")

    def move(self, node: str) -> str:
        """Return the address of the form that moves the world to a node."""
        return self.to(f"/cluster/move/{quote(node, safe='')}")

    def drain(self, member: str) -> str:
        """Return the address of the form that has a member drain, or ends its drain."""
        return self.to(f"/cluster/drain/{quote(member, safe='')}")

    def value(self, hash: str) -> str:
        """Return the address of a value that is stored outside its records."""
        return self.to(f"/value/{_digits(hash)}")


def _digits(word: object) -> str:
    return quote(str(word).removeprefix("blake3:"), safe="")


def _segments(name: str) -> str | None:
    parts = name.split("/")
    if len(parts) != 2 or not all(parts) or any(part in (".", "..") for part in parts):
        return None
    return "/".join(quote(part, safe="@") for part in parts)
