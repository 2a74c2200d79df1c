"""Keyrings: sealing, opening, rotation, and their files (SL-20 to SL-36)."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.errors import AosError, BadUsage, Refused
from aos.sealing import CannotOpen, Keyring, SealingKey
from aos.sealing.keyring import SealingOrigin
from aos.sealing.keyring_file import (
    KEYS_MAX,
    KeyringFile,
    drop_key,
    new_keyring,
    read_keyring,
    rotate_keyring,
)
from tests.values.strategies import values

AT: Final = "2026-11-26T15:00:00Z"
ONE, TWO, THREE = bytes(range(32)), bytes(range(32, 64)), bytes(range(64, 96))
RING: Final = Keyring([SealingKey(ONE)])
SEALED: Final = RING.seal("4111 1111 1111 1111", submission_id="order-1", path="$.card")


@given(values, st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_any_plain_value_is_opened_as_it_was_sealed(value: Any, id: str, path: str) -> None:
    """SL-22, SL-24; the same arguments give the same bytes (SL-23)."""
    sealed = RING.seal(value, submission_id=id, path=path)

    assert RING.open(sealed) == value
    assert RING.seal(value, submission_id=id, path=path) == sealed


def test_a_value_with_any_bit_flipped_is_not_opened() -> None:
    """SL-25: every bit of header, ciphertext and tag."""
    for at in range(8 * len(SEALED)):
        altered = bytearray(SEALED)
        altered[at // 8] ^= 1 << at % 8
        with pytest.raises(CannotOpen):
            RING.open(bytes(altered))


def test_a_value_that_is_cut_off_anywhere_is_not_opened() -> None:
    """SL-25"""
    for size in range(len(SEALED)):
        with pytest.raises(CannotOpen):
            RING.open(SEALED[:size])


@given(st.binary(max_size=200))
def test_bytes_that_no_one_sealed_are_not_opened(data: bytes) -> None:
    for each in (data, SEALED[:9] + data, SEALED + data + b"\0"):
        with pytest.raises(CannotOpen):
            RING.open(each)


def test_id_path_and_plaintext_each_change_the_bytes() -> None:
    """SL-23"""
    hash_ = f"blake3:{'ab' * 32}"
    sealed = [
        RING.seal("x", submission_id="a"),
        RING.seal("x", submission_id="b"),
        RING.seal("y", submission_id="a"),
        RING.seal("x", submission_id="a", path="$.x"),
        RING.seal("x", submission_id=hash_),
        RING.seal("x", intent=hash_),
        RING.seal("x"),
        RING.seal("x"),
    ]

    assert len(set(sealed)) == len(sealed)
    assert len({each[9:33] for each in sealed}) == len(sealed), "no nonce comes twice"


@pytest.mark.parametrize("value", [1.5, object(), {1.5: 2}, 1 << 70, "\ud800", [{"a": {1}}]])
def test_a_value_without_a_plain_form_is_not_sealed_and_not_quoted(value: Any) -> None:
    with pytest.raises(BadUsage, match=r"\(it is not shown\)"):
        RING.seal(value)


def test_sealing_takes_one_id() -> None:
    with pytest.raises(BadUsage, match="expected either submission_id or intent, found both"):
        RING.seal("x", submission_id="a", intent=bytes(32))  # type: ignore[arg-type]
    with pytest.raises(BadUsage, match="lone surrogate"):
        RING.seal("x", submission_id="\ud800")


def test_a_plaintext_of_another_program_that_is_no_value_is_not_quoted() -> None:
    """SL-24"""
    sealed = SealingKey(ONE).seal(b"4111 not CBOR", SealingOrigin("random", b""), "$")
    with pytest.raises(CannotOpen) as problem:
        RING.open(sealed)

    assert "not CBOR of a plain value" in str(problem.value)
    assert "4111" not in str(problem.value)


def test_a_keyring_and_its_keys_print_no_secret() -> None:
    said = f"{RING!r} {RING.keys!r} {RING.current!r}"

    assert ONE.hex() not in said
    assert repr(ONE)[2:-1] not in said


# Files


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cards.keyring"
    new_keyring(path, secret=ONE, created=AT)
    return path


def test_after_a_rotation_old_values_open_and_new_ones_are_sealed_under_the_new_key(
    file: Path,
) -> None:
    """SL-33"""
    old = Keyring.read(file)
    before = old.seal("x", submission_id="a")
    rotate_keyring(file, secret=TWO, created=AT)
    ring = Keyring.read(file)
    after = ring.seal("x", submission_id="a")

    assert ring.open(before) == ring.open(after) == "x"
    assert (before[1:9], after[1:9]) == (SealingKey(ONE).id, SealingKey(TWO).id)
    with pytest.raises(CannotOpen, match=f"sealed under the key {SealingKey(TWO).id.hex()}"):
        old.open(after)


def test_a_key_that_is_dropped_opens_nothing_more(file: Path) -> None:
    """SL-34"""
    sealed = Keyring.read(file).seal("x")
    rotate_keyring(file, secret=TWO, created=AT)
    drop_key(file, SealingKey(ONE).id)

    assert ONE.hex() not in file.read_text()
    with pytest.raises(CannotOpen, match="which is not in the keyring"):
        Keyring.read(file).open(sealed)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda file: new_keyring(file, secret=TWO, created=AT), "a keyring is never replaced"),
        (lambda file: drop_key(file, SealingKey(ONE).id), "is the current key"),
        (lambda file: drop_key(file, bytes(8)), "it has no key 0000000000000000"),
        (lambda file: rotate_keyring(file / "x", secret=TWO, created=AT), "cannot be read"),
    ],
)
def test_a_change_that_is_refused_leaves_the_file_as_it_was(
    change: Callable[[Path], object], expected: str, file: Path
) -> None:
    before = file.read_bytes()
    with pytest.raises(AosError, match=expected):
        change(file)

    assert file.read_bytes() == before
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_a_file_is_readable_by_its_owner_alone(file: Path) -> None:
    """SL-31"""
    rotate_keyring(file, secret=TWO, created=AT)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    file.chmod(0o640)
    with pytest.raises(BadUsage, match=r"expected mode 0600, found 0640.*chmod 600"):
        read_keyring(file)


def spoilt(file: Path, change: Callable[[Any], Any]) -> None:
    document = json.loads(file.read_text())
    file.write_text(json.dumps(change(document)))


@pytest.mark.parametrize(
    "change",
    [
        lambda it: {**it, "keyring": 2},
        lambda it: {**it, "more": 1},
        lambda it: {**it, "current": "00" * 8},
        lambda it: {**it, "current": None},
        lambda it: {**it, "keys": []},
        lambda it: {**it, "keys": it["keys"] * 2},
        lambda it: {**it, "keys": [{**it["keys"][0], "secret": TWO.hex()}]},
        lambda it: {**it, "keys": [{**it["keys"][0], "secret": ONE.hex()[:-2]}]},
        lambda it: {**it, "keys": [{**it["keys"][0], "created": 5}]},
        lambda it: [it],
        lambda _: ONE.hex(),
    ],
)
def test_a_file_that_is_no_keyring_is_refused_and_not_quoted(
    change: Callable[[Any], Any], file: Path
) -> None:
    """SL-32"""
    spoilt(file, change)
    with pytest.raises(BadUsage, match="expected a keyring") as problem:
        read_keyring(file)

    assert ONE.hex()[:16] not in str(problem.value)
    assert problem.value.__cause__ is None


@pytest.mark.parametrize("bit", range(0, 8, 3))
def test_one_flipped_bit_of_a_secret_is_found(bit: int, file: Path) -> None:
    """SL-32: the id is a hash of the secret."""
    text = file.read_text()
    at = text.index(ONE.hex()) + 10
    digit = f"{int(text[at], 16) ^ (1 << bit % 4):x}"
    file.write_text(text[:at] + digit + text[at + 1 :])
    with pytest.raises(BadUsage, match="expected a keyring"):
        read_keyring(file)


def test_a_keyring_has_a_bound_of_keys(file: Path) -> None:
    entry = json.loads(file.read_text())["keys"][0]
    secrets = [number.to_bytes(32) for number in range(1, KEYS_MAX)]
    more = [{**entry, "id": SealingKey(each).id.hex(), "secret": each.hex()} for each in secrets]
    spoilt(file, lambda it: {**it, "keys": [entry, *more]})
    with pytest.raises(Refused, match="at most 1,000 keys"):
        rotate_keyring(file, secret=TWO, created=AT)


def test_a_link_stays_and_the_file_behind_it_is_changed(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    rotate_keyring(link, secret=TWO, created=AT)

    assert link.is_symlink()
    assert len(read_keyring(file).entries) == 2


ROTATING: Final = """
import os, sys
from pathlib import Path
from aos.sealing.keyring_file import rotate_keyring
for _ in range(10):
    rotate_keyring(Path(sys.argv[1]), secret=os.urandom(32), created="now")
"""


def test_commands_that_rotate_at_the_same_time_lose_no_key(file: Path) -> None:
    """SL-35"""
    runs = [subprocess.Popen([sys.executable, "-c", ROTATING, str(file)]) for _ in range(3)]

    assert [run.wait(240) for run in runs] == [0, 0, 0]
    assert len(read_keyring(file).entries) == 31


def test_a_worker_reads_a_keyring_again_when_it_has_changed(file: Path) -> None:
    """SL-36"""
    watched = KeyringFile(file)
    first = watched.keyring()
    assert watched.keyring() is first

    rotate_keyring(file, secret=TWO, created=AT)
    assert watched.keyring().current.id == SealingKey(TWO).id

    file.unlink()
    with pytest.raises(BadUsage, match="cannot be read: No such file"):
        watched.keyring()


def test_a_command_that_was_killed_leaves_nothing_in_the_way(file: Path) -> None:
    file.with_name(file.name + ".part").write_text("half")
    rotate_keyring(file, secret=TWO, created=AT)

    assert [each.name for each in file.parent.iterdir()] == [file.name]
