"""Whether a proof holds (spec/proofs.md, PF-50 to PF-69).

``check`` needs the file alone and trusts nothing in it: it returns what is shown if the signature
of the world's key leads to it. Whether that key is to be trusted is for ``trust`` to decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from aos.core.journal.frame import Head, log_leaf
from aos.core.journal.merkle import root_from as record_root
from aos.core.journal.signing import is_signed
from aos.core.journal.statements import BATCH_MAX
from aos.core.state.cell_index import proved
from aos.core.state.index_node import leaf_count, read_interior
from aos.errors import Damage
from aos.manifest.names import NODE
from aos.prove.headerlog.checkpoint import Checkpoint, log_key, open_checkpoint
from aos.prove.headerlog.header_tree import is_consistent, leaf_hash, read_header, root_from
from aos.prove.headerlog.signed_note import Note
from aos.prove.proofs.proof_file import CheckpointAnchor, HeadAnchor, Proof, ShownRecord, WorldKey
from aos.values.cbor import Value, decode_record, encode, is_nat
from aos.values.digests import HASH_BYTES, Hash, content_hash, digest, is_hash
from aos.values.errors import ValueProblem

_RECEIPT_FIELDS: Final = (
    "intent", "effect", "executor", "key_id", "attempt", "status", "started_ns", "finished_ns",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvedRecord:
    """A record that is in the journal, and the world in which it was written."""

    seq: int
    fields: Mapping[str, Any]
    data: bytes
    world: Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEntry:
    """A cell at rest in a snapshot: its state and its last record (SN-12)."""

    state: Hash
    size: int
    last_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedProof:
    """The content of a proof that holds.

    ``checkpoint`` with its ``note`` or ``head`` is the anchor. ``values`` are by their content
    hash. ``effect`` is the one that an intent asks for, and ``signer`` the key that signed its
    receipt; ``is_listed`` says that a manifest which is shown names it. ``entry`` is the cell's in
    the snapshot, None without one.
    """

    proof: Proof
    world: WorldKey
    records: Mapping[str, ProvedRecord]
    values: Mapping[Hash, bytes]
    checkpoint: Checkpoint | None = None
    note: Note | None = None
    head: Head | None = None
    old: Checkpoint | None = None
    effect: str | None = None
    signer: bytes | None = None
    is_listed: bool = False
    entry: SnapshotEntry | None = None


def check(proof: Proof) -> CheckedProof:
    """Check everything that the file alone can show.

    Raises:
        Damage: The proof does not hold.
    """
    if not proof.worlds:
        _fails("the proof names no world")
    world = proof.worlds[0]
    checkpoint = note = head = None
    match proof.anchor:
        case CheckpointAnchor(note=text):
            key = log_key(world.world, world.key)
            checkpoint, note = open_checkpoint(text.encode(), key)
        case HeadAnchor(head=data):
            head = _head(data, world)
    records = {
        role: _proved(record, proof, checkpoint, head) for role, record in proof.records.items()
    }
    values = {content_hash(value): value for value in proof.values}
    if len(values) != len(proof.values):
        _fails("a value is in the proof twice")
    checked = CheckedProof(
        proof=proof, world=world, records=records, values=values, checkpoint=checkpoint, note=note,
        head=head,
    )  # fmt: skip
    return _CLAIMS[proof.kind](checked)


# The anchor


def _head(data: bytes, world: WorldKey) -> Head:
    head = Head.from_bytes(data)
    if head.world != world.world:
        _fails("the head is another world's")
    if not head.is_signed_by(world.key):
        _fails("the world's key did not sign the head")
    return head


def _proved(
    record: ShownRecord, proof: Proof, checkpoint: Checkpoint | None, head: Head | None
) -> ProvedRecord:
    """PF-51 to PF-54."""
    subject = f"record {record.seq}"
    fields = _map(record.data, subject)
    if type(fields.get("seq")) is not int or fields["seq"] != record.seq:
        _fails(f"{subject}: its bytes are those of another record")
    if not isinstance(fields.get("kind"), str):
        _fails(f"{subject}: its bytes name no kind")
    leaf = digest("aos/leaf/1", record.salt, record.data)
    path = [Hash(sibling) for sibling in record.path]
    root = record_root(leaf, record.index, record.count, path)
    if root is None:
        _fails(f"{subject}: its path has another length than its place in the frame asks for")
    if checkpoint is not None:
        world = _in_checkpoint(record, root, proof, checkpoint, subject)
    else:
        assert head is not None, "an anchor is one of the two"
        _in_head(record, root, head, subject)
        world = proof.worlds[0].world
    return ProvedRecord(seq=record.seq, fields=fields, data=record.data, world=world)


def _in_checkpoint(
    record: ShownRecord, root: Hash, proof: Proof, checkpoint: Checkpoint, subject: str
) -> Hash:
    frame = record.frame
    if frame.header is None:
        _fails(f"{subject}: the header of its frame is missing")
    header = read_header(frame.header)
    if header.root != root:
        _fails(f"{subject}: the record is not the one that its frame holds there")
    position = (header.first + record.index, header.last - header.first + 1)
    if position != (record.seq, record.count):
        _fails(f"{subject}: its frame has another record at this place")
    if header.world not in {world.world for world in proof.worlds}:
        _fails(f"{subject}: its frame is of a world that the proof does not name")
    tree_root = root_from(leaf_hash(frame.header), frame.index, checkpoint.size, frame.path)
    if tree_root != checkpoint.root:
        _fails(f"{subject}: its frame is not in the tree of the checkpoint")
    return header.world


def _in_head(record: ShownRecord, root: Hash, head: Head, subject: str) -> None:
    frame = record.frame
    if frame.header is not None:
        _fails(f"{subject}: a proof by the head has no headers")
    path = [Hash(sibling) for sibling in frame.path]
    if record_root(log_leaf(root), frame.index, head.frames, path) != head.log_root:
        _fails(f"{subject}: its frame is not in the log of the head")
    if record.seq > head.seq:
        _fails(f"{subject}: the journal of the head ends before it")


# The claims


def _record(checked: CheckedProof) -> CheckedProof:
    """PF-60."""
    _roles(checked, "record")
    _only_values(checked, ())
    return checked


def _consistency(checked: CheckedProof) -> CheckedProof:
    """PF-61."""
    _only_values(checked, ())
    proof = checked.proof
    if checked.checkpoint is None:
        _fails("a proof of consistency needs a checkpoint")
    assert proof.old is not None
    assert proof.path is not None
    key = log_key(checked.world.world, checked.world.key)
    old, _ = open_checkpoint(proof.old.encode(), key)
    new = checked.checkpoint
    if not is_consistent(old.size, old.root, new.size, new.root, proof.path):
        _fails("the old checkpoint is not the beginning of the new one")
    return _with(checked, old=old)


def _intent(checked: CheckedProof) -> CheckedProof:
    """PF-62 to PF-64."""
    _roles(checked, "asked")
    request, intent = checked.records["asked"], checked.proof.intent
    if request.fields["kind"] != "step" or not _is_cell(request.fields.get("cell")):
        _fails("the record that asked is not a step of a cell")
    matches = [
        entry for entry in _maps(request.fields.get("intents", [])) if entry.get("intent") == intent
    ]
    if len(matches) != 1:
        _fails("the step did not ask for this effect")
    effect = matches[0].get("effect")
    if not isinstance(effect, str):
        _fails("the intent in the step names no effect")
    allowed = [_hash_of(matches[0].get("params"), "the params")]
    settled = checked.records.get("settled")
    signer = None
    if settled is not None:
        allowed.append(_hash_of(settled.fields.get("payload"), "the payload"))
        signer = _settled(checked, request, effect, settled)
    manifest = checked.records.get("manifest")
    if manifest is not None:
        if signer is None or settled is None:
            _fails("a manifest is shown, and no receipt that an executor signed")
        allowed.append(_listing_document(checked, request, manifest, settled, signer))
    _only_values(checked, allowed)
    return _with(checked, effect=effect, signer=signer, is_listed=manifest is not None)


def _settled(
    checked: CheckedProof, request: ProvedRecord, effect: str, settled: ProvedRecord
) -> bytes | None:
    """The key that signed the receipt; None if the kernel settled the intent itself (PF-63)."""
    fields = settled.fields
    if fields["kind"] not in ("receipt", "kernel_receipt"):
        _fails("the record that settled the intent is no receipt")
    same = (fields.get("intent"), fields.get("effect"), fields.get("cell"))
    if same != (checked.proof.intent, effect, request.fields.get("cell")):
        _fails("the receipt is of another intent")
    if settled.seq <= request.seq:
        _fails("the receipt is from before the step that asked")
    if fields["kind"] == "kernel_receipt":
        return None
    key = fields.get("key_id")
    signature = fields.get("signature")
    if not isinstance(key, bytes) or not isinstance(signature, bytes):
        _fails("the receipt has no key or no signature")
    if not is_signed(_signed(settled), signature, key):
        _fails("the executor's key did not sign the receipt")
    return key


def _signed(receipt: ProvedRecord) -> bytes:
    """The bytes under a receipt's signature (J-37, J-40)."""
    fields = receipt.fields
    body: dict[str | int, Value] = {"world": receipt.world}
    for name in (*_RECEIPT_FIELDS, *(("cost_cents",) if "cost_cents" in fields else ())):
        body[name] = fields.get(name)
        if not isinstance(body[name], int | str | bytes):
            _fails(f"{name} of the receipt is not readable")
    body["payload"] = _hash_of(fields.get("payload"), "the payload")
    message = encode(["aos/receipt/1", body])
    if "batch" not in fields:
        return message
    batch = fields["batch"]
    if not isinstance(batch, dict) or not batch.keys() <= {"index", "size", "path"}:
        _fails("the receipt's place in its batch is not readable")
    index, size, path = batch.get("index"), batch.get("size"), batch.get("path", [])
    if type(index) is not int or type(size) is not int or not 0 < size <= BATCH_MAX:
        _fails("the receipt's place in its batch is not readable")
    hashes = (
        [Hash(sibling) for sibling in path if is_hash(sibling)] if isinstance(path, list) else []
    )
    if not isinstance(path, list) or len(hashes) != len(path):
        _fails("the receipt's path in its batch is not readable")
    root = None
    if len(hashes) <= BATCH_MAX.bit_length():
        root = record_root(digest("aos/receipt-leaf/1", message), index, size, hashes)
    if root is None:
        _fails("the receipt's path in its batch leads to no root")
    signed: dict[str | int, Value] = {
        "world": receipt.world, "executor": fields.get("executor"), "key_id": fields.get("key_id"),
        "root": root, "size": size,
    }  # fmt: skip
    return encode(["aos/receipts/1", signed])


def _listing_document(
    checked: CheckedProof,
    request: ProvedRecord,
    manifest: ProvedRecord,
    settled: ProvedRecord,
    signer: bytes,
) -> Hash:
    """The document of the manifest, which lists the signer's key for the effect (PF-64)."""
    if manifest.fields["kind"] != "manifest" or manifest.seq >= request.seq:
        _fails("the record that is shown as the manifest is none from before the step")
    document = _hash_of(manifest.fields.get("document"), "the document")
    data = checked.values.get(document)
    if data is None:
        _fails("the document of the manifest is missing")
    manifest_fields = _map(data, "the manifest").get("manifest")
    if not isinstance(manifest_fields, dict):
        _fails("the document of the manifest is not readable")
    name, effect = settled.fields.get("executor"), settled.fields.get("effect")
    world_key = next(world.key for world in checked.proof.worlds if world.world == settled.world)
    if "executors" not in manifest_fields:
        if name != NODE or signer != world_key:
            _fails("the manifest lists no executors, and another key than the world's signed")
        return document
    entries = [entry for entry in _maps(manifest_fields["executors"]) if entry.get("name") == name]
    if len(entries) != 1 or not _contains(entries[0].get("effects"), effect):
        _fails("the manifest does not list this executor for this effect")
    # In a forked world the manifest names the parent's key for the node (K-114).
    if (
        signer != world_key
        if name == NODE
        else entries[0].get("public_key") != f"ed25519:{signer.hex()}"
    ):
        _fails("the manifest lists another key for this executor")
    return document


def _cell(checked: CheckedProof) -> CheckedProof:
    """PF-65 to PF-68."""
    proof = checked.proof
    last, snapshot = checked.records.get("last"), checked.records.get("snapshot")
    if last is None and snapshot is None:
        _fails("a proof of a cell shows its last record, a snapshot, or both")
    allowed: list[Hash] = []
    if last is not None:
        if last.fields["kind"] not in ("step", "fault"):
            _fails("the last record of the cell is no step and no fault")
        if last.fields.get("cell") != [proof.workflow, proof.key]:
            _fails("the record is of another cell")
        if "state" in last.fields:
            allowed.append(_hash_of(last.fields["state"], "the state"))
    entry = None
    if snapshot is not None:
        document, entry = _at_rest(checked, snapshot)
        allowed.append(document)
        if entry is not None:
            allowed.append(entry.state)
            if last is None or last.seq != entry.last_seq:
                _fails("the snapshot names another record as the last one of the cell")
    _only_values(checked, allowed)
    return _with(checked, entry=entry)


def _at_rest(checked: CheckedProof, snapshot: ProvedRecord) -> tuple[Hash, SnapshotEntry | None]:
    """The document of a snapshot, and the cell's entry in it; None: it has no state (PF-66)."""
    proof = checked.proof
    assert proof.nodes is not None
    assert proof.key is not None
    if snapshot.fields["kind"] != "snapshot":
        _fails("the record that is shown as the snapshot is none")
    document = _hash_of(snapshot.fields.get("document"), "the document")
    data = checked.values.get(document)
    if data is None:
        _fails("the document of the snapshot is missing")
    fields = _map(data, "the snapshot")
    at, frame = snapshot.fields.get("at"), snapshot.fields.get("frame")
    if not is_nat(at) or not is_hash(frame):
        _fails("the record of the snapshot is not readable")
    if not is_nat(fields.get("seq")) or (fields["seq"], fields.get("frame")) != (at, frame):
        _fails("the document is of another place in the journal than the record says")
    cells = fields.get("cells")
    if not isinstance(cells, dict):
        _fails("the document of the snapshot is not readable")
    root, count = None, 0
    match cells.get(proof.workflow, [None, 0]):
        case [None, size, *_] if is_nat(size) and size == 0:
            pass
        case [bytes(hash), int(size), *_] if len(hash) == HASH_BYTES and is_nat(size) and size:
            root, count = Hash(hash), size
        case _:
            _fails("the document of the snapshot is not readable")
    if proof.nodes and (leaf_count(proof.nodes[0]) or _size(proof.nodes[0])) != count:
        _fails("the index has another number of entries than the document says")
    entry = proved(root, content_hash(proof.key), proof.nodes)
    return document, None if entry is None else _entry(entry, proof.key)


def _size(node: bytes) -> int:
    return read_interior(node, at=content_hash(node)).size


def _entry(data: bytes, key: bytes) -> SnapshotEntry:
    match _decoded(data, "the cell's entry"):
        case [bytes(of), bytes(state), int(size), active, int(seq), bytes(), bytes(), dict()] if (
            of == key and len(state) == HASH_BYTES and all(map(is_nat, (size, active, seq)))
        ):
            return SnapshotEntry(state=Hash(state), size=size, last_seq=seq)
    raise _failure("the cell's entry in the snapshot is not readable")


_CLAIMS: Final = {
    "record": _record, "intent": _intent, "cell": _cell, "consistency": _consistency,
}  # fmt: skip


# Parts


def _roles(checked: CheckedProof, *roles: str) -> None:
    for role in roles:
        if role not in checked.records:
            _fails(f"the record {role} is missing")


def _only_values(checked: CheckedProof, allowed: list[Hash] | tuple[Hash, ...]) -> None:
    """PF-55."""
    if not checked.values.keys() <= set(allowed):
        _fails("a value is in the proof that no record which is shown refers to")


def _with(checked: CheckedProof, **fields: Any) -> CheckedProof:
    return replace(checked, **fields)


def _decoded(data: bytes, subject: str) -> Value:
    try:
        return decode_record(data)
    except ValueProblem as problem:
        raise Damage(
            f"the proof does not hold: {subject} is not canonical CBOR: {problem}"
        ) from None


def _map(data: bytes, subject: str) -> Mapping[str, Any]:
    decoded = _decoded(data, subject)
    if not isinstance(decoded, dict) or not all(isinstance(name, str) for name in decoded):
        _fails(f"{subject} is no map with text keys")
    return {str(name): value for name, value in decoded.items()}


def _maps(value: object) -> Iterator[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
        _fails("a list in a record is not readable")
    yield from value


def _hash_of(slot: object, subject: str) -> Hash:
    """The content hash of a value in a record, or of the one that it refers to (J-15)."""
    match slot:
        case bytes():
            return content_hash(slot)
        case {"hash": bytes(hash), "size": size, **more} if (
            not more and len(hash) == HASH_BYTES and is_nat(size)
        ):
            return Hash(hash)
    raise _failure(f"{subject} is not readable")


def _is_cell(value: object) -> bool:
    match value:
        case [str(), bytes()]:
            return True
    return False


def _contains(values: object, value: object) -> bool:
    return isinstance(values, list) and value in values


def _failure(reason: str) -> Damage:
    return Damage(f"the proof does not hold: {reason}")


def _fails(reason: str) -> NoReturn:
    raise _failure(reason)
