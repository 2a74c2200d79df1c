"""The modules in ``wat/``, and the outcomes that the comment at the head of each requires.

    ;; One sentence about the module.
    ;; refused: <part of a problem>             one line for each problem, in their order
    ;; costly: time | memory                    valid, and the trial compile stops it
    ;; ENTRYPOINT [name=value …] -> OUTCOME     one call; several lines are several calls

    name     input, fuel, memory, output: the call's; without them the bench's own
    OUTCOME  ok VALUE [N pages]    or    FAULT KIND: FAULT MESSAGE [N pages]
        VALUE    0x… | 'text' | u32:N,N,… (little-endian, -1 is 4294967295), each optionally *TIMES

In the text of a module ``{TIMES * text}`` repeats the text TIMES times; ``#`` in it is replaced by
the number of the copy. The innermost is expanded first.
"""

from __future__ import annotations

import functools
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import wasmtime

from aos.core.journal.faults import FaultKind
from aos.sandbox.caps import MIB

WAT: Final = Path(__file__).parent / "wat"
FUEL: Final = 10_000_000
MEMORY_BYTES: Final = 4 * MIB

_REPEAT: Final = re.compile(r"\{(\d+) \* ([^{}]*)\}")
_REFUSED: Final = re.compile(r"refused: (.+)")
_COSTLY: Final = re.compile(r"costly: (time|memory)")
_CALL: Final = re.compile(r"(\S+)((?: (?:input|fuel|memory|output)=\S+)*) -> (.+)")
_OUTCOME: Final = re.compile(r"(?:ok (?P<ok>\S+)|(?P<kind>[a-z_]+): (?P<message>.+?))"
                             r"(?: \[(?P<pages>\d+) pages?\])?")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One call and how it must end. ``pages`` None: not said."""

    module: str
    line: str
    entrypoint: str
    input: bytes = b""
    fuel: int = FUEL
    memory_bytes: int = MEMORY_BYTES
    output_bytes: int = MIB
    output: bytes | None
    fault: tuple[FaultKind, str] | None
    pages: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A file of the corpus. Exactly one of ``refused``, ``costly`` and ``calls`` says anything."""

    name: str
    about: str
    refused: tuple[str, ...]
    costly: str | None
    calls: tuple[Expected, ...]


class Unclear(Exception):
    """The head of a file does not say what to expect, or what it says cannot be read."""


def names() -> list[str]:
    return sorted(path.stem for path in WAT.rglob("*.wat"))


@functools.cache
def path_of(name: str) -> Path:
    (only,) = WAT.rglob(f"{name}.wat")
    return only


@functools.cache
def wasm(name: str) -> bytes:
    """Read the bytes of the module ``name`` from the folder that contains it."""
    return assemble(path_of(name).read_text("utf-8"))


def assemble(wat: str) -> bytes:
    while (written := _REPEAT.sub(_repeated, wat)) != wat:
        wat = written
    return bytes(wasmtime.wat2wasm(wat))


def _repeated(found: re.Match[str]) -> str:
    times, text = int(found[1]), found[2]
    if "#" not in text:
        return text * times
    return "".join(text.replace("#", str(number)) for number in range(times))


@functools.cache
def read(name: str) -> Module:
    """Raises ``Unclear``."""
    text = path_of(name).read_text("utf-8")
    head = [line[2:].strip() for line in text.splitlines() if line.startswith(";;")]
    if not text.startswith(";; ") or not head[0].endswith("."):
        raise Unclear(f"{name}: expected a comment that begins with one sentence")
    refused = [found[1] for line in head if (found := _REFUSED.fullmatch(line))]
    costly = [found[1] for line in head if (found := _COSTLY.fullmatch(line))]
    calls = [_call(name, line, found) for line in head if (found := _CALL.fullmatch(line))]
    if sum(map(bool, (refused, costly, calls))) != 1 or len(costly) > 1:
        raise Unclear(f"{name}: expected what it is refused for, or costs, or what its calls give")
    return Module(
        name=name,
        about=head[0],
        refused=tuple(refused),
        costly=costly[0] if costly else None,
        calls=tuple(calls),
    )


def _call(name: str, line: str, found: re.Match[str]) -> Expected:
    outcome = _OUTCOME.fullmatch(found[3])
    if outcome is None:
        raise Unclear(f"{name}: an outcome that cannot be read: {found[3]}")
    given = dict(each.split("=", 1) for each in found[2].split())
    fault = None
    if outcome["kind"] is not None:
        fault = (FaultKind(outcome["kind"]), outcome["message"])
    return Expected(
        module=name,
        line=line,
        entrypoint=found[1],
        input=value(given.get("input", "0x")),
        fuel=int(given.get("fuel", FUEL)),
        memory_bytes=int(given.get("memory", MEMORY_BYTES)),
        output_bytes=int(given.get("output", MIB)),
        output=None if outcome["ok"] is None else value(outcome["ok"]),
        fault=fault,
        pages=None if outcome["pages"] is None else int(outcome["pages"]),
    )


def value(text: str) -> bytes:
    """Raises ``Unclear``."""
    one, _, times = text.partition("*")
    if one.startswith("0x"):
        data = bytes.fromhex(one[2:])
    elif one.startswith("u32:"):
        data = b"".join(struct.pack("<I", int(each) % 2**32) for each in one[4:].split(","))
    elif len(one) >= 2 and one[0] == one[-1] == "'":
        data = one[1:-1].encode()
    else:
        raise Unclear(f"a value that cannot be read: {text}")
    return data * int(times or 1)
