"""Compile a project's Rust packages to WASM (spec/authoring.md, AU-30 to AU-35)."""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.authoring.compiled_sdk import compiled_sdk
from aos.authoring.errors import BuildFailed
from aos.authoring.project import ModuleSource, Project
from aos.authoring.running import Console, run
from aos.authoring.rust_std import built_std
from aos.authoring.toolchain import (
    MODULE_FLAGS,
    WRAPPER,
    cargo_build,
    find_toolchain,
    sysroot_flags,
)
from aos.authoring.user_cache import cache_folder
from aos.errors import Unavailable, sentence

TARGET_FOLDER: Final = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltModules:
    """The unmodified output of the compiler by module name, and the identity of the toolchain."""

    modules: Mapping[str, bytes]
    compiler: Mapping[str, str]


def compile_rust(project: Project, *, locked: bool, console: Console) -> BuiltModules:
    """Build every module of the project.

    ``locked``: a ``Cargo.lock`` that is missing or would change is an error.

    Raises:
        ToolMissing: There is no Rust compiler that can build WASM.
        BuildFailed: The compiler failed and printed the reason to stderr, or a package is missing.
    """
    packages = {
        module_source.name: _package(project, module_source) for module_source in project.modules
    }
    toolchain = find_toolchain()
    folder = project.folder.resolve()
    target = folder / TARGET_FOLDER
    std = None
    if toolchain.sources is not None:
        std = built_std(toolchain, cache_folder("rust-std") or target / "rust-std", console=console)
    arguments = ["--quiet", "--message-format=json-render-diagnostics"]
    arguments += ["--locked"] if locked else []
    for package in packages.values():
        arguments += ["--package", package]
    for module in project.modules:
        arguments += _manifest_path(module) if len(project.modules) == 1 else []
    call = cargo_build(
        toolchain,
        remap={folder: "/project", **_elsewhere()},
        target=target,
        arguments=arguments,
        std=std,
        wrapper=_wrapper(target),
    )
    sdk = compiled_sdk(
        project,
        toolchain,
        flags=[*MODULE_FLAGS, *sysroot_flags(std)],
        cache=cache_folder("rust-sdk"),
        target=target,
        report=console.report,
    )
    is_first = sdk is not None and sdk.restore()
    output = run(
        call.command,
        cwd=folder,
        environment=call.environment,
        program="the Rust compiler",
        console=console,
    )
    if sdk is not None and is_first:
        sdk.keep()
    artifacts = _artifacts(output)
    modules = {
        module.name: _read(artifacts, packages[module.name], module, project)
        for module in project.modules
    }
    return BuiltModules(modules=modules, compiler=toolchain.identity())


def _wrapper(target: Path) -> Path:
    """Write the program that calls the compiler, unless it is there, and return its path."""
    file = target / "aos-rustc"
    try:
        if not (file.is_file() and file.read_text("utf-8") == WRAPPER and os.access(file, os.X_OK)):
            target.mkdir(exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=target, delete=False) as unfinished:
                unfinished.write(WRAPPER)
            Path(unfinished.name).chmod(0o755)
            Path(unfinished.name).replace(file)
    except OSError as error:
        raise Unavailable(f"{file}: the file cannot be written: {error.strerror}") from error
    return file


def _manifest_path(module: ModuleSource) -> list[str]:
    """The option with the package's folder, unless it is cargo's default."""
    if module.source == ".":
        return []
    return ["--manifest-path", str(Path(module.source) / "Cargo.toml")]


def _package(project: Project, module: ModuleSource) -> str:
    """The package's name in its Cargo.toml."""
    file = project.folder / module.source / "Cargo.toml"
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise BuildFailed(
            sentence(
                f"modules.{module.name}.source: {file} cannot be read: {error.strerror}",
                location=str(project.file),
                expected="the folder of a Rust package",
            )
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BuildFailed(f"{file}: the file is not TOML: {error}") from error
    match document:
        case {"package": {"name": str(name)}}:
            return name
        case _:
            raise BuildFailed(f"{file}: expected a [package] with a name")


def _elsewhere() -> dict[Path, str]:
    """The folders of downloaded crates, whose paths would otherwise be part of the bytes."""
    home = os.environ.get("CARGO_HOME") or Path.home() / ".cargo"
    return {Path(home): "/cargo"}


def _artifacts(output: str) -> dict[str, list[Path]]:
    """The .wasm files that cargo reports, by package."""
    files_by_package: dict[str, list[Path]] = {}
    for line in output.splitlines():
        message: Any = json.loads(line) if line.startswith("{") else {}
        if message.get("reason") != "compiler-artifact":
            continue
        if "cdylib" in message["target"]["crate_types"]:
            manifest = Path(message["manifest_path"])
            name = tomllib.loads(manifest.read_text("utf-8"))["package"]["name"]
            files = [Path(file) for file in message["filenames"] if file.endswith(".wasm")]
            files_by_package.setdefault(name, []).extend(files)
    return files_by_package


def _read(
    artifacts: Mapping[str, list[Path]], package: str, module: ModuleSource, project: Project
) -> bytes:
    files = artifacts.get(package, [])
    if not files:
        raise BuildFailed(
            sentence(
                f"the package {package} does not build a WASM module",
                location=str(project.folder / module.source / "Cargo.toml"),
                expected='crate-type = ["cdylib"] in [lib]',
            )
        )
    return files[0].read_bytes()
