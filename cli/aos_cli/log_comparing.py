"""``--servers``: compare the folder of a node with the log at its servers (spec/cluster.md,
CL-275 to CL-278)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from aos.read.lens.words import count
from aos_cli.options import flag
from aos_cli.output import line, progress
from aos_cli.servers import node_folder, servers_of

if TYPE_CHECKING:
    from aos.host.cluster.log_comparison import LogComparison

Servers = Annotated[
    bool,
    flag(
        "--servers",
        "Of a node: also compare each frame with the log at the servers, byte for byte.",
    ),
]


def compared_with_log(world: Path, creds: Path | None) -> LogComparison:
    """Compare. Raises: BadUsage: The world is embedded. AosError: As ``compare_with_log``."""
    from aos.host.cluster.log_comparison import compare_with_log  # noqa: PLC0415  # replicated ones

    folder, replica = node_folder(world)
    key = folder.world_key().verify_key.encode()
    with (
        servers_of(replica, creds) as servers,
        folder.open_store(readonly=True) as store,
        progress("comparing with the log"),
    ):
        return compare_with_log(servers, replica.address.name, store, key)


def show_comparison(comparison: LogComparison) -> None:
    """Print the result as text."""
    if comparison.problem is None:
        line(f"servers: the log has the same frames to record {comparison.seq:,}", style="green")
    else:
        line(f"servers: {comparison.problem}", style="red")
    line(
        f"  entries that count: {comparison.entries:,}, with {count(comparison.frames, 'frame')}, "
        f"positions {comparison.begin + 1:,} to {comparison.last:,} of {comparison.stream}"
    )
    if comparison.dead:
        reason = f" (the last one: {comparison.dead_reason})" if comparison.dead_reason else ""
        line(f"  {count(comparison.dead, 'dead message')}{reason}")
    if comparison.behind_messages:
        line(
            f"  this folder is behind by {count(comparison.behind_messages, 'message')}, "
            f"{count(comparison.behind_records, 'record')}"
        )
