"""``aos replay --against`` (spec/cli.md, C-40b)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import Aos, in_silence
from tests.host.puppet import PUPPET, WASM
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
        "  what differs: state 2, effects 1, status 1, fault 1\n"
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
        "  such steps say nothing of what it decides: take the states over with a migration "
        "(aos apply --mode migrate), or see what would become of them with aos apply --dry-run\n"
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.wasm",), "--against: none.wasm cannot be read: No such file"),
        (
            (".",),
            "--against: . cannot be read: Is a directory (expected a built module",
        ),
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
