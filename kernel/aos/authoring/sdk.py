"""Where the SDKs are, to be copied into a project (spec/authoring.md, AU-22)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aos.errors import Unavailable

FOLDERS: Final[Mapping[str, str]] = {"rust": "sdk-rust", "assemblyscript": "sdk-assemblyscript"}

LEFT_OUT: Final = (
    "target", "node_modules", "build", "tests", "examples", "__pycache__", ".*", "*.wasm",
)  # fmt: skip
"""What a checkout may have in it that no project needs."""


def sdk_folder(lang: str) -> Path:
    """The SDK of a language: in the installed package, or in the checkout around it.

    Raises:
        Unavailable: It is in neither.
    """
    here = Path(__file__).resolve()
    places = (here.parent / "sdk" / FOLDERS[lang], here.parents[3] / "modules" / FOLDERS[lang])
    for place in places:
        if place.is_dir():
            return place
    raise Unavailable(
        f"the SDK of {lang} is not in this installation: expected {places[0]} (install aos again)"
    )


def copy_sdk(lang: str, folder: Path) -> None:
    """Copy the SDK of a language into a new folder."""
    shutil.copytree(sdk_folder(lang), folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
