"""An exception of a host's function passes through a kernel and has changed nothing (CR-10, CR-12).

The host of these tests raises in every call of ``read``, ``find`` or ``verify``. Both kernels must
then raise this exception, or both must not need the call; afterwards the same call succeeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeAlias

import pytest

from aos.core.decide.answers import Decided
from aos.core.journal.inputs import MIGRATE, EventInput, Input
from aos.core.journal.ports import Keep
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.signing import is_signed
from aos.core.kernel_protocol import KernelProtocol, OpenKernel
from aos.core.limits import Limits
from aos.errors import Damage, Erased
from aos.host.errors import NoRoomLeft, Stopping
from aos.store.errors import NoRoom
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from tests.core.cases import CASE, case, cases, loaded, tell
from tests.core.decide.test_migrate import to_counted
from tests.core.governed import act, governed, proposal_input, propose, version
from tests.fastcore.owned_kernel import OPENERS
from tests.memory_world import MemoryWorld

LIMITS: Final = Limits(chunk=16, chunks_held=1, delta_bytes=0)
LONG: Final = "long " * 300

PROBLEMS: Final[dict[str, Callable[[], BaseException]]] = {
    "Damage": lambda: Damage("the disk is broken"),
    "Erased": lambda: Erased("the value was erased"),
    "NoRoom": lambda: NoRoom("no room", needed_bytes=1, free=0),
    "NoRoomLeft": lambda: NoRoomLeft("no room", needed_bytes=1, free=0),
    "Stopping": lambda: Stopping("the world stops"),
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": SystemExit,
    "MemoryError": MemoryError,
}


@dataclass
class Host:
    """The functions of a host. Those in ``failing`` raise ``problem``."""

    world: MemoryWorld
    failing: str = ""
    problem: BaseException = field(default_factory=AssertionError)
    calls: int = 0

    def read(self, hash: Hash, /) -> bytes:
        self._fail("read")
        return self.world.read(hash)

    def find(self, submission_id: str) -> int | None:
        self._fail("find")
        return self.world.places.get(submission_id)

    def verify(self, message: bytes, signature: bytes, public_key: bytes, /) -> bool:
        self._fail("verify")
        return is_signed(message, signature, public_key)

    def _fail(self, name: str) -> None:
        if name == self.failing:
            self.calls += 1
            raise self.problem


Act: TypeAlias = Callable[[KernelProtocol, MemoryWorld], Any]


@dataclass(frozen=True)
class Operation:
    """A call of the protocol, in a world that needs ``needs`` for it."""

    world: Callable[[], MemoryWorld]
    act: Act
    needs: str


@cache
def shop() -> MemoryWorld:
    """Cases with long states, of which a snapshot was taken; one waits to run."""
    world = cases()
    world.seal()
    world.limits = LIMITS
    world.restart()
    for number in range(40):
        world.send("c/Go@1", {"id": f"i{number}", "asks": 0, "note": "go"}, f"id {number}")
        world.run()
    tell(world, "a", 1, LONG)
    tell(world, "b", 0, LONG)
    world.snapshot()
    world.seal()
    return world


@cache
def council() -> MemoryWorld:
    """A proposal that one of two approvers has yet to approve, with a report."""
    world = governed("ann", "bob", quorum=2)
    proposal = propose(world, version(2, "ann", "bob", quorum=2))
    act(world, "approve", proposal, by="ann")
    world.snapshot()
    world.seal()
    return world


def deciding(make: Callable[[MemoryWorld], Input]) -> Act:
    """Decide an input, whose stamp is the same in every kernel."""

    def decide(kernel: KernelProtocol, world: MemoryWorld) -> Any:
        return kernel.decide(make(world), world.stamp())

    return decide


def event(id: str, submission_id: str | None = None) -> Callable[[MemoryWorld], Input]:
    value = encode({"id": id, "asks": 0, "note": "go"})
    return lambda _: EventInput(schema="c/Go@1", value=value, submission_id=submission_id)


def step(kernel: KernelProtocol, world: MemoryWorld) -> Any:
    if not kernel.pending_records:
        decision = kernel.decide(event("a")(world), world.stamp())
        assert isinstance(decision, Decided)
        kernel.enter(decision)
    return kernel.next()


def receipt(world: MemoryWorld) -> Input:
    [intent] = [each.intent for each in world.kernel.open_intents()]
    return world.receipt(intent, {"ref": "r"})


OPERATIONS: Final[dict[str, Operation]] = {
    "an event under a forgotten id": Operation(shop, deciding(event("z", "id 1")), "find"),
    "an event": Operation(shop, deciding(event("b")), "read"),
    "a step": Operation(shop, step, "read"),
    "a receipt": Operation(shop, deciding(receipt), "verify"),
    "a manifest": Operation(
        shop, deciding(lambda world: world.manifest_input(loaded(2))), "verify"
    ),
    "a manifest that migrates": Operation(
        shop,
        deciding(lambda world: world.manifest_input(to_counted(), mode=MIGRATE)),
        "read",
    ),
    "a cell": Operation(shop, lambda kernel, _: _cell(kernel.cell(case("b"))), "read"),
    "all cells": Operation(
        shop, lambda kernel, _: [_cell(cell) for cell in kernel.cells_of(CASE)], "read"
    ),
    "uses": Operation(shop, lambda kernel, _: list(kernel.uses(content_hash(b"z"))), "read"),
    "a snapshot": Operation(shop, lambda kernel, _: kernel.snapshot(content_hash), "read"),
    "a rebase": Operation(shop, lambda kernel, world: kernel.rebase(document_of(world)), "read"),
    "a proposal": Operation(
        council,
        deciding(lambda world: proposal_input(world, version(3, "ann", "bob", quorum=2))),
        "verify",
    ),
}


def _cell(cell: Any) -> Any:
    return None if cell is None else (cell.id, cell.state, cell.status, cell.last_seq)


def document_of(world: MemoryWorld) -> Hash:
    [document] = [each.document for sealed in world.sealed for each in sealed.snapshots]
    return document


def opened(opens: OpenKernel, host: Host) -> KernelProtocol:
    kernel = opens(
        snapshot=document_of(host.world),
        read=host.read,
        find=host.find,
        verify=host.verify,
        limits=LIMITS,
    )
    for frame in host.world.frames:
        if frame.header.first >= kernel.next_seq:
            kernel.follow(frame)
    return kernel


def tried(
    operation: Operation, kernel: KernelProtocol, host: Host, failing: str = ""
) -> tuple[Any, BaseException | None]:
    """The result or the exception of an operation, always at the same time of the world."""
    host.failing = failing
    world = host.world
    clock = world.now_ns, world.draws
    try:
        return _shown(operation.act(kernel, world)), None
    except BaseException as problem:  # noqa: BLE001  # the test compares it
        return None, problem
    finally:
        world.now_ns, world.draws = clock
        host.failing = ""


def _shown(result: Any) -> Any:
    match result:
        case Decided(record=record, blobs=blobs):
            return to_bytes(record), dict(blobs)
        case Keep(blobs):
            return list(blobs.items())
        case _:
            return result


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_exception_of_a_host_passes_through_and_has_changed_nothing(
    name: str, problem: str
) -> None:
    operation = OPERATIONS[name]
    world = operation.world()
    outcomes: dict[str, list[Any]] = {}
    for core, opens in OPENERS.items():
        outcomes[core] = []
        for failing in ("find", "verify", "read"):
            host = Host(world, problem=PROBLEMS[problem]())
            kernel = opened(opens, host)
            before = figures(kernel)

            _, raised = tried(operation, kernel, host, failing)

            assert raised is None or raised is host.problem
            assert (raised is not None) == (host.calls > 0)
            if operation.act is not step:
                assert figures(kernel) == before
            result, mended = tried(operation, kernel, host)
            assert mended is None
            outcomes[core].append(result)
            if core == "fast" and failing == operation.needs:
                assert raised is host.problem

    # The reference verifies the signature of an operator without its host.
    assert outcomes["fast"] == outcomes["python"]


def figures(kernel: KernelProtocol) -> Any:
    return kernel.figures(), kernel.tip, kernel.pending_records, kernel.pending_bytes


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("core", OPENERS)
def test_a_kernel_that_cannot_read_its_snapshot_is_not_opened(core: str, problem: str) -> None:
    host = Host(shop(), "read", PROBLEMS[problem]())

    with pytest.raises(type(host.problem)) as raised:
        opened(OPENERS[core], host)

    assert raised.value is host.problem
    host.failing = ""
    assert opened(OPENERS[core], host).tip == host.world.kernel.tip
