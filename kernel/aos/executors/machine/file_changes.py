"""Changes of several files, all or none, the same for a second attempt (AG-118).

The plan is kept before the first file changes: what each file was and will be, and the receipt. An
attempt that finds the plan of an earlier one completes it, or finds that it was completed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aos.executors.machine.contained_paths import ContainedFolder, FilePlace
from aos.executors.machine.declined import ERROR, LOST, NOT_FOUND, Declined
from aos.executors.machine.file_access import read_whole, replace_file
from aos.executors.machine.state_files import StateFile

Receipt: TypeAlias = dict[str, Any]

PLAN_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of all contents in a plan, the old and the new ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """``path`` is from the root and has no links. ``old`` or ``new`` is None for no file."""

    path: str
    old: bytes | None
    new: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """The changes, in the order in which they are made, and the receipt that reports them."""

    changes: Sequence[FileChange]
    receipt: Receipt


def change_files(root: ContainedFolder, file: StateFile, plan: Callable[[], ChangePlan]) -> Receipt:
    """Make the changes of ``plan``, which is called unless an earlier attempt has left its own in
    ``file``. To be called by one thread at a time.

    Raises:
        Declined: From ``plan``; or no file has changed; or ``partly_changed``, if the changes could
            not be undone either.
    """
    kept = file.read()
    if kept is not None and kept["changes"] is None:
        receipt: Receipt = kept["receipt"]
        return receipt
    found = plan() if kept is None else _plan_of(kept)
    if kept is None:
        size = sum(len(each.old or b"") + len(each.new or b"") for each in found.changes)
        if size > PLAN_BYTES_MAX:
            raise Declined(
                ERROR,
                "too_large",
                f"the old and new contents have {size} bytes: expected at most {PLAN_BYTES_MAX}",
            )
        file.write(_value_of(found))
    try:
        _make(root, found.changes)
    except Declined:
        file.remove()
        raise
    file.write(_done(found.receipt))
    return found.receipt


def _make(root: ContainedFolder, changes: Sequence[FileChange]) -> None:
    made: list[FileChange] = []
    for change in changes:
        try:
            _make_one(root, change)
        except Declined as problem:
            _undo(root, made, problem)
            raise
        made.append(change)


def _make_one(root: ContainedFolder, change: FileChange) -> None:
    """Make a change, unless it is made already."""
    with root.place((), f"/{change.path}", creates=change.new is not None) as place:
        found = _content(place, change.path)
        if found == change.new:
            return
        if found != change.old:
            raise Declined(
                LOST,
                "changed_meanwhile",
                f"{change.path}: it has neither its content before the change nor that after it",
            )
        if change.new is None:
            os.unlink(place.name, dir_fd=place.folder)
            os.fsync(place.folder)
        else:
            replace_file(place, change.path, change.new, is_new=change.old is None)


def _undo(root: ContainedFolder, made: Sequence[FileChange], why: Declined) -> None:
    for change in reversed(made):
        try:
            _make_one(root, FileChange(path=change.path, old=change.new, new=change.old))
        except Declined as problem:
            raise Declined(
                ERROR, "partly_changed", f"{why.message}; and then {problem.message}"
            ) from problem


def _content(place: FilePlace, path: str) -> bytes | None:
    try:
        return read_whole(place, path)
    except Declined as problem:
        if problem.status == NOT_FOUND:
            return None
        raise


def content_at(root: ContainedFolder, base: tuple[str, ...], path: str) -> tuple[str, bytes | None]:
    """The path from the root, without links, and the content of the file; None without one.

    Raises:
        Declined: It leads out, or to something that is no file.
    """
    try:
        with root.place(base, path) as place:
            return place.shown, _content(place, path)
    except Declined as problem:
        if problem.status != NOT_FOUND:
            raise
        # A folder on the way is absent too. It is made with the file.
        return _absent(root, base, path), None


def _absent(root: ContainedFolder, base: tuple[str, ...], path: str) -> str:
    """The path from the root of a file in a folder that does not exist."""
    above, _, name = path.rstrip("/").rpartition("/")
    if name in ("", ".", "..") or not above:
        raise Declined(NOT_FOUND, "not_found", f"{path}: there is no such folder")
    try:
        with root.place(base, above) as place:
            folder = place.shown
    except Declined as problem:
        if problem.status != NOT_FOUND:
            raise
        folder = _absent(root, base, above)
    return f"{folder}/{name}".removeprefix("./")


def _value_of(plan: ChangePlan) -> Any:
    return {
        "changes": [[each.path, each.old, each.new] for each in plan.changes],
        "receipt": plan.receipt,
    }


def _plan_of(kept: Any) -> ChangePlan:
    return ChangePlan(
        changes=[FileChange(path=path, old=old, new=new) for path, old, new in kept["changes"]],
        receipt=kept["receipt"],
    )


def _done(receipt: Receipt) -> Any:
    return {"changes": None, "receipt": receipt}
