"""A limit of the process that is too low is a sentence and exit 4 (spec/host.md H-88)."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.shell import AOS, environment, here
from tests.copies import copied
from tests.host.conftest import template, world
from tests.run_seed import in_turns

__all__ = ["template", "world"]

MIB = 1 << 20
GIB = 1 << 30
LOW = "is too low for this process: expected at least"


def limited(
    limit: int, value: int, *words: str | Path, within_s: float = 240
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AOS, *map(str, words)], env=environment(), capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(limit, (value, value)), check=False,
        timeout=within_s,
    )  # fmt: skip


COMMANDS: Sequence[Sequence[str]] = (
    ("run", "--until-idle"),
    ("send", "host/Do@1", '{"key": "c", "out": null, "trap": null}'),
    ("inspect", "world"),
    ("token", "list"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("limit", "value", "what"),
    [
        (resource.RLIMIT_NOFILE, 8, "open files"),
        (resource.RLIMIT_NOFILE, 20, "open files"),
        (resource.RLIMIT_DATA, 20 * MIB, "memory that this process may write"),
        (resource.RLIMIT_DATA, 256 * MIB, "memory that this process may write"),
    ],
)
def test_too_few_files_or_too_little_memory_is_a_sentence(
    world: Path, words: Sequence[str], limit: int, value: int, what: str
) -> None:
    """H-88."""
    done = limited(limit, value, *words, "--world", world)
    assert (done.returncode, done.stdout) == (4, ""), done
    [line] = done.stderr.splitlines()
    assert line.startswith(f"aos: the limit of {what} {LOW}")


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts addresses")
@pytest.mark.parametrize("gib", in_turns(2, [4, 8, 9, 10, 11]))
@pytest.mark.parametrize("words", [("run", "--until-idle"), ("replay",)], ids=["run", "replay"])
def test_too_few_addresses_are_a_sentence_or_enough(
    template: Path, tmp_path: Path, words: Sequence[str], gib: int
) -> None:
    """H-88: the engine of modules ended the process, and the store has its own sentence."""
    place = copied(template, tmp_path / "w")
    sent = here("send", "host/Do@1", '{"key": "c", "out": null, "trap": null}', "--world", place)
    assert sent.code == 0
    done = limited(resource.RLIMIT_AS, gib * GIB, *words, "--world", place)
    assert done.returncode in (0, 4), done
    assert "Traceback" not in done.stderr
    assert "panicked" not in done.stderr
    if gib in (9, 10) and words[0] == "run":
        assert f"the limit of address space for modules {LOW}" in done.stderr


@pytest.mark.parametrize(
    ("limit", "value"), [(resource.RLIMIT_NOFILE, 64), (resource.RLIMIT_DATA, 512 * MIB)]
)
def test_the_least_limits_are_enough_to_run_a_step(world: Path, limit: int, value: int) -> None:
    """H-88: what is not refused works."""
    for words in (COMMANDS[1], COMMANDS[0], COMMANDS[2]):
        done = limited(limit, value, *words, "--world", world)
        assert done.returncode == 0, done
