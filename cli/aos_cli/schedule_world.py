"""Schedules in the world of a folder or of a node (spec/cli.md, C-103 to C-105)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aos.audit.views import schedule_view
from aos.audit.views.record_view import Document
from aos.audit.views.view import View
from aos.core.journal.records import CellId
from aos.errors import Refused
from aos.manifest.schedule_names import DELETE, PAUSE, RESUME, SCHEDULE, SET, TRIGGER
from aos.manifest.schedule_setting import must_have_schedules, set_value
from aos.manifest.schedules import schedule_of
from aos.values.cbor import encode
from aos_cli.cell_answers import ask
from aos_cli.node_option import client_of, from_node
from aos_cli.open_view import looking_at

_SCHEMAS = {"pause": PAUSE, "resume": RESUME, "trigger": TRIGGER, "delete": DELETE}


@dataclass(frozen=True, slots=True)
class ScheduleWorld:
    """The schedules of a world. ``node`` None: the world of the folder ``world``.

    Every method raises Refused with the words of the schedule if that refuses, and as the folder
    or the client otherwise.
    """

    world: Path
    node: str | None

    def schedules(self) -> Document:
        """All schedules; see ``schedule_view.schedules``."""
        return self._read("/v1/schedules", {}, schedule_view.schedules)

    def schedule(self, id: str) -> Document:
        """One schedule; see ``schedule_view.schedule``."""
        return self._read("/v1/schedule", {"id": id}, lambda view: schedule_view.schedule(view, id))

    def create(self, definition: Mapping[str, Any], *, replace: bool) -> tuple[int, bool]:
        """Set a schedule, as a manifest has it; return the record, and whether it has answered."""
        if self.node is not None:
            with client_of(self.node) as client:
                answer = client.schedule("create", **definition, replace=replace or None)
            return answer["seq"], True
        entry = schedule_of(definition)
        with looking_at(self.world) as view:
            manifest = view.state.manifest
            must_have_schedules({} if manifest is None else manifest.workflows)
            assert manifest is not None
            value = set_value(entry, manifest.schemas, manifest.plans)
            if not replace and view.state.cells.get(_cell(entry.id)) is not None:
                raise Refused(
                    f"there is a schedule {entry.id} already (--replace gives it this definition)"
                )
        return self._send(SET, value)

    def command(self, id: str, action: str) -> tuple[int, bool]:
        """Pause, resume, trigger or delete a schedule; as ``create``."""
        if self.node is not None:
            with client_of(self.node) as client:
                answer = client.schedule("command", id=id, action=action)
            return answer["seq"], True
        self.schedule(id)
        return self._send(_SCHEMAS[action], {"id": id})

    def _send(self, schema: str, value: Any) -> tuple[int, bool]:
        return ask(self.world, schema, value, _cell(value["id"]), schedule_view.refusal_of)

    def _read(
        self, path: str, query: Mapping[str, object], take: Callable[[View], Document]
    ) -> Document:
        if self.node is not None:
            return from_node(self.node, path, **query)
        with looking_at(self.world) as view:
            return take(view)


def _cell(id: str) -> CellId:
    return SCHEDULE, encode(id)
