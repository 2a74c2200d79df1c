"""The fault ``diverged``: the code of a flow no longer fits its history (spec/flow.md, FL-5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from aos.values.cbor import decode_record
from aos.values.errors import ValueProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowDivergence:
    """Where the code and the history differ: ``expected`` is what the history has at ``path``,
    ``found`` what the code asks for."""

    path: str
    expected: str
    found: str

    @classmethod
    def read(cls, detail: bytes | None) -> Self | None:
        """Read the detail of a fault; None if it is that of another fault."""
        try:
            fields = None if detail is None else decode_record(detail)
        except ValueProblem:
            return None
        if not isinstance(fields, dict) or set(fields) != {"path", "expected", "found"}:
            return None
        path, expected, found = (fields[name] for name in ("path", "expected", "found"))
        if not (isinstance(path, str) and isinstance(expected, str) and isinstance(found, str)):
            return None
        return cls(path=path, expected=expected, found=found)

    def to_document(self) -> dict[str, object]:
        """The same as JSON."""
        return {"path": self.path, "expected": self.expected, "found": self.found}
