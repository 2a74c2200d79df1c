"""A project's Rust packages: compiled to WASM (spec/authoring.md, AU-30 to AU-35), and their tests
found (spec/cli.md, C-46).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.author.compiled_sdk import cache_folder, compiled_sdk
from aos.author.errors import BuildFailed, ToolMissing
from aos.author.project import RUST, ModuleSource, Project
from aos.author.toolchain import (
    MODULE_FLAGS,
    TARGET,
    WRAPPER,
    Console,
    Stopped,
    Toolchain,
    cargo_build,
    find_toolchain,
    programs,
    run,
    sysroot_flags,
)
from aos.errors import Unavailable

TARGET_FOLDER: Final = "target"

CARGO_FILE: Final = "Cargo.toml"

RECIPE: Final = 1
"""Part of the name of the standard library's folder. Increase it whenever the content or the build
changes."""

CRATE: Final = """\
[package]
name = "aos-std"
version = "0.0.0"
edition = "2021"

[lib]
path = "lib.rs"

[workspace]

[profile.release]
opt-level = "s"
codegen-units = 1
panic = "abort"
debug = false
"""
"""The manifest of the package whose build compiles the standard library; ``SOURCE`` is its code."""

SOURCE: Final = "#![no_std]\nextern crate alloc;\n"
LIBRARIES: Final = ("core", "alloc", "compiler_builtins")

UNFINISHED: Final = ".unfinished-"

_LOCK_PAUSE_S: Final = 0.1

_TEST_ATTRIBUTE: Final = re.compile(r"^[ \t]*#\[test\]", re.MULTILINE)


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
        module_source.name: _package_name(project, module_source)
        for module_source in project.modules
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
        remap={folder: "/project", **_crate_folders()},
        target=target,
        arguments=arguments,
        std=std,
        wrapper=_written_wrapper(target),
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
        module.name: _module_bytes(artifacts, packages[module.name], module, project)
        for module in project.modules
    }
    return BuiltModules(modules=modules, compiler=toolchain.identity())


def _written_wrapper(target: Path) -> Path:
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


def _package_name(project: Project, module: ModuleSource) -> str:
    """The package's name in its Cargo.toml."""
    file = project.folder / module.source / "Cargo.toml"
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise BuildFailed(
            f"modules.{module.name}.source: {file} cannot be read: {error.strerror}",
            location=str(project.file),
            expected="the folder of a Rust package",
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BuildFailed(f"{file}: the file is not TOML: {error}") from error
    match document:
        case {"package": {"name": str(name)}}:
            return name
        case _:
            raise BuildFailed(f"{file}: expected a [package] with a name")


def _crate_folders() -> dict[Path, str]:
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


def _module_bytes(
    artifacts: Mapping[str, list[Path]], package: str, module: ModuleSource, project: Project
) -> bytes:
    files = artifacts.get(package, [])
    if not files:
        raise BuildFailed(
            f"the package {package} does not build a WASM module",
            location=str(project.folder / module.source / "Cargo.toml"),
            expected='crate-type = ["cdylib"] in [lib]',
        )
    return files[0].read_bytes()


def built_std(toolchain: Toolchain, cache: Path, *, console: Console) -> Path:
    """Return a sysroot with the standard library of exactly this toolchain; build it from its
    sources if necessary, once (AU-34).

    For a toolchain without a compiled library for WASM, such as Debian's. The sysroot is in the
    user's cache folder, which all projects share.

    Raises:
        BuildFailed: The compiler failed, or the folder cannot be written.
    """
    sysroot = cache / _std_identity(toolchain)
    if sysroot.is_dir():
        return sysroot
    try:
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _cache_lock(cache, console):
            for leftover in cache.glob(f"{UNFINISHED}*"):  # left by a build that was killed
                shutil.rmtree(leftover, ignore_errors=True)
            if not sysroot.is_dir():
                _build_std(toolchain, sysroot, console)
    except OSError as error:
        raise BuildFailed(f"{cache}: the standard library cannot be stored: {error}") from error
    return sysroot


def _std_identity(toolchain: Toolchain) -> str:
    """A digest of everything that the library depends on. The compiler's modification time
    distinguishes two packages of the same version."""
    status = toolchain.rustc.resolve().stat()
    facts = [RECIPE, toolchain.identity(), str(toolchain.rustc), status.st_size, status.st_mtime_ns]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


@contextmanager
def _cache_lock(cache: Path, console: Console) -> Iterator[None]:
    """Hold a lock: of two builds that need the same library, one builds it, the other waits."""
    with (cache / "lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if console.given_up.is_set():
                    raise Stopped("the build was stopped") from None
                time.sleep(_LOCK_PAUSE_S)
        yield


def _build_std(toolchain: Toolchain, sysroot: Path, console: Console) -> None:
    console.report(
        "building Rust's standard library for WASM from its sources: half a minute, once"
    )
    scratch = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=sysroot.parent))
    try:
        (scratch / "Cargo.toml").write_text(CRATE, "utf-8")
        (scratch / "lib.rs").write_text(SOURCE, "utf-8")
        target = scratch / "target"
        call = cargo_build(
            toolchain,
            remap={},
            target=target,
            arguments=["--offline", "--quiet"],
            flags=["-Cembed-bitcode=yes"],  # for projects with link-time optimisation and without
        )
        run(
            call.command,
            cwd=scratch,
            environment=call.environment,
            program="the Rust compiler, at its own standard library,",
            console=console,
        )
        library = scratch / "sysroot" / "lib" / "rustlib" / TARGET / "lib"
        library.mkdir(parents=True)
        for name in LIBRARIES:
            for rlib in (target / TARGET / "release" / "deps").glob(f"lib{name}-*.rlib"):
                shutil.copy2(rlib, library)
        (scratch / "sysroot").rename(sysroot)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CargoTests:
    """The tests in Rust of one package. ``file`` is the first source file with one."""

    package: Path
    file: Path

    def command(self) -> list[str]:
        """The command that runs them.

        Raises:
            Unavailable: ``[lib]`` says ``test = false``, so cargo would pass over those in ``src``.
            ToolMissing: There is no cargo on the PATH.
        """
        manifest = self.package / CARGO_FILE
        if self.file.is_relative_to(self.package / "src") and _has_no_tests(manifest):
            raise Unavailable(
                f"the tests in {self.file} were not run, because [lib] has test = false",
                location=str(manifest),
                hint="remove that line, or run aos test --no-cargo",
            )
        cargo = next(programs("cargo"), None)
        if cargo is None:
            raise ToolMissing(
                f"cargo was not found on the PATH, so the tests in {self.file} were not run "
                "(install Rust, or run aos test --no-cargo)"
            )
        return [str(cargo), "test", "--quiet", "--manifest-path", str(manifest)]


def cargo_tests(project: Project) -> tuple[CargoTests, ...]:
    """The packages of a project that contain a function with ``#[test]``."""
    if project.lang != RUST:
        return ()
    tests = []
    for module in project.modules:
        package = project.folder / module.source
        file = next(_files_with_tests(package), None)
        if file is not None:
            tests.append(CargoTests(package=package, file=file))
    return tuple(tests)


def _files_with_tests(package: Path) -> Iterator[Path]:
    for folder in ("src", "tests"):
        for file in sorted((package / folder).rglob("*.rs")):
            if file.is_file() and _TEST_ATTRIBUTE.search(file.read_text("utf-8", "replace")):
                yield file


def _has_no_tests(manifest: Path) -> bool:
    try:
        document: Any = tomllib.loads(manifest.read_text("utf-8"))
    except (OSError, ValueError):
        return False  # cargo reports it
    match document:
        case {"lib": {"test": False}}:
            return True
        case _:
            return False
