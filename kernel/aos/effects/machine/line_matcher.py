"""The lines that match a pattern, in a process that can be ended (AG-114).

    python -I -S line_matcher.py PATTERN i|-      prints "ready", or "invalid" and the reason

Each file arrives on stdin as two 4-byte big-endian lengths, its name and its bytes. For each line
that matches, the process prints ``name:number:line``, and after each file an empty line. A pattern
of Python's ``re`` can take for ever: the executor ends this process then.
"""

from __future__ import annotations

import re
import resource
import struct
import sys

LINE_CHARS_SHOWN = 500
MEMORY_BYTES_MAX = 512 * 1024 * 1024
HEAD = struct.Struct(">II")


def main() -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    pattern, flags = sys.argv[1:]
    answers = sys.stdout.buffer
    try:
        matcher = re.compile(pattern, re.IGNORECASE if flags == "i" else 0)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        answers.write(f"invalid {error}".replace("\n", " ").encode() + b"\n")
        return 0
    answers.write(b"ready\n")
    answers.flush()
    source = sys.stdin.buffer
    while head := source.read(HEAD.size):
        name_size, size = HEAD.unpack(head)
        name = source.read(name_size)
        text = source.read(size).decode("utf-8", "replace")
        for number, line in enumerate(text.split("\n"), 1):
            stripped = line.removesuffix("\r")
            if matcher.search(stripped):
                cut = stripped[:LINE_CHARS_SHOWN] + (
                    "…" if len(stripped) > LINE_CHARS_SHOWN else ""
                )
                answers.write(b"%s:%d:%s\n" % (name, number, _one_line(cut).encode()))
        answers.write(b"\n")
        answers.flush()
    return 0


def _one_line(text: str) -> str:
    """The line breaks that are none for ``grep``, escaped."""
    return text.replace("\r", "\\r")


if __name__ == "__main__":
    sys.path.append(__file__.rsplit("/", 4)[0])  # ``-S`` leaves only the standard library
    from aos.private_memory import keep_memory_private

    keep_memory_private()
    sys.exit(main())
