"""Run the commands that a page tells its reader to type."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from aos_cli.main import run_command
from tests.cli.shell import environment
from tests.tools import missing

FENCE: Final = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ENDS_S: Final = 240.0

_SHIM: Final = """#!/bin/sh
exec {python} -m aos_cli.entry "$@"
"""


def blocks(page: Path) -> list[str]:
    """The blocks of commands of a page, in order."""
    return FENCE.findall(page.read_text("utf-8"))


@pytest.fixture
def bin_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, and another one with a command ``aos`` of this checkout."""
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    for name in ("AOS_WORLD", "AOS_NODE", "BANK_BOOKS", "CARDS_KEYRING"):
        monkeypatch.setenv(name, "")  # so that what a page exports is taken back
        monkeypatch.delenv(name)
    folder = tmp_path / "reader"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return _install(tmp_path)


def _install(folder: Path) -> Path:
    bin_ = folder / "bin"
    bin_.mkdir(exist_ok=True)
    (bin_ / "aos").write_text(_SHIM.format(python=shlex.quote(sys.executable)))
    (bin_ / "aos").chmod(0o755)
    return bin_


def follow(block: str, *, bin_: Path, with_messages: bool = False) -> str:
    """Run the commands of a block in this process's folder and environment; return the output, and
    ``with_messages`` the standard error, too.

    Commands that need no shell run in this process, which saves starting one for each. ``cd`` and
    ``export`` stay in effect for later blocks; the caller must undo them.
    """
    out, err = _in_process(block) if _is_plain(block) else _in_bash(block, bin_)
    return out + err if with_messages else out


def _is_plain(block: str) -> bool:
    words = all(line.startswith(("cd ", "export ", "aos ")) for line in block.splitlines())
    return words and not any(sign in block for sign in ("$(", "&", "|", ">", "<"))


def _in_process(block: str) -> tuple[str, str]:
    out, messages = io.StringIO(), ""
    for line in block.splitlines():
        first, *words = shlex.split(line, comments=True)
        if first == "export":
            for word in words:
                name, _, value = word.partition("=")
                os.environ[name] = value
        elif first == "cd":
            os.chdir(*words)
        else:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as err:
                code = run_command(words)
            messages += err.getvalue()
            if "npm ci refused" in err.getvalue():
                missing(f"npm cannot install AssemblyScript here: {err.getvalue()}")
            assert code == 0, f"{line}\n{out.getvalue()}\n{err.getvalue()}"
    return out.getvalue(), messages


def _in_bash(block: str, bin_: Path) -> tuple[str, str]:
    """As one script, which stops at the first command that fails; nothing of it is left running."""
    path = f"{bin_}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", block], text=True, env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    ) as bash:  # fmt: skip
        try:
            out, err = bash.communicate(timeout=ENDS_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(bash.pid, signal.SIGKILL)
    assert bash.returncode == 0, f"{block}\n{out}\n{err}"
    return out, err
