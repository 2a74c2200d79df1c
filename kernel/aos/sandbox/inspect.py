"""Check a module's bytes and entrypoints, and return its problems as sentences.

Our own rules come first. They read only the declarations, so that the engine validates only modules
of bounded size. The engine then checks every instruction against the allowed features. Compiling is
a third gate (``aos.sandbox.trial``): a valid module can still be too expensive to compile.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Final

import wasmtime

from aos.errors import Refused, sentence
from aos.sandbox.caps import (
    BODY_BYTES_MAX,
    FILE_BYTES_MAX,
    LOCALS_MAX,
    MEMORIES_MAX,
    MEMORY_BYTES_MAX,
    MODULE_BYTES_MAX,
    PAGE_BYTES,
    TABLE_ELEMENTS_MAX,
    TABLES_MAX,
)
from aos.sandbox.config import LIVE_STACK_BYTES, build_engine
from aos.sandbox.form import Form
from aos.sandbox.module import (
    MAGIC,
    ModuleExport,
    Outline,
    Unreadable,
    compiled_part,
    outline,
)
from aos.sandbox.show import printable
from aos.values.errors import quoted

ALLOC_TYPE: Final = "(i32) -> i32"
PANIC_EXPORT: Final = "aos_panic"
FORMS: Final = {form.value: form for form in Form}

_PROBLEMS_MAX: Final = 32
_CAUSE_MAX: Final = 500
_NUMBERING: Final = re.compile(r"^\d+: ")


class ModuleRefused(Refused):
    """A module is refused. ``problems`` has every reason that was found."""

    def __init__(self, module: str, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(sentence("; ".join(self.problems), where=f"module {module}"))


def check_module(
    wasm: bytes, entrypoints: Iterable[str], *, memory_bytes: int = MEMORY_BYTES_MAX
) -> list[str]:
    """Return the problems that are known without compiling. ``memory_bytes``: the step's limit."""
    found, problems = survey(wasm, entrypoints, memory_bytes=memory_bytes)
    if found is not None:
        problems += _engine_problems(compiled_part(wasm))
    if len(problems) > _PROBLEMS_MAX:
        more = len(problems) - _PROBLEMS_MAX
        problems = [*problems[:_PROBLEMS_MAX], f"and {more} problems more"]
    return problems


def survey(
    wasm: bytes, entrypoints: Iterable[str], *, memory_bytes: int = MEMORY_BYTES_MAX
) -> tuple[Outline | None, list[str]]:
    """Check only our own rules. Return the outline, if it can be read, and the problems."""
    if len(wasm) > FILE_BYTES_MAX:
        expected = f"at most {FILE_BYTES_MAX} bytes"
        return None, [sentence("the file is too large", expected=expected, found=f"{len(wasm)}")]
    wasm = compiled_part(wasm)
    if len(wasm) > MODULE_BYTES_MAX:
        expected = f"at most {MODULE_BYTES_MAX} bytes without custom sections"
        return None, [sentence("the module is too large", expected=expected, found=f"{len(wasm)}")]
    try:
        found = outline(wasm)
    except Unreadable as problem:
        # The engine's message may name the feature. Of other bytes it has nothing to say.
        more = _engine_problems(wasm) if wasm.startswith(MAGIC) else []
        return None, [f"the module cannot be read: {problem}", *more]
    problems = [
        *_import_problems(found),
        *export_problems(found, entrypoints),
        *_size_problems(found, memory_bytes),
    ]
    return found, problems


def _import_problems(found: Outline) -> Iterable[str]:
    for item in found.imports:
        yield sentence(
            f"the module imports the {item.kind} {quoted(item.name)} from {quoted(item.module)}",
            expected="no imports",
            hint="a module gets everything in its input and asks for effects in its output",
        )
    if found.has_start:
        yield sentence(
            "the module has a start function",
            expected="none",
            hint="nothing runs before the entrypoint; link as a reactor, without _start",
        )


def export_problems(found: Outline, entrypoints: Iterable[str]) -> Iterable[str]:
    """The problems of the exports that a sandbox calls."""
    memory = found.exports.get("memory")
    if memory is None or memory.kind != "memory":
        yield _misfit("memory", "a memory", memory)
    alloc = found.exports.get("alloc")
    if alloc is None or alloc.type != ALLOC_TYPE:
        yield _misfit("alloc", f"a function {ALLOC_TYPE}", alloc)
    for name in entrypoints:
        export = found.exports.get(name)
        if export is None or export.type not in FORMS:
            yield _misfit(name, f"a function {' or '.join(FORMS)}", export)


def panic_address(found: Outline) -> int | None:
    """The address at which a module puts its panic message (S-47). None without one: an export of
    another kind with that name is ignored."""
    export = found.exports.get(PANIC_EXPORT)
    return None if export is None else export.value


def _misfit(name: str, expected: str, export: ModuleExport | None) -> str:
    if export is None:
        shown = "no such export"
    elif export.type is None:
        shown = f"a {export.kind}"
    else:
        shown = f"a function {export.type}"
    return sentence(f"export {quoted(name)}", expected=expected, found=shown)


def _size_problems(found: Outline, memory_bytes: int) -> Iterable[str]:
    if len(found.memories) > MEMORIES_MAX:
        yield sentence(
            "the module has several memories", expected="one", found=f"{len(found.memories)}"
        )
    for pages in found.memories:
        if pages * PAGE_BYTES > memory_bytes:
            yield sentence(
                "the module's memory begins larger than a step may have",
                expected=f"at most {memory_bytes // PAGE_BYTES} pages of {PAGE_BYTES} bytes",
                found=f"{pages}",
            )
    if len(found.tables) > TABLES_MAX:
        yield sentence(
            "the module has too many tables",
            expected=f"at most {TABLES_MAX}",
            found=f"{len(found.tables)}",
        )
    for elements in found.tables:
        if elements > TABLE_ELEMENTS_MAX:
            yield sentence(
                "a table begins too large",
                expected=f"at most {TABLE_ELEMENTS_MAX} elements",
                found=f"{elements}",
            )
    for body in found.large_bodies:
        if body.size > BODY_BYTES_MAX:
            yield sentence(
                f"the code of function {body.function} is too large",
                expected=f"at most {BODY_BYTES_MAX} bytes",
                found=f"{body.size}",
                hint="split the function, or compile with less inlining",
            )
        if body.locals > LOCALS_MAX:
            yield sentence(
                f"function {body.function} has too many locals",
                expected=f"at most {LOCALS_MAX}",
                found=f"{body.locals}",
            )


@functools.cache
def _validator() -> wasmtime.Engine:
    return build_engine(stack_bytes=LIVE_STACK_BYTES, target=None)


def _engine_problems(wasm: bytes) -> list[str]:
    try:
        wasmtime.Module.validate(_validator(), wasm)
    except wasmtime.WasmtimeError as error:
        return [engine_problem(error)]
    return []


def engine_problem(error: wasmtime.WasmtimeError) -> str:
    """The engine's last cause, which is the most precise one."""
    causes = [line.strip() for line in printable(str(error)).split("\n") if line.strip()]
    return f"the engine does not take the module: {_NUMBERING.sub('', causes[-1])[:_CAUSE_MAX]}"
