"""Run the author's ``@step`` handlers in the process of the test, by its clock
(spec/testing.md, T-25a)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aos.core.journal.inputs import EventInput
from aos.core.journal.records import CellId, slot_bytes
from aos.core.state.cell import Cell
from aos.linear.outcomes import OutcomeInvalid, outbound_values, outcome_value
from aos.linear.ready import matches
from aos.linear.rows import LinearState, claimable, current_row, step_document
from aos.manifest.linear_names import CLAIM, LINEAR, RESULT
from aos.testing.desk import Desk
from aos.testing.functions import Functions
from aos.values.cbor import decode_record, encode
from aos.values.digests import hash_text
from aos.worker.step_api import refused_outcome, step_context

WORKER: Final = "test"


class StepHandlers:
    """The handlers of a test world. They claim plan steps one at a time, in the order in which
    workers of a node get them."""

    def __init__(self) -> None:
        self._functions: dict[str, Functions] = {}
        self._claims = 0
        self._claimed: CellId | None = None

    def use(self, functions: Functions) -> None:
        """Run the handlers of one Executors."""
        self._functions.update(dict.fromkeys(functions.steps, functions))

    def serve(self, desk: Desk) -> bool:
        """Carry out the plan step that was claimed last, or claim the next one that is due. Return
        whether there was anything to do."""
        if not self._functions:
            return False
        if self._claimed is not None:
            cell, self._claimed = self._claimed, None
            state = _state_of(desk, desk.state.cells.get(cell))
            if state is not None and current_row(state)["claim"] == self._claim:
                self._carry_out(desk, state)
                return True
        due = [
            ready_step
            for state in _states(desk)
            if (ready_step := claimable(state)) is not None
            and ready_step.due_ns <= desk.now_ns
            and self._handler(ready_step.plan, ready_step.step) is not None
        ]
        if not due:
            return False
        first = min(due)
        self._claims += 1
        self._claimed = LINEAR, encode(first.instance)
        claim = {
            "instance": first.instance, "worker": WORKER, "claim": self._claim, "lease": None,
        }  # fmt: skip
        _send(desk, CLAIM, claim)
        return True

    def next_due(self, desk: Desk) -> int | None:
        """When the next plan step that has a handler here can be claimed; None if none can."""
        if not self._functions:
            return None
        return min(
            (
                ready_step.due_ns
                for state in _states(desk)
                if (ready_step := claimable(state)) is not None
                and self._handler(ready_step.plan, ready_step.step) is not None
            ),
            default=None,
        )

    @property
    def _claim(self) -> str:
        return f"{WORKER}-{self._claims}"

    def _handler(self, plan: str, step: str) -> str | None:
        for name in (f"{plan}/{step}", f"{plan}/*", f"*/{step}", "*/*"):
            if name in self._functions and matches(name, plan, step):
                return name
        return None

    def _carry_out(self, desk: Desk, state: LinearState) -> None:
        task = step_document(state)
        name = self._handler(task["plan"], task["step"])
        assert name is not None
        ctx = step_context(task, task["woken_by"], world=hash_text(desk.state.world))
        report = self._functions[name].call_step(name, task["context"], ctx)
        lease_fields = {
            "instance": ctx.instance, "worker": WORKER, "epoch": ctx.epoch, "seq": ctx.seq,
        }  # fmt: skip
        try:
            result = {
                "outcome": outcome_value(report["outcome"]),
                "outbound": outbound_values(report["outbound"], desk.state.effective),
            }
        except OutcomeInvalid as problem:
            # As in a worker: what the node refuses becomes a retry.
            report = refused_outcome(str(problem))
            result = {"outcome": outcome_value(report["outcome"]), "outbound": []}
        _send(desk, RESULT, {**lease_fields, **result})


def _states(desk: Desk) -> Iterator[LinearState]:
    for cell in desk.state.cells.of(LINEAR):
        state = None if cell.fault is not None else _state_of(desk, cell)
        if state is not None:
            yield state


def _state_of(desk: Desk, cell: Cell | None) -> LinearState | None:
    if cell is None or cell.state is None:
        return None
    value: Any = decode_record(slot_bytes(cell.state, desk.read))
    return value if value.get("steps") else None


def _send(desk: Desk, schema: str, value: Any) -> None:
    data = desk.state.effective.schemas[schema].from_ingress(encode(value))
    desk.admit(EventInput(schema=schema, value=data))
