"""Reads over HTTP are the documents of the command line, as of the durable head (N-114)."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from aos.node.bodies import write_json
from aos.read.operations.table import OPERATIONS
from aos.read.views.view import LIMIT_MAX
from tests.cli.shell import here
from tests.node.nodes import Node, event


@pytest.fixture(scope="module")
def order(client: httpx.Client) -> dict[str, Any]:
    """A trip that has ended: its answer."""
    found: dict[str, Any] = client.post(
        "/v1/events", json=event("read-1"), params={"wait": "settled"}
    ).json()
    # Trips of other tests may still run, and would change a document between two looks.
    until = time.monotonic() + 30
    while client.get("/v1/world").json()["intents"]["open"] and time.monotonic() < until:
        time.sleep(0.05)
    return found


def printed(node: Node, *words: str) -> Any:
    result = here(*words, "--json", "--world", node.path)
    assert result.code == 0, result.err
    return result.json


def got(client: httpx.Client, path: str, **query: Any) -> Any:
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_documents_equal_those_of_the_command_line(
    node: Node, client: httpx.Client, order: dict[str, Any]
) -> None:
    seq = order["seq"]
    cell = printed(node, "inspect", "cell", "booking", "read-1")
    assert got(client, "/v1/cell", workflow="booking", key="read-1") == cell
    assert got(client, "/v1/record", seq=seq) == printed(node, "inspect", "record", str(seq))
    assert got(client, "/v1/manifest") == printed(node, "inspect", "manifest")
    listed = printed(node, "inspect", "cells", "--key-prefix", "read-", "--state")
    assert got(client, "/v1/cells", key_prefix="read-", state=1) == listed
    assert got(client, "/v1/trace", seq=seq) == printed(node, "trace", str(seq))
    settled = ("inspect", "intents", "--status", "settled", "--limit", "3")
    assert got(client, "/v1/intents", status="settled", limit=3) == printed(node, *settled)
    assert got(client, "/v1/faults") == printed(node, "inspect", "faults")
    world = got(client, "/v1/world")
    shown = printed(node, "inspect", "world")
    assert world["journal"] == shown["journal"]
    assert set(world) == set(shown)
    assert world["process"]["pid"] == node.kernel.pid


def test_a_past_world_is_read_as_it_was(
    node: Node, client: httpx.Client, order: dict[str, Any]
) -> None:
    at = order["seq"]
    past = got(client, "/v1/world", at=at)

    assert past == {**printed(node, "inspect", "world", "--at", str(at)), "path": None}
    assert past["journal"]["records"] == at
    assert got(client, "/v1/cells", at=1)["total"] == 0


def test_records_are_paged(client: httpx.Client, order: dict[str, Any]) -> None:
    end = order["to"][0]["record"]
    seqs: list[int] = []
    first: int | None = 1
    while first is not None:
        page = got(client, "/v1/records", **{"from": first, "to": end, "limit": 7})
        assert len(page["records"]) <= 7
        seqs += [each["seq"] for each in page["records"]]
        first = page["next"]

    assert seqs == list(range(1, end + 1))
    events = got(client, "/v1/records", kind=["event", "step"], workflow="booking", key="read-1")
    assert {each["kind"] for each in events["records"]} == {"event", "step"}


def test_a_client_that_was_given_a_record_reads_it(client: httpx.Client) -> None:
    for index in range(20):
        seq = client.post("/v1/events", json=event(f"now-{index}")).json()["seq"]
        assert got(client, "/v1/record", seq=seq)["value"]["trip_id"] == f"now-{index}"


def test_an_intent_and_the_work_of_the_executors_are_shown(
    client: httpx.Client, order: dict[str, Any]
) -> None:
    intents = got(client, "/v1/intents", status="all", key_prefix="read-1")["intents"]
    one = got(client, "/v1/intent", intent=intents[0]["intent"])

    assert one["intent"] == intents[0]["intent"]
    assert one["key"] == "read-1"
    assert got(client, "/v1/trace", intent=intents[0]["intent"])["roots"]
    work = got(client, "/v1/work")
    assert "trip/book@1" in work["effects"]
    assert order["seq"] > 0


def test_a_blob_is_read_by_its_hash(client: httpx.Client) -> None:
    manifest = got(client, "/v1/manifest")
    data = client.get("/v1/blob", params={"value": manifest["hash"]})

    assert data.status_code == 200
    assert data.headers["content-type"] == "application/octet-stream"
    record = got(client, "/v1/record", seq=manifest["record"])
    assert len(data.content) == record["size"]
    absent = client.get("/v1/blob", params={"value": "blake3:" + "0" * 64})
    assert (absent.status_code, absent.json()["rule"]) == (404, "value_is_unknown")
    value = client.get("/v1/value", params={"value": manifest["hash"]})
    assert value.json()["is_there"] is True


@pytest.mark.parametrize(
    ("path", "query", "status", "part"),
    [
        ("/v1/cell", {"workflow": "booking", "key": "none"}, 404, "there is no such cell"),
        ("/v1/cell", {"workflow": "hotel", "key": "x"}, 404, "no workflow is called 'hotel'"),
        ("/v1/cell", {}, 400, "workflow: expected this parameter"),
        ("/v1/record", {"seq": 10**9}, 404, "expected a record, 1 to"),
        ("/v1/record", {"seq": 0}, 400, "expected 1 to"),
        ("/v1/record", {"seq": "1.5"}, 400, "expected a whole number"),
        ("/v1/cells", {"status": "done"}, 400, "expected one of running"),
        ("/v1/cells", {"limit": LIMIT_MAX + 1}, 400, f"1 to {LIMIT_MAX}"),
        ("/v1/cells", {"worfklow": "x"}, 400, "did you mean workflow?"),
        ("/v1/cells", {"older_than": "soon"}, 404, "expected a duration"),
        ("/v1/world", {"at": 10**9}, 404, "expected a record from 1 to"),
        ("/v1/world", {"x": 1}, 400, "'x' is unknown here"),
        ("/v1/intent", {"intent": "zz"}, 404, "zz"),
        ("/v1/trace", {}, 404, "expected one of seq, intent and workflow"),
        ("/v1/manifest", {"name": "nothing"}, 404, "nothing"),
        ("/v1/value", {"value": "7"}, 400, "expected text that matches"),
        ("/v1/nothing", {}, 404, "nothing is at /v1/nothing"),
    ],
)
def test_a_question_that_is_not_understood_is_a_problem(
    client: httpx.Client, path: str, query: Any, status: int, part: str
) -> None:
    answer = client.get(path, params=query)

    assert answer.status_code == status, answer.text
    assert part in answer.json()["detail"]


def test_another_method_is_refused_and_the_right_one_named(client: httpx.Client) -> None:
    answer = client.delete("/v1/cells")

    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET"
    assert client.head("/v1/world").status_code == 200
    assert client.get("/v1/events").headers["allow"] == "POST"


def test_every_document_has_a_route(client: httpx.Client) -> None:
    document = client.get("/v1/openapi.json").json()
    operations = {each["operationId"] for path in document["paths"].values()
                  for each in path.values()}  # fmt: skip

    assert {operation.name for operation in OPERATIONS} <= operations


def test_an_answer_in_cbor_is_the_document(client: httpx.Client, order: dict[str, Any]) -> None:
    import cbor2  # the independent referee

    query = {"workflow": "booking", "key": "read-1"}
    answer = client.get("/v1/cell", params=query, headers={"accept": "application/cbor"})

    assert answer.headers["content-type"] == "application/cbor"
    assert cbor2.loads(answer.content) == got(client, "/v1/cell", **query)


def test_a_long_document_is_passed_on_as_its_reader_wrote_it(
    client: httpx.Client, order: dict[str, Any]
) -> None:
    """N-113, N-114: in JSON byte for byte, in CBOR the same document."""
    import cbor2  # the independent referee

    query: dict[str, Any] = {"key_prefix": "read-", "state": 1}
    answer = client.get("/v1/cells", params=query)
    assert answer.content == write_json(answer.json())
    assert order["to"][0]["key"] in {cell["key"] for cell in answer.json()["cells"]}
    in_cbor = client.get("/v1/cells", params=query, headers={"accept": "application/cbor"})
    assert in_cbor.headers["content-type"] == "application/cbor"
    assert cbor2.loads(in_cbor.content) == answer.json()
    assert order["seq"] > 0


def test_metrics_name_no_key(client: httpx.Client, order: dict[str, Any]) -> None:
    text = client.get("/metrics").text

    assert 'aos_records_total{kind="event"}' in text
    assert 'aos_receipts_total{effect="trip/book@1",status="ok"}' in text
    assert "aos_follower_lag_records 0.0" in text
    assert "read-1" not in text
    assert order["seq"] > 0
