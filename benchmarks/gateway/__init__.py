"""The cost of the gateway: lanes, signers, works. See ../README.md.

The modules of manifests/gateway are no package: their folder is a path.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
MANIFEST: Final = ROOT / "manifests" / "gateway"

if str(MANIFEST) not in sys.path:
    sys.path.insert(0, str(MANIFEST))
