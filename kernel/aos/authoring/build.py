"""A project -> its modules and its AIR, checked so that they can be applied (AU-1 to AU-8)."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.authoring.asc import compile_assemblyscript
from aos.authoring.assemblyscript import generate, migration_class
from aos.authoring.definitions import (
    Definitions,
    generated,
    read_section,
    written_nodes,
)
from aos.authoring.errors import BuildFailed
from aos.authoring.project import AIR, ASSEMBLYSCRIPT, BUILD, GENERATED_AIR, Project
from aos.authoring.running import Console
from aos.authoring.rust import compile_rust
from aos.authoring.sections import AIR_SECTION, take_sections
from aos.errors import Unavailable, sentence
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
from aos.sandbox.caps import MODULE_BYTES_MAX
from aos.sandbox.inspect import check_module
from aos.sandbox.trial import trial_problem
from aos.values.digests import Hash, content_hash

COMPILER: Final = f"{BUILD}/compiler.json"
"""What made the modules of Rust, because another one makes other bytes."""

GENERATED_CODE: Final = "assembly/generated.ts"

_SHOWN: Final = 200
"""Lines of a difference that are told."""

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
    """What the sources make. ``files`` are all that belong on disk, by their path below the
    project's folder; None stands for one that has nothing to hold. ``inputs`` are the files of the
    manifest as they are then."""

    project: Project
    modules: tuple[BuiltModule, ...]
    files: Mapping[str, bytes | None]
    inputs: Mapping[str, bytes]
    loaded: Loaded
    took_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleFile:
    """A file on disk that is not what the sources make. ``lines`` say how."""

    file: str
    lines: tuple[str, ...]


def build(project: Project, *, console: Console) -> Built:
    """Build a project and put the files into it that have changed.

    Raises:
        ToolMissing: A compiler is missing.
        BuildFailed, ManifestProblems: It cannot be built, or not applied. Of AssemblyScript,
            ``assembly/generated.ts`` has been written by then; everything else is as it was.
        Unavailable: A file cannot be written.
    """
    built = _make(project, console=console, is_check=False)
    for name, data in built.files.items():
        _put(project.folder / name, data)
    for name in unreached(built.loaded.effective):
        console.report(
            f"{name}: no event reaches it, since no subscription names it (routes(…) in "
            "#[workflow], or routing.subscriptions of [manifest] in aos.toml)"
        )
    return built


def unreached(effective: Effective) -> tuple[str, ...]:
    """The workflows that no event of the manifest is routed to. They can be applied, and sleep."""
    reached = {route.workflow for route in effective.subscriptions}
    return tuple(name for name in effective.workflows if name not in reached)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What came of comparing. ``built`` is None where the classes differ, so that nothing more was
    built; ``by_another`` says that the modules on disk were made by another compiler, so that their
    bytes say nothing."""

    built: Built | None
    differing: tuple[StaleFile, ...]
    by_another: bool = False


def check(project: Project, *, console: Console) -> Checked:
    """Build a project beside what is on disk, and compare. Nothing of it is written.

    Raises: as ``build``.
    """
    if project.lang == ASSEMBLYSCRIPT:
        found = _compare(project, GENERATED_CODE, _generated_code(project))
        if found is not None:
            return Checked(built=None, differing=(found,))
    built = _make(project, console=console, is_check=True)
    compared = dict(sorted(built.files.items()))
    by_another = _is_by_another(project, built.files.get(COMPILER))
    if by_another:
        compared = {name: data for name, data in compared.items() if not name.startswith(BUILD)}
    differing = (_compare(project, name, data) for name, data in compared.items())
    return Checked(
        built=built,
        differing=tuple(each for each in differing if each is not None),
        by_another=by_another,
    )


def _is_by_another(project: Project, compiler: bytes | None) -> bool:
    """Whether the modules on disk say that another compiler made them."""
    file = project.folder / COMPILER
    return compiler is not None and file.is_file() and file.read_bytes() != compiler


def _make(project: Project, *, console: Console, is_check: bool) -> Built:
    began = time.monotonic_ns()
    written = _written_files(project)
    files: dict[str, bytes | None] = {}
    if project.lang == ASSEMBLYSCRIPT:
        files[GENERATED_CODE] = code = _generated_code(project)
        if not is_check:
            _put(project.folder / GENERATED_CODE, code)
        compiled = compile_assemblyscript(project, console=console)
    else:
        made = compile_rust(project, locked=is_check, console=console)
        files[COMPILER] = (json.dumps(made.compiler, indent=2) + "\n").encode()
        compiled = made.modules
    definitions, modules = Definitions(), []
    for source in project.modules:
        taken = take_sections(compiled[source.name], AIR_SECTION)
        modules.append(BuiltModule(name=source.name, artifact=source.artifact, wasm=taken.wasm))
        for data in taken.data:
            for node in read_section(data, source.name):
                definitions.take(_placed(node, source.artifact), f"module {source.name}")
    files[GENERATED_AIR] = generated(project, definitions, written_nodes(written))
    files |= {each.artifact: each.wasm for each in modules}
    inputs = {**written, **{name: data for name, data in files.items() if data is not None}}
    for name in (GENERATED_CODE, COMPILER):
        inputs.pop(name, None)
    loaded = _loaded(project, inputs)
    _try(modules, project)
    return Built(
        project=project,
        modules=tuple(modules),
        files=files,
        inputs=inputs,
        loaded=loaded,
        took_ns=time.monotonic_ns() - began,
    )


def _placed(node: Mapping[str, object], artifact: str) -> Mapping[str, object]:
    """A module's own node, with the place of its bytes."""
    match node:
        case {"$kind": "defmodule", "runtime": {"artifact": dict(found), **more}}:
            path = os.path.relpath(artifact, AIR)
            return {**node, "runtime": {**more, "artifact": {**found, "path": path}}}
        case _:
            return node


def _generated_code(project: Project) -> bytes:
    """``assembly/generated.ts``: a class for each schema that is written by hand.

    Raises:
        ManifestProblems: A definition is wrong.
    """
    written = _written_files(project)
    nodes = written_nodes(written)
    files = {**written, GENERATED_AIR: generated(project, Definitions(), nodes) or b"[]"}
    try:
        load(files)
    except ManifestProblems as found:
        problems = [each for each in found.problems if not _is_of_an_artifact(each)]
        if problems:
            raise ManifestProblems(problems) from None
    return generate([node for _, node in nodes]).encode()


def _is_of_an_artifact(problem: Problem) -> bool:
    """Modules are still to be made when code is generated."""
    return "/runtime/artifact" in problem.pointer


def _written_files(project: Project) -> dict[str, bytes]:
    """The manifest's files as people wrote them.

    Raises:
        ManifestProblems: One cannot be read, or is no JSON; nothing else is told then.
    """
    if not (project.folder / AIR).is_dir():
        return {}
    files, problems = read_manifest_files(project.folder)
    # What it says of artifacts says nothing of what people wrote beside it.
    files.pop(GENERATED_AIR, None)
    # Whatever refers to what is defined in there would be wrong, too: only this is to be mended.
    problems = problems or unreadable(files)
    if problems:
        raise ManifestProblems(problems)
    for name in needed_files(files):
        file = project.folder / name
        if file.is_file() and file.stat().st_size <= MODULE_BYTES_MAX:
            files[name] = file.read_bytes()
    return files


def _loaded(project: Project, files: Mapping[str, bytes]) -> Loaded:
    """The manifest as it will be on disk.

    Raises:
        ManifestProblems: Everything that is wrong with it.
    """
    check = _script_check(files) if project.lang == ASSEMBLYSCRIPT else check_module
    loaded = load(files, check=check)
    air = {name: data for name, data in files.items() if name.endswith(".json")}
    needed = needed_files(air)
    unused = [each.artifact for each in project.modules if each.artifact not in needed]
    if unused:
        raise BuildFailed(
            sentence(
                f"no module of the manifest has its bytes in {', '.join(unused)}",
                where=str(project.file),
                expected='a defmodule with "path": "../' + unused[0] + '"',
                hint="a Rust module has one once it has a #[workflow]",
            )
        )
    return loaded


def _script_check(files: Mapping[str, bytes]) -> Check:
    """What is wrong with a module, and the line to write where an export is missing: in
    AssemblyScript, exports are written by hand."""
    migrations = _migrations(files)

    def check(wasm: bytes, entrypoints: Iterable[str]) -> list[str]:
        return [_with_line(each, migrations) for each in check_module(wasm, entrypoints)]

    return check


def _migrations(files: Mapping[str, bytes]) -> Mapping[str, str]:
    """Entrypoint -> the class that it runs one of."""
    nodes = {
        node["name"]: node
        for _, node in written_nodes(files)
        if node.get("$kind") == "defworkflow" and isinstance(node.get("name"), str)
    }
    found = {}
    for name, node in nodes.items():
        match node:
            case {"migrate": {"entrypoint": str(entrypoint)}}:
                found[entrypoint] = migration_class(nodes, name)
    return found


def _with_line(problem: str, migrations: Mapping[str, str]) -> str:
    found = _NO_EXPORT.fullmatch(problem)
    if found is None:
        return problem
    return f"{problem} (write in the module's entry file: {_line(found[1], migrations)})"


def _line(name: str, migrations: Mapping[str, str]) -> str:
    if name == "alloc":
        return 'export { alloc, aos_panic } from "aos-sdk";'
    head = f"export function {name}(pointer: i32, length: i32): u64"
    if name not in migrations:
        return f"{head} {{ … }}"
    return (
        f"{head} {{ return migrate<…>(pointer, length); }} with migrate from aos-sdk, "
        f"where … is a class that extends {migrations[name]}"
    )


def _try(modules: list[BuiltModule], project: Project) -> None:
    """Compile as ``aos apply`` will, unless the same bytes are on disk and were tried before."""
    for each in modules:
        file = project.folder / each.artifact
        if file.is_file() and file.read_bytes() == each.wasm:
            continue
        problem = trial_problem(each.wasm)
        if problem is not None:
            raise BuildFailed(f"module {each.name}: {problem}")


def _put(file: Path, data: bytes | None) -> None:
    """Write a file, whole or not at all; leave it alone when it is that already."""
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


def _compare(project: Project, name: str, made: bytes | None) -> StaleFile | None:
    file = project.folder / name
    there = file.read_bytes() if file.is_file() else None
    if there == made:
        return None
    if made is None or there is None:
        word = "is there and should not be" if made is None else "is missing"
        return StaleFile(file=name, lines=(f"{name} {word}",))
    if name.endswith(".wasm"):
        return StaleFile(file=name, lines=(f"- {_facts(there)}", f"+ {_facts(made)}"))
    lines = difflib.unified_diff(
        there.decode(errors="replace").splitlines(),
        made.decode(errors="replace").splitlines(),
        f"{name} (on disk)",
        f"{name} (of the sources)",
        lineterm="",
    )
    shown = list(lines)
    if len(shown) > _SHOWN:
        shown = [*shown[:_SHOWN], f"… {len(shown) - _SHOWN} lines more"]
    return StaleFile(file=name, lines=tuple(shown))


def _facts(wasm: bytes) -> str:
    return f"{len(wasm):,} bytes, {content_hash(wasm).hex()[:16]}…"
