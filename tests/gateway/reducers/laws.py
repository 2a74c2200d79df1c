"""Laws of every transition of a record and of a lane, for any input.

A ``Cell`` with one of them as its ``law`` checks each transition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aos.testing import Transition
from aos.values.cbor import decode_record
from tests.gateway.reducers.cell import Cell

ENDED: Final = ("COMPLETED", "FAILED")
FIXED: Final = ("id", "key", "type", "input", "policy", "created_at")
AFTER_THE_END: Final = ("drift", "updated_at", "is_reconciling", "open")
"""The only fields of a record that may change after its end."""

State = dict[str, Any]


def record_law(cell: Cell, before: State | None, stepped: Transition) -> None:
    assert stepped.fault is None
    after = cell.state
    if after is None:
        assert before is None, "a record is never deleted"
        assert (stepped.events, stepped.effects) == ((), ())
        return
    assert after["updated_at"] == cell.now_ns
    if before is not None:
        _record_grows(before, after)
    _record_is_consistent(cell, after)
    _record_waits(cell, after)
    _requests_ascend(before, after, stepped)


def _record_grows(before: State, after: State) -> None:
    for name in FIXED:
        assert after[name] == before[name], f"{name} changed"
    for name, value in before["progress"].items():
        assert value is None or after["progress"][name] == value, f"progress.{name} changed"
    count = len(before["attempts"])
    assert after["attempts"][:count] == before["attempts"]
    assert after["updated_at"] >= before["updated_at"]
    assert after["stall_cycles"] <= before["policy"]["stall_cycles"] + 1
    if before["state"]["$tag"] in ENDED:
        changed = {name for name in after if after[name] != before[name]}
        assert changed <= set(AFTER_THE_END)


def _record_is_consistent(cell: Cell, state: State) -> None:
    name, error, progress = state["state"]["$tag"], state["error"], state["progress"]
    assert name != "PENDING"
    assert (name == "STALLED") == (state["stall"] is not None)
    if name == "COMPLETED":
        assert error is None
        assert _reached(state), progress
    if name == "FAILED":
        assert error is not None
        assert not error["recoverable"]
    if name in ("RUNNING", "STALLED") and error is not None:
        assert error["recoverable"]
    if progress["evidence"] is not None or name in ENDED:
        assert state["evidence"] is None
    if name in ENDED:
        assert state["settled"] is None
        assert state["suspect"] is None
        assert state["at_lane"] is None
    landed = [each["hash"] for each in state["attempts"]]
    for field in ("onchain_tx_hash", "commit_tx_hash", "register_tx_hash"):
        assert progress[field] is None or progress[field] in landed


def _reached(state: State) -> bool:
    """Whether all progress that a completed record needs is there."""
    needed = {
        "WorkSubmission": ("arweave_tx_id", "arweave_confirmed", "onchain", "register"),
        "ScoreSubmission": ("onchain", "register"),
        "CloseEpoch": ("onchain",),
    }[state["type"]["$tag"]]
    progress = state["progress"]
    return all(progress.get(each, progress.get(f"{each}_confirmed")) for each in needed)


def _record_waits(cell: Cell, state: State) -> None:
    """One effect is open at a time, none while it is parked, and a record that runs waits for
    something."""
    opened = [] if state["open"] is None else [state["open"]]
    assert list(cell.open) == opened
    name, stall = state["state"]["$tag"], state["stall"]
    is_parked = stall is not None and stall["$tag"] == "Parked"
    if is_parked or name in ENDED:
        assert state["pause"] is None
        assert (state["open"] is not None) == state["is_reconciling"]
    elif stall is not None:
        assert state["pause"] == {"$tag": "Stall"}
        assert state["open"] is not None
    else:
        assert state["open"] is not None or state["at_lane"] is not None, "it waits for nothing"
    if state["pause"] is not None:
        assert cell.effect == "sys/timer.set@1"


def _requests_ascend(before: State | None, after: State, stepped: Transition) -> None:
    number = 0 if before is None else before["requests"]
    asked = [value for schema, value in stepped.events if schema == "gw/TxRequested@1"]
    assert after["requests"] == number + len(asked)
    assert len(asked) <= 1
    for each in asked:
        assert each["request"] == after["requests"] == after["at_lane"]
        assert before is None or before["at_lane"] in (None, number)
    if after["at_lane"] is not None:
        assert after["at_lane"] == after["requests"]


# Lanes


def lane_law(cell: Cell, before: State | None, stepped: Transition) -> None:
    assert stepped.fault is None
    after = cell.state
    if after is None:
        assert before is None, "a lane is never deleted"
        assert not stepped.effects
        return
    assert after["updated_at"] == cell.now_ns
    _lane_waits(cell, after)
    _one_nonce(before, after, stepped)
    _first_in_first_out(before, after, stepped)
    assert len(after["landed"]) <= 8
    if before is not None and before["next_nonce"] is not None:
        assert after["next_nonce"] >= before["next_nonce"]


def _lane_waits(cell: Cell, state: State) -> None:
    opened = [] if state["open"] is None else [state["open"]]
    assert list(cell.open) == opened
    doing, stall = state["doing"]["$tag"], state["stall"]
    assert (doing == "Nothing") == (state["open"] is None)
    if stall is not None and stall["$tag"] == "Parked":
        assert doing in ("Nothing", "Reconciling")
    elif stall is not None:
        assert doing == "Stalling"
    elif state["current"] is not None or state["queued"]:
        assert doing != "Nothing", "it waits for nothing"
    if doing == "Pausing":
        assert cell.effect == "sys/timer.set@1"


def _one_nonce(before: State | None, after: State, stepped: Transition) -> None:
    """All attempts of a request have one nonce, and a submit has the nonce of the last attempt, or
    an older one that a reorganisation has freed."""
    current = after["current"]
    is_same = (
        before is not None
        and before["current"] is not None
        and current is not None
        and named(before["current"]["request"]) == named(current["request"])
    )
    if is_same:
        assert before is not None
        old = before["current"]["attempts"]
        assert [_sent(each) for each in current["attempts"][: len(old)]] == [*map(_sent, old)]
        if old:
            assert current["nonce"] == before["current"]["nonce"]
    if current is not None and current["attempts"]:
        assert {each["nonce"] for each in current["attempts"]} == {current["nonce"]}
        cap = current["request"]["policy"]["max_fee"]
        assert all(each["max_tip"] <= each["max_fee"] <= cap for each in current["attempts"])
    for effect in stepped.effects:
        if effect.effect == "evm/tx.submit@1":
            _submits_what_it_may(after, effect.params)
        if effect.effect == "evm/tx.receipt@1" and current is not None:
            known = [each["hash"] for each in current["attempts"] if each["hash"]]
            assert effect.params["hashes"] == known
            assert effect.params["nonce"] == current["nonce"]


def _submits_what_it_may(state: State, params: State) -> None:
    current, nonce = state["current"], params["nonce"]
    if state["doing"]["$tag"] == "Mending":
        limits = [state["next_nonce"], current and current["attempts"] and current["nonce"]]
        assert nonce < max(each for each in limits if each)
        return
    last = current["attempts"][-1]
    assert nonce == current["nonce"] == last["nonce"]
    assert (params["max_fee"], params["max_tip"]) == (last["max_fee"], last["max_tip"])
    if last["is_cancel"]:
        assert (params["to"], params["data"], params["value"]) == (params["signer"], b"", "0")
        assert params["gas"] == 21_000
    else:
        request = current["request"]
        for name in ("to", "data", "value"):
            assert params[name] == request[name]
        assert params["gas"] == current["gas"]


def _sent(attempt: State) -> tuple[object, ...]:
    return tuple(attempt[name] for name in ("nonce", "max_fee", "max_tip", "is_cancel"))


def _first_in_first_out(before: State | None, after: State, stepped: Transition) -> None:
    """Requests are taken in order; only a settlement ends one."""
    old, new = names(before), names(after)
    told = {(owner_of(value), value["request"]) for _, value in settlements(stepped)}
    kept = [each for each in old if each not in told]
    assert new[: len(kept)] == kept, "the order changed, or a request was lost"
    assert len(new) - len(kept) <= 1
    assert not told & set(new), "a settled request is still there"
    assert after["queued"] == len(list(waiting(after))) <= 256


def names(state: State | None) -> list[tuple[str, int]]:
    """The request in flight and those that wait, in order, as (owner, number)."""
    if state is None:
        return []
    current = state["current"]
    return [*([] if current is None else [named(current["request"])]), *map(named, waiting(state))]


def named(request: State) -> tuple[str, int]:
    owner = request["owner"]
    return f"{owner['$tag']} {owner['$value']}", request["request"]


def waiting(state: State) -> Iterator[State]:
    """The requests in the queue, decoded. Each is two items of CBOR: its name and the request."""
    data = state["queue"]
    at = 0
    while at < len(data):
        at += _size(data, at)
        size, head = _head(data, at)
        value: Any = decode_record(data[at + head : at + head + size])
        yield value
        at += head + size


def _size(data: bytes, at: int) -> int:
    size, head = _head(data, at)
    return size + head


def _head(data: bytes, at: int) -> tuple[int, int]:
    """The length of a text or byte string, and the size of its head."""
    length = data[at] & 0x1F
    if length < 24:
        return length, 1
    width = 1 << (length - 24)
    return int.from_bytes(data[at + 1 : at + 1 + width]), 1 + width


def settlements(stepped: Transition) -> list[tuple[str, State]]:
    return [(schema, value) for schema, value in stepped.events if schema.endswith("TxSettled@1")]


def owner_of(value: State) -> str:
    for name, field in (("Work", "work"), ("Score", "score"), ("Epoch", "epoch_key")):
        if field in value:
            return f"{name} {value[field]}"
    raise AssertionError(value)
