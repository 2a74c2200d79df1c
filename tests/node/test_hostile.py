"""Hostile bytes: a clear answer or a closed connection, and others served (N-140 to N-144)."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from aos.node.bounds import HEADER_S
from tests.node.nodes import WAIT_S, Node, event
from tests.tools import long_form

POST = b"POST /v1/events HTTP/1.1\r\nHost: localhost:%d\r\n"


def answer(raw: socket.socket, sent: bytes, *, most: int = 1 << 16) -> tuple[int, bytes]:
    """Send bytes, and read the answer to its end; (0, b"") for a connection that is closed."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        raw.sendall(sent)
    data = b""
    with contextlib.suppress(ConnectionResetError, TimeoutError):
        while len(data) < most and (part := raw.recv(1 << 16)):
            data += part
            head, end, body = data.partition(b"\r\n\r\n")
            length = _length(head)
            if end and length is not None and len(body) >= length:
                break
    if not data:
        return 0, b""
    return int(data.split(b" ", 2)[1]), data.partition(b"\r\n\r\n")[2]


def _length(head: bytes) -> int | None:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return None


@pytest.fixture
def raw(node: Node) -> Iterator[socket.socket]:
    with node.raw() as found:
        found.settimeout(WAIT_S)
        yield found


def body_of(data: bytes, *, content_type: str = "application/json", extra: str = "") -> bytes:
    return (
        f"content-type: {content_type}\r\n{extra}content-length: {len(data)}\r\n\r\n".encode()
        + data
    )


def rule(found: tuple[int, bytes]) -> tuple[int, str]:
    return found[0], json.loads(found[1])["rule"]


def test_too_many_or_too_long_headers_are_refused(node: Node) -> None:
    start = b"GET /healthz HTTP/1.1\r\nHost: localhost:%d\r\n" % node.port
    for sent in (
        start + b"".join(b"X-%d: y\r\n" % each for each in range(101)) + b"\r\n",
        start + b"X: " + b"y" * 33_000 + b"\r\n\r\n",
        b"GET /" + b"y" * 33_000 + b" HTTP/1.1\r\n\r\n",
    ):
        with node.raw() as raw:
            assert rule(answer(raw, sent)) == (431, "header_is_too_large")


def test_a_header_without_an_end_is_cut_off_after_32_kib(raw: socket.socket) -> None:
    raw.sendall(b"GET /healthz HTTP/1.1\r\n")
    sent = 0
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while sent < 64 << 20:
            raw.sendall(b"X" * 65_536)
            sent += 65_536
    assert sent < 8 << 20  # no more than the buffers of two sockets


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /healthz HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/events HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/events HTTP/1.1\r\nContent-Length: 5x\r\n\r\nabcde",
        b"G\x00T / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nA b: c\r\n\r\n",
        b"GET /healthz HTTP/2.0\r\n\r\n",
        b"GET /healthz HTTP/0.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nTE: gzip, chunked\r\n\r\n",
        b"GET /healthz HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        *(
            b"POST /v1/events HTTP/1.1\r\nTransfer-Encoding: %b\r\n\r\n0\r\n\r\n" % codings
            for codings in (
                b"gzip, chunked", b"chunked, chunked", b"gzip", b"identity", b"identity, chunked",
                b"xchunked", b'"chunked"', b"chunked;q=1", b"chunked\r\nTransfer-Encoding: chunked",
            )
        ),
        *(
            b"%b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%b" % sent
            for sent in (
                (b"POST /v1/events", b"xyz\r\n{}\r\n0\r\n\r\n"),
                (b"POST /v1/events", b"-2\r\n{}\r\n0\r\n\r\n"),
                (b"POST /v1/events", b"fffffffffffffffff\r\n{}"),
                (b"POST /v1/events", b"2\r\n{}x\r\n0\r\n\r\n"),
                (b"GET /healthz", b"g\r\n"),
            )
        ),
    ],
)  # fmt: skip
def test_bytes_that_are_no_request_are_400(raw: socket.socket, sent: bytes) -> None:
    """N-144"""
    assert rule(answer(raw, sent)) == (400, "request_is_malformed")


def test_a_request_before_a_malformed_one_is_answered_first(node: Node) -> None:
    """N-144"""
    good = POST % node.port + body_of(json.dumps(event("before-a-bad-one")).encode())
    for bad in (
        b"G\x00T / HTTP/1.1\r\n\r\n",
        POST % node.port + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ):
        with node.raw() as raw:
            raw.sendall(good + good + bad)
            data = b""
            while part := raw.recv(1 << 16):
                data += part
        statuses = [int(each) for each in re.findall(rb"HTTP/1.1 ([0-9]{3}) ", data)]
        assert statuses == [200, 200, 400]
        assert b"request_is_malformed" in data


def test_a_malformed_rest_of_a_stream_cuts_it_off(node: Node) -> None:
    start = b"GET /v1/journal/stream?from=1 HTTP/1.1\r\nHost: localhost:%d\r\n" % node.port
    with node.raw() as raw:
        raw.sendall(start + b"Transfer-Encoding: chunked\r\n\r\n")
        data = raw.recv(1 << 16)
        assert data.startswith(b"HTTP/1.1 200")
        raw.sendall(b"xyz\r\n")
        with contextlib.suppress(ConnectionResetError):
            while part := raw.recv(1 << 16):
                data += part
    assert b"request_is_malformed" not in data


def test_a_trailer_is_no_header(node: Node, client: httpx.Client) -> None:
    """A proxy has not seen it as one (RFC 9110, 6.5.1)."""
    body = json.dumps(event("with-a-trailer")).encode()
    chunks = b"%x\r\n%b\r\n0\r\nIdempotency-Key: trailed\r\nHost: evil.example\r\n\r\n"
    with node.raw() as raw:
        sent = POST % node.port + b"Transfer-Encoding: chunked\r\n\r\n"
        assert answer(raw, sent + chunks % (len(body), body))[0] == 200

    again = client.post(
        "/v1/events", json=event("after-a-trailer"), headers={"Idempotency-Key": "trailed"}
    )

    assert again.json()["duplicate"] is False


BLANKS = ("%b ", "%b\t", " \t %b", "\t%b \t ")


@pytest.mark.parametrize("blanks", BLANKS)
def test_blanks_around_a_header_are_no_part_of_it(
    node: Node, client: httpx.Client, blanks: str
) -> None:
    """N-103a"""
    key = f"k-{BLANKS.index(blanks)}"
    sent = client.post("/v1/events", json=event(key), headers={"Idempotency-Key": key})
    body = json.dumps(event(key)).encode()

    def request(start: bytes, **fields: bytes) -> bytes:
        lines = [
            name.replace("_", "-").encode() + b":" + blanks.encode() % value + b"\r\n"
            for name, value in fields.items()
        ]
        return start + b"Connection: close\r\n" + b"".join(lines)

    host = b"localhost:%d" % node.port
    with node.raw() as raw:
        found = request(
            b"POST /v1/events HTTP/1.1\r\n", Host=host, Idempotency_Key=key.encode(),
            Content_Type=b"application/json", Content_Encoding=b"identity",
            Content_Length=b"%d" % len(body), Origin=b"http://" + host,
        )  # fmt: skip
        again = answer(raw, found + b"\r\n" + body)
    with node.raw() as raw:
        raw.settimeout(WAIT_S)
        raw.sendall(
            request(
                b"GET /v1/journal/stream HTTP/1.1\r\n", Host=host, Last_Event_ID=b"1",
                Accept=b"application/cbor",
            )
            + b"\r\n"
        )  # fmt: skip
        stream = raw.recv(1 << 12)

    assert again[0] == 200, again
    assert json.loads(again[1]) == {**sent.json(), "duplicate": True}
    assert stream.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b'{"schema": "a", "schema": "b", "value": 1}', "schema"),
        (b'{"schema": "a", "value": 1.5}', "1.5"),
        (b'{"schema": "a", "value": NaN}', "N"),
        (b'{"schema": "a", "value": "\\ud800"}', "surrogate"),
        (b'{"schema": "a", "value": "\xff"}', "UTF-8"),
        (b'{"schema": "a", "value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "deep"),
        (b'{"schema": "a", "value": 1} x', "end"),
        (b'{"schema": "a"', ""),
        (b"", ""),
        (b"\xef\xbb\xbf{}", ""),
    ],
)
def test_json_that_is_not_strict_is_refused(
    node: Node, raw: socket.socket, data: bytes, part: str
) -> None:
    status, found = answer(raw, POST % node.port + body_of(data))

    assert status == 400, found
    assert json.loads(found)["rule"] == "body_is_malformed"
    assert part in json.loads(found)["detail"]


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"\xbf\xff", b"\xfb" + bytes(8), b"\xa2\x61a\x01\x61a\x02",
     b"\x9b" + b"\xff" * 8, b"\x81" * 100, b"\xc1\x01", b"\xa1\x61a"],
)  # fmt: skip
def test_cbor_that_is_not_accepted_is_refused(node: Node, raw: socket.socket, data: bytes) -> None:
    found = answer(raw, POST % node.port + body_of(data, content_type="application/cbor"))

    assert rule(found) == (400, "body_is_malformed")


@pytest.mark.parametrize(
    ("content_type", "extra", "expected"),
    [
        ("text/plain", "", "media_type_is_unknown"),
        ("application/json; charset=latin-1", "", "media_type_is_unknown"),
        ("multipart/form-data", "", "media_type_is_unknown"),
        ("application/json", "content-encoding: gzip\r\n", "encoding_is_unknown"),
    ],
)
def test_another_form_of_a_body_is_415(
    node: Node, raw: socket.socket, content_type: str, extra: str, expected: str
) -> None:
    sent = POST % node.port + body_of(b"{}", content_type=content_type, extra=extra)

    assert rule(answer(raw, sent)) == (415, expected)


def test_a_body_is_counted_whatever_it_declares(node: Node) -> None:
    with node.raw() as raw:
        sent = POST % node.port + b"content-length: 17000000\r\n\r\n"
        assert rule(answer(raw, sent)) == (413, "body_is_too_large")
    with node.raw() as raw:
        raw.settimeout(WAIT_S)
        raw.sendall(POST % node.port + b"transfer-encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        sent_bytes = 0
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while sent_bytes < 64 << 20:
                raw.sendall(chunk)
                sent_bytes += len(chunk)
        assert sent_bytes < 32 << 20


def test_one_event_may_not_be_as_long_as_a_batch(node: Node, client: httpx.Client) -> None:
    limit = client.get("/v1/manifest").json()["limits"]["event_bytes"]
    found = client.post("/v1/events", json=event("x" * (limit * 4 // 3 + 17_000)))

    assert found.status_code == 413
    assert node.client().get("/healthz").status_code == 200


def test_other_clients_are_served_while_many_send_nothing(node: Node) -> None:
    silent = []
    try:
        for _ in range(200):
            one = node.raw()
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
            silent.append(one)
        assert node.client().get("/healthz").json() == {"ok": True, "role": None, "lag": None}
    finally:
        for one in silent:
            one.close()


@pytest.mark.long
@pytest.mark.skipif(not long_form(), reason="it waits for the real limits: 30 s")
def test_half_a_header_and_half_a_body_end_in_time(node: Node) -> None:
    with node.raw() as header, node.raw() as body, node.raw() as nothing:
        for each in (header, body, nothing):
            each.settimeout(60)
        began = time.monotonic()
        header.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
        body.sendall(POST % node.port + b"content-length: 100\r\n\r\n{")
        assert rule(answer(header, b"")) == (408, "header_is_late")
        assert rule(answer(nothing, b"")) == (408, "header_is_late")
        assert 9 < time.monotonic() - began < 29
        assert rule(answer(body, b"")) == (408, "body_is_late")
        assert time.monotonic() - began > 29


def refused_of_20_more(node: Node) -> int:
    """Open 1,024 connections, and 20 more; how many of these are refused."""
    with contextlib.ExitStack() as stack:
        for _ in range(1_024):
            stack.enter_context(node.raw())
        return sum(answer(stack.enter_context(node.raw()), b"")[0] == 503 for _ in range(20))


def test_the_1025th_connection_is_answered_and_closed(node: Node) -> None:
    for _ in range(5):
        began = time.monotonic()
        refused = refused_of_20_more(node)
        if time.monotonic() - began < HEADER_S:
            break
        # The front may have closed the first ones, and have room again.
    else:
        pytest.fail("the connections could not be made in the time of a header")
    assert refused >= 19
    until = time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(httpx.HTTPError):
            if node.client().get("/healthz").status_code == 200:
                return
        assert time.monotonic() < until, "the front answers no more"


def test_a_client_that_goes_away_in_the_middle_harms_no_one(node: Node) -> None:
    stream = b"GET /v1/journal/stream HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % node.port
    for sent in (b"POST /v1/eve", POST % node.port + b"content-length: 100\r\n\r\n{", stream):
        with node.raw() as raw:
            raw.sendall(sent)
    client = node.client()
    found = client.post("/v1/events", json=event("after"), params={"wait": "ran"})
    assert found.status_code == 200
