"""Programs of the repository that have no suffix, as modules."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any


def script_at(path: Path) -> Any:
    """The script as a module; its name is that of its path."""
    loader = SourceFileLoader(path.as_posix().strip("/").replace("/", "_"), str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    # It has no suffix, so Python would write its byte code next to it.
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module
