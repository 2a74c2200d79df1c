"""The generated files of the demo and the cookbook match their sources. This needs no compiler."""

from __future__ import annotations

import subprocess
import sys

from tests.cookbook.worlds import ROOT


def test_generated_air_and_classes_are_those_of_the_sources() -> None:
    script = ROOT / "modules" / "cookbook" / "generate"
    ended = subprocess.run(
        [sys.executable, script, "--check"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "DIFFERS" not in ended.stdout
    assert ended.stdout.count("unchanged") == 24
