"""Several sites that share the runs among them, each on a thread of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.gateway.matrix.runs import Result, Run, perform
from tests.gateway.matrix.site import Site


class Crew:
    """``sites`` sites in a folder. As a context manager, it ends them at the end."""

    def __init__(self, folder: Path, *, sites: int) -> None:
        self.folder = folder
        self._stack = ExitStack()
        cache = Path(os.environ.get("AOS_CACHE_DIR") or folder / "cache")
        self._sites = [
            self._stack.enter_context(Site(folder / f"site-{each}", cache)) for each in range(sites)
        ]
        self._lock = threading.Lock()

    def perform(
        self,
        runs: Sequence[Run],
        *,
        on_result: Callable[[Result], None] = lambda _: None,
        enough: Callable[[Sequence[Result]], bool] = lambda _: False,
    ) -> list[Result]:
        """Perform the runs, and return their results in this order, without those that were left
        out because the results were ``enough`` before."""
        waiting = list(enumerate(runs))
        results: dict[int, Result] = {}

        def work(site: Site) -> None:
            while True:
                with self._lock:
                    if not waiting or enough(list(results.values())):
                        return
                    place, run = waiting.pop(0)
                result = perform(site, run)
                with self._lock:
                    results[place] = result
                    on_result(result)

        with ThreadPoolExecutor(len(self._sites)) as pool:
            try:
                for done in [pool.submit(work, site) for site in self._sites]:
                    done.result()
            finally:
                with self._lock:
                    waiting.clear()  # after a Ctrl-C: the runs in progress are the last ones
        return [results[each] for each in sorted(results)]

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
