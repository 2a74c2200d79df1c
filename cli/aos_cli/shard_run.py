"""Run one shard of a group; ``aos run`` on a group starts this program (spec/groups.md, GR-60).

    python -m aos_cli.shard_run run --world DIR/000 …

Its arguments are those of ``aos``. Once stdin ends, the world stops in order, as after SIGTERM; so
it does if the process of the group is killed.
"""

from __future__ import annotations

import os
import signal
import threading

from aos.private_memory import keep_memory_private
from aos_cli.entry import main as entry_main


def main() -> None:
    """Run the command line; the process ends with its exit code."""
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    entry_main()


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    keep_memory_private()
    main()
