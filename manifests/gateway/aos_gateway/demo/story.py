"""The gateway's demo, stage by stage: works and scores on a chain where all goes wrong."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final, TypeVar

from aos.errors import Unavailable
from aos.read.lens.words import count
from aos.store.store import Store
from aos_cli.demo.processes import Children, Command, aos, ask, python, run
from aos_cli.demo.stages import FIRST, LAST_TWO, NO_PROGRESS_S, POLL_S, Stages
from aos_cli.open_view import looking_at
from aos_cli.output import line
from aos_gateway.demo.chain import LocalChain, post
from aos_gateway.demo.report import (
    LAWS,
    TYPES,
    Outcomes,
    confirmed_after,
    first_in_its_lane,
    show_broken,
    show_figures,
    show_mischief,
    show_outcomes,
    show_trace,
)

SLOW_BLOCK_S: Final = 1
EPOCHS: Final = (7, 8)
FORGOTTEN: Final = 5
"""Uploads that Arweave accepts and does not keep."""

MISCHIEF: Final = (
    "--lose", "0.02", "--cut", "0.01", "--fail-after", "0.01", "--limit", "0.02",
    "--delay", "0.05:200", "--stale", "0.05:1", "--drop", "0.08",
)  # fmt: skip
POLICY: Final = (
    "--wait", "1s", "--bump-after", "5", "--retry-base", "250ms", "--retry-cap", "2s",
    "--stall-base", "3s", "--stall-cap", "6s", "--stall-cycles", "100",
)  # fmt: skip
"""For a fast chain: short waits. The requests in bulk have the same."""

EXECUTORS: Final = (
    "--executors", "evm", "--executors", "arweave",
)  # fmt: skip
ROWS_MAX: Final = 1_000

T = TypeVar("T")


def transactions(works: int, scores: int, signers: int) -> int:
    """How many transactions the works and scores need: of scores in bulk, every second group of
    ``signers`` is committed first."""
    committed = sum(number // signers % 2 for number in range(scores - 1)) + 1
    return 2 * works + 2 * scores + committed


class GatewayStory(Stages):
    """``works`` and ``scores`` include the one of each that is created by a command of its own."""

    UNIT: ClassVar = "transactions confirmed"

    def __init__(
        self,
        chain: LocalChain,
        folder: Path,
        children: Children,
        *,
        works: int,
        scores: int,
        seed: int,
    ) -> None:
        self._signers = [
            chain.variables[name] for name in ("SIGNER", "SIGNER2", "SIGNER3", "SIGNER4")
        ]
        super().__init__(folder, children, goal=transactions(works, scores, len(self._signers)))
        self._chain = chain
        self._folder = folder
        self._works = works
        self._scores = scores
        self._seed = seed
        self._proxy = ""
        self._by_hand = ""

    def tell(self) -> None:
        self._time("set up", self._set_up)
        self._time("create", self._create)
        self._time("run", self._run_and_kill)
        self._time("resume", self._resume)
        self._time("epochs", self._close_epochs)
        self._time("outcomes", self._show_outcomes)
        self._time("trace", self._trace)
        self._time("check", self._compare)
        self._time("replay and verify", self._prove)

    def _count_after(self, store: Store, seq: int) -> tuple[int, int]:
        return confirmed_after(store, seq)

    # The stages

    def _set_up(self) -> None:
        self._title("A proxy before the node that loses, delays and drops; and a world")
        mischief = python(
            self._chain.files.mischief, "--to", self._chain.evm, "--seed", self._seed, *MISCHIEF
        )
        self._proxy = self._start_service(mischief, "its URL").split()[-1]
        line(f"  the proxy serves at {self._proxy}")
        self._must(aos("init", self.world), lines_shown=FIRST)
        self._must(aos("apply", self._chain.files.manifest, *self._of_world), lines_shown=LAST_TWO)

    def _create(self) -> None:
        self._title(
            f"{count(self._works, 'work')}: two commands, and the others as lines of a file"
        )
        evidence = self._folder / "report.json"
        evidence.write_text('{"result": "done by hand"}\n')
        work = aos(
            "gateway", "create-work", "--studio", self._chain.studio, "--epoch", str(EPOCHS[0]),
            "--signer", self._signers[0], "--evidence", evidence, "--arweave-conf", "2",
            "--arweave-wait", "2s", *POLICY, *self._of_world,
        )  # fmt: skip
        self._by_hand = self._created(work)
        self._created(work)
        self._send("works")

    def _run_and_kill(self) -> None:
        self._title("Run them: Arweave forgets, blocks come late, the node dies, a block is undone")
        stub = f"{self._chain.arweave}/stub"
        post(f"{stub}/next", {"kind": "forget", "request": "POST /tx", "times": FORGOTTEN})
        world = self._start_world(until_idle=False)
        self._reach(world, self._works // 3)
        self._chain.call("evm_setIntervalMining", SLOW_BLOCK_S)
        line("  a block each second")
        self._reorganise(world)
        self._reach(world, self._works // 3 + len(self._signers))
        self._chain.do("kill")
        self._chain.do("restart")
        self._reach(world, self._works * 3 // 2)
        self._kill(world)
        self._tell_the_end()

    def _reorganise(self, world: subprocess.Popen[bytes]) -> None:
        """Replace the newest block by an empty one, at a moment when it has transactions.

        While blocks are slow: a block that anvil mines at the same moment would be lost.
        """
        block = self._wait_for(world, self._chain.block_with_transactions, "a transaction")
        self._chain.call("anvil_reorg", 1, [])
        lost = count(len(block["transactions"]), "transaction")
        line(f"  block {int(block['number'], 16)}, with {lost}, is undone")

    def _tell_the_end(self) -> None:
        with looking_at(self.world) as view:
            line(
                f"  killed at record {view.state.tip.seq:,}: {self._progress:,} of {self._goal:,} "
                f"transactions were confirmed, {count(len(view.state.intents), 'effect')} on the "
                "way"
            )

    def _resume(self) -> None:
        self._title(f"Reconcile with the chain, add {count(self._scores, 'score')}, and resume")
        self._must(aos("gateway", "reconcile", "--all", *self._of_world))
        self._created(
            aos(
                "gateway", "create-score", "--work", self._by_hand, "--validator",
                self._signers[1], "--scores", "80,90", "--mode", "commit-reveal", *POLICY,
                *self._of_world,
            )
        )  # fmt: skip
        self._send("scores")
        self._run_to_the_end()

    def _close_epochs(self) -> None:
        self._title("Close the epochs, and run again")
        for epoch, signer in zip(EPOCHS, self._signers, strict=False):
            self._created(
                aos(
                    "gateway", "close-epoch", "--studio", self._chain.studio, "--epoch", str(epoch),
                    "--signer", signer, *POLICY, *self._of_world,
                )
            )  # fmt: skip
        self._run_to_the_end()

    def _show_outcomes(self) -> None:
        self._title("Outcomes, and the mischief on the way")
        rows = self._folder / "rows.json"
        self._run(
            aos("gateway", "list", "--limit", str(ROWS_MAX), "--json", *self._of_world, into=rows)
        )
        outcomes = Outcomes.read(rows)
        show_outcomes(outcomes)
        line()
        show_mischief(
            self._proxy,
            self._chain.arweave,
            transactions=self._goal + len(EPOCHS),
            uploads=self._works,
        )
        for kind, number in zip(TYPES, (self._works, self._scores, len(EPOCHS)), strict=True):
            completed = outcomes.completed(kind)
            self._check(f"{completed:,} of {count(number, kind)} COMPLETED", completed == number)
        self._check("no instance has failed by a fault", not outcomes.faults)

    def _trace(self) -> None:
        self._title("From a work through its lane to its first transaction")
        key = first_in_its_lane(self.world) or self._by_hand
        self._run(aos("gateway", "show", key, *self._of_world))
        command = aos("trace", "gw/work@1", key, "--follow-events", *self._of_world)
        code, out, problem = ask(command)
        if code != 0:
            raise Unavailable(f"`{command}` ended with {code}: {problem.strip()}")
        show_trace(out.splitlines())

    def _compare(self) -> None:
        self._title("The chain's own blocks, compared with the records")
        report = self._folder / "findings.json"
        command = python(
            self._chain.files.check, "--rpc", self._chain.evm, "--studio", self._chain.studio,
            self._folder / "rows.json", into=report,
        )  # fmt: skip
        code = run(command)
        if code not in (0, 1) or not (report_text := report.read_text()):
            raise Unavailable(f"`{command}` ended with {code}")
        chain_report = json.loads(report_text)
        show_figures(chain_report)
        for law, text in LAWS.items():
            self._check(text, show_broken(chain_report["findings"], law) == 0)
        steps_expected = self._goal + len(EPOCHS)
        steps = f"{chain_report['steps']:,} transactions did {steps_expected:,} steps"
        self._check(steps, chain_report["steps"] == steps_expected)

    # The processes

    @property
    def _of_world(self) -> tuple[str, str]:
        return "--world", str(self.world)

    def _start_world(self, *, until_idle: bool) -> subprocess.Popen[bytes]:
        """Run the world, with ``until_idle`` until nothing is left to do. A world that the demo
        kills runs without it: it could end before on a slow machine."""
        env = {
            "AOS_EVM_RPC": f"31337={self._proxy}",
            "AOS_ARWEAVE": self._chain.variables["AOS_ARWEAVE"],
        }
        ends = ("--until-idle",) if until_idle else ()
        return self._start(
            aos(
                "run", *ends, "--secrets", self._chain.secrets, *EXECUTORS,
                *self._of_world, env=env,
            )
        )  # fmt: skip

    def _run_to_the_end(self) -> None:
        world = self._start_world(until_idle=True)
        self._watch(world, until=None)
        if world.returncode != 0:
            raise self._ended_early("it should have run until it was idle", world)
        for text in self._last_lines(1):
            line(f"  {text}")

    def _reach(self, world: subprocess.Popen[bytes], confirmed: int) -> None:
        """Wait until so many transactions are confirmed."""
        self._watch(world, until=confirmed)
        if world.poll() is not None:
            raise self._ended_early("it should have run on", world)

    def _wait_for(
        self, world: subprocess.Popen[bytes], look: Callable[[], T | None], expected: str
    ) -> T:
        """Wait until ``look`` finds something."""
        until_s = time.monotonic() + NO_PROGRESS_S
        while (result := look()) is None:
            if world.poll() is not None or time.monotonic() > until_s:
                raise self._ended_early(f"expected {expected}", world)
            time.sleep(POLL_S)
        return result

    def _send(self, kind: str) -> None:
        """Send the works, or the scores, that no command of its own creates."""
        lines = self._folder / f"{kind}.jsonl"
        self._run(
            python(
                self._chain.files.make_requests, "--studio", self._chain.studio, "--signers",
                ",".join(self._signers), "--works", self._works - 1, "--scores", self._scores - 1,
                "--epoch", EPOCHS[0], "--epochs", len(EPOCHS), "--only", kind, into=lines,
            )
        )  # fmt: skip
        self._must(aos("send", "--jsonl", lines, *self._of_world))

    def _created(self, command: Command) -> str:
        """Run a command that creates a record; show what it prints, and return the key."""
        code, out, problem = ask(command)
        if code != 0:
            raise Unavailable(f"`{command}` ended with {code}: {problem.strip()}")
        for text in (out + problem).splitlines():
            line(f"  {text}")
        return out.split()[1]
