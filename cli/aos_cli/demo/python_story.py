"""The demo with the order workflow in Python: a flow, which the demo builds before its world."""

from __future__ import annotations

import shutil
from pathlib import Path

from aos.errors import Unavailable
from aos_cli.demo.files import Files
from aos_cli.demo.processes import Children, aos
from aos_cli.demo.stages import LAST_TWO
from aos_cli.demo.story import Story
from aos_cli.output import line

PROJECT = "orders"
"""The folder of the project, in the folder of the demo."""


class PythonStory(Story):
    """As ``Story``, but the order workflow is the flow of ``manifests/orders/python``. The demo
    copies this project, with the module of the ledger, and builds it."""

    def __init__(
        self, files: Files, folder: Path, children: Children, *, orders: int, seed: int
    ) -> None:
        super().__init__(files, folder, children, orders=orders, seed=seed)
        self._manifest = folder / PROJECT

    def tell(self) -> None:
        self._time("build", self._build)
        super().tell()

    def _build(self) -> None:
        self._title("The order workflow, a flow in Python: one module, without a compiler")
        copy_project(self._files, self._manifest)
        line(f"$ cp -r {self._files.python_project} {self._manifest}", style="cyan")
        line(f"$ cp {self._files.ledger} {self._manifest}", style="cyan")
        self._must(aos("build", self._manifest), lines_shown=LAST_TWO)


def copy_project(files: Files, folder: Path) -> None:
    """Copy the project to a new folder, without the files of a build, and the ledger into it.

    Raises:
        Unavailable: A file cannot be read or written.
    """
    try:
        built = shutil.ignore_patterns("build", "generated.air.json", "__pycache__")
        shutil.copytree(files.python_project, folder, ignore=built)
        shutil.copy(files.ledger, folder)
    except (OSError, shutil.Error) as error:
        raise Unavailable(f"{folder}: the project cannot be copied: {error}") from error
