"""Which manifest an instance runs under, in the model: written down for every cell when a manifest
comes, where the core writes nothing.

Written from spec/kernel.md, K-61a and K-70 to K-75, K-101a and K-107.
"""

from __future__ import annotations

from typing import Any

from tests.sim.model import KERNEL_EFFECTS, TERMINAL, Cell, Model
from tests.sim.naive import CellId, Manifest, Misfit

Blocker = tuple[str, CellId]
PIN = "pin"


def home(model: Model, cell: Cell) -> tuple[int, Manifest]:
    """The manifest that it came in flight under, and the record of that."""
    if cell.home is None or cell.home[1].hash == model.now.hash:
        return model.manifest_seq, model.now
    return cell.home


def runs(model: Model, cell: Cell) -> tuple[int, Manifest]:
    """Return the manifest that the cell's next entry runs under, with its sequence number."""
    if in_flight(model, cell) or cell.kept or cell.failed_pinned:
        return home(model, cell)
    return model.manifest_seq, model.now


def own(model: Model, cell: Cell) -> Manifest:
    return runs(model, cell)[1]


def is_pinned(model: Model, cell: Cell) -> bool:
    return runs(model, cell)[0] != model.manifest_seq


def is_terminal(model: Model, cell: Cell) -> bool:
    if cell.status in TERMINAL:
        return True
    node = home(model, cell)[1].workflows.get(cell.id[0], {})
    return not cell.mail and not cell.inflight and node.get("lifecycle") != "explicit"


def in_flight(model: Model, cell: Cell) -> bool:
    waits = bool(cell.inflight) or not is_terminal(model, cell)
    return waits or (bool(cell.mail) and not cell.fault)


def here(model: Model, cell: Cell) -> None:
    """Move the cell to the manifest in force."""
    cell.home, cell.kept = (model.manifest_seq, model.now), False


def is_free(model: Model, cell: Cell) -> bool:
    return not (cell.fault or in_flight(model, cell) or cell.kept or cell.failed_pinned)


def may_stay(model: Model, cell: Cell) -> bool:
    """Whether a pin may leave it under its own manifest."""
    return not is_free(model, cell) or cell.id[0] in home(model, cell)[1].workflows


def reached(model: Model, cell: Cell, kept: list[CellId]) -> None:
    """Mail comes for it."""
    if not is_free(model, cell):
        return
    if cell.id in kept:
        cell.kept = True
    else:
        here(model, cell)


def kept_of(model: Model, targets: list[CellId]) -> list[CellId]:
    """K-74a: the finished receivers that stay with their own manifest."""
    known = [model.cells[id] for id in dict.fromkeys(targets) if id in model.cells]
    return [cell.id for cell in known if is_left_behind(model, cell)]


def is_left_behind(model: Model, cell: Cell) -> bool:
    own = home(model, cell)[1]
    return (
        is_free(model, cell)
        and own.hash != model.now.hash
        and cell.id[0] in own.workflows
        and not fits(model, cell, cell.state)
    )


def left_by_step(model: Model, cell: Cell, under: int, *, fits: bool) -> None:
    """A step that ran under another manifest than the one in force is over."""
    if under == model.manifest_seq or cell.fault or in_flight(model, cell):
        return
    if fits:
        here(model, cell)
    else:
        cell.kept = True


def fits(model: Model, cell: Cell, state: bytes | None) -> bool:
    """Whether key and state fit the manifest in force."""
    manifest, workflow = model.now, cell.id[0]
    if workflow not in manifest.workflows:
        return False
    try:
        check_key(manifest, cell.id)
        if state is not None:
            manifest.completed(manifest.workflows[workflow]["state"], state)
    except Misfit:
        return False
    return True


def check_key(manifest: Manifest, id: CellId) -> None:
    workflow, key = id
    schema = manifest.workflows[workflow].get("key_schema")
    if (schema is None) != (key == b""):
        raise Misfit("keyed otherwise")
    if schema is not None:
        manifest.stored(schema, key)


def takes_event(model: Model, id: CellId, schema: str, data: bytes) -> bool:
    """K-73, K-73a: False where a pinned receiver takes no such event."""
    cell = model.cells.get(id)
    if cell is None or not (is_pinned(model, cell) or is_left_behind(model, cell)):
        return True
    manifest = home(model, cell)[1]
    if schema not in manifest.types or not manifest.takes(id[0], schema):
        return False
    try:
        manifest.received(schema, data)
    except Misfit:
        return False
    return True


# A new manifest


def moves(manifest: Manifest, workflow: str) -> bool:
    return manifest.workflows.get(workflow, {}).get("upgrade") == "in_place"


def comes_in(model: Model, manifest: Manifest, seq: int, *, mode: str) -> None:
    """It is in force: say of each cell what it runs under from here on."""
    before = (model.manifest_seq, model.manifest)
    model.manifest, model.manifest_seq = manifest, seq
    pins = mode == PIN and before[1] is not None
    for cell in model.cells.values():
        if not pins or moves(manifest, cell.id[0]):
            cell.home, cell.kept = (seq, manifest), False
            cell.failed_pinned = cell.failed_pinned and pins
    model.eras = [*model.eras, (seq, manifest)] if pins else [(seq, manifest)]


def unserved(model: Model, manifest: Manifest, mode: str) -> list[Blocker]:
    """K-72b, K-75: effects that would have no executor, or another one."""
    found: list[Blocker] = [
        ("effect_is_needed", intent.cell)
        for intent in model.open.values()
        if (mode == PIN or moves(manifest, intent.cell[0]))
        and not same_effect(intent.under, manifest, intent.effect)
    ]
    if mode != PIN:
        return found
    asked = {
        (cell.id[0], *home(model, cell)) for cell in model.cells.values()
        if (cell.mail or cell.inflight or cell.fault) and in_flight(model, cell)
    }  # fmt: skip
    for name in {id[0] for id, cell in model.cells.items() if cell.declared is None}:
        eras = [each for each in model.eras if name in each[1].workflows]
        if any(old.workflows[name].get("lifecycle") == "explicit" for _, old in eras):
            asked |= {(name, seq, old) for seq, old in eras}
    for name, _, old in sorted(asked, key=lambda each: each[:2]):
        if moves(manifest, name) or name not in old.workflows:
            continue
        needed = sorted(old.workflows[name]["effects_emitted"])
        found += [
            ("effect_is_needed", (name, b""))
            for effect in needed
            if not same_effect(old, manifest, effect)
        ]
    return found


def same_effect(old: Manifest, new: Manifest, name: str) -> bool:
    if name in KERNEL_EFFECTS:
        return True
    one, two = old.effects[name], new.effects.get(name)
    return (
        two is not None
        and all(one[part] == two[part] for part in ("params", "receipt", "impl"))
        and whole(old, one["receipt"]) == whole(new, two["receipt"])
        and extends(whole(old, one["params"]), whole(new, two["params"]))
    )


def extends(old: Any, new: Any) -> bool:
    """Whether a type is another one with more options in its records (M-62)."""
    ((form, inside),) = old.items()
    if form not in new:
        return False
    if form in ("list", "set", "option"):
        return extends(inside, new[form])
    if form not in ("record", "variant", "map"):
        return True
    more = set(new[form]) - set(inside)
    return (
        set(inside) <= set(new[form])
        and all(form == "record" and "option" in new[form][name] for name in more)
        and all(extends(part, new[form][name]) for name, part in inside.items())
    )


def whole(manifest: Manifest, name: str) -> Any:
    """A type with everything that it refers to in its place."""

    def follow(type_: Any) -> Any:
        ((form, inside),) = type_.items()
        if form == "ref":
            return follow(manifest.types[inside])
        if form in ("record", "variant", "map"):
            return {form: {name: follow(each) for name, each in inside.items()}}
        if form in ("list", "set", "option"):
            return {form: follow(inside)}
        return {form: None}

    return follow(manifest.types[name])
