"""``aos cluster serve``: this machine is a member, which takes its share of all worlds of the
servers (spec/cli.md, C-177)."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any, Final

from typer.exceptions import TyperException

from aos.errors import BadUsage
from aos.host.cluster.connecting import bucket_replicas
from aos.host.cluster.joining import check_node_name
from aos.host.cluster.member import MOVE_EVERY_S, ClusterMember, MemberSettings
from aos.host.cluster.member_child import ChildCommands, member_folder
from aos.host.cluster.member_values import STANDBYS_MAX
from aos.host.cluster.moving import ask_hand_over
from aos.host.cluster.registration import WorldRegistration
from aos.read.lens.words import SECOND
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.patience import patiently
from aos_cli import registry
from aos_cli.cluster_target import Credentials
from aos_cli.commands.cluster import stop_signal
from aos_cli.lazy_group import LazyCommand
from aos_cli.main import parser_message
from aos_cli.options import Json, argument, number, option, option_words, span
from aos_cli.output import note, print_json_line
from aos_cli.servers import Monitors, Unverified, check_monitors

TURN_SECONDS: Final = 0.1

HAND_OVER_SECONDS: Final = 5.0
"""How long the owner of a world is asked to hand it over, before another world has its turn."""

_OWN_OPTIONS: Final = frozenset(
    {"world", "json", "until_idle", "until_waiting", "max_wait", "creds", "neighbours"}
)
"""Options of ``aos run`` that a member sets, or that would end the process of a world."""


def serve(
    folder: Annotated[
        Path, argument("DIR", "Folder of the member, with a folder for each world. It is made.")
    ],
    run_options: Annotated[
        list[str] | None,
        argument("[-- OPTIONS]", "Options of aos run for each world, after --."),
    ] = None,
    *,
    store: Annotated[
        str, option("ADDRESS", "Servers: nats://HOST,HOST,HOST, without the name of a world.")
    ],
    name: Annotated[
        str, option("MEMBER", "Name of this member, and of its nodes: no other member has it.")
    ],
    keys: Annotated[
        Path,
        option(
            "FOLDER",
            "Keys of the worlds: those of world NAME in FOLDER/NAME, as for aos join --keys, or in "
            "FOLDER itself.",
        ),
    ],
    standbys: Annotated[
        int,
        option("N", "Further members that follow each world (default 1).", parser=number),
    ] = 1,
    move_every: Annotated[
        int | None,
        option(
            "SPAN", "Least time between two moves of all members, such as 30s (default 10s).",
            parser=span,
        ),
    ] = None,
    creds: Credentials = None,
    monitor: Monitors = None,
    unverified_durability: Unverified = False,
    json: Json = False,
) -> None:  # fmt: skip
    address = NatsAddress.parse(store, needs_name=False)
    if address.name:
        raise BadUsage(
            "a member has a share of all worlds of the servers",
            location="--store",
            expected=f"the address without /{address.name}",
            actual=store,
        )
    check_node_name(name, "--name NAME")
    check_monitors(monitor, is_unverified=unverified_durability)
    if not 0 <= standbys <= STANDBYS_MAX:
        raise BadUsage("--standbys", expected=f"0 to {STANDBYS_MAX}", actual=str(standbys))
    words = _checked(run_options or [])
    if not keys.is_dir():
        raise BadUsage("--keys: there is no such folder", location=str(keys))
    access = NatsAccess.read(creds)
    program = [sys.executable, "-m", "aos_cli.entry"]
    credentials = option_words(creds=None if creds is None else creds.absolute())

    def commands(world: str, path: Path, world_keys: Path) -> ChildCommands:
        join = option_words(
            keys=world_keys, node=name, monitor=monitor, unverified_durability=unverified_durability
        )
        url = f"{address.text}/{world}"
        return ChildCommands(
            join=[*program, "join", url, str(path), *join, *credentials],
            run=[*program, "run", "--world", str(path), *credentials, *words],
        )

    def report(kind: str, text: str) -> None:
        if json:
            print_json_line({"event": kind, "text": text}, at_once=True)
        else:
            note(text)

    settings = MemberSettings(
        name=name, folder=folder.absolute(), keys=keys.absolute(), commands=commands,
        standbys=standbys, report=report,
        move_every_s=MOVE_EVERY_S if move_every is None else move_every / SECOND,
    )  # fmt: skip
    with (
        stop_signal() as stop,
        member_folder(settings.folder),
        NatsConnection(address, access) as connection,
    ):
        _run(connection, settings, stop)


def _run(connection: NatsConnection, settings: MemberSettings, stop: threading.Event) -> None:
    """Run a member until ``stop`` is set. Raises: Refused: Another one has its name."""
    count = patiently(lambda: bucket_replicas(connection))
    worlds = patiently(lambda: NatsBucket(connection, WORLDS, replicas=count))
    beats = patiently(lambda: NatsBucket(connection, BEATS, replicas=count))

    def ask(registration: WorldRegistration, world_key: bytes, node: str) -> Future[None]:
        return ask_hand_over(
            connection, beats, registration, node, world_key=world_key,
            patience_s=HAND_OVER_SECONDS,
        )  # fmt: skip

    member = ClusterMember(settings, worlds, beats, ask)
    patiently(member.begin)
    name, address = settings.name, connection.address.text
    settings.report("serving", f"member {name} of {address} (Ctrl-C stops it and its worlds)")
    try:
        while not stop.wait(TURN_SECONDS):
            member.turn()
    finally:
        settings.report("stopping", f"member {name} stops: its worlds are released")
        member.close()


def _checked(words: list[str]) -> list[str]:
    """Check the options of ``aos run`` for each world. Raises: BadUsage: One is none, or is not for
    a member."""
    command = next(row for row in registry.COMMANDS if row.path == "run")
    if {"-h", "--help"} & {*words}:
        raise BadUsage("after --, expected options of aos run", hint="see aos run --help")
    try:
        context: Any = LazyCommand(command).load().make_context("aos run", [*words])
    except TyperException as problem:
        raise BadUsage(
            parser_message(problem), location="the options after --", hint="see aos run --help"
        ) from None
    sources = {key: context.get_parameter_source(key) for key in context.params}
    named = sorted(
        key for key in _OWN_OPTIONS if getattr(sources.get(key), "name", "") == "COMMANDLINE"
    )
    if named:
        names = ", ".join(f"--{key.replace('_', '-')}" for key in named)
        raise BadUsage(
            f"{names}: not an option for the worlds of a member",
            location="the options after --",
            expected="such as --lease, --executors, --core",
            actual=names,
        )
    return words
