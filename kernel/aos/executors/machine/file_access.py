"""Read, write and look at one file of the root (AG-110 to AG-112)."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from typing import Any, Final

from aos.executors.machine.contained_paths import ContainedFolder, FilePlace, Parts
from aos.executors.machine.declined import (
    ALREADY_EXISTS,
    ERROR,
    NOT_FOUND,
    OK,
    Declined,
    invalid,
)
from aos.executors.machine.host_outputs import HostOutput, mode_of, output

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
    offset, most = params.get("offset_bytes") or 0, params.get("max_bytes")
    with root.place(workdir, path) as place:
        data, found = read_part(place, path, offset, FILE_BYTES_MAX if most is None else most)
    is_cut = offset + len(data) < found.st_size
    if is_cut and most is None:
        raise _too_large(path, found.st_size - offset, "give max_bytes to read a part")
    if encoding != "bytes":
        data = _text(path, data, is_cut=is_cut)
    value = {
        "status": OK,
        "truncated": is_cut,
        "size_bytes": found.st_size,
        "mtime_ns": max(0, found.st_mtime_ns),
    }
    return value, output(data, mode, as_bytes=encoding == "bytes")


def read_part(place: FilePlace, path: str, offset: int, most: int) -> tuple[bytes, os.stat_result]:
    """At most ``most`` bytes of a regular file, and 16 MiB; and its status. Raises as
    ``open_regular``."""
    descriptor, found = open_regular(place, path)
    try:
        if offset >= found.st_size:
            return b"", found
        left = min(most, FILE_BYTES_MAX, found.st_size - offset)
        data = bytearray()
        while left > len(data):
            part = os.pread(descriptor, left - len(data), offset + len(data))
            if not part:
                break
            data += part
        return bytes(data), found
    finally:
        os.close(descriptor)


def read_whole(place: FilePlace, path: str) -> bytes:
    """
    Raises:
        Declined: As ``open_regular``, or it has more than 16 MiB.
    """
    data, found = read_part(place, path, 0, FILE_BYTES_MAX)
    if found.st_size > FILE_BYTES_MAX:
        raise _too_large(path, found.st_size, "work on it with a command")
    return data


def open_regular(place: FilePlace, path: str) -> tuple[int, os.stat_result]:
    """A descriptor for reading, which the caller closes.

    Raises:
        Declined: It is absent, a folder, or a pipe, socket or device, which is not opened.
    """
    _check_regular(place.found, path)
    descriptor = os.open(place.name, _READ_FLAGS, dir_fd=place.folder)
    found = os.fstat(descriptor)
    try:
        _check_regular(found, path)
    except Declined:
        os.close(descriptor)
        raise
    return descriptor, found


def _check_regular(found: os.stat_result | None, path: str) -> None:
    if found is None:
        raise Declined(NOT_FOUND, "not_found", f"{path}: there is no such file")
    if stat.S_ISDIR(found.st_mode):
        raise Declined(ERROR, "is_directory", f"{path}: it is a folder")
    if not stat.S_ISREG(found.st_mode):
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
    with root.place(workdir, path, creates=bool(params.get("create_parents"))) as place:
        if mode == "create_new" and place.found is not None:
            raise _exists(path)
        replace_file(place, path, data, is_new=mode == "create_new")
        written = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    return {
        "status": OK,
        "written_bytes": len(data),
        "created": place.found is None,
        "new_mtime_ns": max(0, written.st_mtime_ns),
    }


def replace_file(place: FilePlace, path: str, data: bytes, *, is_new: bool = False) -> None:
    """Put a file of these bytes in a place, durably and as a whole. It keeps the permissions of the
    file before it.

    Raises:
        Declined: A folder or a special file is there, or with ``is_new`` anything.
    """
    if place.found is not None:
        _check_regular(place.found, path)
    unfinished = f"{UNFINISHED}{secrets.token_hex(8)}"
    descriptor = os.open(unfinished, _NEW_FLAGS, 0o666, dir_fd=place.folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if place.found is not None:
                with suppress(PermissionError):
                    os.fchmod(descriptor, stat.S_IMODE(place.found.st_mode) & 0o777)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if is_new:
            _link_new(place, path, unfinished)
        else:
            os.replace(unfinished, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished, dir_fd=place.folder)
        raise
    os.fsync(place.folder)


def _link_new(place: FilePlace, path: str, unfinished: str) -> None:
    try:
        os.link(
            unfinished,
            place.name,
            src_dir_fd=place.folder,
            dst_dir_fd=place.folder,
            follow_symlinks=False,
        )
    except FileExistsError:
        raise _exists(path) from None
    os.unlink(unfinished, dir_fd=place.folder)


def _exists(path: str) -> Declined:
    return Declined(ALREADY_EXISTS, "already_exists", f"{path}: it exists already")


def stat_file(root: ContainedFolder, workdir: Parts, params: dict[str, Any]) -> dict[str, Any]:
    """A link is followed."""
    found = _found(root, workdir, params["path"])
    if found is None:
        return {"status": NOT_FOUND, "exists": False, "error_code": "not_found"}
    return {
        "status": OK,
        "exists": True,
        "is_dir": stat.S_ISDIR(found.st_mode),
        "size_bytes": found.st_size,
        "mtime_ns": max(0, found.st_mtime_ns),
    }


def file_exists(root: ContainedFolder, workdir: Parts, params: dict[str, Any]) -> dict[str, Any]:
    """Whether a path leads to anything in the root."""
    return {"status": OK, "exists": _found(root, workdir, params["path"]) is not None}


def _found(root: ContainedFolder, workdir: Parts, path: str) -> os.stat_result | None:
    try:
        with root.place(workdir, path) as place:
            return place.found
    except Declined as problem:
        if problem.code in ("not_found", "not_a_directory"):
            return None
        raise
