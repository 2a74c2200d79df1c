"""A governed world on disk, and a proposal of a manifest with a module of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from aos.core.decide.answers import Admitted, Answer
from aos.core.journal.shadow_report import ReportHead
from aos.host.door.writer import Writer, open_writer
from aos.host.folder.reader import open_reader
from aos.manifest.load import Loaded, load
from aos.values.digests import Hash, content_hash
from tests.core.governed import block, key_of, report_of
from tests.host.puppet import files

NAMES: Final = ("ann", "bob", "cat")


def governed_manifest(version: int = 1, *, quorum: int = 2, **more: int) -> Loaded:
    """A manifest of the puppet with three approvers. From version 2 on, its module has a custom
    section, and so another hash."""
    found = files(version=version, governance=block(*NAMES, quorum=quorum, **more))
    if version > 1:
        name = f"version {version}".encode()
        found["p.wasm"] += bytes([0, len(name) + 1, len(name)]) + name
    return load(found)


def seq_of(answer: Answer | None) -> int:
    assert isinstance(answer, Admitted), answer
    return answer.seq


def govern(path: Path, **more: int) -> None:
    """Put the first governed manifest in force."""
    with open_writer(path) as writer:
        seq_of(writer.apply(governed_manifest(**more)).answer)


def proposed(path: Path, version: int = 2, **more: Any) -> int:
    with open_writer(path) as writer:
        return seq_of(writer.propose(governed_manifest(version), **more).answer)


def vote(path: Path, proposal: int, name: str, action: str = "approve", **more: Any) -> Answer:
    with open_writer(path) as writer:
        return writer.govern(action, proposal, key=key_of(name), **more)


def reported(path: Path, proposal: int) -> Hash:
    """Journal a report of everything since the base."""
    with open_reader(path) as reader:
        state = reader.state
        each = state.proposals.open[proposal]
        head = ReportHead(
            world=state.world,
            base=each.base,
            document=each.document.hash,
            mode=each.mode or "strict",
            leaves=each.leaves,
            first=state.manifest_seq,
            last=state.next_seq - 1,
            frame=state.tip.frame,
        )
    data = report_of(head)
    with open_writer(path) as writer:
        seq_of(writer.govern("report", proposal, report=data))
    return content_hash(data)


def applied(writer: Writer, proposal: int, version: int = 2) -> Answer:
    """Apply a proposal, without its modules: the world has them."""
    loaded = governed_manifest(version)
    answer = writer.apply(Loaded(effective=loaded.effective, modules={}), proposal=proposal).answer
    assert answer is not None
    return answer
