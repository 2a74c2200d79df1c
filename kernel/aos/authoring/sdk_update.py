"""Replace a project's copy of the SDK by that of this aos (spec/authoring.md, AU-24 to AU-27).

The new copy is written next to the old one, then the two are exchanged by two renames. Between
these there is no ``sdk/``: the old copy is in ``.sdk.before``, and the next update restores it.
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
"""Maximum number of edited files that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """The result of an update. ``before`` is the release of the old copy, or None if unknown. Paths
    are relative to ``sdk/``."""

    before: str | None
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    is_same: bool = False


def update_sdk(project: Project, *, force: bool = False) -> Updated:
    """Replace a project's copy of the SDK by that of this aos.

    Raises:
        Refused: There is no copy, or it was edited and ``force`` is not set. Nothing has changed.
        Unavailable: It cannot be written. The copy is unchanged.
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
            f"{folder}: the SDK cannot be updated, and is unchanged: {error.strerror or error}"
        ) from error
    return Updated(
        before=None if was is None else was.aos,
        added=tuple(sorted(new.files.keys() - there.keys())),
        changed=tuple(sorted(n for n in there if new.files.get(n, there[n]) != there[n])),
        removed=tuple(sorted(there.keys() - new.files.keys())),
    )


def outdated(project: Project) -> str | None:
    """A sentence if a project's copy is of another release than this aos; otherwise, or if that
    cannot be determined, None. Edited files do not count."""
    folder = project.folder / SDK
    if not folder.is_dir():
        is_interrupted = (project.folder / BEFORE).is_dir()
        return f"{SDK}/: its update was interrupted (aos sdk update)" if is_interrupted else None
    try:
        was, new = recorded(folder), release(project.lang)
        found = was.files if was is not None else hashes(folder)
    except (OSError, Unavailable):
        return None  # code that needs these files reports the problem
    if found == new.files:
        return None
    if was is None:
        return (
            f"{SDK}/ is not that of this aos {__version__}, and {SDK}/{RECORD} is missing or "
            "invalid (aos sdk update --force replaces it)"
        )
    of = f"{'another ' if was.aos == __version__ else ''}aos {was.aos}"
    return f"{SDK}/ is of {of}, and this is aos {__version__} (aos sdk update updates it)"


def _check_unedited(
    folder: Path, there: Mapping[str, str], was: Release | None, new: Release
) -> None:
    """Raise Refused if an edited file would be lost: one that is neither as it was copied nor as it
    will be. A deleted file does not count."""
    if was is None:
        if all(new.files.get(name) == found for name, found in there.items()):
            return
        raise Refused(
            sentence(
                f"its files may have been edited: the {RECORD} that aos new writes is missing or "
                "invalid",
                where=str(folder),
                hint="save your changes elsewhere, then replace the folder with --force",
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
                f"edits would be lost: {', '.join(edited[:NAMED])}{more}",
                where=str(folder),
                hint="save your changes elsewhere, then replace the folder with --force",
            )
        )


def _no_copy(folder: Path) -> Refused:
    is_link = folder.is_symlink()
    return Refused(
        sentence(
            "this is a link, which is not changed" if is_link else "there is no such folder",
            where=str(folder),
            expected="a project's own copy of the SDK, as aos new creates it",
            hint="update the folder that it points to" if is_link else None,
        )
    )


def _replace(project: Project, folder: Path) -> None:
    """Write the new copy and exchange the two. Raises: OSError: The copy is unchanged."""
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
    # The new copy is in place. If the old one cannot be removed now, the next update removes it.
    shutil.rmtree(before, ignore_errors=True)


def _put_back(folder: Path) -> None:
    """Finish a killed update: between its renames restore the old copy, else keep the new one."""
    before = folder.with_name(BEFORE)
    if before.is_dir() and not before.is_symlink():
        if folder.exists():
            shutil.rmtree(before)
        else:
            before.rename(folder)
