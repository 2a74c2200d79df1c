"""The programs that the runs of one thread share: a zygote, a node that is reset for each run, an
Arweave stub, and a world for each manifest, which the runs copy."""

from __future__ import annotations

import itertools
import shutil
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from chain import Chain, Settings
from chain_files import DEPLOYER
from studio import deploy

from tests.gateway.matrix.zygote import ROOT, Zygote

MANIFEST: Final = ROOT / "manifests" / "gateway"
CHAIN_ID: Final = 31337
WINDOW_S: Final = 1_000_000
BLOCK_GAS: Final = 30_000_000

INSTANT: Final = Settings(
    block_time=None, automine=True, keeps_state=False, arweave_block_ms=100, reveal_delay=0
)
"""The node of all runs but those in which it is killed: it mines each transaction at once."""


class Site:
    """Used by one thread at a time. As a context manager, it ends its programs at the end."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self._worlds: dict[Path, Path] = {}
        self._numbers = itertools.count(1)
        folder.mkdir(parents=True, exist_ok=True)
        self.zygote = self._stack.enter_context(Zygote(cache))
        self.chain = self._stack.enter_context(Chain.up(folder / "chain", INSTANT))
        """As the last run has left it."""
        self.zygote.end_at_last(self.chain.folder)

    def next_number(self) -> int:
        """Another number for each run."""
        return next(self._numbers)

    @property
    def secrets(self) -> Path:
        return self.chain.secrets

    @property
    def arweave(self) -> str:
        return f"main={self.chain.arweave_url}"

    def node(self) -> Chain:
        """The node, with an empty chain and the contract."""
        chain = self.chain
        chain.rpc("anvil_reset")
        chain.rpc("evm_setAutomine", [True])
        chain.rpc("evm_setBlockGasLimit", [hex(BLOCK_GAS)])
        chain.studio = deploy(
            chain.rpc,
            deployer=chain.accounts[DEPLOYER].address,
            mines_itself=True,
            reveal_delay=0,
            reveal_window=WINDOW_S,
        )
        return chain

    def own_node(self, folder: Path) -> Chain:
        """A node for one run alone, which survives a kill. The caller ends it."""
        settings = Settings(
            block_time=None, automine=True, has_arweave=False, reveal_window=WINDOW_S
        )
        chain = Chain.up(folder, settings)
        self.zygote.end_at_last(chain.folder)
        return chain

    def world(self, folder: Path, manifest: Path = MANIFEST) -> None:
        """Copy a new world with this manifest into a folder."""
        if manifest not in self._worlds:
            made = self.folder / f"world-{len(self._worlds)}"
            code = self.zygote.run("make", self.log, world=str(made), manifest=str(manifest))
            if code:
                raise RuntimeError(f"no world with {manifest}: see {self.log}")
            self._worlds[manifest] = made
        shutil.copytree(self._worlds[manifest], folder)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
