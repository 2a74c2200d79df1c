"""manifests/cookbook/workers: a worker in Python and one in JavaScript for the same effects."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import httpx
import pytest

from tests.cli.shell import AOS, environment, in_silence
from tests.cookbook.typed import bin_, blocks, follow
from tests.cookbook.worlds import ROOT, executors, recipe
from tests.free_ports import free_port
from tests.node.test_node_process import WAIT_S, started, wait_until
from tests.tools import missing

pytestmark = pytest.mark.rotated(3)

__all__ = ["bin_"]

FOLDER: Final = recipe("workers")
CITIES: Final = ("Lisbon", "Atlantis")

ENDINGS: Final = """
import { EffectFailed, Worker } from "WORKER";
const functions = {
  "t/declines@1": () => { throw new EffectFailed("no", "never", { retryable: true }); },
  "t/breaks@1": () => { throw new Error("a mistake"); },
  "t/hangs@1": () => new Promise(() => setTimeout(() => {}, 60_000)),
  "t/cancels@1": (_, { signal }) => new Promise((_, fail) => {
    signal.addEventListener("abort", () => fail(signal.reason));
  }),
  "t/halves@1": () => ({ text: "\\ud83e" }),
  "t/cycles@1": () => { const found = {}; found.again = found; return found; },
  "t/says-halves@1": () => { throw new EffectFailed("no", "x".repeat(999) + "🦀"); },
  "t/works@1": (params) => ({ doubled: 2 * params.number }),
};
const worker = new Worker(process.env.AOS_NODE, functions, { leaseMs: 1000, name: "w" });
process.on("SIGTERM", () => worker.stop());
await worker.run();
process.exit();
"""


@pytest.fixture
def node_js() -> str:
    found = shutil.which("node")
    if found is None:
        missing("there is no Node.js here: the JavaScript worker is not tested")
    return found


def test_the_commands_of_the_readme_do_what_it_says(bin_: Path, node_js: str) -> None:
    for name in ("manifests", "modules"):
        Path(name).symlink_to(ROOT / name)
    (bin_ / "node").symlink_to(node_js)
    port = str(free_port())  # other tests run at the same time
    typed = [
        block.replace("7460", port).replace("aos node", f"aos node --listen 127.0.0.1:{port}")
        for block in blocks(FOLDER / "README.md")
    ]

    found = "".join(follow(block, bin_=bin_) for block in typed)

    assert len(re.findall(r'delivered \{"code":"sold_out"', found)) == 2, found
    assert len(re.findall(r"emits trip/Undone@1", found)) == 2
    assert "byte-identical" in found


def test_both_workers_leave_the_same_receipts(tmp_path: Path, node_js: str) -> None:
    world = tmp_path / "trips"
    assert in_silence("init", world) == 0
    assert in_silence("apply", recipe("saga"), "--world", world) == 0
    workers = {
        "JavaScript": [node_js, str(FOLDER / "agencies.mjs")],
        "Python": [*AOS, "worker", executors("saga", "agencies")],
    }
    found = {}
    with (
        started(world, tmp_path / "log") as node,
        httpx.Client(base_url=node.url, timeout=WAIT_S, trust_env=False) as client,
    ):
        for language, command in workers.items():
            found[language] = carried_out(client, command, language)

    assert found["JavaScript"] == found["Python"]
    assert [status for status, _ in found["JavaScript"]] == ["completed"] * 2
    assert "sold_out" in str(found["JavaScript"])
    assert "canceled Flight of ID" in str(found["JavaScript"])


def carried_out(client: httpx.Client, command: Sequence[str], prefix: str) -> list[Any]:
    """Send a trip to each city, for one worker; return their last status and their receipts,
    without the parts that differ from trip to trip. The worker must end by itself at a SIGTERM."""
    env = environment(AOS_NODE=str(client.base_url))
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as worker:
        try:
            found = [trip(client, f"{prefix}-{city}", city) for city in CITIES]
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(WAIT_S) == 0
        finally:
            worker.kill()
    return found


def trip(client: httpx.Client, id: str, city: str) -> tuple[str, list[Any]]:
    event = {"schema": "trip/Requested@1", "value": {"trip_id": id, "city": city}}
    answer = client.post("/v1/events", params={"wait": "settled"}, json=event)
    assert answer.status_code == 200, answer.text
    [to] = answer.json()["to"]
    params = {"workflow": "trip/booking@1", "key": id, "kind": "receipt"}
    listed = client.get("/v1/records", params=params)
    assert listed.status_code == 200, listed.text
    return to["status"], [outline(each, id) for each in listed.json()["records"]]


def outline(record: dict[str, Any], id: str) -> Any:
    """The effect, status and payload of a receipt."""
    payload = {
        name: re.sub(r"-[0-9a-zA-Z]{8}$", "-…", value.replace(id, "ID"))
        if isinstance(value, str)
        else value
        for name, value in (record["payload"] or {}).items()
    }
    return record["effect"], record["status"], payload


def test_the_javascript_worker_ends_if_the_node_refuses_its_token(
    tmp_path: Path, node_js: str
) -> None:
    world = tmp_path / "trips"
    assert in_silence("init", world) == 0
    assert in_silence("token", "create", "reader", "--scope", "read", "--world", world) == 0
    with started(world, tmp_path / "log") as node:
        done = subprocess.run(
            [node_js, str(FOLDER / "agencies.mjs")],
            env={**os.environ, "AOS_NODE": node.url, "AOS_TOKEN": "wrong"},
            capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip

    assert done.returncode == 1, done.stderr
    assert "the node answered 401" in done.stderr


class ScriptedNode(http.server.BaseHTTPRequestHandler):
    """Gives one task of each effect to the first claim, cancels one of them, and is away once when
    a result comes. ``results`` are by effect."""

    protocol_version = "HTTP/1.1"
    results: dict[str, dict[str, Any]]
    tried: set[str]
    claims: int

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.answer(*self.operations[self.path.rpartition("/")[2]](self, body))

    def answer(self, status: int, document: object) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def claim(self, body: dict[str, Any]) -> tuple[int, object]:
        cls = type(self)
        cls.claims += 1
        if cls.claims > 1:
            time.sleep(0.1)
            return 200, {"tasks": [], "unserved": []}
        tasks = [
            {
                "task": each["name"], "epoch": 1, "attempt": 1, "effect": each["name"],
                "params": {"number": 21}, "idempotency_key": "k", "workflow": "t/w@1",
                "timeout_ms": 600 if "hangs" in each["name"] else 60_000,
            }
            for each in body["effects"]
        ]  # fmt: skip
        return 200, {"tasks": tasks, "unserved": []}

    def heartbeat(self, body: dict[str, Any]) -> tuple[int, object]:
        words = ["canceled" if "cancels" in each["task"] else "leased" for each in body["leases"]]
        return 200, {"answers": [{"answer": word} for word in words]}

    def take(self, body: dict[str, Any]) -> tuple[int, object]:
        [item] = body["results"]
        try:
            json.dumps(item, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return 400, {"detail": "body: lone surrogate"}
        if item["task"] not in self.tried:
            self.tried.add(item["task"])
            return 503, {"detail": "away"}
        self.results[item["task"]] = item
        return 200, {"answers": [{"answer": "settled"}]}

    operations: ClassVar[dict[str, Callable[..., tuple[int, object]]]] = {
        "claim": claim,
        "heartbeat": heartbeat,
        "results": take,
    }

    def log_message(self, *_: object) -> None:
        pass


def scripted(
    kind: type[ScriptedNode], command: list[str], *, count: int
) -> tuple[dict[str, dict[str, Any]], str]:
    """Run a worker until a node of this kind has ``count`` results. Return them and its errors."""
    results: dict[str, dict[str, Any]] = {}

    class Scripted(kind):  # type: ignore[misc, valid-type]  # a class of its own for each test
        pass

    Scripted.results, Scripted.tried, Scripted.claims = results, set(), 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        with subprocess.Popen(
            command, env={**os.environ, "AOS_NODE": url}, stderr=subprocess.PIPE, text=True
        ) as worker:
            try:
                wait_until(lambda: len(results) == count or worker.poll() is not None)
                worker.send_signal(signal.SIGTERM)
                _, errors = worker.communicate(timeout=WAIT_S)
                assert worker.returncode == 0, errors
            finally:
                worker.kill()
                server.shutdown()
    return results, errors


class LateNode(ScriptedNode):
    """Its first answer comes when the leases of a second are over, which the worker hears only if
    it asks. Those of one effect are lost."""

    def claim(self, body: dict[str, Any]) -> tuple[int, object]:
        if not type(self).claims:
            time.sleep(1.2)
        return super().claim(body)

    def heartbeat(self, body: dict[str, Any]) -> tuple[int, object]:
        words = {"t/breaks@1": "lost", "t/cancels@1": "canceled"}
        return 200, {
            "answers": [{"answer": words.get(each["task"], "leased")} for each in body["leases"]]
        }

    operations: ClassVar[dict[str, Callable[..., tuple[int, object]]]] = {
        "claim": claim,
        "heartbeat": heartbeat,
        "results": ScriptedNode.take,
    }


def test_the_javascript_worker_asks_before_it_begins_a_task_whose_lease_may_be_over(
    tmp_path: Path, node_js: str
) -> None:
    """W-3a."""
    module = tmp_path / "endings.mjs"
    module.write_text(ENDINGS.replace("WORKER", str(FOLDER / "worker.mjs")))
    results, errors = scripted(LateNode, [node_js, str(module)], count=6)
    assert "t/works@1" in results
    assert not {"t/breaks@1", "t/cancels@1"} & results.keys()
    assert "a mistake" not in errors, "the function has not begun"


def test_the_javascript_worker_reports_each_end_of_a_function(tmp_path: Path, node_js: str) -> None:
    module = tmp_path / "endings.mjs"
    module.write_text(ENDINGS.replace("WORKER", str(FOLDER / "worker.mjs")))
    results, _ = scripted(ScriptedNode, [node_js, str(module)], count=8)

    ends = {name: (each["status"], each["payload"]) for name, each in results.items()}
    assert ends["t/works@1"] == ("ok", {"doubled": 42})
    assert ends["t/declines@1"] == (
        "error", {"code": "no", "message": "never", "retryable": True}
    )  # fmt: skip
    assert ends["t/breaks@1"][0] == "parked"
    for name in ("t/halves@1", "t/cycles@1"):
        assert ends[name][0] == "parked"
        assert ends[name][1]["code"] == "executor_result_invalid"
    assert ends["t/says-halves@1"][1]["message"] == "x" * 999 + "\ufffd"
    assert ends["t/cancels@1"][0] == "canceled"
    assert ends["t/hangs@1"][0] == "timeout"
    final = {name for name, each in results.items() if each.get("is_final")}
    assert final == {"t/hangs@1"}, "its call may still run"
