"""The kernel's own ABI, ``aos/1``, and the base of every other dialect (spec/kernel.md, K-32).

A ``Dialect`` is what an ABI changes about a step: the form in which the module gets its input, and
the form in which its output is read. The journal always holds our forms, so a dialect converts on
the way in and on the way out, and replay converts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Slot, slot_bytes
from aos.core.state.cell import EventMail, Mail, StreamMail
from aos.core.state.continuation import continuation, stream_frame
from aos.manifest.builtin_definitions import SCHEMAS
from aos.manifest.effective import Effect, Effective, Workflow
from aos.manifest.names import CONTEXT
from aos.values.cbor import encode_text
from aos.values.digests import Hash
from aos.values.schema import Schema, compile_schemas

EFFECT_FIELDS: Final = frozenset(
    {"effect", "kind", "params", "params_cbor", "idempotency_key", "issuer_ref"}
)
"""The fields that a requested effect may have in a module's output."""


_CONTEXT: Final = compile_schemas({CONTEXT: SCHEMAS[CONTEXT]["type"]})[CONTEXT]


def wrapped(workflow: Workflow, schema: str, value: bytes) -> bytes:
    """Return the canonical bytes of an event as its receiver takes it: the event itself, or in its
    arm of a variant. The bytes were checked when the event was admitted or emitted."""
    if schema == workflow.event.name:
        return value
    return b"\xa2\x64$tag" + encode_text(workflow.arms[schema]) + b"\x66$value" + value


class Dialect:
    """``aos/1``: the module gets and returns the forms of the journal."""

    def __init__(
        self, effect_fields: frozenset[str] = EFFECT_FIELDS, *, drops_annotations: bool = False
    ) -> None:
        self.effect_fields = effect_fields
        """The fields that a requested effect may have."""
        self.drops_annotations = drops_annotations
        """Whether an annotation is dropped, not refused, if the workflow declares no schema."""

    def context(self, fields: Any) -> bytes:
        """Encode a ``sys/WorkflowContext@1`` in the module's form."""
        return _CONTEXT.encode(fields)

    def shown_key(self, key: bytes) -> bytes:
        """Convert a cell's key to the module's form; it is empty for an unkeyed workflow."""
        return key

    def own_key(self, key: bytes) -> bytes:
        """Convert a key that the module named to our form."""
        return key

    def delivered(
        self,
        workflow: Workflow,
        manifest: Effective,  # noqa: ARG002  # another dialect needs it
        mail: Mail,
        read: BlobReader,
    ) -> tuple[bytes, Mapping[Hash, bytes]]:
        """Return the event that the module is called with, and the blobs that must be stored with
        the step because the module may name them. ``manifest`` is the workflow's.

        Raises:
            Damage: A blob of the mail is missing or altered.
        """
        if isinstance(mail, EventMail):
            return wrapped(workflow, mail.schema, slot_bytes(mail.value, read)), {}
        if isinstance(mail, StreamMail):
            value = stream_frame(workflow, mail.intent, mail.frame, read)
        else:
            value = continuation(workflow, mail.intent, mail.receipt, read)
        return workflow.event.encode(value), {}

    def reads_of(self, mail: Mail) -> tuple[Slot, ...]:  # noqa: ARG002  # another dialect needs it
        """Return the values, other than the mail's own, that delivering this mail reads."""
        return ()

    def normal_form(
        self,
        manifest: Effective,  # noqa: ARG002  # another dialect needs it
        schema: Schema,
        data: bytes,
        max_bytes: int,
    ) -> bytes:
        """Convert a value that the module emitted to the canonical bytes of its normal form.

        Raises:
            ValueProblem: It does not fit ``schema``, or has more than ``max_bytes`` bytes.
        """
        return schema.from_ingress(data, max_bytes=max_bytes)

    def params(
        self,
        effect: Effect,  # noqa: ARG002  # another dialect needs it
        params: bytes,
        max_bytes: int,  # noqa: ARG002  # another dialect needs it
    ) -> bytes:
        """Complete the params of a requested effect, which are in normal form.

        Raises:
            ValueProblem: They cannot be completed, or become longer than ``max_bytes`` bytes.
        """
        return params


AOS: Final = Dialect()
