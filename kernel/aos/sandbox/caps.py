"""Fixed limits of a module (spec/sandbox.md, S-10 and S-11).

They bound the engine's memory and compile time, so they are constants and not part of a manifest.
Sizes are bytes unless the name says otherwise.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

PAGE_BYTES: Final = 64 * KIB
"""One page of WASM memory."""

MODULE_BYTES_MAX: Final = 8 * MIB
"""Maximum size of a module without its custom sections, which no code is compiled from."""
FILE_BYTES_MAX: Final = 64 * MIB
"""Maximum size of a module with its custom sections: names, and what debuggers read."""
BODY_BYTES_MAX: Final = 128 * KIB
"""Maximum size of one function's code, with its local declarations."""
LOCALS_MAX: Final = 1024
"""Maximum number of declared locals of one function, without its parameters."""

MEMORY_BYTES_MAX: Final = GIB
"""The largest memory limit that a step may have; the call has the actual limit."""
MEMORIES_MAX: Final = 1
TABLES_MAX: Final = 8
TABLE_ELEMENTS_MAX: Final = 65_536
"""Maximum number of elements of one table."""

PANIC_BYTES_MAX: Final = 512
"""Maximum length of a panic message, in UTF-8."""

ENTRIES_MAX: Final = 400_000
"""Maximum number of declarations of one module: types and their parameters, functions, groups of
locals, globals, exports, segments and their elements, sections. The largest compiler output under
``MODULE_BYTES_MAX`` has a quarter of that."""
