"""One folder of a tree <-> the bytes of its blob, its *node* (AG-51).

    d9 d9 f7    tag 55799, then the canonical CBOR of
    {"entries": [{"name", "kind": "file" | "dir", "hash", "size", "mode"}, …]}

The name of a node is the SHA-256 of all its bytes. Entries are in the order of their names' UTF-8.
A node with annotations, of its own or of one of its files, has version 2: the field
``annotations_hash``, null if there are none, in each entry and next to ``entries``. So each content
has one form only.

A path in a tree, ``src/lib.rs``, is the names of its entries, or ``path_invalid``: one of the codes
with which the effects on trees end (AG-53a). None of them is retryable.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from aos.values.cbor import SELF_DESCRIBED, Value, decode_record, encode
from aos.values.errors import ValueProblem
from aos.values.sha256 import parse_sha256
from aos.worker import EffectFailed

ENTRIES_MAX: Final = 16_384
NODE_BYTES_MAX: Final = 8 << 20
FILE_MODE: Final = 0o644
DIR_MODE: Final = 0o755

Kind = Literal["file", "dir"]

_FIELDS: Final = frozenset({"name", "kind", "hash", "size", "mode"})
_ANNOTATIONS: Final = "annotations_hash"

Names: TypeAlias = tuple[str, ...]
"""The names of a path, from the root's child on. Empty for the root itself."""

PATH_BYTES_MAX: Final = 4_096
NAME_BYTES_MAX: Final = 255
DEPTH_MAX: Final = 64
"""Names in a path."""

PATH_INVALID: Final = "path_invalid"
NOT_FOUND: Final = "not_found"
IS_A_DIRECTORY: Final = "is_a_directory"
NOT_A_DIRECTORY: Final = "not_a_directory"
NOT_EMPTY: Final = "not_empty"
NODE_INVALID: Final = "node_invalid"
RANGE_INVALID: Final = "range_invalid"
SCOPE_INVALID: Final = "scope_invalid"
NO_NAME: Final = "no_name"
TOO_LARGE: Final = "too_large"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """A file or folder in a folder.

    Attributes:
        hash: ``sha256:…`` of the file's bytes, or the name of the folder's node.
        size: Of a file, in bytes; 0 for a folder.
        annotations: The name of a file's annotations. Those of a folder are in its own node.
    """

    name: str
    kind: Kind
    hash: str
    size: int
    mode: int
    annotations: str | None = None

    @property
    def is_file(self) -> bool:
        return self.kind == "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """A folder: its entries in order, and the name of its own annotations."""

    entries: tuple[TreeEntry, ...] = ()
    annotations: str | None = None

    def entry(self, name: str) -> TreeEntry | None:
        at = self._index_of(name)
        matches = self.entries[at : at + 1]
        return matches[0] if matches and matches[0].name == name else None

    def with_entry(self, entry: TreeEntry) -> TreeNode:
        """This folder with ``entry`` in place of the one with its name, if there is one."""
        at = self._index_of(entry.name)
        behind = at + (self.entry(entry.name) is not None)
        return replace(self, entries=(*self.entries[:at], entry, *self.entries[behind:]))

    def without_entry(self, name: str) -> TreeNode:
        return replace(self, entries=tuple(entry for entry in self.entries if entry.name != name))

    def _index_of(self, name: str) -> int:
        # Code points are in the order of their UTF-8.
        return bisect_left(self.entries, name, key=lambda entry: entry.name)


EMPTY: Final = TreeNode()


def node_bytes(node: TreeNode) -> bytes:
    """The bytes of a folder's blob.

    Raises:
        EffectFailed: ``too_large``: more than ``ENTRIES_MAX`` entries or ``NODE_BYTES_MAX`` bytes.
    """
    if len(node.entries) > ENTRIES_MAX:
        raise too_large("entries of a folder", limit=ENTRIES_MAX, actual=len(node.entries))
    is_annotated = _is_annotated(node)
    value: dict[str | int, Value] = {
        "entries": [_entry_value(entry, is_annotated=is_annotated) for entry in node.entries]
    }
    if is_annotated:
        value[_ANNOTATIONS] = node.annotations
    data = SELF_DESCRIBED + encode(value)
    if len(data) > NODE_BYTES_MAX:
        raise too_large("bytes of a folder's node", limit=NODE_BYTES_MAX, actual=len(data))
    return data


def read_node(data: bytes, name: str) -> TreeNode:
    """Read a node, the blob called ``name``. Anyone may have stored these bytes.

    Raises:
        EffectFailed: ``node_invalid``: ``node_bytes`` does not make them; ``too_large``.
    """
    if len(data) > NODE_BYTES_MAX:
        raise too_large(f"bytes of the node {name}", limit=NODE_BYTES_MAX, actual=len(data))
    try:
        value = described(data)
        node = _node_of(value)
        if _is_annotated(node) != (_ANNOTATIONS in value):
            raise ValueProblem(f"expected {_ANNOTATIONS} if, and only if, it has annotations")
    except ValueProblem as problem:
        raise EffectFailed(
            NODE_INVALID, f"{name} is no folder of a tree: {problem!s:.300}"
        ) from problem
    return node


def described(data: bytes) -> Mapping[str | int, Value]:
    """Read a map after tag 55799. Raises ValueProblem if the bytes are not canonical."""
    if not data.startswith(SELF_DESCRIBED):
        raise ValueProblem("expected CBOR that begins with tag 55799")
    value = decode_record(data[len(SELF_DESCRIBED) :])
    if not isinstance(value, dict):
        raise ValueProblem("expected a map")
    return value


def _node_of(value: Mapping[str | int, Value]) -> TreeNode:
    entries = value.get("entries")
    if not isinstance(entries, list) or value.keys() - {"entries", _ANNOTATIONS}:
        raise ValueProblem("expected the field entries, a list")
    if len(entries) > ENTRIES_MAX:
        raise too_large("entries of a folder", limit=ENTRIES_MAX, actual=len(entries))
    version_2 = _ANNOTATIONS in value
    node = TreeNode(
        entries=tuple(_entry_of(entry, version_2=version_2) for entry in entries),
        annotations=_maybe_hash(value.get(_ANNOTATIONS)),
    )
    for previous, following in zip(node.entries, node.entries[1:], strict=False):
        if previous.name >= following.name:
            raise ValueProblem(
                f"expected ascending names, found {following.name!r:.80} after "
                f"{previous.name!r:.80}"
            )
    return node


def _entry_of(value: Value, *, version_2: bool) -> TreeEntry:
    expected = _FIELDS | {_ANNOTATIONS} if version_2 else _FIELDS
    if not isinstance(value, dict) or value.keys() != expected:
        raise ValueProblem(f"expected entries with the fields {', '.join(sorted(expected))}")
    name, kind = value["name"], value["kind"]
    if not isinstance(name, str):
        raise ValueProblem("name: expected text")
    problem = name_problem(name)
    if problem is not None:
        raise ValueProblem(f"name {name!r:.80}: {problem}")
    annotations = _maybe_hash(value.get(_ANNOTATIONS))
    if kind == "file":
        return TreeEntry(
            name=name,
            kind="file",
            hash=_hash(value["hash"]),
            size=_nat(value["size"], "size"),
            mode=_nat(value["mode"], "mode"),
            annotations=annotations,
        )
    if kind != "dir" or value["size"] != 0 or annotations is not None:
        raise ValueProblem(f"{name:.80}: expected a file, or a dir of size 0 without annotations")
    return TreeEntry(
        name=name, kind="dir", hash=_hash(value["hash"]), size=0, mode=_nat(value["mode"], "mode")
    )


def _entry_value(entry: TreeEntry, *, is_annotated: bool) -> Value:
    value: dict[str | int, Value] = {
        "name": entry.name,
        "kind": entry.kind,
        "hash": entry.hash,
        "size": entry.size,
        "mode": entry.mode,
    }
    if is_annotated:
        value[_ANNOTATIONS] = entry.annotations
    return value


def _is_annotated(node: TreeNode) -> bool:
    return node.annotations is not None or any(
        entry.annotations is not None for entry in node.entries
    )


def _maybe_hash(value: Value) -> str | None:
    return None if value is None else _hash(value)


def _hash(value: Value) -> str:
    if not isinstance(value, str) or parse_sha256(value) is None:
        raise ValueProblem(f"expected sha256:<64 hex>, found {value!r:.80}")
    return value


def _nat(value: Value, field: str) -> int:
    # A bool is an int in Python.
    if type(value) is not int or value < 0:
        raise ValueProblem(f"{field}: expected a whole number of 0 or more, found {value!r:.80}")
    return value


def names_of(path: str | None) -> Names:
    """Split a path of the params into its names. None is the root.

    Raises:
        EffectFailed: ``path_invalid``.
    """
    if path is None:
        return ()
    names = tuple(path.split("/"))
    problem = _path_problem(path, names)
    if problem is not None:
        raise EffectFailed(
            PATH_INVALID,
            f"path {path[:80]!r}: {problem} (a path has names joined by /, such as src/lib.rs)",
        )
    return names


def path_of(names: Names) -> str:
    """The inverse of ``names_of``; empty for the root."""
    return "/".join(names)


def name_problem(name: str) -> str | None:
    """Return why this cannot be the name of an entry; None if it can."""
    if name in ("", ".", ".."):
        return f"{name!r} is no name"
    if any(bad in name for bad in "/\\\0"):
        return "a name has no slash, backslash or NUL"
    size = len(name.encode())
    return None if size <= NAME_BYTES_MAX else _too_long("a name", NAME_BYTES_MAX, size, "bytes")


def _path_problem(path: str, names: Names) -> str | None:
    if path.startswith("/"):
        return "it is absolute"
    size = len(path.encode())
    if size > PATH_BYTES_MAX:
        return _too_long("a path", PATH_BYTES_MAX, size, "bytes")
    if len(names) > DEPTH_MAX:
        return _too_long("a path", DEPTH_MAX, len(names), "names")
    return next((problem for name in names if (problem := name_problem(name)) is not None), None)


def _too_long(subject: str, limit: int, actual: int, unit: str) -> str:
    return f"{subject} has at most {limit:,} {unit}, this one {actual:,}"


def not_found(path: str) -> EffectFailed:
    return EffectFailed(NOT_FOUND, f"{path:.200}: this tree has nothing at this path")


def is_a_directory(path: str) -> EffectFailed:
    return EffectFailed(IS_A_DIRECTORY, f"{path:.200}: expected a file, found a folder")


def not_a_directory(path: str) -> EffectFailed:
    return EffectFailed(NOT_A_DIRECTORY, f"{path:.200}: expected a folder, found a file")


def too_large(subject: str, *, limit: int, actual: int, hint: str = "") -> EffectFailed:
    message = f"{subject}: expected at most {limit:,}, found {actual:,}"
    return EffectFailed(TOO_LARGE, f"{message} ({hint})" if hint else message)
