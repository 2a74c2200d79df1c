"""Patches: the change from one manifest to the next, for people to read and to approve.

    {"$kind": "patch", "base": HASH, "ops": [{"add": …}, {"replace": …}, {"remove": …}, {"set": …}]}

``patching`` applies them and finds the one that leads to a manifest (spec/governance.md, GV-10 to
GV-13).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from aos.errors import Refused, excerpt
from aos.manifest.effective import definition_hash
from aos.manifest.forms import KINDS, Node, canonical
from aos.manifest.meaning import SECTIONS
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import Hash, content_hash, hash_text, parse_hash
from aos.values.errors import ValueProblem

OPS_MAX: Final = 1000
FIELDS: Final = ("routing", "executors", "limits", "plans", "schedules", "governance")
"""The fields of a manifest that ``set`` may change. All others follow from its definitions."""


class PatchInvalid(Refused):
    """The patch is malformed, belongs to another manifest, or leads to an invalid one."""


@dataclass(frozen=True, slots=True)
class Add:
    """List a definition that the manifest does not have."""

    node: Node


@dataclass(frozen=True, slots=True)
class Replace:
    """Change a definition. ``pre_hash`` is the hash of the one that is there now."""

    node: Node
    pre_hash: Hash


@dataclass(frozen=True, slots=True)
class Remove:
    """Unlist a definition. ``pre_hash`` is the hash of the one that is there now."""

    kind: str
    name: str
    pre_hash: Hash


@dataclass(frozen=True, slots=True)
class Set:
    """Change a field of the manifest; ``value`` is None to leave it out. ``pre_hash`` is the hash
    of the value that is there now, None if the field is absent."""

    field: str
    value: Any
    pre_hash: Hash | None


Op: TypeAlias = Add | Replace | Remove | Set


@dataclass(frozen=True, slots=True)
class Patch:
    """A sequence of changes to the manifest whose document has the hash ``base``.

    Nodes and values are canonical, so a patch has one spelling.
    """

    base: Hash
    ops: tuple[Op, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the patch as ``patch.schema.json`` defines it."""
        return {
            "$kind": "patch", "base": hash_text(self.base), "ops": [_op_json(op) for op in self.ops]
        }  # fmt: skip

    @property
    def document(self) -> bytes:
        """The canonical CBOR of the patch, which the journal stores."""
        return encode(cast("Value", self.to_json()))

    @property
    def hash(self) -> Hash:
        """The hash that a proposal and its votes sign: the content hash of ``document``."""
        return content_hash(self.document)

    @classmethod
    def from_document(cls, document: bytes) -> Patch:
        """Read the bytes that ``document`` wrote.

        Raises:
            PatchInvalid: They are malformed, or spelled in another way.
        """
        try:
            patch = read_patch(decode_record(document))
        except ValueProblem as problem:
            raise PatchInvalid(f"the patch is not canonical CBOR: {problem}") from problem
        if patch.document != document:
            raise PatchInvalid("the patch is not in its canonical spelling")
        return patch


def read_patch(value: object) -> Patch:
    """Read a patch from parsed JSON. Nodes may be written as in an author's file.

    Raises:
        PatchInvalid: It does not have the structure of a patch.
    """
    fields = _fields(value, "the patch", ("$kind", "base", "ops"))
    if fields["$kind"] != "patch":
        raise PatchInvalid(
            "this is no patch",
            location="/$kind",
            expected='"patch"',
            actual=_json_text(fields["$kind"]),
        )
    ops = fields["ops"]
    if not isinstance(ops, list) or not 0 < len(ops) <= OPS_MAX:
        raise PatchInvalid(
            "a patch has no such list of changes",
            location="/ops",
            expected=f"a list of 1 to {OPS_MAX}",
            actual=f"{len(ops)} changes" if isinstance(ops, list) else _json_text(ops),
        )
    base = _hash(fields["base"], "/base")
    return Patch(base, tuple(_read_op(op, f"/ops/{index}") for index, op in enumerate(ops)))


def node_hash(node: Node) -> Hash:
    """The hash by which a patch names a definition (M-20): of a module, that of its bytes."""
    if node["$kind"] == "defmodule":
        return parse_hash(node["runtime"]["artifact"]["hash"])
    return definition_hash(node)


def value_hash(value: Any) -> Hash | None:
    """The hash by which a patch names the value of a field; None if it is absent."""
    return None if value is None else content_hash(encode(cast("Value", value)))


def _op_json(op: Op) -> dict[str, Any]:
    match op:
        case Add(node):
            return {"add": {"node": node}}
        case Replace(node, pre_hash):
            return {"replace": {"node": node, "pre_hash": hash_text(pre_hash)}}
        case Remove(kind, name, pre_hash):
            return {"remove": {"kind": kind, "name": name, "pre_hash": hash_text(pre_hash)}}
        case Set(field, value, pre_hash):
            pre_hash_text = None if pre_hash is None else hash_text(pre_hash)
            return {"set": {"field": field, "value": value, "pre_hash": pre_hash_text}}


def _read_op(value: object, at: str) -> Op:
    if not isinstance(value, dict) or len(value) != 1:
        raise PatchInvalid(
            f"{at}: expected one of add, replace, remove and set, found {_json_text(value)}"
        )
    (verb, op_fields), *_ = value.items()
    pointer = f"{at}/{excerpt(str(verb))}"
    match verb:
        case "add":
            return Add(_node(_fields(op_fields, pointer, ("node",))["node"], f"{pointer}/node"))
        case "replace":
            fields = _fields(op_fields, pointer, ("node", "pre_hash"))
            node = _node(fields["node"], f"{pointer}/node")
            return Replace(node, _hash(fields["pre_hash"], f"{pointer}/pre_hash"))
        case "remove":
            fields = _fields(op_fields, pointer, ("kind", "name", "pre_hash"))
            kind = _one_of(fields["kind"], KINDS, f"{pointer}/kind")
            name = fields["name"]
            if not isinstance(name, str):
                raise PatchInvalid(f"{pointer}/name: expected text, found {_json_text(name)}")
            return Remove(kind, name, _hash(fields["pre_hash"], f"{pointer}/pre_hash"))
        case "set":
            return _read_set(_fields(op_fields, pointer, ("field", "value", "pre_hash")), pointer)
        case _:
            raise PatchInvalid(
                f"{at}: expected one of add, replace, remove and set, found {_json_text(verb)}"
            )


def _read_set(fields: Mapping[str, Any], at: str) -> Set:
    field, value = _one_of(fields["field"], FIELDS, f"{at}/field"), fields["value"]
    if value is not None:
        empty: Node = {"$kind": "manifest", "air_version": "2", field: value}
        for section in SECTIONS:
            empty[section] = []
        value = _canonical(empty, f"{at}/value").get(field)
    pre_hash = fields["pre_hash"]
    return Set(field, value, None if pre_hash is None else _hash(pre_hash, f"{at}/pre_hash"))


def _node(value: object, at: str) -> Node:
    if not isinstance(value, dict) or value.get("$kind") not in KINDS:
        raise PatchInvalid(f"{at}: expected a definition, found {_json_text(value)}")
    node = _canonical(value, at)
    if node["$kind"] == "defmodule":
        _hash(node["runtime"]["artifact"].get("hash"), f"{at}/runtime/artifact/hash")
    return node


def _canonical(value: Mapping[str, Any], at: str) -> Node:
    try:
        _expect_json(value)
        return canonical(value)
    except ValueError as problem:
        raise PatchInvalid(f"{at}: {problem}") from problem


def _expect_json(value: object) -> None:
    """Check that a JSON file could hold this value. Raises: ValueError: It could not."""
    if isinstance(value, dict):
        for name, element in value.items():
            if not isinstance(name, str):
                raise ValueError("every field has a name that is text")  # noqa: TRY004  # as Misshapen
            _expect_json(element)
    elif isinstance(value, list):
        for element in value:
            _expect_json(element)
    elif value is not None and not isinstance(value, str | int):
        raise ValueError(f"expected a value of JSON, found {_json_text(value)}")


def _fields(value: object, at: str, names: Sequence[str]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(names):
        raise PatchInvalid(f"{at}: expected {' and '.join(names)}, found {_json_text(value)}")
    return value


def _one_of(value: object, words: Sequence[str], at: str) -> str:
    if not isinstance(value, str) or value not in words:
        raise PatchInvalid(f"{at}: expected one of {', '.join(words)}, found {_json_text(value)}")
    return value


def _hash(value: object, at: str) -> Hash:
    try:
        return parse_hash(value if isinstance(value, str) else "")
    except ValueProblem as problem:
        raise PatchInvalid(f"{at}: {problem.message}, found {_json_text(value)}") from problem


def _json_text(value: object) -> str:
    if isinstance(value, dict):
        names = ", ".join(excerpt(str(name), characters_max=40) for name in list(value)[:8])
        return f"an object with {names}" if value else "an empty object"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
    return excerpt(repr(value), characters_max=80)
