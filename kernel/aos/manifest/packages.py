"""The modules that ship with AOS, which a manifest can contain without their definitions (M-65).

An installed wheel has the files in ``aos/library``, a checkout in ``modules``, where they are
built.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from aos.manifest.names import LINEAR_PACKAGE, WORKSPACE
from aos.manifest.schedules import SCHEDULE_PACKAGE
from aos.manifest.sealed_places import SEALED_PACKAGE

PACKAGES: Final[Mapping[str, str]] = {
    LINEAR_PACKAGE: "linear",
    SCHEDULE_PACKAGE: "schedule",
    SEALED_PACKAGE: "sealed",
}
"""The packages that ``uses`` can name, and the folder of each."""

IMPLIED: Final[Mapping[str, str]] = {WORKSPACE: "workspace"}
"""Workflows that a manifest may list or route events to without a definition (AG-54), and the
folder of each."""

_SUBSCRIPTION: Final = "subscription"
_SECTIONS: Final[Mapping[str, str]] = {
    "defschema": "schemas",
    "defmodule": "modules",
    "defworkflow": "workflows",
    "defeffect": "effects",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The definitions of a package.

    Attributes:
        definitions: Their nodes. The artifact of a module has a path next to ``file``.
        sections: The entries that a manifest lists, by section.
        files: The bytes of its modules, by path.
    """

    file: str
    definitions: tuple[dict[str, Any], ...]
    sections: Mapping[str, tuple[dict[str, str], ...]]
    subscriptions: tuple[dict[str, Any], ...]
    files: Mapping[str, bytes]


@cache
def package(name: str) -> Package:
    """The package with this name, or of this implied workflow. Raises KeyError if there is none."""
    folder = {**PACKAGES, **IMPLIED}[name]
    root = _library() / folder
    nodes: list[dict[str, Any]] = json.loads((root / f"{folder}.nodes.json").read_text("utf-8"))
    definitions = [node for node in nodes if node["$kind"] != _SUBSCRIPTION]
    files: dict[str, bytes] = {}
    for node in definitions:
        if node["$kind"] == "defmodule":
            node["runtime"]["artifact"]["path"] = f"{folder}.wasm"
            files[f"{name}/{folder}.wasm"] = (root / f"{folder}.wasm").read_bytes()
    entries_by_section: dict[str, list[dict[str, str]]] = {
        section: [] for section in _SECTIONS.values()
    }
    for node in definitions:
        entries_by_section[_SECTIONS[node["$kind"]]].append({"name": node["name"]})
    return Package(
        file=f"{name}/{folder}.air.json",
        definitions=tuple(definitions),
        sections=MappingProxyType(
            {section: tuple(entries) for section, entries in entries_by_section.items()}
        ),
        subscriptions=tuple(
            {field: value for field, value in node.items() if field != "$kind"}
            for node in nodes
            if node["$kind"] == _SUBSCRIPTION
        ),
        files=MappingProxyType(files),
    )


def _library() -> Path:
    this_file = Path(__file__).resolve()
    installed = this_file.parents[1] / "library"
    return installed if installed.is_dir() else this_file.parents[3] / "modules"
