"""Why a record or a lane waits, and what to do next (spec/cli.md, C-124)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from aos.read.lens.words import span_text, time_text
from aos_gateway.cells import GatewayCell, OpenEffect, QueuePosition
from aos_gateway.keys import LANE, Key, owner_key
from aos_gateway.rows import (
    AUTO,
    COMPLETED,
    FAILED,
    IDLE,
    PENDING,
    RUNNING,
    STALLED,
    Row,
    row,
    tag,
)

EXECUTORS: Final = "--executors evm --executors arweave"
RUN: Final = f"aos run --secrets FILE {EXECUTORS}"

LANE_REQUESTS_MAX: Final = 256
REGISTERING: Final = ("REGISTER_VALIDATOR", "AWAIT_REGISTER_CONFIRM")
"""The steps of a score that its admin signs."""

_PAUSES: Final = {
    "Retry": "it tries again by itself",
    "Window": "until the score may be revealed",
    "LaneFull": f"until the lane has room: {LANE_REQUESTS_MAX} requests wait there",
}
_LANE_DOING: Final = {
    "Nothing": "nothing is open",
    "Quoting": "the lane asks the chain for nonce and fees",
    "Submitting": "the lane publishes the transaction",
    "Awaiting": "the lane watches the chain for the transaction",
    "Pausing": "the lane continues after a pause",
    "Stalling": "the lane is stalled",
    "Mending": "the lane publishes again what a reorganisation took back",
    "Reconciling": "the lane compares what landed last with the chain",
}


@dataclass(frozen=True, slots=True)
class Wait:
    """One fact about why a cell does not advance; ``next`` is what to do. ``is_stuck`` says that
    it does not continue without help."""

    text: str
    next: str | None = None
    is_stuck: bool = False


def waits(
    cell: GatewayCell,
    *,
    lane: GatewayCell | None = None,
    position: QueuePosition | None = None,
    is_run: bool,
    now_ns: int,
) -> list[Wait]:
    """Every reason why a record or a lane waits, the nearest first; at least one.

    Args:
        lane: The lane that has the record's request, if one has it.
        position: Where the request is there.
        is_run: Whether a process runs the world.
        now_ns: The time that waiting is measured against.
    """
    cell_row = row(cell)
    values = _remedy_values(cell, cell_row)
    if cell.fault is not None:
        return [_fault_wait(cell)]
    if cell_row["state"] == PENDING or cell.mail:
        return [_mail_wait(cell, is_run=is_run)]
    if cell_row["state"] in (COMPLETED, FAILED):
        return [_end_wait(cell, cell_row, values)]
    if cell_row["state"] == STALLED:
        stalled = [_stall_wait(cell, cell_row, values, now_ns)]
        if lane is not None and position is not None:
            stalled.append(_queue_wait(lane, position))
        return stalled
    if cell_row["state"] == IDLE:
        return [Wait("the lane has no request")]
    if cell.key.kind is LANE:
        return list(_lane_waits(cell, cell_row, values, is_run=is_run))
    return list(_record_waits(cell, cell_row, values, lane, position, is_run=is_run, now_ns=now_ns))


def _fault_wait(cell: GatewayCell) -> Wait:
    command = f"aos cells retry {cell.key.kind.workflow} {cell.key.text}"
    return Wait(
        f"the kernel stopped it by a fault: {cell.fault}",
        f"aos inspect faults has the remedy; then {command}",
        is_stuck=True,
    )


def _mail_wait(cell: GatewayCell, *, is_run: bool) -> Wait:
    subject = "the event that creates it has" if cell.state is None else "an event for it has"
    return Wait(
        f"{subject} not run yet",
        None if is_run else f"run the world: {RUN}",
        is_stuck=not is_run,
    )


def _end_wait(cell: GatewayCell, cell_row: Row, values: Mapping[str, object]) -> Wait:
    drift = cell_row["drift"]
    compare = f"compare again: aos gateway reconcile {cell.key.text}"
    if drift is not None:
        return Wait(
            f"{cell_row['state']}, but a later reconciliation found otherwise: {drift}",
            compare,
            is_stuck=True,
        )
    if cell_row["state"] == COMPLETED:
        return Wait("the record is COMPLETED: it waits for nothing")
    return Wait(
        f"the record FAILED in {cell_row['error_step']}: {_error_text(cell_row)}",
        remedy(cell_row["code"], values),
        is_stuck=True,
    )


def _stall_wait(
    cell: GatewayCell, cell_row: Row, values: Mapping[str, object], now_ns: int
) -> Wait:
    resume = f"aos gateway resume {cell.key.text}"
    cause = remedy(cell_row["code"], values)
    if cell_row["stall"] == AUTO:
        until = cell_row["stall_until_ns"]
        return Wait(
            f"stalled until {_until(until, now_ns)}, automatic stall {cell_row['stall_cycle']} of "
            f"{_stall_cycles(cell)}: {_error_text(cell_row)}",
            f"{cause}; to continue now: {resume}" if cause else f"to continue now: {resume}",
        )
    reason = cell_row["stall_why"] or "no reason was given"
    text = f"parked: {reason}"
    if cell_row["code"] is not None and cell_row["error"] != reason:
        text += f"; the last error: {_error_text(cell_row)}"
    return Wait(text, f"{cause}; then {resume}" if cause else resume, is_stuck=True)


def _stall_cycles(cell: GatewayCell) -> int | str:
    """How many automatic stalls the policy allows in a row: of a lane, that of its request."""
    state = cell.state or {}
    if cell.key.kind is LANE:
        current = state["current"]
        return "?" if current is None else int(current["request"]["policy"]["stall_cycles"])
    return int(state["policy"]["stall_cycles"])


def _record_waits(
    cell: GatewayCell,
    cell_row: Row,
    values: Mapping[str, object],
    lane: GatewayCell | None,
    position: QueuePosition | None,
    *,
    is_run: bool,
    now_ns: int,
) -> Iterator[Wait]:
    assert cell.state is not None
    pause = tag(cell.state.get("pause"))
    if cell.effects:
        yield from _effect_waits(
            cell.effects, values, is_run=is_run, reason=_PAUSES.get(pause or ""), cell_row=cell_row
        )
        return
    doing = cell.state["doing"]
    if tag(doing) != "AwaitingTx":
        yield Wait(
            "its step has opened no effect", f"look at its past: aos trace {_cell_words(cell.key)}"
        )
        return
    request = doing["$value"]["request"]
    if lane is None or position is None:
        yield Wait(
            f"request {request} waits for its lane, which does not have it",
            None if is_run else f"run the world: {RUN}",
        )
        return
    if position.ahead is not None or row(lane)["state"] != RUNNING:
        yield _queue_wait(lane, position)
    yield from waits(lane, is_run=is_run, now_ns=now_ns)


def _queue_wait(lane: GatewayCell, position: QueuePosition) -> Wait:
    request_text = f"request {position.request} is at lane {lane.key.text}"
    if position.ahead is None:
        return Wait(f"{request_text}, in flight")
    return Wait(
        f"{request_text}, place {position.number} of {position.total}, after {position.ahead.words}"
    )


def _lane_waits(
    cell: GatewayCell, cell_row: Row, values: Mapping[str, object], *, is_run: bool
) -> Iterator[Wait]:
    assert cell.state is not None
    current, doing = cell.state["current"], _LANE_DOING[str(tag(cell.state["doing"]))]
    if current is None:
        yield Wait(doing)
    else:
        owner = owner_key(current["request"]["owner"])
        nonce = "" if current["nonce"] is None else f", nonce {current['nonce']}"
        yield Wait(f"in flight{nonce}: the transaction of {owner.words}; {doing}")
    if cell.state["is_parking"]:
        yield Wait("it parks as soon as the open submit has ended")
    yield from _effect_waits(cell.effects, values, is_run=is_run, reason=None, cell_row=cell_row)


def _effect_waits(
    effects: Sequence[OpenEffect],
    values: Mapping[str, object],
    *,
    is_run: bool,
    reason: str | None,
    cell_row: Row,
) -> Iterator[Wait]:
    for effect in effects:
        text = effect.text if reason is None else f"{effect.text}: {reason}"
        if effect.name.startswith("sys/timer") and cell_row["code"] is not None:
            text += f" ({_error_text(cell_row)})"
        yield Wait(text, _effect_remedy(effect, values, is_run=is_run), effect.is_stuck)


def _effect_remedy(effect: OpenEffect, values: Mapping[str, object], *, is_run: bool) -> str | None:
    if effect.code is not None:
        lacks = HELD.get(effect.code)
        if lacks is None:
            return effect.next
        then = f"if it has that by now: aos effects retry {effect.digits}"
        return f"{filled(lacks, values)}, then run the world again; {then}"
    if not is_run:
        return f"run the world: {RUN}"
    if effect.is_runnable is False:
        return f"run the world with the executors of the gateway: {RUN}"
    return None


def _remedy_values(cell: GatewayCell, cell_row: Row) -> dict[str, object]:
    """The values of a remedy. The signer of a request is that of the step, as its lane has it."""
    record_input = (cell.state or {}).get("input") or {}
    signer = cell_row["signer"]
    if tag((cell.state or {}).get("step")) in REGISTERING and record_input.get("admin_address"):
        signer = record_input["admin_address"]
    return {
        "chain": cell_row["chain"],
        "signer": signer,
        "lane": f"{cell_row['chain']}/{signer}",
        "arweave": record_input.get("arweave"),
        "key": cell.key.text,
    }


def _error_text(cell_row: Row) -> str:
    """The last error with its code and, if the code is known, its meaning."""
    if cell_row["code"] is None:
        return "no reason was given"
    advice = CODES.get(cell_row["code"])
    meaning = "" if advice is None else f" ({advice.meaning})"
    return f"{cell_row['code']}{meaning}: {cell_row['error']}"


def _until(until_ns: int, now_ns: int) -> str:
    if until_ns > now_ns:
        return f"{time_text(until_ns)} (in {span_text(until_ns - now_ns)})"
    return f"{time_text(until_ns)} ({span_text(now_ns - until_ns)} ago)"


def _cell_words(key: Key) -> str:
    return f"{key.kind.workflow} {key.text}"


class Advice(NamedTuple):
    """``remedy`` is what removes the cause; None where nothing is left to do."""

    meaning: str
    remedy: str | None


CODES: Final[Mapping[str, Advice]] = {
    "INVALID_INPUT": Advice(
        "the input of the record is not valid", "create the record again with a corrected input"
    ),
    "CONFLICT": Advice(
        "another account did this on chain first",
        "compare that account with the record's signer; this record sends nothing more",
    ),
    "EPOCH_CLOSED": Advice(
        "the epoch is closed on chain",
        "submit under a new --data-hash in an open epoch; this record sends nothing more",
    ),
    "EPOCH_EMPTY": Advice(
        "the epoch has no work on chain, so the contract does not close it",
        "complete a work of this epoch first",
    ),
    "WORK_NOT_SUBMITTED": Advice(
        "the work is not on chain, or another account submitted it",
        "complete the work first: aos gateway show WORK",
    ),
    "WINDOW_CLOSED": Advice(
        "the time in which the score could be revealed is over",
        "a committed score cannot be replaced; the contract decides what follows",
    ),
    "TX_REVERTED": Advice(
        "the contract refuses the transaction, for the reason in the message",
        "remove that reason on chain",
    ),
    "INCONSISTENT": Advice(
        "the transaction is confirmed, and the contract does not have its result",
        "compare --studio with the deployed contract; the record never sends it again",
    ),
    "CANCELED": Advice("an operator canceled the record", None),
    "TX_CANCELED": Advice("the transaction was canceled at its lane", None),
    "PARKED": Advice("an operator parked it", None),
    "ARWEAVE_REJECTED": Advice(
        "Arweave refuses the upload, for the reason in the message",
        "remove that reason, for example too small a reward or an unsupported tag",
    ),
    "EVIDENCE_MISMATCH": Advice(
        "Arweave returns other bytes than the evidence",
        "check the gateway {arweave} of AOS_ARWEAVE with another gateway",
    ),
    "NO_FUNDS": Advice("the signer cannot pay for gas", "send funds to {signer} on chain {chain}"),
    "ARWEAVE_NO_FUNDS": Advice(
        "the wallet cannot pay for the upload",
        "send AR to the wallet of gateway.arweave-key; the message has its balance",
    ),
    "NO_KEY": Advice(
        "no key of the secrets file belongs to the signer",
        "add the key of {signer} to gateway.evm-keys in the file of aos run --secrets, which is "
        "read again when it changes",
    ),
    "ARWEAVE_NO_KEY": Advice(
        "the secrets file has no usable key for Arweave",
        "set gateway.arweave-key in the file of aos run --secrets, which is read again when it "
        "changes",
    ),
    "NODE_UNAVAILABLE": Advice(
        "the node gives no usable answer, so nothing is known",
        "check the node of chain {chain} in AOS_EVM_RPC: address, network, rate limits",
    ),
    "ARWEAVE_UNAVAILABLE": Advice(
        "the gateway gives no usable answer, so nothing is known",
        "check the gateway {arweave} in AOS_ARWEAVE: address, network, rate limits",
    ),
    "UNAVAILABLE": Advice(
        "an executor answered in a form that the effect does not have, so nothing is known",
        "use executors of this release of AOS",
    ),
    "STUDIO_UNKNOWN": Advice(
        "the contract at the studio's address does not answer as a studio does",
        "compare the studio's address and chain {chain} with the deployed contract",
    ),
    "WRONG_CHAIN": Advice(
        "the node belongs to another chain; nothing was sent to it",
        "give chain {chain} its own node in AOS_EVM_RPC, then run the world again",
    ),
    "BLOCK_UNKNOWN": Advice(
        "the node does not have the block that must be read",
        "let the node of chain {chain} catch up, or use one that keeps the state of old blocks",
    ),
    "LANE_FULL": Advice(
        "256 requests wait at the lane; it continues by itself when there is room",
        "look at the lane: aos gateway show {lane}",
    ),
    "FOREIGN": Advice(
        "another program consumed the nonce with the signer's key",
        "let no other program use the key of {signer}; the record asks the chain and continues",
    ),
    "UNDERPRICED": Advice(
        "the chain asks for more than --max-fee",
        "wait until the chain is cheaper: the policy of a record does not change",
    ),
    "REFUSED": Advice(
        "the node refuses the transaction, for the reason in the message",
        "remove that reason at the node of chain {chain}, or use another node",
    ),
    "CHAIN_REORGANISED": Advice(
        "the chain took back a block; the transaction is published again",
        "if this repeats, use a larger --conf for new records",
    ),
    "STORE_FAILED": Advice(
        "the world could not store the evidence", "check the disk of the world's folder"
    ),
    "TIMED_OUT": Advice(
        "an effect gave no answer in its time, so nothing is known",
        "check the node of chain {chain} and the gateway {arweave}",
    ),
}
"""Every error code of records and lanes: what it means, and what to do about it.

The only table of its kind: ``aos gateway show`` prints from it, and the operator's page of
``manifests/gateway/README.md`` has the same codes. ``{signer}``, ``{chain}``, ``{lane}``,
``{arweave}`` and ``{key}`` are filled in.
"""

HELD: Final[Mapping[str, str]] = {
    "chain_not_configured": "set AOS_EVM_RPC='{chain}=URL'",
    "gateway_not_configured": "set AOS_ARWEAVE='{arweave}=URL'",
    "secret_unavailable": "set gateway.evm-keys and gateway.arweave-key in the file of aos run "
    "--secrets (mode 0600)",
}
"""The remedy for an effect that is held with this code."""


class _Blank(dict[str, str]):
    """The values of a remedy. A name without a value stays as it is."""

    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"


def remedy(code: str | None, values: Mapping[str, object]) -> str | None:
    """What to do about an error; None if nothing is left to do, or the code is not known."""
    advice = None if code is None else CODES.get(code)
    if advice is None or advice.remedy is None:
        return None
    return filled(advice.remedy, values)


def filled(text: str, values: Mapping[str, object]) -> str:
    """A remedy with the values that are known."""
    value_texts = {name: str(value) for name, value in values.items() if value is not None}
    return text.format_map(_Blank({"arweave": "main", **value_texts}))
