"""Where a step's time goes: admit, step, seal, commit, fold, each with the real order module.

    .venv/bin/python benchmarks/kernel.py [ORDERS]

One process, one thread, no executors: orders are placed and their stock asked for, nothing more.
``commit`` is one synced LMDB transaction for each frame of 256 steps, in a temporary folder.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import NO_FRAME, Head
from aos.core.journal.inputs import EventInput, GenesisInput, ManifestInput
from aos.core.journal.ports import BlobReader, Runner
from aos.core.journal.records import Principal, Stamp
from aos.core.kernel import genesis, open_kernel
from aos.core.kernel_protocol import KernelProtocol, step
from aos.core.pending import Sealed
from aos.host.apply.manifest_files import load_manifest_files
from aos.manifest.load import Loaded
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from aos.store.lmdb_store import LmdbStore
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash

T = TypeVar("T")

MANIFEST = Path(__file__).parent.parent / "manifests" / "orders"
STEPS_A_FRAME = 256


class Timer:
    """Sums the time of what it runs, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.counts: dict[str, int] = {}

    def run(self, name: str, count: int, call: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = call()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        self.counts[name] = self.counts.get(name, 0) + count
        return result

    def print(self) -> None:
        for name, seconds in self.seconds.items():
            each = seconds / self.counts[name] * 1e6
            print(f"{name:24s} {self.counts[name]:8,d} x {each:8.1f} us  {1e6 / each:10,.0f}/s")


def stamp() -> Stamp:
    return Stamp(time.time_ns(), os.urandom(64))


def make_kernel(
    loaded: Loaded, read: BlobReader, key: SigningKey | None = None
) -> tuple[KernelProtocol, Sealed]:
    """Make a world with this manifest, and its first frame. ``key`` is the world's and the
    operator's."""
    key = key or SigningKey.generate()
    public = bytes(key.verify_key)
    operators = (Principal("operator", public),)
    message = GenesisInput.message(bytes(32), public, operators)
    signature = key.sign(message).signature
    given = GenesisInput(
        nonce=bytes(32), world_key=public, operators=operators, signature=signature
    )
    first = genesis(given, stamp(), os.urandom(32))
    world = first.tip.world
    kernel = open_kernel(world=world, read=read)
    kernel.follow(first.frame)
    document = loaded.effective.document
    message = ManifestInput.message(world, 0, content_hash(document))
    signature = key.sign(message).signature
    applied = ManifestInput(document=document, principal="operator", serial=0, signature=signature)
    assert isinstance(kernel.admit(applied, stamp()), Admitted)
    return kernel, first


def order(number: int) -> EventInput:
    value = encode(
        {
            "order_id": f"order-{number}",
            "customer_id": f"customer-{number % 100}",
            "items": [{"sku": "tea", "quantity": 2, "price_cents": 500}],
            "patience": 30_000_000_000,
        }
    )
    return EventInput(schema="shop/OrderPlaced@1", value=value, submission_id=f"s-{number}")


def run_steps(kernel: KernelProtocol, runner: Runner, steps: int) -> None:
    for _ in range(steps):
        step(kernel, runner)


def measure(orders: int, folder: Path) -> None:
    loaded = load_manifest_files(MANIFEST)
    blobs: dict[Hash, bytes] = dict(loaded.modules)
    sandbox = Sandbox(blobs.__getitem__)
    kernel, first = make_kernel(loaded, blobs.__getitem__)
    frames = [first]
    timer = Timer()
    inputs = [order(number) for number in range(orders)]

    timer.run("admit an event", orders, lambda: [kernel.admit(each, stamp()) for each in inputs])
    while kernel.pending_records or kernel.ready_cells:
        steps = min(STEPS_A_FRAME, kernel.ready_cells or 1)
        timer.run("step", steps, partial(run_steps, kernel, sandbox, steps))
        records = kernel.pending_records
        sealed = timer.run("seal, a record", records, lambda: kernel.seal(os.urandom(32)))
        assert sealed is not None
        blobs.update(sealed.blobs)
        frames.append(sealed)

    store = LmdbStore.create(folder)
    key = SigningKey.generate()
    follows = NO_FRAME
    for sealed in frames:
        head = Head.of(sealed.tip).signed(key)
        commit = partial(store.append, [sealed], head, expected=follows)
        timer.run("commit, a record", len(sealed.frame.records), commit)
        follows = sealed.frame.hash
    store.close()

    follower = open_kernel(world=kernel.tip.world, read=blobs.__getitem__)
    records = kernel.next_seq - 1

    def follow() -> None:
        for each in frames:
            follower.follow(each.frame)

    timer.run("fold, a record", records, follow)
    timer.print()
    size = sum(len(record) for each in frames for record in each.frame.records)
    print(f"{records:,} records of {size / records:.0f} bytes, {len(frames)} frames")


def main() -> None:
    orders = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    with tempfile.TemporaryDirectory() as folder:
        run_on_big_stack(lambda: measure(orders, Path(folder) / "store"))


if __name__ == "__main__":
    main()
