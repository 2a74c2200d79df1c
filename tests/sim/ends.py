"""One seed from its beginning to its last check."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, Final

import pytest

from aos.core.journal.frame import Frame
from aos.core.limits import Limits
from aos.host.folder.restore import restore
from aos.manifest.effective import Effective
from aos.prove.replay.replay import replay
from aos.prove.verify.verify import verify_store
from aos.store.store import Store
from tests.sim import checker, kernels, making, model_follow, script
from tests.sim.behaviour import Modules
from tests.sim.failure import SimFailure
from tests.sim.script import Command
from tests.sim.view import view
from tests.sim.world import History, SimWorld

TOLD: Final[dict[str, tuple[str, ...]]] = {
    "event": ("schema", "submission_id"),
    "receipt": (
        "intent", "effect", "attempt", "status", "payload", "started_ns", "finished_ns",
        "executor", "key_id", "signature", "cost_cents",
    ),
    "stream": ("intent", "attempt", "frame_seq", "frame_kind", "payload", "signature"),
    "attempt": ("intent", "attempt", "phase"),
    "control": (
        "action", "cell", "intent", "value", "serial", "signature", "status", "payload", "why",
        "restamp",
    ),
    "manifest": ("principal", "serial", "signature"),
    "governance": (
        "action", "principal", "signature", "proposal", "serial", "base", "document", "patch",
        "report", "seen", "note",
    ),
    "start": ("host",),
    "snapshot": ("at", "frame"),
}  # fmt: skip
"""For each kind of input: the fields that its record must repeat as they were given."""


@contextlib.contextmanager
def manifests_read_once() -> Iterator[None]:
    """Reading a manifest's document takes longer than many steps: one copy for all who read it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Effective, "from_document", lru_cache(64)(Effective.from_document))
        yield


@dataclass(frozen=True)
class Done:
    """A seed that kept every promise. ``digest`` is the hash of its last frame."""

    seed: int
    records: int
    frames: int
    digest: bytes


def simulate(
    seed: int,
    commands: Sequence[Command] | None = None,
    *,
    foretold: bool = True,
    by_both: bool = False,
) -> Done:
    """Run a seed, or some of its commands, twice, and check everything. With ``foretold=False``
    run it once, without the model: only the checker reads the results.

    ``by_both``: both kernels in lockstep run it first, then one of them alone in each process.

    Raises:
        SimFailure: The world broke a guarantee.
    """
    given = script.script_of(seed) if commands is None else commands
    script.know_keys(seed)
    trace: list[tuple[Any, ...]] = []
    with as_failures(trace):
        with kernels.in_lockstep() if by_both else contextlib.nullcontext():
            world = SimWorld(seed, trace=trace, checks=foretold)
            script.play(world, given)
            if not foretold:
                check_journal(world.store, world.values, world.history)
                return done(world)
            finish(world)
        with kernels.in_turn(seed) if by_both else contextlib.nullcontext():
            again = SimWorld(seed, modules=world.modules, checks=False)
            script.play(again, given)
        same_frames(world.frames, again.frames)
    return done(world)


def done(world: SimWorld) -> Done:
    frames = world.frames
    return Done(world.seed, frames[-1].header.last, len(frames), frames[-1].hash)


@contextlib.contextmanager
def as_failures(trace: Sequence[tuple[Any, ...]] = ()) -> Iterator[None]:
    """Convert any exception raised inside into a ``SimFailure`` that carries the trace."""
    try:
        yield
    except SimFailure as failure:
        failure.trace = failure.trace or trace
        raise
    except checker.Broken as broken:
        raise SimFailure("checker", str(broken), trace) from broken
    except Exception as problem:
        where = "".join(traceback.format_exception(problem, limit=-4))
        raise SimFailure(f"crash: {type(problem).__name__}", where, trace) from problem


def same_frames(one: Sequence[Frame], two: Sequence[Frame]) -> None:
    """Raises: SimFailure: The frames of two runs differ."""
    for first, second in zip(one, two, strict=False):
        if first.to_bytes() != second.to_bytes():
            raise SimFailure("twice", f"frame {first.header.first} differs between two runs")
    if len(one) != len(two):
        raise SimFailure("twice", f"{len(one)} frames, and {len(two)} the second time")


def finish(world: SimWorld) -> None:
    """Check that restart, checker, replay and verify agree at the end of a run."""
    state = restore(world.store, world.id, limits=world.limits)
    live = view(world.state, world.values)
    model_follow.compare("state after a restart", live, view(state, world.values))
    making.check_restart(world, state, "at the end")
    making.check_restart(world, world.state, "of the kernel at the end")
    making.check_places(world, Random(world.seed))
    check_journal(world.store, world.values, world.history)
    audit(world.store, world.modules, world.limits)


def check_journal(store: Store, values: dict[bytes, bytes], history: History) -> checker.Reader:
    """Let the independent checker read it."""
    frames = [each.to_bytes() for each in store.frames()]
    return checker.check(
        frames,
        values.get,
        told=[
            checker.Told(seq, kind, {name: given[name] for name in TOLD[kind]})
            for kind, given, seq in history.acknowledged
        ],
        published=[
            checker.Published(durable, intent.intent, intent.idempotency_key)
            for durable, intent in history.published
        ],
        runs=history.runs,
    )


def audit(store: Store, modules: Modules, limits: Limits) -> None:
    """Execute the journal once more, and verify the store."""
    head = store.head()
    replay(store.frames(), store.blob, modules, head=head)
    found = verify_store(store, limits=limits).findings
    if found:
        raise SimFailure("verify", "; ".join(map(str, found[:3])))
