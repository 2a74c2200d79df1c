"""A command imports only what it needs when it is called (C-12)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from aos_cli import registry
from tests.cli.shell import environment
from tests.copies import copied

# Large packages that a small command has no use for.
LARGE = {"asyncio", "httpcore", "httpx", "jsonschema", "pydantic", "rich", "wasmtime"}

REPORT = """
import json, sys
from aos_cli.entry import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""

EVENT = '{"key": "c", "out": null, "trap": null}'


def imported(*words: str | Path) -> set[str]:
    """The modules that a process has imported when the command has ended."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *map(str, words)],
        env=environment(), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    ("words", "modules", "ours"),
    [
        (["--version"], 175, 11),
        (["inspect", "world"], 365, 150),
        (["inspect", "cell", "puppet", "ada"], 365, 150),
        (["send", "host/Do@1", EVENT], 385, 166),
    ],
    ids=["version", "inspect world", "inspect cell", "send"],
)
def test_a_small_command_imports_no_large_package(
    lived_in: Path, tmp_path: Path, words: list[str], modules: int, ours: int
) -> None:
    """C-12. The numbers are a tenth above what is needed: who adds more cuts, or raises them."""
    world: list[str | Path] = (
        [] if words == ["--version"] else ["--world", copied(lived_in, tmp_path / "world")]
    )

    found = imported(*words, *world)

    assert {name.partition(".")[0] for name in found} & LARGE == set()
    assert len(found) <= modules
    assert sum(name.partition(".")[0] in ("aos", "aos_cli") for name in found) <= ours


@pytest.mark.parametrize("group", ["", "inspect"])
def test_help_that_lists_commands_imports_none_of_them(group: str) -> None:
    """C-12"""
    found = imported(*group.split(), "--help")

    assert not {name for name in found if name.startswith(("aos.core", "aos.host", "aos.store"))}
    assert not {name for name in found if name.startswith("aos_cli.commands.")}


def test_every_command_is_found_by_its_registered_name() -> None:
    for each in registry.COMMANDS:
        assert each.is_group or callable(each.load())
