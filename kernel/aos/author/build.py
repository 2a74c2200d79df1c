"""Build a project's modules and AIR, and check that they can be applied (AU-1 to AU-8)."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.author.asc import compile_assemblyscript
from aos.author.assemblyscript import generate, migration_class
from aos.author.build_record import GENERATED_CODE, RECORD, BuildRecord, SourcesOfBuild, read_record
from aos.author.definitions import (
    Definitions,
    generated,
    read_section,
    written_nodes,
)
from aos.author.errors import BuildFailed
from aos.author.interpreter import compile_python
from aos.author.project import AIR, ASSEMBLYSCRIPT, BUILD, GENERATED_AIR, PYTHON, Project
from aos.author.rust import BuiltModules, compile_rust
from aos.author.sections import AIR_SECTION, take_sections
from aos.author.toolchain import Console
from aos.errors import Unavailable
from aos.host.apply.manifest_files import read_manifest_files
from aos.manifest.effective import Effective
from aos.manifest.load import (
    Check,
    Loaded,
    ManifestProblems,
    Problem,
    load,
    needed_files,
    unreadable,
)
from aos.sandbox.cache import standard_cache
from aos.sandbox.caps import FILE_BYTES_MAX
from aos.sandbox.inspect import check_module
from aos.sandbox.trial import trial_problem
from aos.values.digests import Hash, content_hash

_SHOWN: Final = 200
"""Maximum number of lines of a difference that are printed."""

_NO_EXPORT: Final = re.compile(r'export "(.+)": .*, found no such export')


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltModule:
    name: str
    artifact: str
    wasm: bytes

    @property
    def hash(self) -> Hash:
        return content_hash(self.wasm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The result of a build. ``files`` holds every file that belongs on disk, by its path below the
    project's folder; None for a file that must not exist. ``inputs`` are the manifest's files after
    the build."""

    project: Project
    modules: tuple[BuiltModule, ...]
    files: Mapping[str, bytes | None]
    inputs: Mapping[str, bytes]
    record: BuildRecord
    loaded: Loaded
    took_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleFile:
    """A file on disk that differs from the build's. ``lines`` describe the difference."""

    file: str
    lines: tuple[str, ...]


def build(project: Project, *, console: Console) -> Built:
    """Build a project and write the files that have changed.

    Raises:
        ToolMissing: A compiler is missing.
        BuildFailed, ManifestProblems: It cannot be built, or the result cannot be applied. Nothing
            has changed, except that a project in AssemblyScript may have a new
            ``assembly/generated.ts``.
        Unavailable: A file cannot be written.
    """
    built = _make(project, console=console, is_check=False)
    for name, data in built.files.items():
        _put(project.folder / name, data)
    for name in unreached(built.loaded.effective):
        console.report(
            f"{name}: no event reaches it, because no subscription names it (routes(…) in "
            "#[workflow], or routing.subscriptions of [manifest] in aos.toml)"
        )
    return built


def unreached(effective: Effective) -> tuple[str, ...]:
    """The workflows without a subscription. They can be applied, but receive no event."""
    reached = {route.workflow for route in effective.subscriptions}
    return tuple(name for name in effective.workflows if name not in reached)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result of ``check``. ``built`` is None if the generated classes differ, because the build
    ends there. With ``by_another`` the modules on disk were made by another compiler, so a
    difference in their bytes proves nothing."""

    built: Built | None
    differing: tuple[StaleFile, ...]
    by_another: bool = False


def check(project: Project, *, console: Console) -> Checked:
    """Build a project in memory and compare it with the files on disk. Writes none of them.

    Raises: as ``build``.
    """
    if project.lang == ASSEMBLYSCRIPT:
        stale_file = _compare(project, GENERATED_CODE, _generated_code(project))
        if stale_file is not None:
            return Checked(built=None, differing=(stale_file,))
    built = _make(project, console=console, is_check=True)
    compared = dict(sorted(built.files.items()))
    by_another = _is_by_another(project, built.record)
    if by_another:
        compared = {name: data for name, data in compared.items() if not name.startswith(BUILD)}
    differing = (_compare(project, name, data) for name, data in compared.items())
    return Checked(
        built=built,
        differing=tuple(difference for difference in differing if difference is not None),
        by_another=by_another,
    )


def _is_by_another(project: Project, record: BuildRecord) -> bool:
    """Whether the modules on disk were made by another compiler."""
    disk_record = read_record(project)
    return disk_record is not None and disk_record.compiler != record.compiler


def _make(project: Project, *, console: Console, is_check: bool) -> Built:
    began = time.monotonic_ns()
    sources = SourcesOfBuild(project)
    written = _written_files(project)
    files: dict[str, bytes | None] = {}
    if project.lang == ASSEMBLYSCRIPT:
        files[GENERATED_CODE] = code = _generated_code(project)
        if not is_check:
            _put(project.folder / GENERATED_CODE, code)
    compiled = _compiled(project, locked=is_check, console=console)
    definitions, modules = Definitions(), []
    for source in project.modules:
        stripped = take_sections(compiled.modules[source.name], AIR_SECTION)
        modules.append(BuiltModule(name=source.name, artifact=source.artifact, wasm=stripped.wasm))
        for data in stripped.data:
            for node in read_section(data, source.name):
                definitions.take(_placed(node, source.artifact), f"module {source.name}")
    files[GENERATED_AIR] = generated(project, definitions, written_nodes(written))
    files |= {module.artifact: module.wasm for module in modules}
    inputs = {**written, **{name: data for name, data in files.items() if data is not None}}
    inputs.pop(GENERATED_CODE, None)
    loaded = _loaded(project, inputs)
    if project.lang != PYTHON:  # its code is the interpreter, which aos apply tries
        _try(modules, project)
    record = BuildRecord(
        compiler=compiled.compiler,
        sources=sources.digests(),
        outputs={
            name: content_hash(data).hex() for name, data in files.items() if data is not None
        },
    )
    files[RECORD] = record.to_bytes()  # the last file: after a crash, the build counts as stale
    return Built(
        project=project,
        modules=tuple(modules),
        files=files,
        inputs=inputs,
        record=record,
        loaded=loaded,
        took_ns=time.monotonic_ns() - began,
    )


def _compiled(project: Project, *, locked: bool, console: Console) -> BuiltModules:
    """The modules as the compiler of the project's language leaves them."""
    if project.lang == PYTHON:
        return compile_python(project, note=console.report)
    if project.lang == ASSEMBLYSCRIPT:
        modules = compile_assemblyscript(project, console=console)
        return BuiltModules(modules=modules, compiler={})
    return compile_rust(project, locked=locked, console=console)


def _placed(node: Mapping[str, object], artifact: str) -> Mapping[str, object]:
    """The node of a module, with the path of its bytes."""
    match node:
        case {"$kind": "defmodule", "runtime": {"artifact": dict(found), **more}}:
            path = os.path.relpath(artifact, AIR)
            return {**node, "runtime": {**more, "artifact": {**found, "path": path}}}
        case _:
            return node


def _generated_code(project: Project) -> bytes:
    """``assembly/generated.ts``: the classes for the schemas in ``air/``.

    Raises:
        ManifestProblems: A definition is invalid.
    """
    written = _written_files(project)
    nodes = written_nodes(written)
    files = {**written, GENERATED_AIR: generated(project, Definitions(), nodes) or b"[]"}
    try:
        load(files, abi=project.abi)
    except ManifestProblems as error:
        problems = [problem for problem in error.problems if not _is_of_an_artifact(problem)]
        if problems:
            raise ManifestProblems(problems) from None
    return generate([node for _, node in nodes]).encode()


def _is_of_an_artifact(problem: Problem) -> bool:
    """Whether a problem is a missing module: modules are built after the code is generated."""
    return "/runtime/artifact" in problem.pointer


def _written_files(project: Project) -> dict[str, bytes]:
    """The manifest's files that were written by hand.

    Raises:
        ManifestProblems: A file cannot be read, or is not JSON. It holds only such problems.
    """
    if not (project.folder / AIR).is_dir():
        return {}
    files, problems = read_manifest_files(project.folder, abi=project.abi)
    # Skip problems of artifacts: they do not affect the handwritten files.
    files.pop(GENERATED_AIR, None)
    # Every reference to a definition in such a file would be a problem too: report only the cause.
    problems = problems or unreadable(files)
    if problems:
        raise ManifestProblems(problems)
    for name in needed_files(files, abi=project.abi):
        file = project.folder / name
        if file.is_file() and file.stat().st_size <= FILE_BYTES_MAX:
            files[name] = file.read_bytes()
    return files


def _loaded(project: Project, files: Mapping[str, bytes]) -> Loaded:
    """Load the manifest with its new files.

    Raises:
        ManifestProblems: All its problems.
    """
    check = _script_check(files) if project.lang == ASSEMBLYSCRIPT else check_module
    loaded = load(files, check=check, abi=project.abi)
    air = {name: data for name, data in files.items() if name.endswith(".json")}
    needed_paths = needed_files(air, abi=project.abi)
    unused = [module.artifact for module in project.modules if module.artifact not in needed_paths]
    if unused:
        raise BuildFailed(
            f"no module of the manifest has its bytes in {', '.join(unused)}",
            location=str(project.file),
            expected='a defmodule with "path": "../' + unused[0] + '"',
            hint="a Rust module has one once it has a #[workflow]",
        )
    return loaded


def _script_check(files: Mapping[str, bytes]) -> Check:
    """A check of modules that also suggests the line for a missing export: in AssemblyScript,
    exports are written by hand."""
    migrations = _migrations(files)

    def check(wasm: bytes, entrypoints: Iterable[str]) -> list[str]:
        return [_with_line(problem, migrations) for problem in check_module(wasm, entrypoints)]

    return check


def _migrations(files: Mapping[str, bytes]) -> Mapping[str, str]:
    """Entrypoint of each migration -> the base class that the author extends."""
    nodes = {
        node["name"]: node
        for _, node in written_nodes(files)
        if node.get("$kind") == "defworkflow" and isinstance(node.get("name"), str)
    }
    class_by_entrypoint = {}
    for name, node in nodes.items():
        match node:
            case {"migrate": {"entrypoint": str(entrypoint)}}:
                class_by_entrypoint[entrypoint] = migration_class(nodes, name)
    return class_by_entrypoint


def _with_line(problem: str, migrations: Mapping[str, str]) -> str:
    match = _NO_EXPORT.fullmatch(problem)
    if match is None:
        return problem
    return f"{problem} (write in the module's entry file: {_line(match[1], migrations)})"


def _line(name: str, migrations: Mapping[str, str]) -> str:
    if name == "alloc":
        return 'export { alloc, aos_panic } from "aos-sdk";'
    head = f"export function {name}(pointer: i32, length: i32): u64"
    if name not in migrations:
        return f"{head} {{ … }}"
    return (
        f"{head} {{ return migrate<…>(pointer, length); }} with migrate from aos-sdk, "
        f"where … is your class that extends {migrations[name]}"
    )


def _try(modules: list[BuiltModule], project: Project) -> None:
    """Compile the modules as ``aos apply`` will, except those already on disk: they were tried."""
    for module in modules:
        file = project.folder / module.artifact
        if file.is_file() and file.read_bytes() == module.wasm:
            continue
        problem = trial_problem(module.wasm, cache=standard_cache(outside=project.folder))
        if problem is not None:
            raise BuildFailed(f"module {module.name}: {problem}")


def _put(file: Path, data: bytes | None) -> None:
    """Write a file atomically, or remove it (None); do nothing if it is the same already."""
    try:
        if data is None:
            file.unlink(missing_ok=True)
            return
        if file.is_file() and file.read_bytes() == data:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        with _beside(file) as unfinished:
            unfinished.write_bytes(data)
            unfinished.chmod(0o644)
            unfinished.replace(file)
    except OSError as error:
        raise Unavailable(f"{file}: the file cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def _beside(file: Path) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _compare(project: Project, name: str, built: bytes | None) -> StaleFile | None:
    file = project.folder / name
    on_disk = file.read_bytes() if file.is_file() else None
    if on_disk == built:
        return None
    if built is None or on_disk is None:
        word = "should not exist" if built is None else "is missing"
        return StaleFile(file=name, lines=(f"{name} {word}",))
    if name.endswith(".wasm"):
        return StaleFile(file=name, lines=(f"- {_facts(on_disk)}", f"+ {_facts(built)}"))
    lines = difflib.unified_diff(
        on_disk.decode(errors="replace").splitlines(),
        built.decode(errors="replace").splitlines(),
        f"{name} (on disk)",
        f"{name} (from the sources)",
        lineterm="",
    )
    diff_lines = list(lines)
    if len(diff_lines) > _SHOWN:
        diff_lines = [*diff_lines[:_SHOWN], f"… {len(diff_lines) - _SHOWN} more lines"]
    return StaleFile(file=name, lines=tuple(diff_lines))


def _facts(wasm: bytes) -> str:
    return f"{len(wasm):,} bytes, {content_hash(wasm).hex()[:16]}…"
