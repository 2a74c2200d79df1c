"""Keep the memory of a process out of core files and debuggers (spec/host.md, H-87).

Keys, secrets and opened sealed values are in the memory of our programs. Each program calls
``keep_memory_private`` before it does anything else: an ``exec`` resets half of it. It needs only
the standard library, and little of it, because the smallest programs call it too.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4


def keep_memory_private() -> None:
    """Forbid core files of this process, and processes of the same user to read its memory.

    The limit of 0 bytes, which programs that this process starts inherit, covers core files that
    the kernel writes itself. A core file that it pipes into a program ignores the limit; that, and
    ``ptrace`` without CAP_SYS_PTRACE, end with ``PR_SET_DUMPABLE``, which only Linux has.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        # The package ctypes takes longer to import than a small command to run.
        import _ctypes  # noqa: PLC0415  # other systems have no use for it

        program = _ctypes.dlopen(None, os.RTLD_NOW)  # type: ignore[arg-type]  # the program itself
        _ctypes.call_function(_ctypes.dlsym(program, "prctl"), (PR_SET_DUMPABLE, 0, 0, 0, 0))
