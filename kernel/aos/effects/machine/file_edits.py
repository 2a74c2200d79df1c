"""Edits of files: a new file, one text for another, a patch (AG-111, AG-117 to AG-121). Several
files change all or none, the same for a second attempt (AG-118).

The plan is kept before the first file changes: what each file was and will be, and the receipt. An
attempt that finds the plan of an earlier one completes it, or finds that it was completed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aos.effects.machine.contained_paths import ContainedFolder, FilePlace, Parts
from aos.effects.machine.file_access import check_size, read_whole, replace_file
from aos.effects.machine.host_outputs import (
    ALREADY_EXISTS,
    ERROR,
    LOST,
    NOT_FOUND,
    OK,
    Declined,
    invalid,
)
from aos.effects.machine.machine_host import StateFile
from aos.effects.machine.patch_text import FilePatch, FitBudget, parse_patch, patched

Receipt: TypeAlias = dict[str, Any]

PATCH_BYTES_MAX: Final = 16 * 1024 * 1024
PATHS_BYTES_MAX: Final = 256 * 1024
"""Of all paths in a receipt, which must not become longer than the world allows."""

PLAN_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of all contents in a plan, the old and the new ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlace:
    """Where an edit happens. ``plan_file`` keeps its plan, the same for each attempt."""

    root: ContainedFolder
    workdir: Parts
    plan_file: StateFile


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


def create_file(edit_place: EditPlace, params: dict[str, Any], data: bytes) -> Receipt:
    """``write_file`` with the mode ``create_new``."""
    path = params["path"]
    check_size(path, len(data))

    def plan() -> ChangePlan:
        creates = bool(params.get("create_parents"))
        with edit_place.root.resolve(edit_place.workdir, path, creates=creates) as file_place:
            if file_place.stat_result is not None:
                raise _already_exists(path)
            change = FileChange(path=file_place.path_in_root, old=None, new=data)
        receipt = {"status": OK, "written_bytes": len(data), "created": True}
        return ChangePlan(changes=[change], receipt=receipt)

    receipt = change_files(edit_place.root, edit_place.plan_file, plan)
    with edit_place.root.resolve(edit_place.workdir, path) as file_place:
        stat_result = file_place.stat_result
    return {
        **receipt,
        "new_mtime_ns": None if stat_result is None else max(0, stat_result.st_mtime_ns),
    }


def edit_file(edit_place: EditPlace, params: dict[str, Any]) -> Receipt:
    """Replace the only occurrence of a text, or all."""

    def plan() -> ChangePlan:
        path = params["path"]
        old, new = (params[name].encode() for name in ("old_string", "new_string"))
        if not old:
            raise invalid("old_string: expected at least one character (write_file makes a file)")
        with edit_place.root.resolve(edit_place.workdir, path) as file_place:
            content = read_whole(file_place, path)
            path_in_root = file_place.path_in_root
        count = content.count(old)
        if not count:
            raise Declined(ERROR, "old_string_not_found", f"{path}: it does not contain old_string")
        if count > 1 and not params.get("replace_all"):
            raise Declined(
                ERROR,
                "old_string_ambiguous",
                f"{path}: it contains old_string {count} times: expected once (give more of the "
                "text around it, or replace_all)",
            )
        check_size(path, len(content) + count * (len(new) - len(old)))
        changed = content.replace(old, new)
        times = "1 time" if count == 1 else f"{count} times"
        return ChangePlan(
            changes=[FileChange(path=path_in_root, old=content, new=changed)],
            receipt={
                "status": OK,
                "replacements": count,
                "applied": True,
                "summary_text": f"{path}: replaced {times}",
            },
        )

    return change_files(edit_place.root, edit_place.plan_file, plan)


def apply_patch(edit_place: EditPlace, params: dict[str, Any], text: bytes) -> Receipt:
    """Change all files of a patch, or none; with ``dry_run``, none."""

    def plan() -> ChangePlan:
        return plan_patch(edit_place, params, text)

    if params.get("dry_run"):
        return plan().receipt
    return change_files(edit_place.root, edit_place.plan_file, plan)


def plan_patch(edit_place: EditPlace, params: dict[str, Any], text: bytes) -> ChangePlan:
    """
    Raises:
        Declined: The patch is invalid, or does not fit the files.
    """
    if len(text) > PATCH_BYTES_MAX:
        raise Declined(ERROR, "too_large", f"patch: expected at most {PATCH_BYTES_MAX} bytes")
    try:
        files = parse_patch(text.decode(), params.get("patch_format"))
    except UnicodeDecodeError:
        raise Declined(ERROR, "patch_invalid", "patch: expected UTF-8") from None
    patched_files = _PatchedFiles(edit_place)
    for file in files:
        patched_files.add(file)
    return patched_files.plan(is_dry=bool(params.get("dry_run")))


class _PatchedFiles:
    """The files that a patch has touched so far: what each was, and what it is now."""

    def __init__(self, edit_place: EditPlace) -> None:
        self._edit_place = edit_place
        self._budget = FitBudget()
        self._old_contents: dict[str, bytes | None] = {}
        self._now: dict[str, bytes | None] = {}
        self._ops = {"add": 0, "update": 0, "delete": 0, "move": 0}

    def add(self, file: FilePatch) -> None:
        path = self._read(file.path)
        old_content = self._now[path]
        if file.kind == "add":
            if old_content is not None:
                raise _already_exists(file.path)
            self._put(path, patched(b"", file.hunks, file.path, self._budget))
            self._ops["add"] += 1
            return
        if old_content is None:
            raise Declined(NOT_FOUND, "not_found", f"{file.path}: there is no such file")
        content = patched(old_content, file.hunks, file.path, self._budget)
        if file.kind == "delete":
            if file.hunks and content:
                raise Declined(
                    ERROR, "patch_does_not_apply", f"{file.path}: it has more than is removed"
                )
            self._now[path] = None
            self._ops["delete"] += 1
            return
        target = path if file.move_to is None else self._read(file.move_to)
        if target != path:
            if self._now[target] is not None:
                raise _already_exists(str(file.move_to))
            self._now[path] = None
            self._ops["move"] += 1
        else:
            self._ops["update"] += 1
        self._put(target, content)

    def _read(self, patch_path: str) -> str:
        path, content = content_at(self._edit_place.root, self._edit_place.workdir, patch_path)
        if path not in self._now:
            self._old_contents[path] = self._now[path] = content
        return path

    def _put(self, path: str, content: bytes) -> None:
        check_size(path, len(content))
        self._now[path] = content

    def plan(self, *, is_dry: bool) -> ChangePlan:
        changes = [
            FileChange(path=path, old=self._old_contents[path], new=now)
            for path, now in sorted(self._now.items())
            if now != self._old_contents[path]
        ]
        paths = sum(len(change.path.encode()) for change in changes)
        if paths > PATHS_BYTES_MAX:
            raise Declined(
                ERROR,
                "too_large",
                f"the changed paths have {paths} bytes: expected at most {PATHS_BYTES_MAX}",
            )
        number = len(changes)
        verb = "would change" if is_dry else "changed"
        return ChangePlan(
            changes=changes,
            receipt={
                "status": OK,
                "files_changed": number,
                "changed_paths": [change.path for change in changes],
                "ops": dict(self._ops),
                "summary_text": f"{verb} {number} {'file' if number == 1 else 'files'}",
            },
        )


def _already_exists(path: str) -> Declined:
    return Declined(ALREADY_EXISTS, "already_exists", f"{path}: it exists already")


def change_files(root: ContainedFolder, file: StateFile, plan: Callable[[], ChangePlan]) -> Receipt:
    """Make the changes of ``plan``, which is called unless an earlier attempt has left its own in
    ``file`` (AG-118). To be called by one thread at a time.

    Raises:
        Declined: From ``plan``; or no file has changed; or ``partly_changed``, if the changes could
            not be undone either.
    """
    stored = file.read()
    if stored is not None and stored["changes"] is None:
        receipt: Receipt = stored["receipt"]
        return receipt
    change_plan = plan() if stored is None else _plan_from_value(stored)
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
        file.write(_plan_value(change_plan))
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
        content = _content_or_none(file_place, change.path)
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


def _content_or_none(file_place: FilePlace, path: str) -> bytes | None:
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
            return file_place.path_in_root, _content_or_none(file_place, path)
    except Declined as problem:
        if problem.status != NOT_FOUND:
            raise
        # A folder on the way is absent too. It is made with the file.
        return _path_without_folder(root, base, path), None


def _path_without_folder(root: ContainedFolder, base: tuple[str, ...], path: str) -> str:
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
        folder = _path_without_folder(root, base, above)
    return f"{folder}/{name}".removeprefix("./")


def _plan_value(plan: ChangePlan) -> Any:
    return {
        "changes": [[change.path, change.old, change.new] for change in plan.changes],
        "receipt": plan.receipt,
    }


def _plan_from_value(stored: Any) -> ChangePlan:
    return ChangePlan(
        changes=[FileChange(path=path, old=old, new=new) for path, old, new in stored["changes"]],
        receipt=stored["receipt"],
    )


def _receipt_value(receipt: Receipt) -> Any:
    return {"changes": None, "receipt": receipt}
