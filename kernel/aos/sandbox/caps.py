"""What a module may be at most (spec/sandbox.md, S-10 and S-11).

These bound what the engine allocates and how long it compiles, so they are part of the product and
not of any manifest. Sizes are bytes unless the name says otherwise.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

PAGE_BYTES: Final = 64 * KIB
"""One page of WASM memory."""

MODULE_BYTES_MAX: Final = 8 * MIB
BODY_BYTES_MAX: Final = 128 * KIB
"""The code of one function, its local declarations included."""
LOCALS_MAX: Final = 1024
"""Declared locals of one function, its parameters not counted."""

MEMORY_BYTES_MAX: Final = GIB
"""The most that any step may be given; each step's own limit is in its call."""
MEMORIES_MAX: Final = 1
TABLES_MAX: Final = 8
TABLE_ELEMENTS_MAX: Final = 65_536
"""Elements of one table."""

PANIC_BYTES_MAX: Final = 512
"""The words of one panic, in UTF-8."""

ENTRIES_MAX: Final = 400_000
"""Declarations of one module in all: types and their parameters, functions, groups of locals,
globals, exports, segments and the elements in them, sections. A compiler's largest output under
``MODULE_BYTES_MAX`` has a quarter of it."""
