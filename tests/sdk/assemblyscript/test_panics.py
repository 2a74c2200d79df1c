"""The message of a module whose assertion fails (SA-4a)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from aos.author.assemblyscript import ASC_OPTIONS
from aos.core.decide.envelope import input_envelope
from aos.core.journal.faults import FaultKind
from aos.sandbox.inspect import check_module
from aos.values.cbor import encode
from tests.memory_world import schema, workflow
from tests.sdk.assemblyscript.asc import Guest, compile_wasm, fast, guest_source
from tests.tools import long_form

TEXT: Final[dict[str, object]] = {"text": {}}
NODES: Final = [
    schema("t/Try@1", {"record": {"what": TEXT}}),
    schema("t/Either@1", {"variant": {"Left": {"nat": {}}, "Right": {"nat": {}}}}),
    workflow("t/try@1", state="t/Try@1", event="t/Try@1"),
]
SOURCE: Final = guest_source("panics.ts")
LINES: Final = dict(enumerate(SOURCE.splitlines(), start=1))
HERE: Final = "assembly/index.ts"


OPTIMISED: Final = pytest.param("small", marks=pytest.mark.long)
"""The build that authors ship; it compiles slowest."""


@pytest.fixture(scope="module", params=["fast", OPTIMISED] if long_form() else ["fast"])
def guest(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guest]:
    folder = tmp_path_factory.mktemp("panics")
    options = fast() if request.param == "fast" else ASC_OPTIONS
    wasm, _ = compile_wasm(folder, NODES, SOURCE, options=options)
    assert check_module(wasm, ["step"]) == []
    guest = Guest(wasm)
    yield guest
    guest.close()


def message(guest: Guest, what: str) -> str:
    """Of the trap that it ends with."""
    value = encode({"what": what})
    given = input_envelope(state=None, schema="t/Try@1", value=value, key=b"", ctx=None)
    fault = guest.run("step", given).fault
    assert fault is not None
    assert fault.kind is FaultKind.TRAP
    where, said = fault.message.split(": ", 1)
    assert where == "step"
    return said


@pytest.mark.parametrize(
    ("what", "file", "words"),
    [
        ("assert", HERE, ": out of eggs"),
        ("assert silently", HERE, ""),
        ("throw", HERE, ": a broken egg"),
        ("null", HERE, ": Unexpected 'null' (not assigned or failed cast)"),
        ("index", "~lib/array.ts", ": Index out of range"),
        ("length", "~lib/array.ts", ": Invalid length"),
        ("other arm", "assembly/generated.ts", ": it is another arm"),
        ("halves", HERE, ": \ufffdx\ufffd\ufffd🥚\ufffd"),
        ("red", HERE, ": \ufffd[31mred  and blue"),
    ],
)
def test_a_failed_assertion_says_where_and_why(
    guest: Guest, what: str, file: str, words: str
) -> None:
    found = re.fullmatch(r"panicked: (\S+):(\d+):\d+(.*)", message(guest, what))

    assert found is not None
    assert (found[1], found[3]) == (file, words)
    if file == HERE:
        assert f'"{what}"' in LINES[int(found[2])]


@pytest.mark.parametrize(("what", "character"), [("long", "🥚"), ("two bytes", "é")])
def test_long_words_are_cut_between_characters(guest: Guest, what: str, character: str) -> None:
    said = message(guest, what).removeprefix("panicked: ")

    size = len(character.encode())
    assert said.endswith(": " + character * said.count(character))
    assert 512 - size < len(said.encode()) <= 512


def test_a_trap_that_is_no_assertion_has_no_words(guest: Guest) -> None:
    assert message(guest, "unreachable") == "an unreachable instruction is reached"
    assert message(guest, "divide") == "an integer is divided by zero"


def test_a_module_that_does_not_export_the_place_traps_without_words(tmp_path: Path) -> None:
    source = SOURCE.replace("alloc, aos_panic", "alloc")
    wasm, _ = compile_wasm(tmp_path, NODES, source, options=fast())
    guest = Guest(wasm)

    assert message(guest, "assert") == "an unreachable instruction is reached"
    guest.close()
