"""Blobs in memory, and the effects on trees called as a worker calls them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import cbor2
import pytest

from aos.effects.workspace import workspace
from aos.manifest.builtin_definitions import EFFECTS, SCHEMAS
from aos.values.digests import content_hash, hash_text
from aos.values.schema import Schema, compile_schemas
from aos.values.sha256 import read_name
from aos.worker import EffectContext, EffectFailed
from aos.worker.results import WithBlobs, to_value

MIB: Final = 1 << 20
BLOB_BYTES_MAX: Final = 16 * MIB

_SCHEMAS: Final[Mapping[str, Schema]] = compile_schemas(
    {name: node["type"] for name, node in SCHEMAS.items()}
)
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "list": ("path", "scope", "cursor"),
    "read_bytes": ("range",),
    "write_bytes": ("mode",),
    "write_ref": ("mode",),
    "diff": ("prefix",),
    "annotations_get": ("path",),
    "annotations_set": ("path",),
}


def sha(data: bytes) -> str:
    """The name of a blob, computed as a stranger computes it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def described(value: object) -> bytes:
    """Tag 55799 and the canonical CBOR of a value, by another library."""
    return b"\xd9\xd9\xf7" + cbor2.dumps(value, canonical=True)


def file(name: str, data: bytes, **changes: Any) -> dict[str, Any]:
    """An entry of a node of version 1."""
    entry = {"name": name, "kind": "file", "hash": sha(data), "size": len(data), "mode": 0o644}
    return entry | changes


def folder(name: str, node: bytes, **changes: Any) -> dict[str, Any]:
    entry = {"name": name, "kind": "dir", "hash": sha(node), "size": 0, "mode": 0o755}
    return entry | changes


def node(*entries: Mapping[str, Any]) -> bytes:
    """The bytes of a node of version 1, with these entries in this order."""
    return described({"entries": list(entries)})


class Trees:
    """The blobs of a world, by content hash, and their names as far as a document states them."""

    def __init__(self, *, result_bytes_max: int = MIB) -> None:
        self.blobs: dict[str, bytes] = {}
        self.names: dict[str, str] = {}
        self.reads = 0
        self.result_bytes_max = result_bytes_max

    def put(self, *blobs: bytes) -> str:
        """Store blobs, all with a name; return the name of the last one."""
        for data in blobs:
            self.blobs[_blake3(data)] = data
            self.names[sha(data)] = _blake3(data)
        return sha(blobs[-1])

    def do(self, effect: str, **params: Any) -> Any:
        """Call ``sys/workspace.<effect>@1``. Options that are not given are null. The result has
        the normal form of the receipt schema."""
        name = f"sys/workspace.{effect}@1"
        given = dict.fromkeys(_OPTIONS.get(effect, ()), None) | params
        definition = EFFECTS[name]
        given_in_form: Any = _SCHEMAS[definition["params"]].normalise(to_value(given))
        result = asyncio.run(workspace.effects[name](given_in_form, self._context(name)))
        if isinstance(result, WithBlobs):
            self._take(result.blobs)
            result = result.value
        schema = _SCHEMAS[definition["receipt"]]
        value = schema.normalise(to_value(result))
        assert len(schema.encode(value)) <= self.result_bytes_max
        return value

    # The effects by name, as far as tests call them often

    def empty(self) -> str:
        root: str = self.do("empty_root", workspace="any")["root_hash"]
        return root

    def write(self, root: str, path: str, data: bytes, mode: int | None = None) -> str:
        params = {"root_hash": root, "path": path, "bytes": data, "mode": mode}
        answer = self.do("write_bytes", **params)
        assert answer["blob_hash"] == sha(data)
        new: str = answer["new_root_hash"]
        return new

    def remove(self, root: str, path: str) -> str:
        new: str = self.do("remove", root_hash=root, path=path)["new_root_hash"]
        return new

    def annotate(self, root: str, path: str | None, **patch: str | None) -> str:
        params = {"root_hash": root, "path": path, "annotations_patch": patch}
        new: str = self.do("annotations_set", **params)["new_root_hash"]
        return new

    def annotations(self, root: str, path: str | None = None) -> Any:
        return self.do("annotations_get", root_hash=root, path=path)["annotations"]

    def read(self, root: str, path: str) -> Any:
        return self.do("read_bytes", root_hash=root, path=path)

    def pages(self, root: str, *, limit: int = 0, **params: Any) -> Iterator[list[Any]]:
        """The entries of each page of a list, to the end."""
        cursor = None
        while True:
            found = self.do("list", root_hash=root, limit=limit, cursor=cursor, **params)
            yield found["entries"]
            if found["next_cursor"] is None:
                return
            assert found["next_cursor"] == found["entries"][-1]["path"]
            cursor = found["next_cursor"]

    def paths(self, root: str, *, scope: str = "subtree", **params: Any) -> list[str]:
        pages = self.pages(root, scope=scope, **params)
        return [entry["path"] for page in pages for entry in page]

    def tree(self, *files: tuple[str, bytes]) -> str:
        """The root of a tree with these files."""
        root = self.empty()
        for path, data in files:
            root = self.write(root, path, data)
        return root

    def stored(self, hash: str) -> bytes:
        return self.blobs[self.names[hash]]

    def _take(self, blobs: tuple[bytes, ...]) -> None:
        self.blobs |= {_blake3(data): data for data in blobs}
        for data in blobs:
            name = read_name(data)
            if name is not None:
                blob = self.blobs[hash_text(name.blob)]
                assert name.sha256 == hashlib.sha256(blob).digest(), "a document states the truth"
                self.names[f"sha256:{name.sha256.hex()}"] = hash_text(name.blob)

    def _context(self, effect: str) -> EffectContext:
        return EffectContext(
            intent="blake3:" + 64 * "0",
            effect=effect,
            idempotency_key="key",
            attempt=1,
            workflow="acme/editor@1",
            key=None,
            issuer_ref=None,
            world="blake3:" + 64 * "1",
            deadline_ns=0,
            on_read=self._read,
            result_bytes_max=self.result_bytes_max,
        )

    async def _read(self, hash: str) -> bytes:
        """As the host does (X-79a)."""
        self.reads += 1
        data = self.blobs.get(self.names.get(hash, hash))
        if data is None:
            raise EffectFailed("blob_missing", f"{hash} is not here")
        if len(data) > BLOB_BYTES_MAX:
            raise EffectFailed("blob_too_large", f"{hash} is too large")
        return data


@contextmanager
def refused(code: str, *words: str) -> Iterator[None]:
    """The effect ends with this error, whose message contains the words; it is not retryable."""
    with pytest.raises(EffectFailed) as caught:
        yield
    assert (caught.value.code, caught.value.retryable) == (code, False)
    for each in words:
        assert each in caught.value.message


def _blake3(data: bytes) -> str:
    return hash_text(content_hash(data))
