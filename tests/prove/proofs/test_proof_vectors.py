"""``spec/vectors/proofs.json``: what both verifiers must decide (PF-110)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aos.prove.proofs.trust import TrustPolicy
from aos.values.digests import parse_hash
from tests.cli.shell import here
from tests.prove.proofs.proof_vectors import PATH, text
from tests.prove.proofs.proven import ROOT, decided

VECTORS: list[dict[str, Any]] = json.loads(PATH.read_text("utf-8"))


def test_the_vectors_are_those_that_this_kernel_makes() -> None:
    """After a change that is meant: python -m tests.prove.proofs.proof_vectors."""
    assert PATH.read_text("utf-8") == text()


@pytest.mark.parametrize("vector", VECTORS, ids=lambda each: str(each["name"]))
def test_both_verifiers_decide_as_the_vectors_say(vector: dict[str, Any]) -> None:
    policy = TrustPolicy(world=parse_hash(vector["world"]))

    assert decided(vector["proof"].encode(), policy) == vector["exit"]


def test_the_independent_verifier_runs_alone(tmp_path: Path) -> None:
    """In a process that cannot import AOS, with the exit codes of PF-73."""
    file = tmp_path / "proof.json"
    program = ROOT / "spec" / "verify_proof.py"
    blocked = (
        "import runpy, sys; sys.modules['aos'] = None; "
        f"sys.argv = [{str(program)!r}, *sys.argv[1:]]; "
        f"runpy.run_path({str(program)!r}, run_name='__main__')"
    )
    right, other = VECTORS[0], next(each for each in VECTORS if each["exit"] == 3)
    for vector, words, code in (
        (right, ("--world", right["world"]), 0),
        (right, (), 1),
        (other, ("--world", other["world"]), 3),
    ):
        file.write_text(vector["proof"], "utf-8")
        ended = subprocess.run(
            [sys.executable, "-I", "-c", blocked, str(file), *words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == code, ended.stderr


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_a_file_that_cannot_be_read_is_a_misuse_and_no_verdict(tmp_path: Path, name: str) -> None:
    """PF-73: one sentence and exit code 2, as of `aos verify-proof`."""
    program = ROOT / "spec" / "verify_proof.py"
    ended = subprocess.run(
        [sys.executable, "-I", program, tmp_path / name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "the file cannot be read" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert here("verify-proof", tmp_path / name).code == 2
