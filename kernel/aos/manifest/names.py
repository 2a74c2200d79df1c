"""Names of definitions: ``namespace/name@version`` (spec/manifest.md, M-10)."""

from __future__ import annotations

import re
from typing import Final

NAME: Final = re.compile(r"[a-z][a-z0-9._-]*/[A-Za-z][A-Za-z0-9._-]*@[1-9][0-9]*")
EXECUTOR_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._/@-]{0,127}")
NAME_CHARS_MAX: Final = 256

SYSTEM: Final = "sys/"
NODE: Final = "node"
"""The executor name of the world's own key."""

KERNEL: Final = "kernel"
"""Used as the executor's name of effects that the core answers itself. No executor may have it."""


def is_name(text: str) -> bool:
    return len(text) <= NAME_CHARS_MAX and NAME.fullmatch(text) is not None


def is_system(name: str) -> bool:
    """Whether the name is built in: available everywhere, never defined by a user (M-11)."""
    return name.startswith(SYSTEM)
