"""Put the compiled kernel into a wheel if ``AOS_COMPILED=1`` (CO-1a).

The wheel is then for one version of Python on one platform. Otherwise, and for an editable
installation, the hook does nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ENVIRONMENT: Final = "AOS_COMPILED"


class CompiledKernel(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        if not is_asked_for():
            return []
        # The compiler reads the types of what the kernel imports.
        return [*self.metadata.core.dependencies, "mypy>=2.4", "setuptools>=75"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not is_asked_for() or version == "editable":
            return
        # The checkout that is built, of which this file is a part.
        sys.path.insert(0, str(Path(self.root) / "kernel"))
        try:
            from compiling.building import build  # noqa: PLC0415  # it is on the path from here on
        finally:
            sys.path.pop(0)
        folder = self._folder()
        build(folder)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for path in sorted(folder.rglob("*.so")):
            build_data["force_include"][str(path)] = str(path.relative_to(folder))

    def finalize(self, *_: object) -> None:
        shutil.rmtree(self._folder(), ignore_errors=True)

    def _folder(self) -> Path:
        return Path(self.root) / "build" / "wheel"


def is_asked_for() -> bool:
    return os.environ.get(ENVIRONMENT) == "1"
