from __future__ import annotations

from tests.host.conftest import template, world

__all__ = ["template", "world"]
