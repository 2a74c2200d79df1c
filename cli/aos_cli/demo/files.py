"""Find the files of a demo: its manifest and its programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aos_cli
from aos.errors import Unavailable

FOLDER: Final = Path("manifests", "orders")
SHIPPED: Final = Path("demo", "shipped")
"""Where a wheel has the files, below the package ``aos_cli``."""

_NEEDED: Final = (
    "air/generated.air.json", "service.py", "make_orders.py", "effects.py", "books.py",
    "python/aos.toml", "python/flow.py", "python/air/ledger.air.json",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Files:
    """Paths below ``manifests/orders``, relative if they are below the current folder."""

    folder: Path

    @property
    def manifest(self) -> Path:
        return self.folder

    @property
    def python_project(self) -> Path:
        """The project with the order workflow as a flow in Python."""
        return self.folder / "python"

    @property
    def ledger(self) -> Path:
        """The module of the ledger, in the folder around ``manifests``."""
        return self.folder.parents[1] / "modules" / "ledger" / "ledger.wasm"

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
    """Find the files of the orders, in the checkout that this package was installed from, else in
    the package. Raises Unavailable as ``find_folder``."""
    package = Path(aos_cli.__file__).resolve().parent
    return Files(find_folder((package.parents[1] / FOLDER, package / SHIPPED / FOLDER), _NEEDED))


def find_folder(folders: Sequence[Path], names: Sequence[str]) -> Path:
    """Find the first of ``folders`` that has all files of ``names``.

    Raises:
        Unavailable: None has them; the last one should have been installed.
    """
    for candidate in folders:
        if all((candidate / name).is_file() for name in names):
            return short(candidate)
    raise Unavailable(
        "the demo's files are missing",
        location=str(folders[-1]),
        expected=", ".join(names),
        hint="install aos again",
    )


def short(path: Path) -> Path:
    """The path relative to the current folder if it is below it, else unchanged."""
    current_folder = Path.cwd()
    return path.relative_to(current_folder) if path.is_relative_to(current_folder) else path
