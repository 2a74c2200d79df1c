"""``aos checkpoint status``: how far the checkpoints of a world reach (spec/cli.md, C-131a)."""

from __future__ import annotations

import base64

from aos.audit.headerlog.checkpoint import Checkpoint
from aos.audit.headerlog.outside import cosigners
from aos.audit.lens.words import count
from aos.host.checkpoints.checkpoint_status import CheckpointStatus, checkpoint_status
from aos.values.digests import hash_text
from aos.values.spelling import time_text
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import line, note, print_json

NONE_OUTSIDE = 1
_SECOND_NS = 10**9


def status(*, world: World = DEFAULT_WORLD, json: Json = False) -> int:
    shown = checkpoint_status(world)
    if json:
        print_json(_document(shown))
    else:
        _show(shown)
    if shown.outside is not None:
        return 0
    note(
        "aos: no checkpoint was ever kept outside of this folder, so no one could detect that the "
        "journal was rolled back or rewritten (aos checkpoint --out FILE, and keep FILE where this "
        "machine cannot change it; or aos checkpoint --witness URL=VKEY)",
        style="yellow",
    )
    return NONE_OUTSIDE


def _document(shown: CheckpointStatus) -> dict[str, object]:
    latest, outside = shown.latest, shown.outside
    return {
        "world": hash_text(shown.world),
        "frames": shown.head.frames,
        "seq": shown.head.seq,
        "latest": None
        if latest is None
        else {
            **_place(shown, latest.checkpoint, latest.seq),
            "path": str(latest.path),
            "witnesses": _witnesses(cosigners(latest.note)),
            "timestamp": latest.is_stamped,
        },
        "outside": None
        if outside is None
        else {
            **_place(shown, outside.checkpoint, outside.seq),
            "file": outside.file,
            "time": time_text(outside.time * _SECOND_NS),
            "witnesses": _witnesses(outside.cosigned),
        },
    }


def _place(shown: CheckpointStatus, checkpoint: Checkpoint, seq: int) -> dict[str, object]:
    return {
        "frames": checkpoint.size,
        "seq": seq,
        "root": base64.b64encode(checkpoint.root).decode(),
        "frames_since": shown.head.frames - checkpoint.size,
        "records_since": shown.head.seq - seq,
    }


def _witnesses(cosigned: tuple[tuple[str, int], ...]) -> list[dict[str, object]]:
    return [{"name": name, "time": time} for name, time in cosigned]


def _show(shown: CheckpointStatus) -> None:
    head, latest, outside = shown.head, shown.latest, shown.outside
    frames = count(head.frames, "frame")
    line(f"journal: {frames}, to record {head.seq:,}", style="bold")
    if latest is None:
        line("last checkpoint: none")
    else:
        line(f"last checkpoint: {_reach(shown, latest.checkpoint, latest.seq)}: {latest.path}")
        _show_cosigned(cosigners(latest.note))
        if latest.is_stamped:
            line("  with a time-stamp")
    if outside is None:
        line("kept outside of this folder: none")
        return
    line(f"kept outside of this folder: {_reach(shown, outside.checkpoint, outside.seq)}")
    if outside.file is not None:
        line(f"  in {outside.file}, written at {time_text(outside.time * _SECOND_NS)}")
    _show_cosigned(outside.cosigned)


def _reach(shown: CheckpointStatus, checkpoint: Checkpoint, seq: int) -> str:
    since = shown.head.seq - seq
    frames = count(checkpoint.size, "frame")
    return f"{frames}, to record {seq:,}, {count(since, 'record')} written since"


def _show_cosigned(cosigned: tuple[tuple[str, int], ...]) -> None:
    for name, time in cosigned:
        line(f"  cosigned by {name} at {time_text(time * _SECOND_NS)}")
