"""``aos export FILE``: write the world, or an event log of it for process mining, into one file
(spec/cli.md, C-42, C-42a; spec/exports.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from aos.errors import BadUsage, either
from aos.host.folder.folder import open_folder
from aos.host.transfer.exporting import Exported, export_world
from aos.read.lens.words import count
from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos_cli.in_shards import on_each_shard
from aos_cli.options import DEFAULT_WORLD, Json, World, argument, flag, number, option
from aos_cli.output import line, print_json, progress

BUNDLE: Final = "bundle"
LOG_FORMATS: Final = ("ocel", "xes", "jsonl")
FORMATS: Final = (BUNDLE, *LOG_FORMATS)
SCALARS: Final = "scalars"


@on_each_shard(of_one=("to",), file="file")
def export(
    file: Annotated[Path, argument("FILE", "File to write.")],
    *,
    format: Annotated[
        str,
        option(
            "FORMAT",
            "bundle (default), or an event log for process mining: ocel (OCEL 2.0 as JSON or "
            "SQLite, by the suffix of FILE), xes or jsonl.",
            show_default=False,
        ),
    ] = BUNDLE,
    workflow: Annotated[
        str | None,
        option(
            "NAME",
            "Event log: only the cells of this workflow and their effects. Required for xes.",
        ),
    ] = None,
    values: Annotated[
        str | None,
        option(
            SCALARS,
            "Event log: add the scalars (texts, numbers, booleans) of values as attributes "
            "(default: no values).",
        ),
    ] = None,
    to: Annotated[
        int | None,
        option(
            "SEQ",
            "Bundle: export up to the end of the frame with this record (default: the whole "
            "journal).",
            parser=number,
        ),
    ] = None,
    force: Annotated[bool, flag("--force", "Replace FILE if it exists.")] = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    _check_options(format, values)
    if format != BUNDLE:
        if to is not None:
            raise BadUsage("--to goes with a bundle: an event log has all records")
        with_values = values is not None
        export_log(
            world, file, format=format, workflow=workflow, with_values=with_values, force=force,
            json=json,
        )  # fmt: skip
        return
    if workflow is not None or values is not None:
        raise BadUsage("--workflow and --values go with an event log: --format ocel, xes or jsonl")
    with progress("exporting") as advance:
        bundle = export_world(world, file, to=to, force=force, progress=advance)
    if json:
        print_json(_bundle_document(bundle, to))
    else:
        _show_bundle(bundle, to)


def _check_options(format: str, values: str | None) -> None:
    if format not in FORMATS:
        raise BadUsage("--format", expected=either(FORMATS), actual=repr(format))
    if values not in (None, SCALARS):
        raise BadUsage("--values", expected=SCALARS, actual=repr(values))


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
    """Write the event log, and print its file and its size (C-42a)."""
    # `aos export` of a bundle need not import this.
    from aos.prove.event_log.event_log import write_event_log  # noqa: PLC0415

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


def _bundle_document(bundle: Exported, to: int | None) -> dict[str, object]:
    return {
        "file": str(bundle.path),
        "world": hash_text(bundle.world),
        "to": to,
        "seq": bundle.seq,
        "frame": hash_text(bundle.frame),
        "frames": bundle.frames,
        "blobs": bundle.blobs,
        "erased": bundle.erased,
        "bytes": bundle.size,
    }


def _show_bundle(bundle: Exported, to: int | None) -> None:
    line(f"exported to record {bundle.seq:,}: {bundle.path}", style="bold")
    if to is not None and to != bundle.seq:
        line(f"  record {to:,} is in a frame that ends with record {bundle.seq:,}")
    erased_text = f", {count(bundle.erased, 'value')} erased" if bundle.erased else ""
    line(
        f"  {count(bundle.frames, 'frame')} and {count(bundle.blobs, 'value')}{erased_text}, "
        f"{bundle.size:,} bytes"
    )
    line(f"next: aos verify {shell_word(bundle.path)}")
