"""Failed effects, in the form that a module of the SDK decodes (AG-15, AG-16)."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cbor2
import pytest

from aos.core.decide.answers import Admitted
from aos.host.executors.agentos_http import in_their_form
from aos.manifest.builtin_definitions import EFFECTS, SCHEMAS
from aos.manifest.names import HTTP, KERNEL_EFFECTS
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import Hash
from aos.values.sha256 import sha256_text
from aos.worker.failure import AttemptFailure
from aos.worker.outcome import Outcome
from tests.agentos.test_forms import Play
from tests.agentos.world import ASK, THEIRS
from tests.cli.shell import Aos

GET: Value = {"method": "GET", "url": "http://a", "headers": {}}


def failed(code: str, status: str = "error") -> Outcome:
    failure = AttemptFailure(code=code, message="it is so", retryable=False)
    return Outcome(
        intent=Hash(bytes(32)), effect=HTTP, attempt=1, status=status, payload=failure.payload(),
        started_ns=3, finished_ns=5,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("code", "status", "params", "number"),
    [
        ("timeout", "timeout", GET, 598),
        ("http_connect_failed", "error", GET, 599),
        ("http_failed", "error", GET, 599),
        ("http_too_large", "error", GET, 599),
        ("http_bad_response", "error", GET, 599),
        ("http_bad_request", "error", {"method": "BREW", "url": "http://a", "headers": {}}, 405),
        ("http_bad_request", "error", {"method": "GET", "url": "ftp://a", "headers": {}}, 400),
        ("secret_host_denied", "error", GET, 400),
        ("secret_workflow_denied", "error", GET, 400),
    ],
)
def test_a_failed_request_is_a_receipt(code: str, status: str, params: Value, number: int) -> None:
    """AG-15."""
    outcome = in_their_form(encode(params), failed(code, status))

    receipt: Any = decode_record(outcome.payload)
    message = f"{code}: it is so".encode()
    assert outcome.status == status
    assert receipt == {
        "status": number,
        "headers": {},
        "body": None,
        "body_ref": sha256_text(message),
        "timings": {"start_ns": 3, "end_ns": 5},
    }
    assert message in outcome.blobs.values()


@pytest.mark.parametrize(("code", "status"), [("canceled", "canceled"), ("blob_missing", "error")])
def test_an_error_that_is_no_answer_of_a_request_stays_one(code: str, status: str) -> None:
    """AG-16."""
    outcome = failed(code, status)

    assert in_their_form(encode(GET), outcome) is outcome


def plainest(type_: Any, types: Mapping[str, Any]) -> Any:
    """The shortest value of a type."""
    ((form, inside),) = type_.items()
    if form == "ref":
        return plainest(types[inside]["type"], types)
    if form == "record":
        return {name: plainest(each, types) for name, each in inside.items()}
    if form == "variant":
        tag, arm = next(iter(inside.items()))
        is_unit = arm == {"unit": {}}
        return {"$tag": tag} if is_unit else {"$tag": tag, "$value": plainest(arm, types)}
    scalars = {
        "bool": False,
        "bytes": b"",
        "text": "",
        "hash": f"sha256:{64 * '0'}",
        "uuid": "00000000-0000-0000-0000-000000000000",
        "dec128": "0",
        "option": None,
        "list": [],
        "set": [],
        "map": {},
    }
    return scalars.get(form, 0)


@pytest.mark.parametrize("effect", sorted(set(THEIRS) - KERNEL_EFFECTS))
def test_a_receipt_that_is_no_receipt_of_its_effect_is_rejected(effect: str) -> None:
    """AG-16: cut short, of another schema, of another status; never in the receipt's arm."""
    receipt = plainest(SCHEMAS[EFFECTS[effect]["receipt"]]["type"], SCHEMAS)
    params = plainest(SCHEMAS[EFFECTS[effect]["params"]]["type"], SCHEMAS)
    if effect == "sys/blob.put@1":
        params["blob_ref"] = None
    whole = encode(receipt)
    for payload, status in (
        (whole[:-1], "ok"),
        (encode({"another": 1}), "ok"),
        (encode({"code": "broken", "message": "m", "retryable": False}), "error"),
        (whole[:-1], "timeout"),
    ):
        play = Play(effects=(effect,))
        intent = play.emit(effect, params)
        admitted = play.world.kernel.admit(
            play.world.receipt(intent, raw=payload, status=status), play.world.stamp()
        )
        play.run()

        told = play.told()
        assert isinstance(admitted, Admitted)
        assert (told["effect"], told["status"]) == (effect, status)
        assert told["error_code"] == "receipt_payload_invalid"
        assert "receipt_payload" not in told

    play = Play(effects=(effect,))
    intent = play.emit(effect, params)
    play.world.settle(intent, receipt, status="error")
    play.run()
    told_receipt: Any = decode_record(play.told()["receipt_payload"])
    if effect == HTTP:
        assert told_receipt.pop("adapter_id") == "node"
    assert told_receipt == receipt


@pytest.fixture
def world(aos: Aos, folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "world"
    aos("init", path)
    assert aos("apply", folder, "--abi", "agentos", world=path).code == 0
    return path


def ask(aos: Aos, world: Path, effect: str, params: object) -> None:
    data = base64.b64encode(cbor2.dumps(params)).decode()
    value = {"id": "abc", "effect": effect, "params": data}
    assert aos("send", "agentos/Ask@1", json.dumps(value), world=world).code == 0


def answers(aos: Aos, world: Path) -> list[Any]:
    found: list[Any] = aos("inspect", "cell", ASK, "abc", "--json", world=world).json["state"][
        "answers"
    ]
    return found


def test_a_refused_connection_traps_no_module(aos: Aos, world: Path) -> None:
    """AG-15: its SDK decodes the receipt before it looks at the status."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
        headers = {"accept": "text/plain"}
        url = f"http://{place}/"
        for method in ("GET", "BREW"):
            ask(aos, world, HTTP, {"method": method, "url": url, "headers": headers})
        ran = aos("run", "--until-idle", "--allow-http", place, world=world)

    first, second = sorted(answers(aos, world), key=lambda each: str(each["payload"]))
    assert ran.code == 0
    statuses = []
    for each in (first, second):
        receipt: Any = cbor2.loads(base64.b64decode(each["payload"]))
        statuses.append(receipt["status"])
        text = aos("inspect", "value", receipt["body_ref"], "--raw", world=world).out
        assert text.startswith(("http_connect_failed: ", "http_bad_request: method"))
    assert sorted(statuses) == [405, 599]
    assert {each["status"] for each in (first, second)} == {"error"}


def test_other_failures_are_rejected(aos: Aos, world: Path) -> None:
    """AG-16."""
    ask(aos, world, "sys/blob.get@1", {"blob_ref": "sha256:" + 64 * "0"})
    ask(aos, world, "sys/introspect.workflow_state@1", {"workflow": "x/y@1", "consistency": "head"})
    ask(aos, world, "sys/timer.set@1", {"deliver_at_ns": 2**62})
    aos("run", "--until-waiting", world=world)
    (timer,) = aos("inspect", "intents", "--json", world=world).json["intents"]
    assert aos("effects", "cancel", timer["intent"], world=world).code == 0
    aos("run", "--until-idle", world=world)

    found = answers(aos, world)
    assert {each["code"] for each in found} == {"receipt_payload_invalid"}
    assert sorted(each["message"].split(":")[0] for each in found) == [
        "blob_missing",
        "canceled",
        "workflow_unknown",
    ]
    assert all(each["payload"] is None for each in found)
