"""The local chain of the gateway's demo: the commands of chain.py, and calls to its programs."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from aos.errors import Unavailable
from aos_cli.demo.gateway_files import GatewayFiles
from aos_cli.demo.processes import Command, python, show
from aos_cli.output import line

TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class LocalChain:
    """``folder`` is that of chain.py, ``variables`` what its file ``env`` sets."""

    files: GatewayFiles
    folder: Path
    variables: dict[str, str]

    @property
    def evm(self) -> str:
        """The URL of the node."""
        return self.variables["AOS_EVM_RPC"].partition("=")[2]

    @property
    def arweave(self) -> str:
        """The URL of the Arweave stub."""
        return self.variables["AOS_ARWEAVE"].partition("=")[2]

    @property
    def studio(self) -> str:
        return self.variables["STUDIO"]

    @property
    def secrets(self) -> Path:
        return self.folder / "secrets"

    def do(self, subcommand: str) -> None:
        """Show a command of chain.py and run it; show what it prints."""
        _do(python(self.files.chain, subcommand, self.folder))

    def call(self, method: str, *params: Any, is_shown: bool = True) -> Any:
        """Call the node itself, not through the proxy."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return post(self.evm, request, is_shown=is_shown)["result"]

    def block_with_transactions(self) -> dict[str, Any] | None:
        """The newest block, if it has transactions."""
        block: dict[str, Any] = self.call("eth_getBlockByNumber", "latest", False, is_shown=False)
        return block if block["transactions"] else None


@contextmanager
def local_chain(files: GatewayFiles, folder: Path, *block_time: str) -> Iterator[LocalChain]:
    """Start the chain, and end its programs at the end of the block, whatever ends it.

    Raises:
        Unavailable: It does not start.
    """
    try:
        _do(python(files.chain, "up", folder, *block_time))
        yield LocalChain(files, folder, _variables(folder / "env"))
    finally:
        if (folder / "chain.json").exists():
            _run_to_end(python(files.chain, "down", folder))


def post(url: str, document: dict[str, Any], *, is_shown: bool = True) -> Any:
    """Post JSON and return the JSON of the answer.

    Raises:
        Unavailable: There is none, or it is an error.
    """
    if is_shown:
        line(f"$ curl --json {shlex.quote(json.dumps(document))} {url}", style="cyan")
    try:
        answer = httpx.post(url, json=document, timeout=TIMEOUT_S, trust_env=False)
        reply = answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError) as problem:
        raise Unavailable(f"{url}: expected an answer to {document}, found {problem}") from problem
    if isinstance(reply, dict) and "error" in reply:
        raise Unavailable(f"{url}: {document}: {reply['error']}")
    return reply


def _do(command: Command) -> None:
    show(command)
    code, out, problem = _run_to_end(command)
    if code != 0:
        raise Unavailable(f"`{command}` ended with {code}: {problem.strip()}")
    for text in out.splitlines():
        line(f"  {text}")


def _run_to_end(command: Command) -> tuple[int, str, str]:
    """Run a command to its end, also if a signal interrupts this: a program that it has just
    started would otherwise be left. Return its exit code and what it wrote."""
    with subprocess.Popen(  # noqa: S603
        command.words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, problem = process.communicate()
        except BaseException:
            process.wait()
            raise
    return process.returncode, out, problem


def _variables(env: Path) -> dict[str, str]:
    """The variables that a file of `export NAME=VALUE` lines sets."""
    words = (shlex.split(text.removeprefix("export "))[0] for text in env.read_text().splitlines())
    return dict(word.partition("=")[::2] for word in words)
