"""Build the modules of flows in Python: the interpreter that comes with aos, with their programs
(spec/authoring.md, AU-63 to AU-68). No compiler runs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from aos.author.errors import BuildFailed
from aos.author.prepared_program import Interpreter
from aos.author.program_segment import with_program
from aos.author.project import ModuleSource, Project, short_path
from aos.author.python.python_program import read_program
from aos.author.rust import BuiltModules
from aos.author.sections import AIR_SECTION, with_section
from aos.errors import Unavailable
from aos.sandbox.cache import standard_cache
from aos.sandbox.caps import FILE_BYTES_MAX, MODULE_BYTES_MAX
from aos.values.digests import content_hash, hash_text

INTERPRETER: Final = "pyflow.wasm"


def interpreter_file() -> Path:
    """The interpreter's module: in the installed package, or in the checkout around it.

    Raises:
        Unavailable: It is in neither.
    """
    this_file = Path(__file__).resolve()
    installed = this_file.parent / "pyflow" / INTERPRETER
    for file in (installed, this_file.parents[3] / "modules" / "pyflow" / INTERPRETER):
        if file.is_file():
            return file
    raise Unavailable(
        "the interpreter of flows in Python is not in this installation",
        expected=str(installed),
        hint="install aos again",
    )


def compile_python(project: Project, *, note: Callable[[str], None]) -> BuiltModules:
    """Build every module of the project. The identity of the compiler is that of the interpreter.
    ``note`` gets a sentence if the interpreter has to be compiled, before that begins.

    Raises:
        BuildFailed: All problems of all sources, one on each line.
        Unavailable: The interpreter is missing, or cannot be read.
    """
    file = interpreter_file()
    try:
        interpreter = file.read_bytes()
    except OSError as error:
        raise Unavailable(f"{file}: the file cannot be read: {error.strerror}") from error
    modules, problems = {}, []
    cache = standard_cache(outside=project.folder)
    with contextlib.closing(Interpreter(interpreter, cache, note)) as running:
        for module in project.modules:
            try:
                modules[module.name] = _module_bytes(project, module, running)
            except BuildFailed as problem:
                problems.append(str(problem))
    if problems:
        raise BuildFailed("\n".join(problems))
    return BuiltModules(
        modules=modules, compiler={"interpreter": hash_text(content_hash(interpreter))}
    )


def _module_bytes(project: Project, module: ModuleSource, interpreter: Interpreter) -> bytes:
    """The interpreter with the program of a module, and its definitions in the section ``aos.air``,
    as a compiler leaves them there."""
    path = project.folder / module.source
    program = read_program(_source_bytes(project, path), short_path(path))
    namespace = program.flow.name.partition("/")[0]
    name = f"{namespace}/{module.name}.module@1"
    nodes: list[dict[str, Any]] = [_defmodule(name), *program.air(name)]
    lines = "".join(json.dumps(node, ensure_ascii=False) + "\n" for node in nodes)
    segment = program.segment(module.source)
    prepared = interpreter.prepared(segment)
    wasm = with_program(interpreter.wasm, segment | {"prepared": prepared})
    if len(wasm) > MODULE_BYTES_MAX:
        wasm = with_program(interpreter.wasm, segment)
    return with_section(wasm, AIR_SECTION, lines.encode())


def _defmodule(name: str) -> dict[str, Any]:
    artifact = {"kind": "wasm_module"}
    return {"$kind": "defmodule", "name": name, "runtime": {"kind": "wasm", "artifact": artifact}}


def _source_bytes(project: Project, path: Path) -> bytes:
    """The bytes of a source, of a huge one the first part: it is refused."""
    if not path.is_file():
        raise BuildFailed(
            f"no such file: {path.relative_to(project.folder)}",
            location=str(project.file),
            expected="the file of a flow in Python",
            hint="create it, or name another one: source = … in [modules.NAME]",
        )
    try:
        with path.open("rb") as stream:
            return stream.read(FILE_BYTES_MAX)
    except OSError as error:
        raise BuildFailed(
            f"the file cannot be read: {error.strerror}", location=short_path(path)
        ) from error
