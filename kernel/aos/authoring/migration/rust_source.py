"""Find the Rust types of a crate that have names in AIR (AU-93).

Only the attributes are read, ``#[schema("…")]`` and ``#[effect("…"``, and the name of the type that
follows. A type that a macro writes is not found; the skeleton then leaves its fields to the author.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_NAMED: Final = re.compile(
    r'#\[(?:schema|effect)\(\s*"([^"]+)"[^\]]*\]\s*'
    r"(?:(?://[^\n]*|#\[[^\]]*\])\s*)*"
    r"(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum)\s+([A-Za-z_][A-Za-z0-9_]*)"
)

SYSTEM_EFFECTS: Final[Mapping[str, str]] = {
    "sys/timer.set@1": "timer::Set",
    "sys/blob.put@1": "blob::Put",
    "sys/blob.get@1": "blob::Get",
    "sys/cron.next@1": "cron::Next",
    "sys/http.request@1": "http::Request",
}
"""The SDK's types for effects that a state may have handles of, as its prelude names them."""


def rust_types(crate: Path) -> Mapping[str, str]:
    """Name in AIR -> path of the Rust type, such as ``crate::state::Order``."""
    types = dict(SYSTEM_EFFECTS)
    source = crate / "src"
    for file in sorted(source.rglob("*.rs")):
        module = _module(file.relative_to(source))
        for name, type_ in _NAMED.findall(file.read_text("utf-8", errors="replace")):
            types.setdefault(name, f"{module}::{type_}")
    return types


def _module(file: Path) -> str:
    parts = file.with_suffix("").parts
    if parts[-1] in ("lib", "mod"):
        parts = parts[:-1]
    return "::".join(("crate", *parts))
