"""HTTP in a trace: method, URL, status and body come first, and nothing is hidden (A-48a)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aos.manifest.names import HTTP
from aos.read.trace.render import http_text, lines, plain
from aos.read.trace.trace_nodes import NodeRoom, Nodes
from aos.read.trace.trace_tree import Node, Trace
from aos.read.views.view import View
from aos.values.digests import content_hash, hash_text
from aos.values.sha256 import true_name
from tests.core.desk import desks
from tests.prove.journals import store_of

BODY = {"subscription": "s-1", "amount": {"cents": 4900, "currency": "EUR"}}
REQUEST: dict[str, Any] = {
    "method": "POST",
    "url": "http://bank.example/charges",
    "headers": {
        "content-type": {"$tag": "literal", "$value": "application/json"},
        "authorization": {"$tag": "secret", "$value": {"alias": "bank", "version": 1}},
    },
    "body_ref": None,
    "body": BODY,
}
RESPONSE: dict[str, Any] = {
    "status": 201,
    "headers": {"date": "Mon", "server": "S" * 300},
    "body_ref": None,
    "body": {"charge": "ch-1"},
    "timings": {"start_ns": 1, "end_ns": 2},
}
SENT = 'POST http://bank.example/charges {"subscription":"s-1","amount":{"cents":4900,'
REF = f"blake3:{'7' * 64}"


def text(value: object, size: int | None = None) -> str | None:
    return http_text(value, lambda _: size)


def test_a_request_begins_with_method_url_and_body() -> None:
    assert text(REQUEST) == (
        f'{SENT}"currency":"EUR"}}}}; headers {{"content-type":"application/json",'
        '"authorization":{"secret":{"alias":"bank","version":1}}}'
    )


def test_a_response_begins_with_status_and_body() -> None:
    assert text({**RESPONSE, "headers": {}}) == (
        '201 {"charge":"ch-1"}; timings {"start_ns":1,"end_ns":2}'
    )


@pytest.mark.parametrize(("size", "of"), [(70_000, " of 70,000 bytes"), (None, "")])
def test_a_body_that_is_a_blob_has_its_size_and_the_command_that_reads_it(
    size: int | None, of: str
) -> None:
    stored = {"status": 200, "headers": {}, "body": None, "body_ref": REF}

    assert text(stored, size) == f"200 (body: a blob{of}, aos inspect value {REF} --raw)"


def test_every_body_that_is_a_blob_has_its_size() -> None:
    """A-48a. None of them is read for it."""
    world = desks()
    store = store_of(world)
    bodies = [bytes(10_000 + number) for number in range(50)]
    store.put_blobs({content_hash(each): each for each in bodies})
    view = View(world.state, store)
    view.spell()
    nodes = Nodes(view, NodeRoom(100))

    for body in bodies:
        stored = {"status": 200, "body_ref": hash_text(content_hash(body))}
        assert f"a blob of {len(body):,} bytes, " in str(nodes.text(HTTP, stored))
    named = true_name(bodies[0])
    store.put_blobs({named.hash: named.to_bytes()})
    ref = f"sha256:{named.sha256.hex()}"
    assert "a blob of 10,000 bytes, " in str(nodes.text(HTTP, {"status": 200, "body_ref": ref}))


def test_a_body_of_several_lines_stays_on_one() -> None:
    assert text({"status": 500, "body": "a\nb"}) == '500 "a\\nb"'


@pytest.mark.parametrize("value", [None, "text", {"$large": REF, "size": 9}, {"code": "timeout"}])
def test_any_other_value_is_shown_as_json(value: object) -> None:
    assert text(value) is None


def test_both_bodies_of_a_call_are_whole_on_200_columns() -> None:
    """A-48a. Cut evenly, each would have 60 characters."""
    receipt = Node(
        kind="receipt", seq=6, status="delivered", value=RESPONSE, text=text(RESPONSE),
        note="ok, attempt 1",
    )  # fmt: skip
    asked = Node(
        kind="intent", seq=5, status="ok", subject=HTTP, value=REQUEST, text=text(REQUEST),
        intent="blake3:" + "0" * 64, children=(receipt,),
    )  # fmt: skip

    (call,) = plain(lines(Trace(target="", roots=(asked,), earlier=0, cases=()), width=200))
    (cut,) = plain(
        lines(Trace(target="", roots=(replace(asked, text=None),), earlier=0, cases=()), width=200)
    )

    assert f'{SENT}"currency":"EUR"}}}}' in call
    assert '201 {"charge":"ch-1"}; headers {"date":"Mon"' in call
    assert '"cents":4900' not in cut
