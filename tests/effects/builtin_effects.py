"""Built-in effects of the manifest, and contexts in which a test calls their functions."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine, Mapping
from functools import cache
from typing import Any, Final

from aos.manifest.effective import Effect
from aos.manifest.load import load
from aos.values.cbor import decode_record, encode
from aos.values.digests import content_hash, hash_text
from aos.values.sha256 import read_name, sha256_text
from aos.worker import EffectContext, EffectFailed, EffectFunction
from aos.worker.results import WithBlobs, payload_of, to_value

NAMES: Final = (
    "sys/llm.generate@1",
    "sys/llm.count_tokens@1",
    "sys/llm.compact@1",
    "sys/vault.put@1",
    "sys/vault.rotate@1",
    "sys/portal.send@1",
)
INTENT: Final = "blake3:" + 64 * "0"
WORLD: Final = "blake3:" + 64 * "1"


@cache
def effects() -> Mapping[str, Effect]:
    """The definitions of ``NAMES``."""
    manifest = {
        "$kind": "manifest",
        "air_version": "2",
        "schemas": [],
        "modules": [],
        "workflows": [],
        "effects": [{"name": name} for name in NAMES],
    }
    return load({"m.air.json": json.dumps([manifest]).encode()}).effective.effects


class Blobs(dict[str, bytes]):
    """The blobs of a world, by both of their names."""

    def put(self, data: bytes | str | Mapping[str, Any] | list[Any]) -> str:
        """Store text or a JSON document; return its SHA-256 name."""
        if not isinstance(data, bytes):
            data = (data if isinstance(data, str) else json.dumps(data)).encode()
        self[hash_text(content_hash(data))] = data
        self[sha256_text(data)] = data
        return sha256_text(data)

    async def read(self, ref: str) -> bytes:
        """As ``ctx.read_blob`` of a world."""
        if ref not in self:
            raise EffectFailed("blob_missing", f"{ref} is the name of no blob of this world")
        return self[ref]


class Progress(list[tuple[str, Any]]):
    """The progress that an effect reported: kind and payload."""

    def take(self, kind: Any, payload: Any, _blob: Any) -> None:
        self.append((kind, payload))


def context(
    name: str,
    blobs: Blobs | None = None,
    *,
    resource: Any = None,
    secrets: Mapping[tuple[str, int], str] | None = None,
    progress: Progress | None = None,
    timeout_s: float = 60.0,
    intent: str = INTENT,
) -> EffectContext:
    return EffectContext(
        intent=intent,
        effect=name,
        idempotency_key="the-key",
        attempt=1,
        workflow="acme/agent@1",
        key=None,
        issuer_ref=None,
        world=WORLD,
        deadline_ns=time.time_ns() + int(timeout_s * 1e9),
        resource=resource,
        secrets=secrets or {},
        on_progress=None if progress is None else progress.take,
        on_read=None if blobs is None else blobs.read,
    )


def params_of(name: str, given: Mapping[str, Any]) -> Any:
    """Params in the form in which a function gets them."""
    schema = effects()[name].params
    return decode_record(encode(schema.normalise(to_value(given))))


def receipt_of(name: str, result: Any, blobs: Blobs | None = None) -> Any:
    """The receipt of a result, which must fit its schema. Stores its blobs, and checks that each
    name document among them is true."""
    if isinstance(result, WithBlobs):
        for data in result.blobs:
            assert blobs is not None
            blobs.put(data)
            named = read_name(data)
            assert named is None or any(named.is_of(each) for each in result.blobs)
        result = result.value
    payload = payload_of(result, effects()[name].receipt, bytes_max=1 << 20)
    assert isinstance(payload, bytes), payload
    return decode_record(payload)


def call(
    function: EffectFunction[Coroutine[Any, Any, Any]],
    given: Mapping[str, Any],
    ctx: EffectContext,
    blobs: Blobs | None = None,
) -> Any:
    """Call a function as a worker does, and return its receipt."""
    params = params_of(function.name, given)
    return receipt_of(function.name, asyncio.run(function(params, ctx)), blobs)
