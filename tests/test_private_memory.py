"""No program of ours leaves its memory in a core file or to a debugger (spec/host.md H-87)."""

from __future__ import annotations

import ast
import contextlib
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cli.shell import environment
from tests.host.conftest import template, world
from tests.node.test_node_process import started, wait_until
from tests.tools import missing

ROOT: Final = Path(__file__).parent.parent
CALL: Final = "keep_memory_private()"
WITHOUT_SECRETS: Final = {
    "openapi.py": "prints a committed document, for those who build AOS",
    "unsupported_python.py": "prints the lists of a page, for those who build AOS",
}
CORE_BYTES: Final = resource.getrlimit(resource.RLIMIT_CORE)[1]

VICTIM: Final = """
import os, signal, subprocess, sys
if "private" in sys.argv:
    from aos.private_memory import keep_memory_private
    keep_memory_private()
if "child" in sys.argv:
    subprocess.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"])
else:
    os.kill(os.getpid(), signal.SIGSEGV)
"""

CALM: Final = """
from aos.worker import Executors, effect
@effect("test/calm@1")
async def calm_one(params, ctx): return params
@effect("test/calmer@1")
async def calmer_one(params, ctx): return params
calm = Executors("calm", [calm_one])
calmer = Executors("calmer", [calmer_one])
"""

__all__ = ["template", "world"]


def programs() -> dict[Path, ast.If]:
    """Each file that Python runs as a program, with the block that begins it."""
    found = {}
    for top in ("kernel/aos", "cli", "manifests/gateway/aos_gateway"):
        for file in sorted((ROOT / top).rglob("*.py")):
            if "templates" in file.parts:
                continue
            for node in ast.parse(file.read_text("utf-8")).body:
                if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
                    found[file] = node
    return found


def begins_private(file: Path, block: ast.If) -> bool:
    if file.name == "entry.py":  # the console script calls its main, too
        tree = ast.parse(file.read_text("utf-8")).body
        [main] = (
            each for each in tree if isinstance(each, ast.FunctionDef) and each.name == "main"
        )
        return ast.unparse(main.body[0]) == CALL
    calls = [ast.unparse(each) for each in block.body]
    first = next(each for each in calls if not each.startswith(("from ", "sys.path.append(")))
    return first == CALL


def test_every_program_begins_by_keeping_its_memory_private() -> None:
    """H-87."""
    found = programs()
    assert len(found) > 20, "the search still finds the programs"
    open_ones = {file.name for file, block in found.items() if not begins_private(file, block)}
    assert open_ones == set(WITHOUT_SECRETS)


def leaves_core(folder: Path, *words: str) -> bool:
    subprocess.run(
        [sys.executable, "-c", VICTIM, *words],
        cwd=folder,
        env=environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (CORE_BYTES, CORE_BYTES)),
        check=False,
    )
    found = list(folder.iterdir())
    for each in found:
        each.unlink()
    return bool(found)


def test_a_program_that_crashes_leaves_no_core_file_nor_does_its_child(tmp_path: Path) -> None:
    """H-87."""
    now = resource.getrlimit(resource.RLIMIT_CORE)[1]
    assert now == CORE_BYTES, "an earlier test has made the memory of this process private"
    if not leaves_core(tmp_path):
        missing("this system writes no core file into the working folder: it is not looked for")
    assert leaves_core(tmp_path, "child"), "the control"
    assert not leaves_core(tmp_path, "private")
    assert not leaves_core(tmp_path, "private", "child")


def tree(pid: int) -> Iterator[int]:
    yield pid
    for each in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            for child in each.read_text().split():
                yield from tree(int(child))


def as_user() -> list[str]:
    """Words that begin a command as an ordinary user has it, without root's power to trace."""
    if os.getuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        missing("setpriv is not installed: private processes are not looked at")
    return ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]


def may_be_traced(pid: int) -> bool:
    """Whether another process of the same user may trace it."""
    words = [*as_user(), "readlink", f"/proc/{pid}/exe"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def core_limits(pid: int) -> list[str]:
    [limits] = (
        line.split()[4:6]
        for line in Path(f"/proc/{pid}/limits").read_text().splitlines()
        if line.startswith("Max core file size")
    )
    return limits


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_the_processes_of_a_node_are_private(world: Path, tmp_path: Path) -> None:
    """H-87: the kernel process, the front, the executors and a worker."""
    with subprocess.Popen([*as_user(), sys.executable, "-c", "input()"], stdin=-1) as control:
        wait_until(lambda: may_be_traced(control.pid))  # once it is no longer setpriv
        control.kill()
    calm = tmp_path / "calm.py"
    calm.write_text(CALM)
    functions, worker = f"{calm}:calm", f"{calm}:calmer"
    options = ("--executors", functions, "--worker", worker)
    with started(world, tmp_path / "log", *options, begin=as_user()) as node:
        # A node is ready before its executors are; and each may still import its modules.
        wait_until(lambda: len(list(tree(node.process.pid))) >= 4)
        processes = [
            (pid, Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "))
            for pid in tree(node.process.pid)
        ]
        assert [words for pid, words in processes if core_limits(pid) != ["0", "0"]] == []
        wait_until(lambda: not any(may_be_traced(pid) for pid, _ in processes))
