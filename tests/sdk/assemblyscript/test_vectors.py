"""spec/vectors through the codec of the AssemblyScript SDK, in a guest that reads and writes.

Of refused.json only the record gate's vectors are a guest's: the kernel gives it canonical bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from aos.values.cbor import INGRESS_DEPTH_MAX
from tests.memory_world import schema, workflow
from tests.modules.guests import ROOT
from tests.sdk.assemblyscript.asc import Guest, compile_wasm, fast

Vector = Mapping[str, Any]


def read(name: str) -> list[Vector]:
    found: list[Vector] = json.loads((ROOT / f"spec/vectors/{name}.json").read_text())
    return found


def size_bytes(vector: Vector) -> int:
    return sum(len(piece) // 2 * times for piece, times in vector.get("runs", ()))


VALUES: Final = read("values")
REFUSED: Final = [
    vector
    for vector in read("refused")
    if vector["gate"] == "record" and size_bytes(vector) <= 1 << 20
]
LONG: Final = [
    vector
    for vector in read("refused")
    if vector["gate"] == "record" and size_bytes(vector) > 1 << 20
]


def data_of(vector: Vector) -> bytes:
    if "hex" in vector:
        return bytes.fromhex(vector["hex"])
    return b"".join(bytes.fromhex(piece) * times for piece, times in vector["runs"])


class Types:
    """A workflow for each type of the vectors, whose state is of it; refs are renamed apart."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = [schema("t/Event@1", {"record": {}})]
        self.numbers: dict[str, int] = {}

    def number(self, vector: Vector) -> int:
        """Which schema, ``t/T<number>@1``, a vector's value is of."""
        key = json.dumps([vector["type"], vector.get("schemas")], sort_keys=True)
        if key in self.numbers:
            return self.numbers[key]
        number = self.numbers[key] = len(self.numbers)
        names = {name: f"t/T{number}x{i}@1" for i, name in enumerate(vector.get("schemas", {}))}
        for name, expression in vector.get("schemas", {}).items():
            self.nodes.append(schema(names[name], renamed(expression, names)))
        state = f"t/T{number}@1"
        self.nodes.append(schema(state, renamed(vector["type"], names)))
        self.nodes.append(workflow(f"t/w{number}@1", state=state, event="t/Event@1"))
        return number


def renamed(expression: Any, names: Mapping[str, str]) -> Any:
    if isinstance(expression, dict):
        if set(expression) == {"ref"} and isinstance(expression["ref"], str):
            return {"ref": names[expression["ref"]]}
        return {key: renamed(inside, names) for key, inside in expression.items()}
    return expression


TYPES: Final = Types()
CASES: Final = {
    id(vector): TYPES.number(vector) for vector in (*VALUES, *REFUSED) if "type" in vector
}

ANY: Final = 0xFFFF

SOURCE: Final = """
import {{ Reader, Workflow, Writer }} from "aos-sdk";
import * as t from "./generated";

export {{ alloc, aos_panic }} from "aos-sdk";

/** A number of a type, and a value: 1 and the value again, or 0 and why not. */
export function recode(pointer: i32, length: i32): u64 {{
  const at = <usize>pointer;
  const r = new Reader(at + 2, at + <usize>length);
  const workflow = taker(load<u16>(at));
  if (workflow !== null) workflow.aosReadState(r);
  else r.skip();
  const done = r.done();
  const w = new Writer();
  w.nat(done);
  if (!done) w.text(r.problem!);
  else if (workflow !== null) workflow.aosWriteState(w);
  return ((<u64>w.start) << 32) | <u64>w.size;
}}

function taker(number: i32): Workflow | null {{
  switch (number) {{
{cases}
  }}
  return null;
}}

{classes}
"""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    cases = "\n".join(
        f"    case {number}: return new W{number}();" for number in TYPES.numbers.values()
    )
    classes = "\n".join(
        f"class W{number} extends t.W{number}Workflow {{ onEvent(_event: t.Event): void {{}} }}"
        for number in TYPES.numbers.values()
    )
    source = SOURCE.format(cases=cases, classes=classes)
    wasm, _ = compile_wasm(tmp_path_factory.mktemp("vectors"), TYPES.nodes, source, options=fast())
    guest = Guest(wasm)
    yield guest
    guest.close()


def recode(guest: Guest, number: int, data: bytes) -> tuple[bool, bytes]:
    """Return whether the guest read ``data``, and the bytes it wrote again or the reason."""
    ran = guest.run("recode", number.to_bytes(2, "little") + data)
    assert ran.output is not None, ran.fault
    return ran.output[0] == 1, ran.output[1:]


def test_every_value_is_read_and_written_as_it_was(guest: Guest) -> None:
    assert len(VALUES) > 90
    for vector in VALUES:
        data = bytes.fromhex(vector["value_cbor_hex"])

        taken, written = recode(guest, CASES[id(vector)], data)

        assert taken, (vector["name"], written)
        assert written == data, vector["name"]
        assert recode(guest, ANY, data) == (True, b""), vector["name"]


def test_a_value_that_the_record_gate_refuses_is_refused(guest: Guest) -> None:
    assert len(REFUSED) > 60
    for vector in REFUSED:
        taken, why = recode(guest, CASES.get(id(vector), ANY), data_of(vector))

        assert not taken, vector["name"]
        assert len(why) > 3, vector["name"]


def test_a_vector_that_is_too_long_for_a_guest_is_only_long() -> None:
    """They are refused for their length or number, which the kernel has bounded already."""
    assert all("too" in vector["message"] or "at most" in vector["message"] for vector in LONG)


def test_every_prefix_of_a_value_is_refused(guest: Guest) -> None:
    for vector in VALUES:
        data = bytes.fromhex(vector["value_cbor_hex"])
        for length in range(max(0, len(data) - 40), len(data)):
            taken, _ = recode(guest, CASES[id(vector)], data[:length])
            assert not taken, (vector["name"], length)


def test_every_changed_byte_is_refused_or_written_as_it_is(guest: Guest) -> None:
    """Each accepted value is canonical: the guest writes the same bytes."""
    for vector in VALUES:
        data = bytes.fromhex(vector["value_cbor_hex"])
        for at in range(min(len(data), 24)):
            for change in (0x01, 0x20, 0x80):
                other = data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]
                taken, written = recode(guest, CASES[id(vector)], other)
                assert not taken or written == other, (vector["name"], at, change)


def test_the_deepest_value_is_read_and_one_deeper_is_not(guest: Guest) -> None:
    for levels, taken in ((2 * INGRESS_DEPTH_MAX, True), (2 * INGRESS_DEPTH_MAX + 1, False)):
        assert recode(guest, ANY, b"\x81" * levels + b"\xf6")[0] is taken
