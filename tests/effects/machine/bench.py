"""A machine with a root, whose effects are called as a worker calls them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from aos.effects.machine import machine
from aos.effects.machine.machine_host import MachineHost
from aos.manifest.builtin_definitions import EFFECTS, SCHEMAS
from aos.values.cbor import encode
from aos.values.digests import content_hash, hash_text
from aos.values.schema import Schema, compile_schemas
from aos.values.sha256 import sha256_text
from aos.worker import EffectContext, EffectFailed
from aos.worker.results import WithBlobs, to_value

Params = dict[str, Any]
HOST: Final = "sys/host."


@cache
def schemas() -> dict[str, Schema]:
    compiled = compile_schemas({name: node["type"] for name, node in SCHEMAS.items()})
    return dict(compiled)


@dataclass
class Bench:
    """``call`` normalises params and receipt by the effect's schemas. ``blobs`` are those of the
    world."""

    folder: Path
    blobs: dict[str, bytes] = field(default_factory=dict)
    frames: list[tuple[str, Any]] = field(default_factory=list)
    number: int = 0
    host: MachineHost | None = None

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def run(self, body: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run ``body`` while the machine is open, as one process does."""

        async def whole() -> Any:
            self.host = MachineHost(self.root, self.state)
            try:
                return await body()
            finally:
                await self.host.commands.end_all(1.5)
                self.host.root.close()
                self.host = None

        return asyncio.run(whole())

    def intent(self) -> str:
        self.number += 1
        return hash_text(content_hash(b"%d" % self.number))

    async def call(self, effect: str, params: Params, *, intent: str | None = None) -> Any:
        name = f"{HOST}{effect}@1"
        node: Any = EFFECTS[name]
        given = schemas()[node["params"]].normalise(to_value(params))
        ctx = self.context(name, intent or self.intent())
        found = await machine.effects[name](given, ctx)
        value = found.value if isinstance(found, WithBlobs) else found
        for blob in found.blobs if isinstance(found, WithBlobs) else ():
            self.put(blob)
        receipt = schemas()[node["receipt"]]
        normal = receipt.normalise(to_value(value))
        assert len(receipt.encode(normal)) < 40_000
        return normal

    def context(self, effect: str, intent: str) -> EffectContext:
        return EffectContext(
            intent=intent,
            effect=effect,
            idempotency_key="key",
            attempt=1,
            workflow="test/agent@1",
            key=None,
            issuer_ref=None,
            world="blake3:" + 64 * "1",
            deadline_ns=time.time_ns() + 3600 * 10**9,
            resource=self.host,
            on_progress=self._progress,
            on_read=self._read,
        )

    def _progress(self, kind: str, payload: Any, _blob: Any) -> None:
        schema = schemas()["sys/HostExecProgressFrame@1"]
        assert schema.encode(schema.normalise(to_value(payload))) == encode(to_value(payload))
        self.frames.append((kind, payload))

    async def _read(self, hash: str) -> bytes:
        if hash not in self.blobs:
            raise EffectFailed("blob_missing", f"{hash} is not here")
        return self.blobs[hash]

    def put(self, data: bytes) -> str:
        name = hash_text(content_hash(data))
        self.blobs[name] = self.blobs[sha256_text(data)] = data
        return name

    async def open(self, **target: Any) -> str:
        given = {"network_mode": "host", **target}
        params = {"target": {"$tag": "local", "$value": given}}
        receipt = await self.call("session.open", params)
        assert receipt["status"] == "ready", receipt
        return str(receipt["session_id"])

    async def sh(self, session: str, script: str, **params: Any) -> Any:
        argv = ["/bin/sh", "-c", script]
        intent = params.pop("intent", None)
        return await self.call(
            "exec", {"session_id": session, "argv": argv, **params}, intent=intent
        )

    def one(self, effect: str, **params: Any) -> Any:
        """Open a session, and call one effect in it."""

        async def body() -> Any:
            return await self.call(effect, {"session_id": await self.open(), **params})

        return self.run(body)

    def text(self, output: Any) -> str:
        """The text of an output, inline or in a blob."""
        if output is None:
            return ""
        value = output["$value"]
        if output["$tag"] == "blob":
            data = self.blobs[value["blob_ref"]]
            assert len(data) == value["size_bytes"]
            assert data.startswith(value["preview_bytes"])
            return data.decode()
        return str(value["text"])


def status(receipt: Any) -> tuple[str, str | None]:
    return receipt["status"], receipt["error_code"]


def inline(text: str) -> Params:
    return {"$tag": "inline_text", "$value": {"text": text}}


async def until(what: Callable[[], bool], within_s: float = 60.0) -> None:
    end = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < end, "it took too long"
        await asyncio.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether a process is there that is not dead already."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except FileNotFoundError:
        return False
    return fields[0] not in (b"Z", b"X")


def tagged(tag: str) -> list[int]:
    """The live processes in whose environment ``tag`` is."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                environment = (process / "environ").read_bytes()
            except OSError:
                continue
            if tag.encode() in environment and is_alive(int(process.name)):
                found.append(int(process.name))
    return found
