"""A command imports only what it needs when it is called (C-12)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from aos.fastcore.core_kind import CORE_VARIABLE
from tests.cli.all_commands import ALL_COMMANDS
from tests.cli.shell import environment, start
from tests.copies import copied

# Large modules that a small command has no use for.
LARGE = {
    "asyncio", "ctypes", "hashlib", "httpcore", "httpx", "jsonschema", "pydantic", "rich", "socket",
    "wasmtime",
}  # fmt: skip

CLIENTS = {"httpcore", "httpx", "jsonschema", "pydantic", "rich"}

REPORT = """
import dataclasses, gc, json, sys
from aos_cli.entry import main
collections = lambda: sum(each["collections"] for each in gc.get_stats())
before = collections()
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
finally:
    classes = {
        each
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in ("aos", "aos_cli")
        for each in vars(module).values()
        if isinstance(each, type) and dataclasses.is_dataclass(each)
    }
    report = {
        "undocumented": sorted(
            f"{each.__module__}.{each.__qualname__}"
            for each in classes
            if (each.__doc__ or "").startswith(f"{each.__name__}(")
        ),
        "compiled": sorted(
            f"{each.__module__}.{each.__qualname__}"
            for each in classes
            if sys.version_info < (3, 13)
            and "__delattr__" in vars(each)
            and each.__delattr__.__code__.co_filename == "<string>"
        ),
        "modules": sorted(sys.modules),
        "collections": collections() - before,
        "is_frozen": gc.get_freeze_count() > 0,
    }
    print(json.dumps(report), file=sys.stderr)
"""

EVENT = '{"key": "c", "out": null, "trap": null}'


@dataclass(frozen=True, kw_only=True)
class Report:
    """A process after its command: ``is_frozen`` if its end searches no object for cycles;
    ``undocumented`` are the dataclasses whose docstring Python writes, from their signature, which
    takes longer than all the rest of making the class; ``compiled`` are those with methods that
    no one has called (``aos.dataclass_methods``)."""

    modules: set[str]
    collections: int
    is_frozen: bool
    undocumented: list[str]
    compiled: list[str]


def reported(*words: str | Path) -> Report:
    """Run a command as a user does who names no kernel: then a short fold is the reference's, and
    needs no engine (CR-33)."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *map(str, words)],
        env=environment(**{CORE_VARIABLE: ""}), capture_output=True, text=True, timeout=240,
        check=True,
    )  # fmt: skip
    found = json.loads(done.stderr.splitlines()[-1])
    return Report(**{**found, "modules": set(found["modules"])})


def imported(*words: str | Path) -> set[str]:
    """The modules that a process has imported when the command has ended."""
    return reported(*words).modules


@pytest.mark.parametrize(
    ("words", "modules", "ours"),
    [
        (["--version"], 169, 13),
        (["inspect", "world"], 354, 163),
        (["inspect", "cell", "puppet", "ada"], 364, 167),
        (["send", "host/Do@1", EVENT], 405, 200),
    ],
    ids=["version", "inspect world", "inspect cell", "send"],
)
def test_a_small_command_imports_no_large_package_and_searches_for_no_cycles(
    lived_in: Path, tmp_path: Path, words: list[str], modules: int, ours: int
) -> None:
    """C-12. The numbers are three hundredths above what is needed now."""
    world: list[str | Path] = (
        [] if words == ["--version"] else ["--world", copied(lived_in, tmp_path / "world")]
    )

    report = reported(*words, *world)

    found = report.modules
    assert {name.partition(".")[0] for name in found} & LARGE == set()
    assert len(found) <= modules
    assert sum(name.partition(".")[0] in ("aos", "aos_cli") for name in found) <= ours
    assert report.undocumented == []
    assert report.compiled == []
    assert report.collections == 0
    assert report.is_frozen


def test_sending_to_a_running_world_imports_no_engine(lived_in: Path, tmp_path: Path) -> None:
    """C-12"""
    world = copied(lived_in, tmp_path / "world")
    process = start("run", "--world", world, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 90
        while not (world / "aos.sock").exists() and time.monotonic() < until:
            time.sleep(0.02)
        found = imported("send", "host/Do@1", EVENT, "--world", world)
    finally:
        process.kill()
        process.wait()

    assert not {"aos.core.kernel", "aos.host.world.engine", "aos.host.apply.apply"} & found
    assert len(found) <= 290
    assert sum(name.partition(".")[0] in ("aos", "aos_cli") for name in found) <= 88


def test_running_a_world_imports_no_client_of_http_and_nothing_that_reads_options(
    template: Path, tmp_path: Path
) -> None:
    """C-12"""
    found = imported("run", "--until-idle", "--world", copied(template, tmp_path / "world"))

    assert {name.partition(".")[0] for name in found} & CLIENTS == set()
    assert "http.server" not in found
    of_replicated = ("aos.host.cluster", "aos.host.standby", "aos.store.log", "nats")
    assert not [
        name for name in found if f"{name}.".startswith(tuple(f"{n}." for n in of_replicated))
    ]


@pytest.mark.parametrize("group", ["", "inspect"])
def test_help_that_lists_commands_imports_none_of_them(group: str) -> None:
    """C-12"""
    found = imported(*group.split(), "--help")

    assert not {name for name in found if name.startswith(("aos.core", "aos.host", "aos.store"))}
    assert not {name for name in found if name.startswith("aos_cli.commands.")}


def test_every_command_is_found_by_its_registered_name() -> None:
    for command in ALL_COMMANDS:
        assert command.is_group or callable(command.load())
