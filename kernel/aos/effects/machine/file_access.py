"""Read, write and look at one file of the root (AG-110 to AG-112)."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from typing import Any, Final

from aos.effects.machine.contained_paths import ContainedFolder, FilePlace, Parts
from aos.effects.machine.host_outputs import (
    ALREADY_EXISTS,
    ERROR,
    NOT_FOUND,
    OK,
    Declined,
    HostOutput,
    invalid,
    mode_of,
    output,
)

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
UNFINISHED: Final = ".aos-unfinished-"
"""The beginning of the name of a file that is being written."""

_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_file(
    root: ContainedFolder, workdir: Parts, params: dict[str, Any]
) -> tuple[dict[str, Any], HostOutput]:
    """The receipt without its content, and the content."""
    mode, path = mode_of(params), params["path"]
    encoding = params.get("encoding") or "utf8"
    if encoding not in ("utf8", "utf-8", "bytes"):
        raise invalid(f"encoding: expected utf8 or bytes, found {encoding!r:.40}")
    offset, bytes_max = params.get("offset_bytes") or 0, params.get("max_bytes")
    with root.resolve(workdir, path) as file_place:
        data, stat_result = read_part(
            file_place, path, offset, FILE_BYTES_MAX if bytes_max is None else bytes_max
        )
    is_cut = offset + len(data) < stat_result.st_size
    if is_cut and bytes_max is None:
        raise _too_large(path, stat_result.st_size - offset, "give max_bytes to read a part")
    if encoding != "bytes":
        data = _text(path, data, is_cut=is_cut)
    value = {
        "status": OK,
        "truncated": is_cut,
        "size_bytes": stat_result.st_size,
        "mtime_ns": max(0, stat_result.st_mtime_ns),
    }
    return value, output(data, mode, as_bytes=encoding == "bytes")


def read_part(
    file_place: FilePlace, path: str, offset: int, bytes_max: int
) -> tuple[bytes, os.stat_result]:
    """At most ``bytes_max`` bytes of a regular file, and 16 MiB; and its status. Raises as
    ``open_regular``."""
    descriptor, stat_result = open_regular(file_place, path)
    try:
        if offset >= stat_result.st_size:
            return b"", stat_result
        bytes_to_read = min(bytes_max, FILE_BYTES_MAX, stat_result.st_size - offset)
        data = bytearray()
        while bytes_to_read > len(data):
            part = os.pread(descriptor, bytes_to_read - len(data), offset + len(data))
            if not part:
                break
            data += part
        return bytes(data), stat_result
    finally:
        os.close(descriptor)


def read_whole(file_place: FilePlace, path: str) -> bytes:
    """
    Raises:
        Declined: As ``open_regular``, or it has more than 16 MiB.
    """
    data, stat_result = read_part(file_place, path, 0, FILE_BYTES_MAX)
    if stat_result.st_size > FILE_BYTES_MAX:
        raise _too_large(path, stat_result.st_size, "work on it with a command")
    return data


def open_regular(file_place: FilePlace, path: str) -> tuple[int, os.stat_result]:
    """A descriptor for reading, which the caller closes.

    Raises:
        Declined: It is absent, a folder, or a pipe, socket or device, which is not opened.
    """
    _check_regular(file_place.stat_result, path)
    descriptor = os.open(file_place.name, _READ_FLAGS, dir_fd=file_place.folder)
    stat_result = os.fstat(descriptor)
    try:
        _check_regular(stat_result, path)
    except Declined:
        os.close(descriptor)
        raise
    return descriptor, stat_result


def _check_regular(stat_result: os.stat_result | None, path: str) -> None:
    if stat_result is None:
        raise Declined(NOT_FOUND, "not_found", f"{path}: there is no such file")
    if stat.S_ISDIR(stat_result.st_mode):
        raise Declined(ERROR, "is_directory", f"{path}: it is a folder")
    if not stat.S_ISREG(stat_result.st_mode):
        raise Declined(ERROR, "not_a_file", f"{path}: it is a pipe, a socket or a device")


def _text(path: str, data: bytes, *, is_cut: bool) -> bytes:
    """Valid UTF-8: without the incomplete last character of a part."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        if is_cut and error.reason == "unexpected end of data":
            return data[: error.start]
        raise Declined(
            ERROR,
            "invalid_utf8",
            f"{path}: byte {error.start} is no UTF-8 (read it with encoding bytes)",
        ) from None
    return data


def _too_large(path: str, size: int, remedy: str) -> Declined:
    return Declined(
        ERROR,
        "too_large",
        f"{path}: {size} bytes: expected at most {FILE_BYTES_MAX} ({remedy})",
    )


def check_size(path: str, size: int) -> None:
    """
    Raises:
        Declined: ``too_large``: no file that is written has more than 16 MiB.
    """
    if size > FILE_BYTES_MAX:
        raise _too_large(path, size, "write it with a command")


def write_file(
    root: ContainedFolder, workdir: Parts, params: dict[str, Any], data: bytes
) -> dict[str, Any]:
    """Write one whole file; a reader sees the old or the new one."""
    path, mode = params["path"], params.get("mode") or "overwrite"
    if mode not in ("overwrite", "create_new"):
        raise invalid(f"mode: expected overwrite or create_new, found {mode!r:.40}")
    check_size(path, len(data))
    with root.resolve(workdir, path, creates=bool(params.get("create_parents"))) as file_place:
        if mode == "create_new" and file_place.stat_result is not None:
            raise _exists(path)
        replace_file(file_place, path, data, is_new=mode == "create_new")
        written = os.stat(file_place.name, dir_fd=file_place.folder, follow_symlinks=False)
    return {
        "status": OK,
        "written_bytes": len(data),
        "created": file_place.stat_result is None,
        "new_mtime_ns": max(0, written.st_mtime_ns),
    }


def replace_file(file_place: FilePlace, path: str, data: bytes, *, is_new: bool = False) -> None:
    """Put a file of these bytes in a place, durably and as a whole. It keeps the permissions of the
    file before it.

    Raises:
        Declined: A folder or a special file is there, or with ``is_new`` anything.
    """
    if file_place.stat_result is not None:
        _check_regular(file_place.stat_result, path)
    unfinished = f"{UNFINISHED}{secrets.token_hex(8)}"
    descriptor = os.open(unfinished, _NEW_FLAGS, 0o666, dir_fd=file_place.folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if file_place.stat_result is not None:
                with suppress(PermissionError):
                    os.fchmod(descriptor, stat.S_IMODE(file_place.stat_result.st_mode) & 0o777)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if is_new:
            _link_new(file_place, path, unfinished)
        else:
            os.replace(
                unfinished,
                file_place.name,
                src_dir_fd=file_place.folder,
                dst_dir_fd=file_place.folder,
            )
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished, dir_fd=file_place.folder)
        raise
    os.fsync(file_place.folder)


def _link_new(file_place: FilePlace, path: str, unfinished: str) -> None:
    try:
        os.link(
            unfinished,
            file_place.name,
            src_dir_fd=file_place.folder,
            dst_dir_fd=file_place.folder,
            follow_symlinks=False,
        )
    except FileExistsError:
        raise _exists(path) from None
    os.unlink(unfinished, dir_fd=file_place.folder)


def _exists(path: str) -> Declined:
    return Declined(ALREADY_EXISTS, "already_exists", f"{path}: it exists already")


def stat_file(root: ContainedFolder, workdir: Parts, params: dict[str, Any]) -> dict[str, Any]:
    """A link is followed."""
    stat_result = _stat_of(root, workdir, params["path"])
    if stat_result is None:
        return {"status": NOT_FOUND, "exists": False, "error_code": "not_found"}
    return {
        "status": OK,
        "exists": True,
        "is_dir": stat.S_ISDIR(stat_result.st_mode),
        "size_bytes": stat_result.st_size,
        "mtime_ns": max(0, stat_result.st_mtime_ns),
    }


def file_exists(root: ContainedFolder, workdir: Parts, params: dict[str, Any]) -> dict[str, Any]:
    """Whether a path leads to anything in the root."""
    return {"status": OK, "exists": _stat_of(root, workdir, params["path"]) is not None}


def _stat_of(root: ContainedFolder, workdir: Parts, path: str) -> os.stat_result | None:
    try:
        with root.resolve(workdir, path) as file_place:
            return file_place.stat_result
    except Declined as problem:
        if problem.code in ("not_found", "not_a_directory"):
            return None
        raise
