"""Check a world by its exported journal and its workers' own books, without code of the node."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

ONCE: Final = "host/once@1"


@dataclass(frozen=True)
class BookLine:
    word: str
    effect: str
    intent: str
    attempt: int
    pid: int
    at_ns: int

    @classmethod
    def read(cls, line: str) -> BookLine:
        word, effect, intent, attempt, pid, at_ns = line.split()
        return cls(word, effect, intent, int(attempt), int(pid), int(at_ns))


def check(
    exported: Iterable[str],
    book: Sequence[BookLine],
    acknowledged: Mapping[str, int],
    killed: Mapping[int, int],
) -> None:
    """``exported`` are the lines of ``aos inspect journal --json``, ``acknowledged`` is the record
    of each submission id, and ``killed`` is when each worker was killed."""
    journal = [json.loads(line) for line in exported]
    _check_events(journal, acknowledged)
    settled = _check_settled(journal)
    _check_attempts(journal, settled)
    _check_book(book, settled)
    _check_overlaps(book, killed)


def _of(journal: Sequence[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [each for each in journal if each["kind"] in kinds]


def _check_events(journal: Sequence[dict[str, Any]], acknowledged: Mapping[str, int]) -> None:
    events = [(each["submission_id"], each["seq"]) for each in _of(journal, "event")]
    assert sorted(events) == sorted(acknowledged.items()), "each acknowledged event, once"


def _check_settled(journal: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the settling record of each intent."""
    opened = [each["intent"] for step in _of(journal, "step") for each in step["intents"]]
    settling = _of(journal, "receipt", "kernel_receipt")
    assert Counter(each["intent"] for each in settling) == Counter(opened), "each settled, once"
    return {each["intent"]: each for each in settling}


def _check_attempts(
    journal: Sequence[dict[str, Any]], settled: Mapping[str, dict[str, Any]]
) -> None:
    last: dict[str, int] = {}
    lost = set()
    for each in _of(journal, "attempt"):
        intent, attempt = each["intent"], each["attempt"]
        assert each["seq"] < settled[intent]["seq"], "no attempt begins after the end"
        if each["phase"] == "lost":
            assert settled[intent]["effect"] == ONCE
            lost.add(intent)
            continue
        assert each["phase"] == "begun"
        assert attempt == last.get(intent, 0 if settled[intent]["effect"] == ONCE else 1) + 1
        last[intent] = attempt
    for intent, each in settled.items():
        if each["kind"] == "receipt":
            assert each["status"] == "ok"
            assert each["attempt"] == last.get(intent, 1), "the last attempt settles"
    by_kernel = {intent for intent, each in settled.items() if each["kind"] == "kernel_receipt"}
    assert by_kernel == lost, "the kernel settles a lost attempt, and nothing else"


def _check_book(book: Sequence[BookLine], settled: Mapping[str, dict[str, Any]]) -> None:
    begun = Counter((each.intent, each.attempt) for each in book if each.word == "begin")
    twice = [each for each in book if begun[each.intent, each.attempt] > 1]
    assert not twice, "no attempt was given to two workers"
    once = Counter(each.intent for each in book if (each.word, each.effect) == ("begin", ONCE))
    assert set(once.values()) <= {1}, "it ran once at most"
    ended = {(each.intent, each.attempt) for each in book if each.word == "end"}
    for intent, each in settled.items():
        if each["kind"] == "receipt":
            assert (intent, each["attempt"]) in ended, "a receipt is of work that was done"


def _check_overlaps(book: Sequence[BookLine], killed: Mapping[int, int]) -> None:
    ends = {(each.intent, each.attempt): each.at_ns for each in book if each.word == "end"}
    spans = defaultdict(list)
    for each in book:
        if each.word == "begin":
            end_ns = ends.get((each.intent, each.attempt))
            if end_ns is None:
                assert each.pid in killed, "only a killed worker ends nothing"
                end_ns = max(each.at_ns, killed[each.pid])
            spans[each.intent].append((each.attempt, each.at_ns, end_ns))
    for found in spans.values():
        found.sort()
        for (_, _, end_ns), (_, next_ns, _) in pairwise(found):
            assert end_ns <= next_ns, "two workers had a task at the same time"
