"""The names that ``node.toml`` gives to paths of states, for conditions (spec/search.md, SE-21)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def search_names(world: Path) -> Mapping[str, Mapping[str, str]]:
    """The names by workflow. Raises: BadUsage: ``node.toml`` is invalid."""
    # Most lists have no condition, and need none of the node.
    from aos.node.node_settings import read_settings  # noqa: PLC0415

    return read_settings(world).search
