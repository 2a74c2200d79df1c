"""Whom a reader of a proof trusts, and what the proof then says (spec/proofs.md, PF-70 to PF-76).

Trust comes from outside of the file: the id of a world commits to its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from aos.core.state.cell_index import CellIndex
from aos.core.state.index_node import leaf_count
from aos.manifest.keys import key_text
from aos.prove.headerlog.signed_note import NoteKey
from aos.prove.proofs.checking import CheckedProof, ProvedRecord
from aos.values.digests import Hash, content_hash, hash_text

_ANCHORED: Final = "the world's key signed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPolicy:
    """Whom the reader trusts. ``world`` and ``key`` are the world's id and public key; of
    ``witnesses``, ``witnesses_min`` must have cosigned."""

    world: Hash | None = None
    key: bytes | None = None
    witnesses: tuple[NoteKey, ...] = ()
    witnesses_min: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A proof that holds, judged by this reader's policy. It is trusted if ``problems`` is empty.

    ``cosigned`` are the trusted witnesses, with the time of each in seconds since 1970.
    """

    shown_lines: tuple[str, ...]
    by: tuple[str, ...]
    not_shown: tuple[str, ...]
    problems: tuple[str, ...]
    cosigned: tuple[tuple[str, int], ...] = field(default=())


def judge(checked: CheckedProof, policy: TrustPolicy) -> Verdict:
    """Compare a proof that holds with the reader's policy.

    Raises:
        Damage: A line of a trusted witness is not its signature (PF-14).
    """
    cosigned = tuple(_cosigned(checked, policy.witnesses))
    return Verdict(
        shown_lines=tuple(_shown_lines(checked)),
        by=tuple(_by(checked, cosigned)),
        not_shown=tuple(_left_open(checked)),
        problems=tuple(_problems(checked, policy, len({key for key, _ in cosigned}))),
        cosigned=tuple((key.name, time) for key, time in cosigned),
    )


def _cosigned(checked: CheckedProof, witnesses: Sequence[NoteKey]) -> Iterator[tuple[NoteKey, int]]:
    """The witnesses that cosigned, each key once."""
    note = checked.note
    if note is None:
        return
    counted: set[bytes] = set()
    for key in witnesses:
        if note.is_signed_by(key) and key.public not in counted:
            counted.add(key.public)
            time = next(signature.time for signature in note.signatures if key.is_of(signature))
            yield key, time or 0


def _problems(checked: CheckedProof, policy: TrustPolicy, cosigned: int) -> Iterator[str]:
    world = checked.world
    if policy.world is None and policy.key is None:
        yield (
            "no one said whom to trust: name the world with --world, as its owner publishes it, "
            f"or its key with --key (the proof is of world {hash_text(world.world)})"
        )
    if policy.world is not None and policy.world != world.world:
        yield (
            f"the proof is of another world: expected {hash_text(policy.world)}, "
            f"found {hash_text(world.world)}"
        )
    if policy.key is not None and policy.key != world.key:
        yield (
            f"the world has another key: expected {key_text(policy.key)}, "
            f"found {key_text(world.key)}"
        )
    if cosigned < policy.witnesses_min:
        yield f"expected {policy.witnesses_min} of the trusted witnesses, found {cosigned}"


def _by(checked: CheckedProof, cosigned: Sequence[tuple[NoteKey, int]]) -> Iterator[str]:
    world = hash_text(checked.world.world)
    if checked.checkpoint is not None:
        yield f"{_ANCHORED} a checkpoint of {checked.checkpoint.size} frames: world {world}"
    elif checked.head is not None:
        yield f"{_ANCHORED} the head at record {checked.head.seq}: world {world}"
    for key, _ in cosigned:
        yield f"witness {key.name} cosigned the checkpoint"


def _shown_lines(checked: CheckedProof) -> Iterator[str]:
    records = checked.records
    match checked.proof.kind:
        case "record":
            yield _line(records["record"], checked)
        case "intent":
            yield from _of_intent(checked)
        case "cell":
            yield from _of_cell(checked)
        case "consistency":
            assert checked.old is not None
            assert checked.checkpoint is not None
            yield (
                f"the first {checked.old.size} of {checked.checkpoint.size} frames are those of "
                "the old checkpoint"
            )


def _of_intent(checked: CheckedProof) -> Iterator[str]:
    records, intent = checked.records, checked.proof.intent
    assert intent is not None
    request_line = _line(records["asked"], checked)
    yield f"{request_line} asked for {checked.effect}, intent {hash_text(Hash(intent))}"
    settled = records.get("settled")
    if settled is None:
        return
    status = settled.fields.get("status")
    if checked.signer is None:
        yield f"{_line(settled, checked)} settled it: {status}, by the kernel itself"
        return
    name = settled.fields.get("executor")
    signed = f"signed by {name}, {key_text(checked.signer)}"
    yield f"{_line(settled, checked)} settled it: {status}, {signed}"
    if checked.is_listed:
        manifest = records["manifest"]
        yield f"{_line(manifest, checked)} lists this key as the one of {name} for {checked.effect}"


def _of_cell(checked: CheckedProof) -> Iterator[str]:
    proof = checked.proof
    cell = f"cell {proof.workflow} {(proof.key or b'').hex()}".rstrip()
    last, snapshot = checked.records.get("last"), checked.records.get("snapshot")
    if last is not None:
        yield f"{_line(last, checked)} is of {cell}"
    if snapshot is not None:
        at = snapshot.fields.get("at")
        if checked.entry is None:
            yield f"after record {at}, {cell} had no state"
        else:
            state = hash_text(checked.entry.state)
            yield f"after record {at}, {cell} had the state {state}; no later record was its own"


def _line(record: ProvedRecord, checked: CheckedProof) -> str:
    of = (
        "" if record.world == checked.world.world else f" of its ancestor {hash_text(record.world)}"
    )
    return f"record {record.seq} ({record.fields['kind']}){of}"


def _left_open(checked: CheckedProof) -> Iterator[str]:
    """Statements that a reader might infer, and that the proof does not show."""
    records = checked.records
    match checked.proof.kind:
        case "intent":
            if "settled" not in records:
                yield "whether the effect was settled later"
            elif checked.signer is not None and not checked.is_listed:
                yield "whose key signed the receipt: the manifest is not shown"
            elif checked.is_listed:
                yield (
                    "that no manifest came between the one that is shown and the step, and that "
                    "none revoked the key later"
                )
        case "cell":
            if "snapshot" not in records:
                yield "that no later record is the cell's own: that needs a snapshot"
            yield "that the state follows from the records: the world says so until it is replayed"
        case _:
            pass


def others_shown(nodes: Sequence[bytes], key: bytes) -> int:
    """How many other keys the nodes of an index show, each with the hash of its state (CI-7)."""
    if not nodes or not leaf_count(nodes[-1]):
        return 0
    count = leaf_count(nodes[-1]) or 0
    leaf = CellIndex(content_hash(nodes[-1]), count, lambda _: nodes[-1])
    return count - (leaf.get(content_hash(key)) is not None)
