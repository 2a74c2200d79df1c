"""Check a module's bytes and entrypoints, and return its problems as sentences.

Our own rules come first. They read only the declarations, so that the engine validates only modules
of bounded size. The engine then checks every instruction against the allowed features. Compiling is
a third gate (``aos.sandbox.trial``): a valid module can still be too expensive to compile.
"""

from __future__ import annotations

import enum
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


class Form(enum.Enum):
    """One of the three calling forms of an entrypoint, distinguished by the export's type (S-21).
    Its value is that type, as messages show it."""

    PAIR = "(i32, i32) -> (i32, i32)"
    """(pointer, length) -> (pointer, length): multi-value."""
    RETURN_POINTER = "(i32, i32, i32) -> ()"
    """(result, pointer, length): the module writes the output's address and size at it."""
    PACKED = "(i32, i32) -> i64"
    """(pointer, length) -> pointer << 32 | length."""


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
        super().__init__(sentence("; ".join(self.problems), location=f"module {module}"))


def check_module(
    wasm: bytes, entrypoints: Iterable[str], *, memory_bytes: int = MEMORY_BYTES_MAX
) -> list[str]:
    """Return the problems that are known without compiling. ``memory_bytes``: the step's limit."""
    module_outline, problems = survey(wasm, entrypoints, memory_bytes=memory_bytes)
    if module_outline is not None:
        problems += _engine_problems(compiled_part(wasm))
    if len(problems) > _PROBLEMS_MAX:
        hidden_count = len(problems) - _PROBLEMS_MAX
        problems = [*problems[:_PROBLEMS_MAX], f"and {hidden_count} problems more"]
    return problems


def survey(
    wasm: bytes, entrypoints: Iterable[str], *, memory_bytes: int = MEMORY_BYTES_MAX
) -> tuple[Outline | None, list[str]]:
    """Check only our own rules. Return the outline, if it can be read, and the problems."""
    if len(wasm) > FILE_BYTES_MAX:
        expected = f"at most {FILE_BYTES_MAX} bytes"
        return None, [sentence("the file is too large", expected=expected, actual=f"{len(wasm)}")]
    wasm = compiled_part(wasm)
    if len(wasm) > MODULE_BYTES_MAX:
        expected = f"at most {MODULE_BYTES_MAX} bytes without custom sections"
        return None, [sentence("the module is too large", expected=expected, actual=f"{len(wasm)}")]
    try:
        module_outline = outline(wasm)
    except Unreadable as problem:
        # The engine's message may name the feature. Of other bytes it has nothing to say.
        engine_problems = _engine_problems(wasm) if wasm.startswith(MAGIC) else []
        return None, [f"the module cannot be read: {problem}", *engine_problems]
    problems = [
        *_import_problems(module_outline),
        *export_problems(module_outline, entrypoints),
        *_size_problems(module_outline, memory_bytes),
    ]
    return module_outline, problems


def _import_problems(outline: Outline) -> Iterable[str]:
    for item in outline.imports:
        yield sentence(
            f"the module imports the {item.kind} {quoted(item.name)} from {quoted(item.module)}",
            expected="no imports",
            hint="a module gets everything in its input and asks for effects in its output",
        )
    if outline.has_start:
        yield sentence(
            "the module has a start function",
            expected="none",
            hint="nothing runs before the entrypoint; link as a reactor, without _start",
        )


def export_problems(outline: Outline, entrypoints: Iterable[str]) -> Iterable[str]:
    """The problems of the exports that a sandbox calls."""
    memory = outline.exports.get("memory")
    if memory is None or memory.kind != "memory":
        yield _misfit("memory", "a memory", memory)
    alloc = outline.exports.get("alloc")
    if alloc is None or alloc.type != ALLOC_TYPE:
        yield _misfit("alloc", f"a function {ALLOC_TYPE}", alloc)
    for name in entrypoints:
        export = outline.exports.get(name)
        if export is None or export.type not in FORMS:
            yield _misfit(name, f"a function {' or '.join(FORMS)}", export)


def panic_address(outline: Outline) -> int | None:
    """The address at which a module puts its panic message (S-47). None without one: an export of
    another kind with that name is ignored."""
    export = outline.exports.get(PANIC_EXPORT)
    return None if export is None else export.value


def _misfit(name: str, expected: str, export: ModuleExport | None) -> str:
    if export is None:
        actual = "no such export"
    elif export.type is None:
        actual = f"a {export.kind}"
    else:
        actual = f"a function {export.type}"
    return sentence(f"export {quoted(name)}", expected=expected, actual=actual)


def _size_problems(outline: Outline, memory_bytes: int) -> Iterable[str]:
    if len(outline.memories) > MEMORIES_MAX:
        yield sentence(
            "the module has several memories", expected="one", actual=f"{len(outline.memories)}"
        )
    for pages in outline.memories:
        if pages * PAGE_BYTES > memory_bytes:
            yield sentence(
                "the module's memory begins larger than a step may have",
                expected=f"at most {memory_bytes // PAGE_BYTES} pages of {PAGE_BYTES} bytes",
                actual=f"{pages}",
            )
    if len(outline.tables) > TABLES_MAX:
        yield sentence(
            "the module has too many tables",
            expected=f"at most {TABLES_MAX}",
            actual=f"{len(outline.tables)}",
        )
    for elements in outline.tables:
        if elements > TABLE_ELEMENTS_MAX:
            yield sentence(
                "a table begins too large",
                expected=f"at most {TABLE_ELEMENTS_MAX} elements",
                actual=f"{elements}",
            )
    for body in outline.large_bodies:
        if body.size > BODY_BYTES_MAX:
            yield sentence(
                f"the code of function {body.function} is too large",
                expected=f"at most {BODY_BYTES_MAX} bytes",
                actual=f"{body.size}",
                hint="split the function, or compile with less inlining",
            )
        if body.locals > LOCALS_MAX:
            yield sentence(
                f"function {body.function} has too many locals",
                expected=f"at most {LOCALS_MAX}",
                actual=f"{body.locals}",
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
