"""Every fuzz target by name.

A target is a plain function of bytes; the first line of its docstring is what must hold for all of
them. It returns nothing, and whatever it raises is a finding. Its file also has ``seeds``, good and
nearly good inputs to begin with; ``TOKENS``, bytes that mean something; and ``RUNS``, how many
altered seeds the tests try.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol, cast

CORPUS: Final = Path(__file__).parent / "corpus"

FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "decoder": "decoder",
        "manifest": "manifests",
        "output": "guest_output",
        "receipts": "receipts",
        "journal": "journal",
        "verify": "verifier",
        "bundle": "bundles",
        "messages": "messages",
        "module": "modules",
    }
)


class Target(Protocol):
    """A file of this folder."""

    RUNS: int
    TOKENS: Sequence[bytes]

    def target(self, data: bytes, /) -> None: ...

    def seeds(self) -> Iterator[bytes]: ...


def find(name: str) -> Target:
    """Import a target. Raises ``KeyError`` for a name that is none."""
    return cast("Target", import_module(f"tests.fuzz.{FILES[name]}"))


def kept(name: str) -> list[bytes]:
    """Inputs that a fuzzer found to be worth keeping: ``corpus/NAME.hex``, one a line."""
    file = CORPUS / f"{name}.hex"
    if not file.exists():
        return []
    return [bytes.fromhex(line) for line in file.read_text("ascii").splitlines()]


def beginning(name: str) -> list[bytes]:
    """All inputs that fuzzing starts from, each once."""
    return list(dict.fromkeys([*find(name).seeds(), *kept(name)]))
