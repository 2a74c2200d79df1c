"""Linear instances in the world of a folder or of a node (spec/cli.md, C-95 to C-98)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aos.core.journal.records import CellId
from aos.manifest.names import BIZ_KEY, CANCEL, LINEAR, RESERVE, SIGNAL
from aos.manifest.plans import (
    StepPlan,
    check_name,
    chosen_plan,
    context_of,
    must_have_linear,
    plan_of,
    start_event,
)
from aos.read.operations.linear_reads import READ_LINEAR_INSTANCE
from aos.read.views import linear_view
from aos.read.views.cell_view import Annotation
from aos.read.views.record_view import Document
from aos.values.cbor import encode
from aos_cli.cell_answers import ask, wait_for_answer
from aos_cli.open_view import looking_at
from aos_cli.options import client_of
from aos_cli.world_reading import reading_of

if TYPE_CHECKING:
    from aos.values.cbor import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEvent:
    """An event for an instance, as record ``seq``. ``is_run`` is false if no process runs the
    world, so that the instance has not answered."""

    instance: str
    seq: int
    is_run: bool = True

    @property
    def document(self) -> Document:
        return {"instance": self.instance, "seq": self.seq, "answered": self.is_run}


@dataclass(frozen=True, slots=True)
class LinearWorld:
    """The linear instances of a world. ``node`` None: the world of the folder ``world``.

    Every method raises Refused with the words of the instance if that refuses, and as the folder
    or the client otherwise.
    """

    world: Path
    node: str | None

    def instance(self, id: str) -> Document:
        """One instance; see ``linear_view.instance``."""
        return reading_of(self.world, self.node).document(READ_LINEAR_INSTANCE, {"instance": id})

    def start(
        self,
        plan: str | Mapping[str, Any],
        instance: str,
        context: Mapping[str, Value],
        *,
        version: int | None,
        biz_key: str | None,
        mode: str,
    ) -> SentEvent:
        """Start an instance on a plan of the manifest, or on one that is given whole."""
        if self.node is not None:
            return self._post(
                "start", instance, plan=plan, version=version, biz_key=biz_key, context=context,
                mode=None if mode == "standard" else mode,
            )  # fmt: skip
        step_plan = self._step_plan(plan, version)
        schema, value = start_event(
            step_plan, instance, context, biz_key=biz_key,
            mode="source" if mode == "source" else "standard",
        )  # fmt: skip
        cell = (BIZ_KEY, encode(biz_key)) if biz_key is not None else _cell(instance)
        sent_event = self._send(schema, value, instance, cell)
        if schema == RESERVE and sent_event.is_run:
            wait_for_answer(self.world, sent_event.seq, _cell(instance), _refusal)
        return sent_event

    def wake(self, instance: str, event_type: str, event_id: str, payload: Value) -> SentEvent:
        """Send a signal."""
        for name, text in (("instance", instance), ("TYPE", event_type), ("--event-id", event_id)):
            check_name(name, text)
        if self.node is not None:
            return self._post("wake", instance, type=event_type, event_id=event_id, payload=payload)
        value = {
            "instance": instance, "event_id": event_id, "type": event_type,
            "payload": encode(payload),
        }  # fmt: skip
        return self._send(SIGNAL, value, instance, _cell(instance))

    def cancel(self, instance: str, reason: str) -> SentEvent:
        """Cancel an instance."""
        if self.node is not None:
            return self._post("cancel", instance, reason=reason)
        value = {"instance": instance, "reason": reason}
        return self._send(CANCEL, value, instance, _cell(instance))

    def wait(self, instance: str, seconds: float) -> None:
        """Wait for the end of an instance.

        Raises:
            Unavailable: It has not ended in time.
        """
        if self.node is not None:
            with client_of(self.node) as client:
                client.wait(LINEAR, instance, timeout_s=seconds)
            return
        from aos.client.current import CurrentState, reached  # noqa: PLC0415  # only a wait needs it

        current = CurrentState(self.world)
        try:
            current.wait(LINEAR, instance, reached(None), seconds)
        finally:
            current.close()

    def _post(self, operation: str, instance: str, **body: object) -> SentEvent:
        assert self.node is not None
        with client_of(self.node) as client:
            answer = client.linear(operation, instance=instance, **body)
        return SentEvent(instance=instance, seq=answer["seq"])

    def _step_plan(self, plan: str | Mapping[str, Any], version: int | None) -> StepPlan:
        with looking_at(self.world) as view:
            manifest = view.state.manifest
            must_have_linear({} if manifest is None else manifest.workflows)
            assert manifest is not None
            if isinstance(plan, str):
                return chosen_plan(manifest.plans, plan, version)
        return plan_of(plan, "plan")

    def _send(self, schema: str, value: Any, instance: str, cell: CellId) -> SentEvent:
        seq, is_run = ask(self.world, schema, value, cell, _refusal)
        return SentEvent(instance=instance, seq=seq, is_run=is_run)


def read_context(value: object) -> Mapping[str, Value]:
    """Check the context of a start. Raises Refused."""
    return context_of(value)


def _refusal(annotation: Annotation) -> str | None:
    answer = linear_view.LinearAnswer.of(annotation)
    return answer.words if answer.reason else None


def _cell(instance: str) -> CellId:
    return LINEAR, encode(instance)
