"""The secrets file of a vault: read as the host reads it, changed by replacing it (AG-81)."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from aos.errors import AosError
from aos.executors.vault.vault_errors import (
    FULL,
    VALUE_UNSUPPORTED,
    file_unusable,
    write_failed,
)
from aos.host.folder.secrets import FILE_BYTES_MAX, read_secrets
from aos.store.plain_files import PlainFolder
from aos.worker import EffectFailed

Values = Mapping[str, bytes]

_FORBIDDEN: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


class VaultFile:
    """The file that ``AOS_VAULT_FILE`` names. It may be absent: the first change makes it, as one
    JSON object. Methods block; any number of threads and processes may call them."""

    def __init__(self, path: Path) -> None:
        # A link to the file stays one.
        self._path = Path(os.path.realpath(path))

    @contextmanager
    def locked(self) -> Iterator[Values]:
        """Yield the keys and values, which no other caller changes meanwhile.

        Raises:
            NotConfigured: The file cannot be read, or is none.
        """
        try:
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise file_unusable(f"{self._path.parent}: {error.strerror}") from None
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield self._read(self._path) if self._path.exists() else {}
        finally:
            os.close(folder)

    def change(self, values: Values, changes: Mapping[str, str]) -> None:
        """Set some keys; call it within ``locked``, with its values. All others keep their values,
        and lines their order and comments. It is durable on return.

        Raises:
            EffectFailed: A value cannot be in a file of this form, the file would be too long, or
                the system cannot write it. It is as it was.
            NotConfigured: This process may not replace it.
        """
        if self._path.exists() and not self._path.stat().st_mode & stat.S_IWUSR:
            raise file_unusable(f"{self._path}: it is read-only")
        text = self._changed(changes)
        if len(text.encode()) > FILE_BYTES_MAX:
            raise EffectFailed(
                FULL, f"the vault has no room: expected at most {FILE_BYTES_MAX} bytes"
            )
        expected = {**values, **{key: value.encode() for key, value in changes.items()}}
        try:
            self._replace(text, expected)
        except OSError as error:
            if error.errno in _FORBIDDEN:
                raise file_unusable(f"{self._path}: {error.strerror}") from None
            raise write_failed(error) from None

    def _changed(self, changes: Mapping[str, str]) -> str:
        text = self._text()
        if not text.strip() or text.lstrip().startswith("{"):
            document = {**(json.loads(text) if text.strip() else {}), **changes}
            return json.dumps(document, ensure_ascii=False, indent=2) + "\n"
        left = dict(changes)
        lines = []
        for line in text.removesuffix("\n").split("\n"):
            key = line.partition("=")[0].strip()
            lines.append(f"{key}={left.pop(key)}" if key in left else line)
        lines += [f"{key}={value}" for key, value in left.items()]
        return "\n".join(lines) + "\n"

    def _text(self) -> str:
        with PlainFolder.named(self._path.parent) as folder:
            try:
                return folder.read(self._path.name, FILE_BYTES_MAX).decode("utf-8-sig")
            except FileNotFoundError:
                return ""

    def _replace(self, text: str, expected: Values) -> None:
        unfinished = f".{self._path.name}.unfinished"
        with PlainFolder.named(self._path.parent) as folder:
            folder.remove(unfinished)
            try:
                with os.fdopen(folder.create(unfinished), "w", encoding="utf-8") as opened:
                    opened.write(text)
                    opened.flush()
                    os.fsync(opened.fileno())
                if self._found(folder.path / unfinished) != expected:
                    raise EffectFailed(
                        VALUE_UNSUPPORTED,
                        "the value cannot be one line of the secrets file as it is: write the file "
                        "as one JSON object",
                    )
                folder.rename(unfinished, self._path.name)
            except BaseException:
                folder.remove(unfinished)
                raise
            folder.sync()

    def _found(self, file: Path) -> Values | None:
        try:
            return dict(read_secrets(file).values)
        except AosError:  # its text would name the unfinished file
            return None

    def _read(self, file: Path) -> Values:
        try:
            return read_secrets(file).values
        except AosError as problem:
            raise file_unusable(str(problem)) from None
