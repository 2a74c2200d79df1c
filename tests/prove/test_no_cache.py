"""Code that checks a journal compiles modules from the hashed bytes (spec/sandbox.md, S-57)."""

from __future__ import annotations

from pathlib import Path

import pytest
import wasmtime

from aos.prove.replay.replay_store import replay_store
from aos.prove.verify.verify import verify_store
from aos.sandbox.cache import ModuleCache, standard_cache
from aos.sandbox.config import LIVE_STACK_BYTES, REPLAY_STACK_BYTES, build_engine, fingerprint
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from aos.values.digests import Hash
from tests.prove.journals import store_of
from tests.prove.replay.test_replay_store import OUTPUT, WAT, wasm_world
from tests.sandbox.bench import Bench

LIE = OUTPUT.replace(b"\x07", b"\x08")


def lying(cache: ModuleCache, module: Hash) -> None:
    """Keep code that answers otherwise in the module's place, with a good checksum, for the
    live engine and for replay's. The folder's owner could do it."""
    escaped = "".join(f"\\{byte:02x}" for byte in LIE)
    wasm = bytes(wasmtime.wat2wasm(WAT.format(output=escaped, size=len(LIE))))
    for stack in (LIVE_STACK_BYTES, REPLAY_STACK_BYTES):
        code = wasmtime.Module(build_engine(stack_bytes=stack, target=None), wasm).serialize()
        cache.put(module, fingerprint(stack_bytes=stack, target=None), bytes(code))


@pytest.mark.parametrize("kept", ["a lie", "one bit flipped"])
def test_replay_and_verify_do_not_look_at_compiled_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    """S-57: a good checksum does not help, and a bad one does not matter."""
    world = wasm_world()
    (module,) = {each.module.hash for each in world.effective.workflows.values()}
    monkeypatch.setenv("AOS_CACHE_DIR", str(tmp_path / "modules"))
    cache = standard_cache(print, outside=tmp_path / "world")
    assert cache is not None
    lying(cache, module)
    call = Bench().call(world.read(module), b"")
    believed = run_on_big_stack(lambda: Sandbox(world.read, cache=cache).run(call))
    assert believed.output == LIE, "a sandbox that uses the cache runs the false code"
    if kept == "one bit flipped":
        for file in (tmp_path / "modules").glob("*.code"):
            data = bytearray(file.read_bytes())
            data[-1] ^= 1
            file.write_bytes(data)

    for name in ("get", "put"):
        monkeypatch.setattr(ModuleCache, name, never)
    store = store_of(world)

    assert replay_store(store).identical
    assert verify_store(store).is_sound


def never(*_: object) -> None:
    raise AssertionError("the compiled code of this node was asked for")
