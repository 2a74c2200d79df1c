"""spec/guides/govern.md is true word for word: a test types its commands in an empty folder."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.cookbook.typed import bin_, blocks, follow
from tests.cookbook.worlds import ROOT

pytestmark = pytest.mark.rotated(3)

__all__ = ["bin_"]

PAGE: Final = ROOT / "spec" / "guides" / "govern.md"
SHOWN: Final = (
    r"an approval needs a shadow report of 300 records",
    r"idle at record ",
    r"~ module shop/orders\.module@1: runtime\n",
    r"approvals name a shadow report of 300 records, and there is none yet",
    r"shadow: \d+ of \d+ cells differ, from record 2 to [\d,]+\n",
    r"shop/card\.charge@1: asked for \d+ times as recorded, \d+ in the shadow",
    r"\nreport blake3:[0-9a-f]{64}: record \d+\n",
    r"report blake3:[0-9a-f]{64} is what this journal gives",
    r"approve proposal \d+, by ann: record \d+\n  it is open: 1 of 2 approvals",
    r"verify: sound to record \d+",
    r"vote: vote\.json\n  approve proposal \d+, by bob",
    r"approve proposal \d+, by bob: record \d+\n  it is approved\n",
    r"applied as record \d+\n",
    r"status\tapplied\n",
    r"cosigned by witness\.example/w1 at ",
    r"settled it: ok, signed by node",
    r"the proof holds\n",
    r"by: witness witness\.example/w1 cosigned the checkpoint",
    r"the proof holds, and world blake3:[0-9a-f]{64} says so",
)


def test_the_tutorial_is_true_word_for_word(bin_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRC", str(ROOT))

    written = "".join(follow(block, bin_=bin_) for block in blocks(PAGE))

    at = 0
    for pattern in SHOWN:
        found = re.compile(pattern).search(written, at)
        assert found is not None, f"{pattern} is not in\n{written[at:]}"
        at = found.end()
    _is_refused_with_one_bit_changed()


def _is_refused_with_one_bit_changed() -> None:
    """The independent verifier, run where nothing of AOS can be imported."""
    world, proof = Path("world-id").read_text().strip(), Path("charge.json")
    assert _verified(proof, world) == 0
    document = json.loads(proof.read_text())
    text = json.dumps(document)
    place = text.index('"records"')
    digit = next(at for at in range(place, len(text)) if text[at] in "bcdefgh")
    changed = chr(ord(text[digit]) ^ 1)
    Path("changed.json").write_text(text[:digit] + changed + text[digit + 1 :])
    assert _verified(Path("changed.json"), world) == 3


def _verified(proof: Path, world: str) -> int:
    script = str(ROOT / "spec" / "verify_proof.py")
    words = [sys.executable, "-I", script, str(proof), "--world", world]
    return subprocess.run(words, capture_output=True, check=False).returncode
