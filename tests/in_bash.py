"""The words that a shell makes of a command."""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.tools import missing


def in_bash(command: str) -> list[str]:
    """The words that a shell makes of a command of ``aos``, and no program that it runs."""
    bash = shutil.which("bash")
    if bash is None:
        missing("there is no bash: the commands to copy are not tried")
    made = [bash, "-c", f"aos() {{ printf '%s\\0' aos \"$@\"; }}; {command}"]
    done = subprocess.run(made, capture_output=True, check=True, env={"PATH": "", "LC_ALL": "C"})
    assert done.stderr == b""
    return [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1]]
