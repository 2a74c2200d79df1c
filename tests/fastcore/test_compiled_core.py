"""The compiled core in the cache, and the choice of a kernel (spec/core.md, CR-33 and CR-34).

The core of these tests is a small module, which compiles at once.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import wasmtime

from aos.errors import BadUsage
from aos.fastcore import buffer, compiled_core, core_choice
from aos.fastcore.buffer import core_fingerprint, core_folder, read_core, shipped_code
from aos.fastcore.compiled_core import cached_code, compile_in_child, live_code
from aos.fastcore.core_choice import choose_core
from aos.fastcore.core_kind import CORE_VARIABLE, CoreKind
from aos.sandbox.cache import ModuleCache
from aos.values.digests import Hash, content_hash
from tests.host.rig import eventually

SMALL = (
    '(module (import "aos" "read" (func (param i32) (result i32))) (memory (export "memory") 1))'
)


@pytest.fixture(autouse=True)
def _small_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "core"
    folder.mkdir()
    body = bytes(wasmtime.wat2wasm(SMALL))
    (folder / "core.wasm").write_bytes(body)
    (folder / "core.sha256").write_text(hashlib.sha256(body).hexdigest())
    monkeypatch.setenv("AOS_CORE_DIR", str(folder))
    monkeypatch.setenv("AOS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(CORE_VARIABLE, raising=False)
    compiled = dict(compiled_core._loaded)
    yield
    compiled_core._loaded.clear()
    compiled_core._loaded.update(compiled)


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def cache(tmp_path: Path, notes: list[str]) -> ModuleCache:
    return ModuleCache(tmp_path / "cache", note=notes.append)


def module() -> Hash:
    return content_hash(read_core(core_folder()))


def is_cached(cache: ModuleCache) -> bool:
    """Whether another process would find the code."""
    compiled_core._loaded.clear()
    return cached_code(cache) is not None


def code_files(cache: ModuleCache) -> list[Path]:
    return sorted(cache.folder.glob("*.code"))


def is_locked(cache: ModuleCache) -> bool:
    lock = cache.lock("fast-core")
    if lock is not None:
        os.close(lock)
    return lock is None


def test_a_child_compiles_the_core_and_ends_by_itself(cache: ModuleCache) -> None:
    """CR-34"""
    assert cached_code(cache) is None

    compile_in_child(cache)

    eventually(lambda: is_cached(cache), "the code is in the cache")
    eventually(lambda: not is_locked(cache), "the child has ended")
    assert len(code_files(cache)) == 1
    assert (cache.folder / "fast-core.lock").stat().st_size == 0


def test_two_commands_start_one_child(cache: ModuleCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """CR-34"""
    children = []
    popen = subprocess.Popen

    def start(command: list[str], **more: object) -> subprocess.Popen[bytes]:
        waits = [sys.executable, "-c", "input()", *command[1:]]
        child = popen(waits, **{**more, "stdin": subprocess.PIPE})  # type: ignore[call-overload]
        children.append(child)
        return child  # type: ignore[no-any-return]

    monkeypatch.setattr(subprocess, "Popen", start)
    compile_in_child(cache)
    compile_in_child(cache)

    assert len(children) == 1
    children[0].communicate(b"\n")
    # It has ended without code, so the next one waits for a while.
    compile_in_child(cache)
    assert len(children) == 1
    os.utime(cache.folder / "fast-core.lock", (0, 0))
    compile_in_child(cache)
    assert len(children) == 2
    children[1].communicate(b"\n")


def test_damaged_code_is_compiled_again(cache: ModuleCache, notes: list[str]) -> None:
    """CR-34, S-53"""
    live_code(cache, notes.append)
    [file] = code_files(cache)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))

    assert not is_cached(cache)
    assert "is damaged" in notes[-1]

    live_code(cache, notes.append)
    assert file.read_bytes() == whole
    assert is_cached(cache)


def test_code_that_the_engine_refuses_is_compiled_again(cache: ModuleCache) -> None:
    """CR-34, S-53"""
    cache.put(module(), core_fingerprint(), b"of another machine")
    assert not is_cached(cache)

    live_code(cache, lambda _: None)

    assert is_cached(cache)


def test_code_of_another_release_is_not_used(cache: ModuleCache) -> None:
    """CR-34: of another wasmtime, or of another core."""
    code = live_code(cache, lambda _: None).serialized()
    [file] = code_files(cache)
    file.unlink()
    cache.put(module(), {**core_fingerprint(), "wasmtime": "1.0.0"}, code)
    cache.put(content_hash(b"another core"), core_fingerprint(), code)

    assert not is_cached(cache)


def test_without_a_cache_each_process_compiles_the_core_and_reports_it(
    cache: ModuleCache, notes: list[str]
) -> None:
    """CR-34, S-54"""
    cache.folder.mkdir()
    cache.folder.chmod(0o777)

    assert cached_code(cache) is None
    compile_in_child(cache)
    live_code(cache, notes.append)

    problem = "others may write to the folder: expected 0700, found 0777"
    assert notes == [
        f"{cache.folder}: compiled modules are not kept: {problem}",
        "the second kernel is compiled now, which takes some seconds",
    ]
    assert list(cache.folder.iterdir()) == []
    assert not is_cached(cache)
    compile_in_child(None)


def test_replay_compiles_the_core_although_its_code_is_cached(
    cache: ModuleCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-57"""
    live_code(cache, lambda _: None)
    monkeypatch.setattr(buffer, "_compiled", {})

    def refuse(*_: object) -> None:
        raise AssertionError("replay used cached code")

    monkeypatch.setattr(wasmtime.Module, "deserialize", refuse)
    shipped_code(is_quick=True)


# The choice


def chosen(
    cache: ModuleCache, core: CoreKind | None = None, *, short_fold: bool = False
) -> CoreKind:
    return choose_core(core, cache=lambda: cache, note=lambda _: None, short_fold=short_fold).kind


def test_a_named_core_is_used_and_compiled_if_need_be(
    cache: ModuleCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-33"""
    assert chosen(cache, CoreKind.PYTHON) is CoreKind.PYTHON
    assert chosen(cache, CoreKind.FAST, short_fold=True) is CoreKind.FAST
    assert is_cached(cache)

    monkeypatch.setenv(CORE_VARIABLE, "fast")
    assert chosen(cache, short_fold=True) is CoreKind.FAST
    assert chosen(cache, CoreKind.PYTHON) is CoreKind.PYTHON
    monkeypatch.setenv(CORE_VARIABLE, "slow")
    with pytest.raises(BadUsage, match="AOS_CORE"):
        chosen(cache)


def test_without_a_name_the_second_kernel_waits_for_its_code(
    cache: ModuleCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-33, CR-34"""
    monkeypatch.setattr(core_choice, "DEFAULT_CORE", CoreKind.FAST)

    assert chosen(cache, short_fold=True) is CoreKind.PYTHON
    assert not cache.folder.exists()
    assert chosen(cache) is CoreKind.PYTHON
    until_s = time.monotonic() + 120
    while chosen(cache) is CoreKind.PYTHON and time.monotonic() < until_s:
        time.sleep(0.05)

    assert chosen(cache) is CoreKind.FAST
    assert chosen(cache, short_fold=True) is CoreKind.PYTHON


def test_the_default_needs_no_engine() -> None:
    """CR-33"""
    assert core_choice.DEFAULT_CORE in CoreKind
    program = (
        "import sys; from aos.fastcore.core_choice import choose_core;"
        "choose_core(None, cache=sys.exit, note=print, short_fold=True);"
        "print('wasmtime' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
