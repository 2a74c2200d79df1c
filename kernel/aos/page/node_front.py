"""The program of a node's front with the page at ``/`` (spec/page.md, PG-50).

    python -m aos.page.node_front

It is ``aos.node.front`` with further paths.
"""

from __future__ import annotations

import sys

from aos.node.front import main
from aos.page.node_page import mounted
from aos.private_memory import keep_memory_private

if __name__ == "__main__":
    keep_memory_private()
    sys.exit(main(mounted))
