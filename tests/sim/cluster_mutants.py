"""Defects of a cluster on purpose, each of which the simulator finds (spec/cluster.md, CL-145)."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from tests.sim.cluster import simulate
from tests.sim.failure import SimFailure

WRITER = "aos.store.log.log_writer"
STORE = "aos.store.log.logged_store"
COUNTING = "aos.store.log.counting"
FOLLOWING = "aos.host.cluster.following"
REPLICA = "aos.host.cluster.replica"
KNOWN_END = "aos.host.cluster.known_end"
BEATING = "aos.host.cluster.beating"
LEASE = "aos.host.cluster.lease"
EARLY_END = "aos.store.log.early_end"
BASE = "aos.host.cluster.base"
BASE_STREAM = "aos.store.log.base_stream"

CHECKER = "tests.sim.cluster_checker"
"""Reads the log by the rules as they are."""


@dataclass(frozen=True, slots=True)
class ClusterMutant:
    """A defect: in ``module``, ``old`` is replaced by ``new``. A run begins with ``seed``, which
    has found it before."""

    name: str
    module: str
    old: str
    new: str
    seed: int = 0


LMDB_FIRST = """
        super().append(group, head, expected=expected, notes=notes, also=also)
        counted = self._written(entry)
        self.meta_put(LOG_PLACE, self._behind(counted).to_bytes())
        with self._storing(counted):
            return
"""

INTERRUPTED = """        if self._joining is not None:
            joining, self._joining = self._joining, None
            self._lay_aside(joining, "half an entry")
        self.dead += 1
"""

UNANSWERED = """            self.span_ns += min(now_ns - self._answered_ns, GAP_NS)
        self._answered_ns = now_ns

    def note_unanswered(self) -> None:
        \"\"\"Note that the log did not answer.\"\"\"
        self._answered_ns = None
"""

MUTANTS: Final = (
    ClusterMutant(
        "acknowledge without reading after a wrong position", WRITER,
        "if positions == list(range(after + 1, after + 1 + len(parts))):",
        "if len(positions) == len(parts):",
        seed=3,
    ),
    ClusterMutant(
        "a deposed owner continues", WRITER, "if self._deposed_at is not None:", "if False:",
        seed=3,
    ),
    ClusterMutant(
        "LMDB before the log", STORE,
        "\n        counted = self._written(entry)\n        with self._storing(counted):\n"
        "            if self._unstored:",
        LMDB_FIRST + "        with self._storing(counted):\n            if self._unstored:",
    ),
    ClusterMutant(
        "a deposed owner takes the frames of the next one for another history", STORE,
        "        if unstored is not None:\n            return unstored\n", "",
        seed=106,
    ),
    ClusterMutant(
        "frames on an old tip count", COUNTING, "if first.header.prev != self.tip.frame:",
        "self.tip = Tip(world=self.tip.world, seq=last.header.last, frame=last.hash)\n"
        "        if False:",
    ),
    ClusterMutant(
        "a standby trusts its lease alone", REPLICA,
        "        except LogAway:\n            return False\n",
        "        except LogAway:\n            pass\n",
    ),
    ClusterMutant(
        "a node forgets the ends of the log that others had", KNOWN_END,
        "        if self._store.end.position < end.position:\n            return True\n",
        "        if self._store.end.position < end.position:\n            return False\n",
        seed=44,
    ),
    ClusterMutant(
        "a beat is no compare-and-set", BEATING,
        "return self._replace_own(self._beat(end, to=to))",
        "self._take(self._owner_key, self._beat(end, to=to)); return self.owner().written_ns",
        seed=3,
    ),
    ClusterMutant(
        "an owner never loses its lease", LEASE, "return now_ns - answered_ns < lease_ns",
        "return True",
        seed=3,
    ),
    ClusterMutant(
        "a node that joins finds no submission behind a snapshot", FOLLOWING,
        "                find=finding(store),\n", "",
        seed=26,
    ),
    ClusterMutant(
        "an entry is passed over after a full disk", FOLLOWING,
        "        if self._taken is not None:\n            self._store_taken()\n"
        "            number += 1\n",
        "        self._taken = None\n",
        seed=3,
    ),
    ClusterMutant(
        "parts are joined across a message of others", COUNTING, INTERRUPTED,
        "        self.dead += 1\n",
        seed=8,
    ),
    ClusterMutant(
        "an entry whose copy is damaged is dead", COUNTING,
        "            data = self._read_again(joining)\n", "",
    ),
    ClusterMutant(
        "time without the log is time in which it ends early", EARLY_END, UNANSWERED,
        UNANSWERED.replace("min(now_ns - self._answered_ns, GAP_NS)", "now_ns - self._answered_ns")
        .replace("        self._answered_ns = None\n", ""),
        seed=9,
    ),
    ClusterMutant(
        "a node whose clock is ahead takes over", LEASE, " and seen.ahead_ns <= AHEAD_NS", "",
        seed=2,
    ),
    ClusterMutant(
        "an owner whose beat was replaced does not read the log", LEASE,
        "        return Decision.READ_LOG\n", "        return Decision.OWN\n",
        seed=18,
    ),
    ClusterMutant(
        "a trim before the base is whole", BASE,
        "        written = write_stream(servers.streams, store, key, advance=advance)\n",
        "        servers.streams.log(registration.stream).trim(place.position)\n"
        "        written = write_stream(servers.streams, store, key, advance=advance)\n",
        seed=5,
    ),
    ClusterMutant(
        "a base whose end is not checked", BASE_STREAM,
        '        raise _no_base("no last entry: it was not finished", is_half=True)\n',
        "        return\n",
        seed=1,
    ),
)  # fmt: skip


@contextlib.contextmanager
def mutated(mutant: ClusterMutant) -> Iterator[None]:
    """Put a defect in: every module that has a class or function of the changed one gets that of
    its copy instead."""
    original = importlib.import_module(mutant.module)
    source = inspect.getsource(original)
    assert source.count(mutant.old) == 1, f"{mutant.name}: {source.count(mutant.old)} places"
    copy = ModuleType(mutant.module)
    copy.__dict__["__file__"] = original.__file__
    sys.modules[mutant.module] = copy  # dataclasses look their module up
    try:
        exec(  # our own source
            compile(source.replace(mutant.old, mutant.new), mutant.module, "exec"), copy.__dict__
        )
    finally:
        sys.modules[mutant.module] = original
    changes: list[tuple[ModuleType, str, Any]] = []
    own = {
        id(value): copy.__dict__[name]
        for name, value in vars(original).items()
        if getattr(value, "__module__", None) == mutant.module and name in copy.__dict__
    }
    for name, module in list(sys.modules.items()):
        is_patched = name.startswith(("aos.", "tests.sim.cluster", "tests.host.cluster"))
        if is_patched and name != CHECKER:
            for attribute, value in list(vars(module).items()):
                if id(value) in own:
                    changes.append((module, attribute, value))
                    setattr(module, attribute, own[id(value)])
    try:
        yield
    finally:
        for module, attribute, value in changes:
            setattr(module, attribute, value)


def found(mutant: ClusterMutant, *, seeds_max: int = 1) -> tuple[int, str] | None:
    """The first seed, from ``mutant.seed`` on, that finds a defect, and how; None if none of so
    many does."""
    with mutated(mutant):
        for seed in range(mutant.seed, mutant.seed + seeds_max):
            try:
                simulate(seed)
            except SimFailure as failure:
                return seed, failure.check
            except Exception as problem:  # noqa: BLE001  # an assertion of our own code, or worse
                return seed, type(problem).__name__
    return None
