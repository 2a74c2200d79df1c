"""Where a reader of the journal continues: ``DIR/node/FOLDER/NAME.json``, 0600, synced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from aos.host.folder.folder import WorldFolder
from aos.node.tokens import NODE

_FORMAT: Final = 1


class PositionFile:
    """One file. ``bytes_max`` bounds what is read of it."""

    def __init__(self, folder: WorldFolder, kind: str, name: str, *, bytes_max: int) -> None:
        self.path = folder.path / NODE / kind / f"{name}.json"
        self._folder = folder
        self._kind = kind
        self._name = name
        self._bytes_max = bytes_max

    def load(self) -> dict[str, Any] | None:
        """Return the document; None if there is no file.

        Raises:
            ValueError: The file is not one of ours.
            OSError: It cannot be read.
        """
        try:
            with self._folder.open_plain() as world, world.inner(NODE) as node:
                document = json.loads(node.inner(self._kind).read(self.path.name, self._bytes_max))
        except FileNotFoundError:
            return None
        if not isinstance(document, dict) or document.get("version") != _FORMAT:
            raise ValueError("another format")
        return document

    def save(self, document: Mapping[str, Any]) -> None:
        """Replace the file. It is durable on return. Raises OSError."""
        with (
            self._folder.open_plain() as world,
            world.inner(NODE, make=True) as node,
            node.inner(self._kind, make=True) as folder,
        ):
            folder.put(self.path.name, json.dumps({"version": _FORMAT, **document}).encode())
