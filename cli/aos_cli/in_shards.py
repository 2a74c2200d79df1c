"""Commands that a group carries out in its shards: in each of them, or in those that have the cells
(spec/groups.md, GR-87 to GR-89).

Text has a heading for each shard; with ``--json``, the documents are those of ``shards`` in one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, TypeAlias

from aos.errors import AosError, BadUsage
from aos.host.folder.folder import is_group
from aos.host.folder.group import GroupShards, open_group
from aos.manifest.shards import shard_of_cell
from aos.read.lens.lookup import find_cell
from aos_cli.main import say
from aos_cli.open_view import looking_at
from aos_cli.options import address_of
from aos_cli.output import gathered_json, line, print_json

Keys: TypeAlias = Sequence[str | None]


def on_each_shard(
    *, unless: str = "", of_one: Sequence[str] = (), file: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a command take a group: it is carried out on the world of each shard.

    ``unless`` is a parameter that names something else than the world, and ``of_one`` are options
    that fit a single world. The parameter ``file`` is a path to write, which gets the shard's name
    before its suffix.
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def command(*, world: Path, json: bool, **options: Any) -> Any:
            if (unless and options[unless] is not None) or not is_group(world):
                return function(world=world, json=json, **options)
            for name in of_one:
                if options[name]:
                    raise BadUsage(
                        f"--{name}: expected a world, found a group",
                        hint="name a shard: --world DIR/000",
                    )
            group = open_group(world)

            def run(index: int) -> Any:
                paths = {}
                if file:
                    path: Path = options[file]
                    paths[file] = path.with_suffix(f".{group.names[index]}{path.suffix}")
                shard_path = group.shard(index).path
                return function(world=shard_path, json=json, **{**options, **paths})

            return _in_shards(group, range(group.shards), run, json=json)

        command.__signature__ = signature(function, eval_str=True)  # type: ignore[attr-defined]
        return command

    return decorated


def with_cells(
    world: Path,
    node: str | None,
    workflow: str | None,
    keys: Keys,
    run: Callable[[Path, Keys], int],
    *,
    json: bool,
) -> int:
    """Carry out a command about cells: on a world, or on the shards of a group that have them.
    Without ``keys``, that is each shard. ``run`` gets a world and the keys that it has.

    Raises:
        BadUsage: There is no such workflow, or each shard has a cell with this key.
        AosError: As ``run``, on a world.
    """
    if node is not None:
        return run(world, keys)
    group: GroupShards | None = None
    if is_group(world):
        group = open_group(world)
    elif address_of(world) is not None and keys and workflow is not None:
        # Few worlds are named by an address. Without keys, the command refuses it.
        from aos_cli.addressed_group import group_at  # noqa: PLC0415

        group = group_at(world)
    if group is None:
        return run(world, keys)
    location = group.location  # narrowed for the functions below
    if workflow is None or not keys:
        return _in_shards(
            group, range(group.shards), lambda index: run(location(index), keys), json=json
        )
    parts = _by_shard(group, workflow, keys)
    if len(parts) == 1:
        [(index, part)] = parts.items()
        return run(location(index), part)
    return _in_shards(
        group, sorted(parts), lambda index: run(location(index), parts[index]), json=json
    )


def _by_shard(group: GroupShards, workflow: str, keys: Keys) -> dict[int, list[str | None]]:
    parts: dict[int, list[str | None]] = {}
    location = group.location(0)
    hint = "DIR/000" if address_of(location) is None else address_of(location)
    with looking_at(location) as view:
        for key in keys:
            name, key_cbor = find_cell(view.state, workflow, key)
            manifest = view.state.manifest
            if manifest is None or name not in manifest.workflows:
                raise BadUsage(
                    f"{name}: no workflow of the manifest in force",
                    hint=f"name a shard that still has its cells: --world {hint}",
                )
            shard = shard_of_cell(manifest, name, key_cbor, group.shards)
            if shard is None:
                raise BadUsage(
                    f"{name}: each shard may have a cell with this key",
                    hint=f"name a shard: --world {hint}",
                )
            parts.setdefault(shard, []).append(key)
    return parts


def _in_shards(
    group: GroupShards, indices: Sequence[int], run: Callable[[int], Any], *, json: bool
) -> int:
    """Carry out a command on some shards, also if one of them fails. Return the first exit code
    that is not 0."""
    code = 0
    documents: list[dict[str, Any]] = []
    for index in indices:
        name = group.names[index]
        if not json:
            line(f"shard {name}", style="bold")
        try:
            with gathered_json() as shard_documents:
                shard_code = run(index) or 0
        except AosError as error:
            say(error)
            shard_code = error.exit_code
            shard_documents.append({"error": str(error)})
        documents += [{"shard": name, **document} for document in shard_documents]
        code = code or shard_code
    if json:
        print_json({"shards": documents})
    return code
