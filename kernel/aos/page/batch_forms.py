"""The forms of batches: retry or skip all cells of a list, and stop a batch (spec/page.md, PG-67 to
PG-69).

/cells/retry?where=…     GET   the dry run of a batch: how many cells, the first ten
                         POST  the batch begins ──303──▶ /batch/page-<id of the form>

Rule 1: a batch has the id of its form, so a form that is sent again begins no second batch, also
where its outcome is not remembered any more.

Rule 2: a batch is for the faults up to the record that its form has seen. A cell that another
command has retried, and that has failed again, is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urlencode

from aos.core.journal.inputs import RETRY
from aos.node.access import check_scope
from aos.node.batches.batch import RUNNING
from aos.node.batches.batch_runner import GROUP_ITEMS
from aos.node.bodies import KIB
from aos.node.operating import must_sign
from aos.node.problems import Problem
from aos.node.queries import read_query
from aos.node.rates import EXAMPLES, interval_of
from aos.node.routes import BY_PATH, GET, POST
from aos.node.services import Services
from aos.page.command_forms import SEEN, STALE, command_line, seen_in
from aos.page.page_buttons import joined
from aos.page.page_calls import api_document
from aos.page.page_forms import FORM_BYTES_MAX, FormCall, FormMisfitError, FormView, Visit
from aos.read.operations.operation import WHERE, WORKFLOW
from aos.read.views.record_view import Document

BEGIN: Final = BY_PATH["/v1/batches"][POST]
STOP: Final = BY_PATH["/v1/batches/stop"][POST]
_ASKED: Final = replace(BEGIN, method=GET, query=(WORKFLOW, WHERE), body=None)
"""The query of a form: the cells."""

NOT_FOUND: Final = 404
_RATE: Final = "rate"
_TITLES: Final = {True: "Retry all cells", False: "Skip the entries of all cells"}
_SUBMITS: Final = {True: "Retry all", False: "Skip all"}


class BulkForm:
    """Retry or skip all failed cells that pass a condition: ``/cells/ACTION?workflow=…&where=…``.

    The same fields are hidden in the form, with ``seen``; a person may add a rate.
    """

    bytes_max = 8 * KIB  # a condition has up to 1,024 bytes, each of which takes up to three

    def __init__(self, services: Services, action: str) -> None:
        self.path = f"/cells/{action}"
        self._services = services
        self._action = action

    def check(self, visit: Visit) -> None:
        """Raises: Problem: Without the scope, or without a key of an operator (403)."""
        check_scope(visit.caller, BEGIN)
        must_sign(self._services)

    async def view(self, call: FormCall) -> FormView:
        """As ``PageForm``."""
        if call.fields:
            cells, seen_seq = _cells(call.fields), seen_in(call)
        else:
            cells = read_query(_ASKED, call.request.scope["query_string"])
            await self._services.follower.advance_to()
            seen_seq = self._services.follower.seq
        order = self._order(cells, seen_seq)
        preview = await self._counted(call, order)
        total = preview["total"]
        effects = _effects(total, seen_seq, is_retry=self._action == RETRY)
        options = [word for name in cells for word in (f"--{name}", str(order[name]))]
        if "where" not in cells:
            options += ["--where", order["where"]]
        return FormView(
            title=_TITLES[self._action == RETRY],
            document={**order, "seen": seen_seq, **preview, "effects": effects},
            command=command_line("batch", self._action, options=[*options, *call.world_option]),
            submit=_SUBMITS[self._action == RETRY],
            effects=effects,
            facts=[("cells", total), *order.items(), ("first_cells", preview["first"])],
            fields={**cells, SEEN: seen_seq},
            back=f"{call.base}/cells?{urlencode({'status': 'failed', **cells})}",
            template="confirm_batch",
            template_values={"rate": call.fields.get(_RATE, "")},
        )

    async def take(self, call: FormCall) -> str:
        """As ``PageForm``."""
        id = f"page-{call.id}"
        if await self._is_begun(call, id):
            return _address(call, id)
        order = self._order(_cells(call.fields), seen_in(call))
        rate = call.fields.get(_RATE, "").strip()
        if rate:
            if interval_of(rate) is None:
                raise FormMisfitError(f"the rate: expected {EXAMPLES}, found {rate[:40]!r}")
            order[_RATE] = rate
        await self._counted(call, order)
        await api_document(self._services, BEGIN, call.visit.caller, body={**order, "id": id})
        return _address(call, id)

    async def _is_begun(self, call: FormCall, id: str) -> bool:
        """Whether this form has begun its batch already."""
        try:
            earlier = await call.world.document("read_batch", {"id": id})
        except Problem as problem:
            if problem.status != NOT_FOUND:
                raise
            return False
        return bool(earlier["action"] == self._action)

    def _order(self, cells: Mapping[str, str], seen_seq: int) -> dict[str, str]:
        where_text = joined(cells.get("where"), [f"fault_record <= {seen_seq}"])
        return {"action": self._action, **cells, "where": where_text}

    async def _counted(self, call: FormCall, order: Mapping[str, str]) -> Document:
        preview = await api_document(
            self._services, BEGIN, call.visit.caller, body={**order, "dry_run": True}
        )
        if not preview["total"]:
            raise Problem(
                409, STALE,
                "no failed cell passes this condition: they were retried already, or have failed "
                "again since the form was shown (open the list again)",
            )  # fmt: skip
        return preview


def _cells(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: fields[name] for name in ("workflow", "where") if fields.get(name)}


def _effects(total: int, seen_seq: int, *, is_retry: bool) -> list[str]:
    cells = "1 cell" if total == 1 else f"{total:,} cells"
    sentences = [f"A batch retries {cells}: the entry that failed runs again, then the other mail."]
    if not is_retry:
        sentences = [
            f"A batch drops the entry that failed of {cells}. It never runs; the other mail does.",
            "A cell that has no such entry is refused, and counted.",
        ]
    return [
        *sentences,
        "The cells come in the order of their faults. If its cause remains, a cell fails again.",
        f"Cells that fail after record {seen_seq:,} are not in the batch.",
        "The batch continues after a crash. Its page shows its progress, and can stop it.",
    ]


class StopForm:
    """Stop a batch: ``/batch/ID/stop``. It makes no control record, and needs no operator's key."""

    path = "/batch/{word}/stop"
    bytes_max = FORM_BYTES_MAX

    def __init__(self, services: Services) -> None:
        self._services = services

    def check(self, visit: Visit) -> None:
        """Raises: Problem: Without the scope (403)."""
        check_scope(visit.caller, STOP)

    async def view(self, call: FormCall) -> FormView:
        """As ``PageForm``."""
        batch = await self._running(call)
        id = batch["id"]
        effects = [
            f"The items in progress, at most {GROUP_ITEMS}, are finished; no other one begins.",
            "Items that are done stay done.",
            "A stopped batch cannot be continued. Begin another one for the cells that are left.",
        ]
        return FormView(
            title="Stop a batch",
            document={"action": "stop", "batch": id, "effects": effects},
            command=command_line("batch", "stop", id, options=call.world_option),
            submit="Stop the batch",
            effects=effects,
            facts=[
                (name, batch.get(name))
                for name in (
                    "id",
                    "action",
                    "workflow",
                    "where",
                    "total",
                    "done",
                    "refused",
                    "left",
                )
            ],
            back=_address(call, id),
        )

    async def take(self, call: FormCall) -> str:
        """As ``PageForm``."""
        id = (await self._running(call))["id"]
        await api_document(self._services, STOP, call.visit.caller, body={"id": id})
        return _address(call, id)

    async def _running(self, call: FormCall) -> Document:
        batch = await call.world.document("read_batch", {"id": call.path["word"]})
        if batch["status"] != RUNNING:
            raise Problem(
                409, STALE, f"the batch {batch['id']} is not running: it is {batch['status']}"
            )
        return batch


def _address(call: FormCall, id: str) -> str:
    return f"{call.base}/batch/{id}"
