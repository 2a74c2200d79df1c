"""The secrets file of a vault: read as the host reads it, changed by replacing it (AG-81), with the
versions of each alias that the vault has given out (AG-82).

The errors of the effects are made here, by their codes (AG-84). Only ``vault_write_failed`` is
retryable: after any other code, the same params will never work, or not with this state of the
vault.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from aos.errors import AosError
from aos.host.folder.secrets import (
    FILE_BYTES_MAX,
    opened_values,
    read_secrets,
    sealed_text,
    secrets_keyring,
)
from aos.manifest.manifest_secrets import is_key
from aos.store.plain_files import PlainFolder
from aos.worker import EffectFailed, NotConfigured

Values = Mapping[str, bytes]
IsOver: TypeAlias = Callable[[], bool]
"""Whether the attempt has ended that wants to change the file."""

LOCK_PAUSE_S: Final = 0.02

LAST_VERSIONS: Final = ".last-versions"
"""The end of the name of the file with the last version of each alias, next to the secrets file."""

PREFIX: Final = "aos.vault/"
"""Keys of the secrets file that begin so belong to the vault: one for each alias."""

VERSION_MAX: Final = 2**63 - 1
"""Of a rotation, and so of every version: the next one must be a number of a receipt, too."""

_FORBIDDEN: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)

BINDING_UNSUPPORTED: Final = "vault_binding_unsupported"
ALIAS_INVALID: Final = "vault_alias_invalid"
VALUE_UNSUPPORTED: Final = "vault_value_unsupported"
KEY_TAKEN: Final = "vault_key_taken"
VALUE_MISSING: Final = "vault_value_missing"
DIGEST_MISMATCH: Final = "vault_digest_mismatch"
VERSION_CONFLICT: Final = "vault_version_conflict"
FULL: Final = "vault_full"
WRITE_FAILED: Final = "vault_write_failed"
NOT_CONFIGURED: Final = "vault_not_configured"
FILE_UNUSABLE: Final = "vault_file_unusable"


@dataclass(frozen=True, slots=True)
class SecretVersion:
    """One version of an alias. ``digest`` is the content hash of the value, in hex; ``is_put`` is
    whether the vault wrote the value itself."""

    version: int
    binding: str
    digest: str
    is_put: bool


class VaultFile:
    """The file that ``AOS_VAULT_FILE`` names. It may be absent: the first change makes it, as one
    JSON object. Methods block; any number of threads and processes may call them."""

    def __init__(self, path: Path) -> None:
        # A link to the file stays one.
        self._path = Path(os.path.realpath(path))

    @contextmanager
    def locked(self, is_over: IsOver) -> Iterator[Values]:
        """Yield the keys and values, which no other caller changes meanwhile. Wait for the others
        until ``is_over`` returns True.

        Raises:
            NotConfigured: The file cannot be read, or is none.
            EffectFailed: The wait is over.
        """
        try:
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise file_unusable(f"{self._path.parent}: {error.strerror}") from None
        try:
            _lock_folder(folder, is_over)
            yield self._read(self._path) if self._path.exists() else {}
        finally:
            os.close(folder)

    def last_version(self, alias: str, versions: Sequence[SecretVersion]) -> SecretVersion | None:
        """The last version of an alias that was given out. ``versions`` are those of the secrets
        file, which may be an older copy (AG-82a).

        Raises:
            NotConfigured: The file of the last versions cannot be read, or is none.
        """
        given_out = self._last_versions().get(alias)
        candidates = [*versions[-1:], *([] if given_out is None else [given_out])]
        return max(candidates, key=lambda version: version.version, default=None)

    def change(
        self,
        values: Values,
        changes: Mapping[str, str],
        last: tuple[str, SecretVersion],
        is_over: IsOver,
    ) -> None:
        """Set some keys; call it within ``locked``, with its values. All others keep their values,
        and lines their order and comments. It is durable on return.

        ``last`` is the version of an alias that this change gives out. It is durable first: a
        version that is in an older copy of the secrets file no more is never given out again.

        Raises:
            EffectFailed: A value cannot be in a file of this form, the file would be too long, the
                system cannot write it, or ``is_over`` returns True. It is as it was.
            NotConfigured: This process may not replace it.
        """
        if self._path.exists() and not self._path.stat().st_mode & stat.S_IWUSR:
            raise file_unusable(f"{self._path}: it is read-only")
        text = self._changed(self._as_kept(changes))
        if len(text.encode()) > FILE_BYTES_MAX:
            raise EffectFailed(
                FULL, f"the vault has no room: expected at most {FILE_BYTES_MAX} bytes"
            )
        expected = {**values, **{key: value.encode() for key, value in changes.items()}}
        try:
            self._replace(text, expected, last, is_over)
        except OSError as error:
            if error.errno in _FORBIDDEN:
                raise file_unusable(f"{self._path}: {error.strerror}") from None
            raise write_failed(error) from None

    def _as_kept(self, changes: Mapping[str, str]) -> Mapping[str, str]:
        """The values as the file keeps them: sealed, if there is a keyring (X-67a)."""
        try:
            keyring = secrets_keyring()
        except AosError as problem:
            raise file_unusable(str(problem)) from None
        if keyring is None:
            return changes
        return {key: sealed_text(keyring, key, value) for key, value in changes.items()}

    def _changed(self, changes: Mapping[str, str]) -> str:
        text = self._text()
        if not text.strip() or text.lstrip().startswith("{"):
            document = {**(json.loads(text) if text.strip() else {}), **changes}
            return json.dumps(document, ensure_ascii=False, indent=2) + "\n"
        remaining = dict(changes)
        lines = []
        for line in text.removesuffix("\n").split("\n"):
            key = line.partition("=")[0].strip()
            lines.append(f"{key}={remaining.pop(key)}" if key in remaining else line)
        lines += [f"{key}={value}" for key, value in remaining.items()]
        return "\n".join(lines) + "\n"

    def _text(self) -> str:
        with PlainFolder.at_user_path(self._path.parent) as folder:
            try:
                return folder.read(self._path.name, FILE_BYTES_MAX).decode("utf-8-sig")
            except FileNotFoundError:
                return ""

    def _last_versions(self) -> dict[str, SecretVersion]:
        name = self._path.name + LAST_VERSIONS
        with PlainFolder.at_user_path(self._path.parent) as folder:
            try:
                text = folder.read(name, FILE_BYTES_MAX).decode("utf-8", "replace").strip()
                values = opened_values(self._path.parent / name, {name: text})
                return last_versions(values[name], name)
            except FileNotFoundError:
                return {}
            except (OSError, AosError) as error:
                raise file_unusable(f"{name}: {error}") from None

    def _give_out(self, alias: str, version: SecretVersion, is_over: IsOver) -> None:
        versions = self._last_versions()
        if versions.get(alias) == version:
            return
        name = self._path.name + LAST_VERSIONS
        with PlainFolder.at_user_path(self._path.parent) as folder:
            text = last_versions_text({**versions, alias: version})
            self._write(folder, name, self._as_kept({name: text})[name], is_over)

    def _replace(
        self, text: str, expected: Values, last: tuple[str, SecretVersion], is_over: IsOver
    ) -> None:
        def before_rename(unfinished: Path) -> None:
            if self._values_of(unfinished) != expected:
                raise EffectFailed(
                    VALUE_UNSUPPORTED,
                    "the value cannot be one line of the secrets file as it is: write the file "
                    "as one JSON object",
                )
            self._give_out(*last, is_over)

        with PlainFolder.at_user_path(self._path.parent) as folder:
            self._write(folder, self._path.name, text, is_over, before_rename)

    def _write(
        self,
        folder: PlainFolder,
        name: str,
        text: str,
        is_over: IsOver,
        before_rename: Callable[[Path], None] = lambda _: None,
    ) -> None:
        """Replace a file, durably. ``before_rename`` may refuse the new one."""
        unfinished = f".{name}.unfinished"
        folder.remove(unfinished)
        try:
            with os.fdopen(folder.create(unfinished), "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            before_rename(folder.path / unfinished)
            # The outcome of the attempt may be in the journal soon: nothing may follow it.
            _check_not_over(is_over)
            folder.rename(unfinished, name)
        except BaseException:
            folder.remove(unfinished)
            raise
        folder.sync()

    def _values_of(self, file: Path) -> Values | None:
        try:
            return dict(read_secrets(file).values)
        except AosError:  # its text would name the unfinished file
            return None

    def _read(self, file: Path) -> Values:
        try:
            return read_secrets(file).values
        except AosError as problem:
            raise file_unusable(str(problem)) from None


def _lock_folder(folder: int, is_over: IsOver) -> None:
    """Lock a folder. A wait in the system could not be ended, and would write after its attempt."""
    while True:
        _check_not_over(is_over)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_PAUSE_S)
        else:
            return


def _check_not_over(is_over: IsOver) -> None:
    if is_over():
        raise attempt_over()


def key_of(alias: str) -> str:
    """The key of the file with the versions of an alias.

    Raises:
        EffectFailed: The alias has other characters than a key.
    """
    key = PREFIX + alias
    if not alias or not is_key(key):
        raise EffectFailed(
            ALIAS_INVALID, f"alias: expected letters, digits and . _ / @ -, found {alias[:80]!a}"
        )
    return key


def read_versions(values: Mapping[str, bytes], alias: str) -> list[SecretVersion]:
    """The versions of an alias, ascending.

    Raises:
        NotConfigured: Someone has changed the entry: it is none of ours.
    """
    key = key_of(alias)
    try:
        versions = [_version_from_row(row) for row in json.loads(values.get(key, b"[]"))]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise file_unusable(f"the entry {key} is not a list of versions") from None
    return versions


def _version_from_row(row: Any) -> SecretVersion:
    """Raises ValueError, TypeError or LookupError for a row of another form."""
    return SecretVersion(int(row[0]), str(row[1]), str(row[2]), row[3] is True)


def last_versions(data: str, name: str) -> dict[str, SecretVersion]:
    """The last version of each alias, from the file next to the secrets file (AG-82a).

    Raises:
        NotConfigured: Someone has changed the file: it is none of ours.
    """
    try:
        return {str(alias): _version_from_row(row) for alias, row in json.loads(data).items()}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise file_unusable(f"{name} is not a list of the last versions") from None


def last_versions_text(versions: Mapping[str, SecretVersion]) -> str:
    """The content of the file of the last versions."""
    return (
        json.dumps({alias: _version_row(version) for alias, version in versions.items()}, indent=1)
        + "\n"
    )


def _version_row(version: SecretVersion) -> list[Any]:
    return [version.version, version.binding, version.digest, version.is_put]


def versions_text(versions: Sequence[SecretVersion]) -> str:
    """The value of the entry of an alias."""
    return json.dumps([_version_row(version) for version in versions], separators=(",", ":"))


def write_failed(error: OSError) -> EffectFailed:
    """The system could not write the file. It is as it was."""
    return EffectFailed(
        WRITE_FAILED, f"the secrets file cannot be written: {error.strerror}", retryable=True
    )


def attempt_over() -> EffectFailed:
    """The attempt has ended before it changed the file; its outcome is another one."""
    return EffectFailed(
        WRITE_FAILED,
        "the attempt ended while another process used the secrets file",
        retryable=True,
    )


def not_configured() -> NotConfigured:
    """This process has no vault."""
    return NotConfigured(
        NOT_CONFIGURED,
        "AOS_VAULT_FILE names no file, so there is no vault",
        "set it to the file of --secrets and restart the process",
    )


def file_unusable(problem: str) -> NotConfigured:
    """The file cannot be read or replaced by this process. It is as it was."""
    return NotConfigured(
        FILE_UNUSABLE,
        f"the vault cannot be used: {problem}",
        "correct the file that AOS_VAULT_FILE names, then run `aos effects retry`",
    )
