"""Events over HTTP: one and many, once each, waited for until durable, ran or settled (N-115)."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from aos.values import cbor
from tests.node.nodes import WANTED, event, trip


def send(client: httpx.Client, body: Any, **query: Any) -> httpx.Response:
    headers = query.pop("headers", {})
    return client.post("/v1/events", json=body, params=query, headers=headers)


def test_a_durable_event_is_answered_with_its_record_and_the_cells_it_reached(
    client: httpx.Client,
) -> None:
    answer = send(client, event("a-1"))

    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["duplicate"] is False
    assert found["to"] == [{"workflow": "trip/booking@1", "key": "a-1"}]
    record = client.get("/v1/record", params={"seq": found["seq"]}).json()
    assert (record["kind"], record["value"]["trip_id"]) == ("event", "a-1")


def test_the_same_idempotency_key_is_taken_once(client: httpx.Client) -> None:
    headers = {"Idempotency-Key": "k-1"}
    first = send(client, event("k-1"), headers=headers)
    again = send(client, event("k-1"), headers=headers)
    other = send(client, event("k-2"), headers=headers)

    assert first.json()["duplicate"] is False
    assert again.status_code == 200
    assert again.json() == {**first.json(), "duplicate": True}
    assert other.status_code == 409
    assert other.json()["rule"] == "submission_id_is_taken"
    assert other.headers["content-type"] == "application/problem+json"


def test_ran_is_answered_once_the_instance_has_taken_the_event(client: httpx.Client) -> None:
    answer = send(client, event("r-1"), wait="ran", state="1")

    assert answer.status_code == 200, answer.text
    [cell] = answer.json()["to"]
    assert (cell["workflow"], cell["key"], cell["ran"]) == ("trip/booking@1", "r-1", True)
    assert cell["status"] == "waiting"
    assert cell["state"]["city"] == "Lisbon"
    record = client.get("/v1/record", params={"seq": cell["record"]}).json()
    assert (record["kind"], record["entry"]) == ("step", [answer.json()["seq"], 0])


def test_settled_is_answered_at_the_end_of_the_instance(client: httpx.Client) -> None:
    answer = send(client, event("s-1"), wait="settled", state="true")

    assert answer.status_code == 200, answer.text
    [cell] = answer.json()["to"]
    assert cell["status"] == "completed"
    shown = client.get("/v1/cell", params={"workflow": "booking", "key": "s-1"}).json()
    assert cell["state"] == shown["state"]
    assert cell["record"] == shown["last_record"]


def test_a_wait_for_an_event_of_long_ago_is_over_at_once(client: httpx.Client) -> None:
    body = event("w-1", submission_id="w-1")
    first = send(client, body, wait="settled").json()
    again = send(client, body, wait="settled", timeout_ms=0)
    ran = send(client, body, wait="ran", timeout_ms=0).json()

    assert again.status_code == 200
    assert again.json()["duplicate"] is True
    assert again.json()["to"] == first["to"]
    assert first["to"][0]["status"] == "completed"
    assert ran["to"][0]["ran"] is True
    assert ran["to"][0]["status"] == "waiting"


def test_a_wait_that_ends_early_is_202_with_what_is_known(client: httpx.Client) -> None:
    answer = send(client, event("t-1"), wait="settled", timeout_ms=0)

    assert answer.status_code == 202
    assert answer.json()["seq"] > 0
    assert answer.json()["to"][0]["workflow"] == "trip/booking@1"


def test_each_item_of_a_batch_has_its_own_answer(client: httpx.Client) -> None:
    items = [event("b-1"), {"schema": WANTED, "value": {"trip_id": 7}}, event("b-2"),
             {"schema": "trip/Requestd@1", "value": trip("b-3")}]  # fmt: skip
    answer = send(client, {"items": items}, wait="ran")

    assert answer.status_code == 200, answer.text
    one, bad, two, unknown = answer.json()["items"]
    assert one["to"][0]["ran"] is two["to"][0]["ran"] is True
    assert two["seq"] > one["seq"]
    assert bad["problem"]["status"] == 422
    assert bad["problem"]["rule"] == "event_is_invalid"
    assert "city" in bad["problem"]["detail"]
    assert unknown["problem"]["rule"] == "event_schema_is_unknown"


def test_a_batch_of_1025_is_refused_whole(client: httpx.Client) -> None:
    before = client.get("/v1/world").json()["journal"]["records"]
    answer = send(client, {"items": [event(f"m-{index}") for index in range(1025)]})

    assert answer.status_code == 400
    assert answer.json()["pointer"] == "/items"
    assert "1 to 1024 items, found 1025" in answer.json()["detail"]
    cells = client.get("/v1/cells", params={"key_prefix": "m-"}).json()
    assert cells["total"] == 0
    assert before > 0


def test_an_event_in_cbor_is_the_same_event(client: httpx.Client) -> None:
    headers = {"content-type": "application/cbor", "accept": "application/cbor"}
    value: cbor.Value = dict(trip("c-1").items())
    body = cbor.encode({"schema": WANTED, "value": value, "submission_id": "c-1"})
    answer = client.post("/v1/events", content=body, headers=headers)
    again = send(client, event("c-1", submission_id="c-1"))

    assert answer.status_code == 200, answer.text
    found: Any = cbor.decode_record(answer.content)
    assert found["to"] == [{"workflow": "trip/booking@1", "key": "c-1"}]
    assert again.json()["duplicate"] is True
    assert again.json()["seq"] == found["seq"]


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        ({}, 400, "schema is missing"),
        ({"schema": WANTED}, 400, "value is missing"),
        ({"shema": WANTED, "value": {}}, 400, "did you mean schema?"),
        ({"schema": 7, "value": {}}, 400, "expected text, found 7"),
        ([], 400, "expected an object, found a list"),
        ({"items": []}, 400, "1 to 1024 items, found 0"),
        ({"schema": "a" * 513, "value": {}}, 400, "1 to 512 characters"),
        ({"schema": "trip/Nothing@1", "value": {}}, 404, "trip/Nothing@1"),
        ({"schema": WANTED, "value": {"trip_id": "x"}}, 422, "city"),
        ({"schema": WANTED, "value": {**trip("x"), "more": 1}}, 422, "more"),
    ],
)
def test_a_body_that_is_not_understood_is_a_problem(
    client: httpx.Client, body: Any, status: int, part: str
) -> None:
    answer = send(client, body)

    assert answer.status_code == status, answer.text
    assert part in answer.json()["detail"]
    assert answer.json()["type"] == f"urn:aos:{answer.json()['rule']}"


def test_the_body_of_a_plain_curl_is_read_as_json(client: httpx.Client) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = client.post("/v1/events", content=json.dumps(event("curl-1")), headers=headers)

    assert answer.status_code == 200, answer.text


def test_a_key_with_slashes_percent_signs_and_nul_is_read_back(client: httpx.Client) -> None:
    for id in ("a/b", "50%", "a\x00b", "?&=#", "\u00e9 \U0001f600"):
        assert send(client, event(id), wait="ran").status_code == 200
        shown = client.get("/v1/cell", params={"workflow": "booking", "key": f'"{_json(id)}"'})
        assert shown.status_code == 200, shown.text
        assert shown.json()["key"] == id


def _json(text: str) -> str:
    return text.replace("\x00", "\\u0000")
