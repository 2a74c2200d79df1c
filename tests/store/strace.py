"""System calls of another process that fail when a test wants them to."""

from __future__ import annotations

import shutil
import subprocess

from tests.tools import missing


def need_strace() -> None:
    """Skip the test where no process can be traced."""
    program = shutil.which("strace")
    if program is None:
        missing("strace is not installed: failing system calls are not tested")
    tried = subprocess.run([program, "-o", "/dev/null", "true"], capture_output=True, check=False)
    if tried.returncode:
        missing(f"strace may not trace: failing system calls are not tested: {tried.stderr!r}")
