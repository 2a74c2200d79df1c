"""A request that the node does not carry out, as a problem document of RFC 9457, and that of each
refusal and each error of the kernel (spec/node-api.md, N-120, N-121).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aos.core.decide.answers import Refusal, Rule
from aos.errors import AosError, BadUsage, Erased, Pruned, Refused, Unavailable
from aos.host.errors import Busy, WorldStopped
from aos.manifest.effective import Effective
from aos.read.lens.words import as_json
from aos.read.views.cell_view import NoSuchCell
from aos.read.where.condition import WhereInvalid
from aos.shell_text import shell_word

TYPE_PREFIX: Final = "urn:aos:"

RETRY_AFTER_S: Final = 1
ADMITTED: Final = "yes"
NOT_ADMITTED: Final = "no"
NOT_KNOWN: Final = "unknown"

REFUSED: Final = "request_was_refused"
"""The rule of a refusal that has no rule of the core."""

STATUSES: Final[Mapping[Rule, int]] = {
    Rule.WORLD_HAS_NO_MANIFEST: 409,
    Rule.EVENT_SCHEMA_IS_UNKNOWN: 404,
    Rule.EVENT_IS_INTERNAL: 403,
    Rule.EVENT_IS_INVALID: 422,
    Rule.EVENT_KEY_IS_INVALID: 422,
    Rule.KEY_OF_ANOTHER_SHARD: 409,
    Rule.EVENT_REACHES_TOO_MANY: 409,
    Rule.EVENT_DOES_NOT_FIT_INSTANCE: 409,
    Rule.INSTANCE_IS_UNKNOWN: 404,
    Rule.SUBMISSION_ID_IS_TAKEN: 409,
    Rule.SUBMISSION_ID_IS_INVALID: 422,
    Rule.DELIVERY_IS_TOO_OLD: 409,
    Rule.WORLD_IS_BUSY: 429,
    Rule.RECEIPT_INTENT_IS_UNKNOWN: 404,
    Rule.RECEIPT_INTENT_IS_SETTLED: 409,
    Rule.RECEIPT_EFFECT_DIFFERS: 409,
    Rule.RECEIPT_ATTEMPT_IS_OLD: 409,
    Rule.RECEIPT_STATUS_IS_UNKNOWN: 422,
    Rule.RECEIPT_IS_TOO_LARGE: 413,
    Rule.RECEIPT_TIMES_ARE_INVALID: 422,
    Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN: 403,
    Rule.RECEIPT_SIGNATURE_IS_WRONG: 403,
    Rule.TIMER_IS_NOT_DUE: 409,
    Rule.STREAM_FRAME_IS_OLD: 409,
    Rule.STREAM_FRAME_IS_INVALID: 422,
    Rule.STREAM_FRAME_IS_TOO_LARGE: 413,
    Rule.STREAM_IS_TOO_FAST: 429,
    Rule.STREAM_IS_TOO_LONG: 409,
    Rule.STREAM_HAS_NO_TAKER: 409,
    Rule.ATTEMPT_IS_OLD: 409,
    Rule.ATTEMPT_IS_INVALID: 422,
    Rule.SNAPSHOT_IS_OLD: 409,
    Rule.CONTROL_PRINCIPAL_IS_UNKNOWN: 403,
    Rule.CONTROL_SERIAL_IS_WRONG: 409,
    Rule.CONTROL_SIGNATURE_IS_WRONG: 403,
    Rule.CONTROL_IS_INVALID: 422,
    Rule.CELL_HAS_NOT_FAILED: 409,
    Rule.CELL_HAS_NOTHING_TO_SKIP: 409,
    Rule.CELL_DOES_NOT_FIT: 409,
    Rule.CELL_IS_NOT_PINNED: 409,
    Rule.CELL_IS_UNKNOWN: 404,
    Rule.CELL_HAS_ENDED: 409,
    Rule.CELL_HAS_OWN_COMMAND: 409,
    Rule.CLOCK_IS_NOT_AHEAD: 409,
    Rule.INTENT_IS_NOT_OPEN: 409,
    Rule.SETTLEMENT_DOES_NOT_FIT: 422,
    Rule.VALUE_IS_IN_USE: 409,
    Rule.VALUE_IS_UNKNOWN: 404,
    Rule.MANIFEST_PRINCIPAL_IS_UNKNOWN: 403,
    Rule.MANIFEST_SIGNATURE_IS_WRONG: 403,
    Rule.MANIFEST_SERIAL_IS_WRONG: 409,
    Rule.MANIFEST_IS_INVALID: 422,
    Rule.MANIFEST_IS_IN_FORCE: 409,
    Rule.MANIFEST_MODE_IS_UNKNOWN: 422,
    Rule.MANIFEST_DOES_NOT_FIT: 409,
    Rule.MANIFEST_CHECK_IS_OLD: 409,
    Rule.WORLD_IS_NOT_QUIESCENT: 409,
    Rule.MANIFEST_NEEDS_PROPOSAL: 409,
    Rule.WORLD_IS_NOT_GOVERNED: 409,
    Rule.GOVERNANCE_PRINCIPAL_IS_UNKNOWN: 403,
    Rule.GOVERNANCE_SERIAL_IS_WRONG: 409,
    Rule.GOVERNANCE_SIGNATURE_IS_WRONG: 403,
    Rule.PROPOSAL_IS_UNKNOWN: 404,
    Rule.PROPOSAL_IS_CLOSED: 409,
    Rule.PROPOSAL_IS_STALE: 409,
    Rule.PROPOSAL_IS_INVALID: 422,
    Rule.PROPOSAL_LACKS_QUORUM: 409,
    Rule.PROPOSAL_DIFFERS: 409,
    Rule.TOO_MANY_PROPOSALS: 429,
    Rule.REPORT_IS_INVALID: 422,
    Rule.TOO_MANY_REPORTS: 429,
    Rule.VOTE_IS_TAKEN: 409,
    Rule.REPORT_IS_NEEDED: 409,
}
"""The HTTP status of each rule of the core."""


class Problem(Exception):
    """Why a request, or one item of a batch, has no other answer.

    Args:
        status: The HTTP status of the answer.
        rule: The broken rule in snake_case, for programs. A rule of the core keeps its name.
        detail: The sentence of the command line: expected, found, where, what to do.
        pointer: JSON pointer of the value in the body that the problem is about, if there is one.
        retry_after_s: Seconds after which the same request may succeed (429, 503).
        blockers: Why a manifest cannot be applied now, one object for each reason.
        headers: Further headers of the answer.
        admitted: Of a 503 to a writing request, whether its inputs were admitted: ``yes``, ``no``
            or ``unknown`` (CL-206).
    """

    def __init__(
        self,
        status: int,
        rule: str,
        detail: str,
        *,
        pointer: str | None = None,
        retry_after_s: int | None = None,
        blockers: Sequence[Mapping[str, object]] | None = None,
        headers: Mapping[str, str] | None = None,
        admitted: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.rule = rule
        self.detail = detail
        self.pointer = pointer
        self.retry_after_s = retry_after_s
        self.blockers = blockers
        self.headers = dict(headers or {})
        self.admitted = admitted

    def document(self) -> dict[str, object]:
        """The body of the answer."""
        fields: dict[str, object] = {
            "type": TYPE_PREFIX + self.rule,
            "status": self.status,
            "detail": self.detail,
            "rule": self.rule,
        }
        if self.pointer is not None:
            fields["pointer"] = self.pointer
        if self.blockers is not None:
            fields["blockers"] = list(self.blockers)
        if self.admitted is not None:
            fields["admitted"] = self.admitted
        return fields


def text_for_clients(error: AosError, world: Path) -> str:
    """The text of an error, with DIR for the path of the world's folder: clients do not learn where
    it is on the machine of the node (N-120)."""
    path = str(world)
    in_command = shell_word(path).removeprefix("$").strip("'")
    names = "|".join(map(re.escape, dict.fromkeys((path, in_command))))
    return re.sub(rf"(?<![^\s('])(?:{names})(?![^\s/:),'])", "DIR", str(error))


def refused(answer: Refusal, manifest: Effective | None = None) -> Problem:
    """Return the problem of a refusal. ``manifest`` shows the keys of its blockers."""
    status = STATUSES[answer.rule]
    blockers = [
        {"kind": blocker.kind, "workflow": blocker.cell[0], "key": _key(blocker.cell, manifest),
         "detail": blocker.detail}
        for blocker in answer.blockers
    ]  # fmt: skip
    return Problem(
        status,
        answer.rule.value,
        answer.message,
        retry_after_s=RETRY_AFTER_S if status == 429 else None,
        blockers=blockers or None,
    )


def _key(cell: tuple[str, bytes], manifest: Effective | None) -> object:
    workflow = manifest.workflows.get(cell[0]) if manifest else None
    return as_json(workflow.key if workflow else None, cell[1]) if cell[1] else None


def admitted_after(error: AosError) -> str:
    """Whether the input of a request with this error was admitted (CL-206)."""
    return NOT_ADMITTED if isinstance(error, Unavailable) and error.is_unsent else NOT_KNOWN


def problem_of(error: AosError, world: Path, *, unknown: int = 400) -> Problem:
    """Return the problem of an error of the world in this folder. ``unknown`` is the status where
    the input names nothing that is known, or is not understood."""
    text = text_for_clients(error, world)
    match error:
        case Pruned():
            return Problem(410, "record_was_pruned", text)
        case Erased():
            return Problem(410, "value_was_erased", text)
        case Refused():
            return Problem(409, REFUSED, text)
        case NoSuchCell():
            return Problem(unknown, Rule.CELL_IS_UNKNOWN.value, text)
        case WhereInvalid():
            return Problem(400, error.rule, text)
        case BadUsage():
            rule = "name_is_unknown" if unknown == 404 else "request_is_invalid"
            return Problem(unknown, rule, text)
        case Busy():
            return Problem(429, "world_is_busy", text, retry_after_s=RETRY_AFTER_S)
        case WorldStopped() | Unavailable():
            return Problem(
                503, "world_is_unavailable", text, retry_after_s=RETRY_AFTER_S,
                admitted=admitted_after(error),
            )  # fmt: skip
    return Problem(500, "world_is_damaged", text)
