"""``build/compiler.json``: the compiler and the sources that made a build (AU-9).

Commands that use a build compare this record with the sources, so that they never use a stale one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.author.project import AIR, BUILD, PROJECT_FILE, Project, read_project
from aos.author.source_files import source_files
from aos.errors import Refused, Unavailable
from aos.shell_text import shell_word
from aos.values.digests import content_hash

RECORD: Final = f"{BUILD}/compiler.json"
WRITTEN_BY_CARGO: Final = "Cargo.lock"

_SOURCES: Final = "sources"
_MADE: Final = "made"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRecord:
    """The compiler and the sources of a build. ``compiler`` is the identity of the Rust toolchain,
    empty for AssemblyScript; the maps are digests of files, by their path below the project."""

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
        self._folder = project.folder
        self._source_digests = _digests(project.folder)

    def digests(self) -> Mapping[str, str]:
        current_digests = _digests(self._folder)
        locks = {
            name: current_digests[name]
            for name in current_digests
            if Path(name).name == WRITTEN_BY_CARGO
        }
        return {**self._source_digests, **locks}


def _digests(folder: Path) -> dict[str, str]:
    """Raises Unavailable if a file cannot be read."""
    digests = {}
    for name, file in source_files(folder):
        digest = _digest(file)
        if digest is not None:  # else it was removed after it was listed
            digests[name] = digest
    return digests


def _digest(file: Path) -> str | None:
    try:
        return content_hash(file.read_bytes()).hex()
    except FileNotFoundError:
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
    changed = _differing(record.sources, _digests(project.folder))
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
