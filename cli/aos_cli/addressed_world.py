"""A replicated world that is named by its address: ``--world nats://HOST,…/NAME`` (spec/cli.md,
C-8c).

Commands reach the node that owns it. There is no journal here: of the world, they know the manifest
in force.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aos.core.journal.frame import Tip
from aos.core.state.eras import Era, Eras
from aos.core.state.state import State
from aos.errors import BadUsage
from aos.host.cluster.bus_way import AddressedWorld, open_bus_way, open_bus_writer
from aos.host.door.writer import Writer
from aos.read.views.view import View
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos.store.memory_store import MemoryStore
from aos.values.digests import Hash, parse_hash
from aos.values.errors import ValueProblem
from aos_cli.open_writing import (
    chosen_credentials,
    chosen_operator_key,
    chosen_timeout_s,
    patience,
    writing_to,
)
from aos_cli.options import address_of

if TYPE_CHECKING:
    from aos.host.apply.dry_run import ApplyReport
    from aos.manifest.load import Loaded


def open_at_address(address: str) -> Writer:
    """Open the world at an address. Raises as ``open_bus_writer``."""
    return open_bus_writer(
        NatsAddress.parse(address),
        NatsAccess.read(chosen_credentials()),
        operator_key=chosen_operator_key(),
        busy_s=chosen_timeout_s(),
        patience=patience(),
    )


def manifest_view(world: Path) -> View:
    """A view of the manifest in force of the world at an address, without cells and records."""
    with writing_to(world) as writer:
        signed_state = writer.signed_state()
    manifest = signed_state.manifest
    eras = () if manifest is None else (Era(0, manifest.hash, frozenset()),)
    state = State(
        tip=Tip(world=signed_state.world),
        manifest=manifest,
        eras=Eras(eras),
        serial=signed_state.serial,
        controls=signed_state.controls,
        operators=signed_state.operators,
    )
    return View(state, MemoryStore(), now_ns=0)


def retry_at_address(world: Path, intents: Sequence[Hash]) -> list[Hash]:
    """Ask the owner of the world at an address to run held and parked effects again; return those
    that run."""
    address = address_of(world)
    assert address is not None, "an address"
    way = open_bus_way(
        NatsAddress.parse(address), NatsAccess.read(chosen_credentials()), patience=patience()
    )
    try:
        return way.retry(intents)
    finally:
        way.close()


def try_at_address(world: Path, loaded: Loaded, *, mode: str, leave_cells: bool) -> ApplyReport:
    """Have the owner of the world at an address try a manifest; return the report of that dry run.

    Raises:
        Refused: A module is refused, or no key of an operator was named.
        AosError: As ``RequestWay.try_manifest`` and ``open_bus_way``.
    """
    # Only aos apply needs it.
    from aos.host.apply.manifest_trial import ManifestTrial  # noqa: PLC0415

    text = address_of(world)
    assert text is not None, "an address"
    address = NatsAddress.parse(text)
    way = open_bus_way(address, NatsAccess.read(chosen_credentials()), patience=patience())
    try:
        key = AddressedWorld(
            address=address, world=way.world, key_file=chosen_operator_key()
        ).operator_key()
        signed_state = way.signed_state()
        trial = ManifestTrial(
            document=loaded.effective.document, mode=mode, leave_cells=leave_cells
        ).signed(signed_state.world, signed_state.serial, signed_state.operators, key)
        report: ApplyReport = way.try_manifest(trial, loaded.modules)
    finally:
        way.close()
    del report["leaves"]
    return report


def whole_intent(text: str) -> Hash:
    """Read the whole hash of an intent. Raises BadUsage."""
    try:
        return parse_hash(text if ":" in text else f"blake3:{text}")
    except ValueProblem:
        raise BadUsage(
            "not the whole hash of an intent: the address of a world has no journal to find it in",
            location=repr(text),
            expected="64 hex digits",
            hint="aos inspect intents prints it, in the folder of a node",
        ) from None


def refuse_choice(world: Path, option: str) -> None:
    """Raise BadUsage if ``world`` is an address: its cells cannot be listed here."""
    address = address_of(world)
    if address is not None:
        raise BadUsage(
            f"{option} reads the journal",
            location=address,
            expected="the folder of a world",
            actual="the address of a replicated one",
            hint="name the folder of one of its nodes: --world DIR",
        )
