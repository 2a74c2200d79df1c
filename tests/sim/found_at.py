"""For each planted bug, a seed that finds it soon, so that most tests need one world.

A seed is a hint only: after a change of a script or a bug, the search tries all other seeds too.
``python -m tests.sim.mutants`` prints the first seed of each.
"""

from __future__ import annotations

from typing import Final

FOUND_AT: Final = {
    "a receipt goes to another cell": 5,
    "submissions are not remembered": 1,
    "the ring runs the newest first": 0,
    "a mailbox gives the newest first": 5,
    "what is settled stays open": 5,
    "effects are published before the commit": 1,
    "effects that are over are published": 5,
    "mail to a failed instance is dropped": 5,
    "the entry that failed is dropped": 6,
    "a revoked key signs on": 30,
    "anybody may sign": 12,
    "no signature is checked": 12,
    "a cell cancels another's effect": 25,
    "what may run once runs again": 0,
    "the journal clock goes back": 4,
    "timers fire early": 11,
    "requested keys are forgotten": 2,
    "a cascade does not get deeper": 6,
    "mailboxes have no bound": 12,
    "steps run before what is owed": 5,
    "a command is good twice": 6,
    "stream frames come in any order": 7,
    "what is in use is erased": 11,
    "every delivery has the same entropy": 4,
    "two requests are one intent": 5,
    "a busy cell runs until it is empty": 5,
    "the log holds no past": 1,
    "what nobody waits for stays open": 8,
    "a retry drops the mail behind": 11,
    "a manifest comes in at any time": 2,
    "the store hears of no settlement": 5,
    "a deleted cell comes back from the base": 28,
    "a retry does not make its cell dirty": 0,
    "a rebase drops what changed since": 1,
    "a cell that changed leaves memory for the base": 28,
    "a deleted cell is counted": 12,
    "a status that changes is counted wrongly": 7,
    "a chunk of the dedup window is lost": 11,
    "what was forgotten comes back with a rebase": 6,
    "the oldest chunk keeps what is forgotten": 15,
    "only the newest submissions are looked up": 5,
    "mails of one input do not share it": 12,
    "a snapshot sorts the ring": 5,
    "requested keys are not read back": 28,
    "what is spilled is nowhere": 0,
    "what is spilled is not read until it is durable": 21,
    "a snapshot lacks states": 6,
    "a snapshot forgets how fast a stream is": 7,
    "a snapshot forgets attempts of abandoned work": 21,
    "open work is read under another manifest": 46,
    "a snapshot has no row": 1,
    "an older snapshot is taken": 23,
    "a deletion is as old as the base": 33,
    "what is in flight takes any manifest": 25,
    "a pin forgets the manifests before": 25,
    "nobody is upgraded in place": 58,
    "a snapshot forgets who is pinned": 12,
}
"""Seeds for runs with the model, which predicts each record."""

FOUND_ALONE_AT: Final = {
    "a receipt goes to another cell": 5,
    "the ring runs the newest first": 4,
    "a mailbox gives the newest first": 2,
    "what is settled stays open": 11,
}
"""Seeds for runs with the checker alone, for the bugs that the short form of the test covers."""
