"""The state of the Arweave stub: blocks, transactions and wallets, and a log that a kill keeps.

Every change is one JSON line, written before its answer is sent. A line that a kill cut is removed
at the next start. This file shares no code with the executor that it tests: it checks ids, data
roots and signatures by itself.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256, sha384
from pathlib import Path
from typing import Any, BinaryIO, Final

CHUNK: Final = 256 * 1024
WINSTON_OF_TRANSACTION: Final = 1_000_000
WINSTON_OF_CHUNK: Final = 600_000_000

CHECKS_SIGNATURES: Final = importlib.util.find_spec("Crypto") is not None
"""Without pycryptodome, the stub checks everything about a transaction but its signature."""

Change = dict[str, Any]


@dataclass(slots=True)
class Kept:
    """A transaction that the stub has. ``height`` is that of its block; None while it waits."""

    document: dict[str, Any]
    height: int | None = None
    is_dropped: bool = False
    has_other_bytes: bool = False

    @property
    def reward(self) -> int:
        return int(self.document["reward"])

    @property
    def payer(self) -> str:
        return encoded(sha256(decoded(self.document["owner"])).digest())


@dataclass(slots=True)
class Plan:
    """Mischief for the next ``times`` requests that begin with ``request``: ``POST /tx``."""

    kind: str
    request: str
    times: int
    ms: int = 0
    status: int = 400
    body: str = ""


@dataclass
class Ledger:
    """The state, and its log. ``balance`` is what a wallet has that was never told otherwise."""

    path: Path
    balance: int
    block_ms: int
    anchors: int
    height: int = 0
    mined_at_ms: int = 0
    posts: int = 0
    kept: dict[str, Kept] = field(default_factory=dict)
    balances: dict[str, int] = field(default_factory=dict)
    plans: list[Plan] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._log = self._open()
        if self.mined_at_ms == 0:
            self.change({"do": "blocks", "count": 0, "at_ms": now_ms()})

    def _open(self) -> BinaryIO:
        whole = self.path.read_bytes() if self.path.exists() else b""
        end = whole.rfind(b"\n") + 1
        for line in whole[:end].splitlines():
            self._apply(json.loads(line))
        log = self.path.open("ab")
        os.ftruncate(log.fileno(), end)
        return log

    def change(self, change: Change) -> None:
        """Write a change, then make it."""
        self._log.write(json.dumps(change, separators=(",", ":")).encode() + b"\n")
        self._log.flush()
        self._apply(change)

    def _apply(self, change: Change) -> None:
        match change:
            case {"do": "blocks", "count": count, "at_ms": at_ms}:
                self._mine(count)
                self.mined_at_ms = at_ms
            case {"do": "post", "document": document}:
                self.posts += 1
                self.kept[document["id"]] = Kept(document)
            case {"do": "refuse"}:
                self.posts += 1
            case {"do": "forget", "ids": ids}:
                for each in ids:
                    self.kept.pop(each, None)
            case {"do": "drop", "id": name}:
                self.kept[name].is_dropped = True
            case {"do": "other", "id": name}:
                self.kept[name].has_other_bytes = True
            case {"do": "balance", "address": address, "winston": winston}:
                self.balances[address] = winston
            case {"do": "plan", "plan": plan}:
                self.plans.append(Plan(**plan))
            case {"do": "planned", "index": index}:
                self.plans[index].times -= 1

    def _mine(self, count: int) -> None:
        if count == 0:
            return
        for kept in self.kept.values():
            if kept.height is None and not kept.is_dropped:
                kept.height = self.height + 1
                self.balances[kept.payer] = self.balance_of(kept.payer) - kept.reward
        self.height += count

    def mine(self, count: int) -> None:
        """Add blocks: the first takes every transaction that waits, and charges its wallet."""
        self.change({"do": "blocks", "count": count, "at_ms": now_ms()})

    def mine_what_is_due(self) -> None:
        """Add the blocks that the clock asks for."""
        if self.block_ms > 0 and (count := (now_ms() - self.mined_at_ms) // self.block_ms) > 0:
            at_ms = self.mined_at_ms + count * self.block_ms
            self.change({"do": "blocks", "count": count, "at_ms": at_ms})

    def planned(self, request: str, kinds: Sequence[str]) -> Plan | None:
        """The first open plan of these kinds for a request; it is then used up once."""
        for index, plan in enumerate(self.plans):
            if plan.times > 0 and plan.kind in kinds and request.startswith(plan.request):
                self.change({"do": "planned", "index": index})
                return plan
        return None

    def balance_of(self, address: str) -> int:
        return self.balances.get(address, self.balance)

    def problem(self, document: dict[str, Any]) -> str | None:
        """Why the network would refuse a transaction, in a node's words; None if it would not."""
        try:
            if not is_valid(document):
                return "Transaction verification failed."
        except (KeyError, TypeError, ValueError, AttributeError):
            return "Invalid JSON."
        recent = range(max(0, self.height - self.anchors), self.height + 1)
        if document["last_tx"] not in map(block_id, recent):
            return "Invalid anchor (last_tx)."
        new = Kept(document)
        waiting = [each for each in self.kept.values() if each.height is None]
        promised = sum(each.reward for each in waiting if each.payer == new.payer)
        is_paid = new.reward >= price(int(document["data_size"]))
        if not is_paid or promised + new.reward > self.balance_of(new.payer):
            return "Transaction verification failed."
        return None


def is_valid(document: dict[str, Any]) -> bool:
    """Whether id, size, data root and signature of a transaction of format 2 hold."""
    data, signature = decoded(document["data"]), decoded(document["signature"])
    tags = [[decoded(tag["name"]), decoded(tag["value"])] for tag in document["tags"]]
    root = decoded(document["data_root"])
    message = deep_hash(
        [
            b"2",
            decoded(document["owner"]),
            decoded(document["target"]),
            document["quantity"].encode(),
            document["reward"].encode(),
            decoded(document["last_tx"]),
            tags,
            document["data_size"].encode(),
            root,
        ]
    )
    return (
        document["format"] == 2
        and document["id"] == encoded(sha256(signature).digest())
        and document["data_size"] == str(len(data))
        and root == merkle_root(data)
        and is_signed(decoded(document["owner"]), message, signature)
    )


def is_signed(owner: bytes, message: bytes, signature: bytes) -> bool:
    """Whether ``owner`` signed ``message`` (RSA-PSS, SHA-256); True without pycryptodome."""
    if not CHECKS_SIGNATURES:
        return True
    from Crypto.Hash import SHA256  # noqa: PLC0415  # optional
    from Crypto.PublicKey import RSA  # noqa: PLC0415
    from Crypto.Signature import pss  # noqa: PLC0415

    key = RSA.construct((int.from_bytes(owner, "big"), 65537))
    try:
        pss.new(key).verify(SHA256.new(message), signature)
    except ValueError:
        return False
    return True


def deep_hash(part: Any) -> bytes:
    """Arweave's hash of nested lists of byte strings."""
    if isinstance(part, list):
        so_far = sha384(b"list%d" % len(part)).digest()
        for each in part:
            so_far = sha384(so_far + deep_hash(each)).digest()
        return so_far
    return sha384(sha384(b"blob%d" % len(part)).digest() + sha384(part).digest()).digest()


def merkle_root(data: bytes) -> bytes:
    """The data root as Arweave's JavaScript client computes it, from the last chunk backwards."""

    def note(offset: int) -> bytes:
        return sha256(offset.to_bytes(32, "big")).digest()

    ends = []
    at = 0
    while len(data) - at >= CHUNK:
        over = len(data) - at - CHUNK
        at += CHUNK if over == 0 or over >= CHUNK // 8 else (len(data) - at + 1) // 2
        ends.append(at)
    ends.append(len(data))
    layer: list[tuple[bytes, int]] = []
    for start, end in zip([0, *ends], ends, strict=False):
        leaf = sha256(sha256(data[start:end]).digest()).digest()
        layer.append((sha256(leaf + note(end)).digest(), end))
    while len(layer) > 1:
        above = []
        for index in range(0, len(layer) - 1, 2):
            (left, cut), (right, end) = layer[index], layer[index + 1]
            pair = sha256(left).digest() + sha256(right).digest() + note(cut)
            above.append((sha256(pair).digest(), end))
        layer = above + layer[len(layer) // 2 * 2 :]
    return layer[0][0]


def price(size: int) -> int:
    """Winston for a transaction with ``size`` bytes: by the chunk, as on the network."""
    return WINSTON_OF_TRANSACTION + WINSTON_OF_CHUNK * (-(-size // CHUNK))


def block_id(height: int) -> str:
    """The hash of a block, 48 bytes."""
    return encoded(sha384(b"block %d" % height).digest())


def encoded(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decoded(text: str) -> bytes:
    """The bytes of base64url without padding. Raises ValueError for anything else."""
    data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if encoded(data) != text:
        raise ValueError("expected base64url without padding")
    return data


def now_ms() -> int:
    return time.time_ns() // 1_000_000
