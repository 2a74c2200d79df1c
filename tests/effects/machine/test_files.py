"""Reading, writing and looking at files (AG-110 to AG-112), and edits of one (AG-117, AG-118)."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from aos.effects.machine import file_edits
from aos.effects.machine.file_access import FILE_BYTES_MAX
from aos.effects.machine.host_outputs import Declined, declined_of
from aos.values.cbor import encode
from aos.values.digests import content_hash, hash_text
from aos.values.sha256 import read_name
from tests.effects.machine.bench import Bench, inline, status

INTENT = "blake3:" + 64 * "b"
ABSENT = {"$tag": "blob_ref", "$value": {"blob_ref": "blake3:" + 64 * "9"}}


def blob(bench: Bench, data: bytes) -> dict[str, Any]:
    return {"$tag": "blob_ref", "$value": {"blob_ref": bench.put(data)}}


def test_a_file_is_read_with_its_size_and_time(bench: Bench) -> None:
    """AG-110."""
    (bench.root / "f").write_text("abcdef")

    found = bench.one("fs.read_file", path="f")

    assert found["content"] == inline("abcdef")
    assert (found["truncated"], found["size_bytes"]) == (False, 6)
    assert found["mtime_ns"] == (bench.root / "f").stat().st_mtime_ns


@pytest.mark.parametrize(
    ("offset", "most", "text", "is_cut"),
    [
        (None, None, "abcdef", False),
        (0, 6, "abcdef", False),
        (0, 5, "abcde", True),
        (2, None, "cdef", False),
        (2, 2, "cd", True),
        (6, None, "", False),
        (99, 1, "", False),
        (0, 0, "", True),
        (0, 2**40, "abcdef", False),
    ],
)
def test_a_part_of_a_file_is_read(
    bench: Bench, offset: int | None, most: int | None, text: str, is_cut: bool
) -> None:
    """AG-110."""
    (bench.root / "f").write_text("abcdef")

    found = bench.one("fs.read_file", path="f", offset_bytes=offset, max_bytes=most)

    assert (bench.text(found["content"]), found["truncated"]) == (text, is_cut)


def test_text_is_utf8_and_a_part_ends_before_a_cut_character(bench: Bench) -> None:
    """AG-110."""
    (bench.root / "f").write_text("aé")
    (bench.root / "odd").write_bytes(b"a\xff")

    cut = bench.one("fs.read_file", path="f", max_bytes=2)
    assert (bench.text(cut["content"]), cut["truncated"]) == ("a", True)
    assert status(bench.one("fs.read_file", path="f", offset_bytes=2)) == ("error", "invalid_utf8")
    assert status(bench.one("fs.read_file", path="odd")) == ("error", "invalid_utf8")
    raw = bench.one("fs.read_file", path="odd", encoding="bytes")
    assert raw["content"] == {"$tag": "inline_bytes", "$value": {"bytes": b"a\xff"}}
    assert status(bench.one("fs.read_file", path="f", encoding="latin1")) == (
        "error",
        "invalid_params",
    )


def test_a_long_file_is_a_blob_and_a_longer_one_is_read_in_parts(bench: Bench) -> None:
    """AG-67, AG-110."""
    with (bench.root / "f").open("wb") as file:
        file.truncate(FILE_BYTES_MAX)

    whole = bench.one("fs.read_file", path="f", encoding="bytes")
    assert whole["content"]["$tag"] == "blob"
    assert whole["content"]["$value"]["size_bytes"] == FILE_BYTES_MAX
    assert status(bench.one("fs.read_file", path="f", output_mode="inline")) == (
        "error",
        "inline_too_large",
    )
    with (bench.root / "f").open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    assert status(bench.one("fs.read_file", path="f")) == ("error", "too_large")
    part = bench.one("fs.read_file", path="f", offset_bytes=FILE_BYTES_MAX, max_bytes=9)
    assert (bench.text(part["content"]), part["truncated"]) == ("\0", False)


def test_a_blob_has_its_true_name_or_none(bench: Bench) -> None:
    """AG-67, AG-30: so a module of the AgentOS SDK gets the SHA-256 of the bytes."""
    nameless = encode(["aos/given/1", bytes(32)])
    for data, name in (
        (b"text", "sha256:" + hashlib.sha256(b"text").hexdigest()),
        (nameless, hash_text(content_hash(nameless))),
    ):
        (bench.root / "f").write_bytes(data)
        params = {"path": "f", "encoding": "bytes", "output_mode": "blob"}

        value = bench.one("fs.read_file", **params)["content"]["$value"]

        assert value["blob_ref"] == name
        documents = [each for each in map(read_name, bench.blobs.values()) if each is not None]
        assert all(each.is_of(b"text") for each in documents)
        assert documents


def test_a_folder_and_a_special_file_are_not_read(bench: Bench) -> None:
    """AG-110: nothing waits for the other end of a pipe."""
    os.mkfifo(bench.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(bench.root / "socket"))
    codes = [bench.one("fs.read_file", path=path)["error_code"] for path in (".", "pipe", "socket")]
    written = [
        bench.one("fs.write_file", path=path, content=inline("x"))["error_code"]
        for path in (".", "pipe", "socket")
    ]

    assert codes == written == ["is_directory", "not_a_file", "not_a_file"]


def test_a_file_is_written_as_a_whole(bench: Bench) -> None:
    """AG-111: text, bytes and a blob. It keeps its permissions."""
    target = bench.root / "f"
    target.write_text("before")
    target.chmod(0o750)
    inode = target.stat().st_ino

    old = bench.one("fs.write_file", path="f", content=inline("after"))
    new = bench.one("fs.write_file", path="g", content=blob(bench, b"\xff" * 100_000))
    raw = {"$tag": "inline_bytes", "$value": {"bytes": b"\0"}}
    bench.one("fs.write_file", path="h", content=raw)

    assert (status(old), old["written_bytes"], old["created"]) == (("ok", None), 5, False)
    assert (new["written_bytes"], new["created"]) == (100_000, True)
    assert new["new_mtime_ns"] == (bench.root / "g").stat().st_mtime_ns
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("after", 0o750)
    assert target.stat().st_ino != inode
    assert (bench.root / "h").read_bytes() == b"\0"
    assert sorted(each.name for each in bench.root.iterdir()) == ["f", "g", "h"]


def test_folders_are_made_only_when_asked_for(bench: Bench) -> None:
    """AG-111."""
    params = {"path": "a/b/c", "content": inline("x")}

    assert status(bench.one("fs.write_file", **params)) == ("not_found", "not_found")
    assert list(bench.root.iterdir()) == []
    assert status(bench.one("fs.write_file", **params, create_parents=True)) == ("ok", None)
    assert (bench.root / "a/b/c").read_text() == "x"


def test_a_new_file_replaces_none(bench: Bench) -> None:
    """AG-111, AG-118: a second attempt of the same intent has the first one's receipt."""
    (bench.root / "f").write_text("old")
    params = {"path": "g/f", "content": inline("x"), "mode": "create_new", "create_parents": True}

    async def body() -> None:
        session = await bench.open()
        taken = await bench.call("fs.write_file", {"session_id": session, **params, "path": "f"})
        assert status(taken) == ("already_exists", "already_exists")
        first = await bench.call("fs.write_file", {"session_id": session, **params}, intent=INTENT)
        again = await bench.call("fs.write_file", {"session_id": session, **params}, intent=INTENT)
        other = await bench.call("fs.write_file", {"session_id": session, **params})
        assert (status(first), first["created"], again) == (("ok", None), True, first)
        assert status(other) == ("already_exists", "already_exists")

    bench.run(body)

    assert (bench.root / "f").read_text() == "old"
    assert (bench.root / "g" / "f").read_text() == "x"


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"mode": "append"}, ("error", "invalid_params")),
        ({"content": ABSENT}, ("error", "blob_missing")),
        ({"content": inline("x" * (FILE_BYTES_MAX + 1))}, ("error", "too_large")),
        ({"path": "f/x"}, ("error", "not_a_directory")),
        ({"path": "f/x", "create_parents": True}, ("error", "not_a_directory")),
    ],
)
def test_a_write_that_is_refused_changes_nothing(
    bench: Bench, params: dict[str, Any], expected: tuple[str, str]
) -> None:
    """AG-62, AG-111."""
    (bench.root / "f").write_text("old")

    found = bench.one("fs.write_file", **{"path": "f", "content": inline("new"), **params})

    assert status(found) == expected
    assert [(each.name, each.read_text()) for each in bench.root.iterdir()] == [("f", "old")]


def test_a_reader_sees_the_old_or_the_new_file(bench: Bench) -> None:
    """AG-111."""
    target = bench.root / "f"
    texts = {"a" * 200_000, "b" * 100_000}
    target.write_text(min(texts))
    over = threading.Event()
    seen: set[str] = set()

    def read() -> None:
        while not over.is_set():
            seen.add(target.read_text())

    reading = threading.Thread(target=read)
    reading.start()

    async def body() -> None:
        session = await bench.open()
        for _ in range(20):
            for text in sorted(texts):
                params = {"session_id": session, "path": "f", "content": blob(bench, text.encode())}
                assert status(await bench.call("fs.write_file", params)) == ("ok", None)

    bench.run(body)
    over.set()
    reading.join()

    assert seen <= texts


def test_a_file_is_looked_at(bench: Bench) -> None:
    """AG-112: links are followed."""
    (bench.root / "f").write_text("abc")
    (bench.root / "link").symlink_to("f")
    (bench.root / "broken").symlink_to("none")

    file, folder = bench.one("fs.stat", path="link"), bench.one("fs.stat", path=".")
    assert (status(file), file["exists"], file["is_dir"]) == (("ok", None), True, False)
    assert (file["size_bytes"], file["mtime_ns"]) == (3, (bench.root / "f").stat().st_mtime_ns)
    assert (folder["exists"], folder["is_dir"]) == (True, True)
    for path in ("none", "none/x", "f/x", "broken"):
        absent = bench.one("fs.stat", path=path)
        assert (status(absent), absent["exists"]) == (("not_found", "not_found"), False)
        assert bench.one("fs.exists", path=path)["exists"] is False
    found = [bench.one("fs.exists", path=path)["exists"] for path in ("f", "link", ".")]
    assert found == [True] * 3


def edit(bench: Bench, old: str, new: str, **params: Any) -> Any:
    return bench.one("fs.edit_file", path="f", old_string=old, new_string=new, **params)


def test_a_text_that_occurs_once_is_replaced(bench: Bench) -> None:
    """AG-117."""
    (bench.root / "f").write_bytes(b"one\r\ntwo\xff\r\nthree")

    found = edit(bench, "two", "2\r\n2")

    assert (status(found), found["replacements"], found["applied"]) == (("ok", None), 1, True)
    assert (bench.root / "f").read_bytes() == b"one\r\n2\r\n2\xff\r\nthree"


def test_a_text_that_occurs_more_often_needs_replace_all(bench: Bench) -> None:
    """AG-117."""
    (bench.root / "f").write_text("x x x")

    refused = edit(bench, "x", "y")
    assert (status(refused), refused["applied"]) == (("error", "old_string_ambiguous"), False)
    assert "3 times" in refused["summary_text"]
    assert (bench.root / "f").read_text() == "x x x"
    assert edit(bench, "x", "xy", replace_all=True)["replacements"] == 3
    assert (bench.root / "f").read_text() == "xy xy xy"


def test_an_edit_that_does_not_fit_is_refused(bench: Bench) -> None:
    """AG-117."""
    assert status(edit(bench, "x", "y")) == ("not_found", "not_found")
    (bench.root / "f").write_text("abc")
    assert status(edit(bench, "x", "y")) == ("error", "old_string_not_found")
    assert status(edit(bench, "", "y")) == ("error", "invalid_params")
    long = edit(bench, "b", "y" * FILE_BYTES_MAX)
    assert status(long) == ("error", "too_large")
    assert (bench.root / "f").read_text() == "abc"
    (bench.root / "f").write_text("x" * 10**6)
    huge = edit(bench, "x", "y" * 10**6, replace_all=True)  # 10**12 bytes
    assert status(huge) == ("error", "too_large")


def test_a_second_attempt_does_not_edit_again(bench: Bench) -> None:
    """AG-118: also if the edit would fit again, and in another process."""
    (bench.root / "f").write_text("x")
    session = bench.run(bench.open)
    params = {"session_id": session, "path": "f", "old_string": "x", "new_string": "xx"}

    first = bench.run(lambda: bench.call("fs.edit_file", params, intent=INTENT))
    again = bench.run(lambda: bench.call("fs.edit_file", params, intent=INTENT))

    assert first == again
    assert (bench.root / "f").read_text() == "xx"


class Crash(BaseException):
    """The end of the process."""


@pytest.mark.parametrize("changes_before", [0, 1])
def test_an_edit_that_a_crash_interrupted_is_completed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, changes_before: int
) -> None:
    """AG-118: before the file changed, and after."""
    (bench.root / "f").write_text("x")
    session = bench.run(bench.open)
    params = {"session_id": session, "path": "f", "old_string": "x", "new_string": "xx"}
    make = file_edits._make_one

    def crash(root: Any, change: Any) -> None:
        if changes_before:
            make(root, change)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(file_edits, "_make_one", crash)
        with pytest.raises(Crash):
            bench.run(lambda: bench.call("fs.edit_file", params, intent=INTENT))
    assert (bench.root / "f").read_text() == "x" * (1 + changes_before)
    again = bench.run(lambda: bench.call("fs.edit_file", params, intent=INTENT))

    assert (status(again), again["replacements"]) == (("ok", None), 1)
    assert (bench.root / "f").read_text() == "xx"


def test_edits_at_the_same_time_lose_nothing(bench: Bench) -> None:
    """AG-118."""
    (bench.root / "f").write_text("".join(f"<{number}>" for number in range(20)))

    async def body() -> None:
        session = await bench.open()
        calls = [
            bench.call(
                "fs.edit_file",
                {
                    "session_id": session,
                    "path": "f",
                    "old_string": f"<{number}>",
                    "new_string": f"[{number}]",
                },
            )
            for number in range(20)
        ]
        found = await asyncio.gather(*calls)
        assert {status(each) for each in found} == {("ok", None)}

    bench.run(body)

    assert (bench.root / "f").read_text() == "".join(f"[{number}]" for number in range(20))


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOENT, ("not_found", "not_found")),
        (errno.EACCES, ("forbidden", "access_denied")),
        (errno.EPERM, ("forbidden", "access_denied")),
        (errno.EROFS, ("forbidden", "access_denied")),
        (errno.ENOSPC, ("error", "no_space")),
        (errno.EIO, ("error", "io_error")),
    ],
)
def test_an_error_of_the_file_system_has_a_code(number: int, expected: tuple[str, str]) -> None:
    """AG-62."""
    found = declined_of(OSError(number, "x"), "a/b")

    assert isinstance(found, Declined)
    assert (found.status, found.code) == expected
    assert found.message == f"a/b: {os.strerror(number)}"


def test_the_folder_of_the_root_is_not_replaced(bench: Bench, tmp_path: Path) -> None:
    """AG-63: not by its own path either."""
    for path in ("/", str(tmp_path / "root"), "."):
        assert status(bench.one("fs.write_file", path=path, content=inline("x"))) == (
            "error",
            "is_directory",
        )
