"""A world that runs as a process while a test gives it commands and works on its chain."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from chain import Chain
from chain_files import SIGNERS

from tests.cli.shell import Result, here
from tests.gateway.matrix.runs import ARWEAVE, EXECUTORS
from tests.gateway.matrix.scenes import POLICY, Asked, asked_in
from tests.gateway.matrix.site import CHAIN_ID, Site
from tests.gateway.matrix.verdict import Verdict, verdict

SOON_S: Final = 60.0


class Living:
    """A world in ``folder``, on a chain that is empty but for the contract."""

    def __init__(
        self, site: Site, folder: Path, scene: str, *, policy: Mapping[str, int] | None = None
    ) -> None:
        self._site = site
        self._folder = folder
        self.world = folder / "world"
        self.secrets = folder / "secrets"
        self.chain: Chain = site.node()
        self.url = self.chain.url
        self.write_keys(SIGNERS)
        self.asked: Sequence[Asked] = asked_in(
            self.chain,
            scene,
            number=site.next_number(),
            is_revealed=False,
            policy={**POLICY, **(policy or {})},
        )
        self._has_started = False
        self._pid = 0
        site.world(self.world)

    def write_keys(self, accounts: Sequence[int]) -> None:
        """Give the world the keys of these accounts of the node, and no other."""
        kept = json.loads(self._site.secrets.read_text())
        keys = ",".join(self.chain.accounts[each].key for each in accounts)
        self.secrets.write_text(json.dumps({**kept, "gateway.evm-keys": keys}))
        self.secrets.chmod(0o600)

    def lane(self, account: int) -> str:
        return f"{CHAIN_ID}/{self.chain.accounts[account].address}"

    # --- its process

    def start(self) -> None:
        self._pid = self._site.zygote.start(
            "live",
            self._folder / "log",
            world=str(self.world),
            secrets=str(self.secrets),
            executors=[EXECUTORS, ARWEAVE],
            env={"AOS_EVM_RPC": f"{CHAIN_ID}={self.url}", "AOS_ARWEAVE": self._site.arweave},
            items=[] if self._has_started else [each.item for each in self.asked],
            is_copy=not self._has_started,
        )
        self._has_started = True

    def idle(self) -> None:
        """Wait until the process has nothing left to do, and has ended."""
        code = self._site.zygote.wait(self._pid)
        assert code == 0, (self._folder / "log").read_text()[-2000:]

    def end(self) -> Verdict:
        """Wait until nothing is left to do, and judge."""
        self.idle()
        return verdict(self._site, self._folder, self.chain.url)

    def aos(self, *words: str) -> Result:
        """A command for this world."""
        return here(*words, "--world", self.world)

    def gateway(self, *words: str) -> None:
        """``aos gateway …``, which must succeed."""
        done = self.aos("gateway", *words)
        assert done.code == 0, done

    # --- its states and its chain

    def state(self, key: str) -> Any:
        """The stored state of a record or a lane; None while there is none."""
        done = self.aos("gateway", "show", key, "--json")
        return done.json["stored"] if done.code == 0 else None

    def eventually(self, key: str, holds: Callable[[Any], bool]) -> Any:
        """Wait until a state fulfils a condition; return it."""
        state = None
        for _ in until(SOON_S):
            state = self.state(key)
            if state is not None and holds(state):
                return state
        raise AssertionError(f"{key} is {json.dumps(state, indent=1)}")

    def in_pool(self, count: int) -> list[dict[str, Any]]:
        """Wait until so many transactions are in the node's pool; return them."""
        found: list[dict[str, Any]] = []
        for _ in until(SOON_S):
            pool = self.chain.rpc("txpool_content")["pending"]
            found = [each for of_sender in pool.values() for each in of_sender.values()]
            if len(found) == count:
                return found
        raise AssertionError(f"the pool has {found}")

    def hold_mining(self) -> None:
        self.chain.rpc("evm_setAutomine", [False])

    def mine(self) -> None:
        """Mine now, and every transaction from now on."""
        self.chain.rpc("evm_setAutomine", [True])
        self.chain.rpc("evm_mine")


def until(seconds: float) -> itertools.takewhile[int]:
    """Iterate for so long, with short pauses."""
    end = time.monotonic() + seconds

    def goes_on(number: int) -> bool:
        if number:
            time.sleep(0.05)
        return time.monotonic() < end

    return itertools.takewhile(goes_on, itertools.count())
