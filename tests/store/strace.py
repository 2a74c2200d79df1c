"""System calls of another process that fail when a test wants them to."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import Final

from tests.tools import missing

PRIVATE: Final = (
    sys.executable,
    "-c",
    "from aos.private_memory import keep_memory_private as keep; keep(); open('/dev/null')",
)


def need_strace(*, of_aos: bool = False) -> None:
    """Skip the test where no process can be traced; with ``of_aos``, no program of AOS, whose
    memory is private (H-87)."""
    program = shutil.which("strace")
    if program is None:
        missing("strace is not installed: failing system calls are not tested")
    words = [
        program,
        "-q",
        "-o",
        "/dev/stdout",
        "-P",
        "/dev/null",
        *(PRIVATE if of_aos else ("true",)),
    ]
    tried = subprocess.run(words, capture_output=True, check=False)
    if tried.returncode or (of_aos and b"/dev/null" not in tried.stdout):
        missing(f"strace may not trace: failing system calls are not tested: {tried.stderr!r}")
