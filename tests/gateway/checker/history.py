"""The gateway's part of a journal: steps of cells, their causes, effects and settlements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import cbor2

from tests.gateway.checker.journal import Journal, Map

LANE: Final = "gw/signer@1"
RECORDS: Final = ("gw/work@1", "gw/score@1", "gw/epoch@1")
SETTLED: Final = {
    "gw/WorkTxSettled@1": ("Work", "work"),
    "gw/ScoreTxSettled@1": ("Score", "score"),
    "gw/EpochTxSettled@1": ("Epoch", "epoch_key"),
}
CANCEL: Final = "sys/effect.cancel@1"


def tag(value: Any) -> str:
    """The arm of a variant."""
    found: str = value["$tag"]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """An effect that a step requested. ``ended`` is the record that answered it, 0 if none did."""

    seq: int
    key: str
    workflow: str
    effect: str
    params: Any
    ref: str | None
    hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The receipt that a step took: ``payload`` is the value of an ``ok`` receipt."""

    intent: Intent
    status: str
    payload: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    schema: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a cell. ``event`` and ``answer`` are its cause: one of the two."""

    seq: int
    workflow: str
    key: str
    before: Map | None
    state: Map | None
    status: str
    emitted: tuple[Emitted, ...]
    intents: tuple[Intent, ...]
    event: Emitted | None
    answer: Answer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The end of a request: ``owner`` is the arm and the key of ``gw/Owner@1``."""

    seq: int
    lane: str
    owner: tuple[str, str]
    request: int
    outcome: Any
    attempts: list[Map]


@dataclass(slots=True)
class History:
    """All steps of the gateway's cells in the order of the journal."""

    steps: list[Step] = field(default_factory=list)
    intents: dict[bytes, Intent] = field(default_factory=dict)
    ended: dict[bytes, int] = field(default_factory=dict)
    """The record that answered an intent."""
    faults: list[tuple[int, str, str]] = field(default_factory=list)
    """Sequence, key and sentence of the faults of cells."""
    states: dict[tuple[str, str], Map] = field(default_factory=dict)
    """The last state of each cell."""

    def of(self, *workflows: str) -> Iterator[Step]:
        return (each for each in self.steps if each.workflow in workflows)

    def asked(self, effect: str) -> Iterator[Intent]:
        return (each for each in self.intents.values() if each.effect == effect)

    @property
    def settlements(self) -> list[Settlement]:
        return [each for step in self.of(LANE) for each in settlements(step)]

    @property
    def records(self) -> dict[str, Map]:
        """The last states of works, scores and epochs, by key."""
        return {key: state for (flow, key), state in self.states.items() if flow in RECORDS}

    @property
    def lanes(self) -> dict[str, Map]:
        return {key: state for (flow, key), state in self.states.items() if flow == LANE}


def settlements(step: Step) -> list[Settlement]:
    """The settlements that a step of a lane emits."""
    found = []
    for each in step.emitted:
        if each.schema in SETTLED:
            arm, name = SETTLED[each.schema]
            found.append(
                Settlement(
                    seq=step.seq,
                    lane=step.key,
                    owner=(arm, each.value[name]),
                    request=each.value["request"],
                    outcome=each.value["outcome"],
                    attempts=each.value["attempts"],
                )
            )
    return found


def read_history(journal: Journal) -> History:
    """Follow the journal from its first record to its last one."""
    return _Reading(journal).history


class _Reading:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._found = History()

    @cached_property
    def history(self) -> History:
        for record in self._journal.records:
            kind = record["kind"]
            if kind == "step":
                self._step(record)
            elif kind == "fault":
                _, key = self._cell(record)
                self._found.faults.append((record["seq"], key, record["fault"]["message"]))
            elif kind in ("receipt", "kernel_receipt"):
                self._found.ended[record["intent"]] = record["seq"]
            for each in record.get("abandoned", []):
                self._found.ended[each] = record["seq"]
        return self._found

    def _cell(self, record: Map) -> tuple[str, str]:
        workflow, key = record["cell"]
        return workflow, str(cbor2.loads(key)) if key else ""

    def _step(self, record: Map) -> None:
        workflow, key = self._cell(record)
        intents = tuple(self._intent(record["seq"], workflow, key, each) for each in _list(record))
        self._found.intents |= {each.hash: each for each in intents}
        if workflow not in (LANE, *RECORDS):
            return
        state = self._journal.value(record["state"]) if "state" in record else None
        event, answer = self._cause(record["entry"])
        self._found.steps.append(
            Step(
                seq=record["seq"],
                workflow=workflow,
                key=key,
                before=self._found.states.get((workflow, key)),
                state=state,
                status=record["status"],
                emitted=tuple(self._emitted(each) for each in record.get("events", [])),
                intents=intents,
                event=event,
                answer=answer,
            )
        )
        if state is None:
            self._found.states.pop((workflow, key), None)
        else:
            self._found.states[workflow, key] = state

    def _intent(self, seq: int, workflow: str, key: str, given: Map) -> Intent:
        return Intent(
            seq=seq,
            key=key,
            workflow=workflow,
            effect=given["effect"],
            params=self._journal.value(given["params"]),
            ref=given.get("issuer_ref"),
            hash=given["intent"],
        )

    def _emitted(self, given: Map) -> Emitted:
        return Emitted(schema=given["schema"], value=self._journal.value(given["value"]))

    def _cause(self, entry: list[int]) -> tuple[Emitted | None, Answer | None]:
        record = self._journal[entry[0]]
        match record["kind"]:
            case "event":
                return self._emitted(record), None
            case "step":
                return self._emitted(record["events"][entry[1]]), None
            case "receipt" | "kernel_receipt":
                is_ok = record["status"] == "ok"
                payload = self._journal.value(record["payload"]) if is_ok else None
                intent = self._found.intents[record["intent"]]
                return None, Answer(intent=intent, status=record["status"], payload=payload)
        return None, None


def _list(record: Map) -> list[Map]:
    found: list[Map] = record.get("intents", [])
    return found
