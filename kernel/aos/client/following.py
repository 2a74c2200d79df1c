"""Follow the journal of a world from any record, also while its process is down or restarts."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from pathlib import Path

from aos.audit.views.journal_view import RecordReader, selection
from aos.audit.views.record_view import Document
from aos.audit.views.view import View
from aos.client.current import POLL_S, key_words
from aos.errors import BadUsage, sentence
from aos.host.folder.reader import open_reader
from aos.store.store import Store


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
            last = _last(reader.store)
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


def _last(store: Store) -> int:
    head = store.head()
    assert head is not None, "a world has a genesis"
    return head.seq


def _ends_before(path: Path, after_seq: int, last: int) -> BadUsage:
    return BadUsage(
        sentence(
            "the journal ends before the record to continue after",
            location=str(path),
            expected=f"0 to {last}",
            actual=str(after_seq),
            hint="the world may have been restored from an older backup, which lost the records "
            f"after {last}",
        )
    )
