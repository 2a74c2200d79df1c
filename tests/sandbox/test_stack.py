"""Guests run only where there is stack for them (spec/sandbox.md, S-35)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from aos.errors import Refused
from aos.sandbox.stack import (
    THREAD_STACK_BYTES,
    big_stacks,
    require_big_stack,
    run_on_big_stack,
    stack_bytes,
)
from tests.sandbox.bench import Bench

ROOT = Path(__file__).parents[2]


def on_a_stack_of(size: int, bench: Bench) -> list[str]:
    """Run on a thread with this stack, and return how it ended. Later threads do not reuse it."""
    said: list[str] = []

    def body() -> None:
        try:
            bench.echoes()
            said.append("ran")
        except Refused as refusal:
            said.append(str(refusal))

    before = threading.stack_size(size)
    try:
        thread = threading.Thread(target=body, name="small")
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return said


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_small_stack_is_refused_and_nothing_runs() -> None:
    """S-35. In a process of its own: a thread may be given an ended thread's larger stack."""
    script = """
        from tests.sandbox.test_stack import on_a_stack_of
        from tests.sandbox.bench import Bench
        print(on_a_stack_of(1 << 20, Bench()), on_a_stack_of(16 << 20, Bench()))
    """
    done = run_script(script)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "['thread small: the stack of this thread is too small to run modules on:"
        " expected 16777216 bytes, found 1048576"
        " (start the thread inside aos.sandbox.stack.big_stacks())'] ['ran']\n"
    )


def test_the_helper_returns_what_the_function_returns() -> None:
    assert run_on_big_stack(lambda: "done") == "done"
    found = run_on_big_stack(stack_bytes)
    assert found is None or found >= THREAD_STACK_BYTES - 65536
    run_on_big_stack(require_big_stack)


def test_the_helper_raises_what_the_function_raises() -> None:
    def fail() -> None:
        raise Refused("no")

    with pytest.raises(Refused, match="no"):
        run_on_big_stack(fail)


def test_threads_outside_the_block_keep_their_size() -> None:
    with big_stacks():
        pass  # the fixture that started this test's thread has left its own block by now
    before = threading.stack_size(1 << 20)

    with big_stacks():
        pass

    assert threading.stack_size(before) == 1 << 20


def test_deep_recursion_and_traps_with_faulthandler_do_not_kill_the_process() -> None:
    """S-36"""
    script = """
        import faulthandler, struct
        faulthandler.enable()
        from aos.sandbox.stack import run_on_big_stack
        from tests.sandbox.bench import Bench

        def main():
            for stack_bytes in (512 * 1024, 4 << 20):
                bench = Bench(stack_bytes=stack_bytes)
                print(bench.fault("stack_direct", struct.pack("<I", 2**32 - 1)))
                print(bench.fault("traps", entrypoint="zero"))
                print(bench.fault("traps", entrypoint="load"))

        run_on_big_stack(main)
    """
    done = run_script(script)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("STACK") == 2
    assert done.stdout.count("TRAP") == 4
