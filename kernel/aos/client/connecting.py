"""A service's connection to a world of this machine, which also follows its journal while the
world's process is down or restarts (spec/guides/integrate.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

from aos.client.current import POLL_S, CurrentState, Instance, key_words, reached
from aos.client.sending import SendAnswer, Sender
from aos.closable import Closable
from aos.errors import BadUsage
from aos.host.door.writer import Item
from aos.host.folder.folder import WorldFolder, open_folder
from aos.host.folder.reader import open_reader
from aos.read.views.journal_view import RecordReader, selection
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.store.store import Store

TIMEOUT_S: Final = 30.0


class WorldClient(Closable):
    """Sends events to one world and reads it. Made by ``connect``; used by one thread at a time,
    and in the process that made it: connect again after a fork.

    Events go through the socket of the process that runs the world. Everything else is read from
    the world's store, and works also while no process runs the world.
    """

    def __init__(self, folder: WorldFolder) -> None:
        self.folder = folder
        self._sender = Sender(folder)
        self._current = CurrentState(folder.path)

    def send(
        self, schema: str, value: object, *, id: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> SendAnswer:
        """Send one event and return the answer, which is durable.

        If no process runs the world, or the world is busy, the client tries again for ``timeout_s``
        seconds. With ``id``, the submission id of the event, it also sends the event again if the
        connection breaks before the answer: the world accepts it once.

        Args:
            value: A JSON value that fits the schema, or ingress CBOR as bytes.

        Raises:
            Unavailable: The world was not reachable for ``timeout_s`` seconds, or, for an event
                without ``id``, the connection broke: the event may have been accepted. One answer
                of a process that hangs may take 60 s longer.
            BadUsage, Damage: As ``connect``.
        """
        return self._sender.send(Item(schema=schema, value=value, submission_id=id), timeout_s)

    def instance(self, workflow: str, key: object = None) -> Instance | None:
        """Return an instance with its state; None if no event has reached it, or its module deleted
        it.

        Args:
            workflow: The name of the workflow, or a unique part of it, as for ``aos inspect cell``.
            key: The key as a JSON value; None if the workflow is not keyed.

        Raises:
            BadUsage: The world has no such workflow, or the key does not fit it.
            Damage, Unavailable: The world cannot be read.
        """
        return self._current.instance(workflow, key)

    def wait(
        self,
        workflow: str,
        key: object = None,
        *,
        until: str | Collection[str] | Callable[[Instance], bool] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Instance:
        """Wait for an instance and return it.

        Args:
            until: One status, several, or a function of the instance. By default the instance has
                ended: it is completed or failed, and has handled every event.

        Raises:
            WaitTimedOut: It did not get there within ``timeout_s`` seconds; the message gives the
                reasons.
            BadUsage, Damage, Unavailable: As ``instance``.
        """
        return self._current.wait(workflow, key, reached(until), timeout_s)

    def seq(self) -> int:
        """Return the last durable record. Raises as ``instance``."""
        return self._current.seq()

    def follow(
        self,
        *,
        after: int | None = None,
        kinds: Collection[str] | None = None,
        workflow: str | None = None,
        key: object = None,
        idle_s: float | None = None,
    ) -> Iterator[Document]:
        """Yield the records of the journal after record ``after``, oldest first, and then each new
        one when it is durable.

        A record is a map as in ``aos inspect journal --json``, with its ``seq``, ``kind`` and
        ``summary``. The iterator also works while the world's process is down or restarts. To
        continue in another process, store the last ``seq`` and pass it as ``after``.

        Args:
            after: 0 for the whole journal. By default only records from now on.
            kinds: Only records of these kinds, such as ``event``, ``step`` or ``receipt``.
            workflow: Only records that name an instance of this workflow; with ``key``, this one.
            idle_s: End after this many seconds without a record; by default never.

        Raises, on the first or a later record:
            BadUsage: There is no such kind or workflow, or the journal ends before ``after``.
            Pruned: The next record was moved to an archive.
            Damage, Unavailable: The world cannot be read.
        """
        return followed(
            self.folder.path,
            after_seq=self.seq() if after is None else after,
            kinds=kinds,
            workflow=workflow,
            key=key,
            idle_s=idle_s,
        )

    def close(self) -> None:
        """Close the connection and the store."""
        self._sender.close()
        self._current.close()


def connect(world: Path | str) -> WorldClient:
    """Open the world in the folder ``world`` for a service. No process need run it yet.

    Raises:
        BadUsage: There is no world in this folder.
        Refused: A newer release created it.
        Damage, Unavailable: Its ``world.json`` is invalid or cannot be read.
    """
    return WorldClient(open_folder(Path(world)))


def followed(
    path: Path,
    *,
    after_seq: int,
    kinds: Collection[str] | None,
    workflow: str | None,
    key: object,
    idle_s: float | None,
) -> Iterator[Document]:
    """Yield records; see ``WorldClient.follow``. It has a reader of its own, so that the caller may
    read instances meanwhile."""
    with open_reader(path) as reader:
        view = View(reader.state, reader.store)
        selected = selection(
            view,
            kinds=None if kinds is None else tuple(kinds),
            workflow=workflow,
            key=key_words(key),
        )
        # It takes each manifest that it meets, so the state need not be folded any further.
        records = RecordReader(view.journal, view.full_lens)
        heard_s = time.monotonic()
        while True:
            last = _last_seq(reader.store)
            if last < after_seq:
                raise _ends_before(path, after_seq, last)
            for document in (
                records.forward(after_seq + 1, last, selection=selected) if after_seq < last else ()
            ):
                yield document
                heard_s = time.monotonic()
            after_seq = last
            if idle_s is not None and time.monotonic() - heard_s >= idle_s:
                return
            time.sleep(POLL_S)


def _last_seq(store: Store) -> int:
    head = store.head()
    assert head is not None, "a world has a genesis"
    return head.seq


def _ends_before(path: Path, after_seq: int, last: int) -> BadUsage:
    return BadUsage(
        "the journal ends before the record to continue after",
        location=str(path),
        expected=f"0 to {last}",
        actual=str(after_seq),
        hint="the world may have been restored from an older backup, which lost the records "
        f"after {last}",
    )
