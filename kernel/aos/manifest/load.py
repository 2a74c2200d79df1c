"""Load a manifest from the bytes of its files, or report all its problems (spec/manifest.md).

Stages: read (JSON, exactly one manifest, one definition per name, the packages that it uses),
structure (JSON Schema), meaning, artifacts, hashes, effective. The bytes are an argument; of files,
only those of the packages are read.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from aos.errors import Refused, excerpt, sentence
from aos.manifest import meaning
from aos.manifest.agentos_folder import hashed_files, in_our_spelling, wrong_sha256
from aos.manifest.builtin_definitions import EFFECTS, SCHEMAS
from aos.manifest.catalog import RuleFinding, Subject, did_you_mean, each_once
from aos.manifest.difference import Difference, difference
from aos.manifest.effective import Effective, definition_hash
from aos.manifest.expressions import COMMENT, without_comments
from aos.manifest.forms import AGENTOS, KINDS, Misshapen, Node, canonical
from aos.manifest.group_rules import group_findings
from aos.manifest.judging import make
from aos.manifest.meaning import SECTIONS, SENT_TO_PACKAGES
from aos.manifest.names import is_name, is_system
from aos.manifest.packages import IMPLIED, PACKAGES, package
from aos.manifest.schedule_setting import schedules_fit
from aos.values.digests import Hash, content_hash, hash_text
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json

__all__ = [
    "Difference", "Loaded", "ManifestProblems", "Problem", "difference", "load", "needed_files",
    "unreadable",
]  # fmt: skip

AIR_SUFFIX: Final = ".json"
AIR_BYTES_MAX: Final = 16 << 20
AIR_ITEMS_MAX: Final = 1 << 20
AIR_FOLDER: Final = "air"
FOLDERS_NAMED: Final = 8
_PART_CHARACTERS_MAX: Final = 1024

Check = Callable[[bytes, Iterable[str]], list[str]]
"""(wasm, entrypoints) -> problems of the module: ``aos.sandbox.inspect.check_module``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem to fix. ``pointer`` is a JSON pointer into ``file``; both may be empty.

    ``str()`` is one sentence, in which long names from the file are cut off (M-3).
    """

    file: str
    pointer: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        location = _location(excerpt(self.file), excerpt(self.pointer))
        return sentence(
            excerpt(self.message, characters_max=_PART_CHARACTERS_MAX),
            location=location or None,
            hint=None
            if self.hint is None
            else excerpt(self.hint, characters_max=_PART_CHARACTERS_MAX),
        )


def _location(file: str, pointer: str) -> str:
    return f"{file}#{pointer}" if pointer else file


class ManifestProblems(Refused):
    """A manifest is refused. ``problems`` has all its problems, ordered by file and place."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A manifest without problems, and the wasm bytes of its modules by content hash."""

    effective: Effective
    modules: Mapping[Hash, bytes]


def load(
    files: Mapping[str, bytes],
    *,
    check: Check | None = None,
    abi: str | None = None,
    in_group: bool = False,
) -> Loaded:
    """Read a manifest from files given as relative path -> bytes.

    Paths are normal and separated by ``/`` (``air/x.air.json``, ``../build/x.wasm``). Files that
    end in ``.json`` are AIR; all others are artifacts, listed by ``needed_files``; further ones are
    ignored. ``check`` is called with every module's bytes. ``abi`` is the ABI assumed for modules
    that declare none. ``in_group``: whether the manifest is for a group of worlds, which has rules
    of its own (spec/groups.md, GR-30).

    Raises:
        ManifestProblems: All problems of all files.
    """
    source = _Source(files, abi)
    if len(source.manifest_folders) > 1:
        raise ManifestProblems([_several(list(source.manifest_folders))])
    source.find_problems(check)
    if source.problems:
        raise ManifestProblems(sorted(source.problems, key=_sort_key))
    effective = make(*source.canonical())
    if in_group:
        problems = [source.problem(finding) for finding in group_findings(effective)]
        if problems:
            raise ManifestProblems(sorted(problems, key=_sort_key))
    return Loaded(effective=effective, modules=source.modules())


def _several(folders: list[str]) -> Problem:
    """The problem of a folder with the manifests of several worlds. Their definitions do not fit
    together, which would be many more problems."""
    names = ", ".join(folders[:FOLDERS_NAMED])
    unnamed_count = len(folders) - FOLDERS_NAMED
    return Problem(
        file="",
        pointer="",
        message=f"expected one manifest, found {len(folders)}: in {names}"
        + (f" and {unnamed_count} more" if unnamed_count > 0 else ""),
        hint="choose the folder of one of them",
    )


def needed_files(
    files: Mapping[str, bytes], module_files: Iterable[str] = (), *, abi: str | None = None
) -> set[str]:
    """Artifact paths that the AIR files among ``files`` refer to and ``files`` lacks.
    ``module_files`` are the files below ``modules``: of these, the ones that have a module's name
    and a hash.

    For a module without ``path`` these are all its possible places (M-14), of which one must exist.
    Files with problems are read as far as possible. Paths may begin with ``../``: the caller
    decides whether to read such a file.
    """
    source = _Source(files, abi)
    needed_paths: set[str] = set()
    for subject, located in source.definitions.items():
        if subject[0] == "defmodule" and subject not in source.broken:
            paths = _artifact_places(located)
            if not any(path in source.files for path in paths):
                needed_paths.update(paths)
                needed_paths.update(_hashed_places(located, module_files))
    return needed_paths


def unreadable(files: Mapping[str, bytes]) -> list[Problem]:
    """Problems of the AIR files that are not JSON. Their definitions are unknown, so ``load`` may
    find further problems that are only consequences."""
    parsed = (_parsed(file, files[file]) for file in sorted(files) if file.endswith(AIR_SUFFIX))
    return [problem for problem in parsed if isinstance(problem, Problem)]


def _parsed(file: str, data: bytes) -> object:
    """The JSON of an AIR file, or a Problem if it is not JSON."""
    try:
        return parse_json(data.decode(), max_bytes=AIR_BYTES_MAX, max_items=AIR_ITEMS_MAX)
    except UnicodeDecodeError as error:
        message = f"the file is not UTF-8: byte {error.start} is no part of any text"
    except ValueProblem as problem:
        message = f"the file is not JSON: {problem}"
    return Problem(file=file, pointer="", message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Located:
    """A node with its file and position."""

    file: str
    pointer: str
    node: Node
    name_in_file: str | None = None
    """The name of a module, if its file spells it otherwise (AG-42)."""

    @property
    def location(self) -> str:
        return _location(self.file, self.pointer)

    def problem(self, pointer: str, message: str, hint: str | None = None) -> Problem:
        return Problem(file=self.file, pointer=self.pointer + pointer, message=message, hint=hint)


class _Source:
    """The nodes of some files. The constructor collects problems of reading and of structure."""

    def __init__(self, files: Mapping[str, bytes], abi: str | None = None) -> None:
        self.files = files
        self.abi = abi
        self.problems: list[Problem] = []
        self.manifest: _Located | None = None
        self.manifest_is_sound = False
        self.manifest_folders: dict[str, None] = {}  # in order; a set would have none
        self.definitions: dict[Subject, _Located] = {}
        self.broken: set[Subject] = set()
        self.incomplete = False  # some node could not be read as far as its name
        for file in sorted(files):
            if file.endswith(AIR_SUFFIX):
                for located in self._nodes(file):
                    self._take(located)
        self._take_packages()

    def find_problems(self, check: Check | None) -> None:
        """Add the problems of meaning, of hashes and of artifacts."""
        sound = {
            subject: located.node
            for subject, located in self.definitions.items()
            if subject not in self.broken
        }
        manifest = self.manifest.node if self.manifest and self.manifest_is_sound else None
        for finding in meaning.check(
            manifest, sound, self.broken, incomplete=self.incomplete, extra_rule=schedules_fit
        ):
            self.problems.append(self.problem(finding))
        self.problems.extend(self._artifact_problems(check))
        if manifest is not None:
            self.problems.extend(self._wrong_hashes(manifest))

    def problem(self, finding: RuleFinding) -> Problem:
        """A finding, at its place in the files."""
        located = (
            self.manifest
            if finding.subject == meaning.MANIFEST
            else self.definitions[finding.subject]
        )
        assert located is not None  # there are no findings about a manifest that is not there
        return located.problem(finding.pointer, finding.message, finding.hint)

    def canonical(self) -> tuple[Node, dict[Subject, Node]]:
        """The canonical nodes, every module with the hash of its bytes."""
        assert self.manifest is not None
        definitions = {
            subject: canonical(located.node) for subject, located in self.definitions.items()
        }
        for subject, located in self.definitions.items():
            if subject[0] == "defmodule":
                artifact = definitions[subject]["runtime"]["artifact"]
                artifact["hash"] = hash_text(content_hash(self._artifact(located)))
        return canonical(self.manifest.node), definitions

    def modules(self) -> Mapping[Hash, bytes]:
        artifacts = (
            self._artifact(located)
            for (kind, _), located in self.definitions.items()
            if kind == "defmodule"
        )
        return MappingProxyType({content_hash(wasm): wasm for wasm in artifacts})

    def _nodes(self, file: str) -> Iterator[_Located]:
        # jsonschema is slow to import, and only an author's files are checked with it. Code that
        # opens a world imports this module too, but the manifest in a journal is not checked so.
        from aos.manifest import structure  # noqa: PLC0415

        value = _parsed(file, self.files[file])
        if isinstance(value, Problem):
            self.problems.append(value)
            self.incomplete = True
            return
        placed = enumerate(value) if isinstance(value, list) else [("", value)]
        for index, node in placed:
            pointer = f"/{index}" if index != "" else ""
            original: Any = node
            if self.abi == AGENTOS:
                node = in_our_spelling(original)  # noqa: PLW2901  # the rest sees this one
            node_problems = structure.problems(node)
            for inner, message, hint in node_problems:
                self._add(file, pointer + inner, message, hint)
            if not isinstance(node, dict):
                self.incomplete = True
                continue
            located = _Located(file=file, pointer=pointer, node=node)
            if node_problems:
                self._note_broken(located)
            elif self.abi is not None and node["$kind"] == "defmodule":
                name_in_file = None if original["name"] == node["name"] else original["name"]
                yield replace(located, node={"abi": self.abi, **node}, name_in_file=name_in_file)
            else:
                yield located

    def _add(self, file: str, pointer: str, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(file=file, pointer=pointer, message=message, hint=hint))

    def _note_broken(self, located: _Located) -> None:
        """Note that a definition of this name exists, so that only its own problem is reported."""
        kind, name = located.node.get("$kind"), located.node.get("name")
        if kind == "manifest":
            self.manifest = self.manifest or located
        elif isinstance(kind, str) and kind in KINDS and isinstance(name, str) and is_name(name):
            self.broken.add((kind, name))
            self.definitions.setdefault((kind, name), located)
        else:
            self.incomplete = True

    def _take(self, located: _Located, *, is_shipped: bool = False) -> None:
        kind = located.node["$kind"]
        if kind == "manifest":
            self._take_manifest(located)
            return
        subject = (kind, located.node["name"])
        if is_system(subject[1]) and not is_shipped:
            self.problems.append(
                located.problem(
                    "/name",
                    f"{subject[1]} cannot be defined: names that begin with sys/ are built in",
                    "remove the definition; built-in ones need not be listed either",
                )
            )
            return
        first = self.definitions.setdefault(subject, located)
        if first is not located and subject not in self.broken and not _equal(first, located):
            self.broken.add(subject)
            self.problems.append(
                located.problem(
                    "",
                    f"{subject[1]} is defined otherwise in {first.location}",
                    "definitions of one name must be equal; give one a new name or version",
                )
            )

    def _take_manifest(self, located: _Located) -> None:
        folder = posixpath.dirname(located.file)
        if posixpath.basename(folder) == AIR_FOLDER:
            folder = posixpath.dirname(folder)
        self.manifest_folders.setdefault(folder or ".", None)
        if self.manifest is None:
            self.manifest, self.manifest_is_sound = located, True
            return
        self.problems.append(
            located.problem(
                "",
                f"a second manifest; the first is {self.manifest.location}",
                "exactly one node of the folder may have $kind manifest",
            )
        )

    def _take_packages(self) -> None:
        """Write out what the manifest uses, after its own definitions and routes (M-65), and the
        definitions of shipped workflows that it names (AG-54)."""
        manifest = self.manifest
        if manifest is None:
            self._no_manifest()
            return
        if not self.manifest_is_sound:
            return
        node = {field: value for field, value in manifest.node.items() if field != "uses"}
        names: list[str] = manifest.node.get("uses", [])
        for index, name in each_once(names):
            if index is None:
                self.problems.append(manifest.problem("/uses", f"{name} is used twice"))
            elif name not in PACKAGES:
                hint = did_you_mean(name, PACKAGES) or f"AOS ships with {', '.join(PACKAGES)}"
                at = f"/uses/{index}"
                self.problems.append(manifest.problem(at, f"unknown package {name}", hint))
            else:
                self._take_package(name, node)
        for workflow in IMPLIED:
            if _names_workflow(node, workflow):
                self._take_package(workflow, node)
        self.manifest = replace(manifest, node=node)

    def _take_package(self, name: str, node: Node) -> None:
        shipped_package = package(name)
        self.files = {**self.files, **shipped_package.files}
        for index, definition in enumerate(shipped_package.definitions):
            located = _Located(file=shipped_package.file, pointer=f"/{index}", node=definition)
            self._take(located, is_shipped=True)
        for section, entries in shipped_package.sections.items():
            listed_names = {entry["name"] for entry in node[section]}
            missing_entries = [entry for entry in entries if entry["name"] not in listed_names]
            node[section] = [*node[section], *missing_entries]
        routing = node.get("routing", {})
        routes = [*routing.get("subscriptions", []), *shipped_package.subscriptions]
        node["routing"] = {**routing, "subscriptions": routes}
        if "ingress" in routing:
            accepted: list[str] = routing["ingress"]
            sent = SENT_TO_PACKAGES.get(name, frozenset())
            node["routing"]["ingress"] = [*accepted, *sorted(sent.difference(accepted))]

    def _no_manifest(self) -> None:
        air = [file for file in self.files if file.endswith(AIR_SUFFIX)]
        if not air:
            self._add("", "", "there is no AIR file", "put *.air.json files into a folder air/")
        elif not self.problems:
            hint = 'one node must have "$kind": "manifest"'
            self._add(min(air), "", "there is no manifest in this file or next to it", hint)

    def _artifact_problems(self, check: Check | None) -> Iterator[Problem]:
        module_by_path: dict[str, str] = {}
        for subject in sorted(self.definitions):
            located = self.definitions[subject]
            if subject[0] != "defmodule" or subject in self.broken:
                continue
            path = self._artifact_place(located)
            if path is None:
                yield _missing_artifact(located)
                continue
            artifact = located.node["runtime"]["artifact"]
            if "path" not in artifact and module_by_path.setdefault(path, subject[1]) != subject[1]:
                yield located.problem(
                    "/runtime/artifact",
                    f"{path} is taken for {module_by_path[path]} already",
                    "say with path which file belongs to which module",
                )
            yield from self._hashed_problems(located, path)
            actual_hash = hash_text(content_hash(self.files[path]))
            if artifact.get("hash", actual_hash) != actual_hash:
                yield located.problem(
                    "/runtime/artifact/hash",
                    f"the hash of {path}: expected {artifact['hash']}, found {actual_hash}",
                    "build the module again, or leave the hash out and it is filled in",
                )
            if check is not None:
                for message in check(self.files[path], self._entrypoints(subject[1])):
                    yield located.problem("/runtime/artifact", f"{path}: {message}")

    def _hashed_problems(self, located: _Located, path: str) -> Iterator[Problem]:
        """The problems of a file that has the module's SHA-256 in its name (AG-43)."""
        candidates = list(_hashed_places(located, self.files))
        if path in candidates and len(candidates) > 1:
            yield located.problem(
                "/runtime/artifact",
                f"{len(candidates)} files are builds of {located.node['name']}: "
                f"{', '.join(candidates)}",
                "say with path which one, or remove the others",
            )
        sha256 = wrong_sha256(path, self.files[path])
        if sha256 is not None:
            yield located.problem(
                "/runtime/artifact",
                f"{path}: the SHA-256 of the file is {sha256}, and not the one in its name",
                "build the module again, or rename the file",
            )

    def _entrypoints(self, module: str) -> list[str]:
        entrypoints: set[str] = set()
        for subject, located in self.definitions.items():
            node = located.node
            if (
                subject[0] == "defworkflow"
                and subject not in self.broken
                and node["impl"]["module"] == module
            ):
                entrypoints.add(node["impl"]["entrypoint"])
                if "migrate" in node:
                    entrypoints.add(node["migrate"]["entrypoint"])
        return sorted(entrypoints)

    def _artifact_place(self, located: _Located) -> str | None:
        paths = [*_artifact_places(located), *_hashed_places(located, self.files)]
        return next((path for path in paths if path in self.files), None)

    def _artifact(self, located: _Located) -> bytes:
        path = self._artifact_place(located)
        assert path is not None  # a missing artifact is a problem
        return self.files[path]

    def _wrong_hashes(self, manifest: Node) -> Iterator[Problem]:
        assert self.manifest is not None
        for section, kind in SECTIONS.items():
            for index, entry in enumerate(manifest.get(section, ())):
                actual_hash = self._hash(kind, entry["name"]) if "hash" in entry else None
                if actual_hash is not None and entry["hash"] != actual_hash:
                    yield self.manifest.problem(
                        f"/{section}/{index}/hash",
                        f"the hash of {entry['name']}: expected {entry['hash']}, found "
                        f"{actual_hash}",
                        "the definition has changed; leave the hash out and it is filled in",
                    )

    def _hash(self, kind: str, name: str) -> str | None:
        """A definition's hash; None if the definition is missing or has problems."""
        builtin = {"defschema": SCHEMAS, "defeffect": EFFECTS}.get(kind, {})
        located = self.definitions.get((kind, name))
        if (kind, name) in self.broken or (located is None and name not in builtin):
            return None
        if located is None:
            return hash_text(definition_hash(dict(builtin[name])))
        if kind == "defmodule":
            path = self._artifact_place(located)
            return None if path is None else hash_text(content_hash(self.files[path]))
        try:
            return hash_text(definition_hash(canonical(located.node)))
        except Misshapen:
            return None


def _equal(first: _Located, second: _Located) -> bool:
    if _bare(first.node) != _bare(second.node):
        return False
    # The same relative path in two folders is not the same file.
    return first.node["$kind"] != "defmodule" or _artifact_places(first) == _artifact_places(second)


def _names_workflow(manifest: Node, name: str) -> bool:
    """Whether a manifest lists the workflow or routes events to it."""
    routes = manifest.get("routing", {}).get("subscriptions", [])
    workflow_names = [entry["name"] for entry in manifest["workflows"]]
    return name in (*workflow_names, *(route.get("workflow", route.get("op")) for route in routes))


def _bare(node: Node) -> Node:
    return {
        field: without_comments(value) if field == "type" else value
        for field, value in node.items()
        if field != COMMENT
    }


def _artifact_places(located: _Located) -> list[str]:
    """The possible paths of a module's bytes; the first that exists is used (M-14)."""
    path = located.node["runtime"]["artifact"].get("path")
    if path is not None:
        return [posixpath.normpath(posixpath.join(posixpath.dirname(located.file), path))]
    namespace, _, local_name = _name_in_file(located).partition("/")
    short, _, _ = local_name.partition("@")
    return [f"modules/{namespace}.{local_name}.wasm", f"modules/{short}.wasm"]


def _hashed_places(located: _Located, files: Iterable[str]) -> Iterator[str]:
    """The files with the module's name and a hash (AG-43); none for a module with ``path``."""
    if "path" in located.node["runtime"]["artifact"]:
        return iter(())
    return hashed_files(_name_in_file(located), files)


def _name_in_file(located: _Located) -> str:
    """The name of a module as its file spells it."""
    name: str = located.node["name"]
    return located.name_in_file or name


def _missing_artifact(located: _Located) -> Problem:
    paths = _artifact_places(located)
    path_field = "path" if "path" in located.node["runtime"]["artifact"] else ""
    return located.problem(
        "/runtime/artifact" + ("/path" if path_field else ""),
        f"the artifact of {located.node['name']} is missing: expected {' or '.join(paths)}",
        "build the module first"
        if path_field
        else "build the module first, or say with path where",
    )


def _sort_key(problem: Problem) -> tuple[str, list[tuple[int, str]], str]:
    """Sort key: file, then place in it with array positions as numbers, then message."""
    parts = [
        (int(part), "") if part.isdecimal() else (-1, part) for part in problem.pointer.split("/")
    ]
    return problem.file, parts, problem.message
