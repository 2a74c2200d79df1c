"""Check in a child process whether a world's stored states fit a new manifest (H-74).

A million states take seconds to check, and the core's thread must not block for that long. The
child reads the durable world and reports up to which record it has checked; the core then checks
only later changes (spec/kernel.md, K-71a). The child takes no lock and writes nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from aos.core.decide.admit import in_the_way
from aos.core.decide.answers import Answer, Blocker, Refusal, Rule
from aos.core.decide.quiescence import Change, misfits
from aos.core.journal.inputs import PIN, ManifestInput
from aos.core.limits import LIMITS
from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import AosError, Damage, Unavailable
from aos.host.folder.reader import open_reader
from aos.manifest.effective import Effective
from aos.manifest.shapes import Shapes
from aos.private_memory import keep_memory_private
from aos.values.cbor import Value, decode_record, encode

LOOKS_MAX: Final = 3
"""Number of attempts if snapshots interfere; after that the core checks the states itself."""

_NICE: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result: stored states up to record ``seq`` fit, except for these."""

    seq: int
    blockers: tuple[Blocker, ...]


def need_a_look(in_force: Effective | None, new: Effective, mode: str) -> bool:
    """Whether the new manifest needs stored keys or states to fit that might not. The core itself
    knows the states left by manifests before the one in force."""
    if in_force is None:
        return False
    shapes = Shapes(in_force, new)
    for name, workflow in new.workflows.items():
        old = in_force.workflows.get(name)
        if old is None:
            return True
        if mode == PIN and workflow.upgrade != "in_place":
            continue  # an instance that does not fit stays with its version (K-74a)
        if not (
            shapes.same(old.state, workflow.state)
            and shapes.same(old.key, workflow.key)
            and old.has_opaque_state == workflow.has_opaque_state
        ):
            return True
    return False


def look(path: Path, manifest_input: ManifestInput) -> Comparison:
    """Compare all stored keys and states of the world at ``path`` with a manifest.

    Raises:
        Damage: A stored value cannot be read.
        Unavailable: The child process ended too early.
    """
    paths = os.pathsep.join(folder for folder in sys.path if folder)
    completed = subprocess.run(  # noqa: S603  # this interpreter, a module of ours, a folder
        [sys.executable, *QUICK_PROGRAM, __name__, str(path), str(_NICE)],
        input=encode([manifest_input.document, manifest_input.mode, list(manifest_input.leaves)]),
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        check=False,
    )
    if completed.returncode != 0:
        raise Unavailable(
            "the process that compares the stored states with the manifest ended before it was "
            f"done: {completed.stderr.decode(errors='replace')[-500:]} (try again)"
        )
    reply: Any = decode_record(completed.stdout)
    if reply["problem"] is not None:
        raise (Damage if reply["is_damage"] else Unavailable)(reply["problem"])
    return Comparison(
        seq=reply["seq"],
        blockers=tuple(
            Blocker(kind=kind, cell=(workflow, key), detail=detail)
            for kind, workflow, key, detail in reply["blockers"]
        ),
    )


def apply_looked(
    path: Path, manifest_input: ManifestInput, submit: Callable[[ManifestInput], Answer]
) -> Answer:
    """Compare the stored states, then submit the command. Raises as ``look``."""
    for _ in range(LOOKS_MAX):
        comparison = look(path, manifest_input)
        if comparison.blockers:
            return in_the_way(comparison.blockers)
        answer = submit(replace(manifest_input, checked=comparison.seq))
        if not (isinstance(answer, Refusal) and answer.rule is Rule.MANIFEST_CHECK_IS_OLD):
            return answer
    return submit(manifest_input)


def _child(path: Path, request: bytes) -> bytes:
    request_fields: Any = decode_record(request)
    document, mode, leaves = request_fields
    try:
        effective = Effective.from_document(document)
        with open_reader(path) as reader:
            change = Change(
                in_force=reader.manifest, effective=effective, mode=mode, leaves=tuple(leaves)
            )
            blockers: list[Value] = [
                [blocker.kind, *blocker.cell, blocker.detail]
                for blocker in islice(
                    misfits(reader.state, change, reader.store.blob), LIMITS.blockers
                )
            ]
            seq = reader.seq
    except AosError as problem:
        is_damage = isinstance(problem, Damage)
        return encode({"problem": str(problem), "is_damage": is_damage})
    return encode({"problem": None, "seq": seq, "blockers": blockers})


if __name__ == "__main__":
    keep_memory_private()
    os.nice(int(sys.argv[2]))
    sys.stdout.buffer.write(_child(Path(sys.argv[1]), sys.stdin.buffer.read()))
