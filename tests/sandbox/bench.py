"""A sandbox over the corpus (``tests.sandbox.corpus``) for the tests of this folder."""

from __future__ import annotations

from typing import Final

from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.ports import Call, Ran
from aos.sandbox.caps import MIB, PAGE_BYTES
from aos.sandbox.config import LIVE_STACK_BYTES
from aos.sandbox.engine import Sandbox
from aos.values.digests import Hash, content_hash
from tests.sandbox.corpus import FUEL, MEMORY_BYTES, wasm

PAGES: Final = MEMORY_BYTES // PAGE_BYTES


class Bench:
    """One sandbox over the corpus, and any other modules that a test adds."""

    def __init__(self, *, stack_bytes: int = LIVE_STACK_BYTES, target: str | None = None) -> None:
        self.modules: dict[Hash, bytes] = {}
        self.sandbox = Sandbox(self.modules.__getitem__, stack_bytes=stack_bytes, target=target)

    def call(
        self,
        module: str | bytes,
        data: bytes = b"",
        *,
        entrypoint: str = "step",
        fuel: int = FUEL,
        memory_bytes: int = MEMORY_BYTES,
        output_bytes: int = MIB,
    ) -> Call:
        """A call of a module by its name in the corpus or by its bytes."""
        body = wasm(module) if isinstance(module, str) else module
        name = content_hash(body)
        self.modules[name] = body
        return Call(
            module=name,
            entrypoint=entrypoint,
            input=data,
            fuel=fuel,
            memory_bytes=memory_bytes,
            output_bytes=output_bytes,
        )

    def run(
        self,
        module: str | bytes,
        data: bytes = b"",
        *,
        entrypoint: str = "step",
        fuel: int = FUEL,
        memory_bytes: int = MEMORY_BYTES,
        output_bytes: int = MIB,
    ) -> Ran:
        return self.sandbox.run(
            self.call(
                module,
                data,
                entrypoint=entrypoint,
                fuel=fuel,
                memory_bytes=memory_bytes,
                output_bytes=output_bytes,
            )
        )

    def fault(
        self,
        module: str | bytes,
        data: bytes = b"",
        *,
        entrypoint: str = "step",
        fuel: int = FUEL,
        memory_bytes: int = MEMORY_BYTES,
        output_bytes: int = MIB,
    ) -> tuple[FaultKind, str]:
        """Run what must fault, twice with the same end; a good module runs well after each."""
        call = self.call(
            module,
            data,
            entrypoint=entrypoint,
            fuel=fuel,
            memory_bytes=memory_bytes,
            output_bytes=output_bytes,
        )
        first = self.sandbox.run(call)
        self.echoes()
        assert self.sandbox.run(call) == first
        self.echoes()
        assert first.output is None
        assert isinstance(first.fault, Fault)
        assert first.fuel <= fuel
        return first.fault.kind, first.fault.message

    def echoes(self) -> None:
        ran = self.run("echo_packed", b"still well")
        assert (ran.output, ran.fault) == (b"still well", None)
