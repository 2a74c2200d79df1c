"""Make a shadow with the real sandbox (spec/shadow.md, SH-2)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from aos.audit.shadow.shadow_answers import CarryOut
from aos.audit.shadow.shadow_source import ShadowSource
from aos.audit.shadow.shadowing import ShadowRequest, shadow_of
from aos.core.journal.frame import Frame
from aos.errors import Damage
from aos.sandbox.config import REPLAY_STACK_BYTES
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from aos.store.store import Store
from aos.values.digests import Hash

LOOK_S: Final = 0.1
"""Seconds between two looks at a journal that is followed."""

Progress = Callable[[int, int], None]
"""Called on another thread with (sequence reached, last one). An exception that it raises ends the
shadow, which raises the same exception."""


def run_shadow(
    source: ShadowSource,
    request: ShadowRequest,
    modules: Mapping[Hash, bytes],
    *,
    carry_out: CarryOut,
    follows: tuple[Store, float] | None = None,
    on_progress: Progress | None = None,
) -> bytes:
    """Return the report of a shadow.

    Args:
        modules: Modules of the proposed manifest that the journal does not have.
        carry_out: Carries out built-in effects that only need blobs.
        follows: The store of the running world, and for how many seconds its journal is followed.

    Raises:
        As ``shadow_of``.
    """

    def load(hash: Hash) -> bytes:
        module = modules.get(hash)
        return source.blob(hash) if module is None else module

    def tell(seq: int) -> None:
        if on_progress is not None:
            on_progress(seq, max(seq, request.range.last))

    def run() -> bytes:
        sandbox = Sandbox(load, stack_bytes=REPLAY_STACK_BYTES)
        frames = None
        if follows is not None:
            frames = _frames_for(*follows, request.range.first, tell)
        try:
            return shadow_of(
                source, request, runner=sandbox, carry_out=carry_out, frames=frames,
                on_progress=tell,
            )  # fmt: skip
        finally:
            sandbox.close()

    return run_on_big_stack(run)


def _frames_for(
    store: Store, seconds: float, first: int, tell: Callable[[int], None]
) -> Iterator[Frame]:
    """Yield the frames from that with record ``first`` on, as they become durable, until so many
    seconds have passed."""
    until_s = time.monotonic() + seconds
    last = first - 1
    while True:
        is_over = time.monotonic() >= until_s
        head = store.head()
        if head is None:
            raise Damage("the store is empty: expected the genesis record of a world")
        if head.seq > last:
            for frame in store.frames(last + 1, head.seq):
                yield frame
                last = frame.header.last
        if is_over:
            return
        tell(last)
        time.sleep(min(LOOK_S, max(0.0, until_s - time.monotonic())))
