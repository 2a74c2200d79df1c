"""The local chain of the gateway's demo: its files, the commands of chain.py, and calls to its
programs.
"""

from __future__ import annotations

import json
import runpy
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import httpx

from aos.errors import Unavailable
from aos.tied_process import signals_after
from aos_cli.demo.processes import Command, python, show
from aos_cli.output import line
from aos_gateway.shipped_files import gateway_folder

TIMEOUT_S: Final = 30.0

PACKAGES: Final = ("eth_account", "eth_abi", "coincurve", "Crypto")
"""Modules of the extra ``gateway``."""

_NEEDED_FILES: Final = (
    "air/generated.air.json",
    "chain.py",
    "mischief.py",
    "arweave_stub.py",
    "make_requests.py",
    "check.py",
)


@dataclass(frozen=True, slots=True)
class GatewayFiles:
    """Paths below ``manifests/gateway``, relative if they are below the current folder."""

    folder: Path

    @property
    def manifest(self) -> Path:
        return self.folder

    @property
    def chain(self) -> Path:
        return self.folder / "chain.py"

    @property
    def mischief(self) -> Path:
        return self.folder / "mischief.py"

    @property
    def make_requests(self) -> Path:
        return self.folder / "make_requests.py"

    @property
    def check(self) -> Path:
        return self.folder / "check.py"


def find_gateway_files() -> GatewayFiles:
    """Find the files of the demo, and make sure that it can run: that the two things that it needs
    besides AOS are installed, the packages of the extra ``gateway`` and anvil.

    Raises:
        Unavailable: The files, the packages of the extra ``gateway``, or anvil are missing.
    """
    files = GatewayFiles(gateway_folder(_NEEDED_FILES))
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise Unavailable(
            f"the demo needs packages that are not installed ({missing[0]} is missing): run "
            "pip install 'aos-kernel[gateway]'"
        )
    _find_anvil(files)
    return files


def _find_anvil(files: GatewayFiles) -> None:
    """Find anvil as chain.py will do it."""
    anvil_module = runpy.run_path(str(files.folder / "anvil.py"))
    try:
        anvil_module["find_anvil"]()
    except anvil_module["AnvilMissing"] as problem:
        raise Unavailable(
            f"the demo needs anvil, a local EVM node: {problem} (without a checkout: npm install "
            "@foundry-rs/anvil, then set AOS_ANVIL to its program)"
        ) from None


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
        _run_and_show(python(self.files.chain, subcommand, self.folder))

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
        _run_and_show(python(files.chain, "up", folder, *block_time))
        yield LocalChain(files, folder, _variables_of(folder / "env"))
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


def _run_and_show(command: Command) -> None:
    show(command)
    code, out, problem = _run_to_end(command)
    if code != 0:
        raise Unavailable(f"`{command}` ended with {code}: {problem.strip()}")
    for text in out.splitlines():
        line(f"  {text}")


def _run_to_end(command: Command) -> tuple[int, str, str]:
    """Run a command to its end, also if a signal interrupts this: a program that it has just
    started would otherwise be left. Return its exit code and what it wrote."""
    process: subprocess.Popen[str] | None = None
    try:
        with signals_after():
            process = subprocess.Popen(  # noqa: S603
                command.words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        out, problem = process.communicate()
    except BaseException:
        if process is not None:
            process.communicate()
        raise
    return process.returncode, out, problem


def _variables_of(env: Path) -> dict[str, str]:
    """The variables that a file of `export NAME=VALUE` lines sets."""
    words = (shlex.split(text.removeprefix("export "))[0] for text in env.read_text().splitlines())
    return dict(word.partition("=")[::2] for word in words)
