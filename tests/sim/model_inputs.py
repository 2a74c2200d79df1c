"""Inputs that an operator, a sender or the host itself makes: events, manifests, commands, starts.

Written from spec/kernel.md, K-11 to K-15, K-40, K-70 and K-100 to K-106.
"""

from __future__ import annotations

from collections import Counter

from aos.values.errors import ValueProblem
from tests.sim.model import (
    FROM_OUTSIDE,
    INLINE,
    KERNEL_EFFECTS,
    TERMINAL,
    Cell,
    Given,
    Mail,
    Model,
    Owed,
    Record,
    Refused,
    Root,
    cells_of,
    is_signed,
    without_nothing,
)
from tests.sim.naive import (
    STREAM,
    CellId,
    Manifest,
    Misfit,
    cbor,
    content,
    digest,
    manifest_of,
    plain,
)


def start(model: Model, given: Given, stamp: Record) -> Record:
    return {"kind": "start", "seq": model.tick(stamp), "stamp": stamp, "host": given["host"]}


# Events (K-11 to K-13, K-40)


def event(model: Model, given: Given, stamp: Record) -> Record | int:
    manifest, schema = model.manifest, given["schema"]
    if manifest is None:
        raise Refused("world_has_no_manifest")
    if schema not in manifest.types or schema.startswith("sys/"):
        raise Refused("event_schema_is_unknown")
    try:
        data = manifest.ingress(schema, given["value"], manifest.limits["event_bytes"])
    except Misfit as misfit:
        raise Refused("event_is_invalid") from misfit
    submission = given["submission_id"]
    if submission is not None:
        seq = _submitted(model, submission, stamp, schema, data)
        if seq is not None:
            return seq
    if len(model.open) >= manifest.limits["open_intents"]:
        raise Refused("world_is_busy")
    try:
        targets = manifest.targets(schema, plain(data))
    except Misfit as misfit:
        raise Refused("event_key_is_invalid") from misfit
    seq = model.tick(stamp)
    if submission is not None:
        _remember(model, submission, seq, digest("aos/submission/1", schema, content(data)))
    to, over = model.place(targets, Counter())
    mail = Mail((seq, 0), Root(seq, stamp["ns"], stamp["entropy"]), 0, ("event", schema, data))
    model.spread(mail, to, over, seq)
    return without_nothing(
        kind="event", seq=seq, stamp=stamp, schema=schema, value=model.slot(data),
        submission_id=submission, to=cells_of(to), overloaded=cells_of(over),
    )  # fmt: skip


def _submitted(model: Model, name: str, stamp: Record, schema: str, data: bytes) -> int | None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= 256:
        raise Refused("submission_id_is_invalid")
    seq, what, at = model.submissions.get(name, (0, b"", 0))
    if not seq or max(model.clock, stamp["ns"]) - at > model.now.limits["dedup_ns"]:
        return None
    if what != digest("aos/submission/1", schema, content(data)):
        raise Refused("submission_id_is_taken")
    return seq


def _remember(model: Model, name: str, seq: int, what: bytes) -> None:
    limits = model.now.limits
    model.submissions.pop(name, None)
    model.submissions[name] = (seq, what, model.clock)
    model.marks.submitted.append((name, seq))
    kept = [
        (name, each) for name, each in model.submissions.items()
        if model.clock - each[2] <= limits["dedup_ns"]
    ]  # fmt: skip
    model.submissions = dict(kept[-limits["dedup_rows"] :])


# Manifests (K-14, K-70, K-106)


def manifest(model: Model, given: Given, stamp: Record) -> Record:
    document, serial = given["document"], given["serial"]
    key = model.operators.get(given["principal"])
    if key is None:
        raise Refused("manifest_principal_is_unknown")
    if serial != model.serial:
        raise Refused("manifest_serial_is_wrong")
    message = cbor(["aos/apply/1", model.world, serial, content(document)])
    if not is_signed(message, given["signature"], key):
        raise Refused("manifest_signature_is_wrong")
    if model.manifest is not None and model.manifest.hash == content(document):
        raise Refused("manifest_is_in_force")
    try:
        manifest = manifest_of(document)
    except (ValueProblem, LookupError, TypeError) as problem:
        raise Refused("manifest_is_invalid") from problem
    for name, executor in (manifest.executors or {}).items():
        keys = [executor["public_key"], *executor.get("retired_keys", ())]
        named = {bytes.fromhex(each.removeprefix("ed25519:")) for each in keys}
        is_node = f"ed25519:{model.world_key.hex()}" == executor["public_key"]
        if (name == "node") != is_node or named & model.revoked:
            raise Refused("manifest_is_invalid")
    standing = blockers(model)
    if standing:
        raise Refused("world_is_not_quiescent", standing)
    seq = model.tick(stamp)
    model.manifest, model.manifest_seq = manifest, seq
    model.serial += 1
    model.revoked |= manifest.revoked()
    model.pinned |= {manifest.hash, *manifest.modules.values()}
    model.blobs[manifest.hash] = document
    return {
        "kind": "manifest", "seq": seq, "stamp": stamp,
        "document": {"hash": manifest.hash, "size": len(document)},
        "principal": given["principal"], "serial": serial, "signature": given["signature"],
    }  # fmt: skip


def blockers(model: Model) -> list[tuple[str, CellId]]:
    found = []
    for id, cell in model.cells.items():
        node = model.now.workflows.get(id[0], {}) if model.manifest else {}
        is_explicit = node.get("lifecycle") == "explicit"
        is_idle = not cell.mail and not cell.inflight and not is_explicit
        if cell.status not in TERMINAL and not is_idle:
            found.append(("instance_is_not_terminal", id))
    found += [("intent_is_open", intent.cell) for intent in model.open.values()]
    return found + [("mail_is_queued", id) for id in model.ring]


# Commands of operators (K-100 to K-104)


def control(model: Model, given: Given, stamp: Record) -> Record:
    action, cell, intent, value = (given[each] for each in ("action", "cell", "intent", "value"))
    key = model.operators.get(given["principal"])
    if key is None:
        raise Refused("control_principal_is_unknown")
    if given["serial"] != model.controls:
        raise Refused("control_serial_is_wrong")
    named = None if cell is None else list(cell)
    message = cbor(["aos/control/1", model.world, given["serial"], action, named, intent, value])
    if not is_signed(message, given["signature"], key):
        raise Refused("control_signature_is_wrong")
    if model.manifest is None:
        raise Refused("world_has_no_manifest")
    about = {"retry": "cell", "skip": "cell", "cancel": "intent", "erase": "value"}.get(action)
    if {name for name in ("cell", "intent", "value") if given[name] is not None} != {about}:
        raise Refused("control_is_invalid")
    if len(intent or value or bytes(32)) != 32:
        raise Refused("control_is_invalid")
    if about == "cell":
        _check_retry(model, cell, is_skip=action == "skip")
    elif about == "intent":
        found = model.open.get(intent)
        if found is None or found.effect in KERNEL_EFFECTS:
            raise Refused("intent_is_not_open")
    elif is_in_use(model, value):
        raise Refused("value_is_in_use")
    seq = model.tick(stamp)
    model.controls += 1
    if about == "cell":
        _go_on(model, model.cells[cell], is_skip=action == "skip")
    elif about == "intent":
        root = Root(seq, stamp["ns"], stamp["entropy"])
        model.owed.append(Owed(intent, "cancel", root, 0))
    else:
        model.marks.erased.append(value)
    return without_nothing(
        kind="control", seq=seq, stamp=stamp, action=action, cell=named, intent=intent,
        value=value, principal=given["principal"], serial=given["serial"],
        signature=given["signature"],
    )  # fmt: skip


def _check_retry(model: Model, id: CellId, *, is_skip: bool) -> None:
    cell, manifest = model.cells.get(id), model.now
    if cell is None or not cell.fault:
        raise Refused("cell_has_not_failed")
    if is_skip and cell.fault in FROM_OUTSIDE:
        raise Refused("cell_has_nothing_to_skip")
    if id[0] not in manifest.workflows:
        raise Refused("cell_does_not_fit")
    assert cell.fault_seq is not None
    if cell.fault_seq > model.manifest_seq:
        return
    try:
        _check_key(manifest, id)
        if cell.state is not None:
            manifest.stored(manifest.workflows[id[0]]["state"], cell.state)
        for mail in cell.mail[is_skip:]:
            _check_mail(manifest, id[0], mail)
    except Misfit as misfit:
        raise Refused("cell_does_not_fit") from misfit


def _check_key(manifest: Manifest, id: CellId) -> None:
    workflow, key = id
    schema = manifest.workflows[workflow].get("key_schema")
    if (schema is None) != (key == b""):
        raise Misfit("keyed otherwise")
    if schema is not None:
        manifest.stored(schema, key)


def _check_mail(manifest: Manifest, workflow: str, mail: Mail) -> None:
    if mail.what[0] == "event":
        _, schema, value = mail.what
        if schema not in manifest.types or not manifest.takes(workflow, schema):
            raise Misfit("no arm")
        manifest.stored(schema, value)
        return
    arm: str | None = STREAM
    if mail.what[0] == "receipt":
        _, intent, record, _ = mail.what
        arm = "sys/EffectReceiptRejected@1"
        if record["outcome"] != "rejected":
            arm = manifest.settled_arm(workflow, intent.effect, record["status"])
    if arm is None or not manifest.takes(workflow, arm):
        raise Misfit("no arm")


def _go_on(model: Model, cell: Cell, *, is_skip: bool) -> None:
    if is_skip:
        del cell.mail[0]
    cell.fault, cell.fault_seq, cell.uncounted = None, None, 0
    cell.last_active_ns = model.clock
    for mail in cell.mail:
        mail.root.steps = 0
    if cell.mail:
        model.ready(cell)
    else:
        model.drop_if_gone(cell)


def is_in_use(model: Model, value: bytes) -> bool:
    """K-104: only what lies outside its records can be erased, and what is needed is not."""
    held = [cell.state for cell in model.cells.values()]
    for cell in model.cells.values():
        for mail in cell.mail:
            held.append(mail.what[-1])
            if mail.what[0] == "receipt":
                held.append(mail.what[1].params)
    held += [each.params for each in (*model.open.values(), *model.abandoned.values())]
    long = {content(each) for each in held if each is not None and len(each) > INLINE}
    return value in long or value in model.pinned
