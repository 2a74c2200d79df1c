"""A test that hangs ends its process, and the reason reaches the reader (tests/conftest.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HANGING = """
import threading

def test_it_hangs():
    threading.Event().wait()
"""


def test_the_stacks_of_a_hanging_test_are_printed(tmp_path: Path) -> None:
    """Also while pytest captures the descriptor of stderr, and from a worker of xdist, which would
    else be lost without a word."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import *  # noqa: F403\n")
    (tmp_path / "test_hanging.py").write_text(HANGING)

    # With the shortest limit, a busy machine may not have begun the test.
    assert any("in test_it_hangs" in stacks(tmp_path, limit_s) for limit_s in (1, 10, 40))


def stacks(folder: Path, limit_s: int) -> str:
    """The output of a run with a test that hangs for longer than this."""
    ran = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "1",
            "--max-worker-restart=0", "--rootdir", folder, folder,
        ],
        env={**os.environ, "AOS_TEST_HANGS_S": str(limit_s), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )  # fmt: skip
    assert ran.returncode != 0
    assert f"Timeout (0:00:{limit_s:02})!" in ran.stderr
    return ran.stderr
