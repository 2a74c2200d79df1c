"""Compile the kernel: ``python -m compiling [FOLDER]``, or ``make compiled``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from compiling.building import ROOT, Unbuildable, build, missing_tools


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compiling", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "compiled")
    parser.add_argument(
        "--check", action="store_true", help="only say what this machine lacks; 1 if anything"
    )
    given = parser.parse_args()
    out: Path = given.folder
    if given.check:
        lacking = missing_tools()
        print("compiling: " + ("; ".join(lacking) or "a compiler and Python's headers are here"))
        return 1 if lacking else 0
    began = time.monotonic()
    try:
        build(out)
    except Unbuildable as problem:
        print(f"compiling: {problem}", file=sys.stderr)
        return 1
    print(f"{out}: compiled in {time.monotonic() - began:.0f} s; it goes first on the path:")
    print(f"  PYTHONPATH={out} aos run …")
    return 0


if __name__ == "__main__":
    sys.exit(main())
