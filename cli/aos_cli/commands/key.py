"""``aos key``: keys of approvers and witnesses (spec/cli.md, C-130)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from aos.host.checkpoints.named_files import as_witness, new_key
from aos.host.folder.folder import read_key
from aos.manifest.keys import key_text
from aos_cli.options import Json, argument, option
from aos_cli.output import line, print_json

Name = Annotated[
    str | None,
    option(
        "NAME",
        "Name of the witness in its verifier key, such as witness.example/w1 (default: "
        "aos-witness/ and the first digits of the key).",
    ),
]

StateFolder = Annotated[
    Path | None,
    option("DIR", "Folder with the last checkpoint of each log (default: the key's FILE.logs)."),
]
"""Where a witness remembers what it cosigned."""


def new(
    file: Annotated[Path, argument("FILE", "New file for the secret key.")],
    *,
    name: Name = None,
    json: Json = False,
) -> None:
    as_witness(bytes(32), name)
    _print(file, bytes(new_key(file).verify_key), name, json=json)


def show(
    file: Annotated[Path, argument("FILE", "File with a secret key.")],
    *,
    name: Name = None,
    json: Json = False,
) -> None:
    _print(file, bytes(read_key(file).verify_key), name, json=json)


def _print(file: Path, public: bytes, name: str | None, *, json: bool) -> None:
    witness = as_witness(public, name)
    if json:
        print_json({"file": str(file), "public_key": key_text(public), "witness": witness.text})
        return
    line(key_text(public), style="bold")
    line(f"  as a witness: {witness.text}")
