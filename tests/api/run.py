"""Test a node by the document of its API, with schemathesis: ``make test-api``.

Every operation gets requests that fit the document and others that do not, alone and in the order
of the document's links. No answer may be a server error or one that the document does not have, and
nothing that does not fit the document may be accepted. Afterwards the world must be sound.

Streams are left out: they have no end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx

from tests.cli.shell import in_silence, run, start
from tests.cookbook.worlds import executors, recipe
from tests.node.nodes import WAIT_S, event
from tests.run_seed import settle_seed

HERE = Path(__file__).parent
TRIPS = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.api.run", description=__doc__)
    parser.add_argument("schemathesis", type=Path, help="the program schemathesis")
    parser.add_argument("--examples", type=int, default=40, help="requests of each operation")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return tested(Path(folder) / "world", given.schemathesis, given.examples)


def tested(world: Path, program: Path, examples: int) -> int:
    """Test the node of a world with some trips, and verify the world."""
    with trips_node(world) as (url, token):
        code = schemathesis(program, world.parent, url, token, examples)
    sound = [run(word, "--world", world) for word in ("verify", "replay")]
    for each in sound:
        sys.stderr.write(each.out.splitlines()[-1] + "\n" if each.code == 0 else each.err)
    return int(code != 0 or any(each.code for each in sound))


@contextmanager
def trips_node(world: Path) -> Iterator[tuple[str, str]]:
    """Make a world with some trips and run its node for the block, which gets its URL and a token
    that may do everything. Afterwards it must have stopped without a traceback in its log."""
    assert in_silence("init", world) == 0
    assert in_silence("apply", recipe("saga"), "--world", world) == 0
    scopes = [word for each in ("send", "read", "work", "operate") for word in ("--scope", each)]
    token = run("token", "create", "all", *scopes, "--world", world).out.strip()
    log = world.parent / "log"
    with log.open("w") as opened:
        node = start(
            "node", "--world", world, "--listen", "127.0.0.1:0", "--operator-key",
            world / "keys" / "operator.key", "--executors", executors("saga", "agencies"),
            stdout=opened, stderr=opened,
        )  # fmt: skip
    try:
        url = address(log, node)
        headers = {"Authorization": f"Bearer {token}"}
        for number in range(TRIPS):
            sent = httpx.post(
                f"{url}/v1/events", params={"wait": "settled"}, json=event(f"t-{number}"),
                headers=headers, timeout=WAIT_S,
            )  # fmt: skip
            assert sent.status_code == 200, sent.text
        yield url, token
        node.terminate()
        assert node.wait(WAIT_S) == 0, "the node did not stop"
    finally:
        node.kill()
        node.wait()
    assert "Traceback" not in log.read_text(), log.read_text()


def address(log: Path, node: subprocess.Popen[bytes]) -> str:
    """Wait until the node answers; return its URL."""
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        assert node.poll() is None, log.read_text()
        for line in log.read_text().splitlines():
            if line.startswith("serving "):
                return line.split()[1]
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def schemathesis(program: Path, folder: Path, url: str, token: str, examples: int) -> int:
    """Run schemathesis, which leaves files in ``folder``; return its exit code."""
    seed = settle_seed(os.environ, datetime.now(UTC).date())
    return subprocess.run(
        [
            program.resolve(), "--config-file", HERE / "schemathesis.toml",
            "run", f"{url}/v1/openapi.json", "--header", f"Authorization: Bearer {token}",
            "--max-examples", str(examples), "--seed", str(seed), "--request-timeout", "30",
            "--no-color", "--warnings", "off",
        ],
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HERE), "SCHEMATHESIS_HOOKS": "hooks"},
    ).returncode  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
