"""The AgentOS ABI: the input of its modules, and how their output is read (spec/agentos.md).

Rule 1: the journal holds our forms. Everything here is computed from them, again at every replay.

Rule 2: a field is written under every name by which some version of the SDK reads it; the other
versions ignore unknown names.

Rule 3: every hash that the SDK decodes is SHA-256. The hash of one of our blobs is replaced by a
given name, and a stored document maps that name to the blob (``aos.values.sha256``).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, TypeAlias

from aos.core.decide.dialect.aos import EFFECT_FIELDS, Dialect, wrapped
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Slot, slot_bytes
from aos.core.state.cell import EventMail, Mail, OpenIntent, StreamMail
from aos.core.state.continuation import unwrapped, unwrapped_frame
from aos.manifest.builtin_definitions import SCHEMAS
from aos.manifest.effective import Effect, Effective, Workflow
from aos.manifest.names import (
    BLOB_PUT,
    CONTEXT,
    ENVELOPE,
    HTTP,
    INTROSPECT_CELLS,
    INTROSPECT_STATE,
    KERNEL_EFFECTS,
    REJECTED,
    STREAM,
    WORKSPACE_RESOLVE,
)
from aos.values.cbor import SELF_DESCRIBED, Value, encode
from aos.values.digests import Hash, parse_hash
from aos.values.errors import ValueProblem, quoted
from aos.values.foreign import from_foreign
from aos.values.hash_rewrite import HashRewrite
from aos.values.schema import Schema, compile_schemas
from aos.values.sha256 import Name, given_name, given_text, sha256_text

_Fields: TypeAlias = dict[str | int, Value]

_NOT_THEIRS: Final[Mapping[str, tuple[str, ...]]] = {
    HTTP: ("body",),
    INTROSPECT_CELLS: ("after", "limit", "consistency"),
}
"""Our options that params in AgentOS do not have."""


_CONTEXT: Final = compile_schemas(
    {
        CONTEXT: {
            "record": {
                **SCHEMAS[CONTEXT]["type"]["record"],
                "workflow_op_hash": {"option": {"hash": {}}},
            }
        }
    }
)[CONTEXT]
"""The context with all names of its fields (AG-6)."""

_SHOWN: Final = compile_schemas(
    {
        name: {
            "record": {
                **SCHEMAS[name]["type"]["record"],
                "effect_op": {"text": {}},
                "effect_kind": {"text": {}},
                "adapter_id": {"text": {}},
                "effect_op_hash": {"option": {"hash": {}}},
                "origin_workflow_op_hash": {"option": {"hash": {}}},
            }
        }
        for name in (ENVELOPE, STREAM, REJECTED)
    }
)
"""The forms of continuations with all names of their fields (AG-7)."""

# Keys


def shown_key(key: bytes) -> bytes:
    """A cell's key as the module sees it; empty for an unkeyed workflow."""
    return SELF_DESCRIBED + key if key else b""


def own_key(key: bytes) -> bytes:
    """Convert a key that the module names to ours. The module may omit the tag."""
    return key.removeprefix(SELF_DESCRIBED)


# Its input


def context(fields: Any) -> bytes:
    """``fields`` is a ``sys/WorkflowContext@1``."""
    key = fields["key"]
    return _CONTEXT.encode(
        {
            **fields,
            "workflow_op_hash": fields["workflow_hash"],
            "manifest_hash": _given_manifest(fields["manifest_hash"]),
            "key": None if key is None else shown_key(key),
        }
    )


_given_manifest = lru_cache(maxsize=64)(given_text)


class StepInput:
    """The input of one step. ``names`` are the documents that are stored with its record."""

    def __init__(self, manifest: Effective) -> None:
        self._schemas = manifest.schemas
        self._rewrite = _rewrite_of(manifest)
        self.names: dict[Hash, bytes] = {}

    def event(self, name: str, data: bytes) -> bytes:
        """A domain event of the schema ``name``, before it is wrapped."""
        schema = self._schemas[name]
        if not self._rewrite.has_hashes(schema):
            return data
        return encode(self._rewrite.rewritten(schema, schema.from_record(data), self._name_blob))

    def continuation(self, schema: str, fields: Any, intent: OpenIntent, params: bytes) -> Value:
        """``fields`` is a continuation of ``schema``; ``params`` are the intent's."""
        effect = intent.effect
        agentos_fields: _Fields = {
            **fields,
            "effect_op": effect.name,
            "effect_kind": effect.name,
            "adapter_id": effect.executor,
        }
        if schema not in (ENVELOPE, STREAM, REJECTED):
            agentos_fields["receipt"] = self._payload(effect, effect.receipt, fields["receipt"])
            return agentos_fields
        key = fields["origin_instance_key"]
        agentos_fields |= {
            "origin_workflow_op_hash": fields["origin_workflow_hash"],
            "origin_instance_key": None if key is None else shown_key(key),
            "effect_op_hash": fields["effect_hash"],
            "params_hash": params_hash(effect, params),
        }
        if schema == ENVELOPE:
            agentos_fields["receipt_payload"] = self._envelope_payload(effect, fields)
        elif schema == STREAM and fields["payload_ref"] is not None:
            agentos_fields["payload_ref"] = self._name_blob(fields["payload_ref"])
        elif schema == REJECTED:
            agentos_fields["payload_hash"] = given_text(fields["payload_hash"])
        return agentos_fields

    def _envelope_payload(self, effect: Effect, fields: Mapping[str, Any]) -> bytes:
        data: bytes = fields["receipt_payload"]
        if fields["payload_schema"] != effect.receipt.name:
            return data  # an error, which holds no hash
        is_changed = effect.name in (HTTP, INTROSPECT_CELLS)
        if not is_changed and not self._rewrite.has_hashes(effect.receipt):
            return data
        return encode(self._payload(effect, effect.receipt, effect.receipt.from_record(data)))

    def _payload(self, effect: Effect, schema: Schema, value: Value) -> Value:
        # What the core says about itself names no blob that a module was given.
        is_about_itself = effect.name in KERNEL_EFFECTS and effect.name != WORKSPACE_RESOLVE
        change = given_text if is_about_itself else self._name_blob
        payload = self._rewrite.rewritten(schema, value, change)
        if effect.name == HTTP:
            return _with(payload, adapter_id=effect.executor)
        if effect.name == INTROSPECT_CELLS:
            cells: Any = _with(payload)["cells"]
            return _with(payload, cells=[_with(cell, key=shown_key(cell["key"])) for cell in cells])
        return payload

    def _name_blob(self, text: str) -> str:
        """The given name of a blob of this world; a hash of another algorithm stays."""
        try:
            name: Name = given_name(parse_hash(text))
        except ValueProblem:
            return text
        self.names[name.hash] = name.to_bytes()
        return given_text(text)


def _with(record: Any, **fields: Value) -> _Fields:
    return {**record, **fields}


@lru_cache(maxsize=8)
def _rewrite_of(manifest: Effective) -> HashRewrite:
    return HashRewrite(manifest.schemas)


def params_hash(effect: Effect, params: bytes) -> str:
    """SHA-256 over the params of an intent as its SDK spells them."""
    if effect.name in _NOT_THEIRS or effect.name == INTROSPECT_STATE:
        params = encode(_as_asked(effect.name, effect.params.from_record(params)))
    return sha256_text(SELF_DESCRIBED + params)


def _as_asked(effect: str, params: Any) -> Value:
    dropped = [name for name in _NOT_THEIRS.get(effect, ()) if params[name] is None]
    sdk_params: _Fields = {name: value for name, value in params.items() if name not in dropped}
    if effect == HTTP:
        sdk_params["headers"] = {name: _header(value) for name, value in params["headers"].items()}
    elif effect == INTROSPECT_STATE and params["key"] is not None:
        sdk_params["key"] = shown_key(params["key"])
    return sdk_params


def _header(value: Any) -> Value:
    literal: Value = value["$value"] if value["$tag"] == "literal" else value
    return literal


# Its output


def read_foreign(manifest: Effective, schema: Schema, data: bytes, max_bytes: int) -> bytes:
    """Convert a value that the module emitted to the canonical bytes of its normal form.

    Raises:
        ValueProblem: It does not fit ``schema``.
    """
    # Most values fit as they are, and the ingress gate is faster. It takes no value otherwise.
    with suppress(ValueProblem):
        return schema.from_ingress(data, max_bytes=max_bytes)
    return from_foreign(schema, manifest.schemas, data, max_bytes=max_bytes)[0]


def completed(effect: Effect, params: bytes, max_bytes: int) -> bytes:
    """Complete params in normal form: add the name that a blob will have, and convert keys to
    ours.

    Raises:
        ValueProblem: The name is another blob's, or with it they are longer than ``max_bytes``
            bytes.
    """
    if effect.name == BLOB_PUT:
        completed_params = effect.params.encode(_named_put(effect.params.from_record(params)))
        if len(completed_params) > max_bytes:
            raise ValueProblem(
                f"too large: expected at most {max_bytes} bytes with blob_ref, found "
                f"{len(completed_params)}"
            )
        return completed_params
    if effect.name in (INTROSPECT_STATE, INTROSPECT_CELLS):
        value: Any = effect.params.from_record(params)
        field = "key" if effect.name == INTROSPECT_STATE else "after"
        if value[field] is not None:
            return effect.params.encode({**value, field: own_key(value[field])})
    return params


def _named_put(value: Any) -> Value:
    name = sha256_text(value["bytes"])
    blob_ref = value["blob_ref"]
    if blob_ref not in (None, name):
        raise ValueProblem(
            f"expected {name}, the SHA-256 of bytes, found {quoted(blob_ref)}", path="$.blob_ref"
        )
    return {**value, "blob_ref": name, "refs": value["refs"] or []}


class AgentosDialect(Dialect):
    """``agentos``: modules of the AgentOS SDK, which have other forms and SHA-256 hashes."""

    def context(self, fields: Any) -> bytes:
        return context(fields)

    def shown_key(self, key: bytes) -> bytes:
        return shown_key(key)

    def own_key(self, key: bytes) -> bytes:
        return own_key(key)

    def delivered(
        self, workflow: Workflow, manifest: Effective, mail: Mail, read: BlobReader
    ) -> tuple[bytes, Mapping[Hash, bytes]]:
        step_input = StepInput(manifest)
        if isinstance(mail, EventMail):
            value = step_input.event(mail.schema, slot_bytes(mail.value, read))
            return wrapped(workflow, mail.schema, value), step_input.names
        if isinstance(mail, StreamMail):
            schema, fields = STREAM, unwrapped_frame(mail.intent, mail.frame, read)
        else:
            schema, fields = unwrapped(workflow, mail.intent, mail.receipt, read)
        params = slot_bytes(mail.intent.params, read)
        agentos_fields = step_input.continuation(schema, fields, mail.intent, params)
        form = _SHOWN.get(schema)
        if form is not None:
            return wrapped(workflow, schema, form.encode(agentos_fields)), step_input.names
        return encode(workflow.wrap(schema, agentos_fields)), step_input.names

    def reads_of(self, mail: Mail) -> tuple[Slot, ...]:
        # A stream frame is delivered with the hash of its intent's params.
        return (mail.intent.params,) if isinstance(mail, StreamMail) else ()

    def normal_form(
        self, manifest: Effective, schema: Schema, data: bytes, max_bytes: int
    ) -> bytes:
        return read_foreign(manifest, schema, data, max_bytes)

    def params(self, effect: Effect, params: bytes, max_bytes: int) -> bytes:
        return completed(effect, params, max_bytes)


# Older SDKs write a ``cap_slot``, which the kernel does not use (AG-4).
AGENTOS_DIALECT: Final = AgentosDialect(EFFECT_FIELDS | {"cap_slot"}, drops_annotations=True)
