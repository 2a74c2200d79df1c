"""A world of many frames of one event and its step, its checkpoints, and proofs of its records.

The frames are made by the kernel and written in large transactions, so that a million of them take
minutes instead of hours; their bytes are those of a world that is sent one event at a time.
"""

from __future__ import annotations

import base64
import json
import os
import random
import time
from pathlib import Path
from typing import Any, Final

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import Head
from aos.core.journal.ports import Runner
from aos.core.journal.records import Stamp
from aos.core.kernel_protocol import KernelProtocol, step
from aos.core.pending import Sealed
from aos.host.apply.manifest_files import load_manifest_files
from aos.host.checkpoints.checkpointing import make_checkpoint
from aos.host.checkpoints.proving import ProofRequest, prove
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder, read_key
from aos.host.folder.making import init_world
from aos.host.folder.restore import restore_kernel
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from aos.store.lmdb_store import LmdbStore
from benchmarks.figures import median
from benchmarks.memory import peaks, rss_anon_mib
from benchmarks.workloads import cell_name, load_of

LOAD: Final = load_of("counter")
CELLS: Final = 1_000
GROUP: Final = 512
"""Frames of one transaction."""

PROVEN: Final = 20

Json = dict[str, Any]


def make_frames(path: Path, number: int) -> Json:
    """Add ``number`` frames to the world at ``path``, which is made if it is not there."""
    if not path.exists():
        init_world(path)
        with open_writer(path) as writer:
            applied = writer.apply(load_manifest_files(LOAD.manifest))
            assert isinstance(applied.answer, Admitted), applied.answer
    folder = open_folder(path)
    with folder.open_store() as store:
        kernel = restore_kernel(store, folder.world)
        sandbox = Sandbox(store.blob)
        run_on_big_stack(lambda: _append(store, kernel, sandbox, folder.path, number))
        head = store.head()
        assert head is not None
        return {"frames": head.frames, "records": head.seq}


def _append(
    store: LmdbStore, kernel: KernelProtocol, runner: Runner, path: Path, number: int
) -> None:
    key = read_key(path / "keys" / "world.key")
    follows = kernel.tip.frame
    group: list[Sealed] = []
    for item in range(number):
        admitted = kernel.admit(LOAD.event(item, cell_name(item % CELLS), "many"), _stamp())
        assert isinstance(admitted, Admitted), admitted
        step(kernel, runner)
        sealed = kernel.seal(os.urandom(32))
        assert sealed is not None
        group.append(sealed)
        if len(group) == GROUP or item == number - 1:
            store.append(group, Head.of(sealed.tip).signed(key), expected=follows)
            follows = sealed.frame.hash
            group = []


def _stamp() -> Stamp:
    return Stamp(time.time_ns(), os.urandom(64))


def checkpoint(path: Path) -> Json:
    """Make a checkpoint: seconds of CPU, and the frames that it added."""
    began = time.process_time()
    made = make_checkpoint(path)
    return {"cpu_s": time.process_time() - began, "added": made.added}


def proofs(path: Path) -> Json:
    """Prove some records, chosen at random: CPU time, memory, and bytes without the record."""
    with open_folder(path).open_store(readonly=True) as store:
        head = store.head()
        assert head is not None
    some = random.Random(head.frames)
    before_mib = rss_anon_mib()
    times, without = [], []
    with peaks() as peak:
        for _ in range(PROVEN):
            seq = some.randrange(4, head.seq + 1)
            began = time.process_time()
            data = prove(path, ProofRequest(words=(str(seq),))).data
            times.append(time.process_time() - began)
            shown = json.loads(data)["records"]["record"]["bytes"]
            without.append(len(data) - len(shown))
            assert base64.b64decode(shown)
    return {
        "cpu_ms": median(times) * 1000,
        "slowest_ms": max(times) * 1000,
        "without_bytes": max(without),
        "added_mib": peak.own - before_mib,
    }
