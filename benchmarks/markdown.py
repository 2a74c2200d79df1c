"""Words and numbers -> the Markdown of ``RESULTS.md``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

NOTHING: Final = "-"

Json = Mapping[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def about(found: Json) -> str:
    """The machine and the moment that figures belong to."""
    machine, versions = found["machine"], found.get("versions", {})
    first = (
        f"{machine['cpus']} x {machine['cpu']}, {machine['memory_gib']} GiB, {machine['system']}; "
        f"{machine['file_system']}, where 4 KiB are written and synced in {machine['sync_ms']} ms; "
        f"load before the run {machine['load_before']}. {machine['python']}, wasmtime "
        f"{machine['wasmtime']}, LMDB {machine['lmdb']}; commit {machine['commit']}; "
        f"{found['at']}, {found['seconds']} s."
    )
    more = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{first} {more}." if more else first


def spread(found: Json | None) -> str:
    return NOTHING if found is None else f"{found['p50']:.1f}, {found['p99']:.1f}"


def times(found: float | None) -> str:
    return NOTHING if found is None else f"{found:.2f}"
