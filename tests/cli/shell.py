"""Running ``aos``: in this process, in one of its own, and in a terminal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

import pytest

from aos_cli.main import run_command

ROOT: Final = Path(__file__).parents[2]
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
AOS: Final = [sys.executable, "-m", "aos_cli.entry"]


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document that was written."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The documents, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Aos(Protocol):
    def __call__(self, *words: str | Path, world: Path | None = None) -> Result: ...


def in_silence(*words: str | Path) -> int:
    """Run a command for what it does; return its exit code."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return run_command([*map(str, words)])


def here(*words: str | Path, cwd: Path | None = None, env: Mapping[str, str] = NOTHING) -> Result:
    """Run a command in this process, where a process of its own would prove nothing more."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        for name in ("AOS_WORLD", "FORCE_COLOR", "COLUMNS"):
            patch.delenv(name, raising=False)
        for name, value in {"NO_COLOR": "1", **env}.items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        code = run_command([*map(str, words)])
    return Result(code, out.getvalue(), err.getvalue())


def environment(**more: str) -> dict[str, str]:
    """So that ``AOS`` finds this very checkout from anywhere."""
    paths = os.pathsep.join(str(ROOT / name) for name in ("kernel", "cli"))
    kept = {name: value for name, value in os.environ.items() if name != "AOS_WORLD"}
    return {**kept, "PYTHONPATH": paths, **more}


def start(*words: str | Path, **more: Any) -> subprocess.Popen[bytes]:
    """Start ``aos`` in a process of its own, by the words ``begin``. Ending it is up to the
    caller."""
    env, begin = environment(**more.pop("env", {})), more.pop("begin", ())
    return subprocess.Popen([*begin, *AOS, *map(str, words)], env=env, **more)


def run(*words: str | Path, **more: Any) -> Result:
    """Run ``aos`` in a process of its own and wait for it."""
    env, timeout = environment(**more.pop("env", {})), more.pop("timeout", 240)
    done = subprocess.run(
        [*AOS, *map(str, words)], env=env, capture_output=True, text=True, timeout=timeout,
        check=False, **more,
    )  # fmt: skip
    return Result(done.returncode, done.stdout, done.stderr)
