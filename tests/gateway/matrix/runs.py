"""One run: lives of a world with deaths between them, and the judgement at the end."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chain import Chain
from mischief import Mischief, Rates

from tests.gateway.checker.findings import Finding
from tests.gateway.checker.history import History
from tests.gateway.matrix.deaths import Death, Prank
from tests.gateway.matrix.scenes import POLICY, Asked, asked_in
from tests.gateway.matrix.site import CHAIN_ID, MANIFEST, Site
from tests.gateway.matrix.verdict import end_of, verdict

EXECUTORS: Final = "evm"
ARWEAVE: Final = "arweave"
KILLED: Final = -signal.SIGKILL
COMPLETED: Final = frozenset({"COMPLETED"})


@dataclass(frozen=True, slots=True)
class Stage:
    """The surroundings of a world, for an action on them: chain, requests, and the proxy if any."""

    chain: Chain
    asked: Sequence[Asked]
    mischief: Mischief | None
    over: threading.Event
    """Set when the last life has ended."""


Action = Callable[[Stage], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """``deaths`` are those of the first lives, in turn; one more life follows them.

    ``always`` happens on a thread during all lives, ``down`` after the first death, ``during`` on a
    thread while the lives after it run. ``after`` happens when the world is idle: then every record
    and lane gets the command Resume, and the world runs once more. ``ends`` are the allowed ends of
    each request by its name; a failed record ends as its code. ``pranks`` are played in the first
    life.
    """

    mode: str
    name: str
    scene: str = "all"
    is_revealed: bool = False
    has_own_node: bool = False
    policy: Mapping[str, int] = field(default_factory=dict)
    deaths: tuple[Death, ...] = ()
    pranks: Callable[[Stage], Sequence[Prank]] | None = None
    always: Action | None = None
    down: Action | None = None
    during: Action | None = None
    after: Action | None = None
    rates: Rates | None = None
    ends: Mapping[str, frozenset[str]] = field(default_factory=dict)
    is_deep_reorg: bool = False
    snapshot_records: int | None = None
    executors: str = EXECUTORS
    manifest: Path = MANIFEST

    def __str__(self) -> str:
        return f"{self.mode}: {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """``findings`` are the checker's, ``problems`` are other sentences: an end that is not allowed,
    a replay that differs, a life that ended otherwise than planned."""

    run: Run
    findings: Sequence[Finding]
    problems: Sequence[str]
    kills: int
    seconds: float
    folder: Path

    @property
    def is_good(self) -> bool:
        return not self.findings and not self.problems

    def __str__(self) -> str:
        lines = [f"{self.run} ({self.folder})", *self.problems, *map(str, self.findings)]
        return "\n  ".join(lines)


def perform(site: Site, run: Run, *, keeps: bool = False) -> Result:
    """Perform a run in a folder of its own, which is removed if all was well, unless it ``keeps``
    it."""
    began = time.monotonic()
    with ExitStack() as stack:
        performed = _Performed(site, run, stack)
        try:
            performed.live()
            result = performed.judged(began)
        except Exception as problem:  # noqa: BLE001  # of this run: the others are performed
            result = performed.broken(problem, began)
    if result.is_good and not keeps:
        shutil.rmtree(performed.folder)
    return result


class _Performed:
    def __init__(self, site: Site, run: Run, stack: ExitStack) -> None:
        number = site.next_number()
        self.folder = site.folder / f"run-{number}"
        self.folder.mkdir()
        self._site, self._run = site, run
        self._world = self.folder / "world"
        self._problems: list[str] = []
        self._kills = 0
        chain = self._node(stack)
        asked = asked_in(
            chain,
            run.scene,
            number=number,
            is_revealed=run.is_revealed,
            policy={**POLICY, **run.policy},
        )
        mischief = None
        if run.rates is not None:
            mischief = stack.enter_context(Mischief(chain.url, seed=number, rates=run.rates))
        self._stage = Stage(chain, asked, mischief, threading.Event())
        site.world(self._world, run.manifest)

    def _node(self, stack: ExitStack) -> Chain:
        if not self._run.has_own_node:
            return self._site.node()
        return stack.enter_context(self._site.own_node(self.folder / "chain"))

    # --- lives

    def live(self) -> None:
        with self._thread(self._run.always):
            self._live()

    def _live(self) -> None:
        run, deaths = self._run, list(self._run.deaths)
        if deaths:
            first = deaths.pop(0)
            self._expect(self._life(is_first=True, death=first), first)
            if run.down is not None:
                run.down(self._stage)
        with self._thread(run.during):
            for death in deaths:
                self._expect(self._life(death=death), death)
            self._ended(self._life(is_first=not run.deaths))
        if run.after is not None:
            run.after(self._stage)
            self._resume()
            self._ended(self._life())

    def _life(
        self,
        *,
        is_first: bool = False,
        death: Death | None = None,
    ) -> int:
        pranks = self._run.pranks(self._stage) if is_first and self._run.pranks else ()
        has_works = any(each.name.startswith("work") for each in self._stage.asked)
        return self._site.zygote.run(
            "live",
            self.folder / "log",
            world=str(self._world),
            secrets=str(self._site.secrets),
            executors=[self._run.executors, *([ARWEAVE] if has_works else [])],
            env={"AOS_EVM_RPC": f"{CHAIN_ID}={self._url}", "AOS_ARWEAVE": self._site.arweave},
            items=[each.item for each in self._stage.asked] if is_first else [],
            is_copy=is_first,
            death=None if death is None else death.to_json(),
            pranks=[each.to_json() for each in pranks],
            snapshot_records=self._run.snapshot_records,
        )

    @property
    def _url(self) -> str:
        mischief = self._stage.mischief
        return self._stage.chain.url if mischief is None else mischief.url

    def _expect(self, code: int, death: Death) -> None:
        if death.is_whole and code == KILLED:
            self._kills += 1
        elif code:
            self._problems.append(f"a life that dies {death} ended with {code}")
        elif not death.is_whole:
            self._kills += 1

    def _ended(self, code: int) -> None:
        if code:
            self._problems.append(f"the last life ended with {code}")

    @contextmanager
    def _thread(self, action: Action | None) -> Iterator[None]:
        if action is None:
            yield
            return
        thread = threading.Thread(target=action, args=(self._stage,))
        thread.start()
        try:
            yield
        finally:
            self._stage.over.set()
            thread.join()

    def _resume(self) -> None:
        words = ["gateway", "resume", "--all", "--why", "matrix", "--world", str(self._world)]
        code = self._site.zygote.run("aos", self.folder / "log", words=words)
        if code:
            self._problems.append(f"aos gateway resume --all ended with {code}")

    # --- judgement

    def judged(self, began: float) -> Result:
        found = verdict(
            self._site,
            self.folder,
            self._stage.chain.url,
            is_deep_reorg=self._run.is_deep_reorg,
        )
        if found.code:
            self._problems.append(f"the export or the replay ended with {found.code}")
        self._problems += self._wrong_ends(found.history)
        return Result(
            run=self._run,
            findings=found.findings,
            problems=self._problems,
            kills=self._kills,
            seconds=time.monotonic() - began,
            folder=self.folder,
        )

    def broken(self, problem: Exception, began: float) -> Result:
        """The result of a run that could not be completed."""
        return Result(
            run=self._run,
            findings=(),
            problems=[*self._problems, f"the run broke: {problem!r}"],
            kills=self._kills,
            seconds=time.monotonic() - began,
            folder=self.folder,
        )

    def _wrong_ends(self, history: History) -> list[str]:
        found = []
        for each in self._stage.asked:
            end = end_of(history.records.get(each.key))
            if end not in self._run.ends.get(each.name, COMPLETED):
                found.append(f"{each.name} {each.key} ended as {end}")
        for key, lane in history.lanes.items():
            if lane["current"] is not None or lane["queued"] or lane["stall"] is not None:
                found.append(f"lane {key} is not idle")
        return found
