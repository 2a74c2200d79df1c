"""Measure the same work without a kernel: its WASM calls, and writing its bytes to LMDB.

The calls are those of the point itself, each in a fresh instance. The commits have the bytes of its
frames and blobs in groups of the same size, one synced transaction each, in another environment in
the same folder. Both run one after the other: no threads, no hashes, no records, no state.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lmdb

from aos.core.journal.ports import BlobReader, Call
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from benchmarks.figures import NS_PER_S, median

GROUPS_MAX: Final = 200
MAP_BYTES: Final = 1 << 36
_HEAD_BYTES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """``step_us``: one call, on average. ``commit_ms``: the median of one commit."""

    step_us: float
    commit_ms: float
    seconds: float
    """All steps and all commits of the point, one after the other."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """The content of one commit."""

    frames: tuple[bytes, ...]
    blobs: tuple[int, ...]


def measure(
    *, calls: Sequence[Call], steps: int, groups: Sequence[Bytes], read: BlobReader, folder: Path
) -> Floor:
    """``calls`` are a sample of ``steps``; of ``groups``, at most 200 are committed."""
    step_s = run_on_big_stack(lambda: _step_seconds(calls, read))
    first = max(0, (len(groups) - GROUPS_MAX) // 2)
    commits = _commit_seconds(groups[first : first + GROUPS_MAX], folder)
    commit_s = sum(commits) / len(commits)
    return Floor(
        step_us=step_s * 1e6,
        commit_ms=median(commits) * 1e3,
        seconds=step_s * steps + commit_s * len(groups),
    )


def _step_seconds(calls: Sequence[Call], read: BlobReader) -> float:
    sandbox = Sandbox(read)
    try:
        for call in calls[:32]:
            sandbox.run(call)
        began = time.perf_counter()
        for call in calls:
            sandbox.run(call)
        return (time.perf_counter() - began) / len(calls)
    finally:
        sandbox.close()


def _commit_seconds(groups: Sequence[Bytes], folder: Path) -> list[float]:
    found = []
    with tempfile.TemporaryDirectory(dir=folder) as path:
        environment = lmdb.open(path, map_size=MAP_BYTES, max_dbs=3, sync=True, metasync=True)
        frames, blobs, head = (environment.open_db(each) for each in (b"f", b"b", b"h"))
        number = 0
        for group in groups:
            data = [(os.urandom(32), os.urandom(size)) for size in group.blobs]
            began_ns = time.perf_counter_ns()
            with environment.begin(write=True) as txn:
                for frame in group.frames:
                    number += 1
                    txn.put(number.to_bytes(8, "big"), frame, append=True, db=frames)
                for key, blob in data:
                    txn.put(key, blob, db=blobs)
                txn.put(b"head", bytes(_HEAD_BYTES), db=head)
            found.append((time.perf_counter_ns() - began_ns) / NS_PER_S)
        environment.close()
    return found
