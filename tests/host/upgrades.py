"""Versions of the puppet's world: other module bytes that do the same, other definitions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import wasmtime

from aos.manifest.load import Loaded, load
from aos.values.cbor import encode
from tests.host import puppet

TIMER = "sys/timer.set@1"
NEVER: Any = {"deliver_at_ns": 2**62, "key": None}
Edit = Callable[[dict[str, Any]], None]


def rebuilt(wasm: bytes, version: int) -> bytes:
    """The module with a custom section that says which version it is: another hash."""
    text = b"\x07version" + bytes([version])
    return wasm + bytes([0, len(text)]) + text


def version(
    number: int, *, edit: Edit | None = None, effects: tuple[str, ...] = (TIMER,)
) -> Loaded:
    """The puppet's manifest with a module of its own; ``edit`` changes its nodes by name."""
    files = puppet.files(effects=effects)
    nodes = json.loads(files["m.air.json"])
    if edit is not None:
        for node in nodes:
            edit(node)
    return load(
        {"m.air.json": json.dumps(nodes).encode(), "p.wasm": rebuilt(files["p.wasm"], number)}
    )


def state_is(type_: object) -> Edit:
    def edit(node: dict[str, Any]) -> None:
        if node.get("name") == "host/Count@1":
            node["type"] = type_

    return edit


def waits() -> bytes:
    """The output of a step that is in flight for good: it waits for a timer that never fires."""
    return puppet.asks_for((TIMER, NEVER))


def state_of(value: object) -> bytes:
    """The output of a step that leaves this state."""
    data: Any = {"state": encode(value)}  # type: ignore[arg-type]  # what a test gives
    return encode(data)


# A module that migrates. The input ends with the old state's last byte, ``version`` and 1: ten
# bytes from its end is what a small number is written as. The new state is a list of that number,
# doubled; 7 is more than it can bear.
MIGRATOR = r"""
(module
  (memory (export "memory") 2)
  (global $top (mut i32) (i32.const 1024))
  (data (i32.const 0) "\a1\65state\42\81\01")
  (func (export "alloc") (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $top))
    (global.set $top (i32.add (global.get $top) (local.get $size)))
    (local.get $at))
  (func (export "step") (param i32 i32) (result i32 i32)
    (i32.const 0) (i32.const 10))
  (func (export "migrate") (param $at i32) (param $size i32) (result i32 i32)
    (local $n i32)
    (local.set $n (i32.sub (i32.add (local.get $at) (local.get $size)) (i32.const 10)))
    (local.set $n (i32.load8_u (local.get $n)))
    (if (i32.eq (local.get $n) (i32.const 7)) (then (unreachable)))
    (i32.store8 (i32.const 9) (i32.mul (local.get $n) (i32.const 2)))
    (i32.const 0) (i32.const 10)))
"""


def migrating(number: int = 2, *, entrypoint: str = "migrate") -> Loaded:
    """The puppet's manifest with the migrating module, and lists for states."""
    return load(migrating_files(number, entrypoint=entrypoint))


def migrating_files(number: int = 2, *, entrypoint: str = "migrate") -> dict[str, bytes]:
    """The files of ``migrating``."""
    files = puppet.files(effects=(TIMER,))
    nodes = json.loads(files["m.air.json"])
    for node in nodes:
        if node.get("name") == "host/Count@1":
            node["name"], node["type"] = "host/Counts@1", {"list": {"nat": {}}}
        if node["$kind"] == "defworkflow":
            node["state"] = "host/Counts@1"
            node["migrate"] = {"from": "host/Count@1", "entrypoint": entrypoint}
        for each in node.get("schemas", ()):
            each["name"] = each["name"].replace("host/Count@1", "host/Counts@1")
    wasm = rebuilt(bytes(wasmtime.wat2wasm(MIGRATOR)), number)
    return {"m.air.json": json.dumps(nodes).encode(), "p.wasm": wasm}
