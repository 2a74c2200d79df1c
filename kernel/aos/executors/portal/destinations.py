"""``AOS_PORTAL_WORLDS``: the worlds of this machine that get events, by UUID (AG-86)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aos.errors import AosError, BadUsage
from aos.executors.named_addresses import pairs
from aos.executors.portal.portal_errors import not_configured, world_unusable
from aos.host.door.link import Link
from aos.host.folder.folder import WorldFolder, open_folder
from aos.values.digests import Hash
from aos.values.spelling import normal_uuid

VARIABLE: Final = "AOS_PORTAL_WORLDS"

_EXAMPLE: Final = f'{VARIABLE}="1b4e28ba-2fa1-41d2-883f-0016d3cca427=/srv/worlds/billing"'


def read_worlds(text: str) -> dict[str, Path]:
    """Read ``UUID=FOLDER`` and ``UNIVERSE/UUID=FOLDER`` pairs, separated by blanks.

    Raises:
        BadUsage: A pair is malformed, or a name is there twice.
    """
    worlds: dict[str, Path] = {}
    for position, name_text, folder in pairs(text):
        parts = [normal_uuid(part) for part in name_text.split("/")]
        if not folder or len(parts) > 2 or None in parts:
            raise BadUsage(
                f"{VARIABLE}: pair {position}: expected UUID=FOLDER, such as {_EXAMPLE} (pairs are "
                "separated by blanks)"
            )
        name = "/".join(filter(None, parts))
        if name in worlds:
            raise BadUsage(f"{VARIABLE}: pair {position}: the world {name} is there twice")
        worlds[name] = Path(folder).absolute()
    return worlds


class Destinations:
    """The connections of this process to other worlds, made when they are needed."""

    def __init__(self, worlds: Mapping[str, Path]) -> None:
        self._worlds = worlds
        self._links: dict[tuple[Path, Hash], Link] = {}

    def link(self, name: str) -> Link:
        """The way to the world of a name. Connects to nothing.

        Raises:
            NotConfigured: The name is unknown, or its folder has no world.
        """
        path = self._worlds.get(name)
        if path is None:
            raise not_configured(name, VARIABLE)
        folder = _folder(name, path)
        # A world that was made again in the same folder is another one.
        link = self._links.get((path, folder.world))
        if link is None:
            link = self._links[path, folder.world] = Link(folder)
        return link

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(link.close() for link in self._links.values()))


def _folder(name: str, path: Path) -> WorldFolder:
    try:
        return open_folder(path)
    except AosError as problem:
        raise world_unusable(name, str(problem)) from None
