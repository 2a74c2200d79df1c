"""Signed notes, checkpoints and cosignatures (spec/proofs.md, PF-10 to PF-19)."""

from __future__ import annotations

import base64

import pytest
from nacl.signing import SigningKey

from aos.errors import BadUsage, Damage
from aos.prove.headerlog.checkpoint import Checkpoint, log_key, open_checkpoint, parse_checkpoint
from aos.prove.headerlog.header_tree import EMPTY
from aos.prove.headerlog.signed_note import (
    COSIGNATURE,
    ED25519,
    SIGNATURES_MAX,
    Note,
    NoteKey,
    cosign,
    parse_note,
    parse_note_key,
    sign,
)
from aos.values.digests import Hash

WORLD = Hash(bytes(range(32)))
KEY = SigningKey(bytes([1]) * 32)
WITNESS = SigningKey(bytes([2]) * 32)
LOG = log_key(WORLD, bytes(KEY.verify_key))
AS_WITNESS = NoteKey(name="w.example/1", kind=COSIGNATURE, public=bytes(WITNESS.verify_key))
CHECKPOINT = Checkpoint(origin=f"aos/{WORLD.hex()}", size=7, root=EMPTY)


def note() -> bytes:
    signed = CHECKPOINT.signed(KEY)
    return signed.with_signatures(
        [cosign(signed.text, "w.example/1", WITNESS, 1_700_000_000)]
    ).full_text.encode()


def test_a_checkpoint_is_read_as_it_was_signed() -> None:
    found, opened = open_checkpoint(note(), LOG)

    assert found == CHECKPOINT
    assert opened.full_text.encode() == note()
    assert found.world == WORLD
    assert opened.is_signed_by(AS_WITNESS)
    assert opened.signatures[1].time == 1_700_000_000


def test_the_bytes_of_a_checkpoint_are_as_specified() -> None:
    text, _, lines = note().decode().partition("\n\n")

    assert text == f"aos/{WORLD.hex()}\n7\n{base64.b64encode(EMPTY).decode()}"
    first, second = lines.splitlines()
    assert first.startswith(f"\u2014 aos/{WORLD.hex()} ")
    assert second.startswith("\u2014 w.example/1 ")


def test_no_bit_of_a_checkpoint_can_be_flipped() -> None:
    """A flipped bit makes it none, another's, or one that a trusted key did not sign."""
    data = note()
    for at in range(len(data) * 8):
        changed = bytearray(data)
        changed[at // 8] ^= 1 << at % 8
        try:
            _, opened = open_checkpoint(bytes(changed), LOG)
            assert not opened.is_signed_by(AS_WITNESS), at
        except Damage:
            continue


def test_a_verifier_key_is_read_as_it_is_written() -> None:
    for key in (LOG, AS_WITNESS):
        assert parse_note_key(key.text) == key


WRONG_KEYS = {
    "nothing": "",
    "no hash": "name",
    "another hash": LOG.text.replace(LOG.key_hash.hex(), "00000000"),
    "another type": NoteKey(name="n", kind=2, public=bytes(32)).text,
    "a short key": NoteKey(name="n", kind=ED25519, public=bytes(31)).text,
    "a blank in the name": NoteKey(name="a b", kind=ED25519, public=bytes(32)).text,
    "a control character": NoteKey(name="a\x1b", kind=ED25519, public=bytes(32)).text,
    "upper case": LOG.text.replace(LOG.key_hash.hex(), LOG.key_hash.hex().upper() + "A"),
    "very long": "n" * 100_000,
}


@pytest.mark.parametrize("what", WRONG_KEYS)
def test_a_verifier_key_of_another_form_is_refused(what: str) -> None:
    with pytest.raises(BadUsage) as refused:
        parse_note_key(WRONG_KEYS[what])

    assert len(str(refused.value)) < 500


LINE = sign(CHECKPOINT.text, CHECKPOINT.origin, KEY).line
WRONG_NOTES = {
    "nothing": b"",
    "no signature": CHECKPOINT.text.encode(),
    "no signature, but the empty line": f"{CHECKPOINT.text}\n".encode(),
    "not UTF-8": note().replace(b"\xe2\x80\x94", b"\xff\xfe\xfd"),
    "a control character": note().replace(b"\n7\n", b"\n7\x07\n"),
    "a carriage return": note().replace(b"\n7\n", b"\r\n7\r\n"),
    "no last newline": note()[:-1],
    "too many signatures": f"{CHECKPOINT.text}\n{LINE * (SIGNATURES_MAX + 1)}".encode(),
    "ten thousand signatures": f"{CHECKPOINT.text}\n{LINE * 10_000}".encode(),
    "an extension": f"{CHECKPOINT.text}more\n\n{LINE}".encode(),
    "a leading zero": note().replace(b"\n7\n", b"\n07\n"),
    "a sign": note().replace(b"\n7\n", b"\n+7\n"),
    "a huge size": note().replace(b"\n7\n", b"\n" + b"9" * 400 + b"\n"),
    "a short root": note().replace(base64.b64encode(EMPTY), base64.b64encode(EMPTY[:31])),
    "base64 without padding": note().replace(b"=\n", b"\n"),
    "another dash": note().replace("\u2014".encode(), b"-"),
    "another origin": Checkpoint(origin="aos/x", size=7, root=EMPTY).signed(KEY).full_text.encode(),
    "another world": Checkpoint(origin=f"aos/{bytes(32).hex()}", size=7, root=EMPTY)
    .signed(KEY)
    .full_text.encode(),
    "another key": CHECKPOINT.signed(WITNESS).full_text.encode(),
    "only a witness": Note(
        CHECKPOINT.text, (cosign(CHECKPOINT.text, "w", WITNESS, 1),)
    ).full_text.encode(),
}


@pytest.mark.parametrize("what", WRONG_NOTES)
def test_another_file_than_a_checkpoint_of_the_world_is_refused(what: str) -> None:
    with pytest.raises(Damage) as refused:
        open_checkpoint(WRONG_NOTES[what], LOG)

    assert len(str(refused.value)) < 500
    assert str(refused.value).isprintable()


def test_a_wrong_signature_of_a_trusted_key_is_no_missing_one() -> None:
    """PF-14: a note that says that a key signed it, and is wrong, is malformed."""
    forged = CHECKPOINT.signed(KEY).with_signatures([cosign("other\n", "w.example/1", WITNESS, 1)])

    with pytest.raises(Damage):
        forged.is_signed_by(AS_WITNESS)


def test_the_checkpoint_of_another_program_can_be_read_for_a_witness() -> None:
    text = f"example.com/log\n3\n{base64.b64encode(EMPTY).decode()}\nextension\n"

    assert parse_checkpoint(text) == Checkpoint(origin="example.com/log", size=3, root=EMPTY)
    assert parse_checkpoint(text).world is None


def test_a_key_that_signs_again_replaces_its_line() -> None:
    first = parse_note(note())
    again = first.with_signatures([cosign(first.text, "w.example/1", WITNESS, 1_800_000_000)])

    assert [each.time for each in again.signatures] == [None, 1_800_000_000]
