"""The stories find each broken rule (spec/log.md, LG-41)."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

from aos.store.log import counting, log_writer
from tests.store.log import nodes
from tests.store.log.stories import check_seed

SEEDS = 400

CONTIGUOUS = "if positions == list(range(after + 1, after + 1 + len(parts))):"
COUNTED_AGAIN = """
        if first.header.prev != self.tip.frame:
            return None
        if False:"""
MUTANTS = {
    "acknowledge without a look at the positions": (
        log_writer, CONTIGUOUS, "if len(positions) == len(parts):",
    ),
    "a refusal is an answer": (
        log_writer, "                positions = []",
        "                positions = [*range(after + 1, after + 1 + len(parts))]",
    ),
    "a deposed writer goes on": (log_writer, "if self._deposed_at is not None:", "if False:"),
    "frames on an old tip count": (
        counting, "        if first.header.prev != self.tip.frame:",
        ("        self.tip = Tip(world=self.tip.world, seq=last.header.last, frame=last.hash)\n"
        "        if False:"),
    ),
    "the same frames count again": (
        counting, "        if first.header.prev != self.tip.frame:", COUNTED_AGAIN,
    ),
}  # fmt: skip


def mutated(module: ModuleType, old: str, new: str) -> ModuleType:
    """A copy of a module with another text in one place."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, old
    copy = ModuleType(module.__name__)
    copy.__dict__["__file__"] = module.__file__
    exec(
        compile(source.replace(old, new), module.__name__, "exec"), copy.__dict__
    )  # our own source
    return copy


def check_seeds() -> None:
    for seed in range(SEEDS):
        check_seed(seed)


def test_without_a_mutant_every_story_is_right() -> None:
    check_seeds()


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, old, new = MUTANTS[name]
    copy = mutated(module, old, new)
    for changed in ("EntryCounter", "EntryWriter"):
        if changed in copy.__dict__ and module.__dict__[changed].__module__ == module.__name__:
            monkeypatch.setattr(nodes, changed, copy.__dict__[changed])

    with pytest.raises(Exception):  # noqa: B017, PT011  # of any kind: a check, or a defect
        check_seeds()
