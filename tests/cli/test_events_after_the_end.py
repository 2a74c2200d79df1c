"""Events for flows that have ended, by each way in (spec/flow.md, FL-83): ``aos send`` on a folder
and to a node, ``POST /v1/events``, and the form of the page."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aos.host.door.writer import Item, open_writer
from aos.manifest.load import load
from aos.values.cbor import encode
from tests.cli.shell import Result, here, in_silence
from tests.cli.test_commands import is_sound
from tests.cli.test_flow import (
    comes,
    empty,
    ended,
    input_of,
    live,
    send,
    template,
    with_another_listener,
)
from tests.copies import copied
from tests.flow import shop
from tests.flow.histories import state
from tests.node.test_node_process import Started, started
from tests.page.form_browser import FormBrowser
from tests.page.test_send_form import Filled, record_of

__all__ = ["empty", "template"]

OTHER = "shop/other@1"
"""Another flow that listens for Cancel."""

OVER = [f"over-{number}" for number in range(8)]
"""Keys of flows of ``shop.ORDER`` that have ended; the other flow has none of these keys."""


def paid(key: str) -> dict[str, Any]:
    return {"of": {"order_id": key}, "cents": 3, "out": None}


def cancel(key: str) -> dict[str, Any]:
    """A message after which the flow is completed, as it was."""
    return {"order_id": key, "why": "", "out": text(ended_out(key))}


def ended_out(key: str) -> bytes:
    return shop.step(state(status="completed", inputs=input_of(key)), status="completed")


def text(out: bytes) -> str:
    """The output of a step in JSON."""
    return base64.b64encode(out).decode()


def item(value: Any, id: str) -> Item:
    return Item(schema=shop.PAID, value=encode(value), submission_id=id)


@pytest.fixture(scope="module")
def late(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``soon`` took a payment under the id ``paid-soon`` and then ended."""
    path = copied(template, tmp_path_factory.mktemp("late") / "world")
    given = shop.files()
    given["m.air.json"] = json.dumps(with_another_listener()).encode()
    with open_writer(path) as writer:
        writer.apply(load(given), mode="pin")
    over = [ended(key, "completed") for key in ("soon", *OVER)]
    send(path, live("soon"), item(paid("soon"), "paid-soon"), *over)
    return path


@pytest.fixture
def world(late: Path, tmp_path: Path) -> Path:
    return copied(late, tmp_path / "world")


@pytest.fixture(scope="module")
def path(late: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the world that ``node`` serves."""
    return copied(late, tmp_path_factory.mktemp("late-node") / "world")


@pytest.fixture(scope="module")
def node(path: Path) -> Iterator[Started]:
    with started(path, path.parent / "node.log") as found:
        yield found


@pytest.fixture(scope="module")
def browser(node: Started) -> Iterator[FormBrowser]:
    found = FormBrowser(node.url)
    yield found
    found.close()


def last_record(path: Path) -> int:
    found = here("inspect", "world", "--json", "--world", path).json
    seq: int = found["journal"]["records"]
    return seq


def last_step(path: Path, key: str) -> int:
    found = here("flow", "show", "order", key, "--json", "--world", path).json
    seq: int = found["last_record"]
    return seq


def refusal(path: Path, key: str, status: str) -> str:
    return (
        f"shop/order@1 {key} is {status}: it accepts no more messages, and its last step is "
        f"record {last_step(path, key)} (aos flow show shop/order@1 {key})"
    )


ENDS = [("done", "completed"), ("gone", "canceled"), ("lost", "failed")]
IGNORED: dict[str, Callable[[str], Any]] = {
    shop.PAID: paid,
    shop.PLACED: shop.placed,
    shop.CONTROL: lambda key: {"instance": key, "command": {"$tag": "Continue"}},
}


def by_command(schema: str, value: Any, *where: str | Path, id: str | None = None) -> Result:
    named = () if id is None else ("--id", id)
    return here("send", schema, json.dumps(value), *named, *where)


@pytest.mark.parametrize(("key", "status"), ENDS)
def test_a_message_to_a_flow_that_has_ended_is_refused_by_every_way_in(
    path: Path, node: Started, browser: FormBrowser, key: str, status: str
) -> None:
    """FL-83, C-71"""
    before = last_record(path)
    event = {"schema": shop.PAID, "value": paid(key)}

    by_folder = by_command(shop.PAID, paid(key), "--world", path)
    by_node = by_command(shop.PAID, paid(key), "--node", node.url)
    as_json = by_command(shop.PAID, paid(key), "--json", "--world", path)
    signaled = here("flow", "signal", "order", key, "Paid", '{"cents": 3}', "--world", path)
    single = browser.client.post("/v1/events", json=event)
    batch = browser.client.post("/v1/events", json={"items": [event, event]})
    form = Filled(browser, shop.PAID).send(json.dumps(paid(key)))

    reason = refusal(path, key, status)
    assert by_folder == by_node == signaled == (1, "", f"aos: {reason}\n")
    assert (as_json.code, as_json.json["rule"], as_json.json["message"]) == (
        1, "cell_has_ended", reason,
    )  # fmt: skip
    problem = single.json()
    assert (single.status_code, problem["rule"], problem["detail"]) == (
        409,
        "cell_has_ended",
        reason,
    )
    assert [each["problem"] for each in batch.json()["items"]] == [problem, problem]
    assert form.status_code == 409
    assert f"{key} is {status}: it accepts no more messages" in form.text
    assert last_record(path) == before


@pytest.mark.parametrize("schema", IGNORED)
def test_everything_that_an_ended_flow_ignores_is_refused_without_a_record(
    world: Path, schema: str
) -> None:
    """FL-83: on a folder that no process runs"""
    before = last_record(world)

    found = by_command(schema, IGNORED[schema]("done"), "--world", world)

    assert found == (1, "", f"aos: {refusal(world, 'done', 'completed')}\n")
    assert last_record(world) == before


def test_in_a_batch_only_the_events_for_ended_flows_are_refused(
    path: Path, node: Started, browser: FormBrowser, tmp_path: Path
) -> None:
    """FL-83, N-115, C-23"""
    keys = ["done", "o-1", "gone", "new"]
    items = [{"schema": shop.PAID, "value": paid(key)} for key in keys]
    (tmp_path / "events").write_text("\n".join(json.dumps(each) for each in items))

    batch = browser.client.post("/v1/events", json={"items": items}).json()["items"]
    lines = here("send", "--jsonl", tmp_path / "events", "--json", "--world", path)

    assert [each.get("problem", {}).get("rule") for each in batch] == [
        "cell_has_ended", None, "cell_has_ended", None,
    ]  # fmt: skip
    assert lines.code == 1
    assert [each["answer"] for each in lines.lines] == ["refused", "admitted"] * 2


def test_a_flow_that_is_stuck_or_only_has_messages_takes_more_of_them(world: Path) -> None:
    """FL-83: such a flow has declared itself failed or completed, too (FL-7)"""
    waiting = shop.step(state(status="pending"), status="completed")
    send(world, comes("early", waiting))
    for key in ("stuck", "early", "never"):
        found = by_command(shop.PAID, paid(key), "--world", world)
        assert found.out.endswith(f"→ shop/order@1 {key}\n"), found
    is_sound(world)


def test_a_flow_that_an_operator_ended_in_progress_takes_its_messages(world: Path) -> None:
    """FL-83, K-109"""
    closed = here("cells", "end", "order", "o-1", "--as", "completed", "--world", world)
    found = by_command(shop.PAID, paid("o-1"), "--world", world)

    assert closed.code == 0, closed
    assert found.out.endswith("→ shop/order@1 o-1\n"), found


def test_a_submission_id_from_before_the_end_gets_its_answer_again(
    path: Path, node: Started, browser: FormBrowser
) -> None:
    """FL-83, K-12, C-71"""
    id = "paid-soon"
    event = {"schema": shop.PAID, "value": paid("soon"), "submission_id": id}
    other = {**event, "value": paid("done")}

    by_folder = by_command(shop.PAID, paid("soon"), "--json", "--world", path, id=id)
    by_node = by_command(shop.PAID, paid("soon"), "--json", "--node", node.url, id=id)
    signaled = here(
        "flow", "signal", "order", "soon", "Paid", json.dumps({"cents": 3, "out": None}), "--id",
        id, "--json", "--world", path,
    )  # fmt: skip
    single = browser.client.post("/v1/events", json=event).json()
    batch = browser.client.post("/v1/events", json={"items": [event, other]}).json()["items"]
    fresh = by_command(shop.PAID, paid("soon"), "--world", path, id="paid-soon-2")

    assert (single["duplicate"], single["to"]) == (True, [{"workflow": shop.ORDER, "key": "soon"}])
    assert batch[0] == single
    assert batch[1]["problem"]["rule"] == "submission_id_is_taken"
    for found in (by_folder, by_node, signaled):
        assert found.code == 0, found
        assert (found.json["answer"], found.json["seq"]) == ("duplicate", single["seq"])
    assert fresh.err == f"aos: {refusal(path, 'soon', 'completed')}\n"


def run_by_node(browser: FormBrowser, out: bytes) -> None:
    value = {**shop.placed("form"), "out": text(out)}
    event = {"schema": shop.PLACED, "value": value}
    found = browser.client.post("/v1/events", json=event, params={"wait": "ran"})
    assert found.status_code == 200, found.text


def test_a_form_from_before_the_end_is_answered_with_its_record(
    path: Path, node: Started, browser: FormBrowser
) -> None:
    """FL-83, PG-73"""
    begun = shop.step(state(inputs=input_of("form")))
    form = Filled(browser, shop.PAID)

    run_by_node(browser, begun)
    seq = record_of(form.send(json.dumps(paid("form"))))
    run_by_node(browser, ended_out("form"))
    again = form.send(json.dumps(paid("form")))
    changed = form.send(json.dumps(paid("form") | {"cents": 4}))

    assert record_of(again) == seq
    assert changed.status_code == 409
    assert "form is completed: it accepts no more messages" in changed.text
    assert "&#34;cents&#34;: 4" in changed.text, "the text is kept"
    assert here("flow", "show", "order", "form", "--json", "-w", path).json["inbox"] == []


def test_an_event_that_others_take_is_admitted_and_names_the_flow_that_ended(
    path: Path, node: Started, browser: FormBrowser, tmp_path: Path
) -> None:
    """FL-83, N-115, C-22, C-23"""
    client, folder, served = browser.client, ("--world", path), ("--node", node.url)
    events = [{"schema": shop.CANCEL, "value": cancel(key)} for key in OVER]
    (tmp_path / "events").write_text(json.dumps(events[7]))

    texts = [
        by_command(shop.CANCEL, cancel(OVER[0]), *folder),
        by_command(shop.CANCEL, cancel(OVER[1]), *served),
    ]
    documents = [
        by_command(shop.CANCEL, cancel(OVER[2]), "--json", *folder).json,
        by_command(shop.CANCEL, cancel(OVER[3]), "--json", *served).json,
        client.post("/v1/events", json=events[4]).json(),
        client.post("/v1/events", json={"items": [events[5]]}).json()["items"][0],
        client.post("/v1/events", json=events[6], params={"wait": "ran"}).json(),
    ]
    many = here("send", "--jsonl", tmp_path / "events", *folder)
    by_both = by_command(shop.CANCEL, cancel(OVER[6]), *folder)
    by_none = by_command(shop.CANCEL, cancel("o-1"), "--json", *folder)

    for key, found in zip(OVER, texts, strict=False):
        assert found.code == 0, found
        assert found.out.endswith(f"→ shop/order@1 {key}, shop/other@1 {key}\n")
        assert found.err == f"shop/order@1 {key} had ended, and ignores the event\n"
    for key, document in zip(OVER[2:], documents, strict=False):
        names = [{name: each[name] for name in ("workflow", "key")} for each in document["to"]]
        assert names == [{"workflow": each, "key": key} for each in (shop.ORDER, OTHER)]
        assert document["ended"] == names[:1]
    assert many.err == "1 event also went to flows that had ended\n"
    assert by_both.err == f"aos: {refusal(path, OVER[6], 'completed')}\n", (
        "the other has ended, too"
    )
    assert "ended" not in by_none.json


def test_a_key_whose_instance_was_removed_starts_a_new_flow(world: Path) -> None:
    """FL-83"""
    removed = here("cells", "remove", "order", "done", "--world", world)
    found = by_command(shop.PLACED, shop.placed("done"), "--world", world)

    assert removed.code == 0, removed
    assert found.out.endswith("→ shop/order@1 done\n"), found


def test_a_cancel_reaches_an_ended_flow_that_a_fault_stops(world: Path) -> None:
    """FL-83, C-72a: both events were admitted before the flow ended."""
    with open_writer(world) as writer:
        list(
            writer.send(
                [comes("odd", ended_out("odd")), comes("odd", shop.diverged(), shop.CANCEL)]
            )
        )
    in_silence("run", "--until-idle", "--world", world)

    before = here("flow", "show", "order", "odd", "--json", "-w", world).json["status"]
    message = by_command(shop.PAID, paid("odd"), "--world", world)
    canceled = here("flow", "cancel", "order", "odd", "--world", world)

    assert before == "faulted"
    assert message.code == 1
    assert "odd is completed: it accepts no more messages" in message.err
    assert canceled.code == 0, canceled
