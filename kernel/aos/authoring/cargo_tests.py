"""Find a project's tests in Rust, and the command that runs them (spec/cli.md, C-46)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.authoring.errors import ToolMissing
from aos.authoring.project import RUST, Project
from aos.authoring.toolchain import programs
from aos.errors import Unavailable, sentence

CARGO_FILE: Final = "Cargo.toml"

_TEST: Final = re.compile(r"^[ \t]*#\[test\]", re.MULTILINE)


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
                sentence(
                    f"the tests in {self.file} were not run, because [lib] has test = false",
                    location=str(manifest),
                    hint="remove that line, or run aos test --no-cargo",
                )
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
            if file.is_file() and _TEST.search(file.read_text("utf-8", "replace")):
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
