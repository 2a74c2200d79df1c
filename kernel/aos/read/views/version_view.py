"""Which manifest an instance runs under, and how many run under each (spec/audit.md, A-63a)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from aos.core.decide.left_behind import next_under
from aos.core.journal.ports import BlobReader
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.core.state.version import manifest_under, workflow_under
from aos.values.digests import hash_text


def version(state: State, cell: Cell, read: BlobReader) -> dict[str, Any]:
    """Return the manifest that the next entry of a cell runs under, and its module there. The
    module is null if the workflow is gone and nothing pins the cell."""
    seq = next_under(state, cell, read)
    workflow = workflow_under(state, cell.id, seq)
    return {
        "record": seq,
        "manifest": hash_text(manifest_under(state, seq).hash),
        "is_pinned": seq != state.manifest_seq,
        "module": None if workflow is None else workflow.module.name,
        "module_hash": None if workflow is None else hash_text(workflow.module.hash),
    }


def versions(state: State, read: BlobReader) -> list[dict[str, Any]]:
    """Return the manifests that instances run under, the oldest first and the one in force last,
    with the number of instances of each workflow. With two or more manifests, this reads every
    cell, and the states of those that may not fit the manifest in force."""
    counts: dict[int, Counter[str]] = {era.seq: Counter() for era in state.eras.all}
    if state.eras.is_one:
        for name, shelf in state.cells.shelves.items():
            counts[state.manifest_seq][name] = shelf.count
    else:
        for cell in state.cells.values():
            counts[next_under(state, cell, read)][cell.id[0]] += 1
    return [
        {
            "record": era.seq,
            "manifest": hash_text(era.manifest),
            "in_force": era.seq == state.manifest_seq,
            "cells": counts[era.seq].total(),
            "by_workflow": {
                name: number for name, number in sorted(counts[era.seq].items()) if number
            },
        }
        for era in state.eras.all
        if era.seq == state.manifest_seq or counts[era.seq]
    ]
