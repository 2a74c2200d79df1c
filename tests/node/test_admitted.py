"""Whether the input of a request was admitted, as a 503 says (spec/cluster.md, CL-206)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.errors import AosError, BadUsage, Unavailable
from aos.host.cluster.bus_client import NotCarriedOut, NotKnown
from aos.host.door.front_requests import no_front, term_is_over
from aos.host.door.protocol import LENGTH_BYTES, error_fields, pack, raise_error, unpack
from aos.host.door.remote import NotSent
from aos.host.errors import NoRoomLeft, NotOwner, Stopping
from aos.node.access import Door, caller_of
from aos.node.passing_on import packed_request, read_reply
from aos.node.problems import Problem, problem_of
from aos.node.tokens import OWNER, Scope, Token


@pytest.mark.parametrize(
    ("error", "admitted"),
    [
        (NotSent("no process runs this world"), "no"),
        (NotCarriedOut("no node owns this world"), "no"),
        (Stopping("the world stops"), "no"),
        (no_front(), "no"),
        (term_is_over(), "no"),
        (NotKnown("the owner changed"), "unknown"),
        (NotOwner("another node owns it"), "unknown"),
        (NoRoomLeft("no room", needed_bytes=1, free=0), "unknown"),
        (Unavailable("the connection broke"), "unknown"),
    ],
)
def test_a_problem_says_whether_the_input_was_admitted(error: AosError, admitted: str) -> None:
    """The same after the error has come through the socket of a standby."""
    assert problem_of(error, Path("world")).admitted == admitted
    with pytest.raises(AosError) as received:
        raise_error(unpack(pack(error_fields(error))[LENGTH_BYTES:]))
    problem = problem_of(received.value, Path("world"))
    assert (problem.status, problem.admitted) == (503, admitted)
    assert problem.document()["admitted"] == admitted
    assert problem.retry_after_s is not None


def test_an_error_of_the_input_says_nothing_about_it() -> None:
    assert "admitted" not in problem_of(BadUsage("no such name"), Path("world")).document()


def test_a_request_that_is_passed_on_has_its_caller() -> None:  # CL-210
    caller = Token(name="night", scopes=(Scope("work", "shop/", is_prefix=True),))
    request = packed_request(
        "POST", "/v1/work/claim?x=1", {b"accept": b"application/json"}, b"{}", caller
    )
    head, _, body = request.partition(b"\r\n\r\n")
    line, *fields = head.split(b"\r\n")
    assert (line, body) == (b"POST /v1/work/claim?x=1 HTTP/1.1", b"{}")
    headers = dict(field.split(b": ", 1) for field in fields)
    assert headers[b"content-length"] == b"2"
    own_socket = Door(None, None)
    read = caller_of(own_socket, headers, None, now_ns=0)  # type: ignore[arg-type]
    assert read == caller
    assert caller_of(own_socket, {}, None, now_ns=0) is OWNER  # type: ignore[arg-type]
    for text in (b"[]", b"{", b'{"name": "x"}', b'{"name": "x", "scopes": ["no"]}'):
        with pytest.raises(Problem, match="expected the name and the scopes"):
            caller_of(own_socket, {b"aos-caller": text}, None, now_ns=0)  # type: ignore[arg-type]


def test_an_answer_of_a_front_is_read_whole_or_not_at_all() -> None:  # CL-210
    data = (
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n"
        b"retry-after: 5\r\ncontent-length: 2\r\n\r\n{}"
    )
    reply = read_reply(data)
    assert (reply.status, reply.data, reply.media) == (503, b"{}", "application/problem+json")
    assert reply.headers == {"retry-after": "5"}
    for part in (b"", data[:20], data[:-1], b"nonsense\r\n\r\n"):
        with pytest.raises(Unavailable, match="not complete"):
            read_reply(part)
