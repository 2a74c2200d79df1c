"""Apply a patch to a manifest, or find the patch between two (spec/governance.md, GV-14 to GV-16).

``apply_patch(old, patch_between(old, new))`` is ``new``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aos.errors import excerpt
from aos.manifest import meaning
from aos.manifest.builtin_definitions import EFFECTS, SCHEMAS
from aos.manifest.effective import Effective
from aos.manifest.forms import Node, canonical
from aos.manifest.judging import make, make_like, taking_part
from aos.manifest.meaning import SECTIONS
from aos.manifest.names import is_built_in
from aos.manifest.patch import (
    FIELDS,
    OPS_MAX,
    Add,
    Op,
    Patch,
    PatchInvalid,
    Remove,
    Replace,
    Set,
    node_hash,
    value_hash,
)
from aos.values.cbor import decode_record
from aos.values.digests import Hash, hash_text

_SECTION_OF: Final[Mapping[str, str]] = {kind: section for section, kind in SECTIONS.items()}
_BUILTIN: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "defschema": SCHEMAS,
    "defeffect": EFFECTS,
}
_ABSENT: Final = "nothing"

_Subject: TypeAlias = tuple[str, str]
"""(kind, name) of a definition."""


def apply_patch(base: Effective, patch: Patch) -> Effective:
    """Return the manifest that ``patch`` makes of ``base``, as ``load`` would make it, for the same
    shard.

    Raises:
        PatchInvalid: The patch does not fit ``base``, or the result breaks a rule of a manifest.
    """
    return make(*_patched(base, patch), base.shard)


def check_patch(base: Effective, patch: Patch, result: Effective) -> None:
    """Check that ``patch`` makes ``result`` of ``base``. Limits that no manifest sets are those of
    ``result``, so a later release with other defaults finds the same.

    Raises:
        PatchInvalid: It makes another manifest, or none.
    """
    manifest, definitions = _patched(base, patch)
    try:
        actual_hash = make_like(manifest, definitions, result).hash
    except ValueError:
        actual_hash = make(manifest, definitions, result.shard).hash
    if actual_hash != result.hash:
        raise PatchInvalid(
            "the patch leads to another manifest",
            expected=hash_text(result.hash),
            actual=hash_text(actual_hash),
        )


def patch_between(old: Effective, new: Effective) -> Patch:
    """Return the patch that makes ``new`` of ``old``.

    Raises:
        PatchInvalid: They are equal, or differ in more than ``OPS_MAX`` places.
    """
    ops = tuple(_ops_between(_Draft.of(old), _Draft.of(new), _subjects(new)))
    if not ops:
        raise PatchInvalid("the two manifests are the same: a patch changes something")
    if len(ops) > OPS_MAX:
        raise PatchInvalid(
            f"the manifests differ in {len(ops)} places: expected at most {OPS_MAX} (propose a "
            "part of the changes first)"
        )
    return Patch(old.hash, ops)


@dataclass(slots=True)
class _Draft:
    """A manifest that is being changed: its own definitions, the built-in ones that it lists, and
    its other fields. All nodes are canonical."""

    definitions: dict[_Subject, Node]
    listed_builtins: set[_Subject]
    fields: dict[str, Any]

    @classmethod
    def of(cls, effective: Effective) -> _Draft:
        document: Any = decode_record(effective.document)
        manifest = canonical(document["manifest"])
        nodes = [canonical(node) for node in document["definitions"]]
        subjects = {(node["$kind"], node["name"]): node for node in nodes}
        own_definitions = {key: node for key, node in subjects.items() if not is_built_in(*key)}
        draft = cls(
            own_definitions, set(), {name: manifest[name] for name in FIELDS if name in manifest}
        )
        # A built-in definition is listed only if nothing else makes it a part of the manifest.
        draft.listed_builtins = set(
            _subjects(effective) - taking_part(draft.manifest(), own_definitions)
        )
        return draft

    def manifest(self) -> Node:
        """The canonical node of the manifest."""
        node: Node = {"$kind": "manifest", "air_version": "2"}
        for section in SECTIONS:
            node[section] = []
        for kind, name in sorted({*self.definitions, *self.listed_builtins}):
            node[_SECTION_OF[kind]].append({"name": name})
        return canonical({**node, **self.fields})

    def node_of(self, subject: _Subject) -> Node | None:
        """Return the definition; of built-in ones, only of those that are listed."""
        if subject in self.listed_builtins:
            return dict(_BUILTIN[subject[0]][subject[1]])
        return self.definitions.get(subject)


def _subjects(effective: Effective) -> AbstractSet[_Subject]:
    document: Any = decode_record(effective.document)
    return {(node["$kind"], node["name"]) for node in document["definitions"]}


def _ops_between(old: _Draft, new: _Draft, new_subjects: AbstractSet[_Subject]) -> Iterator[Op]:
    old_nodes, new_nodes = old.definitions, new.definitions
    removed = [*(old_nodes.keys() - new_nodes.keys()), *(old.listed_builtins - new_subjects)]
    for kind, name in sorted(removed):
        yield Remove(kind, name, _known_hash(old, (kind, name)))
    for subject in sorted(old_nodes.keys() & new_nodes.keys()):
        if old_nodes[subject] != new_nodes[subject]:
            yield Replace(new_nodes[subject], node_hash(old_nodes[subject]))
    for kind, name in sorted(
        [*(new_nodes.keys() - old_nodes.keys()), *(new.listed_builtins - old.listed_builtins)]
    ):
        node = new.node_of((kind, name))
        assert node is not None
        yield Add(node)
    for name in FIELDS:
        value = new.fields.get(name)
        if old.fields.get(name) != value:
            yield Set(name, value, value_hash(old.fields.get(name)))


def _known_hash(draft: _Draft, subject: _Subject) -> Hash:
    node = draft.node_of(subject)
    assert node is not None
    return node_hash(node)


def _patched(base: Effective, patch: Patch) -> tuple[Node, Mapping[_Subject, Node]]:
    """Return the manifest and its own definitions, without a problem."""
    if patch.base != base.hash:
        raise PatchInvalid(
            "the patch is for another manifest",
            location="/base",
            expected=hash_text(base.hash),
            actual=hash_text(patch.base),
            hint="make the patch again from the manifest in force: aos gov patch PATH",
        )
    draft = _Draft.of(base)
    for index, op in enumerate(patch.ops):
        _apply_op(draft, op, f"/ops/{index}")
    try:
        manifest = draft.manifest()
    except ValueError as problem:
        raise PatchInvalid(f"the patch leads to no manifest: {problem}") from problem
    findings = list(meaning.check(manifest, draft.definitions))
    if findings:
        first = findings[0]
        tail = f" (and {len(findings) - 1} more problems)" if len(findings) > 1 else ""
        raise PatchInvalid(
            f"the patch leads to an invalid manifest: {first.subject[1]}#{first.pointer}: "
            f"{excerpt(first.message)}{tail}"
        )
    return manifest, draft.definitions


def _apply_op(draft: _Draft, op: Op, at: str) -> None:
    match op:
        case Add(node):
            _add(draft, node, at)
        case Replace(node, pre_hash):
            subject = (node["$kind"], node["name"])
            if subject in draft.listed_builtins:
                raise PatchInvalid(f"{at}/replace: {subject[1]} is built in and cannot change")
            _expect(draft, subject, pre_hash, f"{at}/replace")
            draft.definitions[subject] = node
        case Remove(kind, name, pre_hash):
            _expect(draft, (kind, name), pre_hash, f"{at}/remove")
            draft.definitions.pop((kind, name), None)
            draft.listed_builtins.discard((kind, name))
        case Set(field, value, pre_hash):
            actual = value_hash(draft.fields.get(field))
            if actual != pre_hash:
                raise _hash_mismatch(f"{at}/set/pre_hash", field, pre_hash, actual)
            draft.fields.pop(field, None)
            if value is not None:
                draft.fields[field] = value


def _add(draft: _Draft, node: Node, at: str) -> None:
    subject = (node["$kind"], node["name"])
    present = draft.node_of(subject)
    if present is not None:
        raise PatchInvalid(
            f"{at}/add: {subject[1]} is in the manifest already, with "
            f"{hash_text(node_hash(present))} (replace it)"
        )
    if is_built_in(*subject):
        builtin = _BUILTIN.get(subject[0], {}).get(subject[1])
        if builtin is None or dict(builtin) != node:
            raise PatchInvalid(
                f"{at}/add: {subject[1]} cannot be defined: names that begin with sys/ are built in"
            )
        draft.listed_builtins.add(subject)
    else:
        draft.definitions[subject] = node


def _expect(draft: _Draft, subject: _Subject, pre_hash: Hash, at: str) -> None:
    node = draft.node_of(subject)
    actual = None if node is None else node_hash(node)
    if actual != pre_hash:
        raise _hash_mismatch(f"{at}/pre_hash", subject[1], pre_hash, actual)


def _hash_mismatch(
    pointer: str, name: str, expected: Hash | None, actual: Hash | None
) -> PatchInvalid:
    return PatchInvalid(
        f"{name} is not what the patch was made for",
        location=pointer,
        expected=_ABSENT if expected is None else hash_text(expected),
        actual=_ABSENT if actual is None else hash_text(actual),
        hint="make the patch again from the manifest in force: aos gov patch PATH",
    )
