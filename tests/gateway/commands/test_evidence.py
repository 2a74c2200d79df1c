"""The evidence of a work (C-120, C-121)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aos.errors import BadUsage
from aos_gateway.requests import EVIDENCE_BYTES_MAX, content_type, read_evidence

EXPECTED = "expected a file of 1 to 524,288 bytes"


def test_a_file_at_the_limit_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    file = tmp_path / "evidence.bin"
    file.write_bytes(b"e" * EVIDENCE_BYTES_MAX)
    assert len(read_evidence(file)) == EVIDENCE_BYTES_MAX

    file.write_bytes(b"e" * (EVIDENCE_BYTES_MAX + 1))
    with pytest.raises(BadUsage) as refused:
        read_evidence(file)
    assert str(refused.value) == f"--evidence {file}: {EXPECTED}, found 524,289 bytes"


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.touch()
    with pytest.raises(BadUsage, match=f"{EXPECTED}, found 0 bytes"):
        read_evidence(file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match=r"the evidence cannot be read: No such file or directory"):
        read_evidence(tmp_path / "missing")
    with pytest.raises(BadUsage, match=r"the evidence cannot be read"):
        read_evidence(Path("a\0b"))


def test_a_folder_a_pipe_and_a_device_are_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe, Path("/dev/zero")):
        with pytest.raises(BadUsage, match=f"{EXPECTED}, found no plain file"):
            read_evidence(path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("report.json", "application/json"),
        ("REPORT.JSON", "application/json"),
        ("notes.md", "text/markdown"),
        ("archive.tar.gz", "application/gzip"),
        ("Makefile", "application/octet-stream"),
        (".json", "application/octet-stream"),
        ("report.xyz", "application/octet-stream"),
    ],
)
def test_the_type_is_that_of_the_name(name: str, expected: str) -> None:
    assert content_type(None, Path(name)) == expected


@pytest.mark.parametrize(
    "text", ["text/plain", "image/svg+xml", "text/plain; charset=utf-8", 'a/b;c="d e"']
)
def test_a_given_type_is_taken_as_it_is(text: str) -> None:
    assert content_type(text, Path("report.json")) == text


@pytest.mark.parametrize(
    "text", ["", "json", "text/", "/plain", "text/plain\r\nX: y", "text/plain;", "a/" + "b" * 127]
)
def test_another_text_is_no_type(text: str) -> None:
    with pytest.raises(BadUsage, match="--content-type: expected a media type such as"):
        content_type(text, Path("report.json"))
