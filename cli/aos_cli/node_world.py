"""A world through its node: read as ``open_view`` reads that of a folder, written as
``open_writing`` writes (C-92).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from aos.client import Client
from aos.client.sending import SendAnswer
from aos.host.door.writer import Item
from aos.read.views.record_view import Document
from aos_cli.options import check_record_range, client_of

RECORDS: Final = 200
"""Most records of one request."""

ITEMS_MAX: Final = 256
"""Most events of one request."""

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Events of more bytes of JSON are sent in several requests."""

RETRY_S: Final = 2.0
"""Seconds for which a request is sent again, under the same submission ids."""


def records(
    node: str,
    *,
    first: int | None,
    last: int | None,
    limit: int | None,
    newest: int,
    follow: bool,
    kinds: tuple[str, ...] | None,
    workflow: str | None,
    key: str | None,
    is_spelled: bool,
) -> Iterator[Document]:
    """Yield the selected records that exist now, oldest first; with ``follow`` then each new one.

    Args:
        newest: Without ``first``, how many of the newest to yield.

    Raises:
        BadUsage: There are no such records, or no such kind or workflow.
    """
    selected = {"kind": kinds, "workflow": workflow, "key": key, "spelled": is_spelled or None}
    with client_of(node) as client:
        end = client.seq()
        check_record_range(first, last, end, follow=follow)
        last = end if last is None else min(last, end)
        if first is None:
            page = client.document("/v1/records", to=last, limit=newest, **selected)
            yield from page["records"]
        else:
            yield from _records_from(client, first, last, limit, selected)
        if follow:
            yield from client.follow(
                after=end, kinds=kinds, workflow=workflow, key=_key_value(key), spelled=is_spelled
            )


def _key_value(word: str | None) -> object:
    """The value of a key that is typed as JSON or as plain text."""
    try:
        return None if word is None else json.loads(word)
    except ValueError:
        return word


def _records_from(
    client: Client, first: int, last: int, limit: int | None, selected: Mapping[str, object]
) -> Iterator[Document]:
    remaining = limit
    following: int | None = first if first <= last else None
    while following is not None and (remaining is None or remaining > 0):
        page_limit = RECORDS if remaining is None else min(RECORDS, remaining)
        page = client.document(
            "/v1/records", **{"from": following}, to=last, limit=page_limit, **selected
        )
        yield from page["records"]
        remaining = None if remaining is None else remaining - len(page["records"])
        following = page["next"]


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
    with client_of(node) as client:
        yield NodeWriter(client)
