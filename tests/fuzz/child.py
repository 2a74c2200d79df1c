"""The process that atheris owns: ``python -m tests.fuzz.child NAME PROGRAM LIBFUZZER-ARGUMENT…``.

``PROGRAM`` is how the fuzzer starts itself again when it compares inputs.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

if __name__ == "__main__":
    # Not among the development tools, so a type checker may not find it.
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=["aos"], enable_loader_override=False):
        from tests.fuzz.targets import find

        target = find(sys.argv[1])
    list(target.seeds())  # builds the cached objects before the time limit starts
    atheris.Setup(sys.argv[2:], target.target)
    atheris.Fuzz()
