"""Cosign a checkpoint that came as a file (spec/proofs.md, PF-88)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aos.errors import Damage, Refused
from aos.host.checkpoints.key_files import as_witness
from aos.host.checkpoints.named_files import read_named, write_named
from aos.host.checkpoints.witness_service import WitnessService, witness_state
from aos.host.folder.folder import read_key
from aos.prove.headerlog.checkpoint import Checkpoint, parse_checkpoint
from aos.prove.headerlog.signed_note import (
    NOTE_BYTES_MAX,
    parse_note,
    parse_note_key,
)
from aos.prove.headerlog.witness_protocol import CONFLICT, NOT_CONSISTENT, Answer, format_request
from aos.prove.proofs.checking import check
from aos.prove.proofs.proof_file import PROOF_BYTES_MAX, read_proof

STATE_SUFFIX = ".logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosigned:
    """A checkpoint, and who signed it when, in seconds since 1970."""

    checkpoint: Checkpoint
    name: str
    time: int


def state_folder(key_file: Path, folder: Path | None) -> Path:
    """The folder with the last checkpoint of each log that a witness signed."""
    return key_file.with_name(key_file.name + STATE_SUFFIX) if folder is None else folder


def cosign_file(
    file: Path,
    *,
    key_file: Path,
    logs: Sequence[str],
    proof: Path | None = None,
    name: str | None = None,
    state: Path | None = None,
) -> Cosigned:
    """Cosign a checkpoint, and write it back with the new signature at its end.

    Raises:
        Refused: No log of ``logs`` signed it, or ``proof`` is needed. Nothing was signed.
        Damage: It does not continue the last one that this witness signed, or is none.
    """
    key = read_key(key_file)
    note = parse_note(read_named(file, NOTE_BYTES_MAX))
    checkpoint = parse_checkpoint(note.text)
    witness = as_witness(bytes(key.verify_key), name)
    with witness_state(state_folder(key_file, state)) as folder:
        service = WitnessService(
            name=witness.name, key=key, logs=tuple(map(parse_note_key, logs)), folder=folder
        )
        latest = service.latest(checkpoint.origin)
        path = () if proof is None else _path(proof, checkpoint, latest)
        size = 0 if latest is None else latest.size
        if latest is not None and latest.size < checkpoint.size and proof is None:
            raise Refused(
                f"{file}: this witness signed {latest.size} frames of the log before: name a proof "
                "that the checkpoint continues them (--proof FILE; aos proof since CHECKPOINT)"
            )
        if size > checkpoint.size:
            raise Damage(
                f"{file}: this witness signed {size} frames of the log before, and the checkpoint "
                f"has {checkpoint.size}: the journal was rolled back"
            )
        answer = service.add_checkpoint(format_request(size, path, note.full_text))
    if isinstance(answer, Answer):
        kind = Damage if answer.status in (CONFLICT, NOT_CONSISTENT) else Refused
        raise kind(f"{file}: nothing was signed: {answer.reason}")
    write_named(file, note.with_signatures([answer]).full_text.encode())
    time = answer.time
    assert time is not None, "a cosignature has a time"
    return Cosigned(checkpoint=checkpoint, name=answer.name, time=time)


def _path(proof: Path, checkpoint: Checkpoint, latest: Checkpoint | None) -> tuple[bytes, ...]:
    """The path in a proof from the last checkpoint that was signed to this one."""
    checked_proof = check(read_proof(read_named(proof, PROOF_BYTES_MAX)))
    old, path = checked_proof.old, checked_proof.proof.path
    if old is None or path is None:
        raise Refused(f"{proof}: expected a proof of consistency (aos proof since CHECKPOINT)")
    if (old, checked_proof.checkpoint) != (latest, checkpoint):
        expected = "none" if latest is None else f"{latest.size} frames"
        raise Refused(
            f"{proof}: it is about other checkpoints: expected from {expected} to "
            f"{checkpoint.size}, found from {old.size}"
        )
    return path
