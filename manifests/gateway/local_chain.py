"""The chain of one folder: start its programs, kill its node, start it again with its blocks."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import chain_files
from anvil import find_anvil
from chain_files import Account, accounts
from chain_parts import CHAIN_ID, Settings, start_anvil, start_arweave
from chain_processes import Background, ChainError, free_port
from chain_rpc import call
from chain_state import await_whole, frozen
from studio import deploy

CHAIN: Final = "chain.json"
"""The file with the processes of a folder, and the settings that they run with."""


class Chain:
    """The programs of one folder. Any process may hold a ``Chain`` of a folder and control it.

    As a context manager, it is ended at the end of the block.
    """

    def __init__(self, folder: Path, settings: Settings, studio: str) -> None:
        self.folder = folder
        self.settings = settings
        self.studio = studio
        self._processes: dict[str, Background] = {}

    @classmethod
    def up(cls, folder: Path, settings: Settings | None = None) -> Self:
        """Start the programs of a folder; continue its chain if it has one.

        Raises:
            AnvilMissing: There is no anvil.
            ChainError: A chain runs in this folder, a port is in use, or a program has ended.
        """
        find_anvil()
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            chain = cls._prepared(folder.absolute(), settings or Settings())
            try:
                chain._start()  # noqa: SLF001  # of this class
            except BaseException:
                chain._end()  # noqa: SLF001
                raise
            return chain

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Return the chain of a folder, whether its programs run or not.

        Raises:
            ChainError: The folder has none.
        """
        file = folder.absolute() / CHAIN
        if not file.exists():
            raise ChainError(f"{folder}: there is no chain: `chain.py up {folder}` creates one")
        kept = chain_files.read(file)
        chain = cls(file.parent, Settings(**kept["settings"]), kept["studio"])
        chain._load()
        return chain

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.settings.port}"

    @property
    def arweave_url(self) -> str:
        return f"http://127.0.0.1:{self.settings.arweave_port}"

    @property
    def env(self) -> dict[str, str]:
        """The two variables that a world needs to find the programs."""
        found = {"AOS_EVM_RPC": f"{CHAIN_ID}={self.url}"}
        return found | (
            {"AOS_ARWEAVE": f"main={self.arweave_url}"} if self.settings.has_arweave else {}
        )

    @property
    def secrets(self) -> Path:
        """The file for ``--secrets``."""
        return self.folder / "secrets"

    @property
    def accounts(self) -> tuple[Account, ...]:
        """The 20 accounts of the node. It signs for them in ``eth_sendTransaction``."""
        return accounts()

    def address(self, role: str) -> str:
        """The address of a role of ``chain_files.ROLES``, for example SIGNER2."""
        return self.accounts[chain_files.ROLES[role]].address

    def rpc(self, method: str, params: Sequence[Any] = ()) -> Any:
        """Return the result of one call to the node.

        Raises:
            RpcError, NodeUnreachable: As ``chain_rpc.call``.
        """
        return call(self.url, method, params)

    def head(self) -> int:
        return int(self.rpc("eth_blockNumber"), 16)

    def mine(self, blocks: int = 1) -> int:
        """Mine blocks now, and return the number of the last one."""
        self.rpc("anvil_mine", [hex(blocks)])
        return self.head()

    def is_alive(self) -> bool:
        """Whether the node runs."""
        return "anvil" in self._processes and self._processes["anvil"].is_alive()

    def running(self) -> str:
        """Which programs run, in words; empty: none."""
        running = [(name, each) for name, each in self._processes.items() if each.is_alive()]
        return ", ".join(f"{name} is process {each.pid}" for name, each in running)

    def pid(self) -> int:
        """The process id of the node."""
        return self._processes["anvil"].pid

    def kill(self, *, loses_blocks: bool = False) -> None:
        """Kill the node (SIGKILL). The transactions of its pool are lost, its blocks are not.

        ``loses_blocks``: the blocks since its last write to the disk, up to a second ago, are lost
        too, as after any kill.
        """
        with _locked(self.folder):
            self._load()
            self._kill(loses_blocks=loses_blocks)

    def restart(self, *, loses_blocks: bool = False) -> None:
        """Start the node again, on its port and with the blocks that it kept; kill it if it runs.

        Raises:
            ChainError: As ``up``.
        """
        with _locked(self.folder):
            self._load()
            self._kill(loses_blocks=loses_blocks)
            self._start()

    def down(self) -> None:
        """End both programs. Their state stays; nothing happens if they do not run."""
        with _locked(self.folder):
            self._load()
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    # Steps, under the folder's lock.

    @classmethod
    def _prepared(cls, folder: Path, settings: Settings) -> Self:
        """The chain before its start: no other runs, and its ports are free."""
        kept = cls.open(folder) if (folder / CHAIN).exists() else None
        if kept is not None and (running := kept.running()):
            raise ChainError(
                f"{folder}: a chain runs here ({running}): end it with `chain.py down {folder}`"
            )
        if kept is not None:
            settings = replace(
                settings,
                port=settings.port or kept.settings.port,
                arweave_port=settings.arweave_port or kept.settings.arweave_port,
            )
        settings = replace(
            settings,
            port=free_port(settings.port),
            arweave_port=free_port(settings.arweave_port) if settings.has_arweave else 0,
        )
        return cls(folder, settings, kept.studio if kept is not None else "")

    def _start(self) -> None:
        """Start what does not run, and create the contract where the chain has none."""
        if not self.is_alive():
            free_port(self.settings.port)
            self._processes["anvil"] = start_anvil(self.folder, self.settings)
            self._save()
            self._keep_time()
        stub = self._processes.get("arweave")
        if self.settings.has_arweave and not (stub and stub.is_alive()):
            self._processes["arweave"] = start_arweave(self.folder, self.settings)
            self._save()
        if not self.studio or self.rpc("eth_getCode", [self.studio, "latest"]) == "0x":
            self.studio = deploy(
                self.rpc,
                deployer=self.accounts[chain_files.DEPLOYER].address,
                mines_itself=self.settings.automine,
                reveal_delay=self.settings.reveal_delay,
                reveal_window=self.settings.reveal_window,
            )
        chain_files.write_secrets(self.secrets)
        evm, arweave = self.env["AOS_EVM_RPC"], self.env.get("AOS_ARWEAVE")
        file = self.folder / "env"
        chain_files.write_env(file, evm=evm, arweave=arweave, studio=self.studio)
        self._save()

    def _keep_time(self) -> None:
        """A node that was restarted forgets that its clock was moved; blocks must not go back."""
        latest = self.rpc("eth_getBlockByNumber", ["latest", False])
        ahead = int(latest["timestamp"], 16) - int(time.time())
        if ahead > 0:
            self.rpc("evm_increaseTime", [ahead])

    def _kill(self, *, loses_blocks: bool = False) -> None:
        if not self.is_alive():
            return
        process, kept = self._processes["anvil"], None
        file = self.folder / chain_files.STATE
        if self.settings.keeps_state and loses_blocks:
            await_whole(process, file)
        elif self.settings.keeps_state:
            kept = frozen(self.rpc)
        process.kill()
        if kept is not None:
            chain_files.replace(file, kept)

    def _end(self) -> None:
        self._kill()
        for process in self._processes.values():
            process.end()

    def _load(self) -> None:
        """Another process may have started the node again since."""
        kept = chain_files.read(self.folder / CHAIN)["processes"]
        self._processes = {name: Background(**each) for name, each in kept.items()}

    def _save(self) -> None:
        kept = {
            "processes": {
                name: {"pid": each.pid, "mark": each.mark} for name, each in self._processes.items()
            },
            "settings": self.settings.to_json(),
            "studio": self.studio,
        }
        chain_files.replace(self.folder / CHAIN, json.dumps(kept, indent=2) + "\n")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one command at a time works on a folder.

    Raises:
        ChainError: Another one does.
    """
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ChainError(f"{folder}: another command works on this chain; try again") from None
        yield
    finally:
        os.close(descriptor)
