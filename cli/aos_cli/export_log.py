"""Export an event log for process mining (spec/cli.md, C-42a; spec/exports.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aos.audit.lens.words import count
from aos.host.folder.folder import open_folder
from aos.values.digests import hash_text
from aos_cli.output import line, print_json
from aos_cli.progress import progress

LOG_FORMATS: Final = ("ocel", "xes", "jsonl")


def export_log(
    world: Path,
    file: Path,
    *,
    format: str,
    workflow: str | None,
    with_values: bool,
    force: bool,
    json: bool,
) -> None:
    """Write the log and print what was written."""
    # `aos export` of a bundle need not import this.
    from aos.audit.event_log.event_log import write_event_log  # noqa: PLC0415

    with open_folder(world).open_store(readonly=True) as store, progress("exporting") as advance:
        log = write_event_log(
            store, file, format=format, workflow=workflow, with_values=with_values, force=force,
            progress=advance,
        )  # fmt: skip
    if json:
        print_json(
            {
                "file": str(log.path),
                "format": log.format,
                "world": hash_text(log.world),
                "first": log.first,
                "seq": log.seq,
                "workflow": log.workflow,
                "events": log.events,
                "objects": log.objects,
                "bytes": log.size,
            }
        )
        return
    noun = "trace" if log.format == "xes" else "object"
    line(f"exported to record {log.seq:,}: {log.path}", style="bold")
    line(f"  {count(log.events, 'event')} and {count(log.objects, noun)}, {log.size:,} bytes")
    if log.first > 1:
        line(f"  from record {log.first:,} on: earlier records were pruned")
