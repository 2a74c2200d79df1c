"""Send events to a node, as ``open_writing`` sends them to the world of a folder (C-92)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from aos.client import Client
from aos.client.sending import SendAnswer
from aos.host.door.writer import Item
from aos_cli.node_option import node_token

ITEMS_MAX: Final = 256
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Events of more bytes of JSON are sent in several requests."""

RETRY_S: Final = 2.0
"""Seconds for which a request is sent again, under the same submission ids."""


class NodeWriter:
    """The part of a writer that ``aos send`` uses."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def send(self, items: Iterable[Item], *, batch_items: int = ITEMS_MAX) -> Iterator[SendAnswer]:
        """Yield the answer to each event, in order. Raises as ``Client``."""
        chunk: list[Item] = []
        size = 0
        for item in items:
            bytes_ = len(json.dumps(item.value, ensure_ascii=False).encode())
            if chunk and (len(chunk) == batch_items or size + bytes_ > CHUNK_BYTES):
                yield from self._send(chunk)
                chunk, size = [], 0
            chunk.append(item)
            size += bytes_
        if chunk:
            yield from self._send(chunk)

    def _send(self, items: list[Item]) -> list[SendAnswer]:
        return self._client.send_batch(items, timeout_s=RETRY_S)


@contextmanager
def writing_to_node(node: str) -> Iterator[NodeWriter]:
    """Connect to a node for the block."""
    with Client(node, token=node_token()) as client:
        yield NodeWriter(client)
