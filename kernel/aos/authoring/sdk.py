"""Find the SDKs, copy them into projects, and record what was copied
(spec/authoring.md, AU-22, AU-22a)."""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from aos import __version__
from aos.errors import Unavailable
from aos.values.digests import content_hash, hash_text

FOLDERS: Final[Mapping[str, str]] = {"rust": "sdk-rust", "assemblyscript": "sdk-assemblyscript"}

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
        this_file.parent / "sdk" / FOLDERS[lang],
        this_file.parents[3] / "modules" / FOLDERS[lang],
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
    return {name: _hash(folder / name) for name in _names(folder, passed_over) if name != RECORD}


def _names(folder: Path, passed_over: Sequence[str]) -> Iterator[str]:
    def included(names: Sequence[str]) -> list[str]:
        return sorted(n for n in names if not any(fnmatch.fnmatch(n, p) for p in passed_over))

    for current, below, files in os.walk(folder):
        links = [name for name in below if Path(current, name).is_symlink()]
        below[:] = included([name for name in below if name not in links])
        for name in included([*files, *links]):
            yield Path(current, name).relative_to(folder).as_posix()


def _hash(file: Path) -> str:
    if file.is_symlink() or not file.is_file():
        return NO_FILE
    return hash_text(content_hash(file.read_bytes()))
