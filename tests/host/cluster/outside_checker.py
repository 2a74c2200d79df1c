"""A checker of a world that shares no code with the kernel: it reads the documents of the command
line, and the books that the effects wrote outside (spec/cluster.md, CL-184).

A line of the books is ``EFFECT WORD KEY``: the effect ran once for this word, under this key.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.cli.shell import run

ENDS: Final = ("seq", "frame", "log_root", "state_root")
"""Fields of the report of a replay: the head of a journal, and the root of its state."""


class BookLine(NamedTuple):
    """A run of an effect."""

    effect: str
    word: str
    key: str


def read_books(path: Path) -> list[BookLine]:
    """The runs, in their order."""
    return [BookLine(*line.split()) for line in path.read_text().splitlines()]


def documents(folder: Path) -> list[dict[str, Any]]:
    """The records of a node's journal, as ``aos inspect journal`` writes them."""
    shown = run("inspect", "journal", "--from", "1", "--json", "--world", folder)
    assert shown.code == 0, shown.err
    return [json.loads(line) for line in shown.out.splitlines()]


def replayed(folder: Path) -> dict[str, Any]:
    """The report of ``aos replay``, which executes each step again."""
    replay = run("replay", "--json", "--world", folder)
    assert replay.code == 0, replay.err
    return dict(replay.json)


def problems_of(
    records: Sequence[dict[str, Any]],
    books: Iterable[BookLine],
    acknowledged: Iterable[str],
    *,
    once: str,
) -> list[str]:
    """Each sentence is a promise that was broken; empty without any.

    Args:
        records: All records of a world that has nothing left to do.
        books: All runs of its effects.
        acknowledged: Submission ids of events that a client knows to be admitted.
        once: The effect that may run once.
    """
    problems = []
    admitted = Counter(record["submission_id"] for record in records if record["kind"] == "event")
    problems += [
        f"{name} was acknowledged and is lost" for name in acknowledged if not admitted[name]
    ]
    problems += [
        f"{name} was admitted {count} times" for name, count in admitted.items() if count > 1
    ]

    intents = {
        intent["intent"]: intent
        for record in records
        if record["kind"] == "step"
        for intent in record["intents"]
    }
    receipts = [record for record in records if record["kind"] in ("receipt", "kernel_receipt")]
    settled = Counter(record["intent"] for record in receipts)
    problems += [f"{key} settled {count} times" for key, count in settled.items() if count > 1]
    problems += [f"{key} is not settled" for key in intents if not settled[key]]

    problems += [
        f"{record['intent']} may run again, and was given up"
        for record in receipts
        if record["kind"] == "kernel_receipt" and intents[record["intent"]]["effect"] != once
    ]

    keys_by_word = defaultdict(set)
    runs: Counter[str] = Counter()
    for entry in books:
        runs[entry.key] += 1
        keys_by_word[entry.effect, entry.word].add(entry.key)
        intent = intents.get(entry.key)
        if intent is None:
            problems.append(f"{entry.key} ran, and no step asked for it")
        elif (intent["effect"], intent["params"]["word"]) != (entry.effect, entry.word):
            problems.append(f"{entry.key} ran for {entry.word}, and was asked for another one")
        if entry.effect == once and runs[entry.key] > 1:
            problems.append(f"{entry.word} may run once, and ran again")
    problems += [
        f"{effect} of {word} has {len(keys)} keys"
        for (effect, word), keys in keys_by_word.items()
        if len(keys) > 1
    ]
    problems += [
        f"{record['intent']} succeeded, and did not run"
        for record in receipts
        if record["status"] == "ok" and not runs[record["intent"]]
    ]
    return problems
