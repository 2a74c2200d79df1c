"""How a flow fails: the failure of an operation or of the whole flow, as its state keeps it
(spec/flow.md, FL-12), and the fault ``diverged`` (FL-5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from aos.flow.shapes import expect_list, expect_text
from aos.values.cbor import Value, decode_record
from aos.values.errors import ValueProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an operation failed. ``path`` is the operation where it began; ``causes`` are the
    failures of the branches, or the one that this failure follows from."""

    kind: str
    code: str
    message: str
    path: str
    causes: tuple[Failure, ...] = ()

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Read the bytes of a failure. Raises ``ValueProblem``."""
        return cls.of(decode_record(data), "failure")

    @classmethod
    def of(cls, value: Value, value_path: str) -> Self:
        """Read a decoded failure at ``value_path``. Raises ``ValueProblem``."""
        kind, code, message, path, causes = expect_list(value, value_path, 5)
        return cls(
            kind=expect_text(kind, f"{value_path}[0]"),
            code=expect_text(code, f"{value_path}[1]"),
            message=expect_text(message, f"{value_path}[2]"),
            path=expect_text(path, f"{value_path}[3]"),
            causes=tuple(
                cls.of(cause, f"{value_path}[4][{index}]")
                for index, cause in enumerate(expect_list(causes, f"{value_path}[4]"))
            ),
        )

    @property
    def text(self) -> str:
        """The failure on one line, as ``failure_text``."""
        return failure_text(self.to_document())

    def to_document(self) -> dict[str, Any]:
        """The same as JSON, with its causes."""
        return {
            "kind": self.kind,
            "code": self.code,
            "message": self.message,
            "path": self.path,
            "causes": [cause.to_document() for cause in self.causes],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowDivergence:
    """The fault ``diverged``: the code of a flow no longer fits its history (FL-5).

    They differ at ``path``: ``expected`` is what the history has there, ``found`` what the code
    asks for.
    """

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


def failure_text(failure: dict[str, Any]) -> str:
    """Return the document of a failure on one line, without its causes: ``critical no_funds: the
    card is empty (at charge)``."""
    code = "" if failure["code"] in ("", failure["kind"]) else f" {failure['code']}"
    message_text = f": {failure['message']}" if failure["message"] else ""
    path_text = f" (at {failure['path']})" if failure["path"] else ""
    return f"{failure['kind']}{code}{message_text}{path_text}"
