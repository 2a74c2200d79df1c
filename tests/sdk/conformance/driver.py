"""A world in memory with one of the conformance modules, and the result of each step.

    world = ConformanceWorld("rust")
    world.give("conformance/Touch@1", {})
    world.seen[-1].state

The world is the same for every language except for the module's bytes: stamps, entropy and
sequences are equal. ``normal`` replaces the hashes of those bytes by equal names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Final

from aos.core.decide.answers import Admitted
from aos.core.journal.ports import Call, Ran
from aos.core.journal.records import Faulted, Step
from aos.core.state.cell import OpenIntent
from aos.manifest.effective import Workflow
from aos.manifest.load import Loaded, load
from aos.sandbox.engine import Sandbox
from aos.sandbox.inspect import check_module
from aos.values.cbor import Value, decode_ingress, decode_record
from tests.memory_world import MemoryWorld
from tests.modules.guests import ROOT

LANGUAGES: Final = ("rust", "assemblyscript")
FOLDER: Final = ROOT / "modules/conformance"
PLACE: Final = re.compile(r"panicked: \S+:\d+:\d+: ")


@cache
def loaded(language: str) -> Loaded:
    """The manifest, with this language's module where it names the Rust one."""
    wasm = (FOLDER / language / "conformance.wasm").read_bytes()
    files = {f"air/{path.name}": path.read_bytes() for path in (FOLDER / "air").glob("*.air.json")}
    return load({**files, "rust/conformance.wasm": wasm}, check=check_module)


@cache
def sandbox(language: str) -> Sandbox:
    """One for all worlds of a language: compiling the module takes longest. ``close`` ends it."""
    return Sandbox(loaded(language).modules.__getitem__)


def close() -> None:
    for language in LANGUAGES:
        sandbox(language).close()
    sandbox.cache_clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    effect: str
    params: Any
    key: str | bytes | None = None
    ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    schema: str
    value: Any
    key: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One step: what the module answered, decoded, and what the kernel made of it.

    ``declared`` is the status that the module named, ``status`` the instance's afterwards;
    ``fault`` is (kind, message) of the kernel's record.
    """

    workflow: str
    event: Any
    state: Any = None
    events: tuple[Emitted, ...] = ()
    effects: tuple[Asked, ...] = ()
    ann: Any = None
    declared: str | None = None
    status: str = "failed"
    fault: tuple[str, str] | None = None
    output: bytes | None = None


@dataclass
class Spy:
    """A runner that keeps what it was asked and how it ended."""

    runner: Sandbox
    calls: list[tuple[Call, Ran]] = field(default_factory=list)

    def run(self, call: Call) -> Ran:
        ran = self.runner.run(call)
        self.calls.append((call, ran))
        return ran


class ConformanceWorld(MemoryWorld):
    """``seen`` has every step so far."""

    def __init__(self, language: str) -> None:
        manifest = loaded(language)
        super().__init__(manifest, {})
        self.seal()
        self.sandbox = self.spy = Spy(sandbox(language))
        self.seen: list[Seen] = []

    def give(self, schema: str, value: object) -> Seen:
        """Send an event in its JSON form and run; the first step that came of it."""
        given = self.effective.schemas[schema].from_json_object(value)
        answer = self.send(schema, given)
        assert isinstance(answer, Admitted), answer
        return self.take_steps()

    def answer(self, ref: str, payload: Value, *, status: str = "ok") -> Seen:
        """Settle the open intent with this issuer reference."""
        return self._admitted(self.settle(self.intent(ref), payload, status=status))

    def error(self, ref: str, code: str, *, status: str = "error") -> Seen:
        return self._admitted(self.fail(self.intent(ref), code, status=status))

    def intent(self, ref: str) -> OpenIntent:
        [found] = [each for each in self.open() if each.issuer_ref == ref]
        return found

    def _admitted(self, answer: object) -> Seen:
        assert isinstance(answer, Admitted), answer
        return self.take_steps()

    def take_steps(self) -> Seen:
        """Run until no cell is ready; return the first step."""
        before = len(self.spy.calls)
        records = [each for each in self.run() if isinstance(each, Step | Faulted)]
        calls = self.spy.calls[before:]
        assert len(records) == len(calls)
        first = len(self.seen)
        for record, (call, ran) in zip(records, calls, strict=True):
            self.seen.append(self._seen(record, call, ran))
        return self.seen[first]

    def _seen(self, record: Step | Faulted, call: Call, ran: Ran) -> Seen:
        workflow = self.effective.workflows[record.cell[0]]
        envelope: Any = decode_record(call.input)
        event = workflow.event.from_record(envelope["event"]["value"])
        output: Any = {} if ran.output is None else decode_ingress(ran.output)
        status = self.state.cells[record.cell].status if record.cell in self.state.cells else "gone"
        if isinstance(record, Faulted):
            fault = record.fault.kind.value, record.fault.message
            return Seen(workflow=workflow.name, event=event, fault=fault, output=ran.output)
        return Seen(
            workflow=workflow.name,
            event=event,
            state=None if output["state"] is None else workflow.state.from_record(output["state"]),
            events=tuple(self._events(output)),
            effects=tuple(self._effects(output)),
            ann=self._annotation(workflow, output),
            declared=output.get("status"),
            status=status,
            output=ran.output,
        )

    def _events(self, output: Mapping[str, Any]) -> Iterator[Emitted]:
        for event in output.get("domain_events", ()):
            schema = self.effective.schemas[event["schema"]]
            key = event.get("key")
            yield Emitted(
                schema=event["schema"],
                value=schema.from_record(event["value"]),
                key=None if key is None else decode_record(key),
            )

    def _effects(self, output: Mapping[str, Any]) -> Iterator[Asked]:
        for effect in output.get("effects", ()):
            params = self.effective.effects[effect["effect"]].params
            yield Asked(
                effect=effect["effect"],
                params=params.from_record(effect["params"]),
                key=effect.get("idempotency_key"),
                ref=effect.get("issuer_ref"),
            )

    def _annotation(self, workflow: Workflow, output: Mapping[str, Any]) -> Any:
        if output.get("ann") is None:
            return None
        assert workflow.annotations is not None
        return workflow.annotations.from_record(output["ann"])


def normal(seen: list[Seen]) -> list[Any]:
    """The trace with equal names for what differs because the modules' bytes do.

    A hash becomes the number of its first appearance, which is the same in every language; of a
    signature and of the manifest's document only the length is kept, and of a panic the words.
    """
    names: dict[str, str] = {}
    return [_normal(each, names) for each in seen]


def _normal(value: Any, names: dict[str, str], name: str = "") -> Any:
    if isinstance(value, str) and value.startswith("blake3:"):
        return names.setdefault(value, f"hash {len(names)}")
    if isinstance(value, str) and name == "fault":
        return PLACE.sub("panicked: ", value)
    if isinstance(value, bytes):
        return len(value) if name in ("signature", "manifest", "receipt_payload") else value.hex()
    if isinstance(value, Mapping):
        return {
            _normal(key, names): _normal(inside, names, str(key)) for key, inside in value.items()
        }
    if isinstance(value, list | tuple):
        return [_normal(inside, names, name) for inside in value]
    if isinstance(value, Seen | Asked | Emitted):
        kept = {each.name: getattr(value, each.name) for each in fields(value)}
        return _normal({name: kept[name] for name in kept if name != "output"}, names)
    return value
