"""The vectors of a log: entries, parts, and a stream with those that count (spec/log.md, LG-42).

python -m tests.store.log.log_vectors      rewrites spec/vectors/log.json
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from aos.core.journal.frame import Tip, seal
from aos.store.log.entry import EntryPart, FramesEntry, LogEntry, parts_of
from aos.values.digests import content_hash
from tests.store.log.nodes import KEY, OTHER_KEY, WORLD, blobs_after, frames_after

PATH: Final = Path(__file__).parents[3] / "spec" / "vectors" / "log.json"
PART_BYTES: Final = 256
COMMENT: Final = (
    "One log, byte for byte (spec/log.md). All bytes are hex. A reader of `stream` from the origin "
    "of the world on finds the entries `counts`, in this order."
)


def stream_entries() -> list[tuple[str, LogEntry]]:
    """The entries of the stream, with a word for each."""
    origin = Tip(world=WORLD)
    first = frames_after(origin, b"record 1", b"record 2")
    tip = origin
    for frame in first.frames:
        _, tip = seal(tip, frame.records, frame.salt)
    second = frames_after(tip, b"record 3")
    noted = FramesEntry(
        frames=second.frames, head=second.head, blobs=(b"value",), notes={3: "words for people"}
    )
    return [
        ("counts", first),
        ("another key has signed it", frames_after(tip, b"foreign", key=OTHER_KEY)),
        ("counts", blobs_after(tip, b"slice 1", b"slice 2")),
        ("counts", noted),
        ("it is on an old tip", frames_after(tip, b"rival")),
        ("it is for an old place", blobs_after(tip, b"late")),
    ]


def vectors() -> dict[str, Any]:
    """The content of the file."""
    rows, stream, counts = [], [], []
    for word, entry in stream_entries():
        data = entry.to_bytes()
        parts = parts_of(data, PART_BYTES)
        rows.append({"entry_hex": data.hex(), "name_hex": content_hash(data).hex(), "word": word})
        if word == "counts":
            counts.append(content_hash(data).hex())
        if len(parts) > 1:
            stream.append(message(parts[0]))  # half an entry
        stream += [message(part) for part in parts]
    return {
        "$comment": COMMENT,
        "world": WORLD.hex(),
        "world_key": KEY.verify_key.encode().hex(),
        "entries": rows,
        "stream": stream,
        "counts": counts,
    }


def message(part: EntryPart) -> dict[str, str]:
    """A message with its headers."""
    return {"Aos-Entry": part.entry.hex(), "Aos-Part": part.header, "data_hex": part.data.hex()}


def main() -> None:
    """Rewrite the file."""
    PATH.write_text(json.dumps(vectors(), indent=1) + "\n")


if __name__ == "__main__":
    main()
