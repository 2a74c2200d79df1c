"""Values of a secrets file that are sealed with a keyring, so that a copy of the file alone shows
none (X-67a).

A sealed value is the text ``aos-sealed:`` and base64 of the sealed form (spec/sealed.md) of
``{"key": KEY, "value": TEXT}``. A value that was moved to another key does not open there.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aos.errors import AosError, BadUsage, sentence
from aos.sealing.keyring import Keyring

VARIABLE: Final = "AOS_SECRETS_KEYRING"
PREFIX: Final = "aos-sealed:"


def secrets_keyring(environment: Mapping[str, str] = os.environ) -> Keyring | None:
    """The keyring that ``AOS_SECRETS_KEYRING`` names; None without one.

    Raises:
        BadUsage: It cannot be read, or is none.
    """
    path = environment.get(VARIABLE, "")
    return Keyring.read(path) if path else None


def sealed_text(keyring: Keyring, key: str, value: str) -> str:
    """A value as the file has it."""
    return PREFIX + keyring.seal_text({"key": key, "value": value}, path=key)


def opened_values(file: Path, values: Mapping[str, str]) -> dict[str, str]:
    """The values of a file, sealed ones opened.

    Raises:
        BadUsage: One cannot be opened. The message names its key alone.
    """
    if not any(value.startswith(PREFIX) for value in values.values()):
        return dict(values)
    keyring = secrets_keyring()
    if keyring is None:
        raise BadUsage(
            sentence(
                "the file has sealed values",
                location=str(file),
                expected=f"{VARIABLE} with the path of their keyring",
                actual="no such variable in the environment",
            )
        )
    return {
        key: _open_value(keyring, file, key, value) if value.startswith(PREFIX) else value
        for key, value in values.items()
    }


def _open_value(keyring: Keyring, file: Path, key: str, value: str) -> str:
    try:
        content = keyring.open(base64.b64decode(value.removeprefix(PREFIX), validate=True))
    except (binascii.Error, AosError) as problem:
        raise BadUsage(f"{file}: {key}: the sealed value does not open: {problem}") from None
    if not isinstance(content, dict) or content.get("key") != key:
        raise BadUsage(f"{file}: {key}: the sealed value is that of another key")
    text = content.get("value")
    if not isinstance(text, str):
        raise BadUsage(f"{file}: {key}: the sealed value is no text")
    return text
