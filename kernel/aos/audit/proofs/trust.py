"""Whom a reader of a proof trusts, and what the proof then says (spec/proofs.md, PF-70 to PF-76).

Trust comes from outside of the file: the id of a world commits to its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from aos.audit.headerlog.signed_note import NoteKey
from aos.audit.proofs.checking import CheckedProof, ProvedRecord
from aos.core.state.cell_index import CellIndex
from aos.core.state.index_node import leaf_count
from aos.manifest.keys import key_text
from aos.values.digests import Hash, content_hash, hash_text

_ANCHORED: Final = "the world's key signed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPolicy:
    """Whom the reader trusts. ``world`` and ``key`` are the world's id and public key; of
    ``witnesses``, ``needed`` must have cosigned."""

    world: Hash | None = None
    key: bytes | None = None
    witnesses: tuple[NoteKey, ...] = ()
    needed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A proof that holds, judged by this reader's policy. It is trusted if ``problems`` is empty.

    ``cosigned`` are the trusted witnesses, with the time of each in seconds since 1970.
    """

    shown: tuple[str, ...]
    by: tuple[str, ...]
    not_shown: tuple[str, ...]
    problems: tuple[str, ...]
    cosigned: tuple[tuple[str, int], ...] = field(default=())


def judge(shown: CheckedProof, policy: TrustPolicy) -> Verdict:
    """Compare a proof that holds with the reader's policy.

    Raises:
        Damage: A line of a trusted witness is not its signature (PF-14).
    """
    cosigned = tuple(_cosigned(shown, policy.witnesses))
    return Verdict(
        shown=tuple(_said(shown)),
        by=tuple(_by(shown, cosigned)),
        not_shown=tuple(_left_open(shown)),
        problems=tuple(_problems(shown, policy, len({key for key, _ in cosigned}))),
        cosigned=tuple((key.name, time) for key, time in cosigned),
    )


def _cosigned(shown: CheckedProof, witnesses: Sequence[NoteKey]) -> Iterator[tuple[NoteKey, int]]:
    """The witnesses that cosigned, each key once."""
    note = shown.note
    if note is None:
        return
    counted: set[bytes] = set()
    for key in witnesses:
        if note.is_signed_by(key) and key.public not in counted:
            counted.add(key.public)
            time = next(each.time for each in note.signatures if key.is_of(each))
            yield key, time or 0


def _problems(shown: CheckedProof, policy: TrustPolicy, cosigned: int) -> Iterator[str]:
    world = shown.world
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
    if cosigned < policy.needed:
        yield f"expected {policy.needed} of the trusted witnesses, found {cosigned}"


def _by(shown: CheckedProof, cosigned: Sequence[tuple[NoteKey, int]]) -> Iterator[str]:
    world = hash_text(shown.world.world)
    if shown.checkpoint is not None:
        yield f"{_ANCHORED} a checkpoint of {shown.checkpoint.size} frames: world {world}"
    elif shown.head is not None:
        yield f"{_ANCHORED} the head at record {shown.head.seq}: world {world}"
    for key, _ in cosigned:
        yield f"witness {key.name} cosigned the checkpoint"


def _said(shown: CheckedProof) -> Iterator[str]:
    records = shown.records
    match shown.proof.kind:
        case "record":
            yield _line(records["record"], shown)
        case "intent":
            yield from _of_intent(shown)
        case "cell":
            yield from _of_cell(shown)
        case "consistency":
            assert shown.old is not None
            assert shown.checkpoint is not None
            yield (
                f"the first {shown.old.size} of {shown.checkpoint.size} frames are those of the "
                "old checkpoint"
            )


def _of_intent(shown: CheckedProof) -> Iterator[str]:
    records, intent = shown.records, shown.proof.intent
    assert intent is not None
    asked = _line(records["asked"], shown)
    yield f"{asked} asked for {shown.effect}, intent {hash_text(Hash(intent))}"
    settled = records.get("settled")
    if settled is None:
        return
    status = settled.fields.get("status")
    if shown.signer is None:
        yield f"{_line(settled, shown)} settled it: {status}, by the kernel itself"
        return
    name = settled.fields.get("executor")
    signed = f"signed by {name}, {key_text(shown.signer)}"
    yield f"{_line(settled, shown)} settled it: {status}, {signed}"
    if shown.is_listed:
        manifest = records["manifest"]
        yield f"{_line(manifest, shown)} lists this key as the one of {name} for {shown.effect}"


def _of_cell(shown: CheckedProof) -> Iterator[str]:
    proof = shown.proof
    cell = f"cell {proof.workflow} {(proof.key or b'').hex()}".rstrip()
    last, snapshot = shown.records.get("last"), shown.records.get("snapshot")
    if last is not None:
        yield f"{_line(last, shown)} is of {cell}"
    if snapshot is not None:
        at = snapshot.fields.get("at")
        if shown.entry is None:
            yield f"after record {at}, {cell} had no state"
        else:
            state = hash_text(shown.entry.state)
            yield f"after record {at}, {cell} had the state {state}; no later record was its own"


def _line(record: ProvedRecord, shown: CheckedProof) -> str:
    of = "" if record.world == shown.world.world else f" of its ancestor {hash_text(record.world)}"
    return f"record {record.seq} ({record.fields['kind']}){of}"


def _left_open(shown: CheckedProof) -> Iterator[str]:
    """Statements that a reader might infer, and that the proof does not show."""
    records = shown.records
    match shown.proof.kind:
        case "intent":
            if "settled" not in records:
                yield "whether the effect was settled later"
            elif shown.signer is not None and not shown.is_listed:
                yield "whose key signed the receipt: the manifest is not shown"
            elif shown.is_listed:
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
