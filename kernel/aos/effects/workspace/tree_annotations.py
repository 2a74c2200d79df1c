"""The annotations of a path: text -> hash, in a blob of their own (AG-52a).

The blob has tag 55799 and the canonical map. The node of a folder names that of the folder; for a
file, its entry does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from aos.effects.workspace.tree_errors import NODE_INVALID, too_large
from aos.effects.workspace.tree_node import described
from aos.values.cbor import SELF_DESCRIBED, Value, encode
from aos.values.errors import ValueProblem
from aos.values.spelling import normal_hash
from aos.worker import EffectFailed

ANNOTATIONS_BYTES_MAX: Final = 256 << 10

Annotations = Mapping[str, str]


def patched(annotations: Annotations, patch: Mapping[str, str | None]) -> Annotations:
    """Set the hashes of a patch, and remove the keys for which it has null."""
    merged = {**annotations, **patch}
    return {key: hash for key, hash in merged.items() if hash is not None}


def annotations_bytes(annotations: Annotations) -> bytes:
    """The bytes of the blob. Raises ``too_large``."""
    data = SELF_DESCRIBED + encode(cast("Value", dict(annotations)))
    if len(data) > ANNOTATIONS_BYTES_MAX:
        raise too_large("bytes of the annotations", limit=ANNOTATIONS_BYTES_MAX, actual=len(data))
    return data


def read_annotations(data: bytes, name: str) -> Annotations:
    """Read the blob called ``name``. Raises ``node_invalid`` or ``too_large``."""
    if len(data) > ANNOTATIONS_BYTES_MAX:
        raise too_large(f"bytes of {name}", limit=ANNOTATIONS_BYTES_MAX, actual=len(data))
    try:
        return {_key(key): _hash(hash) for key, hash in described(data).items()}
    except ValueProblem as problem:
        raise EffectFailed(
            NODE_INVALID, f"{name} has no annotations: {problem!s:.300}"
        ) from problem


def _key(key: str | int) -> str:
    if not isinstance(key, str):
        raise ValueProblem("expected keys that are text")
    return key


def _hash(hash: Value) -> str:
    if not isinstance(hash, str) or normal_hash(hash) is None:
        raise ValueProblem(f"expected hashes, found {hash!r:.80}")
    return hash
