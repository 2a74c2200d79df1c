"""The file of a bundle: whole or absent; every change in it is detected (B-10 to B-36)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from blake3 import blake3

from aos.core.journal.frame import Head
from aos.core.journal.inputs import ERASE
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import Control, Principal, Stamp
from aos.errors import AosError, BadUsage, Damage, Erased, Refused, Unavailable
from aos.store.bundle import items
from aos.store.bundle.items import (
    BLOB,
    END,
    END_BYTES,
    ERASED,
    FRAME,
    HEAD,
    HEADER,
    INDEX,
    OPENING_BYTES_MAX,
    BundleHeader,
    End,
    ErasedValue,
    item,
    read_opening,
    row,
)
from aos.store.bundle.reader import Bundle, open_bundle
from aos.store.bundle.writer import BundleWriter
from aos.values.digests import Hash, content_hash
from tests.store.journal import Journal

ROOT = Path(__file__).parents[2]
VALUES: Final = [bytes([number]) * (40 + number) for number in range(7)]
GONE: Final = content_hash(b"gone")


def command(value: Hash = GONE, seq: int = 9) -> Control:
    return Control(
        seq=seq, stamp=Stamp(1, bytes(64)), action=ERASE, cell=None, intent=None, value=value,
        principal="o", serial=0, signature=bytes(64),
    )  # fmt: skip


HEADER_OF_ALL: Final = BundleHeader(
    world=Hash(b"w" * 32),
    created="2026-01-01T00:00:00Z",
    world_key=b"k" * 32,
    operators=(Principal("o", b"o" * 32),),
    executors={"shop": b"s" * 32},
)


def head() -> Head:
    return Head(
        world=Hash(b"w" * 32), seq=2, frame=Hash(b"f" * 32), log_root=Hash(b"l" * 32), frames=2,
        signature=bytes(64),
    )  # fmt: skip


def fill(writer: BundleWriter) -> None:
    writer.header(HEADER_OF_ALL)
    for value in VALUES:
        writer.blob(content_hash(value), value)
    writer.frame(b"a frame")
    writer.erase(ErasedValue(value=GONE, seq=9, record=to_bytes(command())))
    writer.frame(b"another frame")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "b"
    with BundleWriter(path) as writer:
        fill(writer)
        writer.finish(head())
    return path


def checked(path: Path) -> None:
    with open_bundle(path) as bundle:
        bundle.check()
        bundle.head()


def parts(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The items of a bundle."""
    at = 0
    while at < len(data):
        found = read_opening(data[at : at + OPENING_BYTES_MAX])
        yield found.kind, data[at + found.size : at + found.item_size]
        at += found.item_size


def forged(found: list[tuple[str, bytes]]) -> bytes:
    """A bundle of these items with an index, an end and a closing hash as they should be."""
    data, rows, head_at = b"", [], 0
    for kind, body in found:
        if kind == BLOB:
            rows.append((content_hash(body), len(data)))
        if kind == ERASED:
            rows.append((ErasedValue.from_bytes(body).value, len(data)))
        if kind == HEAD:
            head_at = len(data)
        data += item(kind, body)
    index_at = len(data)
    data += item(INDEX, b"".join(row(*each) for each in sorted(rows)))
    end = End(head_at=head_at, index_at=index_at, digest=blake3(data).digest())
    return data + item(END, end.to_bytes())


def test_a_written_bundle_is_read_back(file: Path) -> None:  # B-10, B-30
    with open_bundle(file) as bundle:
        bundle.check()

        assert bundle.header == HEADER_OF_ALL
        assert bundle.head() == head()
        hashes = sorted(map(content_hash, VALUES))
        assert list(bundle.blob_hashes()) == hashes
        assert [bundle.blob(each) for each in hashes] == sorted(VALUES, key=content_hash)
        assert [each.command() for each in bundle.erased()] == [command()]
        with pytest.raises(Erased, match="was erased by record 9"):
            bundle.blob(GONE)
        with pytest.raises(Damage, match="is missing"):
            bundle.blob(content_hash(b"never"))
        assert bundle.has_blob(hashes[0])
        assert not bundle.has_blob(GONE)
        assert not bundle.has_blob(content_hash(b"never"))
    assert forged(list(parts(file.read_bytes()))[:-2]) == file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_same_content_is_the_same_bytes(file: Path, tmp_path: Path) -> None:  # B-11
    with BundleWriter(tmp_path / "c") as writer:
        fill(writer)
        writer.finish(head())
    assert (tmp_path / "c").read_bytes() == file.read_bytes()


def test_every_altered_byte_is_told(file: Path) -> None:  # B-32
    data = bytearray(file.read_bytes())
    for at in range(len(data)):
        for mask in (0x01, 0x80):
            data[at] ^= mask
            file.write_bytes(data)
            with pytest.raises((Damage, BadUsage)):
                checked(file)
            data[at] ^= mask
    file.write_bytes(data)
    checked(file)


def test_every_shorter_and_every_longer_file_is_told(file: Path) -> None:  # B-32
    data = file.read_bytes()
    for size in range(len(data)):
        file.write_bytes(data[:size])
        with pytest.raises((Damage, BadUsage)):
            checked(file)
    for more in (b"\0", data, data[-END_BYTES:]):
        file.write_bytes(data + more)
        with pytest.raises(Damage):
            checked(file)


def test_a_file_that_is_cut_short_is_called_so(file: Path) -> None:  # B-32
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(Damage, match="the bundle is cut short, or something was added to it"):
        open_bundle(file)


Forge = Callable[[list[tuple[str, bytes]]], list[tuple[str, bytes]]]


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda found: [found[0], *found], "aos-bundle is in a place where it does not belong"),
        (lambda found: [*found, (BLOB, b"late")], "blob is behind the head"),
        (lambda found: [*found, (FRAME, b"late")], "frame is behind the head"),
        (lambda found: [*found, found[-1]], "head is in a place where it does not belong"),
        (lambda found: [*found[:3], found[1], *found[3:]], "is not in the index"),
        (
            lambda found: [*found[:3], (INDEX, b""), *found[3:]],
            "index is in a place where it",
        ),
        (
            lambda found: [*found[:3], (END, bytes(48)), *found[3:]],
            "end is in a place where it",
        ),
        (lambda found: found[:-1], "expected head, found aos-bundle"),
    ],
)
def test_an_item_in_a_wrong_place_is_told_though_every_hash_is_right(
    file: Path, forge: Forge, message: str
) -> None:
    """B-31. The maker of such a file can make every hash in it valid."""
    found = list(parts(file.read_bytes()))[:-2]
    file.write_bytes(forged(forge(found)))
    with pytest.raises(Damage, match=message):
        checked(file)


@pytest.mark.parametrize("alter", ["swapped", "twice", "elsewhere", "more", "less"])
def test_an_index_that_lies_is_told_though_every_hash_is_right(file: Path, alter: str) -> None:
    """B-31."""
    data = file.read_bytes()
    found = list(parts(data))
    body = data[: data.rindex(items.opening(INDEX, len(found[-2][1])))]
    rows = [found[-2][1][at : at + 40] for at in range(0, len(found[-2][1]), 40)]
    match alter:
        case "swapped":
            rows[2], rows[3] = rows[3], rows[2]
        case "twice":
            rows[2] = rows[3]
        case "elsewhere":
            rows[2] = rows[2][:39] + bytes([rows[2][39] ^ 1])
        case "more":
            rows = sorted([*rows, b"\x7f" * 32 + bytes(8)])
        case "less":
            del rows[4]
    whole = body + item(INDEX, b"".join(rows))
    old = End.from_bytes(found[-1][1])
    end = End(head_at=old.head_at, index_at=len(body), digest=blake3(whole).digest())
    # The closing hash is over every byte before the last item, the index too.
    file.write_bytes(whole + item(END, end.to_bytes()))
    with pytest.raises(Damage):
        checked(file)


@pytest.mark.parametrize(
    ("kind", "length"),
    [
        (HEADER, 1 << 21), (FRAME, 1 << 40), (BLOB, (1 << 63) + 5), (ERASED, 1 << 17),
        (HEAD, 1 << 20), (END, 49), (INDEX, (1 << 64) - 1),
    ],
)  # fmt: skip
def test_a_length_that_is_too_long_is_never_believed(file: Path, kind: str, length: int) -> None:
    """B-33. Nothing of that size is asked for: the test would not have the memory."""
    data = file.read_bytes()
    at = len(item(*next(parts(data))))
    hostile = b"\x82" + items.item(kind, b"")[1:-1] + b"\x5b" + length.to_bytes(8, "big")
    with pytest.raises(Damage, match=r"expected at most|not canonical"):
        read_opening(hostile)
    file.write_bytes(data[:at] + hostile + data[at + len(hostile) :])
    with pytest.raises(Damage):
        checked(file)


def test_a_length_beyond_the_end_of_the_file_is_told_before_it_is_read(file: Path) -> None:
    """B-33. 256 MiB would be allowed for a frame."""
    data = file.read_bytes()
    at = data.index(items.opening(FRAME, 7))
    long = items.opening(FRAME, 1 << 28)
    file.write_bytes(data[:at] + long + data[at + len(long) :])
    with open_bundle(file) as bundle, pytest.raises(Damage, match="goes beyond the file's end"):
        bundle.check()


@pytest.mark.parametrize(
    "opening",
    [
        b"", b"\x82", b"\x83\x65frame\x40", b"\x82\x65other\x40", b"\x82\x65frame",
        b"\x82\x65frame\x60", b"\x82\x65frame\x58", b"\x82\x65frame\x58\x05",
        b"\x82\x65frame\x5f", b"\x82\x65frame\x5c",
    ],
)  # fmt: skip
def test_an_invalid_opening_is_damage(opening: bytes) -> None:  # B-12
    with pytest.raises(Damage):
        read_opening(opening)


def test_an_erased_value_needs_the_command_that_erased_it() -> None:  # B-14
    good = ErasedValue(value=GONE, seq=9, record=to_bytes(command()))
    assert ErasedValue.from_bytes(good.to_bytes()) == good
    other = content_hash(b"other")
    for wrong in (
        ErasedValue(value=other, seq=9, record=good.record),
        ErasedValue(value=GONE, seq=8, record=good.record),
        ErasedValue(value=GONE, seq=9, record=b"\xa0"),
    ):
        with pytest.raises(Damage):
            ErasedValue.from_bytes(wrong.to_bytes())


def test_a_bundle_of_a_newer_format_is_not_read(file: Path) -> None:  # B-13
    found = list(parts(file.read_bytes()))[:-2]
    newer = found[0][1].replace(b"format\x01", b"format\x02")
    assert newer != found[0][1]
    file.write_bytes(forged([(HEADER, newer), *found[1:]]))
    with pytest.raises(Damage, match=r"expected 1, found 2 \(a newer release wrote it\)"):
        open_bundle(file)


def test_a_file_that_is_no_bundle_is_reported_as_none(tmp_path: Path) -> None:  # B-34
    (tmp_path / "text").write_text("hello")
    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (tmp_path / "none", "there is no such file"),
        (tmp_path / "text", "this is no bundle"),
        (tmp_path, "expected a bundle, found a folder"),
        (tmp_path / "pipe", "no regular file"),
    ):
        with pytest.raises(BadUsage, match=message):
            open_bundle(path)


def test_a_file_that_shrinks_while_it_is_read_is_damage(file: Path) -> None:  # B-33
    with open_bundle(file) as bundle:
        os.truncate(file, 300)
        with pytest.raises(Damage, match="became shorter while it was read"):
            bundle.check()


# Writing


def test_a_bundle_is_never_half_there(tmp_path: Path) -> None:  # B-20
    with BundleWriter(tmp_path / "b") as writer:
        fill(writer)
        assert [each.name for each in tmp_path.iterdir()] == ["b.part"]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_replaced_only_when_asked(file: Path) -> None:  # B-21
    before = file.read_bytes()
    with pytest.raises(Refused, match="there is such a file already; nothing was changed"):
        BundleWriter(file)
    assert file.read_bytes() == before
    with BundleWriter(file, force=True) as writer:
        writer.header(HEADER_OF_ALL)
        assert file.read_bytes() == before
        writer.finish(head())
    assert file.read_bytes() != before
    checked(file)
    assert [each.name for each in file.parent.iterdir()] == ["b"]


def test_a_name_that_is_taken_meanwhile_is_not_replaced(tmp_path: Path) -> None:  # B-21
    with BundleWriter(tmp_path / "b") as writer:
        writer.header(HEADER_OF_ALL)
        (tmp_path / "b").write_text("mine")
        with pytest.raises(Refused):
            writer.finish(head())
    assert (tmp_path / "b").read_text() == "mine"
    assert [each.name for each in tmp_path.iterdir()] == ["b"]


def test_a_file_system_without_links_gets_the_name_by_a_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-21"""

    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with BundleWriter(tmp_path / "b") as writer:
        fill(writer)
        writer.finish(head())
    checked(tmp_path / "b")
    assert [each.name for each in tmp_path.iterdir()] == ["b"]


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:  # B-21
    with BundleWriter(tmp_path / "b") as writer:
        with pytest.raises(Unavailable, match="another process writes this file"):
            BundleWriter(tmp_path / "b")
        fill(writer)
        writer.finish(head())
    checked(tmp_path / "b")


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B-20"""
    write = os.write

    def full(fd: int, data: bytes) -> int:
        if writer.size > 200:
            raise OSError(28, "No space left on device")
        return write(fd, data)

    with BundleWriter(tmp_path / "b") as writer:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(Unavailable, match="No space left on device"):
            fill(writer)
        monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:  # B-20
    with pytest.raises(Unavailable, match="the file cannot be written: No such file"):
        BundleWriter(tmp_path / "none" / "b")


KILLED = """
import sys, time
from pathlib import Path
from aos.store.bundle.writer import BundleWriter
from tests.store.test_bundle import fill
with BundleWriter(Path(sys.argv[1])) as writer:
    fill(writer)
    print("half", flush=True)
    time.sleep(60)
"""


def test_a_killed_writer_leaves_a_part_that_the_next_one_takes_over(tmp_path: Path) -> None:
    """B-20"""
    path = tmp_path / "b"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'kernel'}{os.pathsep}{ROOT}"},
    ) as child:  # fmt: skip
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == b"half\n"
        finally:
            child.send_signal(signal.SIGKILL)
    assert [each.name for each in tmp_path.iterdir()] == ["b.part"]
    assert (tmp_path / "b.part").stat().st_size > 0
    with contextlib.suppress(AosError):
        open_bundle(tmp_path / "b.part").close()
        raise AssertionError("a part is no bundle")

    with BundleWriter(path) as writer:
        fill(writer)
        writer.finish(head())

    checked(path)
    assert [each.name for each in tmp_path.iterdir()] == ["b"]


def test_a_real_journal_goes_through(tmp_path: Path) -> None:  # B-10, B-35
    journal = Journal()
    sealed = [journal.genesis()]
    journal.start()
    sealed.append(journal.seal())
    with BundleWriter(tmp_path / "b") as writer:
        writer.header(HEADER_OF_ALL)
        for each in sealed:
            writer.frame(each.frame.to_bytes())
        writer.finish(head())
    with open_bundle(tmp_path / "b") as bundle:
        bundle.check()
        assert list(bundle.frames()) == [each.frame for each in sealed]


def test_a_frame_that_is_none_is_damage_with_its_place(file: Path) -> None:  # B-35
    with open_bundle(file) as bundle, pytest.raises(Damage, match=r"b: byte [\d,]+: a frame is"):
        list(bundle.frames())
    assert isinstance(bundle, Bundle)
