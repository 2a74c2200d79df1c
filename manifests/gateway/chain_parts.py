"""The two programs of a chain: anvil and the Arweave stub, as command lines that end ready."""

from __future__ import annotations

import http.client
import json
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from anvil import find_anvil
from chain_files import STATE
from chain_processes import Background, ChainError, start, wait_until
from chain_rpc import NodeUnreachable, call
from chain_state import is_whole

CHAIN_ID: Final = 31337
READY_S: Final = 60.0
LOG_LINES: Final = 3

STUB: Final = Path(__file__).resolve().parent / "arweave_stub.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the programs run. They are kept for a restart.

    ``block_time``: seconds between blocks; None: none by time. ``automine``: a block for every
    transaction. With neither, blocks are mined on demand only. ``keeps_state``: the node writes its
    blocks to the disk each second. Reveals: seconds, fixed at the contract's creation.
    """

    port: int = 0
    arweave_port: int = 0
    block_time: float | None = 1.0
    automine: bool = False
    keeps_state: bool = True
    has_arweave: bool = True
    arweave_block_ms: int = 1000
    reveal_delay: int = 5
    reveal_window: int = 3600

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def start_anvil(folder: Path, settings: Settings) -> Background:
    """Start the node, with the blocks in ``state.json``. It answers when this returns.

    Raises:
        AnvilMissing: There is no anvil.
        ChainError: It has ended, or does not answer; the message has the end of its log.
    """
    command = [str(find_anvil()), "--silent", "--port", str(settings.port), "--accounts", "20"]
    command += ["--chain-id", str(CHAIN_ID), *_mining(settings)]
    if settings.keeps_state:
        # Without the historical states, a node that was restarted refuses reads at earlier blocks.
        command += ["--state", str(folder / STATE), "--state-interval", "1"]
        command += ["--preserve-historical-states"]
    url = f"http://127.0.0.1:{settings.port}"

    def answers() -> bool:
        try:
            return bool(call(url, "eth_chainId", [], timeout_s=2) == hex(CHAIN_ID))
        except NodeUnreachable:
            return False

    try:
        return _ready(command, answers, log=folder / "anvil.log", name="anvil")
    except ChainError:
        state = folder / STATE
        if not state.exists() or is_whole(state):
            raise
        raise ChainError(
            f"{state}: a kill has cut the file while anvil wrote it: remove {folder} to begin a "
            "new chain (`chain.py kill` waits for a moment when anvil does not write)"
        ) from None


def start_arweave(folder: Path, settings: Settings) -> Background:
    """Start the Arweave stub. It answers when this returns.

    Raises:
        ChainError: As ``start_anvil``.
    """
    command = [sys.executable, str(STUB), "--port", str(settings.arweave_port)]
    command += ["--state", str(folder / "arweave.jsonl")]
    command += ["--block-ms", str(settings.arweave_block_ms)]

    def answers() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", settings.arweave_port, timeout=2)
        try:
            connection.request("GET", "/info")
            return "height" in json.loads(connection.getresponse().read())
        except (OSError, ValueError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return _ready(command, answers, log=folder / "arweave.log", name="the Arweave stub")


def _mining(settings: Settings) -> list[str]:
    if settings.block_time is None:
        return [] if settings.automine else ["--no-mining"]
    timed = ["--block-time", f"{settings.block_time:g}"]
    return [*timed, "--mixed-mining"] if settings.automine else timed


def _ready(
    command: Sequence[str], answers: Callable[[], bool], *, log: Path, name: str
) -> Background:
    process: Background | None = None
    # An interruption waits until the process is known here, so that it is ended.
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        process = start(command, log=log)
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        wait_until(lambda: not process.is_alive() or answers(), seconds=READY_S)
    except BaseException:
        if process is not None:
            process.kill()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
    if process.is_alive() and answers():
        return process
    ended = not process.is_alive()
    process.send(signal.SIGKILL)
    last = " | ".join(log.read_text("utf-8", "replace").split("\n")[-LOG_LINES - 1 :]).strip(" |")
    what = "has ended" if ended else f"does not answer after {READY_S:.0f} s"
    raise ChainError(f"{name} {what}; see {log}: {last or 'it is empty'}")
