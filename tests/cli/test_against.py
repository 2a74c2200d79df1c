"""``aos replay --against`` (spec/cli.md, C-40b)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agentos.world import files
from tests.cli.shell import Aos, in_silence
from tests.host.puppet import PUPPET, WASM
from tests.host.upgrades import migrating_files
from tests.testing.builds import answering
from tests.testing.stage import out


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A build that answers every event with the state 1."""
    file = tmp_path / "wrong.wasm"
    file.write_bytes(answering(out(1)))
    return file


def test_the_same_build_is_exit_0(aos: Aos, settled: Path) -> None:
    ran = aos("replay", "--against", WASM, world=settled)
    assert ran.code == 0
    assert ran.out.startswith("against: 6 steps come out the same\n")
    assert aos("replay", "--against", f"puppet={WASM}", world=settled).out == ran.out
    assert aos("replay", "--against", WASM, "--json", world=settled).json["same"] is True


def test_another_is_exit_1_and_each_step_is_shown_with_both_sides(
    aos: Aos, settled: Path, wrong: Path
) -> None:
    ran = aos("replay", "--against", wrong, world=settled)
    assert ran.code == 1
    assert ran.out.startswith(
        "against: 4 of 6 steps come out otherwise\n"
        "  differences: state 2, effects 1, status 1, fault 1\n"
        f"  {PUPPET}: 4 steps\n"
    )
    assert "schemas differ" not in ran.out
    step = f"{PUPPET} ada on host/Do@1: state\n  state\n    recorded   2\n    candidate  1\n"
    assert step in ran.out

    document = aos("replay", "--against", wrong, "--json", world=settled).json
    assert (document["compared"], document["different"], document["left_out"]) == (6, 4, 0)
    cells = [each["cell"] for each in document["differences"]]
    assert [each["key"] for each in cells] == ["wait", "bad", "ada", "wait"]
    (state,) = document["differences"][2]["differences"]
    assert (state["recorded"], state["candidate"], state["places"]) == (2, 1, [])


def test_other_schemas_are_named_once_with_what_helps(
    aos: Aos, settled: Path, tmp_path: Path
) -> None:
    file = tmp_path / "other.wasm"
    file.write_bytes(answering(out("text")))
    ran = aos("replay", "--against", file, world=settled)
    assert ran.code == 1
    assert (
        f"  {PUPPET}: 6 steps\n"
        "  the candidate's schemas differ from the recorded ones: host/Count@1 (6 steps)\n"
        "  such steps cannot be compared: declare a migration (aos build --migration "
        "WORKFLOW writes one), and compare with the manifest that has it "
        "(aos replay --against PATH)\n"
    ) in ran.out


def test_a_bundle_and_the_records_after_a_snapshot(
    aos: Aos, settled: Path, wrong: Path, tmp_path: Path
) -> None:
    whole = aos("replay", "--against", wrong, "--json", world=settled).json
    file = tmp_path / "world.aos"
    assert in_silence("export", file, "--world", settled) == 0
    of_bundle = aos("replay", file, "--against", wrong, "--json")
    assert (of_bundle.code, of_bundle.json) == (1, whole)
    refused = aos("replay", file, "--against", wrong, "--from", "snapshot")
    assert (refused.code, "--from goes with a world" in refused.err) == (2, True)


def test_from_a_snapshot(aos: Aos, lived_in: Path, wrong: Path, tmp_path: Path) -> None:
    from tests.copies import copied

    world = copied(lived_in, tmp_path / "world")
    assert in_silence("snapshot", "--world", world) == 0
    ran = aos("replay", "--against", wrong, "--from", "snapshot", "--json", world=world)
    assert (ran.code, ran.json["compared"]) == (0, 0)


def test_a_pruned_world_is_compared_over_the_records_that_are_kept(
    aos: Aos, lived_in: Path, wrong: Path, tmp_path: Path
) -> None:
    """A-86"""
    from tests.copies import copied

    world = copied(lived_in, tmp_path / "world")
    assert in_silence("snapshot", "--world", world) == 0
    event = '{"key": "late", "out": null, "trap": null}'
    assert in_silence("send", "host/Do@1", event, "--world", world) == 0
    assert in_silence("run", "--until-idle", "--world", world) == 0
    after_snapshot = aos("replay", "--against", wrong, "--from", "snapshot", "--json", world=world)
    assert in_silence("journal", "prune", "--before", "newest", "--world", world) == 0

    kept = aos("replay", "--against", wrong, "--json", world=world)

    assert after_snapshot.json["compared"] > 0
    assert (kept.code, kept.json) == (after_snapshot.code, after_snapshot.json)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.wasm",), "--against: none.wasm cannot be read: No such file"),
        ((".", "--against", WASM), "a manifest has all its modules: expected no other --against"),
        ((f"order={WASM}",), "--against: 'order' is the name of no module of this journal: expect"),
        ((WASM, "--against", WASM), "expected one candidate for each module, NAME=FILE each"),
        ((WASM, "--engine", "pulley"), "--engine goes without --against"),
    ],
)
def test_options_that_cannot_be_used_are_refused_with_exit_2(
    aos: Aos, settled: Path, words: tuple[str | Path, ...], said: str
) -> None:
    ran = aos("replay", "--against", *words, world=settled)
    assert ran.code == 2
    assert said in ran.err


def test_a_module_that_may_not_run_is_refused(aos: Aos, settled: Path, tmp_path: Path) -> None:
    file = tmp_path / "no.wasm"
    file.write_bytes(b"no")
    ran = aos("replay", "--against", file, world=settled)
    assert (ran.code, "not a WASM module" in ran.err) == (1, True)
    file.write_bytes(answering(out(1), entrypoint="stop"))
    ran = aos("replay", "--against", file, world=settled)
    assert ran.code == 1
    assert f"  {PUPPET}: 6 steps could not run: " in ran.out


@pytest.fixture
def migrates(tmp_path: Path) -> Path:
    """A manifest whose states are lists, with a migration that doubles the number."""
    folder = tmp_path / "migrates"
    folder.mkdir()
    for name, data in migrating_files().items():
        (folder / name).write_bytes(data)
    return folder


def test_a_manifest_converts_the_recorded_states_first(
    aos: Aos, settled: Path, migrates: Path
) -> None:
    """A-89a, C-40b: ada's first step left 1, which is [2] in the new form; its module says [1]."""
    ran = aos("replay", "--against", migrates, world=settled)
    assert ran.code == 1
    assert "schemas differ" not in ran.out
    assert f"  {PUPPET}: 7 recorded states converted by its migration\n" in ran.out
    step = f"{PUPPET} ada on host/Do@1: state\n  state[0]\n    recorded   2\n    candidate  1\n"
    assert step in ran.out

    document = aos("replay", "--against", migrates, "--json", world=settled).json
    assert document["schemas"] == {}
    assert document["migrated"] == {PUPPET: 7}
    assert document["manifest"].startswith("blake3:")
    file = migrates / "m.air.json"
    assert aos("replay", "--against", file, "--json", world=settled).json == document


def test_a_folder_without_a_manifest_and_a_broken_one_are_refused(
    aos: Aos, settled: Path, tmp_path: Path
) -> None:
    assert aos("replay", "--against", tmp_path / "none.air.json", world=settled).code == 2
    file = tmp_path / "broken.air.json"
    file.write_text("[")
    ran = aos("replay", "--against", file, world=settled)
    assert (ran.code, "broken.air.json" in ran.err) == (1, True)


def test_a_folder_without_abis_is_compared_under_the_abi_that_was_applied(
    aos: Aos, tmp_path: Path
) -> None:
    """C-40b, AG-2"""
    folder, world = tmp_path / "guests", tmp_path / "world"
    for name, data in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    aos("init", world)
    aos("apply", folder, "--abi", "agentos", world=world)
    aos("send", "agentos/CounterEvent@1", '{"Start": {"target": 2}}', world=world)
    aos("run", "--until-idle", world=world)
    against = ("replay", "--against", folder)

    same = aos(*against, "--abi", "agentos", world=world)
    other = aos(*against, world=world)
    without = aos("replay", "--abi", "agentos", world=world)
    build = aos("replay", "--against", WASM, "--abi", "agentos", world=world)
    unknown = aos(*against, "--abi", "agentos/2", world=world)

    assert (same.code, same.out.splitlines()[0]) == (0, "against: 1 step comes out the same")
    assert other.code == 1
    assert (without.code, build.code, unknown.code) == (2, 2, 2)
    assert "--abi goes with --against PATH" in without.err
    assert "a build keeps the ABI of the recorded module" in build.err
    assert "--abi: expected aos/1 or agentos, found 'agentos/2'" in unknown.err
