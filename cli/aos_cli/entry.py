"""Entry point of ``aos``: handles Ctrl-C also while the other modules are being imported."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    try:
        from aos_cli.main import main as command  # noqa: PLC0415  # so that the except covers it

        command()
    except KeyboardInterrupt:
        sys.stderr.write("aos: interrupted\n")
        sys.exit(INTERRUPTED)
