"""Callers of a service over HTTP, each on a connection of its own.

python -m benchmarks.peers.http_load '{"port": …, "path": …, "point": {…}, "out": FILE}'
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from aos.errors import Unavailable
from benchmarks.figures import NS_PER_S, Samples, as_fields, measured

ANSWER_S: Final = 60.0
BODY: Final = b"{}"


async def measure(port: int, path: str, point: dict[str, Any]) -> dict[str, Any]:
    """POST to ``path`` from so many callers until the point is over. A 200 is a finished item.

    Raises:
        Unavailable: An answer was another one, or none came.
    """
    samples, numbers = Samples(), itertools.count()
    began_ns = time.perf_counter_ns()
    last_ns = began_ns + int((point["warm_s"] + point["seconds"]) * NS_PER_S)

    async def caller() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while (sent_ns := time.perf_counter_ns()) < last_ns:
                item = next(numbers)
                samples.sent[item] = sent_ns
                await asyncio.wait_for(_ask(reader, writer, path), ANSWER_S)
                samples.finished.append((item, time.perf_counter_ns()))
        finally:
            writer.close()
            await writer.wait_closed()

    try:
        await asyncio.gather(*(caller() for _ in range(point["in_flight"])))
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as problem:
        raise Unavailable(f"{path}: no answer: {problem!r}") from problem
    found = measured(
        samples,
        start_ns=began_ns,
        warm_s=point["warm_s"],
        seconds=point["seconds"],
        callers=point["in_flight"],
    )
    return {**point, **as_fields(found)}


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
    writer.write(
        b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (path.encode(), len(BODY), BODY)
    )
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    first, *lines = head.split(b"\r\n")
    size = 0
    for line in lines:
        name, _, value = line.partition(b":")
        if name == b"content-length":
            size = int(value)
    body = await reader.readexactly(size)
    if b" 200 " not in first:
        raise Unavailable(f"{path}: {first.decode()}: {body[:200].decode(errors='replace')}")


def main() -> None:
    given = json.loads(sys.argv[1])
    found = asyncio.run(measure(given["port"], given["path"], given["point"]))
    Path(given["out"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
