"""Bodies are decoded as they come, and no further than they may (X-64)."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from aos.worker.http import Body, BodyProblem

DATA = b"The quick brown fox. " * 500
RAW = zlib.compressobj(wbits=-zlib.MAX_WBITS)
BARE_DEFLATE = RAW.compress(DATA) + RAW.flush()


def read(encoding: str, sent: bytes, *, bytes_max: int = 1 << 20, piece: int = 100) -> bytes:
    body = Body(encoding, bytes_max=bytes_max)
    for at in range(0, len(sent), piece):
        body.feed(sent[at : at + piece])
    return body.end()


@pytest.mark.parametrize("piece", [1, 7, 100, 10**6])
@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        ("", DATA),
        ("gzip", gzip.compress(DATA, mtime=0)),
        ("x-gzip", gzip.compress(DATA, mtime=0)),
        ("deflate", zlib.compress(DATA)),
        ("deflate", BARE_DEFLATE),
        ("gzip", gzip.compress(DATA[:100]) + gzip.compress(DATA[100:])),
    ],
)
def test_the_body_is_decoded_whatever_the_size_of_its_pieces(
    encoding: str, sent: bytes, piece: int
) -> None:
    assert read(encoding, sent, piece=piece) == DATA


@pytest.mark.parametrize("size", [*range(65_530, 65_800, 3), 131_072, 196_608])
def test_output_that_is_held_back_at_a_step_is_not_lost(size: int) -> None:
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    sent = raw.compress(bytes(size)) + raw.flush()

    assert read("deflate", sent, piece=10**6) == bytes(size)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "identity"])
def test_an_encoding_that_we_do_not_take_off_is_left(encoding: str) -> None:
    body = Body(encoding, bytes_max=100)
    body.feed(b"as it is")

    assert (body.end(), body.is_decoded) == (b"as it is", False)


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
def test_an_empty_body_is_empty(encoding: str) -> None:
    assert read(encoding, b"") == b""


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_a_body_at_the_limit_is_read_and_one_byte_more_is_not(encoding: str) -> None:
    sent = gzip.compress(DATA, mtime=0) if encoding else DATA

    assert read(encoding, sent, bytes_max=len(DATA)) == DATA
    with pytest.raises(BodyProblem, match="longer than 10499 bytes") as caught:
        read(encoding, sent, bytes_max=len(DATA) - 1)
    assert caught.value.is_size


def test_a_bomb_is_stopped_before_it_takes_memory() -> None:
    bomb = gzip.compress(bytes(100_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(BodyProblem, match="longer than 100000 bytes"):
            read("gzip", bomb, bytes_max=100_000, piece=len(bomb))
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("encoding", "sent", "message"),
    [
        ("gzip", b"not gzip at all", "the body is not gzip"),
        ("gzip", gzip.compress(DATA, mtime=0)[:-9], "the gzip body is cut short"),
        ("gzip", gzip.compress(DATA, mtime=0)[:50] + b"\xff" * 50, "the (gzip )?body is "),
        ("gzip", gzip.compress(DATA, mtime=0) + b"trailing", "the body is not gzip"),
        ("deflate", b"\xff\xff\xff", "the body is not deflate"),
        ("deflate", zlib.compress(DATA)[:-5], "the deflate body is cut short"),
    ],
)
def test_a_body_that_does_not_match_its_encoding_is_refused(
    encoding: str, sent: bytes, message: str
) -> None:
    with pytest.raises(BodyProblem, match=message) as caught:
        read(encoding, sent)
    assert not caught.value.is_size
