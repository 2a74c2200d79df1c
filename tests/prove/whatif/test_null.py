"""The null property: under a manifest that decides everything alike, a shadow has no differences,
from wherever it begins (spec/shadow.md, SH-61)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import aos.testing.play
from aos.core.journal.ports import Call, Ran, Runner
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Manifest
from aos.host.executors.carrying import carry_out
from aos.manifest.effective import Effective
from aos.prove.verify.journal_source import JournalSource, source_of_store
from aos.prove.whatif.shadow_state import Proposed
from aos.prove.whatif.shadowing import ShadowRequest, chosen_range, run_shadow, shadow_of
from aos.read.views.proposal_view import read_report
from aos.testing import World
from aos.testing.scenario import read_scenario
from aos.values.digests import Hash, content_hash, hash_text
from tests.cookbook.worlds import COOKBOOK
from tests.prove.journals import MODULES, busy_shop, shop
from tests.prove.whatif.shadows import beginnings, shadowed
from tests.run_seed import in_turns, seeds
from tests.sim import ends, script
from tests.sim.behaviour import Modules
from tests.sim.world import SimWorld
from tests.tools import long_form

SEEDS = 1_200 if long_form() else 20
CUSTOM = b"\x00\x06\x04note!"
"""A custom section: nothing that runs."""


def begun(source: JournalSource) -> Iterator[tuple[int, Effective]]:
    """Every record where a shadow may begin, and the manifest in force after it."""
    bases = manifests(source)
    for place in beginnings(source):
        base = bases[max(seq for seq in bases if seq <= place)]
        yield place, Effective.from_document(source.blob(base))


def manifests(source: JournalSource) -> dict[int, Hash]:
    """The manifests that came into force, by their records."""
    records = (from_bytes(data) for each in source.frames(1, source.last) for data in each.records)
    return {each.seq: each.document.hash for each in records if isinstance(each, Manifest)}


def report_from(
    source: JournalSource, first: int, proposed: Effective, runner: Runner
) -> dict[str, Any]:
    request = ShadowRequest(
        proposed=Proposed(effective=proposed), range=chosen_range(source, first=first)
    )
    return read_report(shadow_of(source, request, runner=runner, carry_out=carry_out))


# The shop of the audit tests, and simulated worlds


def test_another_build_of_the_shop_decides_alike() -> None:
    report = shadowed(busy_shop(), shop(2), MODULES)

    assert (report["same"], report["differences"]) == (True, [])
    assert (report["from"], report["to"]) == (2, 28)
    assert report["steps"] == {
        "compared": 13, "different": 0, "missing": 0, "extra": 0, "erased": 0, "environmental": 1,
    }  # fmt: skip
    assert report["effects"]["recorded"] == report["effects"]["shadow"]
    assert report["instances"]["recorded"] == report["instances"]["shadow"]


Hashes = dict[Hash, Hash]


class Renamed:
    """Runs the modules of a simulated world for a manifest that gives them other hashes. The
    modules draw from their input, which may have the hash of the manifest: they get the old one."""

    def __init__(self, modules: Modules, was: Hashes) -> None:
        self.modules = modules
        self.was = was

    def run(self, call: Call) -> Ran:
        given = call.input
        for new, old in self.was.items():
            given = given.replace(hash_text(new).encode(), hash_text(old).encode())
        module = self.was.get(call.module, call.module)
        return self.modules.run(call._replace(module=module, input=given))


def another(module: Hash) -> Hash:
    return content_hash(module + b" rebuilt")


def rebuilt(base: Effective, hash_of: Callable[[Hash], Hash]) -> tuple[Effective, Hashes]:
    """The manifest with other builds of its modules, and each new hash with the old one."""
    was: Hashes = {}
    document = base.document
    for module in base.modules.values():
        new = hash_of(module.hash)
        was[new] = module.hash
        document = document.replace(hash_text(module.hash).encode(), hash_text(new).encode())
    found = Effective.from_document(document)
    was[found.manifest_hash] = base.manifest_hash
    return found, was


def base_of(source: JournalSource, first: int) -> int:
    """The record of the manifest in force after record ``first``."""
    return max(each for each in manifests(source) if each <= first)


def has_grown(manifest: Effective) -> bool:
    """Whether states and events of earlier manifests lack optional fields of this one. An instance
    that another manifest pins is given null for them (K-71d), and the simulated modules draw from
    the bytes of their input."""
    return b"extra" in manifest.document or b"late" in manifest.document


def looks_at_itself(manifest: Effective) -> bool:
    """Whether an answer of the kernel has the hash of the manifest: then the hash of the event
    that brings it, which the modules draw from, is another one, too."""
    return any(
        effect.startswith("sys/introspect.")
        for each in manifest.workflows.values()
        for effect in each.effects_emitted
    )


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_simulated_worlds_decide_alike_from_every_beginning(part: int) -> None:
    compared = shadows = 0
    for seed in seeds(SEEDS)[part::4]:
        with ends.manifests_read_once():
            script.know_keys(seed)
            world = SimWorld(seed, checks=False)
            script.play(world, script.script_of(seed))
            source = dataclasses.replace(source_of_store(world.store), limits=world.limits)
            for first, base in begun(source):
                if first != base_of(source, first) and has_grown(base):
                    continue
                proposed, was = (base, {}) if looks_at_itself(base) else rebuilt(base, another)
                runner = Renamed(world.modules, was)
                report = report_from(source, first, proposed, runner)
                assert report["same"], f"seed {seed} from {first}: {report['differences'][:2]}"
                compared += report["steps"]["compared"]
                shadows += 1
    assert shadows > SEEDS // 8
    assert compared > SEEDS // 2


# The demo and the cookbook, with the real sandbox


SCENARIOS = sorted(COOKBOOK.glob("*/*.scenario.toml"))


def report_with_custom_sections(source: JournalSource, first: int, base: Effective) -> Any:
    """The report under the base, whose modules have one more custom section each."""
    modules: dict[Hash, bytes] = {}

    def with_section(module: Hash) -> Hash:
        wasm = source.blob(module) + CUSTOM
        modules[content_hash(wasm)] = wasm
        return content_hash(wasm)

    proposed, _ = rebuilt(base, with_section)
    request = ShadowRequest(
        proposed=Proposed(effective=proposed), range=chosen_range(source, first=first)
    )
    return read_report(run_shadow(source, request, modules, carry_out=carry_out))


@pytest.mark.long
@pytest.mark.parametrize(
    "path", in_turns(3, SCENARIOS), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_the_cookbook_decides_alike(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worlds: list[World] = []

    class Kept(World):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            worlds.append(self)

    monkeypatch.setattr(aos.testing.play, "World", Kept)
    played = aos.testing.play.play(read_scenario(path))
    assert played.failure is None
    world = worlds[0]
    world._desk.seal()
    source = source_of_store(world._desk.store)
    for first, base in begun(source):
        report = report_with_custom_sections(source, first, base)

        assert report["differences"] == [], first
        assert report["same"]
        assert report["steps"]["compared"] or report["from"] == report["to"]
