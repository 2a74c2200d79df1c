"""Verify finds every kind of damage and names it (spec/audit.md, A-20 to A-29)."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import Frame, Head, read_frame
from aos.core.journal.inputs import ReceiptInput
from aos.core.journal.records import Receipt, Ref, Stamp, Start, Step
from aos.errors import Damage
from aos.prove.verify.chain import find_flip, flipped
from aos.prove.verify.findings import FINDINGS_MAX, Finding, FindingKind, VerifyReport
from aos.prove.verify.verify import Verifier, verify_store
from aos.store.memory_store import MemoryStore
from aos.store.rows import IntentRow, SubmissionRow
from aos.values.cbor import encode
from aos.values.digests import Hash
from tests.memory_world import OPERATOR_KEY, START_NS, WORLD_KEY
from tests.prove.journals import (
    CHARGE,
    LEDGER,
    ORDER,
    TIMER,
    Shop,
    blob_reader,
    busy_shop,
    head_of,
    records,
    replaced,
    resealed,
    shop_with,
    store_of,
    verify_frames,
    with_header,
)

OTHER = Hash(b"\x07" * 32)


@cache
def shop() -> Shop:
    """One world for all tests that do not change it."""
    return busy_shop()


def verify(frames: Sequence[Frame], **more: Any) -> VerifyReport:
    return verify_frames(frames, shop().read, **more)


def only(report: VerifyReport) -> Finding:
    assert len(report.findings) == 1, [str(each) for each in report.findings]
    return report.findings[0]


def of_kind(report: VerifyReport, kind: FindingKind) -> Finding:
    return next(each for each in report.findings if each.kind is kind)


def with_(**fields: Any) -> Callable[[Any], Any]:
    return lambda found: replaced(found, **fields)


def test_an_untouched_world_is_sound_and_counted() -> None:
    """A-20, A-28."""
    world = shop()
    store = store_of(world)
    reached: list[int] = []

    report = verify_store(store, on_progress=reached.append)

    assert report.is_sound
    assert report.folded
    assert (report.frames, report.records, report.steps, report.faults) == (6, 28, 14, 2)
    assert (report.events, report.receipts, report.manifests, report.intents) == (6, 5, 1, 6)
    assert (report.modules, report.rows) == (2, 7)
    assert report.signatures == 1 + 1 + 5 + 1  # genesis, manifest, receipts, head
    refs = {each.state.hash for each in records(world.frames) if isinstance(each, Step)
            and isinstance(each.state, Ref)}  # fmt: skip
    assert report.blobs >= len(refs) + report.modules + report.manifests
    assert report.frame == world.frames[-1].hash
    assert report.log_root == world.frames[-1].header.log_root
    assert reached == [frame.header.last for frame in world.frames]


def test_a_report_survives_the_way_through_json() -> None:
    """A-28."""
    frames = resealed(shop().frames, 8, with_(signature=bytes(64)))
    report = verify(frames)

    assert VerifyReport.from_document(report.to_document()) == report
    assert report.to_document()["sound"] is False


def flips() -> Iterator[tuple[int, int, int, int]]:
    """(frame, record in it, byte, bit): forty, the same ones each time."""
    draw = random.Random(7)
    for _ in range(40):
        place = draw.randrange(len(shop().frames))
        frame = shop().frames[place]
        index = draw.randrange(len(frame.records))
        yield place, index, draw.randrange(len(frame.records[index])), draw.randrange(8)


@pytest.mark.parametrize(("place", "index", "byte", "bit"), list(flips()))
def test_one_flipped_bit_in_a_record_is_found_and_the_record_named(
    place: int, index: int, byte: int, bit: int
) -> None:
    """A-23. It is the only finding: all else is as good as it was."""
    frames = list(shop().frames)
    kept = list(frames[place].records)
    data = bytearray(kept[index])
    data[byte] ^= 1 << bit
    kept[index] = bytes(data)
    frames[place] = dataclasses.replace(frames[place], records=tuple(kept))

    report = verify(frames, head=head_of(shop().frames))

    found = only(report)
    first = frames[place].header.first
    assert (found.kind, found.frame, found.record) == (
        FindingKind.RECORD_ALTERED,
        first,
        first + index,
    )
    assert f"bit {bit} of byte {byte} was flipped" in found.message
    assert report.folded


def test_a_flipped_bit_in_a_salt_is_found() -> None:
    """A-23."""
    frames = list(shop().frames)
    salt = bytearray(frames[3].salt)
    salt[5] ^= 16
    frames[3] = dataclasses.replace(frames[3], salt=bytes(salt))

    found = only(verify(frames, head=head_of(shop().frames)))

    assert (found.kind, found.frame) == (FindingKind.FRAME_ALTERED, frames[3].header.first)
    assert "bit 4 of byte 5 was flipped in its salt" in found.message


def test_a_record_altered_in_many_bits_is_found_and_its_frame_named() -> None:
    """A-23. Nothing says which record it is, as long as all can be read."""
    frames = list(shop().frames)
    kept = list(frames[1].records)
    kept[4] = kept[4].replace(b"waiting", b"running")
    frames[1] = dataclasses.replace(frames[1], records=tuple(kept))

    report = verify(frames, head=head_of(shop().frames))

    found = only(report)
    assert (found.kind, found.frame, found.record) == (FindingKind.FRAME_ALTERED, 2, None)
    assert "one of its records 2 to 7" in found.message
    assert not report.folded


def test_a_search_without_time_finds_nothing_and_says_so() -> None:
    """A-23."""
    frame = shop().frames[1]
    altered = dataclasses.replace(
        frame, records=(bytes([frame.records[0][0] ^ 1]) + frame.records[0][1:], *frame.records[1:])
    )

    assert find_flip(altered, seconds=0.0) is None
    flip = find_flip(altered)
    assert flip is not None
    assert flip.index == 0
    assert flipped(altered.records[0], flip) == frame.records[0]


class DamagedStore(MemoryStore):
    """A store one of whose frames was altered on disk."""

    def __init__(self, whole: MemoryStore, place: int, data: bytes) -> None:
        super().__init__()
        self.__dict__.update(whole.__dict__)
        self._place = self._firsts[place]
        self._data = data

    def frame_at(self, seq: int) -> Frame | None:
        frame = super().frame_at(seq)
        if frame is None or frame.header.first != self._place:
            return frame
        return read_frame(self._data)


def stored_flips() -> Iterator[tuple[int, int, int]]:
    draw = random.Random(11)
    for _ in range(30):
        place = draw.randrange(len(shop().frames))
        yield place, draw.randrange(len(shop().frames[place].to_bytes())), draw.randrange(8)


@pytest.mark.parametrize(("place", "byte", "bit"), list(stored_flips()))
def test_one_flipped_bit_anywhere_in_a_stored_frame_is_found(
    place: int, byte: int, bit: int
) -> None:
    """A-21, A-22."""
    frame = shop().frames[place]
    data = bytearray(frame.to_bytes())
    data[byte] ^= 1 << bit

    report = verify_store(DamagedStore(store_of(shop()), place, bytes(data)))

    assert {each.frame for each in report.findings} <= {frame.header.first, None}
    assert report.findings[0].frame == frame.header.first


def test_damage_in_two_places_is_two_findings() -> None:
    """A-22. The chain is picked up again behind each."""
    frames = list(shop().frames)
    for place in (1, 4):
        data = bytearray(frames[place].records[0])
        data[10] ^= 1
        rest = frames[place].records[1:]
        frames[place] = dataclasses.replace(frames[place], records=(bytes(data), *rest))

    report = verify(frames, head=head_of(shop().frames))

    assert [each.frame for each in report.findings] == [
        frames[1].header.first, frames[4].header.first,
    ]  # fmt: skip


def test_an_unreadable_frame_is_one_finding_and_later_frames_are_read() -> None:
    """A-21."""
    frames = shop().frames

    report = verify_store(DamagedStore(store_of(shop()), 3, b"\xff"))

    found = only(report)
    assert (found.kind, found.frame) == (FindingKind.FRAME_UNREADABLE, frames[3].header.first)
    assert report.frames == len(frames) - 1
    assert report.seq == frames[-1].header.last
    assert not report.folded


def test_an_unreadable_first_frame_leaves_the_rest_checked() -> None:
    """A-21."""
    report = verify_store(DamagedStore(store_of(shop()), 0, b"\xff"))

    assert only(report).kind is FindingKind.FRAME_UNREADABLE
    assert report.frames == 5


@pytest.mark.parametrize("field", ["prev", "root", "log_root", "world"])
@pytest.mark.parametrize("place", [2, 5])
def test_an_altered_header_is_told_from_altered_records(field: str, place: int) -> None:
    """A-22. The next frame, or the head, contains the hash of the original header."""
    frames = list(shop().frames)
    frames[place] = with_header(frames[place], **{field: OTHER})

    report = verify(frames, head=head_of(shop().frames))

    found = only(report)
    assert (found.kind, found.frame) == (FindingKind.FRAME_ALTERED, frames[place].header.first)
    assert f"its header was altered: {field}" in found.message
    assert report.folded


def test_a_missing_frame_is_named_by_the_one_after_it() -> None:
    """A-21."""
    frames = list(shop().frames)
    del frames[2]

    report = verify(frames, head=head_of(shop().frames))

    found = only(report)
    assert (found.kind, found.frame) == (FindingKind.FRAME_MISSING, frames[2].header.first)


def test_a_cut_off_journal_does_not_end_where_the_head_says() -> None:
    """A-27."""
    frames = shop().frames

    found = only(verify(frames[:-1], head=head_of(frames)))

    assert (found.kind, found.frame, found.record) == (FindingKind.HEAD_WRONG, None, None)
    assert "expected record 28, found record 22" in found.message


def test_a_frame_that_comes_twice_is_named() -> None:
    """A-21."""
    frames = list(shop().frames)
    frames.insert(2, frames[1])

    report = verify(frames)

    assert report.findings[0].kind is FindingKind.FRAME_MISSING
    assert "it overlaps the frame before it" in report.findings[0].message


def test_an_empty_journal_is_not_sound() -> None:
    """A-21."""
    assert only(verify([])).message == "the journal is empty: it has no genesis"


def test_a_journal_begins_with_its_genesis_and_has_no_other() -> None:
    """A-25."""
    genesis = next(records(shop().frames))

    without = verify(resealed(shop().frames, 1, lambda _: Start(seq=1, stamp=STAMP, host=())))
    twice = verify(resealed(shop().frames, 3, lambda _: replaced(genesis, seq=3)))

    assert of_kind(without, FindingKind.IDENTITY_WRONG).record == 1
    assert of_kind(twice, FindingKind.IDENTITY_WRONG).record == 3


STAMP = Stamp(START_NS, bytes(64))


def test_a_frame_that_was_replaced_breaks_the_chain_once() -> None:
    """A-22."""
    frames = list(shop().frames)
    frames[2] = resealed(frames[:3], 8, with_(outcome="rejected"))[2]

    report = verify(frames, head=head_of(shop().frames))

    broken = [each for each in report.findings if each.kind is FindingKind.CHAIN_BROKEN]
    assert [each.frame for each in broken] == [frames[3].header.first]


def test_a_rewritten_journal_is_given_away_by_the_head() -> None:
    """A-27. An attacker who rewrites everything but holds no key cannot sign the new head."""
    frames = resealed(shop().frames, 28, with_(fuel=1))

    found = only(verify(frames, head=head_of(shop().frames)))

    assert found.kind is FindingKind.HEAD_WRONG
    assert "frame, log_root" in found.message


def test_a_head_with_a_forged_signature_is_found() -> None:
    """A-27."""
    head = head_of(shop().frames)

    found = only(verify(shop().frames, head=dataclasses.replace(head, signature=bytes(64))))

    assert (found.kind, "not the world key's" in found.message) == (FindingKind.HEAD_WRONG, True)


@pytest.mark.parametrize(
    ("seq", "fields", "kind"),
    [
        (1, {"signature": bytes(64)}, FindingKind.SIGNATURE_WRONG),
        (1, {"nonce": bytes(32)}, FindingKind.IDENTITY_WRONG),
        (2, {"signature": bytes(64)}, FindingKind.SIGNATURE_WRONG),
        (2, {"principal": "nobody"}, FindingKind.AUTHORITY_MISSING),
        (2, {"document": Ref(OTHER, 5)}, FindingKind.BLOB_DAMAGED),
        (4, {"value": encode({"order_id": 5})}, FindingKind.VALUE_INVALID),
        (4, {"value": b"\xff"}, FindingKind.VALUE_INVALID),
        (4, {"schema": "shop/Nothing@1"}, FindingKind.VALUE_INVALID),
        (4, {"value": Ref(OTHER, 5)}, FindingKind.BLOB_DAMAGED),
        (6, {"state": encode(1)}, FindingKind.VALUE_INVALID),
        (6, {"cell": (ORDER, encode("ord-9"))}, FindingKind.RECORD_CANNOT_FOLLOW),
        (6, {"cell": ("shop/nothing@1", b"")}, FindingKind.VALUE_INVALID),
        (6, {"entry": (4, 1)}, FindingKind.RECORD_CANNOT_FOLLOW),
        (6, {"seq": 7}, FindingKind.RECORD_OUT_OF_ORDER),
        (8, {"signature": bytes(64)}, FindingKind.SIGNATURE_WRONG),
        (8, {"payload": encode({"id": "mine"})}, FindingKind.SIGNATURE_WRONG),
        (8, {"attempt": 2}, FindingKind.SIGNATURE_WRONG),
        (8, {"executor": "shop"}, FindingKind.AUTHORITY_MISSING),
        (8, {"key_id": bytes(32)}, FindingKind.AUTHORITY_MISSING),
        (8, {"cell": (ORDER, encode("ord-2"))}, FindingKind.IDENTITY_WRONG),
        (8, {"intent": OTHER}, FindingKind.RECORD_CANNOT_FOLLOW),
        (10, {"ann": encode({"why": 1})}, FindingKind.VALUE_INVALID),
        (18, {"cell": (LEDGER, encode("c-1"))}, FindingKind.RECORD_CANNOT_FOLLOW),
        (21, {"stamp": Stamp(START_NS, bytes(64))}, FindingKind.TIMER_EARLY),
    ],
)
def test_a_forged_field_is_found_though_the_chain_was_rebuilt(
    seq: int, fields: dict[str, Any], kind: FindingKind
) -> None:
    """A-24, A-25, A-26."""
    frames = resealed(shop().frames, seq, with_(**fields))

    report = verify(frames, head=head_of(frames))

    found = of_kind(report, kind)
    frame = next(each for each in frames if each.header.first <= seq <= each.header.last)
    assert (found.frame, found.record) == (frame.header.first, seq)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"intent": OTHER}, FindingKind.IDENTITY_WRONG),
        ({"effect_hash": OTHER}, FindingKind.IDENTITY_WRONG),
        ({"params": encode({"amount": 6, "memo": ""})}, FindingKind.IDENTITY_WRONG),
        ({"key": "other"}, FindingKind.IDENTITY_WRONG),
        ({"params": encode({})}, FindingKind.VALUE_INVALID),
        ({"effect": "sys/blob.get@1"}, FindingKind.AUTHORITY_MISSING),
    ],
)
def test_a_forged_intent_is_found(fields: dict[str, Any], kind: FindingKind) -> None:
    """A-25."""

    def change(step: Step) -> Step:
        return dataclasses.replace(step, intents=(replaced(step.intents[0], **fields),))

    report = verify(resealed(shop().frames, 6, change))

    assert of_kind(report, kind).record == 6


def test_an_event_that_a_step_did_not_emit_so_is_found() -> None:
    """A-25."""

    def change(step: Step) -> Step:
        return dataclasses.replace(step, events=(replaced(step.events[0], value=b"\x01"),))

    found = of_kind(verify(resealed(shop().frames, 10, change)), FindingKind.VALUE_INVALID)

    assert (found.record, found.message.startswith("events[0].value: ")) == (10, True)


def test_each_missing_blob_names_a_record_that_refers_to_it() -> None:
    """A-26."""
    world = shop()
    refs = [
        (each.seq, each.state.hash)
        for each in records(world.frames)
        if isinstance(each, Step) and isinstance(each.state, Ref)
    ]
    assert refs

    for seq, hash_ in refs:
        report = verify_frames(world.frames, blob_reader(world, without=hash_))
        found = of_kind(report, FindingKind.BLOB_DAMAGED)
        assert found.record == seq


def test_a_missing_module_names_the_manifest_record() -> None:
    """A-26."""
    world = shop()
    module = world.effective.workflows[LEDGER].module

    found = only(verify_frames(world.frames, blob_reader(world, without=module.hash)))

    assert (found.kind, found.record) == (FindingKind.BLOB_DAMAGED, 2)
    assert found.message.startswith(f"module {module.name}: ")


def test_a_reference_with_a_wrong_size_is_found() -> None:
    """A-26."""
    seq, ref = next(
        (each.seq, each.state)
        for each in records(shop().frames)
        if isinstance(each, Step) and isinstance(each.state, Ref)
    )
    frames = resealed(shop().frames, seq, with_(state=Ref(ref.hash, ref.size + 1)))

    found = of_kind(verify(frames), FindingKind.BLOB_DAMAGED)

    assert (found.record, "another size" in found.message) == (seq, True)


def test_a_receipt_by_a_key_that_no_manifest_named_is_found() -> None:
    """A-24. The signature is valid, but its key has no authority."""
    world = busy_shop()
    receipt = next(each for each in records(world.frames) if isinstance(each, Receipt))
    given = ReceiptInput(
        intent=receipt.intent, effect=receipt.effect, attempt=1, status="ok",
        payload=receipt.payload if isinstance(receipt.payload, bytes) else b"",
        started_ns=receipt.started_ns, finished_ns=receipt.finished_ns, executor="node",
        key_id=bytes(OPERATOR_KEY.verify_key), signature=b"",
    )  # fmt: skip
    signature = OPERATOR_KEY.sign(given.message(world.state.world)).signature
    frames = resealed(world.frames, receipt.seq, with_(key_id=given.key_id, signature=signature))

    found = only(verify_frames(frames, world.read))

    assert (found.kind, found.record) == (FindingKind.AUTHORITY_MISSING, receipt.seq)


NODE = {
    "name": "node", "public_key": f"ed25519:{bytes(WORLD_KEY.verify_key).hex()}",
    "effects": [TIMER],
}  # fmt: skip
CARDS = {
    "name": "test", "public_key": f"ed25519:{bytes(OPERATOR_KEY.verify_key).hex()}",
    "effects": [CHARGE],
}  # fmt: skip


def charged_by_cards(world: Shop) -> None:
    """The card executor settles with a key of its own."""
    key = bytes(OPERATOR_KEY.verify_key)
    by_node = world.receipt(world.intent_of("ord-1"), {"id": "ch"})
    unsigned = dataclasses.replace(by_node, executor="test", key_id=key)
    signature = OPERATOR_KEY.sign(unsigned.message(world.state.world)).signature
    given = dataclasses.replace(unsigned, signature=signature)
    assert isinstance(world.kernel.admit(given, world.stamp()), Admitted)
    world.run()


def test_receipts_of_executors_that_the_manifest_names_are_sound() -> None:
    """A-24."""
    world = Shop(shop_with(executors=[NODE, CARDS]))
    world.place("ord-1", 5)
    world.run()
    charged_by_cards(world)

    assert verify_frames(world.frames, world.read, head=head_of(world.frames)).is_sound


def test_a_receipt_of_an_executor_that_may_not_settle_this_effect_is_found() -> None:
    """A-24. The journal was made under a manifest that lets it; the one on record does not."""
    world = Shop(shop_with(executors=[NODE, CARDS]))
    world.place("ord-1", 5)
    world.run()
    charged_by_cards(world)
    key = bytes(SigningKey(bytes([3]) * 32).verify_key)
    other = shop_with(executors=[NODE, {**CARDS, "public_key": f"ed25519:{key.hex()}"}])
    document = other.effective.document
    ref = Ref(other.effective.hash, len(document))
    frames = resealed(world.frames, 2, with_(document=ref))

    report = verify_frames(frames, lambda each: {ref.hash: document}.get(each) or world.read(each))

    assert of_kind(report, FindingKind.AUTHORITY_MISSING).record == 6
    assert of_kind(report, FindingKind.SIGNATURE_WRONG).record == 2


def test_a_manifest_that_gives_the_world_key_another_name_is_found() -> None:
    """A-24."""
    world = Shop()
    other = shop_with(executors=[{**NODE, "name": "me"}, CARDS])
    document = other.effective.document
    ref = Ref(other.effective.hash, len(document))
    world.seal()
    frames = resealed(world.frames, 2, with_(document=ref))

    report = verify_frames(
        frames, lambda each: {ref.hash: document, **other.modules}.get(each) or world.read(each)
    )

    assert of_kind(report, FindingKind.MANIFEST_INVALID).record == 2


def test_stamps_behind_the_journal_clock_are_counted_and_allowed() -> None:
    """A-26."""
    frames = resealed(shop().frames, 24, with_(stamp=Stamp(5, bytes(64))))

    report = verify(frames)

    assert report.is_sound
    assert report.stamps_behind == 1


def test_derived_rows_that_differ_are_found() -> None:
    """A-27."""
    store = store_of(shop())
    intent = next(iter(store._intents))
    store._intents[intent] = IntentRow(opened_seq=6, index=5)
    store._submissions["sub-2"] = SubmissionRow(submission_id="sub-2", seq=4, payload=OTHER)

    report = verify_store(store)

    assert {each.kind for each in report.findings} == {FindingKind.DERIVED_DIFFERS}
    assert len(report.findings) == 2


def test_a_store_without_a_head_is_found_wanting() -> None:
    """A-27."""
    report = verify_store(MemoryStore())

    assert only(report).kind is FindingKind.HEAD_WRONG


def test_an_unreadable_head_is_a_finding() -> None:
    """A-27."""

    class Headless(MemoryStore):
        def head(self) -> Head | None:
            raise Damage("the head is not canonical CBOR")

    assert verify_store(Headless()).findings[0].kind is FindingKind.HEAD_WRONG


def test_a_report_lists_so_many_findings_and_counts_the_rest() -> None:
    """A-28."""
    verifier = Verifier(shop().read)

    for _ in range(FINDINGS_MAX + 3):
        verifier.add(FindingKind.VALUE_INVALID, "again")

    report = verifier.report()
    assert (len(report.findings), report.unlisted) == (FINDINGS_MAX, 3)


def test_a_head_is_checked_with_the_key_of_the_genesis() -> None:
    """A-27."""
    assert head_of(shop().frames).is_signed_by(bytes(WORLD_KEY.verify_key))
