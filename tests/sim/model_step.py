"""One run of the ring's head, in the model: what the module is called with, and what it may answer.

Written from spec/kernel.md, K-22, K-23, K-30 to K-35, K-40 to K-50, K-57 and K-60.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from blake3 import blake3

from aos.values.cbor import decode_ingress
from aos.values.errors import ValueProblem
from tests.sim import model_pins
from tests.sim.model import (
    KERNEL_EFFECTS,
    TERMINAL,
    Cell,
    Intent,
    Mail,
    Model,
    Owed,
    Record,
    cells_of,
    without_nothing,
)
from tests.sim.naive import (
    CONTINUATIONS,
    ENVELOPE,
    REJECTED,
    STREAM,
    Manifest,
    Misfit,
    cbor,
    content,
    digest,
    plain,
    text_of,
)

NAME_MAX: Final = 256
WORDS_MAX: Final = 4096


class Fault(Exception):
    """The output breaks a rule."""

    def __init__(self, kind: str, detail: bytes | None = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.detail = detail


@dataclass
class Taken:
    """An output that breaks no rule, in normal form."""

    state: bytes | None
    status: str | None
    ann: bytes | None
    events: list[tuple[str, bytes, list[Any], list[Any], list[Any], list[Any]]] = field(
        default_factory=list
    )
    intents: list[Intent] = field(default_factory=list)


def step(model: Model) -> Record:
    """Run the head's first entry and give the record."""
    cell = model.cells[model.ring.pop(0)]
    mail, manifest, seq = cell.mail[0], model.now, model.seq
    under, mine = model_pins.runs(model, cell)
    head: Record = {
        "seq": seq, "cell": list(cell.id), "entry": list(mail.entry), "root": mail.root.seq,
        "depth": mail.depth, "under": None if under == model.manifest_seq else under,
    }  # fmt: skip
    output, fuel, pages = None, 0, 0
    taken = Taken(None, None, None)
    fault: Fault | None = None
    if mail.root.steps >= manifest.limits["cascade_steps"]:
        fault = Fault("cascade_too_long")
    else:
        limits = mine.step_limits[cell.id[0]]
        given = envelope(model, cell, mail)
        module = mine.module_of(cell.id[0])
        output, kind, fuel = model.run(module, given, limits["output_bytes"])
        pages = 1
        try:
            if output is None:
                raise Fault(str(kind))
            taken = _take(model, cell, mail, read_output(output, limits["output_bytes"]))
        except Fault as problem:
            fault = problem
    model.seq += 1
    mail.root.steps += 1
    cell.last_seq, cell.last_active_ns = seq, model.clock
    burnt = {"fuel": fuel, "pages": pages}
    if fault is not None:
        model.fail(cell, fault.kind, seq)
        said = model.words.get("fault", {})
        words = without_nothing(
            kind=fault.kind, message=said.get("message", ""), detail=fault.detail
        )
        hashed = None if output is None else content(output)
        return without_nothing(**head, **burnt, kind="fault", fault=words, output=hashed)
    assert output is not None
    keys_max = mine.step_limits[cell.id[0]].get("keys", manifest.limits["instance_keys"])
    done = _apply(model, cell, mail, taken, under=under, keys_max=keys_max)
    return without_nothing(**head, **burnt, **done, output=content(output))


def _apply(
    model: Model, cell: Cell, mail: Mail, taken: Taken, *, under: int, keys_max: int
) -> Record:
    """Carry out the output; return the fields of its record."""
    manifest, limits, seq = model.now, model.now.limits, cell.last_seq
    fits = under != model.manifest_seq and model_pins.fits(model, cell, taken.state)
    if under == model.manifest_seq:
        model_pins.here(model, cell)
    cell.kept = False
    del cell.mail[0]
    cell.state = taken.state
    if taken.status is not None:
        cell.declared = taken.status if taken.status in TERMINAL else None
    for intent in taken.intents:
        model.open[intent.hash] = intent
        cell.inflight.append(intent.hash)
        model.marks.opened.append(intent.hash)
        if intent.key is not None:
            known = (intent.idempotency_key, content(intent.params))
            if manifest.effects[intent.effect].get("idempotency_scope") == "world":
                model.world_keys = _remember(model.world_keys, known, limits["dedup_rows"])
            else:
                cell.keys = _remember(cell.keys, known, keys_max)
        if intent.effect in KERNEL_EFFECTS:
            model.owed.append(Owed(intent.hash, "answer", mail.root, mail.depth))
    abandoned: list[bytes] = []
    if taken.state is None:
        cell.declared = None
    status = (
        "running"
        if taken.state is None
        else (cell.declared or ("waiting" if cell.inflight else "running"))
    )
    emitted = []
    for index, (schema, data, to, over, unknown, kept) in enumerate(taken.events):
        each = Mail((seq, index), mail.root, mail.depth + 1, ("event", schema, data))
        model.spread(each, to, over, seq, kept=kept, runs=cell.id)
        emitted.append(
            without_nothing(
                schema=schema,
                value=model.slot(data),
                to=cells_of(to),
                overloaded=cells_of(over),
                unknown=cells_of(unknown),
                kept=cells_of(kept),
            )
        )
    if taken.state is None:
        abandoned = list(cell.inflight)
        model.abandon(cell, abandoned)
        cell.keys = []
    if cell.mail:
        model.ready(cell)
    model_pins.left_by_step(model, cell, under, fits=fits)
    if not cell.mail:
        model.drop_if_gone(cell)
    return without_nothing(
        kind="step", status=status, fits=model.manifest_seq if fits else None, events=emitted,
        abandoned=abandoned,
        intents=[_asked(model, each) for each in taken.intents],
        state=None if taken.state is None else model.slot(taken.state),
        ann=None if taken.ann is None else model.slot(taken.ann),
    )  # fmt: skip


def _asked(model: Model, intent: Intent) -> Record:
    return without_nothing(
        intent=intent.hash, effect=intent.effect, effect_hash=intent.effect_hash,
        params=model.slot(intent.params), key=intent.key, issuer_ref=intent.issuer_ref,
    )  # fmt: skip


def _remember(
    known: list[tuple[str, bytes]], new: tuple[str, bytes], most: int
) -> list[tuple[str, bytes]]:
    return [*(each for each in known if each[0] != new[0]), new][-most:]


# The input of a module (K-30, K-57)


def envelope(model: Model, cell: Cell, mail: Mail) -> bytes:
    manifest, (workflow, key) = model_pins.own(model, cell), cell.id
    node = manifest.workflows[workflow]
    value = cbor(_delivered(manifest, workflow, mail))
    event: Record = {"schema": node["event"], "value": value}
    if key:
        event["key"] = key
    state = cell.state
    if state is not None:
        state = _whole(manifest, node["state"], state)
    given: Any = {"version": 1, "state": state, "event": event}
    if "context" in node:
        material = cbor([mail.root.entropy, workflow, key, model.seq])
        context = {
            "now_ns": mail.root.ns,
            "logical_now_ns": model.clock,
            "journal_height": model.seq,
            "entropy": blake3(material, derive_key_context="aos/entropy/1").digest(length=64),
            "event_hash": text_of(digest("aos/event/1", node["event"], value)),
            "manifest_hash": text_of(manifest.manifest_hash),
            "workflow": workflow,
            "workflow_hash": text_of(manifest.definition_hash("defworkflow", workflow)),
            "key": key or None,
            "cell_mode": "key_schema" in node,
        }
        given["ctx"] = cbor(context)
    return cbor(given)


def _whole(manifest: Manifest, schema: str, data: bytes) -> bytes:
    """K-71d, K-71c."""
    try:
        return manifest.completed(schema, data)
    except Misfit:
        return data


def _received(manifest: Manifest, schema: str, data: bytes) -> bytes:
    """K-73a, K-71c."""
    try:
        return manifest.received(schema, data)
    except Misfit:
        return data


def _delivered(manifest: Manifest, workflow: str, mail: Mail) -> Any:
    what, *rest = mail.what
    if what == "event":
        schema, data = rest
        return manifest.wrapped(workflow, schema, plain(_received(manifest, schema, data)))
    intent, record, payload = rest
    if what == "stream":
        ref = record.get("payload_ref")
        value = {
            **_identity(intent),
            "seq": record["frame_seq"], "kind": record["frame_kind"], "payload": payload,
            "payload_ref": None if ref is None else text_of(ref),
            "signature": record["signature"],
        }  # fmt: skip
        return manifest.wrapped(workflow, STREAM, value)
    if record["outcome"] == "rejected":
        code = "receipt_payload_invalid"
        if record["payload_schema"] is not None:
            code = "receipt_status_has_no_arm"
        value = {
            **_identity(intent), "status": record["status"], "error_code": code,
            "error_message": record["problem"], "payload_hash": text_of(content(payload)),
            "payload_size": len(payload),
        }  # fmt: skip
        return manifest.wrapped(workflow, REJECTED, value)
    arm = manifest.settled_arm(workflow, intent.effect, record["status"])
    assert arm is not None
    more = {"cost_cents": record["cost_cents"], "signature": record["signature"]}
    if arm == ENVELOPE:
        value = {
            **_identity(intent), **more, "receipt_payload": record["normal"],
            "status": record["status"], "payload_schema": record["payload_schema"],
        }  # fmt: skip
    else:
        value = {
            **more, "intent_hash": text_of(intent.hash), "workflow": workflow,
            "effect": intent.effect, "status": record["status"],
            "requested": plain(intent.params), "receipt": plain(record["normal"]),
        }  # fmt: skip
    return manifest.wrapped(workflow, arm, value)


def _identity(intent: Intent) -> Record:
    workflow, key = intent.cell
    return {
        "origin_module_id": workflow,
        "origin_workflow_hash": text_of(intent.workflow_hash),
        "origin_instance_key": key or None,
        "intent_id": text_of(intent.hash),
        "effect": intent.effect,
        "effect_hash": text_of(intent.effect_hash),
        "executor_module": None,
        "executor_module_hash": None,
        "executor_entrypoint": None,
        "params_hash": text_of(content(intent.params)),
        "issuer_ref": intent.issuer_ref,
        "emitted_at_seq": intent.seq,
    }


# The output of a module (K-31, K-35)


def read_output(data: bytes, most: int) -> Record:
    """The envelope's shape. Aliases are read, nulls are left out."""
    try:
        value: Any = decode_ingress(data, max_bytes=most)
    except ValueProblem as problem:
        raise Fault("output_malformed") from problem
    if isinstance(value, dict) and value.get("fault") is not None:
        _said(value)
    _shape(value, state=bytes, domain_events=list, effects=list, ann=bytes, status=str, fault=dict)
    if "state" not in value or value.get("status") not in (None, "running", *TERMINAL):
        raise Fault("output_malformed")
    events, effects = value.get("domain_events") or [], value.get("effects") or []
    for each in events:
        _shape(each, "schema", "value", schema=str, value=bytes, key=bytes)
    return {**value, "domain_events": events, "effects": [_request(each) for each in effects]}


def _said(value: Record) -> None:
    said = value["fault"]
    if len(value) > 1:
        raise Fault("output_malformed")
    _shape(said, "kind", "message", kind=str, message=str, detail=bytes)
    if len(f"{said['kind']}: {said['message']}".encode()) > WORDS_MAX:
        raise Fault("output_malformed")
    if len(said.get("detail") or b"") > WORDS_MAX:
        raise Fault("output_malformed")
    raise Fault("guest", said.get("detail"))


def _request(value: Any) -> Record:
    _shape(
        value,
        effect=str,
        kind=str,
        params=bytes,
        params_cbor=bytes,
        idempotency_key=object,
        issuer_ref=str,
    )
    for name, alias in (("effect", "kind"), ("params", "params_cbor")):
        if (name in value) == (alias in value):
            raise Fault("output_malformed")
    key, ref = value.get("idempotency_key"), value.get("issuer_ref")
    if key is not None and not isinstance(key, str | bytes):
        raise Fault("output_malformed")
    for each in (key, ref):
        if each is not None and len(each.encode() if isinstance(each, str) else each) > NAME_MAX:
            raise Fault("output_malformed")
    effect, params = (
        value.get("effect", value.get("kind")),
        value.get("params", value.get("params_cbor")),
    )
    if effect is None or params is None:
        raise Fault("output_malformed")
    return {"effect": effect, "params": params, "key": key, "issuer_ref": ref}


def _shape(value: Any, /, *needed: str, **fields: type) -> None:
    if not isinstance(value, dict) or set(value) - set(fields):
        raise Fault("output_malformed")
    for name, kind in fields.items():
        found = value.get(name)
        if (found is None and name in needed) or (
            found is not None and not isinstance(found, kind)
        ):
            raise Fault("output_malformed")


def _take(model: Model, cell: Cell, mail: Mail, out: Record) -> Taken:
    """Check an output in the order of K-35."""
    manifest, workflow = model_pins.own(model, cell), cell.id[0]
    node, limits = manifest.workflows[workflow], manifest.step_limits[workflow]
    taken = Taken(out.get("state"), out.get("status"), None)
    try:
        if taken.state is not None:
            if len(taken.state) > limits["state_bytes"]:
                raise Misfit("long")
            manifest.stored(node["state"], taken.state)
    except Misfit as misfit:
        raise Fault("state_invalid") from misfit
    if out.get("ann") is not None:
        if "annotations" not in node:
            raise Fault("annotation_invalid")
        try:
            taken.ann = manifest.ingress(node["annotations"], out["ann"], limits["output_bytes"])
        except Misfit as misfit:
            raise Fault("annotation_invalid") from misfit
    if len(out["domain_events"]) > limits["events"]:
        raise Fault("too_many_events")
    if len(out["effects"]) > limits["effects"]:
        raise Fault("too_many_effects")
    room: Counter[Any] = Counter({cell.id: -1})
    for event in out["domain_events"]:
        taken.events.append(_event(model, mail, event, room))
    if out["effects"]:
        _check_room(model, cell, taken, len(out["effects"]))
    asked: dict[str, bytes] = {}
    for index, request in enumerate(out["effects"]):
        taken.intents.append(_intent(model, cell, request, index, asked))
    return taken


def _event(
    model: Model, mail: Mail, event: Record, room: Counter[Any]
) -> tuple[str, bytes, list[Any], list[Any], list[Any], list[Any]]:
    manifest, schema = model.now, event["schema"]
    if schema not in manifest.types or schema in CONTINUATIONS:
        raise Fault("event_invalid")
    try:
        data = manifest.ingress(schema, event["value"], manifest.limits["event_bytes"])
    except Misfit as misfit:
        raise Fault("event_invalid") from misfit
    try:
        targets = manifest.targets(schema, plain(data))
    except Misfit as misfit:
        raise Fault("key_invalid") from misfit
    claim = event.get("key")
    if claim is not None and any(key not in (b"", claim) for (_, key), _ in targets):
        raise Fault("key_invalid")
    if any(manifest.is_far(*id) for id, _ in targets):
        raise Fault("key_invalid")
    if not all(model_pins.takes_event(model, id, schema, data) for id, _ in targets):
        raise Fault("event_invalid")
    if targets and mail.depth + 1 > manifest.limits["cascade_depth"]:
        raise Fault("cascade_too_deep")
    kept = model_pins.kept_of(model, [id for id, _ in targets])
    return schema, data, *model.place(targets, room), kept


def _check_room(model: Model, cell: Cell, taken: Taken, count: int) -> None:
    if taken.state is None:
        raise Fault("deleted_with_effects")
    limits = model.now.limits
    if len(cell.inflight) + count > limits["instance_intents"]:
        raise Fault("open_work_exceeded")
    if len(model.open) + count > limits["open_intents"]:
        raise Fault("open_work_exceeded")


def _intent(
    model: Model, cell: Cell, request: Record, index: int, asked: dict[str, bytes]
) -> Intent:
    manifest, (workflow, instance) = model.now, cell.id
    mine, name = model_pins.own(model, cell), request["effect"]
    if name not in mine.workflows[workflow]["effects_emitted"] or name not in manifest.effects:
        raise Fault("effect_undeclared")
    node = manifest.effects[name]
    try:
        params = manifest.ingress(node["params"], request["params"], manifest.limits["event_bytes"])
    except Misfit as misfit:
        raise Fault("params_invalid") from misfit
    key, hashed = request["key"], content(params)
    is_worlds = node.get("idempotency_scope") == "world"
    same = None
    if key is not None:
        who = (None, None) if is_worlds else (workflow, instance)
        same = text_of(digest("aos/idempotency/1", model.world, *who, name, key))
        known = dict(model.world_keys if is_worlds else cell.keys)
        if asked.setdefault(same, known.get(same, hashed)) != hashed:
            raise Fault("idempotency_conflict")
    of_workflow = mine.definition_hash("defworkflow", workflow)
    of_effect = manifest.definition_hash("defeffect", name)
    identity = digest(
        "aos/intent/1", model.world, workflow, of_workflow, instance, model.seq, index, name,
        of_effect, hashed, key,
    )  # fmt: skip
    return Intent(
        hash=identity, cell=cell.id, workflow_hash=of_workflow, seq=model.seq, index=index,
        effect=name, effect_hash=of_effect, under=manifest, params=params, key=key,
        idempotency_key=same or text_of(identity), issuer_ref=request["issuer_ref"],
    )  # fmt: skip
