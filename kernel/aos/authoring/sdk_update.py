"""A project's copy of the SDK -> that of this aos (spec/authoring.md, AU-24 to AU-27).

All or nothing: the new copy is made beside, and then the two change places. Between the two renames
that this takes there is no ``sdk/``; what was there stands in ``.sdk.before``, from where the next
update puts it back.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos import __version__
from aos.authoring.project import Project
from aos.authoring.sdk import RECORD, SDK, Release, copy_sdk, hashes, recorded, release
from aos.errors import Refused, Unavailable, sentence

BEFORE: Final = ".sdk.before"
UNFINISHED: Final = ".sdk.unfinished-"
NAMED: Final = 5
"""So many edited files are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """``before`` is the release that the copy was of; None where nothing said so. The files are
    below ``sdk/``."""

    before: str | None
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    is_same: bool = False


def update_sdk(project: Project, *, force: bool = False) -> Updated:
    """Put the SDK of this aos in the place of a project's copy.

    Raises:
        Refused: There is no copy, or one that holds what would be lost, unless that is forced.
            Nothing has changed.
        Unavailable: It cannot be written. The copy is as it was.
    """
    folder = project.folder / SDK
    try:
        _put_back(folder)
        if folder.is_symlink() or not folder.is_dir():
            raise _no_copy(folder)
        there, was, new = hashes(folder), recorded(folder), release(project.lang)
        if there == new.files and was == new:
            return Updated(before=was.aos, added=(), changed=(), removed=(), is_same=True)
        if not force:
            _check_unedited(folder, there, was, new)
        _replace(project, folder)
    except OSError as error:
        raise Unavailable(
            f"{folder}: the SDK cannot be renewed, and is as it was: {error.strerror or error}"
        ) from error
    return Updated(
        before=None if was is None else was.aos,
        added=tuple(sorted(new.files.keys() - there.keys())),
        changed=tuple(sorted(n for n in there if new.files.get(n, there[n]) != there[n])),
        removed=tuple(sorted(there.keys() - new.files.keys())),
    )


def outdated(project: Project) -> str | None:
    """A sentence where a project's copy is of another release than this aos; else None, also where
    that cannot be known. What was edited in it is its owner's to know."""
    folder = project.folder / SDK
    if not folder.is_dir():
        is_interrupted = (project.folder / BEFORE).is_dir()
        return f"{SDK}/: its renewal was interrupted (aos sdk update)" if is_interrupted else None
    try:
        was, new = recorded(folder), release(project.lang)
        found = was.files if was is not None else hashes(folder)
    except (OSError, Unavailable):
        return None  # whoever needs what cannot be read says so
    if found == new.files:
        return None
    if was is None:
        return (
            f"{SDK}/ is not that of this aos {__version__}, and no {SDK}/{RECORD} says of which it "
            "is (aos sdk update --force replaces it)"
        )
    of = f"{'another ' if was.aos == __version__ else ''}aos {was.aos}"
    return f"{SDK}/ is of {of}, and this is aos {__version__} (aos sdk update renews it)"


def _check_unedited(
    folder: Path, there: Mapping[str, str], was: Release | None, new: Release
) -> None:
    """Raises Refused where a file would be lost that is neither as it was copied nor as it will
    be. One that was deleted is no loss."""
    if was is None:
        if all(new.files.get(name) == found for name, found in there.items()):
            return
        raise Refused(
            sentence(
                f"nothing says whether its files were edited: there is no {RECORD} that can be "
                "read, as aos new writes it",
                where=str(folder),
                hint="keep what is yours elsewhere, then replace all of it with --force",
            )
        )
    edited = [
        f"{name} was {'changed' if name in was.files else 'added'}"
        for name, found in sorted(there.items())
        if found not in (was.files.get(name), new.files.get(name))
    ]
    if edited:
        more = f" and {len(edited) - NAMED} more" if len(edited) > NAMED else ""
        raise Refused(
            sentence(
                f"it was edited, and that would be lost: {', '.join(edited[:NAMED])}{more}",
                where=str(folder),
                hint="keep what is yours elsewhere, then replace all of it with --force",
            )
        )


def _no_copy(folder: Path) -> Refused:
    is_link = folder.is_symlink()
    return Refused(
        sentence(
            "this is a link, which is left alone" if is_link else "there is no such folder",
            where=str(folder),
            expected="a project's own copy of the SDK, as aos new makes it",
            hint="renew it where it leads to" if is_link else None,
        )
    )


def _replace(project: Project, folder: Path) -> None:
    """Raises: OSError: It could not be done. The copy is as it was."""
    before = project.folder / BEFORE
    with tempfile.TemporaryDirectory(
        prefix=UNFINISHED, dir=project.folder, ignore_cleanup_errors=True
    ) as beside:
        made = Path(beside, SDK)
        copy_sdk(project.lang, made)
        folder.rename(before)
        try:
            made.rename(folder)
        except BaseException:
            before.rename(folder)
            raise
    # What cannot be taken away now is taken away next time: the new copy is in its place.
    shutil.rmtree(before, ignore_errors=True)


def _put_back(folder: Path) -> None:
    """End an update that was killed: between its renames the old copy counts, else the new one."""
    before = folder.with_name(BEFORE)
    if before.is_dir() and not before.is_symlink():
        if folder.exists():
            shutil.rmtree(before)
        else:
            before.rename(folder)
