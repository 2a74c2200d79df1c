"""Worlds with flows and linear instances, from the cookbook: in progress, and ended in each way.
And a world with proposals."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Final

import httpx

from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from tests.cli.shell import here
from tests.cookbook.worlds import executors, recipe
from tests.core.governed import block, key_of
from tests.host import puppet
from tests.node.nodes import front, running_kernel
from tests.page.shop import aos

TEA: Final = {"items": [{"sku": "tea", "cents": 450}]}
PAID: Final = {"type": "PAID", "event_id": "p-17", "payload": {"id": "p-17", "cents": 450}}
CARRIER: Final = "the carrier does not answer"
HOUR_MS: Final = 3_600_000


def agents_world(path: Path) -> Path:
    """Flows with loops and branches: ``t-1`` waits for a verdict, ``t-2`` was rejected, ``t-3`` has
    used up its budget."""
    init_world(path)
    run = ("run", "--until-waiting", "--executors", executors("flow_agent", "desk"), "-w", path)
    aos("apply", recipe("flow_agent"), "-w", path)
    for task, text, budget in (
        ("t-1", "my teapot is broken", 1_000), ("t-2", "my teapot is old", 1_000),
        ("t-3", "everything", 250),
    ):  # fmt: skip
        value = f'{{"task_id": "{task}", "text": "{text}", "budget": {budget}}}'
        aos("flow", "start", "agent", value, "-w", path)
    aos(*run)
    verdict = '{"proposal": 0, "approved": false, "note": "too old"}'
    aos("flow", "signal", "agent", "t-2", "Verdict", verdict, "-w", path)
    aos(*run)
    return path


def trips_world(path: Path) -> Path:
    """Flows with compensations: ``t-1`` completed, ``t-2`` failed and was undone, ``t-3`` was
    canceled on its way, ``t-4`` has not begun."""
    init_world(path)
    aos("apply", recipe("flow_saga"), "-w", path)
    for trip, city in (("t-1", "Lisbon"), ("t-2", "Atlantis"), ("t-3", "Lisbon")):
        value = f'{{"trip_id": "{trip}", "city": "{city}"}}'
        aos("flow", "start", "booking", value, "-w", path)
    aos("flow", "cancel", "booking", "t-3", "-w", path)
    aos("run", "--until-idle", "--executors", executors("flow_saga", "agencies"), "-w", path)
    aos("flow", "start", "booking", '{"trip_id": "t-4", "city": "Porto"}', "-w", path)
    return path


def governed_world(path: Path) -> Path:
    """A governed world with three manifests: the second came by a proposal. Of the open proposals,
    one has two shadow reports, an approval and a rejection; another one was withdrawn."""
    names = ("ann", "bob", "cat")
    keys = {name: path.parent / f"{name}.key" for name in names}
    for name, file in keys.items():
        file.write_text(bytes(key_of(name)).hex() + "\n")
        file.chmod(0o600)

    def manifest(version: int, quorum: int = 2) -> Path:
        governance = block(*names, quorum=quorum, shadow_records=3)
        folder = path.parent / f"{path.name}-{version}"
        folder.mkdir()
        files = puppet.files(version=version, effects=(puppet.ECHO,), governance=governance)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        return folder

    def propose(folder: Path, *more: str) -> str:
        found = here("gov", "propose", folder, "--json", *more, "-w", path)
        return str(found.json["proposal"])

    def report(number: str, *more: str) -> str:
        found = here("gov", "shadow", number, "--record", "--json", *more, "-w", path)
        return str(found.json["hash"])

    def vote(action: str, number: str, name: str, *more: str) -> None:
        aos("gov", action, number, "--key", keys[name], *more, "-w", path)

    init_world(path)
    aos("apply", manifest(1), "-w", path)
    with open_writer(path) as writer:
        much = puppet.do("much", puppet.asks(*"abcdef"))
        list(writer.send([puppet.do("ada"), puppet.do("bob"), much, puppet.do("ada")]))
    aos("run", "--until-waiting", "-w", path)
    number = propose(manifest(2), "--mode", "pin")
    hash = report(number)
    for name in ("ann", "bob"):
        vote("approve", number, name, "--seen", hash)
    aos("gov", "apply", number, "-w", path)
    with open_writer(path) as writer:
        list(writer.send([puppet.do("dan"), puppet.do("more", puppet.asks(*"abcdef"))]))
    aos("run", "--until-waiting", "-w", path)
    number = propose(manifest(60), "--note", "four effects in a step are enough")
    hash = report(number)
    last = here("inspect", "world", "--json", "-w", path).json["journal"]["records"]
    report(number, "--from", str(last - 1))
    vote("approve", number, "ann", "--seen", hash, "--note", "nothing of ours needs five")
    vote("reject", number, "bob", "--note", "the order of Mrs. Lee does")
    aos("gov", "withdraw", propose(manifest(3, quorum=3)), "--note", "too early", "-w", path)
    return path


def part_worlds(folder: Path) -> list[Path]:
    """Make all worlds of this module in a folder."""
    return [
        make(folder / name)
        for name, make in (
            ("agents", agents_world), ("trips", trips_world), ("orders", orders_world),
            ("governed", governed_world),
        )
    ]  # fmt: skip


class _Orders:
    """Starts orders on a node, and reports the results of their plan steps as a worker does."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._claims = itertools.count()

    def start(self, instance: str, **more: Any) -> None:
        self.post("linear/start", plan="order.process", instance=instance, context=TEA, **more)

    def claim(self) -> Any:
        """The one plan step that can be claimed now."""
        claim = f"c-{next(self._claims)}"
        steps = [{"name": "order.process/*"}]
        [task] = self.post("work/claim", worker="w-1", claim=claim, steps=steps)["tasks"]
        return task

    def report(self, status: str, **outcome: Any) -> None:
        """Claim it, and report how it ended."""
        task = self.claim()
        given = {"task": task["task"], "epoch": task["epoch"]}
        result = {**given, "outcome": {"status": status, **outcome}}
        self.post("work/results", worker="w-1", results=[result])

    def post(self, path: str, **body: Any) -> Any:
        answer = self._client.post(f"/v1/{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()


def orders_world(path: Path) -> Path:
    """Linear instances: ``i-1`` completed, ``i-2`` waits for a signal, ``i-3`` failed, ``i-4`` was
    canceled, ``i-5`` is retried in an hour, ``i-6`` is leased and has a signal that waits, and a
    signal woke ``i-7``."""
    init_world(path)
    aos("apply", recipe("linear"), "-w", path)
    with (
        running_kernel(path, executors=False) as kernel,
        front(path, path.parent / f"{path.name}-front", kernel) as node,
    ):
        orders = _Orders(node.client())
        for instance in ("i-1", "i-2"):
            orders.start(instance, biz_key=f"o-{instance}")
            orders.report("completed", patch={"total_cents": 450})
            orders.report("waiting", event_type="PAID", timeout_ms=72 * HOUR_MS)
        orders.post("linear/wake", instance="i-1", **PAID)
        orders.report("completed", patch={"payment": "p-17"})
        orders.report("completed", patch={"parcel": "parcel-i-1/2"})
        orders.start("i-3")
        orders.report("dead", error="the order has no items")
        orders.start("i-4")
        orders.post("linear/cancel", instance="i-4", reason="ordered twice")
        orders.start("i-5")
        orders.report("retry", error=CARRIER, backoff_ms=HOUR_MS)
        orders.start("i-6")
        orders.post("linear/wake", instance="i-6", **PAID)
        orders.claim()
        orders.start("i-7")
        orders.report("completed", patch={"total_cents": 450})
        orders.report("waiting", event_type="PAID", timeout_ms=72 * HOUR_MS)
        orders.post("linear/wake", instance="i-7", **PAID)
    return path
