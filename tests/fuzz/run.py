"""Run one target under atheris: ``make fuzz TARGET=decoder SECONDS=60``.

The fuzzer sees which code of ours runs and keeps what reaches more of it. An input that fails is
written out as hex; with ``--keep`` the smallest inputs that reach everything found so far go to
``tests/fuzz/corpus/NAME.hex``, where the tests read them.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import CORPUS, FILES, beginning, find

ATHERIS = Path(__file__).parent / "requirements.txt"
CHILD = (sys.executable, "-m", "tests.fuzz.child")
INPUT_BYTES_MAX = 8192
KEPT_MAX = 200
"""Inputs that are kept for one target; the tests run them all."""
KEPT_BYTES_MAX = 20_000


def say(line: str) -> None:
    sys.stderr.write(line + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("name", choices=sorted(FILES))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--keep", action="store_true", help="write the corpus that was found")
    given = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        say(
            "atheris is not installed, which fuzzing needs and nothing else does. Install it with\n"
            f"  {sys.executable} -m pip install --require-hashes -r {ATHERIS}\n"
            "It has wheels for Linux on x86-64 and Python 3.11 to 3.13."
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="aos-fuzz-") as folder:
        return fuzz(given.name, given.seconds, Path(folder), keep=given.keep)


def fuzz(name: str, seconds: int, folder: Path, *, keep: bool) -> int:
    """Run the fuzzer in a process of its own, which ends itself; say what came of it."""
    inputs, failures, small = (folder / each for each in ("inputs", "failures", "small"))
    for each in (inputs, failures, small):
        each.mkdir()
    for data in beginning(name):
        (inputs / hashlib.sha256(data).hexdigest()).write_bytes(data)
    (folder / "tokens").write_text("".join(map(token_line, find(name).TOKENS)))
    began = len(list(inputs.iterdir()))
    program = folder / "program"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(CHILD)} {name} {program} "$@"\n')
    program.chmod(0o700)
    code = atheris(
        program,
        f"-max_total_time={seconds}",
        f"-dict={folder / 'tokens'}",
        f"-artifact_prefix={failures}{os.sep}",
        str(inputs),
    )
    for failure in sorted(failures.iterdir()):
        say(f"{failure.name}: bytes.fromhex('{failure.read_bytes().hex()}')")
    say(f"{name}: {began} inputs at the beginning, {len(list(inputs.iterdir()))} at the end")
    if code == 0 and keep:
        code = atheris(program, "-merge=1", str(small), str(inputs))
        say(f"{name}: {write(name, small)} inputs kept")
    return code


def atheris(program: Path, *arguments: str) -> int:
    limits = [f"-max_len={INPUT_BYTES_MAX}", "-timeout=20", "-rss_limit_mb=2048"]
    command = [str(program), *arguments, *limits, "-print_final_stats=1"]
    return subprocess.run(command, check=False).returncode


def token_line(token: bytes) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in token) + '"\n'


def write(name: str, small: Path) -> int:
    """The smallest first, as many as the tests should run; seeds are not written again."""
    seeds = set(find(name).seeds())
    found = sorted(
        (each.read_bytes() for each in small.iterdir()), key=lambda data: (len(data), data)
    )
    lines: list[str] = []
    room = KEPT_BYTES_MAX
    for data in found:
        room -= len(data)
        if data not in seeds and room > 0 and len(lines) < KEPT_MAX:
            lines.append(data.hex() + "\n")
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / f"{name}.hex").write_text("".join(lines), "ascii")
    return len(lines)


if __name__ == "__main__":
    sys.exit(main())
