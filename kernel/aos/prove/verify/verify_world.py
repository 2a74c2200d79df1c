"""Verify a world folder in a child process (spec/audit.md, A-29).

A damaged store file can kill its reader: a missing page of a memory map ends a process with SIGBUS.
So a child process reads the store, and its death by a signal becomes a finding.

The child writes one JSON object per line: ``{"head": n}``, then ``{"seq": n}`` after each frame,
then ``{"report": …}``, or ``{"error": kind, "message": …}`` if there is nothing to verify.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import AosError, BadUsage, Damage, Refused, Unavailable, sentence
from aos.private_memory import keep_memory_private
from aos.prove.headerlog.stored_log import StoredLog
from aos.prove.verify.checkpoints import checking
from aos.prove.verify.findings import Finding, FindingKind, VerifyReport
from aos.prove.verify.verify import Verifier, verify_store
from aos.store.bundle.reader import open_bundle
from aos.store.first_look import DATA_NAME, DEADLY, signal_name, structure_problems
from aos.store.lmdb_store import LmdbStore

STORE_FOLDER: Final = "store"
WORLD_FILE: Final = "world.json"

WALKED_BYTES_MAX: Final = 64 << 20
"""The largest file, in bytes, whose pages are read to find the ones that killed the child. That
takes some seconds."""

_ERRORS: Final = {cls.__name__: cls for cls in (BadUsage, Refused, Unavailable)}
_STDERR_SHOWN: Final = 4000


def verify_world(
    directory: Path | str,
    *,
    archives: Sequence[Path] = (),
    checkpoints: Sequence[Path] = (),
    log: Path | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> VerifyReport:
    """Verify the world in ``directory``, which may be running. Nothing in it is written.

    ``archives`` hold records that were pruned: they are verified before the world's own, as one
    journal. ``checkpoints`` were kept elsewhere and are compared with it; ``log`` is the header log
    of the other side (PF-95).

    ``on_progress`` is called with the sequence reached. A store that cannot be read, or that kills
    its reader, is a finding of the report.

    Raises:
        BadUsage: There is no world in that folder, or an archive is not of this world.
        Unavailable: The world cannot be opened now, or something else ended the child.
    """
    began = time.perf_counter()
    path = Path(directory)
    if not (os.path.lexists(path / STORE_FOLDER) or os.path.lexists(path / WORLD_FILE)):
        raise BadUsage(
            "there is no world here",
            location=str(path),
            expected=f"a folder {STORE_FOLDER} in it",
            hint="name another with --world DIR, or make one with aos init DIR",
        )
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    files = {
        "archives": list(map(str, archives)),
        "checkpoints": list(map(str, checkpoints)),
        "log": None if log is None else str(log),
    }
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr,
        subprocess.Popen(  # noqa: S603  # this interpreter, this module, a folder
            [sys.executable, *QUICK_PROGRAM, __name__, str(path), json.dumps(files)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": paths},
        ) as child,
    ):
        assert child.stdout is not None
        position, answer = _listen(child.stdout, on_progress)
        code = child.wait()
        stderr.seek(0)
        stderr_text = stderr.read()
    if answer is not None and "report" in answer:
        return VerifyReport.from_document(answer["report"])
    if answer is not None:
        raise _ERRORS[answer["error"]](answer["message"])
    if -code in DEADLY:
        return _died(path / STORE_FOLDER, position, -code, time.perf_counter() - began)
    if code < 0:
        raise Unavailable(
            f"the process that verified was ended by {signal_name(-code)} (verify again)"
        )
    raise RuntimeError(f"the verifying process ended with {code}:\n{stderr_text[-_STDERR_SHOWN:]}")


@dataclass(slots=True)
class _Position:
    """The child's last reported position."""

    head: int | None = None
    seq: int = 0


def _listen(
    lines: IO[str], on_progress: Callable[[int], None] | None
) -> tuple[_Position, dict[str, Any] | None]:
    """Read until the child ends; return its last position, and its last message."""
    position = _Position()
    for line in lines:
        if not line.endswith("\n"):
            break  # killed while it wrote
        message = json.loads(line)
        if "seq" in message:
            position.seq = message["seq"]
            if on_progress is not None:
                on_progress(position.seq)
        elif "head" in message:
            position.head = message["head"]
        else:
            return position, message
    return position, None


def _died(folder: Path, position: _Position, number: int, seconds: float) -> VerifyReport:
    """Return a report of the damage when a signal ended the child."""
    is_small = (folder / DATA_NAME).lstat().st_size <= WALKED_BYTES_MAX
    problems = structure_problems(folder) if is_small else []
    document = Verifier(_nothing).report().to_document()
    document["seconds"] = seconds
    document["folded"] = False
    document["seq"] = position.seq
    document["findings"] = [
        Finding(
            kind=FindingKind.STORE_UNREADABLE,
            frame=None if position.seq == position.head else position.seq + 1,
            record=None,
            message=sentence(
                f"the store's file killed the process that read it ({signal_name(number)})",
                expected=f"a whole file, and could read all to record {position.seq}",
                actual=problems[0] if problems else None,
                hint="it was cut short or overwritten: restore a backup",
            ),
        ).to_document()
    ]
    return VerifyReport.from_document(document)


def _nothing(hash: bytes) -> bytes:
    raise AssertionError(f"nothing is read: {hash.hex()}")


def _unreadable(problem: Damage) -> VerifyReport:
    verifier = Verifier(_nothing)
    verifier.add(FindingKind.STORE_UNREADABLE, str(problem))
    return verifier.report()


def _child(directory: Path, files: dict[str, Any], out: IO[str]) -> None:
    """Verify the world, in the child process. ``files`` are the files that the user named."""

    def say(message: dict[str, object]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    try:
        # No check of the file in advance: only this process may die of reading it.
        with (
            LmdbStore.open(directory / STORE_FOLDER, readonly=True, looks=False) as store,
            StoredLog.of_world(directory) as log,
            checking(
                [Path(name) for name in files["checkpoints"]],
                None if files["log"] is None else Path(files["log"]),
            ) as checkpoints,
            contextlib.ExitStack() as stack,
        ):
            say({"head": _head_seq(store)})
            report = verify_store(
                store,
                archives=[
                    stack.enter_context(open_bundle(Path(name))) for name in files["archives"]
                ],
                checkpoints=checkpoints,
                log=log,
                on_progress=lambda seq: say({"seq": seq}),
            )
    except Damage as problem:
        report = _unreadable(problem)
    except AosError as problem:
        kind = next(name for name, cls in _ERRORS.items() if isinstance(problem, cls))
        say({"error": kind, "message": str(problem)})
        return
    say({"report": report.to_document()})


def _head_seq(store: LmdbStore) -> int | None:
    try:
        head = store.head()
    except Damage:
        return None  # a finding of the report
    return None if head is None else head.seq


if __name__ == "__main__":
    keep_memory_private()
    _child(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.stdout)
