"""A kernel whose memory is nearly full: events are refused in words, and work ends (CR-37)."""

from __future__ import annotations

from concurrent.futures import Future
from queue import SimpleQueue

import pytest

from aos.core.decide.answers import Admitted, Answer, Refusal, Rule
from aos.core.kernel import Kernel
from aos.core.kernel_protocol import KernelMemory
from aos.host.errors import Busy
from tests.host.rig import TIMEOUT_S, add, asking, receipt, running

WORDS = (
    r"the kernel uses 81 of 100 MiB of memory, and takes no event above 80 % \(let running work "
    r"end, or start the world again with more: the number\)"
)


class Memory:
    """The memory of every kernel of a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.used_mib = 0
        monkeypatch.setattr(Kernel, "memory", property(lambda _: self.figure()))

    def figure(self) -> KernelMemory:
        return KernelMemory(self.used_mib << 20, 100 << 20, "the number")


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    return Memory(monkeypatch)


def test_events_are_refused_while_memory_is_short_and_receipts_are_not(memory: Memory) -> None:
    with running() as rig:
        rig.ask(asking("a"))
        (intent,) = rig.opened(1)
        memory.used_mib = 80
        rig.ask(add("a"))
        rig.quiet()
        memory.used_mib = 81
        rig.ask(add("a"))
        rig.quiet()
        kinds = rig.kinds()

        with pytest.raises(Busy, match=WORDS):
            rig.submit(add("a"))

        assert rig.kinds() == kinds
        memory.used_mib = 10
        assert isinstance(rig.ask(receipt(rig.world, intent))[0], Admitted)
        rig.quiet()
        assert isinstance(rig.ask(add("a"))[0], Admitted)


def test_an_event_that_was_queued_before_is_refused_with_the_same_words() -> None:
    with running() as rig:
        rig.quiet()
        inbox, queued = rig.engine._inbox, SimpleQueue[Future[list[Answer]]]()

        def queue() -> None:
            queued.put(rig.submit(add("a")))
            inbox.no_memory = "there is no memory"

        inbox.between_frames(queue)

        (answer,) = queued.get(timeout=TIMEOUT_S).result(TIMEOUT_S)
        assert answer == Refusal(rule=Rule.WORLD_IS_BUSY, message="there is no memory")
