"""Params, contexts and gateways for the tests of the Arweave effects."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import httpx

from aos.values.digests import content_hash, hash_text
from aos.values.schema import Schema, compile_schemas
from aos.worker import EffectContext, EffectFunction
from aos.worker.results import to_value
from aos_gateway.arweave.arweave_effects import ArweaveAccess
from aos_gateway.arweave.base64url import decode_base64url, encode_base64url
from aos_gateway.arweave.confirmation import Patience
from aos_gateway.arweave.gateway_client import RequestTimeouts, read_addresses
from aos_gateway.arweave.upload_keys import UploadKeys, read_keys

HERE: Final = Path(__file__).parent
GATEWAY: Final = HERE.parents[2] / "manifests" / "gateway"
SECRET: Final = (HERE / "worthless_keys.json").read_text("utf-8")
KEYS_REF: Final = {"alias": "gw/arweave-key", "version": 1}
ANCHOR: Final = encode_base64url(bytes(range(48)))
EVIDENCE: Final = b'{"result": 42, "sources": ["a", "b"]}'
RICH: Final = 10**15
HTTP: Final = httpx.Client(
    verify=False, trust_env=False, timeout=60, limits=httpx.Limits(max_keepalive_connections=0)
)
"""For plain requests to loopback, in one client: a new one takes longer than a request."""

Params = dict[str, Any]


@cache
def keys() -> UploadKeys:
    return read_keys(SECRET)


@cache
def receipts() -> dict[str, Schema]:
    """The receipt schema of each effect, from the manifest that the modules' types generate."""
    air = json.loads((GATEWAY / "air" / "generated.air.json").read_text("utf-8"))
    named = ((each.get("name", ""), each) for each in air)
    ours = {name: each for name, each in named if name.startswith("arweave/")}
    types = {name: each["type"] for name, each in ours.items() if "type" in each}
    # Of the system's types, params refer to this one.
    types["sys/SecretRef@1"] = {"record": {"alias": {"text": {}}, "version": {"nat": {}}}}
    schemas = compile_schemas(types)
    return {name: schemas[each["receipt"]] for name, each in ours.items() if "receipt" in each}


def hash_of(content: bytes) -> str:
    """The hash that ``sys/blob.put@1`` returns for a blob."""
    return hash_text(content_hash(content))


def upload_params(content: bytes = EVIDENCE, **changes: Any) -> Params:
    return {
        "keys": KEYS_REF,
        "gateway": "main",
        "data": hash_of(content),
        "content_type": "application/json",
        "tags": [{"name": "App-Name", "value": "gateway"}],
        "anchor": ANCHOR,
        "reward": "700000000",
        **changes,
    }


def quote_params(**changes: Any) -> Params:
    return {"keys": KEYS_REF, "gateway": "main", "bytes": len(EVIDENCE), **changes}


@dataclass
class Clock:
    """Time that passes only by sleeping."""

    now_s: float = 0.0
    pauses: list[float] = field(default_factory=list)
    between: Callable[[], Awaitable[None]] | None = None

    def now(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds
        if self.between is not None:
            await self.between()

    @property
    def patience(self) -> Patience:
        return Patience(now=self.now, sleep=self.sleep)


def call(
    effect: EffectFunction[Any],
    params: Params,
    *,
    url: str = "http://gateway.test",
    transport: httpx.AsyncBaseTransport | None = None,
    clock: Clock | None = None,
    timeouts: RequestTimeouts | None = None,
    secret: str = SECRET,
    content: bytes = EVIDENCE,
) -> Any:
    """Call an effect as a worker does, with one gateway, ``main``. Its result has the normal form
    of its receipt schema in the manifest."""

    async def body() -> Any:
        addresses = read_addresses(f"main={url}")
        patience = (clock or Clock()).patience
        async with httpx.AsyncClient(transport=transport, verify=False, trust_env=False) as http:
            access = ArweaveAccess(
                http=http,
                addresses=addresses,
                timeouts=timeouts or RequestTimeouts(),
                patience=patience,
            )
            ctx = context(effect.name, access, secret=secret, content=content)
            return await effect(params, ctx)

    return receipts()[effect.name].normalise(to_value(asyncio.run(body())))


def context(
    name: str, access: ArweaveAccess, *, secret: str = SECRET, content: bytes = EVIDENCE
) -> EffectContext:
    return EffectContext(
        intent="blake3:" + 64 * "0",
        effect=name,
        idempotency_key="key",
        attempt=1,
        workflow="acme/archive@1",
        key=None,
        issuer_ref=None,
        world="blake3:" + 64 * "1",
        deadline_ns=time.time_ns() + 3600 * 10**9,
        resource=access,
        secrets={(str(KEYS_REF["alias"]), 1): secret},
        blobs={hash_of(content): content},
    )


class Lab(ABC):
    """A gateway that a scenario can play with. ``url`` is what the executor is given."""

    url: str

    @abstractmethod
    def mine(self, blocks: int = 1) -> None:
        """Add blocks. The first takes the transactions that wait."""

    def change_anchor(self) -> None:
        """Add blocks until a quote gets another anchor."""
        self.mine()

    @abstractmethod
    def forget(self, bundle: str) -> None:
        """Make the gateway answer 404 for a transaction."""

    @abstractmethod
    def set_balance(self, winston: int) -> None:
        """Give the tests' wallet exactly this."""

    @abstractmethod
    def tamper(self, bundle: str) -> None:
        """Make the gateway return other bytes: the last one differs."""


class StubLab(Lab):
    """The stub, with blocks on demand."""

    def __init__(self, url: str) -> None:
        self.url = url

    def mine(self, blocks: int = 1) -> None:
        self.tell("mine", blocks=blocks)

    def forget(self, bundle: str) -> None:
        self.tell("forget", id=bundle)

    def set_balance(self, winston: int) -> None:
        self.tell("balance", address=keys().address, winston=winston)

    def tamper(self, bundle: str) -> None:
        self.tell("other", id=bundle)

    def tell(self, what: str, **asked: Any) -> None:
        HTTP.post(f"{self.url}/stub/{what}", json=asked).raise_for_status()

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = HTTP.get(f"{self.url}/stub/state").json()
        return found


class ArlocalLab(Lab):
    """arlocal, which checks signatures and data roots with Arweave's own packages."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self._get(f"/mint/{keys().address}/{RICH}")

    def mine(self, blocks: int = 1) -> None:
        # It counts no confirmation for the block of the transaction itself.
        self._get("/mine/1")
        self._get(f"/mine/{blocks}")

    def change_anchor(self) -> None:
        # Of the blocks of one second, it takes the first one as the anchor.
        before = self._get("/tx_anchor")
        while self._get("/tx_anchor") == before:
            time.sleep(0.05)
            self.mine()

    def forget(self, bundle: str) -> None:
        HTTP.delete(f"{self.url}/tx/{bundle}").raise_for_status()

    def set_balance(self, winston: int) -> None:
        url = f"{self.url}/wallet/{keys().address}/balance"
        HTTP.patch(url, json={"balance": str(winston)}).raise_for_status()

    def tamper(self, bundle: str) -> None:
        path = self.folder / f"data-{bundle}"
        data = decode_base64url(path.read_bytes())
        assert data is not None
        path.write_text(encode_base64url(data[:-1] + bytes([data[-1] ^ 0xFF])))

    def _get(self, path: str) -> str:
        return HTTP.get(self.url + path).raise_for_status().text


@contextmanager
def stub(state: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A process of the stub, which has not printed its line yet."""
    program = str(GATEWAY / "arweave_stub.py")
    command = [sys.executable, program, "--port", "0", "--state", str(state), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def stub_lab(folder: Path) -> Iterator[StubLab]:
    with stub(folder / "arweave.jsonl", "--block-ms", "0") as process:
        yield StubLab(address_of(process))


@contextmanager
def arlocal_lab(folder: Path) -> Iterator[ArlocalLab]:
    command = ["node", "start.js", str(folder)]
    with subprocess.Popen(
        command,
        cwd=GATEWAY / "arlocal",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield ArlocalLab(address_of(process), folder)
        finally:
            process.kill()


def address_of(process: subprocess.Popen[str]) -> str:
    """The URL in the line that a gateway prints once it listens."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert " ready: http://127.0.0.1:" in line, line
    return line.split()[3 if line.startswith("arweave") else 2]


def content_of_size(size: int) -> bytes:
    """The bytes that ``manifests/gateway/arlocal/vectors.js`` makes its vectors of."""
    return bytes((index * 7 + (index >> 8)) & 255 for index in range(size))


def vectors() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / "vectors.json").read_text("utf-8"))
    return found
