"""Options that several commands share (spec/cli.md, C-5, C-8)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from aos.errors import BadUsage, either, sentence
from aos.read.where import EXAMPLE
from aos.values.spelling import duration_ns

DEFAULT_WORLD: Final = Path(".aos")

World = Annotated[
    Path,
    typer.Option(
        "--world",
        "-w",
        envvar="AOS_WORLD",
        help="Folder of the world.",
        metavar="DIR",
        show_default="./.aos",
    ),
]
"""Every command's world: ``--world``, else ``AOS_WORLD``, else ``.aos`` in the current folder."""


def number(text: str) -> int:
    """Parse an option's whole number. Raises ``typer.BadParameter``."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"expected a whole number, found {text!r}") from None


def span(text: str) -> int:
    """Parse an option's duration, such as ``1h30m``, into nanoseconds. Raises
    ``typer.BadParameter``."""
    span_ns = duration_ns(text)
    if span_ns is None or span_ns < 0:
        raise typer.BadParameter(f"expected a duration such as 90s, 5m or 2d, found {text!r}")
    return span_ns


def check_record_range(first: int | None, last: int | None, end: int, *, follow: bool) -> None:
    """Raise BadUsage unless ``--from`` and ``--to`` are records of a journal that ends with record
    ``end``. ``--to`` may be a later one, and so may ``--from`` with ``follow``."""
    for name, seq in (("--from", first), ("--to", last)):
        if seq is not None and (seq < 1 or (name == "--from" and seq > end and not follow)):
            raise BadUsage(f"{name}: expected a record, 1 to {end}, found {seq}")


def check_abi(abi: str | None) -> None:
    """Raise ``BadUsage`` for an ``--abi`` that this kernel does not have."""
    # Only two commands have the option, and the others need not import this.
    from aos.manifest.forms import ABIS  # noqa: PLC0415

    if abi is not None and abi not in ABIS:
        raise BadUsage(sentence("--abi", expected=either(ABIS), actual=repr(abi)))


Json = Annotated[bool, typer.Option("--json", help="Print JSON, whose keys are stable.")]

Bundle = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="Bundle (see aos export) to read instead of a world."),
]

Limit = Annotated[int, typer.Option(metavar="N", parser=number, help="Maximum number of rows.")]
Offset = Annotated[int, typer.Option(metavar="N", parser=number, help="Number of rows to skip.")]

Condition = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help=f"Only those that pass this condition: '{EXAMPLE}'.",
    ),
]

WaitTimeout = Annotated[
    int | None,
    typer.Option(
        metavar="D",
        parser=span,
        help="With --wait: how long to wait at most, such as 30s (default: no limit).",
    ),
]

LeaveCells = Annotated[
    bool,
    typer.Option("--leave-cells", help="Allow removing a workflow that still has cells."),
]

AllowDiverged = Annotated[
    bool,
    typer.Option(
        "--allow-diverged",
        help="Apply although the new code does not fit the history of flows in progress; they "
        "stop with a fault.",
    ),
]

NewWorld = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder of the new world; new or empty.")
]

ProjectPath = Annotated[
    Path,
    typer.Argument(
        metavar="[PATH]",
        help="Folder of the project, or a folder in it (default: the current folder).",
    ),
]

ValueHash = Annotated[
    str, typer.Argument(metavar="HASH", help="The value's content hash, in full.")
]

Abi = Annotated[
    str | None,
    typer.Option(
        "--abi",
        metavar="aos/1|agentos",
        help="ABI assumed for modules that declare none: aos/1 (default), or agentos for "
        "AgentOS folders.",
    ),
]

AllowHttp = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOST[:PORT]",
        help="Allow sys/http.request@1 to reach this host (default: none). "
        "May be given several times.",
    ),
]

SecretsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File with the values of file:KEY secrets: KEY=VALUE lines or a JSON object, "
        "mode 0600. Read again when it changes.",
    ),
]

ExecutorSpecs = Annotated[
    list[str] | None,
    typer.Option(
        "--executors",
        metavar="M:A",
        help="Run Python effects in a process of their own: package.module:attribute, "
        "path/to/file.py:attribute, or a name that a package registers, such as llm. May be given "
        "several times.",
    ),
]

HostRoot = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Run the effects sys/host.… on this machine: files below this folder only, and "
        "commands that start in it, with your rights (default: none).",
    ),
]

SnapshotRecords = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar="AOS_SNAPSHOT_RECORDS",
        help="Take a snapshot after this number of records; 0: only on request (aos snapshot).",
    ),
]

CellCacheSize = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        envvar="AOS_CELL_CACHE_SIZE",
        help="Maximum number of idle cells kept in memory, for each workflow.",
    ),
]
