"""Run a module as a program that compiles the methods of dataclasses when they are first called
(``aos.dataclass_methods``): it starts in three quarters of the processor time.

    python -m aos.quick_program MODULE WORD...
"""

from __future__ import annotations

import sys
from runpy import run_module

from aos.dataclass_methods import late_methods
from aos.private_memory import keep_memory_private

if __name__ == "__main__":
    keep_memory_private()
    del sys.argv[0]
    with late_methods():
        run_module(sys.argv[0], run_name="__main__", alter_sys=True)
