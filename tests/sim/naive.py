"""The effective manifest and its types, read naively: plain dicts, no compiled schemas.

Written from spec/manifest.md and spec/values.md. The gates (``decode_ingress``, ``decode_record``)
are the values layer's and are tested there.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import cbor2
from blake3 import blake3

from aos.values.cbor import decode_ingress, decode_record
from aos.values.errors import ValueProblem

Node = dict[str, Any]
CellId = tuple[str, bytes]

ENVELOPE: Final = "sys/EffectReceiptEnvelope@1"
REJECTED: Final = "sys/EffectReceiptRejected@1"
STREAM: Final = "sys/EffectStreamFrame@1"
ERROR: Final = "sys/EffectError@1"
TIMER: Final = "sys/timer.set@1"
LEGACY: Final = {
    TIMER: "sys/TimerFired@1",
    "sys/blob.put@1": "sys/BlobPutResult@1",
    "sys/blob.get@1": "sys/BlobGetResult@1",
}
CONTINUATIONS: Final = {ENVELOPE, REJECTED, STREAM, *LEGACY.values()}
STREAM_LIMITS: Final = {"stream_bytes": 65536, "stream_rate": 100, "stream_frames": 100_000}
KEY_BYTES_MAX: Final = 1024
HASH_FORM: Final = re.compile(
    "(blake3|sha256):[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}"
)


def cbor(value: Any) -> bytes:
    """Canonical CBOR of whatever it is; all maps here have text keys."""
    data: bytes = cbor2.dumps(value, canonical=True)
    return data


def plain(data: bytes) -> Any:
    """The value of bytes that are known to be CBOR."""
    return cbor2.loads(data)


def content(data: bytes) -> bytes:
    return blake3(data).digest()


def digest(domain: str, *parts: Any) -> bytes:
    return blake3(cbor([domain, *parts])).digest()


def text_of(hash: bytes) -> str:
    return f"blake3:{hash.hex()}"


def key_of(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("ed25519:"))


class Misfit(Exception):
    """A value does not fit its type."""


@lru_cache(16)
def manifest_of(document: bytes) -> Manifest:
    return Manifest(document)


class Manifest:
    """One effective manifest, as its document says (M-44)."""

    def __init__(self, document: bytes) -> None:
        read: Any = decode_record(document)
        node = read["manifest"]
        self.document = document
        self.hash = content(document)
        self.manifest_hash = digest("aos/manifest/1", node)
        self.node: Node = node
        self.governance: Node | None = node.get("governance")
        self.nodes: dict[tuple[str, str], Node] = {
            (each["$kind"], each["name"]): each for each in read["definitions"]
        }
        self.limits: dict[str, int] = {**STREAM_LIMITS, **read["limits"]["world"]}
        self.step_limits: dict[str, dict[str, int]] = read["limits"]["workflows"]
        self.types = {
            name: each["type"] for (kind, name), each in self.nodes.items() if kind == "defschema"
        }
        self.workflows = {
            name: each for (kind, name), each in self.nodes.items() if kind == "defworkflow"
        }
        self.effects = {
            name: each for (kind, name), each in self.nodes.items() if kind == "defeffect"
        }
        self.subscriptions: list[Node] = node.get("routing", {}).get("subscriptions", [])
        self.ingress_list: list[str] | None = node.get("routing", {}).get("ingress")
        self.shard: list[int] | None = read.get("shard")
        self.placements: dict[str, Node] = {
            each["workflow"]: each for each in node.get("routing", {}).get("shards", ())
        }
        self.modules = {
            each["name"]: bytes.fromhex(each["hash"].removeprefix("blake3:"))
            for each in node["modules"]
        }
        self._hashes: dict[tuple[str, str], bytes] = {}
        self.executors: dict[str, Node] | None = None
        if "executors" in node:
            self.executors = {each["name"]: each for each in node["executors"]}

    def definition_hash(self, kind: str, name: str) -> bytes:
        if (kind, name) not in self._hashes:
            self._hashes[kind, name] = digest("aos/def/1", self.nodes[kind, name])
        return self._hashes[kind, name]

    def revoked(self) -> set[bytes]:
        named = (self.executors or {}).values()
        return {key_of(key) for each in named for key in each.get("revoked_keys", ())}

    def module_of(self, workflow: str) -> bytes:
        return self.modules[self.workflows[workflow]["impl"]["module"]]

    # Types

    def fit(self, name: str, value: Any) -> Any:
        """The normal form of a value of the schema ``name``; Misfit where it is none."""
        return self._normal(self.types[name], value)

    def ingress(self, name: str, data: bytes, most: int) -> bytes:
        """Bytes at the ingress gate -> canonical bytes of the normal form."""
        try:
            value = decode_ingress(data, max_bytes=most)
        except ValueProblem as problem:
            raise Misfit(str(problem)) from problem
        normal = cbor(self.fit(name, value))
        if len(normal) > most:
            raise Misfit("long")
        return normal

    def stored(self, name: str, data: bytes) -> Any:
        """Bytes that must be canonical and in normal form already."""
        try:
            value = decode_record(data)
        except ValueProblem as problem:
            raise Misfit(str(problem)) from problem
        if cbor(self.fit(name, value)) != data:
            raise Misfit("not in normal form")
        return value

    def completed(self, name: str, data: bytes) -> bytes:
        """Bytes that may lack fields of type option -> those of the normal form (K-71d)."""
        try:
            value = decode_record(data)
        except ValueProblem as problem:
            raise Misfit(str(problem)) from problem
        normal = self.fit(name, value)
        if _without_absent(normal, value) != value:
            raise Misfit("more than absent options")
        return cbor(normal)

    def received(self, name: str, data: bytes) -> bytes:
        """An event of another form of its schema, as a receiver here gets it (K-73a)."""
        try:
            value = decode_record(data)
        except ValueProblem as problem:
            raise Misfit(str(problem)) from problem
        return self.completed(name, cbor(self._known({"ref": name}, value)))

    def _known(self, expression: Node, value: Any) -> Any:
        """``value`` without the null fields that its records do not have."""
        ((form, inside),) = ((f, i) for f, i in expression.items() if f != "$comment")
        if form == "ref":
            return self._known(self.types[inside], value)
        if form == "option" and value is not None:
            return self._known(inside, value)
        if form == "list" and isinstance(value, list):
            return [self._known(inside, each) for each in value]
        if form == "record" and isinstance(value, dict):
            return {
                name: self._known(inside[name], part) if name in inside else part
                for name, part in value.items()
                if name in inside or part is not None
            }
        if form == "variant" and isinstance(value, dict) and value.get("$tag") in inside:
            # An arm of type unit has no value.
            return {
                name: self._known(inside[value["$tag"]], part) if name == "$value" else part
                for name, part in value.items()
            }
        return value

    def _normal(self, expression: Node, value: Any) -> Any:
        ((form, inside),) = ((f, i) for f, i in expression.items() if f != "$comment")
        if form == "ref":
            return self._normal(self.types[inside], value)
        if form == "option":
            return None if value is None else self._normal(inside, value)
        if form == "list":
            return [self._normal(inside, each) for each in _need(value, list)]
        if form == "set":
            elements = {cbor(self._normal(inside, each)) for each in _need(value, list)}
            return [decode_record(each) for each in sorted(elements)]
        if form == "record":
            return self._record(inside, _need(value, dict))
        if form == "variant":
            return self._variant(inside, _need(value, dict))
        return _scalar(form, value)

    def _record(self, fields: Node, value: dict[Any, Any]) -> Any:
        if set(value) - set(fields):
            raise Misfit("a field too many")
        return {name: self._normal(inside, value.get(name)) for name, inside in fields.items()}

    def _variant(self, arms: Node, value: dict[Any, Any]) -> Any:
        tag = value.get("$tag")
        if not isinstance(tag, str) or tag not in arms:
            raise Misfit("no arm")
        is_unit = arms[tag] == {"unit": {}}
        if set(value) != ({"$tag"} if is_unit else {"$tag", "$value"}):
            raise Misfit("no arm")
        if is_unit:
            return {"$tag": tag}
        return {"$tag": tag, "$value": self._normal(arms[tag], value["$value"])}

    # Workflows

    def arms(self, workflow: str) -> dict[str, str]:
        """Schema -> the arm of the workflow's event that refers to it."""
        variant = self.types[self.workflows[workflow]["event"]].get("variant", {})
        return {inside["ref"]: tag for tag, inside in variant.items()}

    def takes(self, workflow: str, schema: str) -> bool:
        return schema == self.workflows[workflow]["event"] or schema in self.arms(workflow)

    def wrapped(self, workflow: str, schema: str, value: Any) -> Any:
        if schema == self.workflows[workflow]["event"]:
            return value
        return {"$tag": self.arms(workflow)[schema], "$value": value}

    def settled_arm(self, workflow: str, effect: str, status: str) -> str | None:
        """Return the schema that a receipt of the effect is delivered as (K-57); None if the
        workflow has no arm for it."""
        if self.takes(workflow, ENVELOPE):
            return ENVELOPE
        legacy = LEGACY.get(effect)
        return legacy if legacy and status == "ok" and self.takes(workflow, legacy) else None

    def targets(self, schema: str, value: Any) -> list[tuple[CellId, bool]]:
        """Where an event goes (K-40), and whether it may create that cell (K-42a). Misfit where a
        key cannot be read."""
        return [
            ((each["workflow"], self._key(each, value)), each.get("creates", True))
            for each in self.subscriptions
            if each["event"] == schema
        ]

    def placement(self, workflow: str) -> Any:
        """How a workflow is placed; of the default, whether it has keys."""
        is_keyed = "key_schema" in self.workflows[workflow]
        return self.placements.get(workflow, is_keyed)

    def is_far(self, workflow: str, key: bytes) -> bool:
        """Whether another shard of the group has this cell (K-40a)."""
        if self.shard is None:
            return False
        index, count = self.shard
        placement = self.placements.get(workflow, {})
        if placement.get("shard") == "each":
            return False
        if "key_schema" not in self.workflows[workflow]:
            return index != 0
        if placement.get("shard_by") == "|":
            text: Any = decode_record(key)
            key = cbor(text.split("|")[0])
        return int(content(key).hex()[:16], 16) % count != index

    def is_key(self, workflow: str, key: bytes) -> bool:
        """Whether a cell of the workflow can have this key, in canonical CBOR or empty."""
        if "key_schema" not in self.workflows[workflow]:
            return key == b""
        try:
            self.stored(self.workflows[workflow]["key_schema"], key)
        except Misfit:
            return False
        return True

    def _key(self, subscription: Node, value: Any) -> bytes:
        workflow = self.workflows[subscription["workflow"]]
        if subscription["event"] == workflow["event"] and isinstance(value, dict):
            # M-35: only the kernel delivers continuations; no sender may.
            own = {self.arms(workflow["name"]).get(each) for each in CONTINUATIONS} - {None}
            if value.get("$tag") in own:
                raise Misfit("a continuation")
        if "key_field" not in subscription:
            return b""
        for part in subscription["key_field"].split("."):
            if not isinstance(value, dict) or part not in value:
                raise Misfit("no key")
            value = value[part]
        key = cbor(self.fit(workflow["key_schema"], value))
        if len(key) > KEY_BYTES_MAX:
            raise Misfit("a long key")
        return key


def _without_absent(normal: Any, found: Any) -> Any:
    """``normal`` without the nulls for which ``found`` has no field."""
    if isinstance(normal, dict) and isinstance(found, dict):
        return {
            name: _without_absent(part, found.get(name))
            for name, part in normal.items()
            if name in found or part is not None
        }
    if isinstance(normal, list) and isinstance(found, list) and len(normal) == len(found):
        return [_without_absent(*each) for each in zip(normal, found, strict=True)]
    return normal


def _need(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise Misfit(f"{value!r:.40} is no {kind.__name__}")
    return value


def _scalar(form: str, value: Any) -> Any:
    kinds: dict[str, type] = {
        "bool": bool, "nat": int, "int": int, "text": str, "bytes": bytes, "hash": str,
        "duration": int,
    }  # fmt: skip
    _need(value, kinds[form])
    if form == "nat" and not 0 <= value < 2**64:
        raise Misfit("no nat")
    if form in ("int", "duration") and not -(2**63) <= value < 2**63:
        raise Misfit("no int")
    if form == "hash" and not HASH_FORM.fullmatch(value):
        raise Misfit("no hash")
    return value
