"""A world in which every text that others write is hostile.

A page that ran one of the texts, or printed it unescaped, would set ``window.ran``, open a dialog,
break its policy or send a request to another origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from aos.core.decide.answers import Admitted, Answer
from aos.core.journal.faults import FaultKind
from aos.core.journal.governing import APPROVE, WITHDRAW
from aos.core.journal.inputs import END, HELD, REMOVE, SETTLE, AttemptInput, StartInput
from aos.core.journal.records import Faulted
from aos.manifest.load import Loaded
from aos.values.cbor import Value, encode
from tests.core.governed import act, block, proposal_input
from tests.host.on_disk import folder_of
from tests.memory_world import (
    Envelope,
    MemoryWorld,
    Trap,
    air,
    ask,
    cbor,
    effect,
    event_of,
    route,
    schema,
    wasm,
    workflow,
)

TEXTS: Final = (
    "<script>window.ran=1;alert(1)</script>",
    '"><img src=x onerror="window.ran=1;alert(1)">',
    "' onmouseover='window.ran=1' autofocus onfocus='alert(1)",
    "javascript:window.ran=1;alert(1)//",
    "{{ 7 * 7 }}{% if 1 %}{# x #}${7*7}",
    "]]>&lt;b&gt;&#x3c;<!-- --!><svg onload=alert(1)>",
    "</textarea></title></style></script><img src=http://other.example/x>",
    "\u202egnp.exe\u2066",
    "bell\x07esc\x1b[31mnul\x00end",
    "../../etc/passwd?a=1&b=2#c",
    "line\nbreak\ttab",
    "//other.example/x",
)
"""Texts of at most 128 bytes."""

FEW: Final = (
    "<script>window.ran=1;alert(1)</script>\"><img src=//other.example onerror='alert(1)'>",
    "javascript:alert(1)//</textarea></title>{{7*7}}' onfocus='alert(1)' \u202e\x07\x00&lt;",
)
"""The same in two texts, where a browser looks at every page."""

LARGE: Final = "<b>" * 345_000
"""A text of 1 MB without a space."""

LEVELS: Final = 54
"""Levels of the deepest value, besides those around it."""

_TEXT: Final[dict[str, Any]] = {"text": {}}
_WORDS: Final[dict[str, Any]] = {"map": {"key": _TEXT, "value": _TEXT}}
WILD, WORK, ONCE = "t/wild@1", "t/work@1", "t/once@1"


def _deep(levels: int) -> dict[str, Any]:
    return {"list": _deep(levels - 1)} if levels else _TEXT


def _manifest(version: int = 1) -> Loaded:
    """Names of fields and of arms are hostile, too. A version differs in a field's name."""
    arms = dict.fromkeys(TEXTS[:6], _WORDS)
    told = {"key": _TEXT, "do": _TEXT, "words": _WORDS, "deep": {"option": _deep(LEVELS)}}
    fields = {text: {"option": _TEXT} for text in TEXTS[:6]}
    said = {"variant": {"Receipt": {"ref": "sys/EffectReceiptEnvelope@1"}}}
    said["variant"] |= {"Told": {"ref": "t/Told@1"}, "Frame": {"ref": "sys/EffectStreamFrame@1"}}
    own = [
        schema("t/Told@1", {"record": told}),
        schema("t/Key@1", _TEXT),
        schema("t/State@1", {"record": {"words": _WORDS, **fields, f"v{version}": _TEXT}}),
        schema("t/Note@1", {"variant": {**arms, "Lines": {"record": {"lines": {"list": _TEXT}}}}}),
        schema("t/Lines@1", {"record": {"lines": {"list": _TEXT}}}),
        schema("t/Words@1", {"record": {"words": _WORDS}}),
        schema("t/Event@1", said),
        effect(WORK, "t/Words@1", "t/Words@1"),
        effect(ONCE, "t/Words@1", "t/Words@1", delivery="at_most_once"),
        workflow(
            WILD, state="t/State@1", event="t/Event@1", key_schema="t/Key@1",
            effects=[WORK, ONCE], annotations="t/Note@1",
        ),
    ]  # fmt: skip
    people = block("ann", "bob", quorum=2)
    return air(own, [route("t/Told@1", WILD, "key")], version=version, governance=people)


def wild(envelope: Envelope) -> Any:
    """Obeys the word ``do`` of its event; each text comes back wherever a module may write."""
    event = event_of(envelope)
    told = event["$value"]
    if event["$tag"] != "Told":
        return _output({"from": event["$tag"]}, note={"lines": [event["$tag"]]})
    words = told["words"]
    text = next(iter(words))
    match told["do"]:
        case "fault":
            return {"fault": {"kind": text, "message": text, "detail": encode(text)}}
        case "trap":
            raise Trap(FaultKind.TRAP, text)
        case "misfit":
            return {"state": encode({text: 1}), "status": text}
        case "unknown":
            return _output(words, effects=[ask(text, {"words": words})])
        case "log":
            return _output(words, note={"lines": [text, *TEXTS]})
    asked = [
        ask(name, {"words": words}, issuer_ref=text, idempotency_key=f"{name} {text}")
        for name in (WORK, ONCE)
    ]
    return _output(words, note=words, effects=asked if told["do"] == "ask" else [])


def _output(words: Any, *, note: Any = None, effects: list[Envelope] | None = None) -> Envelope:
    text = next(iter(words))
    fields: Any = {name: text if name == text else None for name in TEXTS[:6]}
    state: Any = {"words": words, **fields, "v1": "1"}
    arm = "Lines" if note and "lines" in note else next((t for t in TEXTS[:6] if t == text), None)
    found: Envelope = {"state": encode(state), "effects": effects or []}
    if note is not None and arm is not None:
        found["ann"] = encode({"$tag": arm, "$value": note})
    return found


def hostile_world(path: Path, texts: Sequence[str] = TEXTS, *, lives: int = len(TEXTS)) -> Path:
    """Write the world with some of the texts into the folder ``path``, which is new. Only the first
    ``lives`` of the texts have cells that end in every way."""
    world = MemoryWorld(_manifest(), {WILD: wild})
    for text in texts[:lives]:
        _live(world, text)
    for text in texts[lives:]:
        _tell(world, text, "ask", {text: text})
    _tell(world, "large", "keep", {"large": LARGE, LARGE[:9_000]: "name"})
    _tell(world, "deep", "keep", {"deep": "deep"}, deep=_nested(LEVELS))
    _tell(world, "k" * 1_020, "ask", {"k": "a key of 1,024 bytes"})
    world.run()
    for version in (1, 2):
        world.put(wasm(WILD, version))
    host = (("executor", TEXTS[0]), (TEXTS[1], TEXTS[2]))
    _admitted(world.kernel.admit(StartInput(host=host), world.stamp()))
    _govern(world, texts)
    world.run()
    faults = [each for each in world.records() if isinstance(each, Faulted)]
    notes = {each.seq: texts[i % len(texts)] for i, each in enumerate(faults)}
    return folder_of(world, path, notes=notes)


def _live(world: MemoryWorld, text: str) -> None:
    """The life of cells whose every word is ``text``."""
    words: Any = {text: text}
    _tell(world, text, "ask", words, submission_id=text)
    for what in ("fault", "trap", "misfit", "unknown", "log"):
        _tell(world, f"{what} {text}", what, words)
    world.run()
    [work, once] = [each for each in world.open() if each.issuer_ref == text]
    for number in (1, 2):
        _admitted(world.stream(once, number, frame_kind="progress", payload=cbor(words)))
    _admitted(world.settle(work, {"words": words}))
    world.run()
    # Others, that end in each other way.
    for way in ("error", "held", "settled", "ended", "removed", "refused"):
        key = f"{way} {text}"
        _tell(world, key, "ask", words)
        world.run()
        open_ones = [each for each in world.open() if each.cell == (WILD, encode(key))]
        _end(world, way, text, open_ones)
    world.run()


def _end(world: MemoryWorld, way: str, text: str, found: list[Any]) -> None:
    cell = found[0].cell
    match way:
        case "error":
            error: Value = {"code": text, "message": text, "retryable": False}
            _admitted(world.settle(found[0], error, status="error"))
            _admitted(world.settle(found[1], error, status="timeout"))
        case "held":
            held = AttemptInput(
                intent=found[0].intent, attempt=1, phase=HELD, code=text, problem=text
            )
            _admitted(world.kernel.admit(held, world.stamp()))
        case "settled":
            payload = encode({"words": {text: text}})
            _admitted(world.control(SETTLE, intent=found[0].intent, status="ok", payload=payload))
        case "ended":
            _admitted(world.control(END, cell=cell, status="failed", why=text))
        case "removed":
            _admitted(world.control(REMOVE, cell=cell, why=text))
        case "refused":
            world.settle(found[0], {text: text})


def _tell(
    world: MemoryWorld, key: str, do: str, words: Any, *, deep: Any = None,
    submission_id: str | None = None,
) -> None:  # fmt: skip
    value: Any = {"key": key, "do": do, "words": words, "deep": deep}
    _admitted(world.send("t/Told@1", value, submission_id))


def _govern(world: MemoryWorld, texts: Sequence[str]) -> None:
    """Proposals, votes and withdrawals with notes."""
    new = _manifest(2)
    for i, text in enumerate(texts):
        given = proposal_input(world, new, note=text)
        answer = world.kernel.admit(given, world.stamp())
        _admitted(answer)
        assert isinstance(answer, Admitted)
        if i % 2:
            _admitted(act(world, WITHDRAW, answer.seq, by="operator", note=text))
        else:
            _admitted(act(world, APPROVE, answer.seq, by="ann", note=text))


def _nested(levels: int) -> Any:
    return [_nested(levels - 1)] if levels else TEXTS[0]


def _admitted(answer: Answer) -> None:
    assert isinstance(answer, Admitted), answer
