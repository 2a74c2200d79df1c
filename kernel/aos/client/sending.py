"""Send events through the socket of the process that runs a world, also while it restarts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.core.decide.answers import Admitted, Duplicate, Refusal
from aos.core.journal.records import CellId
from aos.errors import Unavailable
from aos.host.door.remote import NotSent, connect
from aos.host.door.writer import Item, Writer
from aos.host.errors import Busy
from aos.host.folder.folder import WorldFolder
from aos.manifest.effective import Effective
from aos.read.lens.words import as_json
from aos.shell_text import shell_word

RETRY_S: Final = 0.1
"""Seconds between two tries to reach the world."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The event is in the journal, durable, as record ``seq``.

    ``to`` are the instances that it reached, each as workflow and key; the key is None if the
    workflow is not keyed. ``to`` is empty if no workflow subscribes to the event. ``ended``
    are the flows among them that had ended, which ignore the event.
    """

    seq: int
    to: tuple[tuple[str, object], ...]
    ended: tuple[tuple[str, object], ...] = ()


SendAnswer: TypeAlias = Accepted | Duplicate | Refusal
"""``Duplicate``: the event was accepted before under the same id, as record ``seq``. ``Refusal``: a
rule declines the event, and nothing has changed; ``rule`` names it, ``message`` explains it."""


class Sender:
    """Sends events to one world. It never takes the world's lock: if no process runs the world, it
    waits until one does."""

    def __init__(self, folder: WorldFolder) -> None:
        self._folder = folder
        self._writer: Writer | None = None

    def send(self, item: Item, timeout_s: float) -> SendAnswer:
        """Send one event; see ``WorldClient.send``."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                writer = self._connected()
            except Unavailable:
                self.close()
                if time.monotonic() >= deadline:
                    raise
            else:
                try:
                    return self._sent(writer, item)
                except Unavailable as problem:
                    self.close()
                    # The world may have taken the event, and only its id makes a second one safe.
                    is_safe = item.submission_id is not None or isinstance(problem, Busy | NotSent)
                    if not is_safe or time.monotonic() >= deadline:
                        raise
            time.sleep(RETRY_S)

    def _connected(self) -> Writer:
        """Raises: Unavailable: No process runs the world, or it does not answer. No event was
        sent."""
        if self._writer is None:
            remote = connect(self._folder, 0.0)
            if remote is None:
                raise Unavailable(
                    "no process runs this world",
                    location=str(self._folder.path),
                    hint=f"start one: aos run --world {shell_word(self._folder.path)}",
                )
            self._writer = Writer(self._folder, remote, is_direct=False)
            self._writer.signed_state()  # values are encoded by the schemas of its manifest
        return self._writer

    def _sent(self, writer: Writer, item: Item) -> SendAnswer:
        [answer] = writer.send([item], batch_items=1)
        if not isinstance(answer, Admitted):
            return answer
        manifest = writer.in_force
        return Accepted(
            seq=answer.seq,
            to=tuple(_name_and_key(cell, manifest) for cell in answer.to),
            ended=tuple(_name_and_key(cell, manifest) for cell in answer.ended),
        )

    def close(self) -> None:
        """Close the connection. The next ``send`` makes a new one."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _name_and_key(cell: CellId, manifest: Effective | None) -> tuple[str, object]:
    name, key = cell
    workflow = manifest.workflows.get(name) if manifest else None
    return name, as_json(workflow.key if workflow else None, key) if key else None
