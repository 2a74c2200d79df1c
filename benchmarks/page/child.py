"""Work on one world in a separate process, so that its time and memory are measured alone.

    python -m benchmarks.page.child '{"do": "fill", "path": …, "out": FILE}'

``do``: fold (records into a state, as a restart does without a snapshot), fill (an index of the
world in the cache), ask (pages of each kind, one after the other), look (ten readers, each with a
page a second, until it is ended). It writes the results to ``out`` as JSON.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from aos.core.state.fold import fold_frame
from aos.host.folder.folder import open_folder
from aos.host.folder.reader import open_reader
from aos.read.index.cached_index import folder_for, index_cache
from aos.read.index.world_index import WorldIndex
from aos.store.stored_world import empty_state
from aos.values.cbor import encode
from benchmarks.figures import percentile
from benchmarks.memory import peaks, rss_anon_mib
from benchmarks.workloads import cell_name

Json = dict[str, Any]

WORKFLOW: Final = "bench/keeper@1"
SEED: Final = 18
LOOK_S: Final = 1.0
TIMEOUT_S: Final = 60.0


def fold(given: Json) -> Json:
    """Fold the first records, as many as ``records`` at most, without a snapshot."""
    store = open_folder(Path(given["path"])).open_store(readonly=True)
    state = empty_state(store)
    began = time.process_time()
    for frame in store.frames(1, min(given["records"], store.head().seq)):  # type: ignore[union-attr]
        fold_frame(state, frame, store.blob)
    seconds = time.process_time() - began
    records = state.next_seq - 1
    store.close()
    return {"records": records, "cpu_s": seconds, "rate": records / seconds}


def fill(given: Json) -> Json:
    """Make the index of a world in the cache that the environment names."""
    cache = index_cache()
    assert cache is not None, "the environment names a cache"
    with open_reader(Path(given["path"])) as reader:
        before_mib = rss_anon_mib()
        began = time.process_time()
        opened = WorldIndex.open(folder_for(cache, reader.store), reader.store, print)
        assert opened is not None, "another process writes it"
        with peaks() as peak, opened as index:
            while not index.advance(reader.state):
                pass
            seconds = time.process_time() - began
            size = index.size_bytes()
        return {
            "records": reader.seq,
            "cpu_s": seconds,
            "rate": reader.seq / seconds,
            "bytes": size,
            "before_mib": before_mib,
            "own_mib": peak.own,
        }


class Places:
    """Addresses of pages of a world, at random places."""

    def __init__(self, base: str, cells: int, records: int) -> None:
        self._base = base
        self._cells = cells
        self._records = records
        self._chosen = random.Random(SEED)

    def _cell(self) -> str:
        return cell_name(self._chosen.randrange(self._cells))

    def _record(self) -> int:
        return self._chosen.randrange(1, self._records + 1)

    def _segment(self) -> str:
        data = base64.urlsafe_b64encode(encode(self._cell())).decode().rstrip("=")
        return f"{WORKFLOW}/{data}"

    def kinds(self, moments: list[int]) -> dict[str, Callable[[], str]]:
        """Each kind of page with a function that chooses one of its addresses. ``moments`` are
        times at which cells were active."""

        def key() -> str:
            return f"{WORKFLOW} {encode(self._cell()).hex()}".replace(" ", "+")

        found: dict[str, Callable[[], str]] = {
            "overview": lambda: "/",
            "cells by key": lambda: f"/cells?after=0+{key()}",
            "cells by beginning": lambda: f"/cells?key_prefix={self._cell()[:-2]}",
            "cells by status": lambda: f"/cells?status=running&after=0+{key()}",
            "cells by activity": lambda: (
                f"/cells?sort=activity&after=-{self._chosen.choice(moments)}+{key()}"
            ),
            "cell": lambda: f"/cell/{self._segment()}",
            "trace of a cell": lambda: f"/trace/{self._segment()}",
            "trace of a record": lambda: f"/trace/{self._record()}",
            "record": lambda: f"/record/{self._record()}",
            "journal": lambda: f"/journal?from={self._record()}",
            "effects": lambda: "/intents?status=all",
            "faults": lambda: "/faults",
        }
        return {name: partial(self._below, make) for name, make in found.items()}

    def _below(self, make: Callable[[], str]) -> str:
        return self._base + make()

    def moments(self, client: httpx.Client) -> list[int]:
        """Times at which some cells were active."""
        found = []
        for _ in range(20):
            answer = client.get(f"{self._base}/cells.json?key_prefix={self._cell()}&limit=1")
            found += [each["last_active_ns"] for each in answer.json()["cells"]]
        return found


def ask(given: Json) -> Json:
    """Ask for so many pages of each kind, one after the other."""
    with httpx.Client(base_url=given["url"], timeout=TIMEOUT_S, trust_env=False) as client:
        [world] = client.get("/.json").json()["worlds"]
        base = str(world["address"]).rstrip("/")
        places = Places(base, given["cells"], world["records"])
        pages = []
        for name, address in places.kinds(places.moments(client)).items():
            client.get(address())  # so that the reader processes have started
            times, sizes, refused = [], [], 0
            for _ in range(given["requests"]):
                began = time.perf_counter()
                answer = client.get(address())
                times.append((time.perf_counter() - began) * 1000)
                sizes.append(len(answer.content))
                refused += answer.status_code != 200
            pages.append(
                {
                    "page": name,
                    "p50_ms": percentile(times, 0.5),
                    "p95_ms": percentile(times, 0.95),
                    "bytes": max(sizes),
                    "refused": refused,
                }
            )
        static = [client.get(f"/static/{name}") for name in ("page.css", "page.js")]
        size = sum(len(each.content) for each in static if each.status_code == 200)
        return {
            "cells": given["cells"],
            "records": world["records"],
            "pages": pages,
            "static": size,
        }


async def look(given: Json) -> None:
    """Show pages to readers, one a second to each, until this process is ended."""
    chosen = random.Random(SEED)
    async with httpx.AsyncClient(
        base_url=given["url"], timeout=TIMEOUT_S, trust_env=False
    ) as client:
        [world] = (await client.get("/.json")).json()["worlds"]
        base = str(world["address"]).rstrip("/")

        async def reader(number: int) -> None:
            await asyncio.sleep(number * LOOK_S / given["readers"])
            while True:
                began = time.monotonic()
                record = chosen.randrange(1, world["records"] + 1)
                path = chosen.choice(("/", "/cells", "/cells?sort=activity", f"/trace/{record}"))
                answer = await client.get(base + path)
                assert answer.status_code in (200, 429, 503), answer.text
                await asyncio.sleep(max(0.0, LOOK_S - (time.monotonic() - began)))

        await asyncio.gather(*(reader(number) for number in range(given["readers"])))


_DO: Final[dict[str, Callable[[Json], Json]]] = {"fold": fold, "fill": fill, "ask": ask}


def run(given: Json) -> Json:
    """Do what is asked for."""
    return _DO[given["do"]](given)


def main() -> None:
    given = json.loads(sys.argv[1])
    if given["do"] == "look":
        asyncio.run(look(given))
    else:
        Path(given["out"]).write_text(json.dumps(run(given)))


if __name__ == "__main__":
    main()
