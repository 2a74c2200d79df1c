"""aos-fold: the second kernel alone checks and folds a bundle (spec/bundle.md, B-53 and B-54)."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from aos.author.toolchain import FOREIGN
from aos.core.journal.frame import Head, Tip, seal
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import Control, Fork, Genesis, Snapshot
from aos.core.snapshot.take import take
from aos.host.folder.reader import open_reader
from aos.host.transfer import exporting
from aos.host.transfer.exporting import export_world
from aos.host.transfer.forking import fork_world
from aos.store.bundle.items import ErasedValue
from aos.store.bundle.reader import open_bundle
from aos.store.bundle.writer import BundleWriter
from aos.values.cbor import Value, decode_record, encode
from aos.values.cbor import head as encode_head
from aos.values.digests import HASH_BYTES, Hash, content_hash, hash_text
from tests.cli.shell import in_silence
from tests.fastcore.signature_vectors import PATH as SIGNATURES
from tests.fastcore.signature_vectors import make as signatures
from tests.host.puppet import asks
from tests.host.transfer.test_bundle import erase, erased_later, forging, run_out, send, value_of
from tests.modules.guests import ROOT
from tests.tools import long_form, missing

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not long_form(), reason="the long form builds aos-fold: a minute"),
]

CRATE: Final = ROOT / "kernel/rust-core"
SOUND, USAGE, DAMAGED = 0, 2, 3

Fold = Callable[..., tuple[int, str]]


@pytest.fixture(scope="session")
def cargo() -> Callable[..., str]:
    """Run cargo in the crate; it must succeed."""
    program = shutil.which("cargo")
    if program is None:
        missing("there is no cargo on the PATH: aos-fold is not tried")
    environment = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}

    def run(*arguments: str) -> str:
        ran = subprocess.run(
            [program, *arguments, "--locked", "--offline", "--quiet"],
            cwd=CRATE,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    return run


@pytest.fixture(scope="session")
def fold(cargo: Callable[..., str]) -> Fold:
    """Run aos-fold; return its exit code, and what it printed."""
    cargo("build", "--package", "aos-fold")

    def run(*arguments: str | Path) -> tuple[int, str]:
        ran = subprocess.run(
            [CRATE / "target/debug/aos-fold", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.returncode, ran.stdout + ran.stderr

    return run


def folded(fold: Fold, file: Path) -> dict[str, Any]:
    code, output = fold("--json", file)
    assert code == SOUND, output
    document: dict[str, Any] = json.loads(output)
    assert document["sound"]
    return document


@pytest.fixture
def lived_in(world: Path) -> Path:
    """A world with cells, values outside its records, an open effect and two snapshots."""
    send(world, ("a", None), ("b", b"x" * 3000), ("c", b"x" * 3000), ("d", asks("hello")))
    run_out(world)
    for key in ("e", "f"):
        assert in_silence("snapshot", "--world", world) == 0
        send(world, (key, None))
    return world


def test_the_crates_own_tests_pass(cargo: Callable[..., str]) -> None:
    output = cargo("test", "--workspace")

    assert output.count("test result: ok") >= 2


def test_the_vectors_of_signatures_are_the_references() -> None:
    assert SIGNATURES.read_bytes() == signatures()


def test_a_world_is_folded_to_the_root_that_the_reference_has(
    fold: Fold, lived_in: Path, tmp_path: Path
) -> None:
    export_world(lived_in, tmp_path / "b")
    with open_reader(lived_in) as reader:
        state = reader.state
        expected = {
            "world": hash_text(state.world),
            "seq": state.tip.seq,
            "frame": hash_text(state.tip.frame),
            "frames": state.tip.log.size,
            "records": state.tip.seq,
            "log_root": hash_text(state.tip.log.root()),
            "root": hash_text(take(state, content_hash).document),
            "erased": 0,
            "snapshots": 2,
        }
    document = folded(fold, tmp_path / "b")

    assert document | expected == document
    assert document["loaded"] is not None
    code, text = fold(tmp_path / "b")
    assert code == SOUND
    assert f"fold: sound to record {expected['seq']}\n" in text
    assert "2 snapshots taken again and equal to those that the journal names" in text
    assert f"state {expected['root']}" in text


def test_erased_values_are_counted(fold: Fold, world: Path, tmp_path: Path) -> None:
    [seq] = send(world, ("a", b"secret" * 300))
    run_out(world)
    erase(world, value_of(world, seq))
    export_world(world, tmp_path / "b")

    assert folded(fold, tmp_path / "b")["erased"] == 1


def test_a_value_that_was_erased_after_the_end_needs_the_operators_command(
    fold: Fold, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-7, B-52"""
    file, by = erased_later(world, tmp_path)
    assert folded(fold, file)["erased"] == 1

    def forged(*, value: Hash, seq: int, record: bytes) -> ErasedValue:
        command = from_bytes(record)
        assert isinstance(command, Control)
        other = replace(command, signature=bytes(64))
        return ErasedValue(value=value, seq=seq, record=to_bytes(other))

    monkeypatch.setattr(exporting, "ErasedValue", forged)
    export_world(world, tmp_path / "forged", to=by - 1)
    code, output = fold(tmp_path / "forged")
    assert code == DAMAGED
    assert f"no operator of the world signed record {by}" in output


@pytest.mark.parametrize("is_json", [False, True])
def test_a_file_that_is_cut_or_altered_is_damage(
    fold: Fold, lived_in: Path, tmp_path: Path, *, is_json: bool
) -> None:
    export_world(lived_in, tmp_path / "b")
    data = (tmp_path / "b").read_bytes()
    options = ["--json"] if is_json else []
    bad = tmp_path / "bad"

    for size in (len(data) - 1, len(data) // 2, 40):
        bad.write_bytes(data[:size])
        code, output = fold(*options, bad)
        assert code == DAMAGED
        assert "the bundle is cut short, or something was added to it" in output
        assert not is_json or json.loads(output)["sound"] is False
    for at in range(20, len(data), len(data) // 60):
        bad.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        code, output = fold(*options, bad)
        assert code == DAMAGED, (at, output)
        assert str(bad) in output


def test_a_file_that_is_none_is_a_wrong_usage(fold: Fold, tmp_path: Path) -> None:
    """B-34"""
    (tmp_path / "other").write_bytes(b"a text")
    (tmp_path / "empty").write_bytes(b"")
    for arguments, words in (
        ([tmp_path / "none"], "there is no such file (make a bundle of a world: aos export FILE)"),
        ([tmp_path / "other"], "this is no bundle (make one of a world: aos export FILE)"),
        ([tmp_path / "empty"], "this is no bundle"),
        ([tmp_path], "expected a bundle, found a folder"),
        ([Path(os.devnull)], "expected a bundle, found no regular file"),
        ([], "expected the name of a FILE"),
        (["a", "b"], "expected one FILE, found more"),
        (["--fold", "a"], "--fold: there is no such option"),
    ):
        code, output = fold(*arguments)
        assert code == USAGE
        assert output.startswith("aos-fold: ")
        assert words in output
    assert fold("--help")[0] == SOUND


@pytest.mark.parametrize("field", ["world", "world_key", "operators"])
def test_a_header_that_says_other_than_the_genesis_is_damage(
    fold: Fold, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    """B-13"""
    other = () if field == "operators" else b"x" * 32
    forging(monkeypatch, world, tmp_path / "b", **{field: other})

    code, output = fold(tmp_path / "b")

    assert code == DAMAGED
    assert "the header does not say what the genesis says" in output


def test_a_head_that_the_worlds_key_did_not_sign_is_damage(
    fold: Fold, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = exporting._signed
    monkeypatch.setattr(
        exporting, "_signed", lambda *given: replace(signed(*given), signature=bytes(64))
    )
    export_world(world, tmp_path / "b")

    code, output = fold(tmp_path / "b")

    assert code == DAMAGED
    assert "the head is not signed by the world's key" in output


def test_the_worlds_key_must_have_signed_the_genesis_and_a_fork(
    fold: Fold, lived_in: Path, tmp_path: Path
) -> None:
    """J-35, J-43"""
    with open_reader(lived_in) as reader:
        at = reader.state.tip.seq
    fork_world(lived_in, tmp_path / "fork", at=at)
    export_world(tmp_path / "fork", tmp_path / "b")
    assert folded(fold, tmp_path / "b")["loaded"] is not None

    for kind in (Genesis, Fork):

        def unsigned(data: bytes, kind: type[Genesis | Fork] = kind) -> bytes:
            record = from_bytes(data)
            return to_bytes(replace(record, signature=bytes(64))) if type(record) is kind else data

        file = tmp_path / f"unsigned-{kind.KIND}"
        resealed(tmp_path / "b", file, unsigned)
        code, output = fold(file)
        assert code == DAMAGED
        assert "is not signed by the world's key" in output
        assert "the head" not in output


def test_frames_that_do_not_follow_are_damage(
    fold: Fold, lived_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, written = BundleWriter.frame, list[bytes]()

    def without_the_third(writer: BundleWriter, data: bytes) -> None:
        written.append(data)
        if len(written) != 3:
            frame(writer, data)

    monkeypatch.setattr(BundleWriter, "frame", without_the_third)
    export_world(lived_in, tmp_path / "b")

    code, output = fold(tmp_path / "b")

    assert code == DAMAGED
    assert "is missing: the next stored frame begins at record" in output


def test_a_snapshot_of_another_world_is_damage(
    fold: Fold, lived_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames are sealed again with another hash in the record of the first snapshot, so the
    chain is whole."""
    export_world(lived_in, tmp_path / "b")
    resealed(tmp_path / "b", tmp_path / "forged", forged_snapshot)

    code, output = fold(tmp_path / "forged")

    assert code == DAMAGED
    assert "the snapshot after record" in output
    assert "is not of the world as it was: expected blake3:" in output


@pytest.mark.parametrize("seed", range(4))
def test_a_forged_journal_ends_in_words(
    fold: Fold, lived_in: Path, tmp_path: Path, seed: int
) -> None:
    """Frames are sealed again over an altered record or value, so the chain and all hashes are
    valid: aos-fold reads the bytes that a forger chose. It must neither panic nor hang."""
    export_world(lived_in, tmp_path / "b")
    chance = random.Random(seed)
    with open_bundle(tmp_path / "b") as bundle:
        records = [data for frame in bundle.frames() for data in frame.records]
        values = {hash: bundle.blob(hash) for hash in bundle.blob_hashes()}
    hashes = [hash for hash, data in values.items() if not data.startswith(b"\0asm")]

    for turn in range(FORGERIES):
        if turn % 3:
            original = chance.choice(records)
            forged = {original: altered(chance, original)}
            new_values = values
        else:
            hash = chance.choice(hashes)
            data = altered(chance, values[hash])
            new_values = {**values, content_hash(data): data}
            forged = {record: record.replace(hash, content_hash(data)) for record in records}
        changes = {record: forged.get(record, record) for record in records}
        resealed(tmp_path / "b", tmp_path / "forged", changes.__getitem__, new_values)
        code, output = fold(tmp_path / "forged")
        assert code == DAMAGED, (seed, turn, output)
        assert output.startswith(f"aos-fold: {tmp_path / 'forged'}"), (seed, turn, output)
        (tmp_path / "forged").unlink()


def test_a_forged_file_ends_in_words(fold: Fold, lived_in: Path, tmp_path: Path) -> None:
    """Lengths, positions and items are altered, and the closing hash is made again."""
    export_world(lived_in, tmp_path / "b")
    data = (tmp_path / "b").read_bytes()
    bad = tmp_path / "forged"
    chance = random.Random(7)
    openings = [
        match.end() for match in re.finditer(rb"\x82[\x64-\x66](frame|blob|head|index)", data)
    ]

    def ends_in_words(forged: bytes) -> None:
        if forged == data:
            return
        body = forged[:-HASH_BYTES]
        bad.write_bytes(body + content_hash(forged[:-END_BYTES]))
        code, output = fold(bad)
        assert code == DAMAGED, output
        assert output.startswith(f"aos-fold: {bad}"), output

    for opening in openings:
        for number in NUMBERS:
            length = encode_head(0x40, number)
            ends_in_words(data[:opening] + length + data[opening + len(length) :])
    for at in (len(data) - END_BYTES + 7, len(data) - HASH_BYTES - 8):
        for number in NUMBERS[:-1]:
            ends_in_words(data[:at] + number.to_bytes(8) + data[at + 8 :])
    for _ in range(FORGERIES):
        # The header also has a time, and the names of executors, which nothing contradicts.
        at = chance.randrange(openings[0], len(data) - HASH_BYTES)
        ends_in_words(data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :])


END_BYTES: Final = 7 + 8 + 8 + HASH_BYTES
FORGERIES: Final = 40
NUMBERS: Final = (0, 1, 23, 24, 2**32, 2**63 - 1, 2**63, 2**64 - 1)


def altered(chance: random.Random, data: bytes) -> bytes:
    """Canonical CBOR with one part changed; or a byte changed or added, or the end cut off."""
    at = chance.randrange(len(data))
    match chance.randrange(6):
        case 0:
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data + bytes([chance.randrange(256)])
        case _:
            return encode(changed(chance, decode_record(data)))


def changed(chance: random.Random, value: Value) -> Value:
    """The value with one part of it replaced, doubled or left out."""
    match value:
        case dict() if value:
            name = chance.choice(list(value))
            if chance.randrange(12) == 0:
                return {key: part for key, part in value.items() if key != name}
            return {**value, name: changed(chance, value[name])}
        case list() if value:
            at = chance.randrange(len(value))
            part = chance.choice((changed(chance, value[at]), value[at]))
            return [*value[:at], *[part] * chance.choice((0, 1, 1, 1, 2)), *value[at + 1 :]]
        case int():
            return chance.choice(NUMBERS)
        case bytes() if value:
            return chance.choice((value[:-1], bytes(len(value)), value[:-1] + b"\0", b""))
        case str():
            return chance.choice((value + "x", "", "\N{SNOWMAN}" * 300))
        case _:
            return chance.choice((0, b"", "x", None, [], {}, True))


def resealed(
    source: Path,
    target: Path,
    change: Callable[[bytes], bytes],
    values: Mapping[Hash, bytes] | None = None,
) -> None:
    """Write a bundle whose records are changed, in frames that are sealed again."""
    with open_bundle(source) as bundle, BundleWriter(target) as writer:
        writer.header(bundle.header)
        tip = Tip(world=bundle.header.world)
        for frame in bundle.frames():
            tip = replace(tip, world=frame.header.world)  # a fork begins another
            sealed, tip = seal(tip, [change(data) for data in frame.records], frame.salt)
            writer.frame(sealed.to_bytes())
        if values is None:
            values = {hash: bundle.blob(hash) for hash in bundle.blob_hashes()}
        for hash, data in values.items():
            writer.blob(hash, data)
        writer.finish(replace(Head.of(tip), signature=bytes(64)))


def forged_snapshot(data: bytes) -> bytes:
    record = from_bytes(data)
    if not isinstance(record, Snapshot):
        return data
    return to_bytes(replace(record, document=replace(record.document, hash=content_hash(b"x"))))
