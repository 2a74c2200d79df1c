"""Inputs that an operator, a sender or the host itself makes: events, manifests, commands, starts.

Written from spec/kernel.md, K-11 to K-15, K-40, K-70 and K-100 to K-109b.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from aos.values.errors import ValueProblem
from tests.sim import model_governance, model_pins
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
    CONTINUATIONS,
    ERROR,
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

Blocker = tuple[str, CellId]
IN_FLIGHT: Final = ("instance_is_not_terminal", "intent_is_open", "mail_is_queued")


def start(model: Model, given: Given, stamp: Record) -> Record:
    return {"kind": "start", "seq": model.tick(stamp), "stamp": stamp, "host": given["host"]}


def snapshot(model: Model, given: Given, stamp: Record) -> Record | int:
    """SN-2, SN-3."""
    at, document = given["at"], given["document"]
    seq, last, known = model.snapshot or (0, 0, b"")
    if (last, known) == (at, document):
        return seq
    if not last < at < model.seq:
        raise Refused("snapshot_is_old")
    seq = model.tick(stamp)
    model.snapshot = (seq, at, document)
    model.parts = _parts(model, document)
    return {
        "kind": "snapshot", "seq": seq, "stamp": stamp, "at": at, "frame": given["frame"],
        "document": {"hash": document, "size": given["size"]},
    }  # fmt: skip


def _parts(model: Model, document: bytes) -> set[bytes]:
    """SN-9a: the document, chunks, pages, and the nodes of all indexes and maps (SN-15)."""
    read = plain(model.blobs[document])
    found = {document, *(chunk for _, chunk, _ in read["submissions"])}
    found |= {page for pages in read["work"].values() for page in pages}
    maps = [*read.get("waiting", {}).values(), *read.get("open", {}).values()]
    maps += [read["timers"]] if "timers" in read else []
    nodes = [root for root, *_ in (*read["cells"].values(), *maps) if root is not None]
    while nodes:
        node = nodes.pop()
        found.add(node)
        kind, _, hashes, _ = plain(model.blobs[node])
        if kind == "aos/index-node/1":
            nodes += [hashes[at : at + 32] for at in range(0, len(hashes), 32)]
    return found


# Events (K-11 to K-13, K-40)


def event(model: Model, given: Given, stamp: Record) -> Record | int:
    manifest, schema = model.manifest, given["schema"]
    if manifest is None:
        raise Refused("world_has_no_manifest")
    if schema not in manifest.types or schema in CONTINUATIONS:
        raise Refused("event_schema_is_unknown")
    if manifest.ingress_list is not None and schema not in manifest.ingress_list:
        raise Refused("event_is_internal")
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
    if any(manifest.is_far(*id) for id, _ in targets):
        raise Refused("key_of_another_shard")
    if not all(model_pins.takes_event(model, id, schema, data) for id, _ in targets):
        raise Refused("event_does_not_fit_instance")
    to, over, unknown = model.place(targets, Counter())
    if unknown:
        raise Refused("instance_is_unknown")
    seq = model.tick(stamp)
    if submission is not None:
        _remember(model, submission, seq, digest("aos/submission/1", schema, content(data)))
    kept = model_pins.kept_of(model, [id for id, _ in targets])
    mail = Mail((seq, 0), Root(seq, stamp["ns"], stamp["entropy"]), 0, ("event", schema, data))
    model.spread(mail, to, over, seq, kept=kept)
    return without_nothing(
        kind="event", seq=seq, stamp=stamp, schema=schema, value=model.slot(data),
        submission_id=submission, to=cells_of(to), overloaded=cells_of(over),
        kept=cells_of(kept),
    )  # fmt: skip


def _submitted(model: Model, name: str, stamp: Record, schema: str, data: bytes) -> int | None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= 256:
        raise Refused("submission_id_is_invalid")
    seq, what, at = model.submissions.get(name, (0, b"", 0))
    if not seq or model.window_after(stamp, model.now) - at > model.now.limits["dedup_ns"]:
        return None
    if what != digest("aos/submission/1", schema, content(data)):
        raise Refused("submission_id_is_taken")
    return seq


def _remember(model: Model, name: str, seq: int, what: bytes) -> None:
    limits = model.now.limits
    model.submissions.pop(name, None)
    model.submissions[name] = (seq, what, model.window)
    model.marks.submitted.append((name, seq))
    kept = [
        (name, each) for name, each in model.submissions.items()
        if model.window - each[2] <= limits["dedup_ns"]
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
    mode, leaves = given.get("mode") or "strict", list(given.get("leaves") or ())
    signed: list[Any] = ["aos/apply/1", model.world, serial, content(document)]
    if given.get("proposal") is not None:
        signed = ["aos/apply/3", *signed[1:], mode, leaves, given["proposal"]]
    elif mode != "strict" or leaves:
        signed = ["aos/apply/2", *signed[1:], mode, leaves]
    if not is_signed(cbor(signed), given["signature"], key):
        raise Refused("manifest_signature_is_wrong")
    if mode not in ("strict", "pin", "migrate"):
        raise Refused("manifest_mode_is_unknown")
    model_governance.check_manifest(model, given, document)
    if model.manifest is not None and model.manifest.hash == content(document):
        raise Refused("manifest_is_in_force")
    try:
        manifest = manifest_of(document)
    except (ValueProblem, LookupError, TypeError) as problem:
        raise Refused("manifest_is_invalid") from problem
    if model_governance.keys_are_wrong(model, manifest) or model_governance.leaves_are_wrong(
        manifest, leaves
    ):
        raise Refused("manifest_is_invalid")
    if model_governance.is_misplaced(model, manifest):
        raise Refused("manifest_is_invalid")
    if model.manifest is not None:
        standing = [] if mode == "pin" else blockers(model, manifest)
        standing += _gone(model, manifest, leaves) + model_pins.unserved(model, manifest, mode)
        if standing and standing[0][0] in IN_FLIGHT:
            raise Refused("world_is_not_quiescent", standing)
        misfits = standing or _stored(model, manifest, mode)
        if misfits:
            raise Refused("manifest_does_not_fit", sorted(misfits))
    seq = model.tick(stamp, manifest)
    model_pins.comes_in(model, manifest, seq, mode=mode)
    model_governance.comes_in(model, given.get("proposal"))
    model.serial += 1
    model.revoked |= manifest.revoked()
    model.pinned |= {manifest.hash, *manifest.modules.values()}
    model.blobs[manifest.hash] = document
    return without_nothing(
        kind="manifest", seq=seq, stamp=stamp,
        document={"hash": manifest.hash, "size": len(document)},
        principal=given["principal"], serial=serial, signature=given["signature"],
        leaves=leaves, mode=None if mode == "strict" else mode, proposal=given.get("proposal"),
    )  # fmt: skip


def _gone(model: Model, manifest: Manifest, leaves: list[str]) -> list[Blocker]:
    """Workflows that go and have cells (K-71b)."""
    gone = {id[0] for id in model.cells if id[0] in model.now.workflows} - {*manifest.workflows}
    return [("workflow_has_cells", (name, b"")) for name in sorted(gone - {*leaves})]


def _stored(model: Model, manifest: Manifest, mode: str) -> list[Blocker]:
    """Blockers: stored states and mail that do not fit the new manifest (K-71, K-75)."""
    found: list[Blocker] = []
    for id, cell in model.cells.items():
        if cell.fault or id[0] not in manifest.workflows:
            continue
        moves = model_pins.moves(manifest, id[0])
        if mode == "pin" and not moves and model_pins.may_stay(model, cell):
            continue
        checks: list[Callable[[], object]] = [partial(model_pins.check_key, manifest, id)]
        if cell.state is not None:
            schema = manifest.workflows[id[0]]["state"]
            checks.append(partial(manifest.completed, schema, cell.state))
        if moves:
            checks += [partial(_check_mail, manifest, id[0], mail) for mail in cell.mail]
            waits = [model.open[each] for each in cell.inflight]
            checks += [partial(_check_arm, manifest, id[0], each.effect) for each in waits]
        for check in checks:
            try:
                check()
            except Misfit:
                found.append(("cell_does_not_fit", id))
    return found


def _check_arm(manifest: Manifest, workflow: str, effect: str) -> None:
    if manifest.settled_arm(workflow, effect, "ok") is None:
        raise Misfit("no arm")


def blockers(model: Model, manifest: Manifest) -> list[Blocker]:
    def stays(id: CellId) -> bool:
        return not model_pins.moves(manifest, id[0])

    found: list[Blocker] = [
        ("instance_is_not_terminal", id)
        for id, cell in sorted(model.cells.items())
        if stays(id) and not model_pins.is_terminal(model, cell)
    ]
    open_ones = [intent.cell for intent in model.open.values() if stays(intent.cell)]
    found += [("intent_is_open", cell) for cell in open_ones]
    return found + [("mail_is_queued", id) for id in model.ring if stays(id)]


# Commands of operators (K-100 to K-109b)


def control(model: Model, given: Given, stamp: Record) -> Record:
    action, cell, intent, value = (given[each] for each in ("action", "cell", "intent", "value"))
    key = model.operators.get(given["principal"])
    if key is None:
        raise Refused("control_principal_is_unknown")
    if given["serial"] != model.controls:
        raise Refused("control_serial_is_wrong")
    if not is_signed(control_message(model.world, given), given["signature"], key):
        raise Refused("control_signature_is_wrong")
    if model.manifest is None:
        raise Refused("world_has_no_manifest")
    _check_form(given)
    match action:
        case "retry" | "skip":
            _check_retry(model, cell, is_skip=action == "skip")
        case "unpin":
            _check_unpin(model, cell)
        case "cancel" | "settle":
            _check_open(model, given)
        case "erase" if is_in_use(model, value):
            raise Refused("value_is_in_use")
        case "end" | "remove":
            _check_end(model, given)
        case "clock" if model.clock - stamp["ns"] <= 60 * 10**9:
            raise Refused("clock_is_not_ahead")
    seq = model.tick(stamp)
    model.controls += 1
    root = Root(seq, stamp["ns"], stamp["entropy"])
    more: Record = {}
    match action:
        case "retry" | "skip":
            resumed = model.cells[cell]
            _go_on(model, resumed, is_skip=action == "skip")
            for mail in resumed.mail if given["restamp"] else ():
                mail.root.ns, mail.root.entropy = stamp["ns"], stamp["entropy"]
        case "unpin":
            model_pins.here(model, model.cells[cell])
            model.cells[cell].failed_pinned = False
        case "cancel":
            model.owed.append(Owed(intent, "cancel", root, 0))
        case "settle":
            settled = (given["status"], given["payload"])
            model.owed.append(Owed(intent, "settle", root, 0, settled=settled))
            more["payload"] = model.slot(given["payload"])
        case "erase":
            model.marks.erased.append(value)
        case "clock":
            model.set_clock(stamp)
        case _:
            more |= _end(model, model.cells[cell], given["status"])
    return without_nothing(
        kind="control", seq=seq, stamp=stamp, action=action,
        cell=None if cell is None else list(cell), intent=intent, value=value,
        principal=given["principal"], serial=given["serial"], signature=given["signature"],
        status=given["status"], why=given["why"], restamp=given["restamp"], **more,
    )  # fmt: skip


FORMS: Final = {
    "retry": ["cell"], "skip": ["cell"], "unpin": ["cell"], "cancel": ["intent"],
    "erase": ["value"], "settle": ["intent", "payload", "status"], "end": ["cell", "status"],
    "remove": ["cell"], "clock": [],
}  # fmt: skip


def control_message(world: bytes, given: Given) -> bytes:
    """J-42, J-42a: what an operator signs."""
    named = None if given["cell"] is None else list(given["cell"])
    signed = [world, given["serial"], given["action"]]
    match given["action"]:
        case "settle":
            payload = None if given["payload"] is None else content(given["payload"])
            fields = {"intent": given["intent"], "status": given["status"], "payload": payload}
        case "end":
            fields = {"cell": named, "status": given["status"], "why": given["why"]}
        case "remove":
            fields = {"cell": named, "why": given["why"]}
        case "retry" | "skip" if given["restamp"]:
            fields = {"cell": named, "restamp": True}
        case _:
            return cbor(["aos/control/1", *signed, named, given["intent"], given["value"]])
    return cbor(["aos/control/2", *signed, fields])


def _check_form(given: Given) -> None:
    action = given["action"]
    found = ("cell", "intent", "payload", "status", "value")
    is_form = [name for name in found if given[name] is not None] == FORMS.get(action)
    hashes = [given[name] for name in ("intent", "value") if given[name] is not None]
    statuses = {"settle": ("ok", "error"), "end": TERMINAL}.get(action, (None,))
    why = given["why"]
    if why is not None:
        is_form = is_form and action in ("end", "remove") and 1 <= len(why.encode()) <= 1024
    if given["restamp"] is not None:
        is_form = is_form and action in ("retry", "skip")
    if not is_form or given["status"] not in statuses or any(len(each) != 32 for each in hashes):
        raise Refused("control_is_invalid")


def _check_open(model: Model, given: Given) -> None:
    """K-103, K-108."""
    found = model.open.get(given["intent"])
    if found is None or found.effect in KERNEL_EFFECTS:
        raise Refused("intent_is_not_open")
    if given["action"] == "cancel":
        return
    if any(owed.intent == found.hash for owed in model.owed):
        raise Refused("intent_is_not_open")
    schema = found.node["receipt"] if given["status"] == "ok" else ERROR
    try:
        found.under.ingress(schema, given["payload"], model.now.limits["event_bytes"])
    except Misfit as misfit:
        raise Refused("settlement_does_not_fit") from misfit


def _check_end(model: Model, given: Given) -> None:
    """K-109."""
    cell = model.cells.get(given["cell"])
    if cell is None:
        raise Refused("cell_is_unknown")
    is_idle = not (cell.mail or cell.inflight or cell.fault)
    if given["action"] == "end" and is_idle and cell.declared == given["status"]:
        raise Refused("cell_has_ended")


def _end(model: Model, cell: Cell, status: str | None) -> Record:
    """Take the work of an instance, and delete it if there is no status; return record fields."""
    under, manifest = model_pins.runs(model, cell)
    found: Record = {"dropped": len(cell.mail) or None, "abandoned": list(cell.inflight)}
    if cell.id in model.ring:
        model.ring.remove(cell.id)
    model.abandon(cell, list(cell.inflight))
    cell.mail = []
    cell.fault, cell.fault_seq, cell.uncounted = None, None, 0
    cell.failed_pinned = False
    cell.last_active_ns = model.clock
    cell.declared = status
    cell.home, cell.kept = (under, manifest), under != model.manifest_seq
    if status is None:
        cell.state = None
    model.drop_if_gone(cell)
    return found


def _check_retry(model: Model, id: CellId, *, is_skip: bool) -> None:
    cell, manifest = model.cells.get(id), model.now
    if cell is None or not cell.fault:
        raise Refused("cell_has_not_failed")
    if is_skip and cell.fault in FROM_OUTSIDE:
        raise Refused("cell_has_nothing_to_skip")
    if model_pins.is_pinned(model, cell):
        return
    if id[0] not in manifest.workflows:
        raise Refused("cell_does_not_fit")
    assert cell.fault_seq is not None
    if cell.fault_seq > model.manifest_seq:
        return
    _check_fit(manifest, id, cell, is_skip=is_skip)


def _check_unpin(model: Model, id: CellId) -> None:
    """K-107."""
    cell, manifest = model.cells.get(id), model.now
    if cell is None or not model_pins.is_pinned(model, cell):
        raise Refused("cell_is_not_pinned")
    if id[0] not in manifest.workflows:
        raise Refused("cell_does_not_fit")
    _check_fit(manifest, id, cell, is_skip=False)
    try:
        for intent in cell.inflight:
            _check_arm(manifest, id[0], model.open[intent].effect)
    except Misfit as misfit:
        raise Refused("cell_does_not_fit") from misfit


def _check_fit(manifest: Manifest, id: CellId, cell: Cell, *, is_skip: bool) -> None:
    try:
        model_pins.check_key(manifest, id)
        if cell.state is not None:
            manifest.completed(manifest.workflows[id[0]]["state"], cell.state)
        for mail in cell.mail[is_skip:]:
            _check_mail(manifest, id[0], mail)
    except Misfit as misfit:
        raise Refused("cell_does_not_fit") from misfit


def _check_mail(manifest: Manifest, workflow: str, mail: Mail) -> None:
    if mail.what[0] == "event":
        _, schema, value = mail.what
        if schema not in manifest.types or not manifest.takes(workflow, schema):
            raise Misfit("no arm")
        manifest.received(schema, value)
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
    under, manifest = model_pins.runs(model, cell)
    if is_skip:
        del cell.mail[0]
    cell.home = (under, manifest)
    cell.fault, cell.fault_seq, cell.uncounted = None, None, 0
    cell.failed_pinned = False
    cell.last_active_ns = model.clock
    for mail in cell.mail:
        mail.root.steps = 0
    if cell.mail:
        model.ready(cell)
    model_pins.left_by_step(model, cell, under, fits=False)
    if not cell.mail:
        model.drop_if_gone(cell)


def is_in_use(model: Model, value: bytes) -> bool:
    """K-104: only unused values outside records can be erased. The state of a cell at rest is
    outside its record, however short it is."""
    states = {content(cell.state) for cell in model.cells.values() if cell.state is not None}
    keys = {content(cbor([list(each) for each in cell.keys])) for cell in model.cells.values()}
    held = []
    for cell in model.cells.values():
        for mail in cell.mail:
            held.append(mail.what[-1])
            if mail.what[0] == "receipt":
                held.append(mail.what[1].params)
    held += [each.params for each in (*model.open.values(), *model.abandoned.values())]
    held += [owed.settled[1] for owed in model.owed if owed.settled is not None]
    long = {content(each) for each in held if each is not None and len(each) > INLINE}
    needed = model_governance.needed(model)
    return value in states | keys | long | model.pinned | model.parts | needed
