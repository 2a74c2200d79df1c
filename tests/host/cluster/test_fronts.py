"""A front on each node of a replicated world (spec/cluster.md, CL-200 to CL-213), with processes on
real servers."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from aos.client import Client
from aos.core.journal.records import Event, Receipt
from aos.errors import AosError
from tests.cli.shell import here
from tests.host import puppet
from tests.host.cluster.fronts import NAMES, SERVING, Fronts, event, patiently
from tests.host.cluster.node_processes import journal, waits


def test_reads_of_a_standby_are_those_of_the_owner_at_the_same_record(group: Fronts) -> None:
    """CL-200 to CL-204: what a standby takes is admitted by the owner, once, and can be read there
    at once."""
    owner, standby = group.owner, group.standby
    answer = group.http(standby).post("/v1/events", json=event("x", id="one"))
    assert answer.status_code == 200, answer.text
    seq = answer.json()["seq"]
    assert group.http(standby).get(f"/v1/record?seq={seq}").json()["submission_id"] == "one"
    again = group.http(standby).post("/v1/events?wait=settled", json=event("x", id="one"))
    assert again.json()["duplicate"] is True
    unknown = group.http(standby).post("/v1/events", json={"schema": "no/Such@1", "value": {}})
    assert (unknown.status_code, unknown.json()["rule"]) == (404, "event_schema_is_unknown")
    admitted = group.http(owner).post("/v1/events?wait=ran", json=event("y")).json()
    for path in ("/v1/records?from=1", "/v1/record?seq=2", "/v1/cell?workflow=puppet&key=y"):
        fresh = f"{path}{'&' if '?' in path else '?'}fresh=1"
        answers = [group.http(name).get(fresh) for name in (standby, owner)]
        assert answers[0].json() == answers[1].json()
        assert answers[0].headers["aos-as-of"] == answers[1].headers["aos-as-of"]
        assert int(answers[0].headers["aos-as-of"]) >= admitted["seq"]
    health = {name: group.http(name).get("/healthz").json() for name in (standby, owner)}
    assert health[standby]["role"] == "standby"
    assert health[owner] == {"ok": True, "role": "owner", "lag": 0}
    metrics = group.http(standby).get("/metrics").text
    assert "aos_replica_is_owner 0.0" in metrics
    assert "aos_replica_lag_messages" in metrics


@contextmanager
def following(group: Fronts, addresses: str) -> Iterator[list[int]]:
    """The numbers of the records that a client with several addresses follows in the block."""
    numbers: list[int] = []
    over = threading.Event()

    def follow() -> None:
        with Client(addresses) as client:
            for record in client.follow(after=0):
                numbers.append(record["seq"])
                if over.is_set():
                    return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    yield numbers
    over.set()
    name = group.owner
    group.http(name).post("/v1/events", json=event("the end"))
    thread.join(60)
    assert not thread.is_alive()


def test_a_client_of_three_nodes_survives_the_kill_of_the_owner(group: Fronts) -> None:
    """CL-204, CL-208, CL-212: each event is admitted once, and a stream has each record once."""
    first = group.owner
    order = [first, *(name for name in NAMES if name != first)]
    addresses = ",".join(map(group.url, order))
    acknowledged: list[str] = []
    over = threading.Event()

    def send() -> None:
        with Client(addresses) as client:
            while not over.is_set():
                name = f"sent-{len(acknowledged)}"
                try:
                    client.send(puppet.DO, {"key": "k"}, id=name, timeout_s=60)
                except AosError:
                    continue
                acknowledged.append(name)

    # A reader of the socket of a standby keeps its connection: the front changes its role in place.
    standby = order[1]
    front_lines = group.nodes[standby].output.count(SERVING)
    with (
        following(group, addresses) as numbers,
        following(group, group.url(standby)) as at_standby,
    ):
        sender = threading.Thread(target=send)
        sender.start()
        patiently(lambda: len(acknowledged) >= 3, lambda: "nothing is acknowledged")
        killed = group.kill_owner()
        count = len(acknowledged)
        patiently(lambda: len(acknowledged) >= count + 3, lambda: "nothing is acknowledged")
        over.set()
        sender.join()
        group.start(killed)
        group.all_ready()
    for stream in (numbers, at_standby):
        assert stream == list(range(1, len(stream) + 1))
    assert numbers[-1] > 10
    assert group.nodes[standby].output.count(SERVING) == front_lines
    records = journal(group.folders[group.owner])
    names = Counter(record.submission_id for record in records if isinstance(record, Event))
    assert all(names[name] == 1 for name in acknowledged)


def test_a_worker_at_a_standby_completes_effects_over_a_takeover(group: Fronts) -> None:
    """CL-210, CL-211: no attempt is given out twice, and each effect is settled once."""
    owner = group.owner
    standby = next(name for name in NAMES if name != owner)
    http = group.http(standby)
    sent = http.post("/v1/events", json=event("worker", "p", "q"))
    assert sent.status_code == 200, sent.text
    attempts: Counter[tuple[str, int]] = Counter()

    def claim(name: str, wait_ms: int = 5_000) -> list[dict[str, Any]]:
        body = {
            "worker": "w1", "claim": name, "wait_ms": wait_ms,
            "effects": [{"name": puppet.ECHO}],
        }  # fmt: skip
        answer = http.post("/v1/work/claim", json=body)
        if answer.status_code != 200:
            assert answer.status_code == 503, answer.text
            return []
        return list(answer.json()["tasks"])

    def report(task: dict[str, Any]) -> str:
        now_ns = time.time_ns()
        result = {
            "task": task["task"], "epoch": task["epoch"], "status": "ok",
            "payload": task["params"], "started_ns": now_ns, "finished_ns": now_ns,
        }  # fmt: skip
        answer = http.post("/v1/work/results", json={"worker": "w1", "results": [result]})
        if answer.status_code != 200:
            return str(answer.json()["rule"])
        [item] = answer.json()["answers"]
        return str(item.get("answer") or item["problem"]["rule"])

    numbers, claimed = itertools.count(), list[tuple[str, dict[str, Any]]]()

    def has_task() -> bool:
        name = f"c-{next(numbers)}"
        claimed[:] = [(name, task) for task in claim(name)]
        return bool(claimed)

    patiently(has_task, lambda: "there is no task")
    [(name, task)] = claimed
    attempts[task["task"], task["epoch"]] += 1
    again = claim(name)
    assert [(item["task"], item["epoch"]) for item in again] == [(task["task"], task["epoch"])]
    beat = {"worker": "w1", "leases": [{"task": task["task"], "epoch": task["epoch"]}]}
    beaten = http.post("/v1/work/heartbeat", json=beat).json()
    assert beaten["answers"][0]["answer"] == "leased"
    [listed] = http.get("/v1/work/tasks").json()["tasks"]
    assert listed["worker"] == "w1"
    killed = group.kill_owner()
    # The table of leases of the next owner is empty: the old attempt is over.
    patiently(lambda: report(task) == "lease_is_over", lambda: "the result has no answer")
    settled: set[str] = set()

    def all_settled() -> bool:
        for item in claim(f"c-{time.monotonic_ns()}", 1_000):
            attempts[item["task"], item["epoch"]] += 1
            if report(item) in ("settled", "duplicate"):
                settled.add(item["task"])
        return len(settled) == 2

    patiently(all_settled, lambda: str(attempts))
    assert max(attempts.values()) == 1
    group.start(killed)
    group.all_ready()
    receipts = Counter(
        record.intent
        for record in journal(group.folders[group.owner])
        if isinstance(record, Receipt)
    )
    assert sorted(receipts.values()) == [1, 1]


def test_tokens_are_those_of_each_node(group: Fronts) -> None:
    """CL-209. It comes last: a node that has had a token needs one over TCP from then on."""
    standby, owner = group.standby, group.owner
    secret = here(
        "token", "create", "reader", "--scope", "read", "--world", group.folders[standby], "--json"
    ).json["token"]
    path = "/v1/record?seq=1"
    with httpx.Client(base_url=group.url(standby), timeout=60) as client:
        waits(lambda: client.get(path).status_code == 401)
        headers = {"authorization": f"Bearer {secret}"}
        assert client.get(path, headers=headers).status_code == 200
        wrong = {"authorization": f"Bearer {secret[:-4]}AAAA"}
        assert client.get(path, headers=wrong).status_code == 401
        body = {"worker": "w", "claim": "c"}
        assert client.post("/v1/work/claim", json=body, headers=headers).status_code == 403
        # The header of another front counts on the node's own socket alone.
        forged = {**headers, "aos-caller": '{"name": "owner", "scopes": ["work"]}'}
        assert client.post("/v1/work/claim", json=body, headers=forged).status_code == 403
    assert httpx.get(f"{group.url(owner)}{path}", timeout=60).status_code == 200
    assert here("token", "revoke", "reader", "--world", group.folders[standby]).code == 0
