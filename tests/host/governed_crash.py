"""Govern a world in processes that are killed at every commit.

    python -m tests.host.governed_crash TEMPLATE FOLDER 1-before 1-after …

For each case, a copy of the template in FOLDER is governed by a process that dies with SIGKILL just
before or just after that commit, and then by one that does the rest. It prints each case, and
whether the process was killed. The processes are forked, because each start of Python would take a
second.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aos.core.pending import Sealed
from aos.core.state.proposals import Proposal
from aos.core.state.state import State
from aos.host.door.writer import open_writer
from aos.host.folder.reader import open_reader
from aos.manifest.load import Loaded
from aos.store.lmdb_store import LmdbStore
from tests.copies import copied
from tests.core.governed import block, key_of
from tests.host.governed_disk import NAMES, reported
from tests.host.puppet import manifest


def governed_version(version: int) -> Loaded:
    """Manifests with the same module, so that none must be compiled."""
    return manifest(version=version, governance=block(*NAMES, quorum=2))


def go_on(path: Path) -> None:
    """Do what is left to do: propose, report, vote twice, apply."""
    while (step := _next_step(path)) is not None:
        step()


def _next_step(path: Path) -> Any:
    state = _state(path)
    if state.effective == governed_version(3).effective:
        return None
    if state.effective.governance is None:
        return lambda: _apply(path, governed_version(2), None)
    proposal = next(iter(state.proposals.open.values()), None)
    if proposal is None:
        return lambda: _propose(path)
    if not proposal.reports:
        return lambda: reported(path, proposal.seq)
    for name in NAMES[:2]:
        if name not in proposal.votes:
            return lambda name=name: _vote(path, proposal, name)
    return lambda: _apply(path, governed_version(3), proposal.seq)


def _state(path: Path) -> State:
    with open_reader(path) as reader:
        return reader.state


def _propose(path: Path) -> None:
    with open_writer(path) as writer:
        writer.propose(governed_version(3), note="killed anywhere")


def _vote(path: Path, proposal: Proposal, name: str) -> None:
    with open_writer(path) as writer:
        writer.govern(
            "approve", proposal.seq, key=key_of(name), seen_report=next(iter(proposal.reports))
        )


def _apply(path: Path, new: Loaded, proposal: int | None) -> None:
    with open_writer(path) as writer:
        writer.apply(new, proposal=proposal)


def _killed_at(commit: int, moment: str) -> None:
    """Have this process die at so many commits from now."""
    append, count = LmdbStore.append, 0

    def fatal(self: LmdbStore, group: Sequence[Sealed], *words: Any, **more: Any) -> None:
        nonlocal count
        count += 1
        if (count, moment) == (commit, "before"):
            os.kill(os.getpid(), signal.SIGKILL)
        append(self, group, *words, **more)
        if count == commit:
            os.kill(os.getpid(), signal.SIGKILL)

    LmdbStore.append = fatal  # type: ignore[method-assign]


def _in_child(path: Path, commit: int = 0, moment: str = "") -> bool:
    """Govern the world in a process of its own; whether it was killed."""
    child = os.fork()
    if not child:
        code = 1
        try:
            if commit:
                _killed_at(commit, moment)
            go_on(path)
            code = 0
        except BaseException:  # noqa: BLE001  # the last stop of this process
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "a process failed by itself"
    return False


def main() -> None:
    template, folder = map(Path, sys.argv[1:3])
    for case in sys.argv[3:]:
        path = copied(template, folder / case)
        commit, _, moment = case.partition("-")
        is_killed = _in_child(path, int(commit), moment)
        assert not _in_child(path)
        sys.stdout.write(f"{case} {is_killed}\n")


if __name__ == "__main__":
    main()
