"""Where the ``aos`` command begins: Ctrl-C is heard while everything else is still imported."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    try:
        from aos_cli.main import main as command  # noqa: PLC0415  # within reach of the except

        command()
    except KeyboardInterrupt:
        sys.stderr.write("aos: interrupted\n")
        sys.exit(INTERRUPTED)
