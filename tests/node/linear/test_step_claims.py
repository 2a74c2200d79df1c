"""Plan steps over HTTP: claims, leases, results, and bad input (spec/linear.md, L-30 to L-36)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
import pytest

from aos.values.cbor import encode
from aos.values.spelling import base64_text
from tests.node.linear.worlds import make_world
from tests.node.nodes import unread_claim
from tests.node.test_node_process import WAIT_S, started, wait_until

ONCE_A_LIFE: Final = 60_000
PLAN: Final[dict[str, Any]] = {
    "type": "slow", "version": 3, "steps": [{"type": "A", "lease_ms": ONCE_A_LIFE}, {"type": "B"}],
}  # fmt: skip


class Api:
    """Requests to a node, each answered with status and document."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self._names = iter(range(10_000))

    def post(self, path: str, **body: Any) -> tuple[int, Any]:
        answer = self.client.post(f"/v1/{path}", json=body)
        return answer.status_code, answer.json()

    def start(self, plan: Any = None, **more: Any) -> str:
        """Start an instance of its own; return its id."""
        id = f"i-{next(self._names)}"
        own = {**(plan or PLAN), "type": f"plan-{id}"} if not isinstance(plan, str) else plan
        status, document = self.post("linear/start", instance=id, plan=own, **more)
        assert status == 200, document
        return id

    def claim(self, id: str, claim: str = "c", worker: str = "w", **more: Any) -> list[Any]:
        status, document = self.post(
            "work/claim",
            worker=worker,
            claim=f"{id}-{claim}",
            steps=[{"name": f"plan-{id}/*"}],
            **more,
        )
        assert status == 200, document
        tasks: list[Any] = document["tasks"]
        return tasks

    def result(self, task: Any, /, *, worker: str = "w", **item: Any) -> Any:
        row = {"task": task["task"], "epoch": task["epoch"], **item}
        status, document = self.post("work/results", worker=worker, results=[row])
        assert status == 200, document
        return document["answers"][0]

    def show(self, id: str) -> Any:
        answer = self.client.get("/v1/linear/instance", params={"instance": id})
        assert answer.status_code == 200, answer.text
        return answer.json()


DONE: Final[dict[str, Any]] = {"outcome": {"status": "completed"}}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("linear")
    path = make_world(folder / "world")
    with (
        started(path, folder / "log") as node,
        httpx.Client(base_url=node.url, timeout=WAIT_S, trust_env=False) as client,
    ):
        yield Api(client)


def test_a_plan_is_carried_out(api: Api) -> None:
    id = api.start(biz_key="carried", context={"n": 1})

    [first] = api.claim(id)
    assert first | {"lease_until_ns": 0, "lease_ms": 0} == {
        "task": f"step:0:{id}", "kind": "step", "instance": id, "biz_key": "carried",
        "plan": f"plan-{id}", "version": 3, "step": "A", "step_seq": 0, "task_type": "READY_STEP",
        "attempt": 1, "max_attempts": 10, "epoch": 1, "lease_until_ns": 0, "lease_ms": 0,
        "context": {"n": 1}, "woken_by": None,
    }  # fmt: skip
    assert 50_000 < first["lease_ms"] <= ONCE_A_LIFE
    patch = {"n": None, "list": [1, "two"]}
    settled = api.result(first, outcome={"status": "completed", "patch": patch})
    assert settled["answer"] == "settled"
    assert api.result(first, outcome={"status": "completed", "patch": patch})["answer"] == "settled"
    [second] = api.claim(id, "c2")
    assert (second["step"], second["context"]) == ("B", {"list": [1, "two"]})
    out = [{"schema": "job/Done@1", "value": {"job": id}}]
    assert api.result(second, **DONE, outbound=out)["answer"] == "settled"

    found = api.show(id)
    assert (found["status"], found["next"]) == ("COMPLETED", "nothing: it has ended")


def test_the_same_claim_again_has_the_same_lease_and_another_waits(api: Api) -> None:
    id = api.start()
    [first] = api.claim(id)

    [again] = api.claim(id)

    assert (again["task"], again["epoch"]) == (first["task"], first["epoch"])
    assert api.claim(id, "other") == []
    assert api.claim(id, "c", worker="w2") == []


def test_a_claim_that_waits_gets_what_becomes_due(api: Api) -> None:
    id = api.start()
    [first] = api.claim(id)
    with ThreadPoolExecutor(1) as waiting:
        claimed = waiting.submit(api.claim, id, "c2", "w2", wait_ms=50_000)
        time.sleep(0.05)
        retry = {"status": "retry", "error": "not yet", "backoff_ms": 300}
        began_s = time.monotonic()
        assert api.result(first, outcome=retry)["answer"] == "settled"

        [second] = claimed.result()

    assert time.monotonic() - began_s >= 0.29
    assert (second["attempt"], second["epoch"], second["step"]) == (2, 2, "A")
    assert api.show(id)["last_error"] == "not yet"


def test_a_claim_gets_at_most_its_rooms_in_the_order_of_time(api: Api) -> None:
    plan = {"type": "many", "version": 1, "steps": [{"type": "X"}]}
    ids = []
    for number in range(5):
        status, _ = api.post("linear/start", instance=f"many-{number}", plan=plan)
        assert status == 200
        ids.append(f"many-{number}")
    steps = [{"name": "many/X", "max": 3}]

    _, found = api.post("work/claim", worker="w", claim="m1", steps=steps, max=10)
    _, rest = api.post("work/claim", worker="w", claim="m2", steps=steps, max=10)

    assert [each["instance"] for each in found["tasks"]] == ids[:3]
    assert [each["instance"] for each in rest["tasks"]] == ids[3:]


def test_a_lease_that_ends_is_given_to_another_worker_and_its_result_is_refused(api: Api) -> None:
    id = api.start({**PLAN, "steps": [{"type": "A", "lease_ms": 2_000}]})
    [first] = api.claim(id)

    [second] = api.claim(id, "c2", "w2", wait_ms=50_000)

    assert (second["epoch"], second["attempt"]) == (2, 2)
    late = api.result(first, **DONE)["problem"]
    assert (late["status"], late["rule"]) == (409, "stale_epoch")
    assert api.show(id)["last_error"] == "LEASE_EXPIRED"


def test_a_waiting_claim_of_a_worker_that_lost_a_lease_gets_nothing_until_it_is_heard(
    api: Api,
) -> None:
    """N-52b: a worker that stands still would burn one attempt after the other."""
    id = api.start({**PLAN, "steps": [{"type": "A", "lease_ms": 3_000}]})
    [task] = api.claim(id)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(api.claim, id, "c2", wait_ms=50_000)
        wait_until(lambda: api.show(id)["steps"][0]["attempts"] == 1)
        time.sleep(0.5)
        assert not waiting.done()
        lease = {"task": task["task"], "epoch": task["epoch"]}
        _, answer = api.post("work/heartbeat", worker="w", leases=[lease])
        assert answer["answers"][0]["answer"] == "lost"
        [again] = waiting.result()
        assert (again["attempt"], again["epoch"]) == (2, 2)

        other = pool.submit(api.claim, id, "c3", "w2", wait_ms=50_000)
        stopped = pool.submit(api.claim, id, "c4", wait_ms=3_000)
        [third] = other.result()
        assert (third["attempt"], third["epoch"]) == (3, 3)
        assert stopped.result() == []


def test_a_worker_that_released_its_lease_is_heard(api: Api) -> None:
    """N-52b, L-36"""
    id = api.start()
    [task] = api.claim(id)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(api.claim, id, "c2", wait_ms=50_000)
        time.sleep(0.3)
        lease = {"task": task["task"], "epoch": task["epoch"], "began": False}
        _, answer = api.post("work/release", worker="w", leases=[lease])
        assert answer["answers"][0]["answer"] == "released"
        [again] = waiting.result(timeout=60)
    assert (again["attempt"], again["epoch"]) == (2, 2)


def test_heartbeats_keep_a_lease_and_tell_of_a_cancel(api: Api) -> None:
    for lease_ms in (4_000, 60_000):
        id, asked_s = api.start(), time.monotonic()
        [task] = api.claim(id, lease_ms=lease_ms)
        lease = {"task": task["task"], "epoch": task["epoch"]}
        is_in_time, beat = True, {"answer": "leased", "lease_until_ns": 0}
        while is_in_time and time.time_ns() < task["lease_until_ns"] + 200_000_000:
            time.sleep(0.2)
            before_s, asked_s = asked_s, time.monotonic()
            _, beaten = api.post("work/heartbeat", worker="w", leases=[lease], lease_ms=lease_ms)
            [beat] = beaten["answers"]
            is_in_time = time.monotonic() - before_s < lease_ms / 1000
            assert beat["answer"] == "leased" or not is_in_time
        if is_in_time:
            break  # else the machine was too busy for heartbeats in time
    assert beat["lease_until_ns"] > task["lease_until_ns"]

    status, _ = api.post("linear/cancel", instance=id, reason="enough")

    assert status == 200
    _, beaten = api.post("work/heartbeat", worker="w", leases=[lease])
    assert beaten["answers"] == [{"task": task["task"], "answer": "canceled"}]
    assert api.result(task, **DONE)["problem"]["rule"] == "canceled"
    _, lost = api.post("work/heartbeat", worker="other", leases=[lease | {"task": "step:0:none"}])
    assert lost["answers"][0]["answer"] == "lost"


def test_a_released_plan_step_is_claimed_again_at_once(api: Api) -> None:
    id = api.start()
    [task] = api.claim(id)
    lease = {"task": task["task"], "epoch": task["epoch"], "began": True}

    _, released = api.post("work/release", worker="w", leases=[lease])

    assert released["answers"] == [{"task": task["task"], "answer": "released"}]
    [again] = api.claim(id, "c2", "w2", wait_ms=50_000)
    assert again["epoch"] == 2


def test_a_plan_step_that_its_worker_never_read_is_given_out_again_at_once(api: Api) -> None:
    """N-52a: the worker ended before it read the answer, or while the instance took its claim."""
    id = api.start()
    body = {
        "worker": "dead", "claim": f"{id}-dead", "wait_ms": 60_000,
        "steps": [{"name": f"plan-{id}/*"}],
    }  # fmt: skip
    unread_claim(str(api.client.base_url), body)
    [task] = api.claim(id, "alive", "alive", wait_ms=20_000)
    assert task["epoch"] == 2

    other = api.start()
    body |= {"claim": f"{other}-dead", "steps": [{"name": f"plan-{other}/*"}]}
    unread_claim(str(api.client.base_url), body, until_answered=False)
    [task] = api.claim(other, "alive", "alive", wait_ms=20_000)
    assert task["epoch"] in (1, 2)


def test_a_wait_ends_by_a_signal_with_its_payload(api: Api) -> None:
    id = api.start()
    [task] = api.claim(id)
    api.result(task, outcome={"status": "waiting", "event_type": "PAID"})
    assert api.show(id)["next"] == "it waits for a signal PAID"

    wake = {"instance": id, "type": "PAID", "event_id": "p-1", "payload": {"cents": 5}}
    assert api.post("linear/wake", **wake)[0] == 200
    assert api.post("linear/wake", **wake | {"payload": "another"})[0] == 200

    [task] = api.claim(id, "c2")
    assert task["woken_by"] == {"event_id": "p-1", "type": "PAID", "payload": {"cents": 5}}
    assert (task["attempt"], task["epoch"]) == (1, 2)


def test_two_starts_of_a_business_key_and_of_an_instance(api: Api) -> None:
    id = api.start(biz_key="taken")

    status, refused = api.post("linear/start", instance="other", plan=PLAN, biz_key="taken")
    assert (status, refused["rule"]) == (409, "taken")
    assert refused["detail"] == f"TAKEN: the running instance {id} has this business key"
    status, refused = api.post("linear/start", instance=id, plan=PLAN, biz_key="free")
    assert (status, refused["rule"]) == (409, "exists")
    missing = api.client.get("/v1/linear/instance", params={"instance": "other"})
    assert missing.status_code == 409

    assert api.post("linear/cancel", instance=id)[0] == 200
    for key, name in (("taken", "after-1"), ("free", "after-2")):
        assert api.post("linear/start", instance=name, plan=PLAN, biz_key=key)[0] == 200


def test_many_workers_claim_one_plan_step_and_one_gets_it(api: Api) -> None:
    id = api.start()
    count = 64
    ready = threading.Barrier(count)

    def claim(number: int) -> int:
        with httpx.Client(base_url=api.client.base_url, timeout=WAIT_S) as client:
            ready.wait()
            return len(Api(client).claim(id, f"c-{number}", f"w-{number}"))

    with ThreadPoolExecutor(count) as workers:
        assert sum(workers.map(claim, range(count))) == 1
    assert api.show(id)["steps"][0]["epoch"] == 1


@pytest.mark.parametrize(
    ("item", "rule", "pointer"),
    [
        ({"outcome": {"status": "completed"}, "outbound": [
            {"schema": "job/Unknown@1", "value": {}}]}, "result_does_not_fit",
         "/outbound/0/schema"),
        ({"outcome": {"status": "completed"}, "outbound": [
            {"schema": "job/Done@1", "value": {"job": 1}}]}, "result_does_not_fit",
         "/outbound/0/value"),
        ({"outcome": {"status": "completed"}, "outbound": [
            {"schema": "sys/EffectError@1", "value": {}}]}, "result_does_not_fit",
         "/outbound/0/schema"),
        ({"outcome": {"status": "completed"}, "outbound": [
            {"schema": "job/Audited@1", "value": {"job": "x"}}]}, "result_does_not_fit",
         "/outbound/0/schema"),
        ({"outcome": {"status": "dead", "error": ""}, "outbound": [
            {"schema": "aos/LinearCancel@1", "value": {}}]}, "result_does_not_fit",
         "/outbound/0/schema"),
        ({"outcome": {"status": "completed", "patch": {"big": "x" * 70_000}}}, "invalid", None),
        ({"outcome": {"status": "completed", "patch_cbor": "gQ=="}}, "result_does_not_fit",
         "/outcome/patch_cbor"),
        ({"outcome": {"status": "retry", "error": "x"}, "outbound": [
            {"schema": "job/Done@1", "value": {"job": "x"}}]}, "invalid", None),
    ],
)  # fmt: skip
def test_a_result_that_does_not_fit_leaves_the_lease(
    api: Api, item: dict[str, Any], rule: str, pointer: str | None
) -> None:
    id = api.start()
    [task] = api.claim(id)

    problem = api.result(task, **item)["problem"]

    assert (problem["status"], problem["rule"], problem.get("pointer")) == (422, rule, pointer)
    assert api.show(id)["steps"][0]["status"] == "RUNNING"
    assert api.result(task, **DONE)["answer"] == "settled"


def test_results_of_others_are_refused(api: Api) -> None:
    id = api.start()
    [task] = api.claim(id)

    refused = {
        "another worker": api.result(task, worker="w2", **DONE),
        "a future epoch": api.result(task | {"epoch": 7}, **DONE),
        "another plan step": api.result(task | {"task": f"step:1:{id}"}, **DONE),
        "no instance": api.result(task | {"task": "step:0:nothing"}, **DONE),
    }

    assert {name: each["problem"]["rule"] for name, each in refused.items()} == {
        "another worker": "lease_lost", "a future epoch": "stale_epoch",
        "another plan step": "stale_epoch", "no instance": "lease_lost",
    }  # fmt: skip
    assert api.result(task, **DONE)["answer"] == "settled"


@pytest.mark.parametrize(
    ("path", "body", "status", "rule"),
    [
        ("work/claim", {"steps": [{"name": "nothing"}]}, 400, "body_is_invalid"),
        ("work/claim", {"steps": [{"name": "a/b"}], "effects": [{"name": "x"}]}, 422,
         "claim_is_of_two_kinds"),
        ("linear/start", {"instance": "x", "plan": "unknown"}, 422, "start_is_invalid"),
        ("linear/start", {"instance": "x", "plan": "job", "version": 9}, 422, "start_is_invalid"),
        ("linear/start", {"instance": "x" * 300, "plan": "job"}, 422, "start_is_invalid"),
        ("linear/start", {"instance": "x", "plan": {"type": "a", "version": 1, "steps": []}}, 422,
         "start_is_invalid"),
        ("linear/start", {"instance": "x", "plan": {"type": "a", "version": 1, "steps": [
            {"type": "A", "lease_ms": 365 * 86_400_000}]}}, 422, "start_is_invalid"),
        ("linear/start", {"instance": "x", "plan": "job", "context": {"a": 1.5}}, 400,
         "body_is_malformed"),
        ("linear/start", {"instance": "x", "plan": "job", "context": {"a": "y" * 70_000}}, 422,
         "start_is_invalid"),
        ("linear/wake", {"instance": "nothing", "type": "T", "event_id": "e"}, 404,
         "instance_is_unknown"),
        ("linear/cancel", {"instance": "nothing"}, 404, "instance_is_unknown"),
        ("work/results", {"results": [{"task": "step:0:i", "epoch": 1, "status": "ok",
         "started_ns": 1, "finished_ns": 2}]}, 400, "body_is_invalid"),
        ("work/results", {"results": [{"task": "blake3:" + "0" * 64, "epoch": 1,
         "outcome": {"status": "completed"}}]}, 400, "body_is_invalid"),
    ],
)  # fmt: skip
def test_bad_requests_have_clear_answers(
    api: Api, path: str, body: dict[str, Any], status: int, rule: str
) -> None:
    more = {"worker": "w", "claim": "c"} if path == "work/claim" else {}
    more = {"worker": "w"} if path == "work/results" else more

    found, document = api.post(path, **more, **body)

    assert (found, document["rule"]) == (status, rule), document


@pytest.mark.parametrize("name", ["Claim", "Extend", "Result", "Reserved", "Released"])
def test_events_of_claims_are_not_taken_from_senders(api: Api, name: str) -> None:
    """L-31"""
    event = {"schema": f"aos/Linear{name}@1", "value": {}}

    status, document = api.post("events", **event)
    assert (status, document["rule"]) == (403, "event_is_internal")
    _, batch = api.post("events", items=[event, event])
    assert [each["problem"]["rule"] for each in batch["items"]] == ["event_is_internal"] * 2


def test_both_kinds_of_tasks_share_a_request(api: Api) -> None:
    id = api.start()
    [task] = api.claim(id)
    effect = {"task": "blake3:" + "0" * 64, "epoch": 1}

    _, beaten = api.post(
        "work/heartbeat", worker="w",
        leases=[effect, {"task": task["task"], "epoch": task["epoch"]}, effect],
    )  # fmt: skip

    assert [each["answer"] for each in beaten["answers"]] == ["lost", "leased", "lost"]


def test_bytes_are_kept_in_cbor(api: Api) -> None:
    id = api.start()
    [task] = api.claim(id)
    patch = base64_text(encode({"raw": b"\x00\xff"}))
    api.result(task, outcome={"status": "completed", "patch_cbor": patch})

    [task] = api.claim(id, "c2", form="cbor")

    assert task["context_cbor"] == base64_text(encode({"raw": b"\x00\xff"}))
    wait_until(lambda: api.show(id)["context"] == {"raw": {"$bytes": "AP8="}})
