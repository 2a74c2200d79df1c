"""``build/compiler.json``: the compiler and the sources that made a build (AU-9), and the files of
a project that a build may read, with those of them that have changed (AU-80).

Commands that use a build compare this record with the sources, so that they never use a stale one.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from aos.author.project import (
    AIR,
    BUILD,
    GENERATED_AIR,
    PROJECT_FILE,
    PYTHON,
    PYTHON_SUFFIX,
    Project,
    read_project,
)
from aos.errors import Refused, Unavailable
from aos.shell_text import shell_word
from aos.values.digests import content_hash

RECORD: Final = f"{BUILD}/compiler.json"
WRITTEN_BY_CARGO: Final = "Cargo.lock"

_SOURCES: Final = "sources"
_MADE: Final = "made"

SUFFIXES: Final = (".rs", ".toml", ".lock", ".ts", ".json")
"""Name endings of files that a build may read."""

PASSED_OVER: Final = frozenset({"target", "node_modules", BUILD, "tests", "__pycache__"})
SOURCE_FOLDERS: Final = frozenset({"src", "assembly"})
"""Inside of these, a folder such as ``tests`` is a part of the module."""

GENERATED_CODE: Final = "assembly/generated.ts"
GENERATED: Final = frozenset({GENERATED_AIR, GENERATED_CODE})
WORLD_FILE: Final = "world.json"
"""A folder with this file is a world. ``aos run`` changes it, so it is no source."""

FILES_MAX: Final = 5_000

Seen: TypeAlias = dict[str, tuple[int, int]]
"""Modification time and size of each file, by its path below the project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRecord:
    """The compiler and the sources of a build. ``compiler`` is the identity of the Rust toolchain
    or of the interpreter of Python, empty for AssemblyScript; the maps are digests of files, by
    their path below the project."""

    compiler: Mapping[str, str]
    sources: Mapping[str, str]
    outputs: Mapping[str, str]

    def to_bytes(self) -> bytes:
        document = {
            **self.compiler,
            _SOURCES: dict(sorted(self.sources.items())),
            _MADE: dict(sorted(self.outputs.items())),
        }
        return (json.dumps(document, indent=2) + "\n").encode()


def read_record(project: Project) -> BuildRecord | None:
    """The record of the last build; None without one. A record that an earlier release wrote names
    no sources.

    Raises:
        Unavailable: The file cannot be read.
    """
    file = project.folder / RECORD
    try:
        parsed: Any = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{file}: the file cannot be read: {error.strerror}") from error
    except ValueError:
        parsed = None
    document = parsed if isinstance(parsed, dict) else {}
    return BuildRecord(
        compiler={name: value for name, value in document.items() if isinstance(value, str)},
        sources=_texts(document.get(_SOURCES)),
        outputs=_texts(document.get(_MADE)),
    )


def _texts(value: object) -> Mapping[str, str]:
    return {k: str(v) for k, v in value.items()} if isinstance(value, dict) else {}


class SourcesOfBuild:
    """The digests of a project's sources as a build has read them.

    They are taken before the compiler runs: a file that changes meanwhile makes the build stale.
    Only ``Cargo.lock`` is read afterwards, because cargo writes it.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._source_digests = _digests(project)

    def digests(self) -> Mapping[str, str]:
        current_digests = _digests(self._project)
        locks = {
            name: current_digests[name]
            for name in current_digests
            if Path(name).name == WRITTEN_BY_CARGO
        }
        return {**self._source_digests, **locks}


def _digests(project: Project) -> dict[str, str]:
    """Raises Unavailable if a file cannot be read."""
    digests = {}
    programs = {name: project.folder / name for name in _programs(project)}
    for name, file in (*source_files(project.folder), *programs.items()):
        digest = _digest(file)
        if digest is not None:  # else it was removed after it was listed
            digests[name] = digest
    return digests


def _programs(project: Project) -> frozenset[str]:
    """The sources of flows in Python. Its other files in Python are executors and tests."""
    is_python = project.lang == PYTHON
    return frozenset(module.source for module in project.modules if is_python)


def _digest(file: Path) -> str | None:
    try:
        return content_hash(file.read_bytes()).hex()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unavailable(f"{file}: the file cannot be read: {error.strerror}") from error


def stale_because(project: Project) -> str | None:
    """Why the project's build does not belong to its sources, as a clause; None if it does.

    Raises:
        Unavailable: A file cannot be read.
    """
    record = read_record(project)
    if record is None:
        return "it has not been built yet"
    if not record.sources:
        return f"{RECORD} does not name the sources of the last build"
    changed = _differing(record.sources, _digests(project))
    if changed:
        return f"{names_text(changed)} changed since the last build"
    on_disk = {name: _digest(project.folder / name) for name in record.outputs}
    spoiled = _differing(record.outputs, on_disk)
    unrecorded = [
        module.artifact for module in project.modules if module.artifact not in record.outputs
    ]
    if spoiled or unrecorded:
        return f"the last build did not make {names_text([*spoiled, *unrecorded])} as found on disk"
    return None


def _differing(recorded: Mapping[str, str], actual: Mapping[str, str | None]) -> list[str]:
    return sorted(n for n in recorded.keys() | actual.keys() if recorded.get(n) != actual.get(n))


def names_text(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def refuse_stale_build(project: Project) -> None:
    """Raise Refused, with the command that builds, unless the build belongs to the sources."""
    because = stale_because(project)
    if because is not None:
        raise Refused(
            f"the build of {project.name} is stale: {because}", hint=f"run {build_command(project)}"
        )


def build_command(project: Project) -> str:
    """The command that builds the project, as it is typed in the current folder."""
    return (
        "aos build" if is_inside(project) else f"aos build {shell_word(project.folder.resolve())}"
    )


def is_inside(project: Project) -> bool:
    """Whether the current folder is in the project."""
    return Path.cwd().is_relative_to(project.folder.resolve())


def project_built_at(path: Path) -> Project | None:
    """The project whose build ``path`` is a part of: its folder, a module in ``build/``, or
    something in ``air/``. None for any other path.

    Raises:
        BadUsage: The ``aos.toml`` is invalid.
    """
    resolved = path.resolve()
    for folder in (resolved, *resolved.parents):
        if (folder / PROJECT_FILE).is_file():
            below = resolved.relative_to(folder).parts[:1]
            return read_project(folder) if below in {(), (AIR,), (BUILD,)} else None
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Files that were added, removed or changed: those of the build, and those of the executors."""

    sources: tuple[str, ...]
    effects: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.sources or self.effects)


def source_files(folder: Path, suffixes: tuple[str, ...] = SUFFIXES) -> Iterator[tuple[str, Path]]:
    """Yield each file as its path below ``folder`` and its path. Generated files, tests, worlds and
    hidden files are left out."""
    for current, below, names in os.walk(folder):
        if WORLD_FILE in names:
            below.clear()
            continue
        parts = Path(current).relative_to(folder).parts
        passed_over = PASSED_OVER if SOURCE_FOLDERS.isdisjoint(parts) else frozenset()
        below[:] = sorted(n for n in below if n not in passed_over and not n.startswith("."))
        for name in sorted(names):
            if not name.endswith(suffixes) or name.startswith("."):
                continue
            file = Path(current, name)
            path = file.relative_to(folder).as_posix()
            if path not in GENERATED:
                yield path, file


class Watch:
    """The state of a project's files at the last reported change (AU-80).

    It polls modification times and sizes of some hundred files, which needs no further package and
    works on every file system.
    """

    def __init__(self, project: Project) -> None:
        self._folder = project.folder
        self._programs = _programs(project)
        self._reported = self._last = self._look()

    def changes(self) -> Changes | None:
        """The changes since the last report; None if there are none, or while files still change:
        editors and version control write several."""
        now = self._look()
        is_at_rest, self._last = now == self._last, now
        if not is_at_rest or now == self._reported:
            return None
        names = {name for name, _ in self._reported.items() ^ now.items()}
        self._reported = now
        effects = {name for name in names - self._programs if name.endswith(PYTHON_SUFFIX)}
        return Changes(sources=tuple(sorted(names - effects)), effects=tuple(sorted(effects)))

    def _look(self) -> Seen:
        stamps: Seen = {}
        programs = ((name, self._folder / name) for name in sorted(self._programs))
        others = source_files(self._folder, (*SUFFIXES, PYTHON_SUFFIX))
        for name, file in itertools.islice(itertools.chain(programs, others), FILES_MAX):
            try:
                status = file.stat()
            except OSError:
                continue  # it was removed after it was listed
            stamps[name] = (status.st_mtime_ns, status.st_size)
        return stamps
