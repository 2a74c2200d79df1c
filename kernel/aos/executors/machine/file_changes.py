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
    stored = file.read()
    if stored is not None and stored["changes"] is None:
        receipt: Receipt = stored["receipt"]
        return receipt
    change_plan = plan() if stored is None else _plan_of(stored)
    if stored is None:
        size = sum(
            len(change.old or b"") + len(change.new or b"") for change in change_plan.changes
        )
        if size > PLAN_BYTES_MAX:
            raise Declined(
                ERROR,
                "too_large",
                f"the old and new contents have {size} bytes: expected at most {PLAN_BYTES_MAX}",
            )
        file.write(_value_of(change_plan))
    try:
        _make(root, change_plan.changes)
    except Declined:
        file.remove()
        raise
    file.write(_receipt_value(change_plan.receipt))
    return change_plan.receipt


def _make(root: ContainedFolder, changes: Sequence[FileChange]) -> None:
    applied: list[FileChange] = []
    for change in changes:
        try:
            _make_one(root, change)
        except Declined as problem:
            _undo(root, applied, problem)
            raise
        applied.append(change)


def _make_one(root: ContainedFolder, change: FileChange) -> None:
    """Make a change, unless it is made already."""
    with root.resolve((), f"/{change.path}", creates=change.new is not None) as file_place:
        content = _content(file_place, change.path)
        if content == change.new:
            return
        if content != change.old:
            raise Declined(
                LOST,
                "changed_meanwhile",
                f"{change.path}: it has neither its content before the change nor that after it",
            )
        if change.new is None:
            os.unlink(file_place.name, dir_fd=file_place.folder)
            os.fsync(file_place.folder)
        else:
            replace_file(file_place, change.path, change.new, is_new=change.old is None)


def _undo(root: ContainedFolder, applied: Sequence[FileChange], cause: Declined) -> None:
    for change in reversed(applied):
        try:
            _make_one(root, FileChange(path=change.path, old=change.new, new=change.old))
        except Declined as problem:
            raise Declined(
                ERROR, "partly_changed", f"{cause.message}; and then {problem.message}"
            ) from problem


def _content(file_place: FilePlace, path: str) -> bytes | None:
    try:
        return read_whole(file_place, path)
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
        with root.resolve(base, path) as file_place:
            return file_place.path_in_root, _content(file_place, path)
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
        with root.resolve(base, above) as file_place:
            folder = file_place.path_in_root
    except Declined as problem:
        if problem.status != NOT_FOUND:
            raise
        folder = _absent(root, base, above)
    return f"{folder}/{name}".removeprefix("./")


def _value_of(plan: ChangePlan) -> Any:
    return {
        "changes": [[change.path, change.old, change.new] for change in plan.changes],
        "receipt": plan.receipt,
    }


def _plan_of(stored: Any) -> ChangePlan:
    return ChangePlan(
        changes=[FileChange(path=path, old=old, new=new) for path, old, new in stored["changes"]],
        receipt=stored["receipt"],
    )


def _receipt_value(receipt: Receipt) -> Any:
    return {"changes": None, "receipt": receipt}
