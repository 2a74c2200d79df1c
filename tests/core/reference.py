"""A naive model of the core, written from spec/kernel.md alone: lists, no hashes, no bytes.

It knows what a record does to the world (routing, mailboxes, ring, statuses, intents, receipts,
deduplication, what blocks a manifest) and says of every command what must come out of it. Intents
are named (sequence, index); cells (workflow, key), with None for the key of an unkeyed workflow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Id = tuple[str, str | None]
Name = tuple[int, int]
Summary = tuple[Any, ...]
"""A record, or an answer, in a few plain words."""

KEY_MAX = 1021
"""Characters of the longest key: with its head it has 1,024 bytes."""


@dataclass
class Ask:
    """What a module asks for. ``params`` is None where they do not fit."""

    effect: str
    params: Any
    key: str | bytes | None
    issuer: str | None


@dataclass
class Emit:
    """What a module emits. ``claim`` is the key that it names itself."""

    schema: str
    value: dict[str, Any] | None
    claim: str | None


@dataclass
class Output:
    """What a module answers: ``fault`` alone, or the rest."""

    state: list[str] | None = None
    emits: list[Emit] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    status: str | None = None
    ann: str | None = None
    fault: str | None = None


@dataclass
class Limits:
    mailbox: int
    cascade_depth: int
    cascade_steps: int
    instance_intents: int
    open_intents: int
    dedup_ns: int
    dedup_rows: int
    instance_keys: int
    abandoned_intents: int
    effects: int
    events: int


@dataclass
class World:
    """What the manifest in force says. ``routes``: event -> [(workflow, key field or None)]."""

    version: int
    limits: Limits
    routes: dict[str, list[tuple[str, str | None]]]
    events: set[str]
    effects: dict[str, set[str]]
    arms: dict[str, set[str]]
    explicit: set[str]
    scopes: dict[str, str]


@dataclass
class Cause:
    seq: int
    ns: int
    steps: int = 0


@dataclass
class Mail:
    entry: Name
    cause: Cause
    depth: int
    what: tuple[str, Any]
    """(schema, value), or the arm of a continuation and what it tells."""


@dataclass
class Cell:
    id: Id
    state: list[str] | None = None
    declared: str | None = None
    fault: str | None = None
    fault_seq: int | None = None
    last_seq: int = 0
    counted: int = 0
    mail: list[Mail] = field(default_factory=list)
    inflight: list[Name] = field(default_factory=list)
    keys: list[tuple[Any, Any]] = field(default_factory=list)

    @property
    def status(self) -> str:
        if self.fault:
            return "failed"
        return self.declared or ("waiting" if self.inflight else "running")


@dataclass
class Intent:
    name: Name
    cell: Id
    ask: Ask
    sameness: Any
    """What two intents share that are one thing to the outside."""


Behaviour = Callable[[Id, "list[str] | None", "tuple[str, Any]", "tuple[int, int, int]"], Output]
"""(cell, state, event, (now, journal clock, height)) -> output: what the modules do."""


class Model:
    def __init__(self, world: World, behave: Behaviour, ns: int) -> None:
        self.world = world
        self.behave = behave
        self.clock = ns
        self.seq = 3  # the genesis and the first manifest were
        self.serial = 1
        self.cells: dict[Id, Cell] = {}
        self.ring: list[Id] = []
        self.open: dict[Name, Intent] = {}
        self.abandoned: dict[Name, Intent] = {}
        self.intents: dict[Name, Intent] = {}
        self.submissions: dict[str, tuple[int, Any, int]] = {}
        self.world_keys: list[tuple[Any, Any]] = []
        self.records: list[Summary] = []

    # Inputs

    def event(self, schema: str, value: Any, submission: str | None, ns: int) -> Summary:
        """K-11 to K-13. ``value`` None stands for bytes that do not fit."""
        limits = self.world.limits
        if schema not in self.world.events:
            return ("refused", "event_schema_is_unknown")
        if value is None:
            return ("refused", "event_is_invalid")
        if submission is not None:
            if not 1 <= len(submission.encode()) <= 256:
                return ("refused", "submission_id_is_invalid")
            seq, what, at = self.submissions.get(submission, (0, None, 0))
            if seq and at >= max(self.clock, ns) - limits.dedup_ns:
                same = what == (schema, value)
                return ("duplicate", seq) if same else ("refused", "submission_id_is_taken")
        if len(self.open) >= limits.open_intents:
            return ("refused", "world_is_busy")
        targets = self.targets(schema, value)
        if targets is None:
            return ("refused", "event_key_is_invalid")
        seq = self.admit(ns)
        if submission is not None:
            self.submissions.pop(submission, None)
            self.submissions[submission] = (seq, (schema, value), self.clock)
            ids = [
                id for id, (_, _, at) in self.submissions.items()
                if at >= self.clock - limits.dedup_ns
            ][-limits.dedup_rows :]  # fmt: skip
            self.submissions = {id: self.submissions[id] for id in ids}
        failed = self.failed()
        mail = Mail((seq, 0), Cause(seq, ns), 0, (schema, value))
        to, over = self.spread(targets, mail, failed, seq)
        self.records.append(("event", seq, schema, to, over))
        return ("admitted", seq, to)

    def receipt(self, name: Name, status: str, payload: str, lie: str | None, ns: int) -> Summary:
        """K-51 to K-57. ``payload``: what it fits: receipt, error, both or none of the schemas."""
        intent = self.abandoned.get(name) or self.open.get(name)
        if intent is None or lie == "intent":
            return ("refused", "receipt_intent_is_unknown")
        if lie is not None:
            return ("refused", LIES[lie])
        timer = intent.ask.effect == "timer"
        if timer and status == "ok" and max(self.clock, ns) < intent.ask.params:
            return ("refused", "timer_is_not_due")
        seq = self.admit(ns)
        outcome, schema = "abandoned", None
        gone: list[Name] = []
        if name in self.abandoned:
            del self.abandoned[name]
        else:
            outcome, schema, gone = self.settle(intent, status, payload, seq, ns)
        self.records.append(("receipt", seq, name, outcome, schema, gone))
        return ("admitted", seq, [])

    def settle(
        self, intent: Intent, status: str, payload: str, seq: int, ns: int
    ) -> tuple[str, str | None, list[Name]]:
        cell = self.cells[intent.cell]
        arms = self.world.arms[cell.id[0]]
        schema = None
        if status != "ok" and payload in ("error", "both"):
            schema = "error"
        elif payload in ("receipt", "both"):
            schema = "receipt"
        arm = "envelope" if "envelope" in arms else None
        if arm is None and status == "ok" and intent.ask.effect == "timer" and "fired" in arms:
            arm = "fired"
        del self.open[intent.name]
        cell.inflight.remove(intent.name)
        told: tuple[str, Any] = (arm or "", (intent.ask, status, schema))
        outcome = "delivered"
        if schema is None or arm is None:
            if "rejected" not in arms:
                self.fail(cell, "receipt_invalid", seq)
                gone = list(cell.inflight)
                self.abandon(cell)
                return "faulted", schema, gone
            told = ("rejected", (intent.ask, status, schema))
            outcome = "rejected"
        mail = Mail((seq, 0), Cause(seq, ns), 0, told)
        _, over = self.spread([cell.id], mail, self.failed(), seq)
        return ("overloaded" if over else outcome), schema, []

    def apply(self, world: World, serial: int, ns: int) -> Summary:
        """K-14 and K-70."""
        if serial != self.serial:
            return ("refused", "manifest_serial_is_wrong")
        if world.version == self.world.version:
            return ("refused", "manifest_is_in_force")
        blockers = self.blockers()
        if blockers:
            return ("refused", "world_is_not_quiescent", blockers)
        seq = self.admit(ns)
        self.serial += 1
        self.world = world
        self.records.append(("manifest", seq))
        return ("admitted", seq, [])

    def blockers(self) -> list[tuple[str, Id]]:
        found = []
        for cell in self.cells.values():
            is_idle = not cell.mail and not cell.inflight and cell.id[0] not in self.world.explicit
            if cell.status not in ("completed", "failed") and not is_idle:
                found.append(("instance_is_not_terminal", cell.id))
        found += [("intent_is_open", intent.cell) for intent in self.open.values()]
        return found + [("mail_is_queued", id) for id in self.ring]

    def admit(self, ns: int) -> int:
        self.clock = max(self.clock, ns)
        self.seq += 1
        return self.seq - 1

    # Steps

    def step(self) -> Summary | None:
        if not self.ring:
            return None
        cell = self.cells[self.ring.pop(0)]
        mail = cell.mail[0]
        seq, limits = self.seq, self.world.limits
        self.seq += 1
        cell.last_seq = seq
        head = (seq, cell.id, mail.entry, mail.cause.seq, mail.depth)
        if mail.cause.steps >= limits.cascade_steps:
            out = Output(fault="cascade_too_long")
        else:
            out = self.behave(cell.id, cell.state, mail.what, (mail.cause.ns, self.clock, seq))
        mail.cause.steps += 1
        problem = out.fault or self.problem(cell, mail, out)
        if problem:
            self.fail(cell, problem, seq)
            record: Summary = ("fault", *head, problem)
        else:
            record = ("step", *head, *self.take(cell, mail, out, seq))
        self.records.append(record)
        return record

    def problem(self, cell: Cell, mail: Mail, out: Output) -> str | None:
        """The first rule that the output breaks (K-35)."""
        limits = self.world.limits
        if len(out.emits) > limits.events:
            return "too_many_events"
        if len(out.asks) > limits.effects:
            return "too_many_effects"
        for emit in out.emits:
            if emit.schema not in self.world.events or emit.value is None:
                return "event_invalid"
            targets = self.targets(emit.schema, emit.value)
            if targets is None:
                return "key_invalid"
            if emit.claim is not None and any(key not in (None, emit.claim) for _, key in targets):
                return "key_invalid"
            if targets and mail.depth + 1 > limits.cascade_depth:
                return "cascade_too_deep"
        if not out.asks:
            return None
        if out.state is None:
            return "deleted_with_effects"
        if len(cell.inflight) + len(out.asks) > limits.instance_intents:
            return "open_work_exceeded"
        if len(self.open) + len(out.asks) > limits.open_intents:
            return "open_work_exceeded"
        asked: dict[Any, Any] = {}
        for ask in out.asks:
            if ask.effect not in self.world.effects[cell.id[0]]:
                return "effect_undeclared"
            if ask.params is None:
                return "params_invalid"
            if ask.key is not None:
                sameness = self.sameness(cell.id, ask)
                known = dict(cell.keys + self.world_keys)
                if asked.setdefault(sameness, known.get(sameness, ask.params)) != ask.params:
                    return "idempotency_conflict"
        return None

    def take(self, cell: Cell, mail: Mail, out: Output, seq: int) -> tuple[Any, ...]:
        limits = self.world.limits
        cell.mail.pop(0)
        cell.state = out.state
        if out.status is not None:
            cell.declared = None if out.status == "running" else out.status
        for index, ask in enumerate(out.asks):
            intent = Intent((seq, index), cell.id, ask, self.sameness(cell.id, ask, (seq, index)))
            self.open[intent.name] = self.intents[intent.name] = intent
            cell.inflight.append(intent.name)
            if ask.key is not None and self.world.scopes[ask.effect] == "cell":
                cell.keys = remember(cell.keys, intent.sameness, ask.params, limits.instance_keys)
            elif ask.key is not None:
                known = remember(self.world_keys, intent.sameness, ask.params, limits.dedup_rows)
                self.world_keys = known
        gone: list[Name] = []
        if out.state is None:
            cell.declared, cell.keys, gone = None, [], list(cell.inflight)
            self.abandon(cell)
        status = cell.status
        failed = self.failed()
        emitted = []
        for index, emit in enumerate(out.emits):
            targets = self.targets(emit.schema, emit.value or {}) or []
            each = Mail((seq, index), mail.cause, mail.depth + 1, (emit.schema, emit.value))
            emitted.append((emit.schema, *self.spread(targets, each, failed, seq, cell)))
        if cell.mail and not cell.fault:
            self.ring.append(cell.id)
        if cell.state is None and not cell.mail and not cell.fault:
            del self.cells[cell.id]
        asks = [(ask.effect, ask.params, ask.key, ask.issuer) for ask in out.asks]
        return (out.state, status, emitted, asks, gone, out.ann)

    # What they share

    def targets(self, schema: str, value: dict[str, Any]) -> list[Id] | None:
        """K-40; None where a key is too long."""
        found: list[Id] = []
        for workflow, field_name in self.world.routes.get(schema, []):
            key = None if field_name is None else str(value[field_name])
            if key is not None and len(key) > KEY_MAX:
                return None
            found.append((workflow, key))
        return found

    def failed(self) -> set[Id]:
        return {id for id, cell in self.cells.items() if cell.fault}

    def spread(
        self, targets: list[Id], mail: Mail, failed: set[Id], seq: int, runs: Cell | None = None
    ) -> tuple[list[Id], list[Id]]:
        """K-41 to K-44. ``failed``: those that had failed before this record."""
        most = self.world.limits.mailbox
        to: list[Id] = []
        over: list[Id] = []
        for id in targets:
            cell = self.cells.setdefault(id, Cell(id))
            if id in failed:
                to.append(id)
                if len(cell.mail) < most:
                    cell.mail.append(mail)
                else:
                    cell.counted += 1
            elif cell.fault or len(cell.mail) >= most:
                over.append(id)
                cell.counted += 1
                self.fail(cell, "overloaded", seq)
            else:
                to.append(id)
                cell.mail.append(mail)
                if id not in self.ring and cell is not runs:
                    self.ring.append(id)
        return to, over

    def fail(self, cell: Cell, kind: str, seq: int) -> None:
        if not cell.fault:
            cell.fault, cell.fault_seq = kind, seq
        if cell.id in self.ring:
            self.ring.remove(cell.id)

    def abandon(self, cell: Cell) -> None:
        for name in cell.inflight:
            self.abandoned[name] = self.open.pop(name)
        cell.inflight = []
        for name in list(self.abandoned)[: -self.world.limits.abandoned_intents]:
            del self.abandoned[name]

    def sameness(self, cell: Id, ask: Ask, name: Name | None = None) -> Any:
        """K-21."""
        if ask.key is None:
            return name
        scope = self.world.scopes.get(ask.effect)
        return (cell if scope == "cell" else None, ask.effect, ask.key)


def remember(
    known: list[tuple[Any, Any]], key: Any, params: Any, most: int
) -> list[tuple[Any, Any]]:
    """K-22: the keys that were asked for last."""
    return [*(each for each in known if each[0] != key), (key, params)][-most:]


LIES = {
    "effect": "receipt_effect_differs",
    "status": "receipt_status_is_unknown",
    "attempt": "receipt_attempt_is_old",
    "finished_ns": "receipt_times_are_invalid",
    "executor": "receipt_executor_may_not_sign",
    "key_id": "receipt_executor_may_not_sign",
    "signature": "receipt_signature_is_wrong",
    "payload": "receipt_signature_is_wrong",
}
"""Field of a receipt that was changed after signing -> the rule that refuses it."""
