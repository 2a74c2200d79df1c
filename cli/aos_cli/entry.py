"""Entry point of ``aos``: handles Ctrl-C also while the other modules are being imported."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aos.errors import Unavailable
from aos.private_memory import keep_memory_private
from aos.process_limits import check_limits

INTERRUPTED = 130
COMPLETE: Final = "--complete"
"""The first word of the command line with which a shell asks for completions (C-14)."""

GC_THRESHOLDS: Final = (100_000, 20, 100)
"""A small command ends before it has made so many objects."""


def main() -> None:
    keep_memory_private()
    try:
        check_limits()
        with _rare_collections():
            if sys.argv[1:2] == [COMPLETE]:
                from aos_cli.completion import print_candidates  # noqa: PLC0415  # without a parser

                print_candidates(sys.argv[2:])
                return
            from aos.dataclass_methods import late_methods  # noqa: PLC0415  # made below only

            with late_methods():
                from aos_cli.main import main as command  # noqa: PLC0415  # the except covers it

                command()
    except Unavailable as problem:
        sys.stderr.write(f"aos: {problem}\n")
        sys.exit(problem.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("aos: interrupted\n")
        sys.exit(INTERRUPTED)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect cycles rarely, and not at all when the process ends (C-12).

    Imports make many objects and few cycles. With the usual thresholds, a small command spends a
    fifth of its time searching them, half of it while the interpreter shuts down.
    """
    previous_thresholds = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*previous_thresholds)


if __name__ == "__main__":
    try:
        main()
    finally:
        # Python keeps a mark of a Ctrl-C within an ``exec`` of text, such as one that makes a
        # dataclass, and then ends a process of ``python -m`` by the signal, whatever its exit code
        # is. The next ``exec`` of text removes the mark.
        exec("")  # noqa: S102
