"""``aos keyring``: the keys of sealed values (spec/cli.md, C-150 to C-153)."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from aos.errors import BadUsage
from aos.manifest.sealed_places import KEY_ID_BYTES
from aos.sealing.keyring import SECRET_BYTES
from aos.sealing.keyring_file import drop_key, new_keyring, read_keyring, rotate_keyring
from aos_cli.options import Json, argument
from aos_cli.output import line, note, print_json

if TYPE_CHECKING:
    from aos.sealing.keyring_file import KeyringContent

KeyringPath = Annotated[Path, argument("FILE", "File of the keyring.")]

_ID: Final = re.compile(rf"[0-9a-f]{{{2 * KEY_ID_BYTES}}}")


def new(
    file: Annotated[Path, argument("FILE", "New file for the keyring.")],
    *,
    json: Json = False,
) -> None:
    content = new_keyring(file, secret=os.urandom(SECRET_BYTES), created=_now())
    _print(file, content, json=json)
    if not json:
        note("keep a copy: without the file, no one can decrypt the values that it seals")


def rotate(file: KeyringPath, *, json: Json = False) -> None:
    content = rotate_keyring(file, secret=os.urandom(SECRET_BYTES), created=_now())
    _print(file, content, json=json)
    if not json:
        note("copy the file to the workers before senders use it")


def show(file: KeyringPath, *, json: Json = False) -> None:
    _print(file, read_keyring(file), json=json)


def drop(
    file: KeyringPath,
    key: Annotated[str, argument("KEY", "Id of the key, all 16 digits of it.")],
    *,
    json: Json = False,
) -> None:
    if not _ID.fullmatch(key):
        raise BadUsage(f"KEY: expected the 16 hex digits of a key's id, found {key!r:.80}")
    content = drop_key(file, bytes.fromhex(key))
    _print(file, content, json=json)
    if not json:
        note(f"values sealed under {key} open only with a copy of the file that still has the key")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _print(file: Path, content: KeyringContent, *, json: bool) -> None:
    if json:
        keys = [{"id": entry.key.id.hex(), "created": entry.created} for entry in content.entries]
        print_json({"file": str(file), "current": content.current.hex(), "keys": keys})
        return
    for entry in content.entries:
        seals = "  seals and opens" if entry.key.id == content.current else "  opens"
        line(f"{entry.key.id.hex()}  {entry.created}{seals}")
