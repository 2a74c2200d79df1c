"""The laws of lanes, in every state that the journal has.

The first law is that of the nonce: once an attempt has a nonce, the lane leaves it only with
evidence at depth of which transaction consumed it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, Final

import cbor2

from tests.gateway.checker.findings import Finding
from tests.gateway.checker.history import (
    CANCEL,
    LANE,
    Answer,
    History,
    Intent,
    Settlement,
    Step,
    settlements,
    tag,
)
from tests.gateway.checker.journal import Map
from tests.gateway.checker.studio import deed_of

QUEUE_MAX: Final = 256
EMPTY_GAS: Final = 21_000
FINAL: Final = ("Confirmed", "Reverted", "Canceled", "Foreign")
QUOTE, SUBMIT, RECEIPT = "evm/tx.quote@1", "evm/tx.submit@1", "evm/tx.receipt@1"


def check_lanes(history: History) -> Iterator[Finding]:
    """Every law, for every step of every lane."""
    for step in history.of(LANE):
        if step.state is not None:
            for law in _LAWS:
                yield from law(step, step.state)
    yield from _one_open(history)
    yield from _one_settlement(history)


def _finding(law: str, step: Step, request: Map | None, message: str) -> Finding:
    """``request`` is a ``gw/TxRequested@1``: it says whose work a lane is doing."""
    key, name = place_of(step.key, request)
    return Finding(law=law, key=key, step=name, seq=step.seq, message=message)


def place_of(lane: str, request: Map | None) -> tuple[str, str]:
    """The record and its step that a request is for; the lane itself if there is none."""
    if request is None:
        return lane, "LANE"
    chain, signer = lane.split("/")
    deed = deed_of(int(chain), signer, request["to"], request["data"])
    return request["owner"]["$value"], deed.step


def _request(state: Map | None) -> Map | None:
    if state is None or state["current"] is None:
        return None
    found: Map = state["current"]["request"]
    return found


def _is_same(one: Map | None, other: Map | None) -> bool:
    names = ("owner", "request")
    return None not in (one, other) and all(one[each] == other[each] for each in names)  # type: ignore[index]


# --- constants


def _constant(step: Step, state: Map) -> Iterator[Finding]:
    if f"{state['chain']}/{state['signer_address']}" != step.key:
        yield _finding("identity_wrong", step, None, "chain and signer are not those of its key")
    before = (step.before or {}).get("next_nonce")
    if before is not None and (state["next_nonce"] or 0) < before:
        message = f"the next nonce was {before} and is {state['next_nonce']}"
        yield _finding("nonce_runs_back", step, _request(state), message)


def _current(step: Step, state: Map) -> Iterator[Finding]:
    """One request keeps its nonce, and its attempts only grow; each attempt has that nonce."""
    request, now = _request(state), state["current"]
    if now is None:
        return
    nonces = {each["nonce"] for each in now["attempts"]}
    if nonces - {now["nonce"]}:
        message = f"its nonce is {now['nonce']}, its attempts have {sorted(nonces)}"
        yield _finding("nonce_left", step, request, message)
    if not _is_same(_request(step.before), request):
        return
    assert step.before is not None
    before = step.before["current"]
    if before["attempts"] and now["nonce"] != before["nonce"]:
        message = f"nonce {before['nonce']} was left for {now['nonce']} before it was consumed"
        yield _finding("nonce_left", step, request, message)
    kept = now["attempts"][: len(before["attempts"])]
    if list(map(_essence, before["attempts"])) != list(map(_essence, kept)):
        yield _finding("attempts_changed", step, request, "an earlier attempt has changed")
    for old, new in zip(before["attempts"], kept, strict=False):
        if old["hash"] and old["hash"] != new["hash"]:
            yield _finding("attempts_changed", step, request, f"the hash {old['hash']} is gone")
    if before["is_canceling"] and not now["is_canceling"]:
        yield _finding("attempts_changed", step, request, "it is no longer canceled")


def _essence(attempt: Map) -> list[Any]:
    return [attempt[each] for each in ("nonce", "max_fee", "max_tip", "is_cancel")]


# --- a nonce ends only by being consumed (GW-3, GW-43)


def _leaving(step: Step, state: Map) -> Iterator[Finding]:
    """A request with attempts is left only by a final fate of its nonce at the policy's depth, and
    is settled with this fate."""
    request = _request(step.before)
    if request is None or _is_same(request, _request(state)):
        return
    assert step.before is not None
    before = step.before["current"]
    told = [each for each in settlements(step) if _is_of(each, request)]
    if len(told) != 1:
        yield _finding("not_settled", step, request, f"it was left with {len(told)} settlements")
    if before["attempts"]:
        has_empty = any(each["is_cancel"] for each in before["attempts"])
        problem = _fate_problem(step.answer, before) or _outcome_problem(
            step.answer, told, has_empty=has_empty
        )
        if problem:
            yield _finding("nonce_left", step, request, problem)


def _is_of(settled: Settlement, request: Map) -> bool:
    owner = request["owner"]
    return settled.owner == (tag(owner), owner["$value"]) and settled.request == request["request"]


def _fate_problem(answer: Answer | None, current: Map) -> str | None:
    nonce, conf = current["nonce"], current["request"]["policy"]["conf"]
    left = f"nonce {nonce} was left"
    if answer is None or answer.intent.effect != RECEIPT or answer.status != "ok":
        cause = "an event" if answer is None else f"{answer.intent.effect}, {answer.status}"
        return f"{left} by {cause}: only {RECEIPT} shows that it is consumed"
    params, fate = answer.intent.params, answer.payload["fate"]
    if tag(fate) not in FINAL:
        return f"{left} by the fate {tag(fate)}"
    if (params["nonce"], params["conf"]) != (nonce, conf):
        return f"{left} by the fate of {params['nonce']} at depth {params['conf']}, not {conf}"
    if answer.payload["nonce_at_depth"] <= nonce:
        return f"{left} although the nonce at depth is {answer.payload['nonce_at_depth']}"
    return None


def _outcome_problem(
    answer: Answer | None, told: list[Settlement], *, has_empty: bool
) -> str | None:
    assert answer is not None
    fate = answer.payload["fate"]
    # An empty transaction that the lane did not send is a stranger's (GW-46).
    expected = "Foreign" if tag(fate) == "Canceled" and not has_empty else tag(fate)
    for each in told:
        if tag(each.outcome) != expected:
            return f"its fate is {tag(fate)}, and it was settled as {tag(each.outcome)}"
        for name in ("hash", "block"):
            value = (each.outcome.get("$value") or {}).get(name)
            if value is not None and value != fate["$value"][name]:
                return f"its fate names the {name} {fate['$value'][name]}, its settlement {value}"
    return None


# --- every effect is the one that the state specifies (GW-1, GW-41 to GW-45)


def _effects(step: Step, state: Map) -> Iterator[Finding]:
    opened = [each for each in step.intents if each.effect != CANCEL]
    if len(opened) > 1:
        names = ", ".join(each.effect for each in opened)
        yield _finding("two_in_flight", step, _request(state), f"it requested {names} together")
    for each in opened:
        problem = _PROBLEMS.get(each.effect, _no_problem)(each.params, step, state)
        if problem:
            yield _finding("effect_wrong", step, _request(state), problem)


def _no_problem(params: Map, step: Step, state: Map) -> str | None:
    return None


def _quote_problem(params: Map, step: Step, state: Map) -> str | None:
    request = _request(state)
    if request is None or state["current"]["attempts"]:
        return "a quote for a request that has a nonce, or for none"
    expected = {
        "chain": state["chain"],
        "signer": state["signer_address"],
        "conf": request["policy"]["conf"],
        **{name: request[name] for name in ("to", "data", "value", "guard")},
    }
    return _differs(params, expected)


def _submit_problem(params: Map, step: Step, state: Map) -> str | None:
    expected = _mended(params, step) if tag(state["doing"]) == "Mending" else _specified(state)
    if expected is None:
        return f"a submit at nonce {params['nonce']} that no request specifies"
    expected |= {"chain": state["chain"], "signer": state["signer_address"]}
    return _differs(params, expected)


def _specified(state: Map) -> Map | None:
    """The transaction of the current request's last attempt."""
    current = state["current"]
    if current is None or not current["attempts"]:
        return None
    last, request = current["attempts"][-1], current["request"]
    fees = {name: last[name] for name in ("nonce", "max_fee", "max_tip")}
    if last["is_cancel"]:
        return fees | _empty(state)
    return fees | {name: request[name] for name in ("to", "data", "value")}


def _empty(state: Map) -> Map:
    return {"to": state["signer_address"], "data": b"", "value": "0", "gas": EMPTY_GAS}


def _mended(params: Map, step: Step) -> Map | None:
    """The transaction that a reorganisation took back; an empty one if the lane forgot it."""
    before = step.before
    if before is None or params["nonce"] >= (before["next_nonce"] or 0):
        return None
    names = ("nonce", "to", "data", "value", "gas", "max_fee", "max_tip")
    for each in before["landed"]:
        if each["nonce"] == params["nonce"]:
            return {name: each[name] for name in names}
    return {"nonce": params["nonce"], **_empty(before)}


def _receipt_problem(params: Map, step: Step, state: Map) -> str | None:
    if tag(state["doing"]) == "Reconciling":
        return None
    current = state["current"]
    if current is None or not current["attempts"]:
        return "the fate of a nonce that no attempt has"
    request = current["request"]
    missing = {each["hash"] for each in current["attempts"]} - {"", *params["hashes"]}
    if missing:
        return f"it asks for the fate of nonce {params['nonce']} without {', '.join(missing)}"
    names = ("to", "data", "value")
    return _differs(
        params,
        {
            "nonce": current["nonce"],
            "conf": request["policy"]["conf"],
            "since": current["since"],
            **{name: request[name] for name in names},
        },
    )


def _differs(params: Map, expected: Map) -> str | None:
    for name, value in expected.items():
        if params[name] != value:
            return f"{name}: expected {_shown(value)}, found {_shown(params[name])}"
    return None


def _shown(value: Any) -> str:
    return f"0x{value.hex()[:24]}" if isinstance(value, bytes) else str(value)


_PROBLEMS: Final[dict[str, Callable[[Map, Step, Map], str | None]]] = {
    QUOTE: _quote_problem,
    SUBMIT: _submit_problem,
    RECEIPT: _receipt_problem,
}


def _quoted_nonce(step: Step, state: Map) -> Iterator[Finding]:
    """The nonce of a first attempt is the one that the quote names, and none that was consumed."""
    before, now = step.before, state["current"]
    if now is None or not now["attempts"]:
        return
    if before is not None and before["current"] is not None and before["current"]["attempts"]:
        return
    answer, request = step.answer, _request(state)
    quote = None
    if answer is not None and answer.intent.effect == QUOTE and answer.status == "ok":
        quote = answer.payload["quote"]
    if quote is None or tag(quote) != "Ready" or quote["$value"]["nonce"] != now["nonce"]:
        yield _finding("nonce_unquoted", step, request, f"no quote names nonce {now['nonce']}")
    elif now["nonce"] < ((before or {}).get("next_nonce") or 0):
        message = f"nonce {now['nonce']} was consumed before"
        yield _finding("nonce_unquoted", step, request, message)


# --- the queue (GW-2)


def queue_of(state: Map | None) -> list[str]:
    """The names of the waiting requests, in their order."""
    data = b"" if state is None else state["queue"]
    reader, names = io.BytesIO(data), []
    while reader.tell() < len(data):
        names.append(str(cbor2.load(reader)))
        cbor2.load(reader)
    return names


def name_of(request: Map) -> str:
    """The name of a request in the queue."""
    owner = request["owner"]
    return f"{tag(owner).lower()} {owner['$value']} {request['request']}"


def _queue(step: Step, state: Map) -> Iterator[Finding]:
    """First in, first out: a request begins when it is the first, and others keep their order."""
    names = queue_of(state)
    if len(names) != state["queued"] or len(names) > QUEUE_MAX:
        message = f"{len(names)} requests wait, and {state['queued']} are counted"
        yield _finding("queue_wrong", step, _request(state), message)
    line = queue_of(step.before)
    if step.event is not None and step.event.schema == "gw/TxRequested@1":
        line.append(name_of(step.event.value))
    request = _request(state)
    if request is not None and not _is_same(_request(step.before), request):
        if line[:1] != [name_of(request)]:
            yield _finding("queue_wrong", step, request, f"it began before {line[:1]}")
        line = line[1:]
    if names != [each for each in line if each in names]:
        yield _finding("queue_wrong", step, request, "the order of the waiting has changed")


_LAWS: Final[tuple[Callable[[Step, Map], Iterator[Finding]], ...]] = (
    _constant, _current, _leaving, _effects, _quoted_nonce, _queue,
)  # fmt: skip


# --- over the whole journal (GW-2, GW-40)


def _one_open(history: History) -> Iterator[Finding]:
    """One effect of a lane is open at a time, so one transaction is in flight."""
    opened: dict[str, Intent] = {}
    for step in history.of(LANE):
        for each in step.intents:
            if each.effect == CANCEL:
                continue
            last = opened.get(step.key)
            if last is not None and history.ended.get(last.hash, step.seq + 1) > each.seq:
                # A cancel in the same step ends the other one right after it.
                is_canceled = any(it.effect == CANCEL for it in step.intents)
                if not is_canceled:
                    message = f"{each.effect} was requested while {last.effect} was open"
                    yield _finding("two_in_flight", step, _request(step.state), message)
            opened[step.key] = each


def _one_settlement(history: History) -> Iterator[Finding]:
    """A request ends with one settlement."""
    seen: dict[tuple[str, int], int] = {}
    for each in history.settlements:
        place = (each.owner[1], each.request)
        if place in seen:
            yield Finding(
                law="settled_twice",
                key=each.owner[1],
                step="LANE",
                seq=each.seq,
                message=f"request {each.request} was settled in record {seen[place]} already",
            )
        seen[place] = each.seq
