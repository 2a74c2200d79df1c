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

    ran = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "1",
            "--max-worker-restart=0", "--rootdir", tmp_path, tmp_path,
        ],
        env={**os.environ, "AOS_TEST_HANGS_S": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip

    assert ran.returncode != 0
    assert "Timeout (0:00:01)!" in ran.stderr
    assert "in test_it_hangs" in ran.stderr
