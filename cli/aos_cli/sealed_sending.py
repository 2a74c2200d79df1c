"""``--seal``: seal the places of events on their way into a world (spec/cli.md, C-24d)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from aos.errors import BadUsage
from aos.host.door.writer import Item, Writer
from aos.manifest.effective import Effective
from aos.values.errors import ValueProblem
from aos_cli.options import client_of, option

Seal = Annotated[
    Path | None,
    option(
        "KEYRING", "Encrypt the sealed fields of each event with the current key of this keyring."
    ),
]


def in_force(writer: object, node: str | None) -> Effective | None:
    """The manifest in force, of the writer of a world or group, or of the node."""
    if node is None:
        if isinstance(writer, Writer):
            return writer.signed_state().manifest
        # Few worlds are groups.
        from aos.host.door.group_writer import GroupWriter  # noqa: PLC0415

        return writer.manifest() if isinstance(writer, GroupWriter) else None
    # Few events are sealed for a node, and the judge of manifests is a large import.
    from aos.manifest.judging import judge  # noqa: PLC0415

    with client_of(node) as client:
        document = client.document("/v1/manifest")
        return judge(client.blob(document["hash"]))


def sealer(path: Path, manifest: Effective | None, *, is_one: bool) -> Callable[[Item], Item]:
    """A function that seals the places of an event. It raises BadUsage, without plaintexts, if it
    cannot; with ``is_one`` also for an event without sealed places, which would be sent open.

    Raises:
        BadUsage: The keyring cannot be read.
    """
    # Few events are sealed, and only they need the keys.
    from aos.sealing.keyring import (  # noqa: PLC0415
        Keyring,
        sealed_event,
    )

    keyring = Keyring.read(path)

    def seal(item: Item) -> Item:
        if manifest is None or item.schema not in manifest.schemas:
            return item  # the kernel refuses it
        if is_one and item.schema not in manifest.sealing:
            raise BadUsage(
                f"--seal: {item.schema} has no sealed place, so nothing would be sealed (leave "
                "out --seal, or make a field of the schema an aos/Sealed@1)"
            )
        try:
            value = sealed_event(keyring, manifest, item.schema, item.value, item.submission_id)
        except ValueProblem as problem:
            raise BadUsage(f"--seal: {item.schema}: {problem}") from None
        return replace(item, value=value)

    return seal
