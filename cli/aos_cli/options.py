"""Options that several commands share (spec/cli.md, C-5, C-8), and the node that a command talks
to: ``--node``, else ``AOS_NODE`` (C-92).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aos.errors import BadUsage, either
from aos.read.where import EXAMPLE
from aos.values.spelling import duration_ns

if TYPE_CHECKING:
    from aos.client import Client


DEFAULT_WORLD: Final = Path(".aos")

_ADDRESS_SCHEMES: Final = ("nats", "tls")

TOKEN_VARIABLE: Final = "AOS_TOKEN"  # noqa: S105  # the name of a variable


def option(metavar: str, help: str, *names: str, **settings: Any) -> Any:
    """Declare an option with a value, after ``Annotated``. Without ``names`` it has that of its
    parameter; ``settings`` are those of ``typer.Option``."""
    return typer.Option(*names, metavar=metavar, help=help, **settings)


def flag(name: str, help: str) -> Any:
    """Declare an option without a value, which has no ``--no-`` form."""
    return typer.Option(name, help=help)


def argument(metavar: str, help: str, **settings: Any) -> Any:
    """Declare an argument, as ``option``."""
    return typer.Argument(metavar=metavar, help=help, **settings)


def option_words(**values: Any) -> list[str]:
    """The words of a command line for these options, by the names of their parameters. None and
    False are left out, True is a flag, and an option with a list is given several times."""
    words = []
    for name, value in values.items():
        option_name = f"--{name.replace('_', '-')}"
        for element in value if isinstance(value, list) else [value]:
            if element is True:
                words.append(option_name)
            elif element is not None and element is not False:
                words += [option_name, str(getattr(element, "value", element))]
    return words


def address_of(world: Path) -> str | None:
    """The address of a replicated world in the place of a folder (C-8c); None for a folder."""
    scheme, mark, remainder = str(world).partition(":")
    is_address = scheme in _ADDRESS_SCHEMES and mark and remainder[:1] in ("", "/")
    return f"{scheme}:/{remainder or '/'}" if is_address else None


def _folder_or_address(context: typer.Context, world: Path) -> Path:
    """Refuse an address for a command that needs the folder of a world (C-8c)."""
    address = address_of(world)
    if address is None:
        return world
    from aos_cli.registry import ADDRESSED  # noqa: PLC0415  # few worlds are named by an address

    command = " ".join(context.command_path.split()[1:])
    if command in ADDRESSED:
        return world
    raise BadUsage(
        f"aos {command} reads the journal, or writes to a folder",
        location=address,
        expected="the folder of a world",
        actual="the address of a replicated one",
        hint="name the folder of one of its nodes: --world DIR",
    )


World = Annotated[
    Path,
    option(
        "DIR", "Folder of the world.", "--world", "-w", envvar="AOS_WORLD", show_default="./.aos",
        callback=_folder_or_address,
    ),
]  # fmt: skip
"""Every command's world: ``--world``, else ``AOS_WORLD``, else ``.aos`` in the current folder. Some
take the address of a replicated world as well: see ``address_of``."""


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
        raise BadUsage("--abi", expected=either(ABIS), actual=repr(abi))


Credentials = Annotated[
    Path | None,
    option(
        "FILE",
        "Credentials for the NATS servers of a replicated world: a file of nsc, or the seed of a "
        "user (default: AOS_NATS_CREDS).",
    ),
]
Lease = Annotated[
    int | None,
    option(
        "SECONDS",
        "Of a replicated world: how long its owner is silent before this node takes over, from 1 "
        "to 300 (default 3).",
        parser=number,
    ),
]

NoReference = Annotated[
    bool,
    flag(
        "--no-reference",
        "Of a replicated world: while this node is a standby with the second kernel, do not "
        "compare its state with the reference.",
    ),
]

Json = Annotated[bool, flag("--json", "Print JSON, whose keys are stable.")]

Bundle = Annotated[
    Path | None, argument("[FILE]", "Bundle (see aos export) to read instead of a world.")
]

Limit = Annotated[int, option("N", "Maximum number of rows.", parser=number)]
Offset = Annotated[int, option("N", "Number of rows to skip.", parser=number)]

Condition = Annotated[
    str | None, option("TEXT", f"Only cells for which this condition is true: '{EXAMPLE}'.")
]

WaitTimeout = Annotated[
    int | None,
    option(
        "D", "With --wait: how long to wait at most, such as 30s (default: no limit).", parser=span
    ),
]

LeaveCells = Annotated[
    bool, flag("--leave-cells", "Allow removing a workflow that still has cells.")
]

AllowDiverged = Annotated[
    bool,
    flag(
        "--allow-diverged",
        "Apply although the new code does not fit the history of flows in progress; they "
        "stop with a fault.",
    ),
]

NewWorld = Annotated[Path, argument("DIR", "Folder of the new world; new or empty.")]

ProjectPath = Annotated[
    Path,
    argument("[PATH]", "Folder of the project, or a folder in it (default: the current folder)."),
]

ValueHash = Annotated[str, argument("HASH", "The value's content hash, in full.")]

Abi = Annotated[
    str | None,
    option(
        "aos/1|agentos",
        "ABI assumed for modules that declare none: aos/1 (default), or agentos for "
        "AgentOS folders.",
    ),
]

AllowHttp = Annotated[
    list[str] | None,
    option(
        "HOST[:PORT]",
        "Allow sys/http.request@1 to reach this host (default: none). May be given several times.",
    ),
]

SecretsFile = Annotated[
    Path | None,
    option(
        "FILE",
        "File with the values of file:KEY secrets: KEY=VALUE lines or a JSON object, "
        "mode 0600. Read again when it changes.",
    ),
]

ExecutorSpecs = Annotated[
    list[str] | None,
    option(
        "M:A",
        "Run Python effects in a process of their own: package.module:attribute, "
        "path/to/file.py:attribute, or a name that a package registers, such as llm. May be given "
        "several times.",
    ),
]

HostRoot = Annotated[
    Path | None,
    option(
        "DIR",
        "Run the effects sys/host.… on this machine, with your rights: commands start in this "
        "folder, and only files below it are reached (default: none).",
    ),
]

HasNeighbours = Annotated[
    bool,
    flag(
        "--neighbours",
        "Exchange events with the worlds in the same folder, or of the same servers: carry out "
        "sys/world.send, and take what they deliver.",
    ),
]

SnapshotRecords = Annotated[
    int,
    option(
        "N",
        "Take a snapshot after this number of records; 0: only on request (aos snapshot).",
        min=0,
        envvar="AOS_SNAPSHOT_RECORDS",
    ),
]

CellCacheSize = Annotated[
    int,
    option(
        "N",
        "Maximum number of idle cells kept in memory, for each workflow.",
        min=1,
        envvar="AOS_CELL_CACHE_SIZE",
    ),
]


def _unless_folder(context: typer.Context, node: str | None) -> str | None:
    """Prefer ``--world``, or the address of servers, on the command line to a node in the
    environment."""
    node_source, *others = [
        source and source.name
        for source in map(context.get_parameter_source, ("node", "world", "address"))
    ]
    return None if node_source == "ENVIRONMENT" and "COMMANDLINE" in others else node


NodeUrl = Annotated[
    str | None,
    option(
        "URL",
        "The node: http://…, https://…, or the folder of a world on this machine.",
        envvar="AOS_NODE",
        callback=_unless_folder,
    ),
]


def node_token() -> str | None:
    """The secret of the token in ``AOS_TOKEN``, which is never given on a command line."""
    return os.environ.get(TOKEN_VARIABLE) or None


def client_of(node: str) -> Client:
    """Return a client of a node, with the token in ``AOS_TOKEN``. It waits for an answer as long as
    ``--timeout`` says (C-8a)."""
    # The client of a node imports much that the commands on a folder do not need.
    from aos.client import Client  # noqa: PLC0415
    from aos_cli.open_writing import explicit_timeout_s  # noqa: PLC0415  # it imports this module

    return Client(node, token=node_token(), answer_s=explicit_timeout_s())
