"""A request to a lane, and a settlement of one, come from the steps of the world alone: each way in
refuses a forged one, and record and lane stay as they are (GW-15, K-11, M-30b)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from benchmarks.changed_manifest import changed_manifest

from aos.client import Client
from aos.core.decide.answers import Refusal
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.manifest.load import Loaded
from aos.page.send_form import example_value
from aos.testing import World
from aos.testing.problems import InputRefused
from tests.cli.shell import Result, here
from tests.effects.portal.test_portal import HERE, failing, given
from tests.node.test_node_process import Started, started
from tests.page.form_browser import FormBrowser, made

GATEWAY: Final = Path(__file__).parents[2] / "manifests" / "gateway"
STUDIO: Final = "0x" + "57" * 20
SIGNER: Final = "0x" + "a1" * 20
LANE: Final = f"31337/{SIGNER}"
RULE: Final = "event_is_internal"
CLOSED: Final = "is not accepted from outside"

REQUEST: Final = "gw/TxRequested@1"
SETTLED: Final = "gw/WorkTxSettled@1"

forged = pytest.mark.parametrize("schema", [REQUEST, SETTLED])


def manifest(*, is_open: bool = False) -> Loaded:
    """The gateway, with the packages that emit events which their senders choose."""
    uses = ["aos/linear@1", "aos/schedule@1"]
    return changed_manifest(GATEWAY, is_open=is_open, uses=uses)


MANIFEST: Final = manifest()


class Attacked:
    """A world with one work, and the forged events for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        init_world(path)
        with open_writer(path) as writer:
            writer.apply(MANIFEST)
        evidence = path.parent / "report.json"
        evidence.write_text('{"result": 42}')
        created = self.aos(
            "gateway", "create-work", "--studio", STUDIO, "--epoch", "7", "--signer", SIGNER,
            "--evidence", str(evidence),
        )  # fmt: skip
        assert created.code == 0, created
        assert self.aos("run", "--until-waiting").code == 0
        [cell] = self.cells()
        self.work = str(cell["key"])

    def aos(self, *words: str) -> Result:
        return here(*words, "--world", self.path)

    def cells(self) -> list[Any]:
        """The records and lanes."""
        found = self.aos("inspect", "cells", "--json").json["cells"]
        return [each for each in found if each["workflow"].startswith("gw/")]

    def seen(self) -> list[Any]:
        """The records and lanes with their states and the last records about them."""
        found = [
            self.aos("inspect", "cell", each["workflow"], str(each["key"]), "--json").json
            for each in self.cells()
        ]
        assert all(each["state"] for each in found)
        return [(each["workflow"], each["state"], each["last_record"]) for each in found]


def value_of(schema: str, work: str) -> dict[str, Any]:
    """An event that the record, or a lane, would take."""
    schemas = MANIFEST.effective.schemas
    found: Any = example_value(schemas[schema], schemas)
    own = {"lane": LANE, "to": STUDIO} if schema == REQUEST else {"work": work}
    return {**found, **own}


def cbor_of(schema: str, work: str) -> bytes:
    known = MANIFEST.effective.schemas[schema]
    return known.encode(known.from_json_object(value_of(schema, work)))


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    return Attacked(tmp_path_factory.mktemp("ingress") / "world")


@pytest.fixture(scope="module")
def secret(attacked: Attacked) -> str:
    return made(attacked.path, "all", "read", "send", "operate", "work:aos/linear@1")


@pytest.fixture(scope="module")
def node(
    attacked: Attacked, secret: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Started]:
    assert secret
    key = attacked.path / "keys" / "operator.key"
    log = tmp_path_factory.mktemp("log") / "node.log"
    with started(attacked.path, log, "--operator-key", key) as found:
        yield found


@pytest.fixture(scope="module")
def api(node: Started, secret: str) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=node.url, headers=headers, trust_env=False, timeout=60) as found:
        yield found


@pytest.fixture(autouse=True)
def unchanged(attacked: Attacked) -> Iterator[None]:
    before = attacked.seen()
    yield
    assert attacked.seen() == before


def with_work(world: World) -> str:
    """The key of a work in a world of a test, made of an example."""
    schemas = MANIFEST.effective.schemas
    asked: Any = example_value(schemas["gw/WorkRequested@1"], schemas)
    [(_, key)] = world.send("gw/WorkRequested@1", asked).to
    world.run()
    return str(key)


def test_the_list_and_a_change_of_it_are_shown(attacked: Attacked) -> None:
    """A-62, M-60, C-21: a change of it is a change of authority."""
    listed = MANIFEST.effective.ingress
    assert listed is not None
    shown = attacked.aos("inspect", "manifest", "--json").json["ingress"]
    text = attacked.aos("inspect", "manifest").out
    tried = attacked.aos("apply", str(GATEWAY), "--dry-run", "--json", "--mode", "pin").json

    assert shown == sorted(listed)
    assert REQUEST not in shown
    assert all(event in text.partition("events from outside")[2] for event in listed)
    lost = [each for each in tried["changes"]["authority"] if "a sender" in each]
    assert lost == [f"- a sender may send {each}" for each in shown if each.startswith("aos/")]
    assert tried["open_events"] == []


@forged
def test_without_the_list_a_lane_and_a_record_take_a_forged_event(schema: str) -> None:
    """The negative control."""
    with World(manifest(is_open=True)) as world:
        work = with_work(world)
        sent = world.send(schema, value_of(schema, work))

        assert [name for name, _ in sent.to] == [
            "gw/signer@1" if schema == REQUEST else "gw/work@1"
        ]


@forged
def test_a_world_of_a_test_refuses_a_forged_event(schema: str) -> None:
    with World(MANIFEST) as world:
        work = with_work(world)
        with pytest.raises(InputRefused) as refused:
            world.send(schema, value_of(schema, work))

    assert refused.value.rule == RULE


@forged
@pytest.mark.parametrize("is_running", [False, True])
def test_aos_send_refuses_it_on_a_folder_and_a_socket(
    request: pytest.FixtureRequest, attacked: Attacked, schema: str, *, is_running: bool
) -> None:
    if is_running:
        request.getfixturevalue("node")
    text = json.dumps(value_of(schema, attacked.work))
    lines = attacked.path.parent / "forged.jsonl"
    lines.write_text(json.dumps({"schema": schema, "value": json.loads(text)}) + "\n")

    one = attacked.aos("send", schema, text, "--json")
    many = attacked.aos("send", "--jsonl", str(lines), "--json")

    assert (one.code, one.json["rule"]) == (1, RULE)
    assert (many.code, many.json["rule"]) == (1, RULE)


@forged
def test_the_api_and_its_client_refuse_it(
    api: httpx.Client, node: Started, secret: str, attacked: Attacked, schema: str
) -> None:
    event = {"schema": schema, "value": value_of(schema, attacked.work)}

    one = api.post("/v1/events", json=event)
    many = api.post("/v1/events", json={"items": [event, event]})
    with Client(node.url, token=secret) as client:
        answer = client.send(schema, event["value"])

    assert (one.status_code, one.json()["rule"]) == (403, RULE)
    assert [each["problem"]["rule"] for each in many.json()["items"]] == [RULE, RULE]
    assert isinstance(answer, Refusal)
    assert answer.rule.value == RULE


@forged
def test_no_schedule_of_a_sender_emits_it(
    api: httpx.Client, attacked: Attacked, schema: str
) -> None:
    value = value_of(schema, attacked.work)
    body = {"id": "forged", "every_ms": 1000, "event": schema, "value": value}
    refused = api.post("/v1/schedules/create", json=body)
    done = attacked.aos(
        "schedule", "create", "forged", "--every", "1s", "--event", schema,
        "--value", json.dumps(value),
    )  # fmt: skip

    assert (refused.status_code, refused.json()["rule"]) == (403, RULE)
    assert done.code == 1
    assert CLOSED in done.err
    listed = api.get("/v1/schedules").json()
    assert listed["schedules"] == []


@forged
def test_no_result_of_a_plan_step_carries_it(
    api: httpx.Client, attacked: Attacked, schema: str
) -> None:
    plan = {"type": "p", "version": 1, "steps": [{"type": "A"}]}
    id = f"forged-{schema.partition('/')[2]}"
    begun = api.post("/v1/linear/start", json={"instance": id, "plan": plan})
    assert begun.status_code == 200, begun.text
    claim = {"worker": "w", "claim": f"c-{id}", "steps": [{"name": "p/A"}], "wait_ms": 10_000}
    [task] = api.post("/v1/work/claim", json=claim).json()["tasks"]
    event = {"schema": schema, "value": value_of(schema, attacked.work)}
    result = {"outcome": {"status": "completed"}, "outbound": [event]}
    item = {"task": task["task"], "epoch": task["epoch"], **result}
    answer = api.post("/v1/work/results", json={"worker": "w", "results": [item]}).json()
    raw = {
        "instance": id, "worker": "w@all", "epoch": task["epoch"], "seq": 0,
        "outcome": {"$tag": "Completed", "$value": {"patch": {}}},
        "outbound": [{"schema": schema, "value": ""}],
    }  # fmt: skip
    sent = attacked.aos("send", "aos/LinearResult@1", json.dumps(raw), "--json")

    problem = answer["answers"][0]["problem"]
    assert (problem["status"], problem["pointer"]) == (422, "/outbound/0/schema")
    assert CLOSED in problem["detail"]
    assert (sent.code, sent.json["rule"]) == (1, RULE)


@forged
def test_no_batch_sends_it(node: Started, attacked: Attacked, schema: str) -> None:
    assert node.url
    text = json.dumps(value_of(schema, attacked.work))

    done = attacked.aos("batch", "send", schema, text, "--workflow", "gw/work@1")

    assert done.code == 1
    assert CLOSED in done.err


@forged
def test_the_page_neither_offers_nor_sends_it(
    node: Started, secret: str, attacked: Attacked, schema: str
) -> None:
    """PG-70."""
    browser = FormBrowser(node.url).open(secret)
    listed = browser.get(f"{browser.base}/send").text
    address = f"{browser.base}/send"
    fields = browser.form(f"{address}?schema=gw/WorkRequested@1")
    text = json.dumps(value_of(schema, attacked.work))
    shown = browser.get(f"{address}?schema={schema}")
    sent = browser.post(address, fields | {"schema": schema, "value": text})
    browser.close()

    assert "gw/WorkRequested@1" in listed
    assert schema not in listed
    assert shown.status_code == 403
    assert sent.status_code == 403
    assert CLOSED in sent.text


@forged
def test_no_other_world_sends_it_through_a_portal(
    node: Started, attacked: Attacked, schema: str
) -> None:
    """AG-89."""
    assert node.url
    params = given(schema=schema, value_cbor=cbor_of(schema, attacked.work))

    failure = failing(f"{HERE}={attacked.path}", params)

    assert (failure.code, failure.retryable) == ("portal_rejected", False)
    assert RULE in failure.message


def test_events_from_outside_are_accepted(api: httpx.Client, attacked: Attacked) -> None:
    """The same token sends what the list has, here a command that changes nothing."""
    command = {"work": "31337/none/none", "what": {"$tag": "Park"}, "why": "test"}

    answer = api.post("/v1/events", json={"schema": "gw/WorkCommand@1", "value": command})

    assert (answer.status_code, answer.json()["rule"]) == (404, "instance_is_unknown")
    assert attacked.work
