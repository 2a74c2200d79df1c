"""Find the SDKs, copy them into projects, record what was copied, and replace a project's copy by
that of this aos (spec/authoring.md, AU-22, AU-22a, AU-23 to AU-27).
"""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from aos import __version__
from aos.author.project import Project
from aos.errors import BadUsage, Refused, Unavailable, either
from aos.values.digests import content_hash, hash_text

SDK_FOLDERS: Final[Mapping[str, str]] = {
    "rust": "sdk-rust",
    "assemblyscript": "sdk-assemblyscript",
}
"""Languages of which a project has a copy of the SDK. That of Python is in the installed aos."""

LEFT_OUT: Final = (
    "target", "node_modules", "build", "tests", "examples", "__pycache__", ".*", "*.wasm",
)  # fmt: skip
"""Files of a checkout that no project needs."""

SDK: Final = "sdk"
"""The folder of a project's copy."""

RECORD: Final = "RELEASE.json"
"""The file in a copy that records the release of aos and the hash of each copied file."""

BUILT: Final = ("target", "node_modules", "__pycache__")
"""Files that tools write into a copy."""

NO_FILE: Final = "no regular file"
"""Used instead of a hash for links, pipes and the like."""

BEFORE: Final = ".sdk.before"
"""The folder of the old copy during an update."""

UNFINISHED: Final = ".sdk.unfinished-"
NAMED: Final = 5
"""Maximum number of edited files that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An SDK as it was copied: ``files`` are hashes by path below it."""

    aos: str
    files: Mapping[str, str]

    def to_bytes(self) -> bytes:
        document = {"aos": self.aos, "files": dict(sorted(self.files.items()))}
        return (json.dumps(document, indent=2) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self | None:
        """Inverse of ``to_bytes``; None for other bytes."""
        try:
            document = json.loads(data)
        except ValueError:
            return None
        match document:
            case {"aos": str(aos), "files": dict(files)}:
                is_whole = all(isinstance(digest, str) for digest in files.values())
                return cls(aos=aos, files=files) if is_whole else None
            case _:
                return None


def sdk_folder(lang: str) -> Path:
    """The SDK of a language: in the installed package, or in the checkout around it.

    Raises:
        Unavailable: It is in neither.
    """
    this_file = Path(__file__).resolve()
    candidates = (
        this_file.parent / "sdk" / SDK_FOLDERS[lang],
        this_file.parents[3] / "modules" / SDK_FOLDERS[lang],
    )
    for folder in candidates:
        if folder.is_dir():
            return folder
    raise Unavailable(
        f"the SDK of {lang} is not in this installation: expected {candidates[0]} (install aos "
        "again)"
    )


def copy_sdk(lang: str, folder: Path) -> None:
    """Copy the SDK of a language into a new folder, with a record of what was copied."""
    shutil.copytree(sdk_folder(lang), folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
    copied = Release(aos=__version__, files=hashes(folder, passed_over=()))
    (folder / RECORD).write_bytes(copied.to_bytes())


def release(lang: str) -> Release:
    """The SDK of this release of aos. Raises: Unavailable: It is not installed."""
    return Release(aos=__version__, files=hashes(sdk_folder(lang), passed_over=LEFT_OUT))


def recorded(folder: Path) -> Release | None:
    """The record in the copy at ``folder``; None without a valid one."""
    try:
        return Release.from_bytes((folder / RECORD).read_bytes())
    except OSError:
        return None


def hashes(folder: Path, *, passed_over: Sequence[str] = BUILT) -> dict[str, str]:
    """The hash of each file below ``folder`` except the record. ``passed_over`` are patterns of
    names of files and folders to skip."""
    return {
        name: _file_hash(folder / name)
        for name in _file_names(folder, passed_over)
        if name != RECORD
    }


def _file_names(folder: Path, passed_over: Sequence[str]) -> Iterator[str]:
    def included(names: Sequence[str]) -> list[str]:
        return sorted(n for n in names if not any(fnmatch.fnmatch(n, p) for p in passed_over))

    for current, below, files in os.walk(folder):
        links = [name for name in below if Path(current, name).is_symlink()]
        below[:] = included([name for name in below if name not in links])
        for name in included([*files, *links]):
            yield Path(current, name).relative_to(folder).as_posix()


def _file_hash(file: Path) -> str:
    if file.is_symlink() or not file.is_file():
        return NO_FILE
    return hash_text(content_hash(file.read_bytes()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """The result of an update. ``previous_release`` is the release of the old copy, or None if
    unknown. Paths are relative to ``sdk/``."""

    previous_release: str | None
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    is_same: bool = False


def update_sdk(project: Project, *, force: bool = False) -> Updated:
    """Replace a project's copy of the SDK by that of this aos (AU-24 to AU-27).

    The new copy is written next to the old one, then the two are exchanged by two renames. Between
    these there is no ``sdk/``: the old copy is in ``.sdk.before``, and the next update restores it.

    Raises:
        BadUsage: Projects in this language have no copy.
        Refused: There is no copy, or it was edited and ``force`` is not set. Nothing has changed.
        Unavailable: It cannot be written. The copy is unchanged.
    """
    folder = project.folder / SDK
    if project.lang not in SDK_FOLDERS:
        raise BadUsage(
            f"a project in {project.lang} has no copy of an SDK",
            location=str(project.file),
            expected=f"lang = {either([repr(lang) for lang in SDK_FOLDERS])}",
            hint="aos build uses the interpreter of the installed aos: run aos build",
        )
    try:
        _finish_interrupted(folder)
        if folder.is_symlink() or not folder.is_dir():
            raise _no_copy(folder)
        copy_hashes, was, new = hashes(folder), recorded(folder), release(project.lang)
        if copy_hashes == new.files and was == new:
            return Updated(previous_release=was.aos, added=(), changed=(), removed=(), is_same=True)
        if not force:
            _check_unedited(folder, copy_hashes, was, new)
        _replace_copy(project, folder)
    except OSError as error:
        raise Unavailable(
            f"{folder}: the SDK cannot be updated, and is unchanged: {error.strerror or error}"
        ) from error
    return Updated(
        previous_release=None if was is None else was.aos,
        added=tuple(sorted(new.files.keys() - copy_hashes.keys())),
        changed=tuple(
            sorted(n for n in copy_hashes if new.files.get(n, copy_hashes[n]) != copy_hashes[n])
        ),
        removed=tuple(sorted(copy_hashes.keys() - new.files.keys())),
    )


def outdated(project: Project) -> str | None:
    """A sentence if a project's copy is of another release than this aos; otherwise, or if that
    cannot be determined, None. Edited files do not count."""
    if project.lang not in SDK_FOLDERS:
        return None
    folder = project.folder / SDK
    if not folder.is_dir():
        is_interrupted = (project.folder / BEFORE).is_dir()
        return f"{SDK}/: its update was interrupted (aos sdk update)" if is_interrupted else None
    try:
        was, new = recorded(folder), release(project.lang)
        actual_hashes = was.files if was is not None else hashes(folder)
    except (OSError, Unavailable):
        return None  # code that needs these files reports the problem
    if actual_hashes == new.files:
        return None
    if was is None:
        return (
            f"{SDK}/ is not that of this aos {__version__}, and {SDK}/{RECORD} is missing or "
            "invalid (aos sdk update --force replaces it)"
        )
    of = f"{'another ' if was.aos == __version__ else ''}aos {was.aos}"
    return f"{SDK}/ is of {of}, and this is aos {__version__} (aos sdk update updates it)"


def _check_unedited(
    folder: Path, copy_hashes: Mapping[str, str], was: Release | None, new: Release
) -> None:
    """Raise Refused if an edited file would be lost: one that is neither as it was copied nor as it
    will be. A deleted file does not count."""
    if was is None:
        if all(new.files.get(name) == digest for name, digest in copy_hashes.items()):
            return
        raise Refused(
            f"its files may have been edited: the {RECORD} that aos new writes is missing or "
            "invalid",
            location=str(folder),
            hint="save your changes elsewhere, then replace the folder with --force",
        )
    edited = [
        f"{name} was {'changed' if name in was.files else 'added'}"
        for name, digest in sorted(copy_hashes.items())
        if digest not in (was.files.get(name), new.files.get(name))
    ]
    if edited:
        suffix = f" and {len(edited) - NAMED} more" if len(edited) > NAMED else ""
        raise Refused(
            f"edits would be lost: {', '.join(edited[:NAMED])}{suffix}",
            location=str(folder),
            hint="save your changes elsewhere, then replace the folder with --force",
        )


def _no_copy(folder: Path) -> Refused:
    is_link = folder.is_symlink()
    return Refused(
        "this is a link, which is not changed" if is_link else "there is no such folder",
        location=str(folder),
        expected="a project's own copy of the SDK, as aos new creates it",
        hint="update the folder that it points to" if is_link else None,
    )


def _replace_copy(project: Project, folder: Path) -> None:
    """Write the new copy and exchange the two. Raises: OSError: The copy is unchanged."""
    previous_copy = project.folder / BEFORE
    with tempfile.TemporaryDirectory(
        prefix=UNFINISHED, dir=project.folder, ignore_cleanup_errors=True
    ) as work_folder:
        new_copy = Path(work_folder, SDK)
        copy_sdk(project.lang, new_copy)
        folder.rename(previous_copy)
        try:
            new_copy.rename(folder)
        except BaseException:
            previous_copy.rename(folder)
            raise
    # The new copy is in place. If the old one cannot be removed now, the next update removes it.
    shutil.rmtree(previous_copy, ignore_errors=True)


def _finish_interrupted(folder: Path) -> None:
    """Finish a killed update: between its renames restore the old copy, else keep the new one."""
    previous_copy = folder.with_name(BEFORE)
    if previous_copy.is_dir() and not previous_copy.is_symlink():
        if folder.exists():
            shutil.rmtree(previous_copy)
        else:
            previous_copy.rename(folder)
