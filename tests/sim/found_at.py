"""For each planted bug, a seed that finds it soon, so that most tests need one world.

A seed is a hint only: after a change of a script or a bug, the search tries all other seeds too.
``python -m tests.sim.mutants`` prints the first seed of each.
"""

from __future__ import annotations

from typing import Final

FOUND_AT: Final = {
    "a receipt goes to another cell": 2,
    "submissions are not remembered": 1,
    "the ring runs the newest first": 2,
    "a mailbox gives the newest first": 2,
    "a settled intent stays open": 2,
    "effects are published before the commit": 1,
    "settled effects are published": 2,
    "mail to a failed instance is dropped": 2,
    "the entry that failed is dropped": 2,
    "a revoked key may still sign": 79,
    "any executor may sign": 21,
    "no signature is checked": 12,
    "a cell cancels another's effect": 114,
    "an at-most-once effect runs again": 2,
    "the journal clock goes back": 4,
    "timers fire early": 11,
    "requested keys are forgotten": 2,
    "a cascade does not get deeper": 2,
    "mailboxes have no bound": 12,
    "steps run before due receipts": 2,
    "a command is admitted twice": 8,
    "stream frames come in any order": 34,
    "a value in use is erased": 11,
    "every delivery has the same entropy": 2,
    "two requests share one intent": 2,
    "a busy cell runs until it is empty": 2,
    "the log holds no past": 1,
    "an abandoned intent stays open": 14,
    "a retry drops the mail after the entry": 11,
    "a manifest comes in at any time": 12,
    "the store misses a settlement": 7,
    "a deleted cell comes back from the base": 11,
    "a retry does not make its cell dirty": 37,
    "a rebase drops changes since the snapshot": 11,
    "a cell that changed leaves memory for the base": 28,
    "a deleted cell is counted": 11,
    "a status that changes is counted wrongly": 8,
    "a chunk of the dedup window is lost": 22,
    "a rebase restores forgotten submissions": 12,
    "the oldest chunk keeps forgotten submissions": 12,
    "only the newest submissions are looked up": 5,
    "mails of one input do not share it": 11,
    "a snapshot sorts the ring": 22,
    "requested keys are not read back": 8,
    "a spilled value is lost": 8,
    "a spilled value is read before it is durable": 8,
    "a snapshot lacks states": 11,
    "a snapshot forgets how fast a stream is": 153,
    "a snapshot forgets attempts of abandoned work": 21,
    "a snapshot forgets why effects do not run": 60,
    "open work is read under another manifest": 79,
    "a snapshot has no row": 1,
    "an older snapshot is taken": 23,
    "a deletion is as old as the base": 21,
    "every event creates its instance": 0,
    "a module gets states and events without new fields": 20,
    "a module gets null for new fields that its schema lacks": 20,
    "an event is refused for new fields that are null": 20,
    "an instance in flight is never pinned": 11,
    "a finished instance runs under a manifest that its state does not fit": 207,
    "a pin forgets earlier manifests": 11,
    "no workflow is upgraded in place": 58,
    "a snapshot forgets pinned instances": 58,
    "any settlement fits its effect": 38,
    "a settlement has the other status": 11,
    "an ended instance keeps its turn": 8,
    "an ended instance keeps its fault": 11,
}
"""Seeds for runs with the model, which predicts each record."""

FOUND_ALONE_AT: Final = {
    "a receipt goes to another cell": 2,
    "the ring runs the newest first": 2,
    "a mailbox gives the newest first": 2,
    "a settled intent stays open": 11,
}
"""Seeds for runs with the checker alone, for the bugs that the short form of the test covers."""
