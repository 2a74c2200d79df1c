"""The versions of each alias that a vault has given out, in the secrets file itself (AG-82)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aos.executors.vault.vault_errors import ALIAS_INVALID, file_unusable
from aos.manifest.manifest_secrets import is_key
from aos.worker import EffectFailed

PREFIX: Final = "aos.vault/"
"""Keys of the secrets file that begin so belong to the vault: one for each alias."""


VERSION_MAX: Final = 2**63 - 1
"""Of a rotation, and so of every version: the next one must be a number of a receipt, too."""


@dataclass(frozen=True, slots=True)
class SecretVersion:
    """One version of an alias. ``digest`` is the content hash of the value, in hex; ``is_put`` is
    whether the vault wrote the value itself."""

    version: int
    binding: str
    digest: str
    is_put: bool


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
        versions = [_version(row) for row in json.loads(values.get(key, b"[]"))]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise file_unusable(f"the entry {key} is not a list of versions") from None
    return versions


def _version(row: Any) -> SecretVersion:
    """Raises ValueError, TypeError or LookupError for a row of another form."""
    return SecretVersion(int(row[0]), str(row[1]), str(row[2]), row[3] is True)


def last_versions(data: str, name: str) -> dict[str, SecretVersion]:
    """The last version of each alias, from the file next to the secrets file (AG-82a).

    Raises:
        NotConfigured: Someone has changed the file: it is none of ours.
    """
    try:
        return {str(alias): _version(row) for alias, row in json.loads(data).items()}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise file_unusable(f"{name} is not a list of the last versions") from None


def last_versions_text(versions: Mapping[str, SecretVersion]) -> str:
    """The content of the file of the last versions."""
    return (
        json.dumps({alias: _row(version) for alias, version in versions.items()}, indent=1) + "\n"
    )


def _row(version: SecretVersion) -> list[Any]:
    return [version.version, version.binding, version.digest, version.is_put]


def versions_text(versions: Sequence[SecretVersion]) -> str:
    """The value of the entry of an alias."""
    return json.dumps([_row(version) for version in versions], separators=(",", ":"))
