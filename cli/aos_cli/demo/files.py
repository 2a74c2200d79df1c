"""Find the demo's own files in a checkout: the manifest, the shop and the orders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aos_cli
from aos.errors import BadUsage, sentence

FOLDER: Final = Path("manifests", "orders")
_NEEDED: Final = (
    "air/generated.air.json",
    "service.py",
    "make_orders.py",
    "effects.py",
    "books.py",
)


@dataclass(frozen=True, slots=True)
class Files:
    """Paths below ``manifests/orders``, relative if they are below the current folder."""

    folder: Path

    @property
    def manifest(self) -> Path:
        return self.folder

    @property
    def service(self) -> Path:
        return self.folder / "service.py"

    @property
    def make_orders(self) -> Path:
        return self.folder / "make_orders.py"

    @property
    def books(self) -> Path:
        return self.folder / "books.py"

    @property
    def executors(self) -> str:
        """The value for ``aos run --executors``."""
        return f"{self.folder / 'effects.py'}:shop"


def find_files() -> Files:
    """Find them in the checkout that this package was installed from.

    Raises:
        BadUsage: The package was not installed from a checkout.
    """
    checkout = Path(aos_cli.__file__).resolve().parents[2]
    folder = checkout / FOLDER
    missing = [name for name in _NEEDED if not (folder / name).is_file()]
    if missing:
        raise BadUsage(
            sentence(
                "the demo's files are not here",
                where=str(folder),
                expected=missing[0],
                hint="the demo runs from a checkout of the repository: make demo",
            )
        )
    return Files(short(folder))


def short(path: Path) -> Path:
    """The path relative to the current folder if it is below it, else unchanged."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
