"""Resolve the caller's words to a workflow, a cell, an intent or a record (spec/audit.md, A-5 to
A-8)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.core.journal.records import CellId
from aos.core.state.state import State
from aos.errors import BadUsage
from aos.manifest.effective import Workflow
from aos.read.lens.ports import Journal
from aos.values.digests import Hash, hash_text
from aos.values.errors import ValueProblem
from aos.values.schema import parse_json

PREFIX_DIGITS_MIN: Final = 8
"""Shortest accepted prefix of an intent's hash, in hex digits. Shorter ones are often ambiguous."""

_HEX: Final = re.compile(r"(?:blake3:)?([0-9a-f]{8,64})")
_BYTES: Final = re.compile(r"(?:[0-9a-f]{2})+")
_NAMES_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class RecordTarget:
    """A record."""

    seq: int


@dataclass(frozen=True, slots=True)
class IntentTarget:
    """An intent, and its place among those that the record ``opened_seq`` opened."""

    intent: Hash
    opened_seq: int
    index: int


@dataclass(frozen=True, slots=True)
class CellTarget:
    """A cell."""

    cell: CellId


Target: TypeAlias = RecordTarget | IntentTarget | CellTarget


def find_target(state: State, journal: Journal, words: Sequence[str]) -> Target:
    """Read ``SEQ``, ``INTENT`` or ``WORKFLOW [KEY]``.

    Raises:
        BadUsage: The words name nothing in this world, or more than one thing.
    """
    if len(words) == 1:
        word = words[0]
        if word.isascii() and word.isdigit() and 1 <= int(word) < state.next_seq:
            return RecordTarget(int(word))
        if _HEX.fullmatch(word):
            return find_intent(state, journal, word)
        if word.isascii() and word.isdigit():
            raise BadUsage(
                "there is no such record",
                location=f"record {word}",
                expected=f"1 to {state.next_seq - 1}",
            )
    if len(words) in (1, 2):
        return CellTarget(find_cell(state, words[0], words[1] if len(words) == 2 else None))
    raise BadUsage("expected SEQ, INTENT or WORKFLOW KEY")


def workflow_names(state: State) -> list[str]:
    """Return the workflows of the manifest in force, and those of cells that an earlier manifest
    left."""
    names = set(state.manifest.workflows if state.manifest else ())
    return sorted(names | {name for name, shelf in state.cells.shelves.items() if shelf.count})


def find_workflow(state: State, word: str) -> str:
    """Find a workflow by its full name, or by the beginning or end of the name if only one workflow
    has it.

    For ``acme/order.step@1`` these match, from exact to loose: the name; the name without the
    version; the name without ``acme/``; any run of its dotted parts that begins or ends it
    (``order``, ``step``).

    Raises:
        BadUsage: No workflow matches, or several do.
    """
    names = workflow_names(state)
    return find_named("workflow", word, names, "this world has no manifest yet: aos apply PATH")


def find_effect(state: State, word: str, past_effects: Iterable[str]) -> str:
    """Find an effect by its name, with the rules of ``find_workflow``, among the effects of the
    manifest in force and those ``past_effects`` in the journal.

    Raises:
        BadUsage: No effect matches, or several do.
    """
    names = sorted({*(state.manifest.effects if state.manifest else ()), *past_effects})
    return find_named("effect", word, names, "the manifest in force has none")


def find_named(noun: str, word: str, names: Sequence[str], hint: str) -> str:
    """Find the only one of ``names`` that ``word`` spells; ``noun`` it is, and the ``hint`` if
    there are none, are for the message.

    Raises:
        BadUsage: None matches, or several do.
    """
    for spell in _SPELLINGS:
        matches = [name for name in names if word in spell(name)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise BadUsage(
                f"{word!r} is the name of several {noun}s",
                expected="one of " + ", ".join(matches[:_NAMES_SHOWN]),
            )
    raise BadUsage(
        f"no {noun} is called {word!r}",
        expected="one of " + names_text(names) if names else None,
        hint=None if names else hint,
    )


def _exact(name: str) -> set[str]:
    return {name}


def _nearly(name: str) -> set[str]:
    base = name.partition("@")[0]
    local = name.partition("/")[2]
    return {base, local, local.partition("@")[0]}


def _loosely(name: str) -> set[str]:
    parts = name.partition("/")[2].partition("@")[0].split(".")
    ends = range(1, len(parts))
    return {".".join(parts[:n]) for n in ends} | {".".join(parts[n:]) for n in ends}


_SPELLINGS: Final = (_exact, _nearly, _loosely)


def spells(word: str, name: str) -> bool:
    """Return whether ``word`` is a name or one of its parts, as ``find_workflow`` takes them."""
    return any(word in spell(name) for spell in _SPELLINGS)


def find_cell(state: State, workflow: str, key: str | None) -> CellId:
    """Return a cell's identity, without checking that the cell exists.

    Raises:
        BadUsage: The world has no such workflow, or the key does not have the workflow's form.
    """
    name = find_workflow(state, workflow)
    definition = state.manifest.workflows.get(name) if state.manifest else None
    if definition is None:
        return _old_cell(state, name, key)
    if (definition.key is None) != (key is None):
        raise BadUsage(
            f"{name} is keyed: expected the key of a cell after it"
            if key is None
            else f"{name} is not keyed: it has one cell, without a key",
            actual=None if key is None else repr(key),
        )
    return name, b"" if key is None else parse_key(definition, key)


def _old_cell(state: State, name: str, key: str | None) -> CellId:
    """Find a cell, by the bytes of its key, of a workflow that the manifest in force does not
    have."""
    if key is None or _BYTES.fullmatch(key):
        id = name, bytes.fromhex(key or "")
        if id in state.cells:
            return id
    raise BadUsage(
        f"{name} is not in the manifest in force, so that its keys cannot be read",
        expected="the canonical CBOR of a key in hex, as `aos inspect cells` shows it",
        actual="nothing" if key is None else repr(key),
    )


def parse_key(workflow: Workflow, text: str) -> bytes:
    """Return the canonical CBOR of a key given as JSON (``"ord-1"``, ``7``, ``{"a": 1}``) or as
    plain text.

    JSON is tried first: a text key that is itself a JSON text (``"x"`` with its quotes) must be
    quoted once more.

    Raises:
        BadUsage: The text is not a key of this workflow.
    """
    assert workflow.key is not None
    candidates: list[object] = [text]
    with contextlib.suppress(ValueProblem):
        candidates.insert(0, parse_json(text))
    problems: list[ValueProblem] = []
    for candidate in candidates:
        try:
            return workflow.key.encode(workflow.key.from_json_object(candidate))
        except ValueProblem as problem:
            problems.append(problem)
    raise BadUsage(
        str(problems[0]),
        location=f"key {text!r} of {workflow.name}",
        hint=f"a key is JSON of {workflow.key.name}, or its text",
    )


def find_intent(state: State, journal: Journal, word: str) -> IntentTarget:
    """Find an intent by its hash or a prefix of at least 8 hex digits. Open intents are searched
    first.

    Raises:
        BadUsage: No intent begins so, or several do, or the word is not a hash.
    """
    match = _HEX.fullmatch(word)
    if match is None:
        raise BadUsage(
            "not the hash of an intent",
            location=repr(word),
            expected=f"at least {PREFIX_DIGITS_MIN} lower-case hex digits",
        )
    digits = match[1]
    if len(digits) == 64:
        row = journal.intent(Hash(bytes.fromhex(digits)))
        if row is not None:
            return IntentTarget(Hash(bytes.fromhex(digits)), row.opened_seq, row.index)
    open_ones = [*state.intents.values(), *state.abandoned.values()]
    targets = [
        IntentTarget(intent.intent, intent.seq, intent.index)
        for intent in open_ones
        if intent.intent.hex().startswith(digits)
    ]
    if not targets:
        targets = [
            IntentTarget(hash, row.opened_seq, row.index)
            for hash, row in journal.intents()
            if hash.hex().startswith(digits)
        ]
    if len(targets) == 1:
        return targets[0]
    if not targets:
        raise BadUsage(f"no intent of this world begins with {digits}")
    raise BadUsage(
        f"{len(targets)} intents begin with {digits}",
        expected="one of " + names_text(hash_text(target.intent) for target in targets),
    )


def names_text(names: Iterable[str]) -> str:
    """Return the first few names, and how many more there are."""
    all_names = list(names)
    omitted = len(all_names) - _NAMES_SHOWN
    return ", ".join(all_names[:_NAMES_SHOWN]) + (f" and {omitted} more" if omitted > 0 else "")
