"""The pages that only a node has: tasks, schedules, batches (spec/page.md, PG-65).

/w/ID/batch/nightly-retry ──▶ read_batch {"id": "nightly-retry"} ──▶ batch.html
                              aos batch show nightly-retry
"""

from __future__ import annotations

from typing import Final

from aos.audit.views.view import View
from aos.node.tokens import OPERATE, READ, SEND
from aos.page.page_links import read_id_segment
from aos.page.page_table import Page, PageTarget, Path, one_word


def _schedule(_view: View, path: Path) -> PageTarget:
    id = read_id_segment(path["key"], "schedule")
    return PageTarget({"id": id}, (id,))


SCHEDULES: Final = "/schedules"

NODE_PAGES: Final[tuple[Page, ...]] = (
    Page(
        template="tasks", title="Tasks", path="/tasks", operation="list_tasks",
        command=("tasks", "list"),
    ),
    Page(
        template="schedules", title="Schedules", path=SCHEDULES, operation="read_schedules",
        command=("schedule", "list"),
    ),
    Page(
        template="schedule", title="Schedule", path="/schedule/{key}", operation="read_schedule",
        command=("schedule", "show"), target=_schedule, fixed=frozenset({"id"}),
    ),
    Page(
        template="batches", title="Batches", path="/batches", operation="read_batches",
        command=("batch", "list"),
    ),
    Page(
        template="batch", title="Batch", path="/batch/{word}", operation="read_batch",
        command=("batch", "show"), target=one_word("id"), fixed=frozenset({"id"}),
    ),
)  # fmt: skip
"""The pages that only a node has."""

NODE_NAVIGATION: Final[tuple[tuple[str, str, str], ...]] = (
    ("Tasks", "/tasks", OPERATE),
    ("Schedules", SCHEDULES, READ),
    ("Batches", "/batches", READ),
    ("Send an event", "/send", SEND),
)
"""Their entries of the navigation, with the scope of a caller who may open them. That of the
schedules is left out if the manifest in force has none."""
