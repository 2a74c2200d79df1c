"""``aos gateway``: records of the gateway, and the lanes of signers (spec/cli.md, C-123 to C-125).

``create.py`` has the commands that create records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from aos.errors import BadUsage, Refused, Unavailable
from aos.read.views.view import LIMIT, check_word, page
from aos_cli.options import DEFAULT_WORLD, Json, Limit, Offset, World, argument, flag, option
from aos_cli.output import print_json
from aos_gateway import text
from aos_gateway.hex_text import read_address
from aos_gateway.keys import KIND_NAMES, KINDS, Kind, read_key
from aos_gateway.rows import STALLED, STATES, read_state
from aos_gateway.sending import (
    CANCEL,
    PARK,
    RECONCILE,
    RESUME,
    WHY_BYTES_MAX,
    Sent,
    all_of,
    cells_of_keys,
    command,
)
from aos_gateway.world import Filter, gateway_of, rows
from aos_gateway.world import show as show_cell

_STATE_NAMES: Final = ", ".join(STATES)

Type = Annotated[str | None, option("T", f"Only this type: {', '.join(KIND_NAMES)}.")]
State = Annotated[str | None, option("S", f"Only this state: {_STATE_NAMES}.", "--state")]
Key = Annotated[str, argument("KEY", "The key of a work, a score, an epoch or a lane.")]
Keys = Annotated[list[str] | None, argument("KEY", "Keys of works, scores, epochs or lanes.")]
Reason = Annotated[
    str, option("TEXT", f"The reason, which the record keeps (at most {WHY_BYTES_MAX:,} bytes).")
]
AllParked = Annotated[bool, flag("--all", "Every record that has not ended, and every lane.")]
AllResumed = Annotated[bool, flag("--all", "Every stalled record and lane.")]
AllCanceled = Annotated[bool, flag("--all", "Every record that has not ended.")]
AllReconciled = Annotated[
    bool, flag("--all", "Every record that runs or is stalled, and every lane in use.")
]
OfState = Annotated[str | None, option("S", f"With --all: those in this state: {_STATE_NAMES}.")]
OfType = Annotated[str | None, option("T", f"With --all: only this type: {', '.join(KIND_NAMES)}.")]


def list_cells(
    *,
    type: Type = None,
    state: State = None,
    studio: Annotated[
        str | None, option("A", "Only records of the studio at this address.")
    ] = None,
    stalled: Annotated[bool, flag("--stalled", "Only stalled records and lanes.")] = False,
    limit: Limit = LIMIT,
    offset: Offset = 0,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if stalled and state is not None:
        raise BadUsage("gateway list: expected one of --state and --stalled")
    row_filter = Filter(
        kind=_kind(type),
        state=STALLED if stalled else read_state(state),
        studio=None if studio is None else read_address(studio, "--studio"),
    )
    with gateway_of(world) as view:
        document = page("rows", rows(view, row_filter), limit, offset, lambda row: row)
    if json:
        print_json(document)
    else:
        text.show_list(document)


def show(key: Key, *, world: World = DEFAULT_WORLD, json: Json = False) -> None:
    cell_key = read_key(key)
    with gateway_of(world, asks=True) as view:
        document = show_cell(view, cell_key)
    if json:
        print_json(document)
    else:
        text.show_row(document)


def park(
    keys: Keys = None,
    *,
    is_all: AllParked = False,
    type: OfType = None,
    state: OfState = None,
    why: Reason = "",
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    return _command(PARK, keys, is_all, type, state, reason=why, world=world, json=json)


def resume(
    keys: Keys = None,
    *,
    is_all: AllResumed = False,
    type: OfType = None,
    state: OfState = None,
    why: Reason = "",
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    return _command(RESUME, keys, is_all, type, state, reason=why, world=world, json=json)


def cancel(
    keys: Keys = None,
    *,
    is_all: AllCanceled = False,
    type: OfType = None,
    state: OfState = None,
    why: Reason = "",
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    return _command(CANCEL, keys, is_all, type, state, reason=why, world=world, json=json)


def reconcile(
    keys: Keys = None,
    *,
    is_all: AllReconciled = False,
    type: OfType = None,
    state: OfState = None,
    why: Reason = "",
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    return _command(RECONCILE, keys, is_all, type, state, reason=why, world=world, json=json)


def _command(
    action: str,
    keys: list[str] | None,
    is_all: bool,
    type: str | None,
    state: str | None,
    *,
    reason: str,
    world: Path,
    json: bool,
) -> int:
    name = f"gateway {action.lower()}"
    if is_all == bool(keys) or (not is_all and (type is not None or state is not None)):
        raise BadUsage(
            f"{name}: expected KEY…, or --all with an optional --type T and --state S "
            f"(see aos {name} --help)"
        )
    if len(reason.encode(errors="replace")) > WHY_BYTES_MAX:
        size_text = f"{len(reason.encode(errors='replace')):,}"
        raise BadUsage("--why", expected=f"at most {WHY_BYTES_MAX:,} bytes", actual=size_text)
    cells = (
        all_of(world, action, kind=_kind(type), state=read_state(state))
        if is_all
        else cells_of_keys(world, keys or [])
    )
    sent = command(world, action, reason, cells)
    if json:
        print_json(
            {
                "command": action.lower(),
                "running": sent.is_run,
                "sent": len(sent.commands) - sent.refused,
                "refused": sent.refused,
                "unanswered": sent.unanswered if sent.is_run else None,
                "commands": [sent_command.document for sent_command in sent.commands],
            }
        )
    else:
        text.commanded(sent)
    return _exit_code(sent)


def _exit_code(sent: Sent) -> int:
    if sent.refused:
        return Refused.exit_code
    return Unavailable.exit_code if sent.is_run and sent.unanswered else 0


def _kind(name: str | None) -> Kind | None:
    check_word("type", name, KIND_NAMES)
    return next((kind for kind in KINDS if kind.name == name), None)
