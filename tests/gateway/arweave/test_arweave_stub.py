"""The stub behaves as a node, survives ``kill -9``, and does the mischief that a test asks for."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aos_gateway.arweave.base64url import encode_base64url
from aos_gateway.arweave.bundle_transaction import sign_transaction
from tests.gateway.arweave.lab import (
    HTTP,
    StubLab,
    address_of,
    content_of_size,
    keys,
    stub,
    stub_lab,
)

REWARD = 601_000_000


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StubLab]:
    with stub_lab(tmp_path_factory.mktemp("stub")) as lab:
        yield lab


@pytest.fixture
def lab(shared: StubLab) -> StubLab:
    shared.set_balance(10**15)
    return shared


def get(lab: StubLab, path: str) -> httpx.Response:
    return HTTP.get(lab.url + path)


def post(lab: StubLab, document: object) -> httpx.Response:
    return HTTP.post(f"{lab.url}/tx", json=document)


def transaction(lab: StubLab, content: bytes, *, reward: int = REWARD) -> dict[str, Any]:
    anchor = get(lab, "/tx_anchor").text
    signed = sign_transaction(content, anchor=anchor, reward=reward, keys=keys())
    found: dict[str, Any] = json.loads(signed.body)
    return found


def test_a_transaction_waits_is_mined_and_is_charged_once(lab: StubLab) -> None:
    one = transaction(lab, b"one")

    assert post(lab, one).status_code == 200
    assert get(lab, f"/tx/{one['id']}/status").status_code == 202
    lab.mine(2)

    found = get(lab, f"/tx/{one['id']}/status").json()
    assert found["number_of_confirmations"] == 2
    assert get(lab, f"/tx/{one['id']}/data").text == one["data"]
    assert get(lab, f"/wallet/{keys().address}/balance").text == str(10**15 - REWARD)
    assert post(lab, one).status_code == 208


@pytest.mark.parametrize(
    "change",
    [
        {"id": encode_base64url(bytes(32))},
        {"data": encode_base64url(b"other")},
        {"data_size": "4"},
        {"data_root": encode_base64url(bytes(32))},
        {"reward": "602000000"},
        {"quantity": "1"},
        {"tags": []},
        {"format": 1},
        {"signature": encode_base64url(bytes(256))},
        {"last_tx": encode_base64url(bytes(48))},
        {"owner": "=="},
        {"reward": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_transaction_of_which_a_part_is_changed_is_refused(
    lab: StubLab, change: dict[str, object]
) -> None:
    document = {**transaction(lab, b"changed"), **change}

    answer = post(lab, document)

    assert answer.status_code == 400
    assert get(lab, f"/tx/{document['id']}/status").status_code == 404


def test_an_anchor_expires_after_fifty_blocks(lab: StubLab) -> None:
    old, older = transaction(lab, b"old"), transaction(lab, b"older")

    lab.mine(50)
    assert post(lab, old).status_code == 200
    lab.mine(1)
    assert post(lab, older).text == "Invalid anchor (last_tx)."


def test_a_reward_below_the_price_and_a_wallet_that_promised_too_much_are_refused(
    lab: StubLab,
) -> None:
    lab.mine()
    lab.set_balance(2 * REWARD - 1)

    assert post(lab, transaction(lab, b"cheap", reward=REWARD - 1)).status_code == 400
    assert post(lab, transaction(lab, b"first")).status_code == 200
    assert post(lab, transaction(lab, b"second")).status_code == 400


def test_a_long_transaction_has_the_data_root_of_several_chunks(lab: StubLab) -> None:
    """Two implementations, the executor's and the stub's, agree on it."""
    for size in (256 * 1024, 288 * 1024 - 1, 1280 * 1024 + 7):
        document = transaction(lab, content_of_size(size), reward=10**10)
        assert post(lab, document).status_code == 200, size


def test_mischief_is_done_as_often_as_it_is_planned(lab: StubLab) -> None:
    lab.tell("next", kind="answer", request="GET /info", status=503, body="<html>", times=2)
    lab.tell("next", kind="lose", request="GET /price/")

    assert [get(lab, "/info").status_code for _ in range(3)] == [503, 503, 200]
    with pytest.raises(httpx.RemoteProtocolError):
        get(lab, "/price/1")
    assert get(lab, "/price/1").text == "601000000"


def test_a_post_whose_answer_is_lost_is_kept_and_a_forgotten_one_is_not(lab: StubLab) -> None:
    lost, forgotten, late = (transaction(lab, name) for name in (b"lost", b"forgotten", b"late"))
    lab.tell("next", kind="lose", request="POST /tx")
    with pytest.raises(httpx.RemoteProtocolError):
        post(lab, lost)
    lab.tell("next", kind="forget", request="POST /tx")
    assert post(lab, forgotten).status_code == 200
    lab.tell("next", kind="delay", request="POST /tx", ms=1)
    assert post(lab, late).status_code == 200

    kept = lab.state()["transactions"]
    assert [each["id"] in kept for each in (lost, forgotten, late)] == [True, False, True]

    lab.tell("forget")
    assert lost["id"] not in lab.state()["transactions"]


def test_a_dropped_transaction_is_gone_and_other_bytes_are_returned(lab: StubLab) -> None:
    dropped, other = transaction(lab, b"dropped"), transaction(lab, b"bytes")
    post(lab, dropped)
    post(lab, other)
    lab.tell("drop", id=dropped["id"])
    lab.tell("other", id=other["id"])
    lab.mine()

    assert get(lab, f"/tx/{dropped['id']}/status").status_code == 410
    assert get(lab, f"/tx/{other['id']}/status").status_code == 200
    assert get(lab, f"/tx/{other['id']}/data").text == encode_base64url(b"byte\x8c")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/stub/next", {"kind": "explode", "request": "POST /tx"}),
        ("/stub/next", {"kind": "lose", "request": "POST /tx", "often": 1}),
        ("/stub/drop", {"id": "unknown"}),
        ("/stub/mine", {"blocks": "many"}),
        ("/stub/dance", {}),
        ("/tx", []),
        ("/elsewhere", {}),
    ],
)
def test_a_request_that_is_not_understood_changes_nothing(
    lab: StubLab, path: str, body: object
) -> None:
    before = lab.state()

    answer = HTTP.post(lab.url + path, json=body)

    assert answer.status_code == 400
    assert lab.state() == before


def test_the_state_survives_kill_9_and_a_cut_last_line(tmp_path: Path) -> None:
    log = tmp_path / "arweave.jsonl"
    with stub(log, "--block-ms", "0") as process:
        lab = StubLab(address_of(process))
        mined, waiting = transaction(lab, b"mined"), transaction(lab, b"waiting")
        post(lab, mined)
        lab.mine(3)
        post(lab, waiting)
        lab.tell("next", kind="lose", request="GET /info", times=2)
        with pytest.raises(httpx.RemoteProtocolError):
            get(lab, "/info")
        before = lab.state()
        process.send_signal(signal.SIGKILL)
    with log.open("ab") as file:
        file.write(b'{"do":"forget","ids":')

    for _ in range(2):
        with stub(log, "--block-ms", "0") as process:
            lab = StubLab(address_of(process))
            assert lab.state() == before
            process.send_signal(signal.SIGKILL)

    assert set(before["transactions"]) == {mined["id"], waiting["id"]}
    assert log.read_bytes().endswith(b"}\n")
    with stub(log, "--block-ms", "0") as process, pytest.raises(httpx.RemoteProtocolError):
        get(StubLab(address_of(process)), "/info")


def test_the_clock_mines(tmp_path: Path) -> None:
    with stub(tmp_path / "arweave.jsonl", "--block-ms", "1") as process:
        lab = StubLab(address_of(process))
        one = transaction(lab, b"by the clock", reward=REWARD)
        height = lab.state()["height"]

        while lab.state()["height"] <= height:
            pass

        assert get(lab, f"/tx/{one['id']}/status").status_code == 404
