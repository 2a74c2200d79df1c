"""Printed lines have no secret in them while a call has one (X-77)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.worker.redacted_output import LINE_BYTES_MAX, RedactedFile
from aos.worker.redaction import Redactor
from aos.worker.worker_secrets import SecretValue

VALUE = b"0123456789abcdef0123456789abcdef"
OTHER = b"correct-horse-battery"
MARK = b"[secret t/key@1]"


def redactor(value: bytes = VALUE) -> Redactor:
    return Redactor([SecretValue(name="t/key@1", value=value, hosts=None)])


@contextmanager
def printed(hidden: list[Redactor]) -> Iterator[tuple[RedactedFile, list[bytes]]]:
    """A file, and its output at the end."""
    out: list[bytes] = []
    with tempfile.TemporaryFile() as given:
        yield RedactedFile(given.fileno(), hidden), out
        given.seek(0)
        out.append(given.read())


def test_without_secrets_each_write_comes_out_as_it_is() -> None:
    with printed([]) as (file, out):
        file.write(b"a part ")
        file.write(VALUE)
    assert b"".join(out) == b"a part " + VALUE


@given(st.lists(st.integers(1, 40), max_size=12))
def test_a_secret_that_is_written_in_pieces_is_found(sizes: list[int]) -> None:
    text = b"the key " + VALUE + b" is here\nand " + VALUE + b"\n" + VALUE
    hidden = [redactor()]
    with printed(hidden) as (file, out):
        at = 0
        for size in [*sizes, len(text)]:
            file.write(text[at : at + size])
            at += size
        file.end_line()
    assert b"".join(out) == b"the key " + MARK + b" is here\nand " + MARK + b"\n" + MARK


def test_each_secret_of_calls_at_the_same_time_is_replaced() -> None:
    hidden = [redactor(), redactor(OTHER)]
    with printed(hidden) as (file, out):
        file.write(VALUE + b" " + OTHER + b"\n")
        hidden.pop()
        file.write(VALUE + b" " + OTHER + b"\n")
    assert b"".join(out) == MARK + b" " + MARK + b"\n" + MARK + b" " + OTHER + b"\n"


@pytest.mark.parametrize("before", [LINE_BYTES_MAX - 20, LINE_BYTES_MAX + 1])
def test_a_line_that_does_not_end_comes_out_without_a_secret_at_the_limit(before: int) -> None:
    with printed([redactor()]) as (file, out):
        file.write(b"." * before)
        for at in range(0, len(VALUE), 5):
            file.write(VALUE[at : at + 5])
        file.end_line()
    assert b"".join(out) == b"." * before + MARK
