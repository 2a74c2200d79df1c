"""``aos init DIR``: create a world folder with its keys (spec/cli.md, C-20)."""

from __future__ import annotations

from typing import Annotated

from aos.host.folder.folder import WorldFolder
from aos.host.folder.making import init_world
from aos.manifest.keys import key_text
from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos_cli.options import Json, NewWorld, option
from aos_cli.output import line, print_json


def init(
    directory: NewWorld,
    *,
    operator: Annotated[
        str, option("NAME", "Name of the operator, who signs manifests and commands.")
    ] = "operator",
    executor: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Create a key for an executor of this name, to list in a manifest. "
            "May be given several times.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    folder = init_world(directory, operator=operator, executors=executor or [])
    if json:
        print_json(_document(folder, operator))
    else:
        _show(folder, operator)


def _document(folder: WorldFolder, operator: str) -> dict[str, object]:
    return {
        "world": hash_text(folder.world),
        "path": str(folder.path),
        "created": folder.created,
        "operator": operator,
        "executors": [
            {"name": name, "public_key": key_text(key)} for name, key in folder.executors.items()
        ],
    }


def _show(folder: WorldFolder, operator: str) -> None:
    keys = folder.path / "keys"
    line(f"new world in {folder.path}", style="bold")
    line(f"  {hash_text(folder.world)}")
    line(f"  {keys}/world.key     signs the journal's heads and the receipts of this node")
    line(f"  {keys}/operator.key  signs manifests as {operator}; keep both safe")
    for name, key in folder.executors.items():
        line(f"  {keys}/executors/{name}.key  executor {name}, {key_text(key)}")
    line(f"next: aos apply PATH --world {shell_word(folder.path)}")
