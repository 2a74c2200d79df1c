"""Make clients of a node's API with two generators, and use a node: ``make test-clients``.

    spec/openapi.json ──Spectral──▶ no error, and no warning that spectral.yaml does not explain
                      ──openapi-python-client──▶ python_client.py
                      ──openapi-typescript──▶ client.ts, compiled

The generators and what they need are in an environment of their own.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aos.node.routes import ROUTES
from tests.api.run import trips_node

HERE: Final = Path(__file__).parent
SPEC: Final = HERE.parents[2] / "spec" / "openapi.json"
STEP_S: Final = 300.0
"""Seconds that one program may take."""

NO_CBOR: Final = "Unsupported content type application/cbor"
"""openapi-python-client makes the same operation with the other media type of its body, JSON."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.api.clients.run", description=__doc__)
    parser.add_argument("environment", type=Path, help="where the generators are")
    given = parser.parse_args()
    environment = given.environment.resolve()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        lint(environment)
        python = made / "python"
        make_python(environment, python)
        typescript = made / "typescript"
        make_typescript(environment, typescript)
        with trips_node(made / "world") as (url, token):
            program = [environment / "bin" / "python", HERE / "python_client.py"]
            operations = str(len(ROUTES))
            _run([*program, url, token, operations], {"PYTHONPATH": str(python)})
            _run(["node", typescript / "out" / "client.js", url, token])
    sys.stdout.write("3 passed, 0 failed\n")
    return 0


def lint(environment: Path) -> None:
    """Check the document with Spectral."""
    spectral = environment / "node_modules" / ".bin" / "spectral"
    ruleset = HERE / "spectral.yaml"
    _run([spectral, "lint", SPEC, "--ruleset", ruleset, "--fail-severity", "hint"])


def make_python(environment: Path, folder: Path) -> None:
    """Make the package ``made`` in a folder, and compile it. Nothing of the document but the CBOR
    of bodies may be missing."""
    folder.mkdir()
    generator = environment / "bin" / "openapi-python-client"
    said = _run(
        [
            generator, "generate", "--path", SPEC, "--config", HERE / "config.yaml",
            "--output-path", folder / "made", "--meta", "none",
        ],
        {"PATH": f"{environment / 'bin'}:{os.environ['PATH']}"},
    )  # fmt: skip
    warnings = re.findall(r"^(?:WARNING|ERROR).*\n\n?(.*)$", said, re.MULTILINE)
    assert set(warnings) <= {NO_CBOR}, sorted(set(warnings))
    assert "will not be generated" not in said, said
    _run([environment / "bin" / "python", "-m", "compileall", "-q", folder / "made"])


def make_typescript(environment: Path, folder: Path) -> None:
    """Make the types in a folder, and compile the test against them."""
    folder.mkdir()
    for name in ("client.ts", "tsconfig.json"):
        shutil.copy(HERE / name, folder)
    (folder / "package.json").write_text('{"type": "module"}\n')
    (folder / "node_modules").symlink_to(environment / "node_modules")
    programs = environment / "node_modules" / ".bin"
    _run([programs / "openapi-typescript", SPEC, "--output", folder / "made.d.ts"])
    _run([programs / "tsc", "--project", folder])


def _run(words: Sequence[object], more: Mapping[str, str] | None = None) -> str:
    """Run a program to its end, and return what it printed."""
    done = subprocess.run(
        list(map(str, words)), check=False, capture_output=True, text=True, timeout=STEP_S,
        env={**os.environ, **(more or {})},
    )  # fmt: skip
    said = done.stdout + done.stderr
    if done.returncode:
        sys.stderr.write(f"{' '.join(map(str, words))}\n{said}\n")
        raise SystemExit(done.returncode)
    return said


if __name__ == "__main__":
    sys.exit(main())
