"""``aos world``: the worlds of a node with many (spec/cli.md, C-112 to C-115)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from aos.errors import BadUsage, Refused
from aos.node.worlds.hosted_worlds import world_document
from aos.node.worlds.worlds_folder import Hosted, WorldsFolder
from aos.shell_text import shell_word
from aos.values.digests import parse_hash
from aos.values.spelling import time_text
from aos_cli.options import Json, argument, client_of, flag, option
from aos_cli.output import line, print_json, table

Name = Annotated[str, argument("NAME", "Name of the world: lowercase letters, digits and dashes.")]
Node = Annotated[
    str,
    option(
        "DIR|URL",
        "The folder of the worlds, or the address of the node that hosts them (its token: "
        "AOS_TOKEN).",
    ),
]
_HERE: Final = "."


def create(
    name: Name,
    *,
    operator: Annotated[
        str, option("NAME", "Name of the operator, who signs manifests and commands.")
    ] = "operator",
    node: Node = _HERE,
    json: Json = False,
) -> None:
    folder = _unhosted(node)
    if folder is None:
        with client_of(node) as client:
            document = client.worlds("create", name=name, operator=operator)
    else:
        folder.check()
        folder.create(name, operator=operator)
        document = world_document(folder, name)
    if json:
        print_json(document)
        return
    path = document["path"]
    line(f"new world {name} in {path}", style="bold")
    line(f"  {document['world']}")
    line(f"next: aos apply PATH --world {shell_word(path)}")


def list_worlds(*, node: Node = _HERE, json: Json = False) -> None:
    document = _document(node)
    if json:
        print_json(document)
        return
    table(
        ("name", "phase", "process", "wakes", "world"),
        [
            (
                row["name"],
                row["phase"],
                "-" if row["pid"] is None else str(row["pid"]),
                "-" if row["wake_ns"] is None else time_text(row["wake_ns"]),
                row["world"] or "-",
            )
            for row in document["worlds"]
        ],
    )
    for row in document["worlds"]:
        if row["problem"] is not None:
            line(f"{row['name']}: {row['problem']}", style="red")


def start(name: Name, *, node: Node = _HERE, json: Json = False) -> None:
    folder = _unhosted(node)
    if folder is None:
        with client_of(node) as client:
            document = client.worlds("start", name=name)
    else:
        document = _mark(folder, name, is_stopped=False)
    _tell(document, "starts" if folder is None else "starts with the next node", as_json=json)


def stop(name: Name, *, node: Node = _HERE, json: Json = False) -> None:
    folder = _unhosted(node)
    if folder is None:
        with client_of(node) as client:
            document = client.worlds("stop", name=name)
    else:
        document = _mark(folder, name, is_stopped=True)
    _tell(document, f"is stopped (aos world start {name})", as_json=json)


def remove(
    name: Name,
    *,
    yes: Annotated[
        bool, flag("--yes", "Remove it: its journal and its keys cannot be brought back.")
    ] = False,
    node: Node = _HERE,
    json: Json = False,
) -> None:
    rows = [row for row in _document(node)["worlds"] if row["name"] == name]
    if not rows:
        raise BadUsage(f"no world is called {name}", location=node, hint="aos world list")
    [row] = rows
    if row["world"] is None:
        raise Refused(f"{name}: {row['problem']}")
    if not yes:
        raise Refused(
            f"{name}: removing a world removes its journal and its keys, and nothing brings them "
            "back",
            location=row["path"],
            hint=f"keep a copy: aos export COPY.aos --world {shell_word(row['path'])}; then "
            f"aos world remove {name} --yes",
        )
    folder = _unhosted(node)
    if folder is None:
        with client_of(node) as client:
            document = client.worlds("remove", name=name, world=row["world"])
    else:
        folder.remove(name, parse_hash(row["world"]))
        document = {"removed": name, "world": row["world"]}
    if json:
        print_json(document)
    else:
        line(f"removed {name}, {row['world']}")


def _unhosted(node: str) -> WorldsFolder | None:
    """The folder, if it is one that no node hosts; else None: the node is asked."""
    if node.startswith(("http://", "https://")):
        return None
    folder = WorldsFolder(Path(node))
    return None if folder.is_hosted() else folder


def _document(node: str) -> dict[str, Any]:
    folder = _unhosted(node)
    if folder is None:
        with client_of(node) as client:
            return client.worlds()
    folder.check()
    return {"worlds": [world_document(folder, name) for name in folder.names()]}


def _mark(folder: WorldsFolder, name: str, *, is_stopped: bool) -> dict[str, Any]:
    """Keep whether the next node of the folder may run a world."""
    folder.check()
    folder.world(name)
    folder.keep(name, Hosted(is_stopped=is_stopped, asleep=folder.hosted(name).asleep))
    return world_document(folder, name)


def _tell(document: dict[str, Any], words: str, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        line(f"{document['name']} {words}")
