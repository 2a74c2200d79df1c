"""A process that has imported everything, and forks each life: starting one takes milliseconds.

It reads jobs from its input, one JSON document a line, and answers with one line each:

    {"job": "live", "log": FILE, …}   forks a process of its own group; answers with its id
    {"wait": PID}                     answers with its exit code; -9 if it was killed
    {"chain": FOLDER}                 ends this chain when the input ends, even if that is by a kill
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

ROOT: Final = Path(__file__).resolve().parents[3]


class Zygote:
    """A running zygote. One thread at a time uses it."""

    def __init__(self, cache: Path) -> None:
        """``cache`` is the folder of compiled modules."""
        paths = [ROOT / "kernel", ROOT / "cli", ROOT, ROOT / "manifests" / "gateway"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.gateway.matrix.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(str, paths)),
                "AOS_CACHE_DIR": str(cache),
            },
        )

    def start(self, job: str, log: Path, **given: Any) -> int:
        """Fork a process for a job; return its id, which is also that of its group."""
        pid: int = self._ask({"job": job, "log": str(log), **given})
        return pid

    def wait(self, pid: int) -> int:
        """Wait for the end of a process; return its exit code, or minus its signal."""
        code: int = self._ask({"wait": pid})
        return code

    def run(self, job: str, log: Path, **given: Any) -> int:
        """Carry out a job; return its exit code, or minus its signal."""
        return self.wait(self.start(job, log, **given))

    def end_at_last(self, chain: Path) -> None:
        """End the programs of a chain at the end, even if this process is killed."""
        self._ask({"chain": str(chain)})

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ask(self, message: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def main() -> None:
    jobs, chains = _jobs(), []
    gc.freeze()  # else each life would look for garbage among all that was imported
    for line in sys.stdin:
        asked = json.loads(line)
        answer = 0
        if "wait" in asked:
            answer = _wait(asked["wait"])
        elif "chain" in asked:
            chains.append(Path(asked["chain"]))
        else:
            answer = _fork(jobs, asked)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    for folder in chains:
        _end(folder)


def _end(folder: Path) -> None:
    from chain import Chain, ChainError

    with contextlib.suppress(ChainError, OSError):
        Chain.open(folder).down()


def _jobs() -> dict[str, Callable[..., int]]:
    """Import all that the lives need, once."""
    import aos_gateway.arweave
    import aos_gateway.evm  # noqa: F401
    from tests.gateway import naive  # noqa: F401
    from tests.gateway.matrix import judging, lives

    return {
        "live": lives.live,
        "make": judging.make,
        "judge": judging.judge,
        "aos": judging.command,
    }


def _wait(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _fork(jobs: Mapping[str, Callable[..., int]], asked: dict[str, Any]) -> int:
    name, log = asked.pop("job"), asked.pop("log")
    pid = os.fork()
    if pid:
        return pid
    from tests.gateway.matrix.lives import run_child

    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    run_child(lambda: jobs[name](**asked))
    raise AssertionError


if __name__ == "__main__":
    main()
