"""Write the types of the built-in schemas for the core in Rust: ``python -m
tests.fastcore.builtin_definitions``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from aos.manifest.builtin_definitions import SCHEMAS
from aos.values.cbor import encode

FILE: Final = Path(__file__).parents[2] / "kernel/rust-core/src/manifest/builtin_definitions.cbor"


def content() -> bytes:
    """A map of the schemas' names to their type expressions, as canonical CBOR."""
    types: dict[str | int, Any] = {name: node["type"] for name, node in SCHEMAS.items()}
    return encode(types)


if __name__ == "__main__":
    FILE.write_bytes(content())
