"""Find the demo's own files: the manifest, the shop and the orders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aos_cli
from aos.errors import Unavailable, sentence

FOLDER: Final = Path("manifests", "orders")
SHIPPED: Final = Path("demo", "shipped")
"""Where a wheel has the files, below the package ``aos_cli``."""

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
    """Find them in the checkout that this package was installed from, else in the package.

    Raises:
        Unavailable: They are in neither.
    """
    package = Path(aos_cli.__file__).resolve().parent
    folders = [root / FOLDER for root in (package.parents[1], package / SHIPPED)]
    for folder in folders:
        if all((folder / name).is_file() for name in _NEEDED):
            return Files(short(folder))
    raise Unavailable(
        sentence(
            "the demo's files are missing",
            where=str(folders[1]),
            expected=", ".join(_NEEDED),
            hint="install aos again",
        )
    )


def short(path: Path) -> Path:
    """The path relative to the current folder if it is below it, else unchanged."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
