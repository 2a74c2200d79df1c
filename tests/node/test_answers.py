"""Every document of a read fits its schema, exactly (N-101a)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from aos.errors import AosError
from aos.host.folder.reader import open_reader
from aos.node.bodies import write_json
from aos.node.queries import read_query
from aos.node.reading import read_document
from aos.node.routes import ROUTES
from aos.read.operations.table import OPERATIONS
from aos.read.views.view import View
from tests.node.answers import SCHEMAS, AnswerCheck
from tests.page.operated import operated_world
from tests.page.part_worlds import agents_world, governed_world, orders_world, trips_world
from tests.tools import long_form

ROUTE: Final = {each.operation: each for each in ROUTES}
MOST: Final = 25
"""Cells, intents and so on of one world of which each has its own document."""


def documents(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield an operation and its document for everything that a world has."""
    with open_reader(path) as reader:
        view = View(reader.state, reader.store)

        def read(operation: str, **query: object) -> Any:
            given = (
                read_query(ROUTE[operation], b"")
                if not query
                else {
                    **{
                        each.name: each.schema["default"]
                        for each in ROUTE[operation].query
                        if "default" in each.schema
                    },
                    **query,
                }
            )
            return json.loads(write_json(read_document(view, operation, given)))

        yield from _documents(view, read)


def _documents(view: View, read: Any) -> Iterator[tuple[str, Any]]:
    def every(operation: str, *queries: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
        for query in queries[:MOST]:
            try:
                yield operation, read(operation, **query)
            except AosError:
                continue  # the world has no such part

    last = view.state.next_seq - 1
    yield from every("read_manifest", {}, *({"since": seq} for seq in range(1, last, 7)))
    if view.state.manifest is not None:
        names = [*view.state.manifest.schemas, *view.state.manifest.workflows]
        yield from every("read_manifest", *({"name": name} for name in names[:5]))
    cells = read("read_cells", state=True, limit=1_000)
    yield "read_cells", cells
    yield from every("read_cell_counts", {}, {"group_by": "status"}, {"group_by": "fault"})
    for cell in cells["cells"][:MOST]:
        key = {} if cell["key"] is None else {"key": json.dumps(cell["key"])}
        named = {"workflow": cell["workflow"], **key}
        yield from every("read_cell", named)
        yield from every("read_trace", named, {**named, "follow_events": True})
        if key:
            flow = {"flow": cell["workflow"], **key}
            yield from every("read_flow", flow, {**flow, "history": True})
    statuses = ("open", "abandoned", "settled", "all", "ok", "error")
    for status in statuses:
        found = read("read_intents", status=status, limit=1_000)
        yield "read_intents", found
        yield from every("read_intent", *({"intent": row["intent"]} for row in found["intents"]))
    yield "read_faults", read("read_faults")
    records = read("read_records", **{"from": 1}, limit=1_000)
    yield "read_records", records
    for record in records["records"]:
        whole = read("read_record", seq=record["seq"])
        yield "read_record", whole
        yield from every("read_value", *({"value": each["value"]} for each in whole["values"]))
    yield from every(
        "read_trace", *({"seq": seq} for seq in range(1, last, 5)), {"seq": last, "drawn": True}
    )
    yield from every("read_flows", {})
    yield from every("read_plans", {})
    for operation, query in every("read_linear_instances", {}):
        yield operation, query
        ids = [{"instance": row["instance"]} for row in query["instances"]]
        yield from every("read_linear_instance", *ids)
        yield from every("read_linear_counts", {}, {"group_by": "biz_key"})
    for operation, query in every("read_schedules", {}):
        yield operation, query
        yield from every("read_schedule", *({"id": row["id"]} for row in query["schedules"]))
    for operation, query in every("read_proposals", {}):
        yield operation, query
        for row in query["proposals"]:
            number = {"proposal": row["proposal"]}
            for _, shown in every("read_proposal", number):
                yield "read_proposal", shown
                yield from every(
                    "read_proposal",
                    *({**number, "report": each["hash"]} for each in shown["reports"]),
                )


ALL: Final = (agents_world, trips_world, orders_world, governed_world, operated_world)


@pytest.mark.long
def test_each_document_of_a_world_is_as_its_schema_says(tmp_path: Path) -> None:
    """Flows; in the long form linear instances, schedules, proposals and faults, too."""
    check = AnswerCheck()
    read = {"read_world"}  # a part of it only a node knows: ``nodes.py`` compares it
    for make in ALL if long_form() else (trips_world,):
        for operation, document in documents(make(tmp_path / make.__name__)):
            check.check(operation, document)
            read.add(operation)

    assert {
        "CellDocument",
        "FlowDocument",
        "IntentListRow",
        "StepRecord",
        "TraceNode",
    } <= check.seen
    if not long_form():
        return
    assert read == {operation.name for operation in OPERATIONS if operation.document is not None}
    assert {
        "CellDocument", "IntentListRow", "StepRecord", "TraceNode", "FlowDocument",
        "OperationDocument", "LinearInstanceDocument", "LinearStep", "ScheduleDocument",
        "ProposalDocument",
        "ShadowReportDocument", "ManifestDifference", "FaultRow", "ReceiptSignature", "MailEntry",
        "ValueDocument", "DrawnTrace",
    } <= check.seen  # fmt: skip


def test_a_field_without_a_schema_and_one_that_is_missing_are_found() -> None:
    """The comparison of this module finds differences."""
    good: dict[str, object] = {
        "value": "blake3:1", "size": None, "is_there": True, "erased_by": [], "records": [],
        "total": 0,
    }  # fmt: skip
    check = AnswerCheck()
    schema = reference_of("ValueDocument")

    assert not list(check.misfits(schema, good, "value"))
    assert check.seen == {"ValueDocument"}
    for bad in (
        {**good, "more": 1},
        {name: each for name, each in good.items() if name != "size"},
        {**good, "total": "0"},
        {**good, "total": True},
        {**good, "erased_by": [1, "2"]},
        {**good, "records": [{"record": 1, "kind": "event", "where": "x"}]},
    ):
        assert list(check.misfits(schema, bad, "value")), bad


def reference_of(name: str) -> dict[str, str]:
    assert name in SCHEMAS
    return {"$ref": f"#/components/schemas/{name}"}
