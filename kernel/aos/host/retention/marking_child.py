"""Check in a child process which data a running world still needs (spec/state.md, RT-20a).

A client names the blobs and rows to remove. The process that runs the world does not trust it:
before the first removal its own child process marks the store, and all data that the child finds
stays. The child takes no lock, writes nothing, and runs with a lower priority.

    output = number of snapshot rows that stay, number of put rows that go (8 bytes each),
             the snapshot rows (8 bytes each), the first 8 bytes of the hash of each put's key,
             the first 8 bytes of each blob's hash that stays, in order

Eight bytes are enough: a blob that shares them with another one that is needed stays until the next
collection, and none goes that is needed.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from aos.errors import AosError, Unavailable
from aos.host.folder.reader import open_reader
from aos.host.retention.marking import mark
from aos.host.world.collecting import WORD_BYTES, StillNeeded, word
from aos.private_memory import keep_memory_private
from aos.values.digests import content_hash

_NICE: Final = 5
_FAILED: Final = "nothing was removed: the running world could not find out what it still needs"
_HEAD: Final = struct.Struct(">QQ")


def find_still_needed(path: Path, base: int) -> StillNeeded:
    """Mark the world at ``path``, whose core reads from the snapshot after record ``base``.

    Raises:
        Unavailable: The store cannot be marked.
    """
    paths = os.pathsep.join(folder for folder in sys.path if folder)
    try:
        completed = subprocess.run(  # noqa: S603  # this interpreter, a module of ours, a folder, a number
            [sys.executable, "-m", __name__, str(path), str(base), str(_NICE)],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            check=False,
        )
    except OSError as problem:
        raise Unavailable(f"{_FAILED}: {problem} (try again)") from problem
    if completed.returncode != 0:
        reason = completed.stderr.decode(errors="replace")[-500:].strip()
        raise Unavailable(f"{_FAILED}: {reason} (run aos verify, and try again)")
    return _read(completed.stdout)


def _read(data: bytes) -> StillNeeded:
    snapshots, puts = _HEAD.unpack_from(data)
    words = array("Q", data[_HEAD.size :])
    if sys.byteorder == "little":
        words.byteswap()
    return StillNeeded(
        blobs=words[snapshots + puts :],
        snapshots=frozenset(words[:snapshots]),
        puts=frozenset(words[snapshots : snapshots + puts]),
    )


def _packed(words: Iterable[int]) -> bytes:
    return b"".join(number.to_bytes(WORD_BYTES, "big") for number in words)


def _child(path: Path, base: int) -> bytes:
    with open_reader(path) as reader:
        marks = mark(reader.store, keep=1, base=base)
    return b"".join(
        (
            _HEAD.pack(len(marks.snapshots_kept), len(marks.over)),
            _packed(row.at for row in marks.snapshots_kept),
            _packed(word(content_hash(row.key)) for row in marks.over),
            _packed(sorted(map(word, marks.live))),
        )
    )


if __name__ == "__main__":
    keep_memory_private()
    os.nice(int(sys.argv[3]))
    try:
        output = _child(Path(sys.argv[1]), int(sys.argv[2]))
    except AosError as problem:
        sys.exit(str(problem))
    sys.stdout.buffer.write(output)
