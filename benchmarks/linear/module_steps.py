"""The modules of linear plans and schedules: their sizes, and the time of each kind of step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from aos.host.apply.manifest_files import load_manifest_files
from aos.linear import outcome_value
from aos.manifest.names import CLAIM, LINEAR_PACKAGE, RESULT
from aos.manifest.packages import package
from aos.manifest.plans import StepPlan, chosen_plan, start_event
from aos.manifest.schedules import SCHEDULE_PACKAGE, SET, TRIGGER
from aos.values.cbor import Value, encode
from benchmarks.bench_world import BenchWorld, Turn
from benchmarks.figures import median
from benchmarks.linear.plan_handlers import LEASE_S, PLAN, STEPS, first_context, handle
from benchmarks.linear.plan_world import PLANS

STARTED: Final = "an instance starts"
CLAIMED: Final = "a plan step is claimed"
ENDED: Final = "its result: the next one is READY"
COMPLETED: Final = "its result: the instance is COMPLETED"
TRIGGERED: Final = "a schedule is triggered"
KINDS: Final = (STARTED, CLAIMED, ENDED, COMPLETED, TRIGGERED)

KERNEL: Final = ("admit", "step", "seal")
WORKER: Final = "w-1@bench"
SCHEDULE: Final = "nightly"
NS_PER_S: Final = 10**9
HOUR_NS: Final = 3_600 * NS_PER_S

Json = dict[str, Any]


def module_sizes() -> Mapping[str, int]:
    """Bytes of the module of each package."""
    return {
        name: sum(map(len, package(name).files.values()))
        for name in (LINEAR_PACKAGE, SCHEDULE_PACKAGE)
    }


def measure_module_steps(folder: Path, instances: int) -> list[Json]:
    """Carry out so many plans in a world in one thread. Returns a row for each of ``KINDS``."""
    taken: dict[str, list[Turn]] = {kind: [] for kind in KINDS}
    plan = chosen_plan(load_manifest_files(PLANS).effective.plans, PLAN, None)
    with BenchWorld(folder, PLANS) as world:
        world.send(SET, schedule())
        # The first one compiles the modules and warms the caches.
        for number in range(instances + 1):
            for kind, turn in one_instance(world, plan, number):
                assert len(turn.calls) == 1, f"{kind}: {len(turn.calls)} steps"
                if number:
                    taken[kind].append(turn)
    return [_row(kind, turns) for kind, turns in taken.items()]


def one_instance(world: BenchWorld, plan: StepPlan, item: int) -> Iterator[tuple[str, Turn]]:
    """Start an instance, carry out its plan steps, and trigger the schedule once."""
    instance, held = f"i-{item}", first_context(item)
    started: tuple[str, Any] = start_event(plan, instance, held)
    yield STARTED, world.send(*started)
    for seq, step in enumerate(STEPS):
        claim: Value = {
            "instance": instance, "worker": WORKER, "claim": f"c-{seq}",
            "lease": LEASE_S * NS_PER_S,
        }  # fmt: skip
        yield CLAIMED, world.send(CLAIM, claim)
        done = {"status": "completed", "patch": handle(step, held)}
        result: Any = {
            "instance": instance, "worker": WORKER, "epoch": 1, "seq": seq,
            "outcome": outcome_value(done), "outbound": [],
        }  # fmt: skip
        is_last = seq == len(STEPS) - 1
        yield COMPLETED if is_last else ENDED, world.send(RESULT, result)
    yield TRIGGERED, world.send(TRIGGER, {"id": SCHEDULE})


def schedule() -> Value:
    """A schedule that fires each hour, and that nothing waits for."""
    return {
        "id": SCHEDULE, "when": {"$tag": "Every", "$value": {"interval": HOUR_NS}},
        "start": None, "end": None, "catchup": HOUR_NS, "overlap": {"$tag": "allow"}, "jitter": 0,
        "paused": False, "by_manifest": False, "event": "bench/Tick@1",
        "value": {"number": encode(7)}, "at_field": None,
    }  # fmt: skip


def _row(kind: str, turns: list[Turn]) -> Json:
    return {
        "step": kind,
        "turns": len(turns),
        "kernel_us": median([sum(each.processor[name] for name in KERNEL) for each in turns]) / 1e3,
        "sandbox_us": median([each.processor["sandbox"] for each in turns]) / 1e3,
    }
