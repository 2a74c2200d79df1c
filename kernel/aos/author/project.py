"""Read ``aos.toml`` (spec/authoring.md, AU-10 to AU-13)."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from aos.errors import BadUsage, either, excerpt
from aos.manifest.forms import ABIS

PROJECT_FILE: Final = "aos.toml"
AIR: Final = "air"
GENERATED_AIR: Final = "air/generated.air.json"
BUILD: Final = "build"
WORLD: Final = ".aos/dev"

RUST: Final = "rust"
ASSEMBLYSCRIPT: Final = "assemblyscript"
PYTHON: Final = "python"
LANGUAGES: Final = (RUST, ASSEMBLYSCRIPT, PYTHON)
DEFAULT_SOURCE: Final[Mapping[str, str]] = {
    RUST: ".",
    ASSEMBLYSCRIPT: "assembly/index.ts",
    PYTHON: "flow.py",
}
PYTHON_SUFFIX: Final = ".py"

MODULE_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
PROJECT_FILE_BYTES_MAX: Final = 256 * 1024

_OURS: Final = frozenset({"$kind", "$comment", "air_version"})
_SECTIONS: Final = ("schemas", "modules", "workflows", "effects", "secrets")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSource:
    """One module to build. ``source`` is relative to the project: the folder of a Rust package, the
    entry file of AssemblyScript, or the file of a flow in Python."""

    name: str
    source: str

    @property
    def artifact(self) -> str:
        """The path of the built module, relative to the project."""
        return f"{BUILD}/{self.name}.wasm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The content of a project's ``aos.toml``.

    Attributes:
        executors: Executors that ``aos dev`` runs, in the form of ``--executors``.
        world: The folder of the scratch world, relative to the project.
        abi: The ABI of modules that declare none, other than those of the sources.
        manifest: More fields for the generated manifest: limits, executors, further routes.
    """

    folder: Path
    name: str
    lang: str
    modules: tuple[ModuleSource, ...]
    executors: tuple[str, ...]
    world: str
    manifest: Mapping[str, Any]
    abi: str | None = None

    @property
    def file(self) -> Path:
        return self.folder / PROJECT_FILE


def find_project(path: Path) -> Project:
    """Read the project at ``path``, or in the nearest folder above it.

    Raises:
        BadUsage: There is no project, or its ``aos.toml`` is invalid.
    """
    start = path.resolve()
    if start.is_file():
        start = start.parent
    for folder in (start, *start.parents):
        if (folder / PROJECT_FILE).is_file():
            return read_project(folder)
    raise BadUsage(
        f"there is no {PROJECT_FILE} in this folder or one above it",
        location=str(path),
        expected="the folder of a project",
        hint="aos new NAME --lang rust creates one",
    )


def read_project(folder: Path) -> Project:
    """Read the project in this folder. Raises BadUsage as ``find_project``."""
    file = folder / PROJECT_FILE
    try:
        with file.open("rb") as stream:
            data = stream.read(PROJECT_FILE_BYTES_MAX + 1)
        if len(data) > PROJECT_FILE_BYTES_MAX:
            raise BadUsage(f"{file}: expected at most {PROJECT_FILE_BYTES_MAX:,} bytes")
        document = tomllib.loads(data.decode())
    except OSError as error:
        raise BadUsage(f"{file}: the file cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadUsage(f"{file}: the file is not TOML: {excerpt(str(error))}") from error
    return _Reading(file).project(document)


def short_path(path: Path) -> str:
    """The path, relative to the working directory if that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Checks the parsed TOML and makes a Project of it."""

    file: Path

    def project(self, document: Mapping[str, Any]) -> Project:
        self._check_keys(document, ("project", "modules", "manifest"), "")
        head = self._table(document, "project", "")
        self._check_keys(head, ("name", "lang", "executors", "world", "abi"), "project")
        name = self._text(head, "name", "project")
        if MODULE_NAME.fullmatch(name) is None:
            raise self._invalid("project.name", f"a name such as {MODULE_NAME.pattern}", repr(name))
        lang = self._text(head, "lang", "project")
        if lang not in LANGUAGES:
            raise self._invalid(
                "project.lang", either([repr(name) for name in LANGUAGES]), repr(lang)
            )
        return Project(
            folder=self.file.parent,
            name=name,
            lang=lang,
            modules=self._modules(document, name, lang),
            executors=self._executors(head),
            world=self._path_inside(head.get("world", WORLD), "project.world"),
            abi=self._abi(head),
            manifest=self._manifest(document),
        )

    def _modules(
        self, document: Mapping[str, Any], name: str, lang: str
    ) -> tuple[ModuleSource, ...]:
        default = DEFAULT_SOURCE[lang]
        tables = self._table(document, "modules", "") if "modules" in document else {name: {}}
        if not tables:
            raise self._invalid("modules", "one table [modules.NAME] or more", "none")
        modules = []
        for module in tables:
            field_path = f"modules.{module}"
            if MODULE_NAME.fullmatch(module) is None:
                raise self._invalid(
                    field_path, f"a name such as {MODULE_NAME.pattern}", repr(module)
                )
            table = self._table(tables, module, "modules")
            self._check_keys(table, ("source",), field_path)
            source = self._path_inside(table.get("source", default), f"{field_path}.source")
            if lang == PYTHON and not source.endswith(PYTHON_SUFFIX):
                expected = f"a file of Python, such as {default!r}"
                raise self._invalid(f"{field_path}.source", expected, repr(source))
            modules.append(ModuleSource(name=module, source=source))
        return tuple(modules)

    def _abi(self, head: Mapping[str, Any]) -> str | None:
        abi = head.get("abi")
        if abi is not None and abi not in ABIS:
            raise self._invalid("project.abi", " or ".join(map(repr, ABIS)), repr(abi))
        return abi

    def _executors(self, head: Mapping[str, Any]) -> tuple[str, ...]:
        specs = head.get("executors", [])
        if not isinstance(specs, list) or not all(isinstance(spec, str) for spec in specs):
            raise self._invalid("project.executors", 'a list such as ["effects.py:shop"]', None)
        return tuple(specs)

    def _manifest(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        table = self._table(document, "manifest", "") if "manifest" in document else {}
        for field in table:
            if field in _OURS or field in _SECTIONS:
                raise BadUsage(
                    f"manifest.{field} is filled in by aos build",
                    location=str(self.file),
                    hint="leave it out; definitions of the sources and of air/ are listed",
                )
        return MappingProxyType(dict(table))

    def _path_inside(self, value: object, field_path: str) -> str:
        """A relative path inside of the project, in its normal form."""
        path = PurePosixPath(value) if isinstance(value, str) and value else None
        if path is None or path.is_absolute() or ".." in path.parts:
            raise self._invalid(field_path, "a path below the project's folder", repr(value))
        return str(path)

    def _table(self, fields: Mapping[str, Any], name: str, within: str) -> Mapping[str, Any]:
        value = fields.get(name)
        if not isinstance(value, dict):
            field_path = f"{within}.{name}" if within else name
            raise self._invalid(
                field_path, f"a table [{field_path}]", None if value is None else repr(value)
            )
        return value

    def _text(self, fields: Mapping[str, Any], name: str, within: str) -> str:
        value = fields.get(name)
        if not isinstance(value, str):
            field_path = f"{within}.{name}"
            raise self._invalid(field_path, "text", "nothing" if value is None else repr(value))
        return value

    def _check_keys(self, fields: Mapping[str, Any], names: Iterable[str], within: str) -> None:
        names = tuple(names)
        for name in fields:
            if name in names:
                continue
            near = difflib.get_close_matches(name, names, n=1)
            raise BadUsage(
                excerpt(f"{within}.{name}" if within else name),
                location=str(self.file),
                expected="one of " + ", ".join(names),
                actual=excerpt(repr(name)),
                hint=f"did you mean {near[0]}?" if near else None,
            )

    def _invalid(self, field_path: str, expected: str, actual: str | None) -> BadUsage:
        return BadUsage(
            excerpt(field_path),
            location=str(self.file),
            expected=expected,
            actual=None if actual is None else excerpt(actual),
        )
