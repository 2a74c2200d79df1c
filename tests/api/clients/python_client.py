"""Use a node through the client that openapi-python-client has made: PROGRAM URL TOKEN.

It runs in an environment that has nothing of this project. Exits with 0 if every answer is of its
type.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Any


def call(name: str, client: Any, **arguments: Any) -> Any:
    """Call one operation; its answer is parsed into the types of the document."""
    found: Any = importlib.import_module(f"made.api.{_FOLDERS[name]}.{name}")
    answer = found.sync_detailed(client=client, **arguments)
    assert answer.status_code == 200, (name, answer.status_code, answer.content)
    return answer.parsed


def _folders() -> dict[str, str]:
    api: Any = importlib.import_module("made.api")
    found = {}
    for module in pkgutil.walk_packages(api.__path__, "made.api."):
        importlib.import_module(module.name)
        parts = module.name.split(".")
        if len(parts) == 4:
            found[parts[3]] = parts[2]
    return found


_FOLDERS = _folders()


def main() -> int:
    """Send an event, wait for it, and read the world in every way."""
    url, token, operations = sys.argv[1], sys.argv[2], int(sys.argv[3])
    assert len(_FOLDERS) == operations, sorted(_FOLDERS)
    made: Any = importlib.import_module("made")
    models: Any = importlib.import_module("made.models")
    client = made.AuthenticatedClient(base_url=url, token=token, timeout=60)

    event = models.SendEventsJsonBodyType0(
        schema="trip/Requested@1", value={"trip_id": "python", "city": "Lisbon"}
    )
    sent = call("send_events", client, body=event, wait=models.SendEventsWait.SETTLED)
    assert isinstance(sent, models.SentEvent), sent
    [reached] = sent.to
    assert (reached.key, reached.status, reached.ran) == ("python", "completed", True)

    again = call("send_events", client, body=models.SendEventsJsonBodyType1(items=[event]))
    assert isinstance(again, models.SentBatch), again

    world = call("read_world", client)
    assert isinstance(world, models.WorldDocument), world
    assert isinstance(world.journal, models.JournalFigures)
    cells = call("read_cells", client, workflow=reached.workflow, state=True)
    assert isinstance(cells, models.CellsDocument), cells
    assert "python" in [each.key for each in cells.cells]
    cell = call("read_cell", client, workflow=reached.workflow, key="python")
    assert isinstance(cell, models.CellDocument), cell
    assert isinstance(cell.version, models.CellVersion)
    records = call("read_records", client, from_=1, limit=1_000)
    assert isinstance(records, models.RecordsDocument), records
    kinds = {type(each).__name__ for each in records.records}
    assert {"GenesisRecord", "ManifestRecord", "EventRecord", "StepRecord"} <= kinds, kinds
    trace = call("read_trace", client, seq=sent.seq)
    assert isinstance(trace, models.TraceDocument), trace
    assert isinstance(trace.roots[0].children[0], models.TraceNode)
    for name, kind in (
        ("read_manifest", "ManifestDocument"), ("read_intents", "IntentsDocument"),
        ("read_faults", "FaultsDocument"), ("read_work", "WorkDocument"),
        ("answer_health", "HealthDocument"), ("answer_ready", "ReadinessDocument"),
        ("make_snapshot", "SnapshotDocument"), ("read_batches", "BatchesDocument"),
    ):  # fmt: skip
        found = call(name, client)
        assert isinstance(found, getattr(models, kind)), (name, found)
    retried = call("retry_tasks", client, body=models.RetryTasksJsonBody(all_parked=True))
    assert retried.tasks == [], retried

    refused: Any = importlib.import_module(f"made.api.{_FOLDERS['read_cell']}.read_cell")
    absent = refused.sync_detailed(client=client, workflow=reached.workflow, key="absent")
    assert absent.status_code == 404
    assert isinstance(absent.parsed, models.ProblemDocument), absent.parsed
    assert absent.parsed.rule == "cell_is_unknown"
    return 0


if __name__ == "__main__":
    sys.exit(main())
