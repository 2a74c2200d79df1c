"""Name existing instances whose keys resemble one that does not exist (C-24b)."""

from __future__ import annotations

import difflib
from itertools import islice
from pathlib import Path
from typing import Final

from aos.audit.lens.lens import as_json
from aos.audit.lens.words import compact
from aos.audit.views.view import View
from aos.host.door.writer import Item
from aos_cli.open_view import looking_at

CELLS_READ: Final = 10_000
"""Instances of the workflow that are compared, so that a large world answers soon, too."""

NAMED_MAX: Final = 3


def near_keys(world: Path, item: Item) -> tuple[str, list[str]] | None:
    """Find the instance that ``item`` is for and that does not exist: return its workflow and at
    most three keys of that workflow that resemble its key. None if there is no such instance by
    now, or its workflow has no key."""
    with looking_at(world) as view:
        target = _missing(view, item)
        if target is None:
            return None
        workflow, key = target
        key_texts = (
            _text(view, workflow, cell.id[1])
            for cell in islice(view.state.cells.of(workflow), CELLS_READ)
        )
        return workflow, difflib.get_close_matches(
            _text(view, workflow, key), list(key_texts), n=NAMED_MAX
        )


def _missing(view: View, item: Item) -> tuple[str, bytes] | None:
    manifest = view.state.effective
    schema = manifest.schemas[item.schema]
    value = schema.from_record(schema.encode(schema.from_json_object(item.value)))
    for route in manifest.routes(item.schema):
        key = route.key(value)
        if key and not route.creates and (route.workflow, key) not in view.state.cells:
            return route.workflow, key
    return None


def _text(view: View, workflow: str, key: bytes) -> str:
    value = as_json(view.state.effective.workflows[workflow].key, key)
    return value if isinstance(value, str) else compact(value)
