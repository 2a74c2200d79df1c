"""The configuration of the engine: one table of settings, whose hash is its fingerprint.

Rule 1: every feature is set explicitly. The library's defaults enable threads, relaxed SIMD,
memory64, multi-memory, GC, exceptions and tail calls.

Rule 2: every setting that can change the result of a guest is in the table, so it changes the
fingerprint.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

import wasmtime
from wasmtime import _bindings

from aos.errors import Refused
from aos.process_limits import check_address_space
from aos.sandbox.caps import (
    KIB,
    MEMORIES_MAX,
    MEMORY_BYTES_MAX,
    MIB,
    PAGE_BYTES,
    TABLE_ELEMENTS_MAX,
    TABLES_MAX,
)
from aos.values.digests import content_hash, hash_text

WASMTIME: Final = "50.0.1"
"""The only version whose C API this package calls."""

PULLEY: Final = "pulley64"
"""The library's portable interpreter, about nine times slower than machine code."""

LIVE_STACK_BYTES: Final = 512 * KIB
REPLAY_STACK_BYTES: Final = 4 * MIB
STACK_BYTES_MAX: Final = 8 * MIB

# S-3. Mutable globals, sign extension and saturating conversion have no switch and are on.
FEATURES: Final[Mapping[str, bool]] = {
    "wasm_multi_value": True,
    "wasm_bulk_memory": True,
    "wasm_reference_types": True,
    "wasm_simd": True,
    "wasm_threads": False,
    "shared_memory": False,
    "wasm_tail_call": False,
    "wasm_function_references": False,
    "wasm_gc": False,
    "wasm_relaxed_simd": False,
    "wasm_multi_memory": False,
    "wasm_memory64": False,
    "wasm_wide_arithmetic": False,
    "wasm_branch_hinting": False,
    "wasm_exceptions": False,
    "wasm_custom_page_sizes": False,
    "wasm_compact_imports": False,
    "wasm_stack_switching": False,
    "wasm_component_model": False,
}

# Compiler and runtime. No signal handlers: together with faulthandler a trap by signal kills the
# process.
BEHAVIOUR: Final[Mapping[str, bool | int]] = {
    "consume_fuel": True,
    "epoch_interruption": False,
    "signals_based_traps": False,
    "cranelift_nan_canonicalization": True,
    "wasm_relaxed_simd_deterministic": True,
    "debug_info": False,
    "memory_reservation": MEMORY_BYTES_MAX,
    "memory_reservation_for_growth": 0,
    "memory_guard_size": 0,
    "memory_may_move": True,
}

# Only one step runs at a time, so one slot of each kind is enough.
POOL: Final[Mapping[str, int]] = {
    "total_core_instances": 1,
    # The pool counts a module's heap of external references as a memory.
    "total_memories": 2 * MEMORIES_MAX,
    "total_tables": TABLES_MAX,
    "total_stacks": 1,
    "total_gc_heaps": 1,
    "total_component_instances": 0,
    "max_core_instance_size": 16 * MIB,
    "max_memories_per_module": MEMORIES_MAX,
    "max_tables_per_module": TABLES_MAX,
    "max_memory_size": MEMORY_BYTES_MAX,
    "table_elements": TABLE_ELEMENTS_MAX,
    # This much written memory is wiped in place. Returning its pages, with a page fault for
    # each in the next step, was measured to cost 6 to 14 us more per step.
    "linear_memory_keep_resident": 128 * KIB,
    "table_keep_resident": 64 * KIB,
}

ADDRESS_BYTES: Final = POOL["total_memories"] * MEMORY_BYTES_MAX + 256 * MIB
"""Addresses that one engine reserves, with a margin."""


def settings(*, stack_bytes: int, target: str | None) -> dict[str, dict[str, bool | int | str]]:
    """All settings of one engine, as a plain document."""
    return {
        "features": dict(FEATURES),
        "behaviour": {**BEHAVIOUR, "max_wasm_stack": stack_bytes},
        "pool": dict(POOL),
        "target": {"compiler": target or "host"},
    }


def build_engine(*, stack_bytes: int, target: str | None) -> wasmtime.Engine:
    """Make an engine. Raises Refused for an unsupported wasmtime version, stack size or target."""
    require_wasmtime()
    if not PAGE_BYTES <= stack_bytes <= STACK_BYTES_MAX:
        raise Refused(
            "the stack of a guest is out of range",
            expected=f"{PAGE_BYTES} to {STACK_BYTES_MAX} bytes",
            actual=f"{stack_bytes}",
        )
    if target not in {None, PULLEY}:
        raise Refused("unknown engine target", expected=PULLEY, actual=str(target))
    # Where it cannot reserve these, the library ends the process.
    check_address_space(ADDRESS_BYTES, "modules")
    config = wasmtime.Config()
    engine_settings = settings(stack_bytes=stack_bytes, target=target)
    for name, value in (engine_settings["features"] | engine_settings["behaviour"]).items():
        getattr(_bindings, f"wasmtime_config_{name}_set")(config.ptr(), value)
    # The library requires its asynchronous stacks, which are unused, to exceed the guest's stack.
    _bindings.wasmtime_config_async_stack_size_set(config.ptr(), 2 * stack_bytes)
    if target is not None:
        error = _bindings.wasmtime_config_target_set(config.ptr(), target.encode())
        assert not bool(error), f"{target} is not a target of wasmtime {WASMTIME}"
    pool = _bindings.wasmtime_pooling_allocation_config_new()
    try:
        for name, number in POOL.items():
            getattr(_bindings, f"wasmtime_pooling_allocation_config_{name}_set")(pool, number)
        _bindings.wasmtime_pooling_allocation_strategy_set(config.ptr(), pool)
    finally:
        _bindings.wasmtime_pooling_allocation_config_delete(pool)
    return wasmtime.Engine(config)


def require_wasmtime() -> None:
    """Raise Refused unless the installed library is the one whose C API this release calls."""
    installed = version("wasmtime")
    if installed != WASMTIME:
        raise Refused(
            "this release calls the C API of exactly one wasmtime version",
            expected=WASMTIME,
            actual=installed,
            hint=f"install wasmtime=={WASMTIME}",
        )


def fingerprint(*, stack_bytes: int, target: str | None) -> dict[str, str]:
    """The engine's identity, journaled at each start: version, machine, hash of all settings."""
    return fingerprint_of(settings(stack_bytes=stack_bytes, target=target), target=target)


def live_fingerprint() -> dict[str, str]:
    """The identity of the engine that runs a world on this machine."""
    return fingerprint(stack_bytes=LIVE_STACK_BYTES, target=None)


def fingerprint_of(engine_settings: Mapping[str, object], *, target: str | None) -> dict[str, str]:
    """The identity of an engine with these settings."""
    document = json.dumps(engine_settings, sort_keys=True)
    return {
        "wasmtime": WASMTIME,
        "target": target or f"{_machine()}-{sys.platform}",
        "engine": hash_text(content_hash(document.encode())),
    }


def _machine() -> str:
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)
