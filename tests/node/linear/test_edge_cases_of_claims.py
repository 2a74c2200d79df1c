"""The edge cases of `spec/linear.md` that need a node, in both modes: 6, 38 and 41; two versions of
one plan, and a new module, while instances run."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from aos.host.door.writer import open_writer
from aos.manifest.load import load
from aos.manifest.packages import package
from aos.values.digests import hash_text
from tests.cli.shell import here, start
from tests.node.linear.test_step_claims import DONE, Api
from tests.node.linear.worlds import PLAN, make_world, manifest
from tests.node.test_node_process import WAIT_S, Started, started, wait_until

MODES: Final = ("standard", "source")
DAY_NS: Final = 86_400 * 10**9

CLOCK: Final = '''"""Handlers in a process whose clock is a day off."""

import time

real = time.time_ns
time.time_ns = lambda: real() + {shift}
time.time = lambda: time.time_ns() / 10**9

from aos.worker import Executors, step


@step("job/WORK")
def work(context, ctx):
    return {{"attempt": ctx.attempt}}


jobs = Executors("jobs", [work])
'''


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    folder = tmp_path_factory.mktemp("edge")
    with started(make_world(folder / "world"), folder / "log") as running:
        yield running


@pytest.fixture
def api(node: Started) -> Iterator[Api]:
    with httpx.Client(base_url=node.url, timeout=WAIT_S, trust_env=False) as client:
        yield Api(client)


def begin(api: Api, id: str, plan: dict[str, Any], mode: str) -> str:
    status, document = api.post("linear/start", instance=id, plan=plan, mode=mode)
    assert status == 200, document
    return id


def claimed(
    api: Api, worker: str, names: list[str], most: int = 10, lease_ms: int = 600_000
) -> list[str]:
    status, document = api.post(
        "work/claim", worker=worker, claim=f"{worker}-{time.monotonic_ns()}", max=most,
        steps=[{"name": name, "max": most} for name in names], lease_ms=lease_ms,
    )  # fmt: skip
    assert status == 200, document
    return [each["instance"] for each in document["tasks"]]


@pytest.mark.parametrize("mode", MODES)
def test_06_a_claim_has_ready_and_expired_plan_steps_by_time_and_then_timeouts(
    api: Api, mode: str
) -> None:
    """READY by next_run_at and expired RUNNING by locked_until, then WAITING by deadline; at most
    as many as are asked for."""
    plan = {"type": f"six-{mode}", "version": 1, "steps": [{"type": "A"}]}
    any_ = [f"six-{mode}/A"]
    waits = begin(api, f"{mode}-waits", plan, mode)
    [task] = api.post(
        "work/claim", worker="w", claim=waits, steps=[{"name": any_[0]}], lease_ms=600_000
    )[1]["tasks"]
    waiting = {"status": "waiting", "event_type": "GO", "timeout_ms": 1}
    assert api.result(task, outcome=waiting)["answer"] == "settled"
    time.sleep(0.01)
    expires = begin(api, f"{mode}-expires", plan, mode)
    first = begin(api, f"{mode}-a", plan, mode)
    assert claimed(api, "lost", any_, 1, lease_ms=1_000) in (
        [expires],
        [],
    )  # it may be over already
    assert api.show(expires)["steps"][0]["epoch"] == 1
    time.sleep(1.2)
    last = begin(api, f"{mode}-b", plan, mode)

    batch = claimed(api, "w1", any_, 3)
    rest = claimed(api, "w2", any_, 3)

    assert batch == [first, expires, last]
    assert rest == [waits]
    assert claimed(api, "w3", any_) == []


@pytest.mark.parametrize("mode", MODES)
def test_38_a_plan_step_without_a_handler_is_never_claimed(api: Api, mode: str) -> None:
    id = begin(
        api, f"{mode}-38", {"type": f"p38-{mode}", "version": 1, "steps": [{"type": "ODD"}]}, mode
    )

    assert claimed(api, "w", [f"p38-{mode}/EVEN", "other/ODD", "*/EVEN"]) == []
    plan_step = api.show(id)["steps"][0]
    assert (plan_step["status"], plan_step["epoch"], plan_step["attempts"]) == ("READY", 0, 0)
    assert claimed(api, "w", ["*/ODD"]) == [id]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shift_ns", [-DAY_NS, DAY_NS])
def test_41_clocks_of_workers_do_not_count(
    api: Api, node: Started, tmp_path: Path, mode: str, shift_ns: int
) -> None:
    (tmp_path / "late.py").write_text(CLOCK.format(shift=shift_ns))
    plan = {"type": "job", "version": 1, "steps": [{"type": "WORK"}]}
    id = begin(api, f"{mode}-{shift_ns}", plan, mode)
    process = start(
        "worker", "--node", node.url, f"{tmp_path / 'late.py'}:jobs",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(lambda: api.show(id)["status"] == "COMPLETED")
    finally:
        process.kill()
        process.wait()

    assert api.show(id)["context"] == {"attempt": 1}
    assert api.show(id)["steps"][0]["epoch"] == 1


def changed(module: bytes) -> bytes:
    """The same program with other bytes: a custom section at its end."""
    name, content = b"note", b"another build"
    body = bytes([len(name)]) + name + content
    return module + b"\x00" + bytes([len(body)]) + body


def test_two_versions_of_a_plan_and_a_new_module_while_instances_wait(tmp_path: Path) -> None:
    """L-4: an instance keeps its plan, and continues in the new module at its next step."""
    path = make_world(tmp_path / "world")
    newer = {**PLAN, "version": 2, "steps": [{"type": "END"}]}
    with (
        started(path, tmp_path / "log") as node,
        httpx.Client(base_url=node.url, timeout=WAIT_S, trust_env=False) as client,
    ):
        api = Api(client)
        assert api.post("linear/start", instance="old", plan="job")[0] == 200
        [task] = api.post(
            "work/claim", worker="w", claim="c", steps=[{"name": "job/*"}], lease_ms=600_000
        )[1]["tasks"]
        assert api.result(task, outcome={"status": "waiting", "event_type": "GO"}) is not None

        files = manifest(plans=[PLAN, newer])
        nodes = json.loads(files["m.air.json"])
        used = package("aos/linear@1")
        [wasm] = used.files.values()
        nodes[0]["uses"] = []
        for section, entries in used.sections.items():
            nodes[0][section] = [*nodes[0][section], *entries]
        nodes[0]["routing"] = {"subscriptions": list(used.subscriptions)}
        loaded = load(
            {
                "m.air.json": json.dumps([*nodes, *used.definitions]).encode(),
                "linear.wasm": changed(wasm),
            }
        )
        with open_writer(path) as writer:
            before = writer.signed_state().manifest
            applied = writer.apply(loaded)
            after = writer.signed_state().manifest
        assert not applied.blockers
        assert before is not None
        assert after is not None
        name = "aos/linear.module@1"
        assert before.modules[name].hash != after.modules[name].hash

        in_force = hash_text(after.hash)
        wait_until(lambda: in_force in client.get("/v1/world").text)
        wait_until(lambda: api.post("linear/start", instance="new", plan="job")[0] in (200, 409))
        assert [each["step"] for each in api.show("new")["steps"]] == ["END"]
        assert len(api.show("old")["steps"]) == 3
        wake = {"instance": "old", "type": "GO", "event_id": "e", "payload": 1}
        assert api.post("linear/wake", **wake)[0] == 200
        for name in ("c1", "c2", "c3", "c4"):
            body = {
                "worker": "w", "claim": name, "steps": [{"name": "job/*"}],
                "wait_ms": 60_000, "lease_ms": 600_000,
            }  # fmt: skip
            [task] = api.post("work/claim", **body)[1]["tasks"]
            assert api.result(task, **DONE)["answer"] == "settled"
        assert {api.show(each)["status"] for each in ("old", "new")} == {"COMPLETED"}
    assert here("replay", "--world", path).code == 0
