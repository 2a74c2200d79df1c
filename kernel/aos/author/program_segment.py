"""Put a program into the interpreter of flows in Python (spec/pyflow.md, PY-10 to PY-13).

The interpreter is a module that was built before, so a project needs no compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aos.author.errors import BuildFailed
from aos.sandbox.module import Unreadable
from aos.sandbox.program_module import NoInterpreter, joined
from aos.values.cbor import encode


def with_program(interpreter: bytes, program: Mapping[str, Any]) -> bytes:
    """The interpreter with this program (PY-12), which it encodes as canonical CBOR.

    Raises:
        BuildFailed: The module is no interpreter.
    """
    value: Any = dict(program)
    try:
        return joined(interpreter, encode(value))
    except Unreadable as problem:
        raise BuildFailed(f"the interpreter is not a WASM module: {problem}") from problem
    except NoInterpreter as problem:
        raise BuildFailed(str(problem)) from problem
