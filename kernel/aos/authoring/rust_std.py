"""Build Rust's standard library for WASM from its sources, once (spec/authoring.md, AU-34).

For a toolchain without a compiled library for WASM, such as Debian's. The result is a sysroot in
the user's cache folder, which all projects share.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from aos.authoring.errors import BuildFailed
from aos.authoring.running import Console, Stopped, run
from aos.authoring.toolchain import TARGET, Toolchain, cargo_build

RECIPE: Final = 1
"""Part of the folder's name. Increase it whenever the content or the build changes."""

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
SOURCE: Final = "#![no_std]\nextern crate alloc;\n"
LIBRARIES: Final = ("core", "alloc", "compiler_builtins")

UNFINISHED: Final = ".unfinished-"

_LOOK_S: Final = 0.1


def built_std(toolchain: Toolchain, cache: Path, *, console: Console) -> Path:
    """Return a sysroot with the library of exactly this toolchain; build it if necessary.

    Raises:
        BuildFailed: The compiler failed, or the folder cannot be written.
    """
    sysroot = cache / _identity(toolchain)
    if sysroot.is_dir():
        return sysroot
    try:
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _alone(cache, console):
            for leftover in cache.glob(f"{UNFINISHED}*"):  # left by a build that was killed
                shutil.rmtree(leftover, ignore_errors=True)
            if not sysroot.is_dir():
                _build(toolchain, sysroot, console)
    except OSError as error:
        raise BuildFailed(f"{cache}: the standard library cannot be stored: {error}") from error
    return sysroot


def _identity(toolchain: Toolchain) -> str:
    """A digest of everything that the library depends on. The compiler's modification time
    distinguishes two packages of the same version."""
    status = toolchain.rustc.resolve().stat()
    facts = [RECIPE, toolchain.identity(), str(toolchain.rustc), status.st_size, status.st_mtime_ns]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


@contextmanager
def _alone(cache: Path, console: Console) -> Iterator[None]:
    """Hold a lock: of two builds that need the same library, one builds it, the other waits."""
    with (cache / "lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if console.given_up.is_set():
                    raise Stopped("the build was stopped") from None
                time.sleep(_LOOK_S)
        yield


def _build(toolchain: Toolchain, sysroot: Path, console: Console) -> None:
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
