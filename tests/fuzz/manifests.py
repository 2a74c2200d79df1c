"""AIR documents and effective manifests (spec/manifest.md)."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from aos.errors import Damage
from aos.manifest.difference import difference
from aos.manifest.judging import judge
from aos.manifest.load import Loaded, ManifestProblems, load, needed_files
from tests.core.desk import ARMS
from tests.core.desk import nodes as desk_nodes
from tests.fuzz.source import Source
from tests.manifest import example
from tests.memory_world import air, route

RUNS: Final = 30
SECONDS: Final = 5.0
"""For one input of at most 64 KiB, on a busy machine. Usual is a few milliseconds."""

WORDS: Final[tuple[Any, ...]] = (
    None, True, 0, -1, 1, 2**53, 2**64, 1.5, "", "x", "1m30s", [], {}, [[]],
    {"ref": "acme/OrderId@1"},
    {"option": {"option": {"unit": {}}}}, {"list": {"ref": "acme/OrderEvent@1"}}, {"record": {}},
    {"variant": {}}, {"map": {"key": {"bool": {}}, "value": {"text": {}}}}, {"set": {"unit": {}}},
    "acme/OrderId@1", "acme/order.step@1", "acme/charge@1", "acme/orders@1", "sys/timer.set@1",
    "acme/nope@1", "acme/Placed@2", "sys/http.request@1", "sys/EffectReceiptEnvelope@1", "wasm",
    "blake3:" + "0" * 64, "sha256:" + "0" * 64, "ed25519:" + "0" * 64, "agentos", "explicit",
    "at_most_once", "world", "../../../etc/passwd", "a" * 5000, "\u202e", "\x00", "env:HOME",
)  # fmt: skip
KEYS: Final = (
    "$kind", "name", "type", "hash", "path", "limits", "plans", "governance", "upgrade", "$comment",
    "key_field", "op", "workflow", "event", "executors", "secrets", "routing", "retry", "lane",
    "delivery", "idempotency_scope", "timeout_ms", "migrate", "schedules", "", "constructor",
)  # fmt: skip
TOKENS: Final = (
    *(json.dumps(word).encode() for word in (*KEYS, "defschema", "manifest")),
    b"{", b"}", b"[", b"]", b":", b",", b'"', b"1e400", b"\\ud800", b"\xef\xbb\xbf", b"NaN",
)  # fmt: skip


def target(data: bytes) -> None:
    """A manifest is loaded or has problems, a document is effective or Damage; both soon."""
    began = time.process_time()
    kind, rest = data[:1], data[1:]
    if kind == b"E":
        _effective(rest)
    else:
        _load({"air/all.air.json": rest} if kind == b"T" else _edited(Source(rest)))
    assert time.process_time() - began < SECONDS


def _load(files: dict[str, bytes]) -> None:
    given = {**files, **example.ARTIFACTS}
    for path in needed_files(given):
        assert path
        assert path not in given
    try:
        loaded = load(given)
    except ManifestProblems as problems:
        _is_well_said(problems, given)
        return
    again = judge(loaded.effective.document)
    assert again.hash == loaded.effective.hash
    assert again.document == loaded.effective.document
    assert difference(again, loaded.effective).is_empty
    difference(_good().effective, loaded.effective)


def _is_well_said(problems: ManifestProblems, given: Mapping[str, bytes]) -> None:
    assert problems.problems
    assert all(each.message for each in problems.problems)
    assert {each.file for each in problems.problems} <= {"", *given}
    assert str(problems).encode()


def _effective(document: bytes) -> None:
    try:
        effective = judge(document)
    except Damage:
        return
    assert effective.document == document
    for name in effective.schemas:
        assert effective.schemas[name].name == name


@cache
def _good() -> Loaded:
    return example.loaded()


def _edited(source: Source) -> dict[str, bytes]:
    """The good manifest after a few changes, one for each three bytes or so."""
    documents: Any = copy.deepcopy(example.GOOD)
    for _ in range(8):
        if source.is_used_up:
            break
        _edit(source, documents)
    return {file: json.dumps(document).encode() for file, document in documents.items()}


def _edit(source: Source, documents: Any) -> None:
    file = source.choice(sorted(documents))
    holder, key = documents, file
    for _ in range(source.byte() % 12):
        found = holder[key]
        if not isinstance(found, dict | list) or not found:
            break
        places = list(found) if isinstance(found, dict) else list(range(len(found)))
        holder, key = found, source.choice(places)
    match source.byte() % 6:
        case 0:
            holder[key] = copy.deepcopy(source.choice(WORDS))
        case 1 if isinstance(holder, dict) and holder is not documents:
            holder[source.choice(KEYS)] = copy.deepcopy(source.choice(WORDS))
        case 2 if holder is not documents:
            del holder[key]
        case 3 if isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        case 4 if isinstance(holder, dict) and holder is not documents:
            holder[source.choice(KEYS)] = holder.pop(key)
        case _:
            holder[key] = copy.deepcopy(documents[source.choice(sorted(documents))])


def seeds() -> Iterator[bytes]:
    nodes: list[Any] = []
    for document in example.GOOD.values():
        nodes += document if isinstance(document, list) else [document]
    yield b"T" + json.dumps(nodes).encode()
    yield b"T" + json.dumps(nodes[-1]).encode()
    yield b"T[]"
    desk = air(desk_nodes(ARMS), [route("t/Tell@1", "t/desk@1", "key")])
    for loaded in (_good(), desk):
        yield b"E" + loaded.effective.document
    for number in range(60):
        yield bytes([0, *(number * step % 251 for step in (3, 7, 11, 17, 29, 31, 5, 13, 2, 19))])
