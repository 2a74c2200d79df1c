"""Limits of a process with which AOS cannot work: ``ulimit`` (spec/host.md, H-88).

A limit that is too low ends a process at any place: in an import, a thread that does not start, or
native code that aborts. So each is checked before it is met.
"""

from __future__ import annotations

import mmap
import resource
from typing import Final

from aos.errors import Unavailable

MIB: Final = 1 << 20
FILES_MIN: Final = 64
DATA_BYTES_MIN: Final = 512 * MIB


def check_limits() -> None:
    """Check the limits that every command needs.

    Raises:
        Unavailable: One is too low.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < FILES_MIN:
        raise _too_low("open files", f"{FILES_MIN}", f"{files}", f"ulimit -n {FILES_MIN}")
    data, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if data != resource.RLIM_INFINITY and data < DATA_BYTES_MIN:
        raise _too_low(
            "memory that this process may write",
            f"{DATA_BYTES_MIN // MIB} MiB",
            f"{data // MIB} MiB",
            "ulimit -d unlimited",
        )


def check_address_space(needed_bytes: int, purpose: str) -> None:
    """Check that the process may reserve ``needed_bytes`` bytes of addresses, which need no memory.

    Raises:
        Unavailable: It may not. ``purpose`` names what needs them.
    """
    try:
        mmap.mmap(-1, needed_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()
    except OSError:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        actual = "no room" if limit == resource.RLIM_INFINITY else f"{limit // MIB} MiB in all"
        expected = f"{needed_bytes // MIB} MiB more"
        raise _too_low(
            f"address space for {purpose}", expected, actual, "ulimit -v unlimited"
        ) from None


def _too_low(limit_name: str, expected: str, actual: str, hint: str) -> Unavailable:
    text = f"the limit of {limit_name} is too low for this process"
    return Unavailable(text, expected=f"at least {expected}", actual=actual, hint=hint)
