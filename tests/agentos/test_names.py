"""SHA-256 names in a store: valid documents, kept blobs, findings of verify (AG-30 to AG-36)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aos.host.executors.blob import PUT, carry_out
from aos.host.executors.http import HttpExecutor
from aos.host.executors.naming import StoredBlobs, blob_of, names_among
from aos.host.executors.task import Task
from aos.host.folder.folder import open_folder
from aos.manifest.named import BlobReferences
from aos.prove.verify.verify_world import verify_world
from aos.store.derived import DerivedRows, differences
from aos.store.lmdb_store import LmdbStore
from aos.store.memory_store import MemoryStore
from aos.store.packs import PACKED_BYTES
from aos.store.rows import Forget
from aos.store.store import Store
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import Hash, content_hash, hash_text
from aos.values.errors import ValueProblem
from aos.values.sha256 import Name, given_name, sha256, sha256_text, true_name
from aos.worker.outcome import Outcome
from tests.agentos.test_forms import Play
from tests.copies import copied

DATA, OTHER = b"some bytes", b"other bytes"
BLOB = content_hash(DATA)
NAME = true_name(DATA)


def by_hash(*blobs: bytes) -> dict[Hash, bytes]:
    return {content_hash(each): each for each in blobs}


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield MemoryStore()
        return
    with LmdbStore.create(tmp_path / "store") as made:
        yield made


def test_a_name_counts_with_its_blob(store: Store) -> None:
    store.put_blobs(by_hash(DATA, NAME.to_bytes()))

    assert store.hash_by_sha256(NAME.sha256) == BLOB
    assert list(store.names()) == [NAME]
    assert store.hash_by_sha256(sha256(OTHER)) is None
    assert store.hash_by_sha256(b"short") is None


def test_a_name_counts_after_its_blob(store: Store) -> None:
    store.put_blobs(by_hash(DATA))
    store.put_blobs(by_hash(NAME.to_bytes()))

    assert store.hash_by_sha256(NAME.sha256) == BLOB


def test_a_large_blob_has_a_name_too(store: Store) -> None:
    large = bytes(PACKED_BYTES)
    store.put_blobs(by_hash(large))
    store.put_blobs(by_hash(true_name(large).to_bytes()))

    assert store.hash_by_sha256(sha256(large)) == content_hash(large)


def test_a_given_name_needs_no_blob(store: Store) -> None:
    given = given_name(BLOB)
    store.put_blobs(by_hash(given.to_bytes()))

    assert store.hash_by_sha256(given.sha256) == BLOB


@pytest.mark.parametrize("first", ["document", "blob"])
def test_a_wrong_name_counts_for_nothing(store: Store, first: str) -> None:
    """Anybody can store bytes that look like a document: they take no name away."""
    wrong = Name(NAME.sha256, content_hash(OTHER)).to_bytes()
    for some in (wrong, OTHER) if first == "document" else (OTHER, wrong):
        store.put_blobs(by_hash(some))
    assert store.hash_by_sha256(NAME.sha256) is None

    store.put_blobs(by_hash(DATA, NAME.to_bytes()))
    assert store.hash_by_sha256(NAME.sha256) == BLOB


def test_a_document_may_come_before_its_blob(store: Store) -> None:
    """AG-35: verify has no finding, although the blob is put after its name."""
    store.put_blobs(by_hash(NAME.to_bytes(), Name(NAME.sha256, content_hash(OTHER)).to_bytes()))
    assert store.hash_by_sha256(NAME.sha256) is None
    assert list(store.names()) == []
    store.put_blobs(by_hash(OTHER))
    store.put_blobs(by_hash(DATA))

    assert store.hash_by_sha256(NAME.sha256) == BLOB
    assert list(store.names()) == [NAME]
    assert list(differences(store, DerivedRows())) == []


def test_a_document_that_waited_and_went_says_nothing(store: Store) -> None:
    store.put_blobs(by_hash(NAME.to_bytes()))
    store.forget(Forget(blobs=[NAME.hash]))
    store.put_blobs(by_hash(DATA))

    assert store.hash_by_sha256(NAME.sha256) is None
    assert list(differences(store, DerivedRows())) == []


def test_wrong_documents_cost_one_reading_of_the_blob(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AG-35: also if they are put one after the other."""
    read: list[bytes] = []

    def true_sha256(data: bytes) -> bytes:
        read.append(data)
        return sha256(data)

    for module in ("store", "lmdb_blobs"):
        monkeypatch.setattr(f"aos.store.{module}.true_sha256", true_sha256)
    wrong = [Name(sha256(bytes([n])), BLOB).to_bytes() for n in range(20)]
    store.put_blobs(by_hash(DATA))
    store.put_blobs(by_hash(*wrong[:10]))
    if isinstance(store, LmdbStore):
        for each in wrong[10:]:
            store.put_blobs(by_hash(each))
    store.put_blobs(by_hash(OTHER, Name(sha256(DATA), content_hash(OTHER)).to_bytes()))

    assert read.count(DATA) <= 1
    assert read.count(OTHER) == 1
    assert list(store.names()) == []
    assert list(differences(store, DerivedRows())) == []


@pytest.mark.parametrize("is_first", [True, False])
def test_no_put_removes_a_given_name(store: Store, *, is_first: bool) -> None:
    """AG-30: by putting what it is the SHA-256 of."""
    given, preimage = given_name(BLOB), encode(["aos/given/1", BLOB])
    assert given.sha256 == sha256(preimage)
    both = [(given.to_bytes(),), (preimage, true_name(preimage).to_bytes())]
    for some in both if is_first else reversed(both):
        store.put_blobs(by_hash(*some))

    assert store.hash_by_sha256(given.sha256) == BLOB
    assert list(differences(store, DerivedRows())) == []


def test_a_name_goes_with_its_document(store: Store) -> None:
    store.put_blobs(by_hash(DATA, NAME.to_bytes()))
    store.forget(Forget(blobs=[NAME.hash]))

    assert store.hash_by_sha256(NAME.sha256) is None
    assert list(store.names()) == []


def test_a_wrong_document_takes_no_name_with_it(store: Store) -> None:
    wrong = Name(NAME.sha256, content_hash(OTHER)).to_bytes()
    store.put_blobs(by_hash(DATA, OTHER, NAME.to_bytes(), wrong))
    store.forget(Forget(blobs=[content_hash(wrong)]))

    assert store.hash_by_sha256(NAME.sha256) == BLOB


def test_rows_and_documents_agree(store: Store) -> None:
    """AG-35."""
    store.put_blobs(by_hash(DATA, NAME.to_bytes(), given_name(BLOB).to_bytes()))

    assert list(differences(store, DerivedRows())) == []


class Spoilt(MemoryStore):
    """A store whose rows of names were altered."""

    rows: Mapping[bytes, Hash]

    def hash_by_sha256(self, sha256: bytes) -> Hash | None:
        return self.rows.get(sha256)

    def names(self) -> Iterator[Name]:
        return (Name(name, blob) for name, blob in sorted(self.rows.items()))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({}, "has a document, and no row"),
        ({NAME.sha256: content_hash(OTHER)}, "and no document says so"),
        ({NAME.sha256: BLOB, sha256(OTHER): content_hash(OTHER)}, "and no document says so"),
    ],
)
def test_an_altered_row_of_names_is_reported(rows: Mapping[bytes, Hash], said: str) -> None:
    """AG-35."""
    store = Spoilt()
    store.rows = rows
    store.put_blobs(by_hash(DATA, OTHER, NAME.to_bytes()))

    assert said in "\n".join(differences(store, DerivedRows()))


def test_a_row_for_a_wrong_document_is_told() -> None:
    """AG-35."""
    wrong = Name(NAME.sha256, content_hash(OTHER))
    store = Spoilt()
    store.rows = {wrong.sha256: wrong.blob}
    store.put_blobs(by_hash(OTHER, wrong.to_bytes()))

    assert "is not the name of" in "\n".join(differences(store, DerivedRows()))


def test_verify_tells_of_a_name_that_is_gone(ran: Path, tmp_path: Path) -> None:
    """AG-35."""
    world = copied(ran, tmp_path / "world")
    with open_folder(world).open_store() as store:
        name = next(store.names())
        environment = store._environment  # the store offers no way to delete a row
        with environment.write(4096) as txn:
            txn.delete(name.sha256, db=environment.tables["names"])

    found = verify_world(world).findings
    assert [each.kind.value for each in found] == ["derived_differs"]
    assert "has a document, and no row" in found[0].message


# Executors


def test_a_name_is_resolved() -> None:
    """AG-32."""
    read = StoredBlobs(lambda _: DATA, {NAME.sha256: BLOB}.get)

    assert blob_of(sha256_text(DATA), read) == BLOB
    assert blob_of(hash_text(BLOB), read) == BLOB
    for unknown in (sha256_text(OTHER), "sha256:short", "sha512:" + "0" * 128):
        with pytest.raises(ValueProblem):
            blob_of(unknown, read)
    with pytest.raises(ValueProblem, match="is the name of no blob of this world"):
        blob_of(sha256_text(DATA), lambda _: DATA)


def test_params_with_sha256_names_are_answered_with_sha256_names() -> None:
    """AG-31: the blob, its edge, and the names of both."""
    read = StoredBlobs(lambda _: OTHER, {sha256(OTHER): content_hash(OTHER)}.get)
    refs: Value = [sha256_text(OTHER)]
    params: Value = {"bytes": DATA, "blob_ref": sha256_text(DATA), "refs": refs}

    status, payload, blobs = carry_out(PUT, encode(params), read, bytes_max=1 << 20)

    edge = encode(["aos/edge/1", BLOB, content_hash(OTHER)])
    assert status == "ok"
    assert decode_record(payload) == {
        "blob_ref": sha256_text(DATA),
        "edge_ref": sha256_text(edge),
        "size": len(DATA),
    }
    documents = [true_name(each).to_bytes() for each in (DATA, edge)]
    assert dict(blobs) == by_hash(DATA, edge, *documents)


def test_a_name_in_a_batch_counts_only_if_it_is_valid() -> None:
    """AG-30: a guest may put bytes that look like the document of another's blob."""
    wrong = Name(NAME.sha256, content_hash(OTHER)).to_bytes()

    assert names_among(by_hash(wrong, OTHER)) == {}
    assert names_among(by_hash(NAME.to_bytes(), DATA)) == {NAME.sha256: BLOB}


def test_a_name_without_a_blob_is_missing() -> None:
    """AG-32."""
    params = encode({"blob_ref": sha256_text(DATA)})
    status, payload, _ = carry_out(
        "sys/blob.get@1", params, StoredBlobs(lambda _: DATA, lambda _: None), bytes_max=1 << 20
    )

    error: Any = decode_record(payload)
    assert (status, error["code"]) == ("error", "blob_missing")


def http_task(abi: str) -> Task:
    play = Play()
    asked: Value = {"method": "GET", "url": "http://a", "headers": {}}
    intent = play.emit("sys/http.request@1", asked)
    return Task(
        intent=intent.intent, effect=intent.effect, params=b"", idempotency_key="k",
        workflow=intent.cell[0], cell_key=intent.cell[1], issuer_ref=None, opened_seq=1,
        opened_ns=1, abi=abi,
    )  # fmt: skip


def answered(*, body: bytes | None, blob: bytes | None = None, status: str = "ok") -> Outcome:
    receipt: Value = {
        "status": 200,
        "headers": {},
        "body": body,
        "body_ref": None if blob is None else hash_text(content_hash(blob)),
        "timings": {"start_ns": 1, "end_ns": 2},
    }
    return Outcome(
        intent=Hash(bytes(32)), effect="sys/http.request@1", attempt=1, status=status,
        payload=encode(receipt), started_ns=1, finished_ns=2,
        blobs={} if blob is None else by_hash(blob),
    )  # fmt: skip


@pytest.mark.parametrize(("body", "blob"), [(DATA, None), (None, DATA), (b"", None)])
def test_a_body_is_a_blob_with_a_name(body: bytes | None, blob: bytes | None) -> None:
    """AG-26: whether the receipt held it inline or as a blob; empty bodies too."""
    executor = HttpExecutor(read=lambda _: b"")
    outcome = executor.finish(http_task("agentos"), answered(body=body, blob=blob))

    receipt: Any = decode_record(outcome.payload)
    found = body or blob or b""
    assert (receipt["body"], receipt["body_ref"]) == (None, sha256_text(found))
    assert dict(outcome.blobs) == by_hash(found, true_name(found).to_bytes())


@pytest.mark.parametrize(
    ("abi", "outcome"),
    [
        ("aos/1", answered(body=DATA)),
        ("agentos", answered(body=None)),
    ],
)
def test_other_outcomes_stay_as_they_are(abi: str, outcome: Outcome) -> None:
    """AG-26."""
    assert HttpExecutor(read=lambda _: b"").finish(http_task(abi), outcome) is outcome


# Marking


def test_an_opaque_state_names_every_hash_in_it() -> None:
    """AG-34: hashes as text count anywhere; a typed value's only where its type is a hash."""
    named = BlobReferences({NAME.sha256: BLOB}.get)
    named.add(Play().world.effective)
    state = encode({"any": ["of " + sha256_text(DATA), hash_text(content_hash(OTHER))]})
    event = encode({"id": sha256_text(DATA), "blob": sha256_text(DATA)})

    assert named.has_states("t/work@1")
    assert set(named.state("t/work@1", state)) == {BLOB, content_hash(OTHER)}
    assert list(named.state("t/work@1", sha256_text(OTHER).encode())) == []
    assert list(named.value("t/Ask@1", event)) == [BLOB]


def test_a_state_of_ours_names_by_its_type() -> None:
    named = BlobReferences({NAME.sha256: BLOB}.get)
    named.add(Play(abi=None).world.effective)

    assert not named.has_states("t/work@1")
    assert list(named.state("t/work@1", encode(sha256_text(DATA)))) == []
