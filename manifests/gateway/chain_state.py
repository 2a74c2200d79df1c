"""The blocks of a node that is about to be killed."""

from __future__ import annotations

import gzip
import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from chain_processes import Background, ChainError, wait_until
from chain_rpc import NodeUnreachable, RpcError

FREEZE_S: Final = 60.0


def frozen(rpc: Callable[[str, Sequence[Any]], Any]) -> str | None:
    """Stop mining and return all blocks, as the node keeps them; None where it does not answer."""
    try:
        rpc("evm_setAutomine", [False])
        rpc("evm_setIntervalMining", [0])
        # With the states of earlier blocks, at which reads are made.
        dumped = rpc("anvil_dumpState", [True])
    except (NodeUnreachable, RpcError):
        return None
    return gzip.decompress(bytes.fromhex(dumped[2:])).decode()


def await_whole(process: Background, file: Path) -> None:
    """Stop the node (SIGSTOP) at a moment when it is not writing its blocks.

    The node overwrites its file in place, so a kill at another moment cuts it.

    Raises:
        ChainError: There was no such moment in FREEZE_S seconds.
    """

    def stops() -> bool:
        process.send(signal.SIGSTOP)
        if is_whole(file):
            return True
        process.send(signal.SIGCONT)
        return False

    if not wait_until(stops, seconds=FREEZE_S):
        raise ChainError(f"{file}: the node has not written its blocks in {FREEZE_S:.0f} s")


def is_whole(file: Path) -> bool:
    """Whether the node can read the file that it has written."""
    try:
        json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return True
