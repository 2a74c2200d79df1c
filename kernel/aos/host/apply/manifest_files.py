"""Read the files of a manifest from disk, within limits (spec/host.md, H-60 to H-66)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from aos.errors import BadUsage
from aos.manifest.load import Loaded, ManifestProblems, Problem, load, needed_files
from aos.sandbox.caps import FILE_BYTES_MAX
from aos.sandbox.inspect import check_module

AIR_SUFFIX: Final = ".air.json"
AIR_FOLDER: Final = "air"
MIB: Final = 1024 * 1024

JSON_BYTES_MAX: Final = 4 * MIB
FILES_MAX: Final = 1000
FOLDERS_MAX: Final = 10_000
MODULES_MAX: Final = 64
"""Limits of one manifest: bytes of an AIR file, and numbers of files, folders, modules (H-62)."""


def load_manifest_files(path: Path, *, abi: str | None = None) -> Loaded:
    """Read and check the manifest at ``path``: one file, or a folder (H-60). ``abi`` is the ABI
    assumed for modules that declare none.

    Raises:
        BadUsage: ``path`` does not exist.
        ManifestProblems: All problems of all files, including files that cannot be read and modules
            that lack an entrypoint (H-66).
    """
    files, problems = read_manifest_files(path, abi=abi)
    try:
        loaded = load(files, check=check_module, abi=abi)
    except ManifestProblems as error:
        problems.extend(error.problems)
    else:
        if not problems:
            return loaded
    raise ManifestProblems(problems)


def read_manifest_files(
    path: Path, *, abi: str | None = None
) -> tuple[dict[str, bytes], list[Problem]]:
    """Return the files of a manifest by their path below its folder, and the problems of reading
    them (H-64).

    Raises:
        BadUsage: ``path`` does not exist.
    """
    problems: list[Problem] = []
    if path.is_dir():
        root = path
        names = _bounded(_air_names(root, problems), problems)
    elif path.exists():
        root = path.parent
        names = [path.name]
    else:
        raise BadUsage(f"{path}: there is no such file or folder (expected a manifest)")
    files: dict[str, bytes] = {}
    for name in names:
        _read_into(files, root, name, JSON_BYTES_MAX, problems)
    module_names = sorted(needed_files(files, _module_names(root), abi=abi))
    if len(module_names) > 2 * MODULES_MAX:
        problems.append(
            Problem(file="", pointer="", message=f"expected at most {MODULES_MAX} modules")
        )
        return files, problems
    # An absolute path is not read (H-61).
    for name in module_names:
        # ``load`` reports a missing file, with the module that needs it.
        if not name.startswith("/") and (root / name).exists():
            _read_into(files, root, name, FILE_BYTES_MAX, problems)
    return files, problems


def _air_names(root: Path, problems: list[Problem]) -> Iterator[str]:
    """Relative paths of AIR files, sorted in each folder. Hidden folders are skipped."""
    top = root / AIR_FOLDER if (root / AIR_FOLDER).is_dir() else root
    folders = 0
    for folder, below, names in os.walk(top):
        folders += 1
        if folders > FOLDERS_MAX:
            message = f"expected at most {FOLDERS_MAX} folders below {top}"
            problems.append(Problem(file="", pointer="", message=message))
            return
        folder_path = Path(folder)
        below[:] = sorted(name for name in below if not name.startswith("."))
        if top != root:
            links = [folder_path / name for name in below if (folder_path / name).is_symlink()]
            problems += [_link(link, root, "a link to a folder is not followed") for link in links]
        for name in sorted(names):
            if not name.endswith(AIR_SUFFIX):
                continue
            if _leaves(folder_path / name, root):
                problems.append(
                    _link(
                        folder_path / name,
                        root,
                        "a link out of the manifest's folder is not followed",
                    )
                )
            else:
                yield (folder_path / name).relative_to(root).as_posix()


def _module_names(root: Path) -> list[str]:
    """Relative paths of the module files in the folders of ``modules``, bounded in number."""
    below = (root / "modules").glob("*/*.wasm")
    return sorted(file.relative_to(root).as_posix() for file in islice(below, FILES_MAX))


def _bounded(names: Iterable[str], problems: list[Problem]) -> list[str]:
    bounded_names: list[str] = []
    for name in names:
        if len(bounded_names) == FILES_MAX:
            message = f"expected at most {FILES_MAX} AIR files"
            problems.append(Problem(file=name, pointer="", message=message))
            break
        bounded_names.append(name)
    return bounded_names


def _leaves(file: Path, root: Path) -> bool:
    """Whether a link leads out of ``root`` (H-63). A broken link is reported later, as
    unreadable."""
    return file.is_symlink() and not file.resolve().is_relative_to(root.resolve())


def _link(file: Path, root: Path, message: str) -> Problem:
    name = file.relative_to(root).as_posix()
    return Problem(file=name, pointer="", message=message, hint="put a copy in its place")


def _read_into(
    files: dict[str, bytes], root: Path, name: str, bytes_max: int, problems: list[Problem]
) -> None:
    try:
        data = _read(root / name, bytes_max)
    except OSError as error:
        message = f"the file cannot be read: {error.strerror}"
        problems.append(Problem(file=name, pointer="", message=message))
        return
    if data is None:
        message = "expected a regular file, found something else"
        problems.append(Problem(file=name, pointer="", message=message))
    elif len(data) > bytes_max:
        message = f"the file is too large: expected at most {bytes_max} bytes"
        problems.append(Problem(file=name, pointer="", message=message))
    else:
        files[name] = data


def _read(file: Path, bytes_max: int) -> bytes | None:
    """Up to one byte more than ``bytes_max``; None if it is not a regular file."""
    # Without O_NONBLOCK, opening a pipe would block.
    fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as open_file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return open_file.read(bytes_max + 1)
