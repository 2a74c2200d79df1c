"""Read three logs with pm4py, and print what is in them as JSON.

It runs in an environment of its own (``make pm4py``), because pm4py is licensed under the AGPL and
is no dependency of AOS.

    .venv/pm4py/bin/python tests/prove/event_log/read_with_pm4py.py LOG.json LOG.sqlite LOG.xes
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

import pm4py  # type: ignore[import-not-found,unused-ignore]
from pm4py.objects.ocel.validation import (  # type: ignore[import-not-found,unused-ignore]
    ocel20_rel_validation,
)


def ocel(log: Any) -> dict[str, object]:
    """Events by type, objects by type, and how many objects of each type end in each status."""
    statuses = dict(zip(log.objects["ocel:oid"], log.objects["status"], strict=True))
    changes = log.object_changes.sort_values("ocel:timestamp", kind="stable")
    statuses |= dict(zip(changes["ocel:oid"], changes["status"], strict=True))
    types = dict(zip(log.objects["ocel:oid"], log.objects["ocel:type"], strict=True))
    # The world has no status.
    ends = Counter(
        (types[id], status) for id, status in statuses.items() if isinstance(status, str)
    )
    return {
        "events": dict(Counter(log.events["ocel:activity"])),
        "objects": dict(Counter(types.values())),
        "statuses": sorted([of, status, count] for (of, status), count in ends.items()),
        "relations": len(log.relations),
        "qualifiers": sorted(set(log.relations["ocel:qualifier"])),
        "o2o": len(log.o2o),
    }


def xes(path: str) -> dict[str, object]:
    """Events by activity, traces, and the edges of the directly-follows graph."""
    log = pm4py.read_xes(path)
    graph, starts, _ = pm4py.discover_dfg(log)
    return {
        "traces": int(log["case:concept:name"].nunique()),
        "events": dict(Counter(log["concept:name"])),
        "starts": dict(starts),
        "edges": len(graph),
    }


def main() -> None:
    as_json, as_sqlite, as_xes = sys.argv[1:]
    found = {
        "json": ocel(pm4py.read_ocel2_json(as_json)),
        "sqlite": ocel(pm4py.read_ocel2_sqlite(as_sqlite)),
        "xes": xes(as_xes),
        "violated": ocel20_rel_validation.apply(as_sqlite)[1],
        "drawn": len(pm4py.discover_ocdfg(pm4py.read_ocel2_sqlite(as_sqlite))["activities"]),
    }
    print(json.dumps(found, default=int))  # noqa: T201  # its only output


if __name__ == "__main__":
    main()
