"""Tests of the gateway. The modules of manifests/gateway are no package: their folder is a path."""

from __future__ import annotations

import sys
from pathlib import Path

GATEWAY = Path(__file__).resolve().parents[2] / "manifests" / "gateway"

if str(GATEWAY) not in sys.path:
    sys.path.insert(0, str(GATEWAY))
