"""How intents end, in the model: receipts, stream frames, attempts, and what the core owes.

Written from spec/kernel.md, K-51 to K-57 and K-80 to K-98.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from blake3 import blake3

from tests.sim import model_pins
from tests.sim.model import (
    ATTEMPT_MAX,
    BATCH_MAX,
    CODE_BYTES_MAX,
    KERNEL_EFFECTS,
    SECOND,
    STATUSES,
    TIME_MAX,
    Cell,
    Given,
    Intent,
    Mail,
    Model,
    Owed,
    Record,
    Refused,
    Root,
    StreamState,
    is_nat,
    is_signed,
    without_nothing,
)
from tests.sim.naive import (
    ERROR,
    REJECTED,
    STREAM,
    TIMER,
    Misfit,
    cbor,
    content,
    digest,
    key_of,
    plain,
    text_of,
)

CANCELS = ("sys/timer.cancel@1", "sys/effect.cancel@1")


# Receipts (K-51 to K-56)


def receipt(model: Model, given: Given, stamp: Record) -> Record | int:
    hash = given["intent"]
    late = model.abandoned.get(hash)
    intent = late or model.open.get(hash)
    if intent is None:
        return _gone(model, given)
    limits = model.now.limits
    if given["effect"] != intent.effect:
        raise Refused("receipt_effect_differs")
    if given["status"] not in STATUSES:
        raise Refused("receipt_status_is_unknown")
    _check_attempt(model, intent, given["attempt"])
    if len(given["payload"]) > limits["event_bytes"]:
        raise Refused("receipt_is_too_large")
    began, ended, cost = given["started_ns"], given["finished_ns"], given["cost_cents"] or 0
    if not all(is_nat(each, TIME_MAX) for each in (began, ended, cost)) or began > ended:
        raise Refused("receipt_times_are_invalid")
    _check_authority(model, intent, given, receipt_message(model.world, given))
    if intent.effect == TIMER and given["status"] == "ok":
        params: Any = plain(intent.params)
        if max(model.clock, stamp["ns"]) < params["deliver_at_ns"]:
            raise Refused("timer_is_not_due")
    seq = model.tick(stamp)
    ending = Ending()
    record = {"outcome": "abandoned"}
    if late is not None:
        del model.abandoned[hash]
        model.attempts.pop(hash, None)
        model.marks.settled.append(hash)
    else:
        root = Root(seq, stamp["ns"], stamp["entropy"])
        word = Word(given["status"], given["payload"], given["cost_cents"], given["signature"])
        ending = settle(model, intent, word, seq, (root, 0))
        record = {"outcome": ending.outcome}
    model.settled[hash] = (
        seq,
        digest("aos/receipt-id/1", hash, given["key_id"], given["signature"]),
    )
    return without_nothing(
        **record, kind="receipt", seq=seq, stamp=stamp, cell=list(intent.cell),
        payload=model.slot(given["payload"]), payload_schema=ending.schema,
        problem=ending.problem, abandoned=ending.abandoned, batch=_batch(given),
        **{
            name: given[name]
            for name in (
                "intent", "effect", "attempt", "status", "started_ns", "finished_ns", "executor",
                "key_id", "signature", "cost_cents",
            )
        },
    )  # fmt: skip


def _gone(model: Model, given: Given) -> int:
    """H-30: the receipt that settled it is acknowledged again; another is refused."""
    seq, told = model.settled.get(given["intent"], (None, b""))
    if seq is None:
        raise Refused("receipt_intent_is_unknown")
    if told != digest("aos/receipt-id/1", given["intent"], given["key_id"], given["signature"]):
        raise Refused("receipt_intent_is_settled")
    return seq


def _batch(given: Given) -> Record | None:
    batch = given.get("batch")
    if batch is None:
        return None
    return without_nothing(index=batch["index"], size=batch["size"], path=list(batch["path"]))


def _check_attempt(model: Model, intent: Intent, attempt: Any) -> None:
    if not is_nat(attempt, ATTEMPT_MAX) or attempt < max(1, last_attempt(model, intent)):
        raise Refused("receipt_attempt_is_old")


def last_attempt(model: Model, intent: Intent) -> int:
    return model.attempts.get(intent.hash, 0 if intent.once else 1)


def _check_authority(model: Model, intent: Intent, given: Given, message: bytes | None) -> None:
    """K-51, K-106: the signer was authorised when the intent was opened, with a key that was
    never revoked."""
    executors, key = intent.under.executors, given["key_id"]
    if executors is None:
        could = given["executor"] == "node" and key == model.world_key
    else:
        named = executors.get(given["executor"])
        could = named is not None and intent.effect in named["effects"]
        could = could and named is not None and key_of(named["public_key"]) == key
    if intent.effect in KERNEL_EFFECTS or not could or key in model.revoked:
        raise Refused("receipt_executor_may_not_sign")
    if message is None or not is_signed(message, given["signature"], key):
        raise Refused("receipt_signature_is_wrong")


def receipt_message(world: bytes, given: Given) -> bytes | None:
    """J-37, J-40: what the signature is over; None where the path leads nowhere."""
    names = (
        "intent",
        "effect",
        "executor",
        "key_id",
        "attempt",
        "status",
        "started_ns",
        "finished_ns",
    )
    body = {name: given[name] for name in names}
    body |= {"world": world, "payload": content(given["payload"])}
    if given["cost_cents"] is not None:
        body["cost_cents"] = given["cost_cents"]
    message = cbor(["aos/receipt/1", body])
    batch = given.get("batch")
    if batch is None:
        return message
    if batch["size"] > BATCH_MAX:
        return None
    root = way_up(
        digest("aos/receipt-leaf/1", message), batch["index"], batch["size"], list(batch["path"])
    )
    if root is None:
        return None
    over = {
        "world": world,
        "executor": given["executor"],
        "key_id": given["key_id"],
        "root": root,
        "size": batch["size"],
    }
    return cbor(["aos/receipts/1", over])


def way_up(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes | None:
    """J-20, J-23: the root of the tree of ``size`` leaves that the path leads to."""
    if not 0 <= index < size:
        return None
    if size == 1:
        return None if path else leaf
    if not path:
        return None
    split = 1
    while split * 2 < size:
        split *= 2
    *below, beside = path
    if index < split:
        left = way_up(leaf, index, split, below)
        return None if left is None else digest("aos/node/1", left, beside)
    right = way_up(leaf, index - split, size - split, below)
    return None if right is None else digest("aos/node/1", beside, right)


@dataclass
class Ending:
    """How the receipt of an open intent is delivered."""

    outcome: str = "delivered"
    schema: str | None = None
    problem: str | None = None
    abandoned: list[bytes] = field(default_factory=list)


@dataclass
class Word:
    """The outcome of an intent, as its executor or the core reports it."""

    status: str
    payload: bytes
    cost_cents: int | None = None
    signature: bytes = b""


def settle(model: Model, intent: Intent, word: Word, seq: int, cause: tuple[Root, int]) -> Ending:
    """End an open intent and deliver what came of it (K-53 to K-57). ``cause``: root and depth."""
    cell, workflow = model.cells[intent.cell], intent.cell[0]
    manifest = model_pins.own(model, cell)
    ending = Ending()
    ending.schema, normal = read_payload(model, intent, word.status, word.payload)
    arm = manifest.settled_arm(workflow, intent.effect, word.status)
    if ending.schema is None or arm is None:
        ending.problem = model.words.get("problem", "")
        ending.outcome = "rejected" if manifest.takes(workflow, REJECTED) else "faulted"
    is_full = len(cell.mail) >= model.now.limits["mailbox"]
    if ending.outcome != "faulted" and not cell.fault and is_full:
        ending.outcome = "overloaded"
    del model.open[intent.hash]
    cell.inflight.remove(intent.hash)
    model.forget(intent.hash)
    model.attempts.pop(intent.hash, None)
    model.marks.settled.append(intent.hash)
    if ending.outcome == "faulted":
        ending.abandoned = list(cell.inflight)
        model.fail(cell, "receipt_invalid", seq)
        model.abandon(cell, ending.abandoned)
    elif ending.outcome == "overloaded":
        model.overload(cell, seq)
    else:
        kept = {
            "status": word.status, "outcome": ending.outcome, "payload_schema": ending.schema,
            "problem": ending.problem or "", "cost_cents": word.cost_cents,
            "signature": word.signature, "normal": normal,
        }  # fmt: skip
        mail = Mail((seq, 0), *cause, ("receipt", intent, kept, word.payload))
        model.deliver(cell, mail)
    return ending


def read_payload(
    model: Model, intent: Intent, status: str, payload: bytes
) -> tuple[str | None, bytes]:
    """K-54: the schema that a payload fits, and its normal form."""
    manifest, most = intent.under, model.now.limits["event_bytes"]
    if status != "ok":
        try:
            return ERROR, manifest.ingress(ERROR, payload, most)
        except Misfit:
            pass
    name = intent.node["receipt"]
    try:
        return name, intent.under.ingress(name, payload, most)
    except Misfit:
        return None, b""


# Stream frames (K-90 to K-94)


def stream(model: Model, given: Given, stamp: Record) -> Record:
    intent = model.open.get(given["intent"])
    if intent is None:
        raise Refused("receipt_intent_is_unknown")
    if given["effect"] != intent.effect:
        raise Refused("receipt_effect_differs")
    _check_attempt(model, intent, given["attempt"])
    limits, cell = model.now.limits, model.cells[intent.cell]
    number, payload = given["frame_seq"], given["payload"]
    if not is_nat(number, TIME_MAX) or not 1 <= len(given["frame_kind"].encode()) <= 128:
        raise Refused("stream_frame_is_invalid")
    if given["payload_ref"] is not None and len(given["payload_ref"]) != 32:
        raise Refused("stream_frame_is_invalid")
    if len(payload) > limits["stream_bytes"]:
        raise Refused("stream_frame_is_too_large")
    _check_authority(model, intent, given, stream_message(model.world, given))
    is_full = len(cell.mail) >= limits["mailbox"]
    if not model_pins.own(model, cell).takes(intent.cell[0], STREAM) or cell.fault or is_full:
        raise Refused("stream_has_no_taker")
    known = model.streams.get(intent.hash, StreamState())
    if number <= known.last:
        raise Refused("stream_frame_is_old")
    if known.frames >= limits["stream_frames"]:
        raise Refused("stream_is_too_long")
    is_new_second = max(model.clock, stamp["ns"]) - known.since_ns >= SECOND
    if not is_new_second and known.recent >= limits["stream_rate"]:
        raise Refused("stream_is_too_fast")
    seq = model.tick(stamp)
    model.streams[intent.hash] = StreamState(
        number, known.frames + 1,
        model.clock if is_new_second else known.since_ns,
        1 if is_new_second else known.recent + 1,
    )  # fmt: skip
    record = without_nothing(
        kind="stream", seq=seq, stamp=stamp, cell=list(intent.cell), payload=model.slot(payload),
        **{
            name: given[name]
            for name in (
                "intent", "effect", "attempt", "frame_seq", "frame_kind", "payload_ref",
                "executor", "key_id", "signature",
            )
        },
    )  # fmt: skip
    root = Root(seq, stamp["ns"], stamp["entropy"])
    model.deliver(cell, Mail((seq, 0), root, 0, ("stream", intent, record, payload)))
    return record


def stream_message(world: bytes, given: Given) -> bytes:
    names = ("intent", "effect", "executor", "key_id", "attempt", "frame_seq", "frame_kind")
    body = {name: given[name] for name in names}
    body |= {"world": world, "payload": content(given["payload"])}
    if given["payload_ref"] is not None:
        body["payload_ref"] = given["payload_ref"]
    return cbor(["aos/stream/1", body])


# Attempts (K-95 to K-99)


def attempt(model: Model, given: Given, stamp: Record) -> Record:
    intent = model.open.get(given["intent"])
    if intent is None:
        raise Refused("receipt_intent_is_unknown")
    last, number, phase = last_attempt(model, intent), given["attempt"], given["phase"]
    halted, code = halted_now(model, intent), given["code"]
    if phase not in ("begun", "lost", "held", "parked") or intent.effect in KERNEL_EFFECTS:
        raise Refused("attempt_is_invalid")
    if phase == "lost" and not (intent.once and last and halted is None):
        raise Refused("attempt_is_invalid")
    if phase in ("held", "parked"):
        if not last or code is None or not 0 < len(code.encode()) <= CODE_BYTES_MAX:
            raise Refused("attempt_is_invalid")
    elif code is not None:
        raise Refused("attempt_is_invalid")
    if phase != "begun":
        allowed = number == last
    elif intent.once and last:
        allowed = halted == "held" and number == last + 1
    else:
        allowed = is_nat(number, 1 if intent.once else ATTEMPT_MAX) and number > last
    if not (is_nat(number, ATTEMPT_MAX) and allowed):
        raise Refused("attempt_is_old")
    seq = model.tick(stamp)
    if phase == "begun":
        model.attempts[intent.hash] = number
    elif phase == "lost":
        root = Root(seq, stamp["ns"], stamp["entropy"])
        model.owed.append(Owed(intent.hash, "loss", root, 0))
    else:
        model.halts[intent.hash] = (phase, number, seq, model.clock, code, given["problem"])
    return without_nothing(
        kind="attempt", seq=seq, stamp=stamp, intent=intent.hash, cell=list(intent.cell),
        attempt=number, phase=phase, problem=given["problem"], code=code,
    )  # fmt: skip


def halted_now(model: Model, intent: Intent) -> str | None:
    """``held`` or ``parked``, unless a later attempt has begun."""
    phase, number, *_ = model.halts.get(intent.hash, (None, 0))
    return phase if number == last_attempt(model, intent) else None


# Answers that the core owes (K-80 to K-86, K-97, K-103, K-108)


def answer_owed(model: Model) -> Record:
    owed = model.owed[0]
    intent = model.open[owed.intent]
    by = None
    if owed.settled is not None:
        status, payload = owed.settled
    elif owed.why == "cancel":
        status, payload = "canceled", _error(model, "canceled")
    elif owed.why == "loss":
        status, payload = "error", _error(model, "unknown_outcome")
    elif intent.effect in CANCELS:
        target, status, payload = _cancel(model, owed, intent)
        if target is not intent:
            intent, by = target, owed.intent
    else:
        status, payload = _introspect(model, intent)
    if by is None:
        model.owed.pop(0)
    else:
        owed.canceled += 1
    seq = model.seq
    model.seq += 1
    if intent.effect not in KERNEL_EFFECTS:
        model.marks.canceled.append(intent.hash)
    ending = settle(model, intent, Word(status, payload), seq, (owed.root, owed.depth))
    model.settled[intent.hash] = (seq, digest("aos/receipt-id/1", intent.hash, b"", b""))
    return without_nothing(
        kind="kernel_receipt", seq=seq, intent=intent.hash, cell=list(intent.cell),
        effect=intent.effect, status=status, payload=model.slot(payload),
        payload_schema=ending.schema, root=owed.root.seq, depth=owed.depth, by=by,
        outcome=ending.outcome, problem=ending.problem, abandoned=ending.abandoned,
    )  # fmt: skip


def _error(model: Model, code: str) -> bytes:
    """``sys/EffectError@1``; its message is for people."""
    said: Any = {}
    if isinstance(model.words.get("payload"), bytes):
        said = plain(model.words["payload"])
    message = said.get("message", "") if isinstance(said, dict) else ""
    return cbor({"code": code, "message": message, "retryable": False})


def _cancel(model: Model, owed: Owed, asked: Intent) -> tuple[Intent, str, bytes]:
    params: Any = plain(asked.params)
    named, ref = params["intent"], params["issuer_ref"]
    is_timer = asked.effect == "sys/timer.cancel@1"
    if (named is None) == (ref is None):
        return asked, "error", _error(model, "params_invalid")
    if named is not None and not named.startswith("blake3:"):
        return asked, "error", _error(model, "params_invalid")
    found = None
    if named is not None:
        found = model.open.get(bytes.fromhex(named.removeprefix("blake3:")))
        if found is not None and found.cell != asked.cell:
            found = None
        if found is not None and found.effect in KERNEL_EFFECTS:
            return asked, "error", _error(model, "not_cancelable")
        if found is not None and is_timer and found.effect != TIMER:
            return asked, "error", _error(model, "not_a_timer")
    else:
        own = [model.open[each] for each in model.cells[asked.cell].inflight]
        meant = [
            each for each in own
            if each.issuer_ref == ref and each.effect not in KERNEL_EFFECTS
            and (not is_timer or each.effect == TIMER)
        ]  # fmt: skip
        found = meant[0] if meant else None
    if found is not None:
        return found, "canceled", _error(model, "canceled")
    if owed.canceled:
        return asked, "ok", cbor({"cancelled": True})
    return asked, "error", _error(model, "already_settled")


def _introspect(model: Model, asked: Intent) -> tuple[str, bytes]:
    params: Any = plain(asked.params)
    manifest = model.now
    meta: Any = {
        "journal_height": model.seq,
        "snapshot_hash": model.snapshot and text_of(model.snapshot[2]),
        "manifest_hash": text_of(manifest.manifest_hash),
    }
    if params.get("consistency") not in (None, "head"):
        return "error", _error(model, "consistency_unsupported")
    if "workflow" in params and params["workflow"] not in manifest.workflows:
        return "error", _error(model, "workflow_unknown")
    if asked.effect == "sys/introspect.journal_head@1":
        answer = {"meta": meta}
    elif asked.effect == "sys/introspect.manifest@1":
        answer = {"manifest": manifest.document, "meta": meta}
    elif asked.effect == "sys/introspect.workflow_state@1":
        id = params["workflow"], params["key"] or b""
        if manifest.is_key(*id) and manifest.is_far(*id):
            return "error", _error(model, "key_of_another_shard")
        cell = model.cells.get(id)
        answer = {"state": None if cell is None else _whole_state(model, cell), "meta": meta}
    else:
        answer = {**_listed(model, params), "meta": meta}
    payload = cbor(answer)
    if len(payload) > manifest.limits["event_bytes"]:
        return "error", _error(model, "too_large")
    return "ok", payload


def _whole_state(model: Model, cell: Cell) -> bytes | None:
    """K-85, K-71d."""
    manifest = model_pins.own(model, cell)
    if cell.state is None or cell.id[0] not in manifest.workflows:
        return cell.state
    try:
        return manifest.completed(manifest.workflows[cell.id[0]]["state"], cell.state)
    except Misfit:
        return cell.state


def _listed(model: Model, params: Record) -> Record:
    """K-86. A cell is reckoned with 160 bytes and its key, the rest of the answer with 1,024."""
    named = {
        blake3(key).digest(): (key, cell)
        for (workflow, key), cell in model.cells.items()
        if workflow == params["workflow"] and cell.state is not None
    }
    after = b"" if params["after"] is None else content(params["after"])
    order = [each for each in sorted(named) if each > after]
    most = 1000 if params["limit"] is None else min(max(params["limit"], 1), 1000)
    room, cells, last = model.now.limits["event_bytes"] - 1024, [], None
    for place in order[:most]:
        key, cell = named[place]
        room -= 160 + len(key)
        if room < 0:
            break
        assert cell.state is not None
        cells.append(
            {
                "key": key,
                "state_hash": text_of(content(cell.state)),
                "size": len(cell.state),
                "last_active_ns": cell.last_active_ns,
            }
        )
        last = key
    return {"cells": cells, "next": last if len(cells) < len(order) else None}
