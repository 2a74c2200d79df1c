#!/usr/bin/env python3
"""A chain on one machine: an EVM node, an Arweave stub, the contract and keys, in one folder.

    python manifests/gateway/chain.py up DIR        start everything; it is ready when this returns
    python manifests/gateway/chain.py restart DIR   kill the node and start it again: its blocks
                                                    stay, its pending transactions are lost
    python manifests/gateway/chain.py kill DIR      kill the node alone (SIGKILL)
    python manifests/gateway/chain.py down DIR      end both programs; `up` continues the same chain

`. DIR/env` sets AOS_EVM_RPC, AOS_ARWEAVE, STUDIO and the accounts; DIR/secrets has their keys, for
`aos run --secrets`. All of it is for tests: the keys are public. Both programs listen on 127.0.0.1
alone.

Exit codes: 0 done; 1 refused, with the reason; 2 usage; 3 anvil is missing; 130 interrupted:
its programs have ended.
"""

# ruff: noqa: T201  # a script that prints

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from anvil import AnvilMissing
from chain_files import Account
from chain_parts import CHAIN_ID, Settings
from chain_processes import ChainError
from chain_rpc import NodeUnreachable, RpcError
from local_chain import Chain

__all__ = ["Account", "Chain", "ChainError", "NodeUnreachable", "RpcError", "Settings"]

FAILED, MISSING, INTERRUPTED = 1, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    try:
        _COMMANDS[given.command](given)
    except AnvilMissing as problem:
        print(f"chain.py: {problem}", file=sys.stderr)
        return MISSING
    except (ChainError, NodeUnreachable, RpcError, OSError) as problem:
        print(f"chain.py: {problem}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("chain.py: interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM ends what was started, as Ctrl-C does."""
    raise KeyboardInterrupt


def _up(given: argparse.Namespace) -> None:
    settings = Settings(
        port=given.port,
        arweave_port=given.arweave_port,
        block_time=given.block_time or None,
        automine=given.automine,
        reveal_delay=given.reveal_delay,
        reveal_window=given.reveal_window,
    )
    chain = Chain.up(given.folder, settings)
    print(f"chain {CHAIN_ID} at {chain.url}, block {chain.head()}")
    print(f"arweave at {chain.arweave_url}")
    print(f"contract {chain.studio}")
    print(f"ready: `. {given.folder}/env` sets the variables; keys are in {chain.secrets}")


def _restart(given: argparse.Namespace) -> None:
    chain = Chain.open(given.folder)
    chain.restart(loses_blocks=given.loses_blocks)
    print(f"chain {CHAIN_ID} at {chain.url} again, block {chain.head()}")


def _kill(given: argparse.Namespace) -> None:
    chain = Chain.open(given.folder)
    chain.kill(loses_blocks=given.loses_blocks)
    print(f"the node of {given.folder} is killed; `chain.py restart {given.folder}` starts it")


def _down(given: argparse.Namespace) -> None:
    Chain.open(given.folder).down()
    print(f"the programs of {given.folder} have ended")


_COMMANDS: Final = {"up": _up, "restart": _restart, "kill": _kill, "down": _down}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start everything; it is ready when this returns")
    up.add_argument("--port", type=int, default=0, help="of the node (default: a free one)")
    up.add_argument("--arweave-port", type=int, default=0, help="of the stub (default: a free one)")
    up.add_argument(
        "--block-time",
        type=float,
        default=1.0,
        metavar="S",
        help="seconds between blocks (default 1; 0: none by time)",
    )
    up.add_argument("--automine", action="store_true", help="mine a block for every transaction")
    up.add_argument(
        "--reveal-delay", type=int, default=5, metavar="S", help="from commit to reveal (default 5)"
    )
    up.add_argument(
        "--reveal-window",
        type=int,
        default=3600,
        metavar="S",
        help="for which a reveal stays open (default 3600)",
    )
    restart = commands.add_parser("restart", help="kill the node and start it again")
    kill = commands.add_parser("kill", help="kill the node alone (SIGKILL)")
    for command in (restart, kill):
        command.add_argument(
            "--loses-blocks",
            action="store_true",
            help="also lose the blocks of up to the last second, as after any kill",
        )
    down = commands.add_parser("down", help="end both programs; their state stays")
    for command in (up, restart, kill, down):
        command.add_argument("folder", type=Path, metavar="DIR", help="folder of the chain")
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupted)
    sys.exit(main())
