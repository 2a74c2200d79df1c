"""Find a Rust compiler on the PATH that can build WASM, and make its command (AU-30 to AU-35).

It builds WASM in one of two ways: with the target that ``rustup target add`` installs, or from the
sources of the standard library, which Debian ships. ``modules/build`` uses this file in a bare
checkout, so it imports only the standard library. A compiler that ``run`` starts writes its
messages to our stderr (spec/authoring.md, AU-4).
"""

# ruff: noqa: S603  # it runs compilers
from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

from aos.author.errors import BuildFailed, ToolMissing
from aos.tied_process import signals_after

TARGET: Final = "wasm32-unknown-unknown"

STACK_BYTES: Final = 64 * 1024
"""Size of a guest's stack. The linker's default of 1 MiB would be zeroed again for each step."""

MODULE_FLAGS: Final = (f"-Clink-arg=-zstack-size={STACK_BYTES}",)

NO_STD: Final = "core,alloc"
"""The parts of the standard library that guests need."""

REMAPPING: Final = "AOS_REMAPPING"
WRAPPER: Final = f"""\
#!/bin/sh
# Written by aos build. Calls the compiler with flags that hide the paths of this machine.
IFS=$(printf '\\037')
set -f
exec "$@" ${REMAPPING}
"""
"""Runs a compiler with the additional flags in the variable ``REMAPPING``."""

FOREIGN: Final = re.compile(r"RUST(FLAGS|C|DOC)|CARGO_(ENCODED|BUILD|PROFILE|TARGET|UNSTABLE)")
"""Environment variables that could change the bytes; they are not passed on."""

COMMIT: Final = re.compile(r"^commit-hash: ([0-9a-f]{40})$", re.MULTILINE)

OS_RELEASE: Final = Path("/etc/os-release")

_INSTALL: Final[Mapping[str, str]] = {
    "debian": "`apt-get install rustc-web cargo-web rust-web-src lld`",
    "fedora": f"`dnf install rust cargo rust-std-static-{TARGET} lld`",
    "arch": "`pacman -S rust rust-wasm lld`",
    "alpine": "`apk add rust cargo rust-wasm lld`",
}
"""Commands by system, named by ID or ID_LIKE of os-release."""

Report = Callable[[str], None]
"""Called with a line about the build's progress."""

LOOK_S: Final = 0.1
ENDS_S: Final = 5.0
"""Time that a compiler has to end after a signal."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A Rust toolchain that can build WASM."""

    rustc: Path
    cargo: Path
    version: str  # rustc -vV
    sysroot: Path
    sources: Path | None  # of the standard library, when it has to be built too
    linker: Path | None  # None: the compiler's own

    def identity(self) -> dict[str, str]:
        """Toolchains with equal identities produce equal bytes."""
        return {
            "rustc": self.version,
            "cargo": output_of(self.cargo, "-V"),
            "std": "built from source" if self.sources else "installed",
            "linker": output_of(self.linker, "--version") if self.linker else "the compiler's own",
        }


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A command, and its complete environment."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


def cargo_build(
    toolchain: Toolchain,
    *,
    remap: Mapping[Path, str],
    target: Path,
    arguments: Sequence[str],
    std: Path | None = None,
    flags: Sequence[str] = MODULE_FLAGS,
    wrapper: Path | None = None,
    crate_type: str | None = None,
    std_crates: str = NO_STD,
    crates: Path | None = None,
) -> ToolCall:
    """The call for a release build whose bytes depend only on the sources and the toolchain.

    Args:
        remap: Folders, and the text that replaces their paths in the bytes.
        target: Cargo's target folder.
        std: A sysroot with a standard library that was built before. Without it, a toolchain that
            has only the library's sources builds the library too.
        crates: A folder of crates, a Cargo directory source, from which the build takes all
            crates that it needs, those of the standard library included.
    """
    # Shortest first: rustc uses the last prefix that matches, and the longest one must win.
    replacements = {**remap, toolchain.sysroot: "/rust", **_installed_library(toolchain)}
    prefixes = sorted(replacements.items(), key=lambda replacement: len(str(replacement[0])))
    remapping = [f"--remap-path-prefix={folder}={name}" for folder, name in prefixes]
    flags = [*flags, *sysroot_flags(std), *([] if wrapper else remapping)]
    subcommand = ["rustc", "--crate-type", crate_type] if crate_type else ["build"]
    command = [str(toolchain.cargo), *subcommand, "--release"]
    command += ["--target", TARGET, "--target-dir", str(target), *arguments]
    environment = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
    environment |= {
        "RUSTC": str(toolchain.rustc),
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CARGO_INCREMENTAL": "0",
    }
    if wrapper:
        environment |= {"RUSTC_WRAPPER": str(wrapper), REMAPPING: "\x1f".join(remapping)}
    linker = toolchain.linker or (own_linker(toolchain.sysroot) if std else None)
    if linker:
        environment["CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER"] = str(linker)
    if toolchain.sources and not std:
        # Building the standard library is unstable; this lets a stable compiler do it.
        environment["RUSTC_BOOTSTRAP"] = "1"
        command.append(f"-Zbuild-std={std_crates}")
        crates = crates or toolchain.sources / "vendor"
    if crates and crates.is_dir():
        command += ["--config", 'source.crates-io.replace-with="shipped"']
        command += ["--config", f'source.shipped.directory="{crates}"']
    return ToolCall(tuple(command), environment)


def sysroot_flags(std: Path | None) -> list[str]:
    return [f"--sysroot={std}"] if std else []


def _installed_library(toolchain: Toolchain) -> dict[Path, str]:
    """The remapping for the sources of an installed, compiled library. Its panics name
    /rustc/<commit>, but a local path once the sources are installed too."""
    commit = COMMIT.search(toolchain.version)
    if toolchain.sources is not None or commit is None:
        return {}
    return {toolchain.sysroot / "lib/rustlib/src/rust": f"/rustc/{commit[1]}"}


def find_toolchain() -> Toolchain:
    """Return the first toolchain on the PATH that can build WASM.

    Raises:
        ToolMissing: There is none. The text says what each one lacks, and what to install.
    """
    checked = []
    for rustc in programs("rustc"):
        version, sysroot = (
            output_of(rustc, "-vV"),
            Path(output_of(rustc, "--print", "sysroot") or "/nowhere"),
        )
        cargo = next(iter([*beside(rustc, "cargo"), *programs("cargo")]), None)
        rustlib = sysroot / "lib" / "rustlib"
        installed = any((rustlib / TARGET / "lib").glob("libcore-*.rlib"))
        library = rustlib / "src" / "rust" / "library"
        sources = library.resolve() if (library / "core/src/lib.rs").exists() else None
        carries_linker = own_linker(sysroot) is not None
        linker = None if carries_linker else find_linker()
        lacks = []
        if not version:
            lacks.append("it does not run")
        if cargo is None:
            lacks.append("no cargo")
        if not installed and sources is None:
            lacks.append(f"neither the target {TARGET} nor the sources of the standard library")
        if linker is None and not carries_linker:
            lacks.append("no WASM linker (rust-lld or wasm-ld)")
        if cargo is not None and not lacks:
            return Toolchain(rustc, cargo, version, sysroot, None if installed else sources, linker)
        checked.append(f"  {rustc}: {', '.join(lacks)}")
    raise ToolMissing(
        "no Rust compiler that can build WASM was found on the PATH"
        + ("; checked\n" + "\n".join(checked) if checked else ".")
        + f"\nInstall one: {advice()}."
    )


def advice(os_release: Path = OS_RELEASE) -> str:
    """How to install a toolchain on this system."""
    if next(programs("rustup"), None) is not None:
        ways = [f"`rustup target add {TARGET}`"]
    else:
        ways = [f"`rustup target add {TARGET}` once rustup is installed"]
    ways += [_INSTALL[name] for name in systems(os_release) if name in _INSTALL][:1]
    return ", or here ".join(ways)


def systems(os_release: Path) -> list[str]:
    """The ID of this system and its ID_LIKE, nearest first."""
    try:
        text = os_release.read_text("utf-8", "replace")
    except OSError:
        return []
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".replace('"', "").split()


def own_linker(sysroot: Path) -> Path | None:
    """The linker that comes with a toolchain."""
    return next(iter(sorted((sysroot / "lib" / "rustlib").glob("*/bin/rust-lld"))), None)


def find_linker() -> Path | None:
    """Return `wasm-ld` or the newest `wasm-ld-<number>` on the PATH."""
    numbered = list(programs(r"wasm-ld-\d+"))
    numbered.sort(key=lambda program: int(program.name.rsplit("-", 1)[1]), reverse=True)
    return next(iter([*programs("wasm-ld"), *numbered]), None)


def output_of(program: Path, *arguments: str) -> str:
    """The stdout of a program; empty if it does not run."""
    try:
        ran = subprocess.run(
            [program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except OSError:
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""


def programs(pattern: str) -> Iterator[Path]:
    """Yield every program on the PATH whose whole name matches, once."""
    yielded: set[Path] = set()
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        files = sorted(Path(folder).glob("*")) if folder and Path(folder).is_dir() else []
        for program in files:
            if re.fullmatch(pattern, program.name) and os.access(program, os.X_OK):
                # All shims of rustup are links to one program, so compare the links' own paths.
                path = program.parent.resolve() / program.name
                if path not in yielded:
                    yielded.add(path)
                    yield program


def beside(program: Path, name: str) -> list[Path]:
    """Return the program ``name`` in the folder of ``program``, if there is one."""
    sibling = program.with_name(name)
    return [sibling] if os.access(sibling, os.X_OK) else []


class Stopped(BuildFailed):
    """The build was canceled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """The output of a build, and the request to cancel it."""

    report: Report
    given_up: Event = field(default_factory=Event)


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    program: str,
    console: Console,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program to its end and return its stdout. It inherits our stderr.

    It has its own process group, which is ended with it: an interrupted or canceled build leaves no
    processes behind.

    Raises:
        BuildFailed: Its exit code is not 0; it has printed the reason.
        Stopped: The build was canceled.
        ToolMissing: It cannot be started.
    """
    child: subprocess.Popen[bytes] | None = None
    try:
        with signals_after():
            child = subprocess.Popen(
                [str(word) for word in command],
                cwd=cwd,
                env=None if environment is None else dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        out = _output(child, console, program)
    except BaseException as problem:
        if child is not None:
            _end(child)
        elif isinstance(problem, OSError):
            raise ToolMissing(f"{command[0]}: cannot be started: {problem.strerror}") from problem
        raise
    if child.returncode != 0:
        raise BuildFailed(_failure_text(child.returncode, program))
    return out.decode(errors="replace")


def _output(child: subprocess.Popen[bytes], console: Console, program: str) -> bytes:
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=LOOK_S)[0]
        if console.given_up.is_set():
            raise Stopped(f"{program} was stopped")


def _failure_text(code: int, program: str) -> str:
    if code < 0:
        return f"{program} was ended by {signal.Signals(-code).name}"
    return f"{program} failed (exit code {code}); see above"


def _end(child: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(child.pid, number)
            child.wait(ENDS_S)
    child.communicate()
