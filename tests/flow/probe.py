"""A world with the flow of modules/sdk-rust/tests/flows; its start names the program to run."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from types import TracebackType
from typing import Any, Final, Self

from aos.core.decide.answers import Decided
from aos.core.journal.inputs import EventInput
from aos.testing import NEVER, Fail
from aos.testing.views import cell_id
from aos.testing.world import World
from aos.values.cbor import decode_record
from tests.modules.guests import MODULES
from tests.sdk.rust.examples import with_manifest

FOLDER: Final = "sdk-rust/tests/flows"
FLOW: Final = "t/probe@1"
CHILD: Final = "t/child@1"
MODULE: Final = "t/flows.module@1"
MINUTE: Final = 60 * 10**9
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

KINDS: Final = (
    "step", "local", "emit", "sleep", "listen", "join", "race", "branch", "scope", "loop",
    "iteration", "checkpoint", "rollback_to", "commit", "version", "removed", "call", "spawn",
)  # fmt: skip
STATES: Final = ("pending", "running", "completed", "failed", "exhausted", "cancelled")
UNDOS: Final = ("registered", "running", "done", "stuck", "skipped")


@cache
def _nodes() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((MODULES / FOLDER / "flows.nodes.json").read_text())
    return found


def nodes(entrypoint: str = "probe", **limits: int) -> list[Any]:
    """The manifest, with another version of the flow, or other limits, if they are given."""
    given: list[Any] = with_manifest(deepcopy(_nodes()), "flows.wasm")
    for node in given:
        if node["$kind"] == "defworkflow" and node["name"] == FLOW:
            node["impl"]["entrypoint"] = entrypoint
            node["upgrade"] = "in_place"
            node["limits"] |= limits
    return given


@cache
def wasm() -> bytes:
    return (MODULES / FOLDER / "flows.wasm").read_bytes()


def deliver(world: World, schema: str, value: object) -> None:
    """Send an event also to a flow that has ended, as if it had been admitted before the end; it is
    one that ``World.send`` refuses (FL-83)."""
    data = world._canonical(schema, value, "send")
    desk = world._desk
    decision = desk._kernel.decide(EventInput(schema=schema, value=data), desk.stamp())
    assert isinstance(decision, Decided), decision
    desk._kernel.enter(decision)
    desk._watch(decision.record)


class Probe:
    """A world, and the one flow in it."""

    def __init__(self, program: str, *, key: str = "a", answers: bool = True, **start: Any) -> None:
        self.world = World(nodes(), modules={MODULE: wasm()})
        self.key = key
        self.start = {
            "id": key, "program": program, "count": 0, "pause": HOUR, "until": 0, "blob": None,
        } | start  # fmt: skip
        if answers:
            self.answer()

    def __enter__(self) -> Self:
        self.world.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.world.__exit__(kind, problem, where)

    def answer(self, **special: object) -> None:
        """Answer every effect with its name, except those of the given names."""

        def script(what: str, name: str) -> object:
            return special.get(name.replace("-", "_").replace(" ", "_"), {"note": what})

        self.world.on("t/do@1", lambda params: script(params["what"], params["what"]))
        self.world.on("t/undo@1", lambda params: script(params["what"], "undo_" + params["what"]))

    def begin(self, *, may_fail: bool = False) -> Probe:
        self.world.send("t/Go@1", self.start)
        self.world.run(may_fail=may_fail)
        return self

    def note(self, text: str, *, runs: bool = True) -> None:
        deliver(self.world, "t/Note@1", {"id": self.key, "text": text})
        if runs:
            self.world.run()

    def fire(self) -> None:
        """Let the next timer fire, and no step run: the next input is in the mailbox behind it."""
        due = self.world._dispatch.next_due()  # the world itself would run the steps
        assert due is not None
        self.world._desk.now_ns = due
        assert self.world._dispatch.serve()

    def bell(self, times: int) -> None:
        self.world.send("t/Bell@1", {"id": self.key, "times": times})
        self.world.run()

    def control(self, arm: str, value: object = None) -> None:
        command = {"$tag": arm} if value is None else {"$tag": arm, "$value": value}
        deliver(self.world, "t/ProbeControl@1", {"instance": self.key, "command": command})
        self.world.run()

    def upgrade(self, **limits: int) -> None:
        """Continue under the later version of the code."""
        self.world.apply(nodes("next", **limits), modules={MODULE: wasm()}, mode="pin")

    def mend(self) -> None:
        """Return to the first version of the code."""
        self.world.apply(nodes(), modules={MODULE: wasm()}, mode="pin")

    @property
    def state(self) -> Any:
        return self.world.state(FLOW, self.key)

    @property
    def status(self) -> str:
        state = self.state
        status: str = state["status"]
        return status

    @property
    def output(self) -> Any:
        output = self.state["output"]
        return None if output is None else decode_record(output)

    @property
    def error(self) -> Any:
        error = self.state["error"]
        return None if error is None else decode_record(error)

    @property
    def view(self) -> Any:
        view = self.state["view"]
        return None if view is None else decode_record(view)

    @property
    def history(self) -> list[Any]:
        history = decode_record(self.state["ops"])
        assert isinstance(history, list)
        assert history[0] == 1
        return history

    @property
    def inbox(self) -> list[str]:
        """The schemas of the messages that wait."""
        stored: Any = decode_record(self.state["inbox"])
        return [schema for _, schema, _ in stored[1]]

    @property
    def paths(self) -> dict[str, str]:
        """The state of each operation, by its path."""
        found: list[str] = []
        states = {}
        for parent, kind, name, state, *_ in self.history[1]:
            part = name if KINDS[kind] == "iteration" else escaped(name)
            path = part if parent == 0 else f"{found[parent - 1]}/{part}"
            found.append(path)
            states[path] = f"{KINDS[kind]} {STATES[state]}"
        return states

    @property
    def undos(self) -> dict[str, str]:
        return {path: UNDOS[state] for path, _, _, state, *_ in self.history[2]}

    def asked(self, effect: str) -> list[str]:
        return [each.params["what"] for each in self.world.asked(effect)]

    @property
    def done(self) -> list[str]:
        return self.asked("t/do@1")

    @property
    def undone(self) -> list[str]:
        return self.asked("t/undo@1")

    @property
    def fault(self) -> tuple[str, str]:
        fault = self.world.faults(FLOW)[-1]
        return fault.kind, fault.message

    @property
    def fault_detail(self) -> bytes:
        desk = self.world._desk  # the world shows the message only
        cell = desk.state.cells[cell_id(desk, FLOW, self.key)]
        assert cell.fault is not None
        assert cell.fault.detail is not None
        return cell.fault.detail


def escaped(name: str) -> str:
    name = name.replace("%", "%25").replace("/", "%2F")
    return "%7E" + name[1:] if name.startswith("~") else name


__all__ = ["CHILD", "DAY", "FLOW", "HOUR", "MINUTE", "NEVER", "Fail", "Probe"]
