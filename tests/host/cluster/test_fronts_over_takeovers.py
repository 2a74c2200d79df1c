"""Webhooks, forms and requests of the fronts, over takeovers and without an owner
(spec/cluster.md, CL-206, CL-210, CL-330 to CL-334)."""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aos.core.journal.records import Event, Step
from aos.host.folder.folder import open_folder
from aos.node.webhooks import event_id
from aos.values.cbor import encode
from aos.values.spelling import base64_text
from tests.host import puppet
from tests.host.cluster.fronts import NAMES, Fronts, event, patiently
from tests.host.cluster.node_processes import journal
from tests.page.browser import read_page
from tests.page.form_browser import FormBrowser

EMITTED = 20
ANSWERED = 3


def emitting(cell: str) -> dict[str, object]:
    """An event whose step emits another one."""
    item = {"schema": puppet.DO, "value": encode({"key": "sink", "out": None})}
    out: Any = {"state": encode(1), "domain_events": [item], "effects": [], "status": "running"}
    return {"schema": puppet.DO, "value": {"key": cell, "out": base64_text(encode(out))}}


def emitted_ids(group: Fronts) -> list[str]:
    """The ids of the events that steps have emitted, in the order of the journal."""
    folder = group.folders[group.owner]
    return [
        event_id(open_folder(folder).world, record.seq, index)
        for record in journal(folder)
        if isinstance(record, Step)
        for index, _ in enumerate(record.events)
    ]


def test_webhooks_continue_at_the_next_owner(group: Fronts) -> None:
    """CL-332: in order, none left out, and at most the post under way is repeated."""
    owner = group.owner
    before, begun = len(emitted_ids(group)), len(group.posts)
    group.answers.most = begun + ANSWERED
    items = [emitting(f"source-{number}") for number in range(EMITTED)]
    sent = group.http(group.standby).post("/v1/events?wait=ran", json={"items": items})
    assert sent.status_code == 200, sent.text

    def ids() -> list[str]:
        return [post.id for post in group.posts[begun:]]

    patiently(lambda: len(ids()) > ANSWERED, lambda: str(ids()))
    killed = group.kill_owner()
    assert killed == owner
    under_way = ids()[ANSWERED]
    group.answers.most = None
    patiently(lambda: len(set(ids())) >= EMITTED, lambda: str(ids()))
    group.start(killed)
    group.all_ready()
    expected = emitted_ids(group)[before:]
    assert len(expected) == EMITTED
    assert list(dict.fromkeys(ids())) == expected
    repeated = {id for id, count in Counter(ids()).items() if count > 1}
    assert repeated <= {under_way}


def test_a_standby_shows_tasks_and_batches_and_its_forms_reach_the_owner(group: Fronts) -> None:
    """CL-334"""
    owner, standby = group.owner, group.standby
    page = FormBrowser("http://node")
    page.client = group.http(standby)
    body = {"action": "send", "workflow": puppet.PUPPET, "event": puppet.DO, "rate": "1/min",
            "value": {"key": {"$cell": "key"}}, "id": "slow"}  # fmt: skip
    assert group.http(owner).post("/v1/events?wait=ran", json=event("one")).status_code == 200
    assert group.http(owner).post("/v1/events?wait=ran", json=event("two")).status_code == 200
    assert page.client.post("/v1/batches", json=body).status_code == 200
    for address, text in (("/batches", "slow"), ("/batch/slow", "running"), ("/tasks", "Tasks")):
        assert text in read_page(page.get(page.base + address)).text
    unknown = page.get(f"{page.base}/batch/none")
    assert (unknown.status_code, "there is no batch none" in unknown.text) == (404, True)

    stopped = page.press(f"{page.base}/batch/slow/stop")

    assert (stopped.status_code, stopped.headers["location"]) == (303, f"{page.base}/batch/slow")
    assert group.http(owner).get("/v1/batch?id=slow").json()["status"] == "stopped"
    assert page.get(f"{page.base}/batch/slow/stop").status_code == 409


def test_a_batch_continues_at_the_next_owner(group: Fronts) -> None:
    """CL-335 to CL-337: with the items as they were when it began, each once."""
    owner, standby = group.owner, group.standby
    items = [event(f"batched-{number}") for number in range(EMITTED)]
    sent = group.http(owner).post("/v1/events?wait=ran", json={"items": items})
    assert sent.status_code == 200, sent.text
    body = {"action": "send", "workflow": puppet.PUPPET, "event": puppet.DO, "rate": "10/s",
            "where": 'key ^= "batched-"', "value": {"key": {"$cell": "key"}},
            "id": "over"}  # fmt: skip
    begun = group.http(standby).post("/v1/batches", json=body)
    assert (begun.status_code, begun.json()["total"]) == (200, EMITTED), begun.text

    def batch(name: str) -> dict[str, object]:
        answer = group.http(name).get("/v1/batch?id=over")
        return dict(answer.json()) if answer.status_code == 200 else {}

    patiently(lambda: int(str(batch(owner).get("done", 0))) >= 3, lambda: str(batch(owner)))
    assert group.kill_owner() == owner
    later = event("batched-later", id="later")
    patiently(
        lambda: group.http(standby).post("/v1/events", json=later).status_code == 200,
        lambda: "the event is not admitted",
    )
    patiently(lambda: batch(standby).get("status") == "done", lambda: str(batch(standby)))
    done = batch(standby)
    assert (done["done"], done["refused"], done["total"]) == (EMITTED, 0, EMITTED)
    group.start(owner)
    group.all_ready()
    assert batch(owner) == done, "each node shows it"
    assert group.http(owner).post("/v1/batches", json=body).json() == done, "it is the same batch"
    ids = [
        record.submission_id
        for record in journal(group.folders[group.owner])
        if isinstance(record, Event) and str(record.submission_id).startswith("batch:over:")
    ]
    assert len(ids) == len(set(ids)) == EMITTED


def test_a_write_to_a_suspended_owner_is_carried_out_once_or_its_result_is_unknown(
    group: Fronts,
) -> None:
    """CL-206, CL-210: an event reaches the next owner; a batch goes to one owner only."""
    owner, standby = group.owner, group.standby
    batch = {"action": "send", "workflow": puppet.PUPPET, "event": puppet.DO,
             "value": {"key": "k"}}  # fmt: skip
    group.nodes[owner].signal(signal.SIGSTOP)
    try:
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(group.http(standby).post, "/v1/batches", json=batch)
            # The socket needs no token, which another test of these nodes makes.
            sent = group.http(standby).post("/v1/events", json=event("k", id="suspended"))
            refused = answer.result()
    finally:
        group.nodes[owner].signal(signal.SIGCONT)
    assert sent.status_code == 200, sent.text
    assert (refused.status_code, refused.json()["admitted"]) == (503, "unknown"), refused.text
    assert "retry-after" in refused.headers
    group.all_ready()


def test_a_write_without_an_owner_is_not_admitted(group: Fronts) -> None:
    """CL-206: after 30 s. The node that runs does not take over in this time."""
    standby = group.standby
    for name in NAMES:
        group.nodes[name].kill()
    group.start(standby, "--lease", "300")
    http = group.http(standby)
    patiently(
        lambda: group.serves(standby) and http.get("/healthz").json()["role"] == "standby",
        lambda: group.nodes[standby].output,
    )
    batch = {"action": "send", "workflow": puppet.PUPPET, "event": puppet.DO,
             "value": {"key": "k"}}  # fmt: skip
    with ThreadPoolExecutor() as pool:
        answers = [
            pool.submit(http.post, path, json=body, timeout=120).result
            for path, body in (
                ("/v1/events", event("k", id="unowned")),
                ("/v1/batches", batch),
                ("/v1/snapshots", None),
            )
        ]
        for answer in (result() for result in answers):
            assert answer.status_code == 503, answer.text
            assert answer.json()["admitted"] == "no", answer.text
            assert int(answer.headers["retry-after"]) > 0
    assert http.get("/v1/record?seq=1").status_code == 200, "it is read all the same"
    group.nodes[standby].kill()
    for name in NAMES:
        group.start(name)
    group.all_ready()
    again = group.http(group.owner).post("/v1/events", json=event("k", id="unowned"))
    assert again.json()["duplicate"] is False
