"""Cancel a flow that a fault has stopped (spec/cli.md, C-72a).

Cancel is sent as any other, and waits behind the entry that failed. That entry is skipped by a
signed command, and so is each entry after it that fails too, until Cancel runs. A
skipped receipt never reaches the flow: if it reported that a step succeeded, no compensation undoes
that step. The skipped entries are listed for this reason.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aos.audit.views.cell_view import mail_document
from aos.audit.views.view import View
from aos.core.decide.answers import Refusal, Rule
from aos.core.journal.inputs import RETRY, SKIP
from aos.core.journal.records import CellId, EntryId
from aos.core.state.cell import Cell, EventMail, Mail, ReceiptMail
from aos.flow.paths import IssuerRef
from aos.host.door.way import PAUSE_S
from aos.host.door.writer import Writer
from aos.host.folder.reader import WorldReader, open_reader
from aos_cli.flow_naming import admitted

CANCEL_S: Final = 10.0
"""Seconds that the process which runs the world may take to reach the cancellation, or the next
entry that fails."""

Document = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Skipping:
    """The skipped entries, and the records of the commands. ``is_over`` says that Cancel has
    run; ``is_run``, that a process runs the world."""

    skipped: list[Document] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    is_over: bool = False
    is_run: bool = True

    @property
    def effects(self) -> list[Document]:
        """The skipped receipts of effects that succeeded: what they did stays done."""
        return [
            entry
            for entry in self.skipped
            if entry["kind"] == "receipt" and entry["status"] == "ok" and entry["role"] is None
        ]


def skip_to_cancel(world: Path, writer: Writer, id: CellId, cancel: EntryId) -> Skipping:
    """Skip each entry that the instance fails on before ``cancel``. Without a process that runs the
    world no step runs, so only the first one is skipped.

    Raises:
        Refused, Unavailable: As for any other command. Entries that were skipped before stay
        skipped.
    """
    skipping = Skipping()
    with open_reader(world) as reader:
        while (cell := _stopped(reader, id, cancel)) is not None:
            assert cell.fault is not None
            head = _head(View(reader.state, reader.store), cell.mailbox[0])
            action = SKIP if cell.fault.by_entry else RETRY
            answer = writer.control(action, cell=id)
            if isinstance(answer, Refusal) and answer.rule is Rule.CELL_HAS_NOT_FAILED:
                continue
            skipping.seqs.append(admitted(answer).seq)
            if action == SKIP:
                skipping.skipped.append(head)
            if writer.is_direct:
                skipping.is_run = False
                return skipping
        skipping.is_over = _is_taken(reader, id, cancel)
    return skipping


def _stopped(reader: WorldReader, id: CellId, cancel: EntryId) -> Cell | None:
    """Wait until the instance has run ``cancel``, or stops before it; return it in that case."""
    deadline = time.monotonic() + CANCEL_S
    while time.monotonic() < deadline:
        reader.refresh()
        if _is_taken(reader, id, cancel):
            return None
        cell = reader.state.cells[id]
        if cell.fault is not None:
            return cell
        time.sleep(PAUSE_S)
    return None


def _is_taken(reader: WorldReader, id: CellId, entry: EntryId) -> bool:
    cell = reader.state.cells.get(id)
    return cell is None or all(mail.entry != entry for mail in cell.mailbox)


def _head(view: View, mail: Mail) -> Document:
    """Describe the entry that failed: with the path of its operation, and, of a receipt, what it
    reported, because no step of the flow will ever see it."""
    document = {**mail_document(view, mail), "path": None, "role": None}
    ref = None if isinstance(mail, EventMail) else IssuerRef.read(mail.intent.issuer_ref)
    if ref is not None:
        document |= {"path": ref.path, "role": ref.role}
    if isinstance(mail, ReceiptMail):
        document["payload"] = view.lens.payload(mail.receipt)
    return document
