"""Run a command of `aos` in a terminal of 200 columns, and print what the terminal shows.

python -m tests.transcripts.wide trace subscription s-1
"""

from __future__ import annotations

import os
import sys

from tests.cli.terminal import Terminal

COLUMNS = 200

if __name__ == "__main__":
    world = os.environ.get("AOS_WORLD", ".aos")
    terminal = Terminal(*sys.argv[1:], columns=COLUMNS, AOS_WORLD=world)
    sys.stdout.write(terminal.plain)
    sys.exit(terminal.code)
