"""The head of a shadow report: which change it shows, and over which records (GV-30 to GV-32).

The kernel reads only this part. ``audit`` makes reports and shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from aos.values.cbor import decode_record
from aos.values.digests import HASH_BYTES, Hash
from aos.values.errors import ValueProblem

REPORT_FORMAT: Final = "aos-shadow/1"
REPORT_BYTES_MAX: Final = 1 << 20
"""Largest report, in bytes."""

_NAT_MAX: Final = 2**63 - 1


class ReportInvalid(ValueError):
    """The bytes are no shadow report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportHead:
    """``first`` is the record that the proposed manifest replaced, ``last`` the last record
    that the shadow followed, ``frame`` the hash of the frame that holds it."""

    world: Hash
    base: Hash
    document: Hash
    mode: str
    leaves: tuple[str, ...]
    first: int
    last: int
    frame: Hash

    @property
    def records(self) -> int:
        """How many records the shadow followed."""
        return self.last - self.first

    def fields(self) -> dict[str | int, Any]:
        """Return the fields of the report's map that state this."""
        return {
            "format": REPORT_FORMAT,
            "world": self.world,
            "base": self.base,
            "document": self.document,
            "mode": self.mode,
            "leaves": list(self.leaves),
            "from": self.first,
            "to": self.last,
            "frame": self.frame,
        }


def read_report_head(report: bytes) -> ReportHead:
    """Read the fields that the kernel checks; all others are the report's own.

    Raises:
        ReportInvalid: The report is too large, is not canonical CBOR, or has no such fields.
    """
    if len(report) > REPORT_BYTES_MAX:
        raise ReportInvalid(f"expected at most {REPORT_BYTES_MAX} bytes, found {len(report)}")
    try:
        value = decode_record(report)
    except ValueProblem as problem:
        raise ReportInvalid(f"it is not canonical CBOR: {problem}") from problem
    match value:
        case {
            "format": "aos-shadow/1",
            "world": bytes(world),
            "base": bytes(base),
            "document": bytes(document),
            "mode": str(mode),
            "leaves": list(leaves),
            "from": int(first),
            "to": int(last),
            "frame": bytes(frame),
        } if (
            all(len(hash_bytes) == HASH_BYTES for hash_bytes in (world, base, document, frame))
            and all(isinstance(workflow, str) for workflow in leaves)
            and type(first) is int
            and type(last) is int
            and 0 < first <= _NAT_MAX
            and 0 < last <= _NAT_MAX
        ):
            return ReportHead(
                world=Hash(world),
                base=Hash(base),
                document=Hash(document),
                mode=mode,
                leaves=tuple(map(str, leaves)),
                first=first,
                last=last,
                frame=Hash(frame),
            )
    raise ReportInvalid(
        f"expected a map with format {REPORT_FORMAT}, world, base, document, mode, leaves, from, "
        "to and frame"
    )
